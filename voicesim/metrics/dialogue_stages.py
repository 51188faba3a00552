"""How much of each stage is used, and which one is nearest to what it can do."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from voicesim.engine import cost
from voicesim.engine import layout as at
from voicesim.engine.record import RunRecord
from voicesim.engine.spec import PoolSpec
from voicesim.metrics.dialogue_run import Played, Stage
from voicesim.metrics.summary import Value
from voicesim.metrics.tables import quantile_rows

VOICES = ("tts", "omni")


def stages(run: Played) -> dict[str, dict[str, Value]]:
    """By stage: busy, load, queued, pace and ``knee``, the greatest of what may reach 1.

    busy: share of the observed time that its GPU (decode steps; the recogniser's batches) works;
    of continuous batching that nears 1 long before the knee, so it is no load.
    load: tokens made / tokens that full batches would make, or share of codec or recogniser time.
    queued: streams that wait for a place / all streams at the engine, over the observed time.
    pace: 99 % point of the gap before a chunk / its audio; beyond 1 the listener's buffer drains.
    """
    found = {}
    for stage in run.terms.stages:
        if stage.kind == "asr":
            found[stage.name] = _recogniser(run, stage)
        else:
            found[stage.name] = _pool(run, stage, run.spec.pools[stage.pool])
        of = found[stage.name]
        known = [x for name in ("load", "queued", "pace") if (x := of[name]) is not None]
        of["knee"] = max(known) if known else None
    return found


def nearest(by_stage: Mapping[str, Mapping[str, Any]]) -> str | None:
    """Name of the stage nearest its knee; the earlier of equals; None: nothing was measured.

    by_stage: as ``stages`` gives it, or its aggregate over replications.
    """
    known = {}
    for name, of in by_stage.items():
        value = of["knee"]["mean"] if isinstance(of["knee"], Mapping) else of["knee"]
        if value is not None:
            known[name] = value
    return max(known, key=lambda name: known[name]) if known else None


def _recogniser(run: Played, stage: Stage) -> dict[str, Value]:
    """Busy seconds of its workers: ``asr["busy"]``, of all engines."""
    spec, seconds = run.spec.asr, run.record.asr.get("busy")
    if spec is None or seconds is None:
        return {"busy": None, "load": None, "queued": None, "pace": None}
    share = float(np.sum(seconds)) / (run.window * spec.engines * spec.workers)
    return {"busy": share, "load": share, "queued": None, "pace": None}


def _pool(run: Played, stage: Stage, spec: PoolSpec) -> dict[str, Value]:
    record = run.record.pools[stage.pool]
    window = run.window * spec.engines
    busy = float(record.busy["decode"].sum()) / window
    codec = None
    if spec.codec is not None:
        codec = float(record.busy["codec"].sum()) / window / spec.codec.workers
    load = token_load(record, spec)
    pace = None
    if stage.kind in VOICES:
        gap = float(quantile_rows(record.gap_hist[None, :], 0.99)[0])
        pace = gap if gap == gap else None
    load = load if codec is None else max(load, codec)
    return {"busy": busy, "load": load, "queued": _queued(run, record), "pace": pace}


def _queued(run: Played, record: RunRecord) -> Value:
    first, last = (int(t / run.spec.resolution) for t in (run.spec.warmup, run.spec.horizon))
    rows = record.series[first:last]
    waiting = float(rows[:, at.B_WAITING].sum())
    every = waiting + float(rows[:, at.B_RUNNING].sum())
    return waiting / every if every else 0.0


def token_load(record: RunRecord, spec: PoolSpec) -> float:
    """GPU seconds that the run's tokens would take in full batches / those of the horizon.

    A full batch holds ``max_num_seqs`` streams and prefill in the proportion of the run, as far as
    the token budget goes; reading the context is left out, so the full batch is a little too fast.
    What is still decoded after the horizon counts as if it had been before.
    """
    made = record.counters["stream_steps"]
    if not made:
        return 0.0
    prefill = record.counters["prefill_tokens"] / made
    streams = min(float(spec.max_num_seqs), spec.budget / (1.0 + prefill))
    tokens = min(round(streams * (1.0 + prefill)), len(spec.step.compute_s) - 1)
    gpu = cost.gpu_seconds(spec.step.params, spec.step.compute_s[tokens], 0.0, 0.0)
    host = cost.host_seconds(spec.step.params, streams, 0.0)
    full = cost.step_seconds(spec.step.params, gpu, host)
    return float(made / streams * full / (spec.horizon * spec.engines))
