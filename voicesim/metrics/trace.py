"""A window of a run as Chrome trace events, which Perfetto and chrome://tracing open.

The format: "Trace Event Format", https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
(JSON object form).  A process is a replica (or the callers of a run of dialogues), a thread a
track: its decode steps with the prompts in them, a codec worker, its listeners.  Times are in
microseconds from the start of the run.

Two rules of viewers: spans of a track nest (Perfetto's page on other formats), and
a track's number is best its own in the whole file (its importer looks a thread's name up by that
number alone).  Perfetto reads times as whole nanoseconds, cut off: a span therefore ends one
before the next begins.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from voicesim.engine import blame as b
from voicesim.engine import trace as of
from voicesim.engine.record import RunRecord
from voicesim.metrics.stalls import detail
from voicesim.simulation import Run

Event = dict[str, Any]
STEPS, LISTENERS, WORKER = 1, 2, 10
"""Tracks of a replica; worker k of its codec is WORKER + k."""
TRACKS = 20_000
"""Most tracks of a process: its tracks are numbered from its own number times this on."""


def us(seconds: float) -> float:
    """Microseconds, to the nanosecond."""
    return round(float(seconds) * 1e6, 3)


def tid_of(pid: int, number: int) -> int:
    """A number that no track of another process has."""
    return pid * TRACKS + number


def of_pools(runs: Sequence[Run]) -> list[Event]:
    """Events of the pools of one run."""
    events: list[Event] = []
    first = 1
    for run in runs:
        name = next(iter(run.scenario.cluster.pools))
        audible = stalls_of(run.record.stall_i, run.record.stall_f, run.spec.trace)
        workers = run.spec.codec.workers if run.spec.codec else 0
        events += of_pool(run.record, name, first, run.spec.engines, workers)
        for i, f in audible:
            events.append(stall(i, f, first + i[b.L_ENGINE], f"utterance {i[b.L_WHO]}"))
        first += run.spec.engines
    return in_order(events)


def in_order(events: list[Event]) -> list[Event]:
    """By time; what begins at once, the longer first, so that spans nest; names before all."""
    return sorted(events, key=lambda e: (e["ph"] != "M", e.get("ts", 0.0), -e.get("dur", 0.0)))


def of_pool(record: RunRecord, pool: str, first: int, engines: int, workers: int) -> list[Event]:
    """Events of one pool, whose replica g is process first + g."""
    events: list[Event] = []
    for g in range(engines):
        events += [
            named("process_name", first + g, STEPS, f"{pool} {g}"),
            named("thread_name", first + g, STEPS, "decode steps"),
            named("thread_name", first + g, LISTENERS, "listeners"),
            *(
                named("thread_name", first + g, WORKER + w, f"codec worker {w}")
                for w in range(workers)
            ),
        ]
    for i, f in zip(record.trace_i.tolist(), record.trace_f.tolist(), strict=True):
        events += made_of(i, f, first)
    return events


def made_of(i: list[int], f: list[float], first: int) -> Iterator[Event]:
    """The events of one row of a log (voicesim.engine.trace)."""
    kind, who, start = i[of.T_KIND], i[of.T_WHO], f[of.T_START]
    pid, length = first + i[of.T_ENGINE], f[of.T_END] - start
    if kind == of.STEP:
        args = {
            "step": who, "batch": i[of.T_A], "decoding": i[of.T_B], "prefill_tokens": i[of.T_C],
            "kv_tokens": i[of.T_D], "gpu_s": f[of.T_X], "host_s": f[of.T_Y],
        }  # fmt: skip
        yield span(f"step, batch {i[of.T_A]}", "step", pid, STEPS, start, length, args)
        yield {
            "name": "load", "ph": "C", "ts": us(start), "pid": pid, "tid": tid_of(pid, STEPS),
            "args": {"batch": i[of.T_A], "prefill_tokens": i[of.T_C]},
        }  # fmt: skip
    elif kind == of.PREFILL:
        args = {"stream": who, "tokens": i[of.T_A], "in_before": i[of.T_B]}
        yield span(f"prefill {i[of.T_A]}", "prefill", pid, STEPS, start, length, args)
    elif kind == of.CODEC:
        track = WORKER + who
        yield span(f"batch of {i[of.T_A]}", "codec", pid, track, start, length, {"rows": i[of.T_A]})
    elif kind == of.CHUNK:
        args = {
            "stream": who, "chunk": i[of.T_A], "rows": i[of.T_B], "tokens": i[of.T_C],
            "queued_s": start, "arrived_s": f[of.T_X], "audio_s": f[of.T_Y],
        }  # fmt: skip
        yield instant(f"chunk {i[of.T_A]}", "chunk", pid, LISTENERS, f[of.T_END], args)
    else:
        name = {of.PREEMPTED: "preempted", of.ADMITTED: "admitted", of.REFUSED: "refused"}[kind]
        at = pid if i[of.T_ENGINE] >= 0 else first
        yield instant(name, "stream", at, STEPS, start, {"stream": who})


def stalls_of(
    ints: np.ndarray, floats: np.ndarray, window: tuple[float, float] | None
) -> list[tuple[list[int], list[float]]]:
    """Rows of the audible stalls that meet the window."""
    assert window is not None
    began = floats[:, b.L_BEGAN]
    inside = (began <= window[1]) & (began + floats[:, b.L_LENGTH] >= window[0])
    return list(zip(ints[inside].tolist(), floats[inside].tolist(), strict=True))


def stall(i: list[int], f: list[float], pid: int, whose: str) -> Event:
    """An audible stall, an instant at its beginning: many listeners stall at once."""
    args = {
        "of": whose, "chunk": i[b.L_CHUNK], "length_s": f[b.L_LENGTH],
        "cause": b.CAUSES[i[b.L_CAUSE]], "detail": detail(i, f),
    }  # fmt: skip
    return instant(f"stall: {args['cause']}", "stall", pid, LISTENERS, f[b.L_BEGAN], args)


def span(
    name: str, cat: str, pid: int, tid: int, start: float, length: float, args: Event
) -> Event:
    """A complete event.  A nanosecond short, so that it ends before what follows it begins."""
    ts = us(start)
    dur = max(round(us(start + length) - ts - 0.001, 3), 0.0)
    return {
        "name": name, "cat": cat, "ph": "X", "ts": ts, "dur": dur,
        "pid": pid, "tid": tid_of(pid, tid), "args": args,
    }  # fmt: skip


def instant(name: str, cat: str, pid: int, tid: int, t: float, args: Event) -> Event:
    return {
        "name": name, "cat": cat, "ph": "i", "ts": us(t), "s": "t", "pid": pid,
        "tid": tid_of(pid, tid), "args": args,
    }  # fmt: skip


def named(what: str, pid: int, tid: int, name: str) -> Event:
    """Metadata: the name of a process or a track."""
    number = tid_of(pid, tid)
    return {"name": what, "ph": "M", "pid": pid, "tid": number, "args": {"name": name}}


def cut_at(logs: Sequence[tuple[np.ndarray, int]]) -> float | None:
    """When the first log was full (s); None: none was.  logs: times and the most rows of each."""
    full = [times[-1, of.T_END] for times, most in logs if len(times) >= most]
    return float(min(full)) if full else None
