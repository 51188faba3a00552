"""Recorded calls, and what a replay does to them: a window, a faster clock, copies.

The trace's rows are sessions, or the utterances of sessions (``session``, or each its own).  Only
the starts of sessions are moved: what happens within one keeps its pace.

``after`` and ``until`` keep the sessions that start in [after, until), and after becomes time 0;
``speed`` divides the times.  ``scale`` n keeps every session and adds n - 1 copies of each; of a
fraction f the last copy has round(f S) of the S sessions, chosen at random.  Copy c of a session
starts where the original does plus a uniform shift in [-jitter/2, jitter/2), reflected at the ends
of the window, so no count is lost and a copy stays near its original.  Shifts come from a
generator of their own: scale 3 begins with the copies of scale 2.
"""

import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from voicesim.workload.rng import Purpose, generator

TRACE_COLUMNS = ("session", "tokens", "prompt_tokens", "audio_s", "think_s")


class Calls(NamedTuple):
    """S sessions; session k owns rows first[k]:first[k+1] of the columns ``given``."""

    start: np.ndarray  #: float64[S], seconds from the start of the run, sorted
    first: np.ndarray  #: int64[S+1]
    given: dict[str, np.ndarray]  #: float64[first[-1]] each, NaN: unknown; empty: starts only


def recorded_calls(arrivals: Any, horizon: float, seed: int, replication: int) -> Calls:
    """The sessions of a trace that start before the horizon, as replayed."""
    found = _columns(arrivals)
    times, ids = found.pop("t_s"), found.pop("session", None)
    changes = np.ones(len(times), bool)
    if ids is not None:
        changes[1:] = np.diff(ids) != 0
    begin = np.flatnonzero(changes)
    size = np.diff(np.append(begin, len(times)))
    start = times[begin]
    after = getattr(arrivals, "after", None) or 0.0
    until = getattr(arrivals, "until", None) or math.inf
    kept = np.flatnonzero((start >= after) & (start < until))
    speed = getattr(arrivals, "speed", None) or 1.0
    start = (start[kept] - after) / speed
    end = (until - after) / speed if until < math.inf else float(np.max(start, initial=0.0))
    scale, jitter = getattr(arrivals, "scale", None) or 1.0, getattr(arrivals, "jitter", 0.0)
    if scale != 1.0:
        which, start = copies(start, end, scale, jitter, seed, replication)
        kept = kept[which]
    order = np.argsort(start, kind="stable")
    order = order[start[order] < horizon]
    start, begin, size = start[order], begin[kept[order]], size[kept[order]]
    first = np.concatenate(([0], np.cumsum(size))).astype(np.int64)
    rows = np.repeat(begin - first[:-1], size) + np.arange(first[-1])
    by_utterance = ids is not None or bool(found)
    return Calls(start, first, {name: c[rows] for name, c in found.items()} if by_utterance else {})


def copies(
    start: np.ndarray, end: float, scale: float, jitter: float, seed: int, replication: int
) -> tuple[np.ndarray, np.ndarray]:
    """(which session, when) of the originals and their copies, int64[N] and float64[N].

    N is exactly S floor(scale) + round(S (scale - floor(scale))).
    """
    gen = generator(seed, replication, Purpose.COPIES)
    n, whole = len(start), math.floor(scale)
    which, when = [], []
    for copy in range(math.ceil(scale)):
        shift, luck = gen.random(n) - 0.5, gen.random(n)
        kept = np.arange(n)
        if copy == whole:
            kept = np.sort(np.argsort(luck, kind="stable")[: math.floor(n * (scale - whole) + 0.5)])
        t = start[kept] + (jitter * shift[kept] if copy else 0.0)
        which.append(kept)
        when.append(reflected(t, end) if copy else t)
    return np.concatenate(which), np.concatenate(when)


def reflected(t: np.ndarray, end: float) -> np.ndarray:
    """Times folded back into [0, end] at both ends."""
    if end <= 0:
        return np.zeros(len(t))
    return end - np.abs(np.mod(t, 2 * end) - end)


def _columns(arrivals: Any) -> dict[str, np.ndarray]:
    """The columns of the file as float64."""
    from voicesim.scenario.units import columns

    recorded = getattr(arrivals, "columns", None)
    if not recorded:
        recorded = columns(Path(arrivals.file), ("t_s",), TRACE_COLUMNS)
    return {str(name): np.asarray(column, dtype=np.float64) for name, column in recorded.items()}
