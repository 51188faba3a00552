"""What is wrong between the fields of a dialogue that are each fine.

As in ``checks``, parts that could not be read are no instance of anything here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from .arrivals import Closed, Trace
from .asr import AsrPool
from .cluster import Edf, Pool, Pressing
from .dialogue import Budget, Dialogue, Images, Tenant
from .errors import Path, unknown
from .part import Part
from .pipeline import (
    Cascade,
    Client,
    DynamicEndpointing,
    Pipeline,
    Segmenter,
    SemanticEndpointing,
)
from .policies import CapQueue, Custom, Slack
from .prices import Prices, wrong_prices
from .units import Distribution

MOST_TURNS = 20_000_000
"""Turns of one run at most: all are drawn before it begins."""


def dialogue(s: Any) -> Iterator[tuple[Path, str]]:
    """(path, sentence) for everything wrong in a scenario whose workload is a dialogue."""
    yield from _calls(s.workload, s.horizon)
    yield from _tenants(s.workload)
    yield from _policies(s)
    pools = s.cluster.pools if isinstance(s.cluster.pools, dict) else {}
    if all(isinstance(pool, Part) for pool in pools.values()):
        yield from _stages(pools, s.pipeline)
    if isinstance(s.pipeline, Pipeline):
        yield from _pipeline(s.pipeline)
    if isinstance(s.prices, Prices) and isinstance(s.cluster.gpus, dict):
        roles = {n: p.role for n, p in pools.items() if isinstance(p, Pool | AsrPool)}
        for path, text in wrong_prices(s.prices, s.cluster.gpus, roles):
            yield ("prices", *path), text


def _calls(w: Dialogue, horizon: Any) -> Iterator[tuple[Path, str]]:
    at: Path = ("workload", "arrivals")
    if isinstance(w.arrivals, Closed):
        text = "a dialogue has calls that end: give open arrivals (poisson, surge, ...) or a trace"
        yield (*at, "kind"), f"{text}, and policies.admission cap for a bound on live calls"
        return
    if isinstance(w.arrivals, Trace) and (more := set(w.arrivals.columns) - {"t_s", "session"}):
        text = f"gives {', '.join(sorted(more))}, never used: a dialogue takes only the starts"
        yield (*at, "file"), f"{text} of calls from a trace"
        return
    if isinstance(w.turns, Distribution) and isinstance(horizon, float):
        turns = w.arrivals.expected(horizon) * w.turns.mean() if _read(w.arrivals) else 0.0
        if turns > MOST_TURNS:
            yield at, f"makes {turns:,.0f} turns in {horizon:g}s; {MOST_TURNS:,} at most"


def _read(part: Any) -> bool:
    """Whether a mapping was read without holes."""
    return all(type(value).__name__ != "Hole" for value in vars(part).values())


def _tenants(w: Dialogue) -> Iterator[tuple[Path, str]]:
    at: Path = ("workload", "tenants")
    tenants = [each for each in w.tenants if isinstance(each, Tenant)]
    names = [each.name for each in tenants]
    for i, name in enumerate(names):
        if isinstance(name, str) and (not name or "." in name):
            text = f"expected a name without a dot; found {name!r}"
            yield (*at, i, "name"), f"{text} (it becomes part of metrics' names)"
        if name in names[:i]:
            yield (*at, i, "name"), f"an earlier tenant is named {name!r} too"
    shares = [each.share for each in tenants if isinstance(each.share, float)]
    if tenants and len(shares) == len(list(w.tenants)) and abs(sum(shares) - 1.0) > 1e-9:
        yield at, f"the shares must add up to 1; found {sum(shares):g}"
    if tenants and isinstance(w.budget, Budget):
        text = "never used: every caller belongs to a tenant; give each its budget"
        yield ("workload", "budget"), text
    yield from _talk(("workload",), w)
    for i, each in enumerate(tenants):
        yield from _talk((*at, i), each)


def _talk(at: Path, talk: Any) -> Iterator[tuple[Path, str]]:
    if isinstance(talk.budget, Budget):
        parts = [p.within for p in talk.budget.segments.values() if isinstance(p, Part)]
        if all(isinstance(x, float) for x in (*parts, talk.budget.total)):
            spent = math.fsum(parts)
            if spent > talk.budget.total + 1e-9:
                text = f"the segments' parts add up to {spent:g}s, more than the total"
                yield (*at, "budget", "total"), text
    tail = getattr(talk.reply, "tail", None)
    least, most = getattr(tail, "least", None), getattr(tail, "most", None)
    if isinstance(least, float) and isinstance(most, float) and most < least:
        yield (*at, "reply", "tail", "most"), f"is less than least ({least:g}s)"
    if getattr(talk.barge_in, "share", None) == 1.0:
        text = "is 1: only callers who interrupt at the first sound do so in every call; give less"
        yield (*at, "barge_in", "share"), text
    images = talk.images
    alone = isinstance(talk, Dialogue) and not talk.tenants
    if alone and isinstance(images, Images) and images.share == 0:
        yield (*at, "images", "share"), "is 0, so nobody shows a picture; leave images out"


def _policies(s: Any) -> Iterator[tuple[Path, str]]:
    admission, routing = s.policies.admission, s.policies.routing
    if isinstance(admission, CapQueue | Slack | Custom):
        text = "of a dialogue is admit_all or cap (calls at once in the whole cluster)"
        yield ("policies", "admission"), f"{admission.kind} is for utterances; admission {text}"
    if getattr(routing, "age", 0) or routing.kind in ("bounded_hash", "inverse_prob", "pack"):
        text = "is for utterances; in a dialogue routers always know: round_robin, least_streams, "
        yield ("policies", "routing"), f"{text}power_of_two without age"
    if s.policies.health is not None:
        yield ("policies", "health"), "is for utterances; nothing fails in a dialogue"
    if isinstance(routing, Custom):
        text = "a dialogue routes within each stage by a built-in rule: round_robin, "
        yield ("policies", "routing"), f"{text}least_streams, power_of_two"
    if s.alarms:
        text = "alarms watch the engines of one pool; a dialogue has several: leave them out"
        yield ("alarms",), text


def _stages(pools: dict[str, Any], pipeline: Any) -> Iterator[tuple[Path, str]]:
    at: Path = ("cluster", "pools")
    roles: dict[str, list[str]] = {"asr": [], "llm": [], "tts": [], "omni": []}
    for name, pool in pools.items():
        role = pool.role if isinstance(pool.role, str) else "tts"  # what could not be read
        roles[role if role in roles else "tts"].append(name)
        if isinstance(pool, Pool):
            yield from _stage((*at, name), pool)
    for role, what in (("llm", "language model"), ("tts", "speech synthesis")):
        if pools and not roles[role]:
            yield at, f"a dialogue needs a pool of role {role} ({what})"
    for role in ("asr", "omni"):
        for name in roles[role][1:]:
            yield (*at, name, "role"), f"there is a pool of role {role} already: {roles[role][0]}"
    if isinstance(pipeline, Pipeline):
        yield from _routes(roles, pipeline)
    yield from _by_share(at, {name: pools[name] for name in roles["tts"]})


def _stage(at: Path, pool: Pool) -> Iterator[tuple[Path, str]]:
    if pool.role == "llm":
        for name in ("codec", "chunk"):
            if name in pool.model_fields_set:
                yield (*at, name), "never used: a language model makes text"
    if pool.role != "tts" and pool.share is not None:
        yield (*at, "share"), "never used: only pools of role tts divide the callers by share"
    text = "the buffer of a dialogue's listener holds answers, and the stage sees units of them"
    if getattr(pool.engine, "pacing", None) is not None:
        yield (*at, "engine", "pacing"), f"not in a dialogue: {text}; see pipeline.ahead"
    queue = getattr(pool.codec, "queue", None)
    if isinstance(queue, Pressing):
        yield (*at, "codec", "queue", "kind"), f"pressing: not in a dialogue: {text}"
    if isinstance(queue, Edf) and queue.reserve is not None:
        yield (*at, "codec", "queue", "reserve"), f"not in a dialogue: {text}"


def _by_share(at: Path, pools: dict[str, Any]) -> Iterator[tuple[Path, str]]:
    """Several synthesisers divide the calls."""
    for name, pool in pools.items():
        if len(pools) == 1 and pool.share is not None:
            yield (*at, name, "share"), "never used: the only pool of role tts serves all calls"
        if len(pools) > 1 and pool.share is None:
            yield (*at, name), "needs its share of the calls: there are several of role tts"
    shares = [pool.share for pool in pools.values() if isinstance(pool.share, float)]
    if len(shares) == len(pools) > 1 and abs(sum(shares) - 1.0) > 1e-9:
        yield at, f"the shares of role tts must add up to 1; found {sum(shares):g}"


def _routes(roles: dict[str, list[str]], pipeline: Pipeline) -> Iterator[tuple[Path, str]]:
    """Which pool answers: cascade and omni."""
    cascade, llm = pipeline.cascade, roles["llm"]
    at: Path = ("pipeline", "cascade")
    if isinstance(cascade, Cascade):
        for size in ("small", "large"):
            name = getattr(cascade, size)
            if isinstance(name, str) and name not in llm:
                yield (*at, size), unknown(name, llm, f"no pool of role llm is named {name!r}")
        if isinstance(cascade.small, str) and cascade.small == cascade.large:
            yield (*at, "large"), "is the small model too; name two pools"
        if (cascade.small_share is None) == (cascade.first_turns is None):
            found = "neither" if cascade.small_share is None else "both"
            yield at, f"give exactly one of small_share and first_turns; found {found}"
        for name in llm:
            if name not in (cascade.small, cascade.large):
                yield ("cluster", "pools", name), "never used: pipeline.cascade does not name it"
    elif len(llm) > 1:
        text = f"give pipeline.cascade {{small, large}}: there are {len(llm)} pools of role llm"
        yield ("cluster", "pools", llm[1], "role"), text
    if roles["omni"] and pipeline.omni is None:
        text = "never used: give pipeline.omni {share} to send answers to it"
        yield ("cluster", "pools", roles["omni"][0]), text
    if pipeline.omni is not None and not roles["omni"]:
        yield ("pipeline", "omni"), "there is no pool of role omni to answer"


def _pipeline(p: Pipeline) -> Iterator[tuple[Path, str]]:
    ends = p.endpointing
    if isinstance(ends, DynamicEndpointing | SemanticEndpointing) and ends.max < ends.min:
        yield ("pipeline", "endpointing", "max"), f"is less than min ({ends.min:g}s)"
    if isinstance(p.segmenter, Segmenter) and p.segmenter.unit == "reply":
        for name in ("first", "later", "min_chars", "lookahead"):
            if name in p.segmenter.model_fields_set:
                yield ("pipeline", "segmenter", name), "never used: the unit is the whole reply"


def unused(scenarios: Sequence[Any]) -> Iterator[tuple[Path, str]]:
    """Knobs of the pipeline that are given although no variant uses them."""
    pipes = [s.pipeline for s in scenarios if isinstance(s.pipeline, Pipeline)]
    clients = [p.client for p in pipes if isinstance(p.client, Client)]
    if clients and all(c.connection == "reused" for c in clients):
        for name in ("round_trips", "round_trip"):
            if any(name in c.model_fields_set for c in clients):
                yield ("pipeline", "client", name), "never used: connections are reused"
    serial = clients and all(c.stages == "serial" for c in clients)
    if serial and any("segmenter" in p.model_fields_set for p in pipes):
        text = "never used: with client.stages serial the whole reply is one unit"
        yield ("pipeline", "segmenter"), text
    cutters = [p.segmenter for p in pipes if isinstance(p.segmenter, Segmenter)]
    if any("phrase" in c.model_fields_set for c in cutters) and all(
        c.unit != "phrase" for c in cutters
    ):
        yield ("pipeline", "segmenter", "phrase"), "never used: the unit is no phrase"
    engines = [
        pool.engine
        for s in scenarios
        for pool in (s.cluster.pools if isinstance(s.cluster.pools, dict) else {}).values()
        if isinstance(pool, Pool) and pool.role == "llm"
    ]
    caches = [p.caches for p in pipes if isinstance(p.caches, Part)]
    forget = engines and all(e.prefix_caching is False for e in engines)
    if forget and any("history" in c.model_fields_set for c in caches):
        text = "never used: engine.prefix_caching of the language models is false"
        yield ("pipeline", "caches", "history"), text
