"""How much of each stage is used, and which one is nearest to what it can do."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from voicesim.engine import cost
from voicesim.engine import layout as at
from voicesim.engine.asr_spec import OFFLINE, SLOTS, AsrSpec
from voicesim.engine.record import RunRecord
from voicesim.engine.spec import PoolSpec
from voicesim.metrics.dialogue_run import Played, Stage
from voicesim.metrics.summary import Value

VOICES = ("tts", "omni")


def stages(run: Played) -> dict[str, dict[str, Value]]:
    """By stage: busy, load, queued and ``knee``, the greater of load and queued.

    busy: share of the observed time that its GPU (decode steps; the recogniser's batches) works;
    of continuous batching that nears 1 long before the knee, so it is no load.
    load: work done / work that full batches would do in the time, or share of codec time.
    queued: streams that wait for a place / all streams at the engine, over the observed time.
    streams: speakers without a pause that the recogniser can just follow.
    wer: word error rate of a recogniser, where the scenario states it.
    """
    found = {}
    for stage in run.terms.stages:
        if stage.kind == "asr":
            found[stage.name] = _recogniser(run, stage)
        else:
            found[stage.name] = _pool(run, stage, run.spec.pools[stage.pool])
        of = found[stage.name]
        known = [x for name in ("load", "queued") if (x := of[name]) is not None]
        of["knee"] = max(known) if known else None
        if stage.wer is not None:
            of["wer"] = stage.wer
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
    spec, seen = run.spec.asr, run.record.asr
    if spec is None or not seen:
        return {"busy": None, "load": None, "queued": None, "streams": None}
    busy = float(np.sum(seen["busy"])) / (run.window * spec.engines * spec.workers)
    streams = asr_streams(spec, float(seen["jobs"]), float(seen["audio"]))
    return {"busy": busy, "load": asr_load(run, spec), "queued": None, "streams": streams}


def asr_load(run: Played, spec: AsrSpec) -> float:
    """Of batches: seconds that the run's jobs would take in full ones / seconds that there are
    before the horizon.  Of a slot server: its step / the frame, or the share of slots taken."""
    seen = run.record.asr
    if spec.kind == SLOTS:
        taken = float(np.sum(seen["calls"])) / (run.window * spec.engines * spec.slots)
        return max(spec.step / spec.chunk, taken)
    jobs, audio = float(seen["jobs"]), float(seen["audio"])
    floor, per_row, per_audio = spec.cost
    seconds = jobs * (floor / spec.cap + per_row) + audio * per_audio
    return float(seconds / (run.spec.horizon * spec.engines * spec.workers))


def asr_streams(spec: AsrSpec, jobs: float, audio: float) -> Value:
    """Speakers without a pause whose jobs, in full batches, take as long as their speech lasts.

    jobs, audio: of the run, for what one job goes over (s).  Of slots: their number, none if a step
    outlasts its frame.  None: no job was seen, or jobs take no time.
    """
    if spec.kind == SLOTS:
        return float(spec.engines * spec.slots) if spec.step <= spec.chunk else 0.0
    floor, per_row, per_audio = spec.cost
    if not jobs:
        return None
    each = audio / jobs
    seconds = floor / spec.cap + per_row + per_audio * each
    fresh = each if spec.kind == OFFLINE else spec.chunk
    return float(spec.engines * spec.workers * fresh / seconds) if seconds else None


def _pool(run: Played, stage: Stage, spec: PoolSpec) -> dict[str, Value]:
    record = run.record.pools[stage.pool]
    window = run.window * spec.engines
    busy = float(record.busy["decode"].sum()) / window
    load = token_load(record, spec, stage.kind in VOICES)
    if spec.codec is not None:
        codec = float(record.busy["codec"].sum()) / window / spec.codec.workers
        beside = codec if spec.codec.shared else 0.0  # both on one card stretch each other
        load = max(load * (1.0 + (spec.decode_slowdown - 1.0) * beside), codec)
    return {"busy": busy, "load": load, "queued": _queued(run, record)}


def _queued(run: Played, record: RunRecord) -> Value:
    first, last = (int(t / run.spec.resolution) for t in (run.spec.warmup, run.spec.horizon))
    rows = record.series[first:last]
    waiting = float(rows[:, at.B_WAITING].sum())
    every = waiting + float(rows[:, at.B_RUNNING].sum())
    return waiting / every if every else 0.0


def token_load(record: RunRecord, spec: PoolSpec, voice: bool) -> float:
    """GPU seconds that the run's tokens would take in full batches / those of the horizon.

    A full batch is one of ``max_num_seqs`` streams, with prefill in the proportion of the run, as
    far as the token budget goes; of voices the largest whose step is no longer than its audio, if
    there is any.  Reading the context is left out, so it is a little too fast.  What is still
    decoded after the horizon counts as if it had been before.
    """
    made = record.counters["stream_steps"]
    if not made:
        return 0.0
    each = 1.0 + record.counters["prefill_tokens"] / made
    most = min(spec.budget, len(spec.step.compute_s) - 1)
    full = max(min(spec.max_num_seqs, int(most / each)), 1)
    steps = [step_of(spec, n, min(round(n * each), most)) for n in range(1, full + 1)]
    if voice:
        full = max([n for n, step in enumerate(steps, 1) if step <= spec.token_audio], default=full)
    return float(made / full * steps[full - 1] / (spec.horizon * spec.engines))


def step_of(spec: PoolSpec, streams: int, tokens: int) -> float:
    """Seconds of a step of so many streams and tokens, their context not read."""
    gpu = cost.gpu_seconds(spec.step.params, spec.step.compute_s[tokens], 0.0, 0.0)
    return cost.step_seconds(
        spec.step.params, gpu, cost.host_seconds(spec.step.params, streams, 0.0)
    )
