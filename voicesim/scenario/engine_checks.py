"""Knobs of an engine that its kind, or the scenario, makes no use of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from .cluster import KEEPS_OWN, KNOBS_OF, Codec, Edf, Engine, Pool
from .dialogue import Dialogue
from .errors import Path
from .workload import Workload


def unused(scenarios: Sequence[Any]) -> Iterator[tuple[Path, str]]:
    """(path, sentence) for every knob that is given although no variant's engine uses it."""
    engines: dict[str, list[tuple[Any, Engine]]] = {}
    codecs: dict[str, list[Codec]] = {}
    for s in scenarios:
        pools = s.cluster.pools if isinstance(s.cluster.pools, dict) else {}
        for name, pool in pools.items():
            read = isinstance(pool, Pool) and isinstance(pool.engine, Engine)
            if read and isinstance(pool.engine.kind, str):
                engines.setdefault(name, []).append((s.workload, pool.engine))
            if read and isinstance(pool.codec, Codec):
                codecs.setdefault(name, []).append(pool.codec)
    for name, found in engines.items():
        at: Path = ("cluster", "pools", name, "engine")
        given = {knob for _, engine in found for knob in engine.model_fields_set}
        kinds = {engine.kind for _, engine in found}
        for knob, users in KNOBS_OF.items():
            if knob in given and kinds.isdisjoint(users):
                text = f"never used: only {' and '.join(users)} have it; kind is"
                yield (*at, knob), f"{text} {' or '.join(sorted(kinds))}"
        yield from _of_the_codec(name, codecs.get(name, []))
        whole = [w for w, _ in found if isinstance(w, Workload | Dialogue)]
        calls = [w for w in whole if isinstance(w, Workload)]
        if len(whole) < len(found):
            continue
        if "idle_timeout" in given and all(w.left_open == 0 for w in calls):
            yield (*at, "idle_timeout"), "never used: workload.left_open is 0"
        off = any(engine.prefix_caching is False for _, engine in found)
        alike = all(w.utterance.shared_prefix == 0 for w in calls) and len(calls) == len(found)
        if off and alike and kinds.isdisjoint(KEEPS_OWN):
            yield (*at, "prefix_caching"), "never used: workload.utterance.shared_prefix is 0"


def _of_the_codec(name: str, codecs: Sequence[Codec]) -> Iterator[tuple[Path, str]]:
    at: Path = ("cluster", "pools", name, "codec")
    if any("handoff" in c.model_fields_set for c in codecs) and all(
        c.on == "same_gpu" for c in codecs
    ):
        yield (*at, "handoff"), "never used: the codec is on the engine's card (on: same_gpu)"
    queues = [c.queue for c in codecs if isinstance(c.queue, Edf)]
    if any("lead" in q.model_fields_set for q in queues) and all(q.reserve is None for q in queues):
        yield (*at, "queue", "lead"), "never used: give reserve too"
