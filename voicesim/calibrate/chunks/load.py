"""What the engine was doing between two chunks, rebuilt from the streams around them.

A stream decodes from its first token, which came (frames of the first chunk - 1) steps before
that chunk, until its last.  Chunks reach the client later than they are decoded, but the streams
of a run about equally so: the delay cancels.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd


@dataclass(frozen=True)
class Streams:
    """One row per stream: float64[S] each, seconds since the run began, tokens."""

    sent: np.ndarray
    begin: np.ndarray  # first token, as seen by the client
    first: np.ndarray  # first chunk
    end: np.ndarray
    prompt: np.ndarray
    frames: np.ndarray
    first_frames: np.ndarray
    step: np.ndarray  # its own mean step (s)


def streams_of(run: pd.DataFrame) -> Streams:
    """Streams of one run (rows sorted by request and chunk)."""
    group = run.groupby("request", sort=False)
    first, last = group.head(1), group.tail(1)
    total = group["frames"].sum().to_numpy(dtype=float)
    n0 = first["frames"].to_numpy(dtype=float)
    t0, t1 = first["t_s"].to_numpy(dtype=float), last["t_s"].to_numpy(dtype=float)
    # Whole chunks only: the last one is sent when the stream ends, whatever it holds.
    inner = run[run["request"].duplicated(keep="last")]
    by = inner.groupby("request", sort=False)
    span = by["t_s"].max() - by["t_s"].min()
    steps = by["frames"].sum() - by["frames"].first()
    own = (span / steps.where(steps > 0)).reindex(first["request"]).to_numpy(dtype=float)
    usual = np.nanmedian(own) if np.isfinite(own).any() else 0.0
    own = np.where(np.isfinite(own), own, usual)
    prompt = first["prompt_tokens"].to_numpy(dtype=float)
    return Streams(
        sent=first["sent_s"].to_numpy(dtype=float),
        begin=t0 - (n0 - 1.0) * own,
        first=t0,
        end=t1,
        prompt=prompt,
        frames=total,
        first_frames=n0,
        step=own,
    )


def one_clock(run: pd.DataFrame) -> bool:
    """Do the streams of a run share a clock?

    Not where every stream's time begins at its own request (sent_s is 0 throughout).
    """
    return bool((run["sent_s"] != 0).any()) or run["request"].nunique() == 1


def mean_between(start: np.ndarray, end: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Mean number of intervals [start, end] that cover each of the windows [a, b], b > a."""
    edges = np.concatenate((start, end))
    order = np.argsort(edges, kind="stable")
    t = edges[order]
    count = np.cumsum(np.concatenate((np.ones(len(start)), -np.ones(len(end))))[order])
    area = np.concatenate(([0.0], np.cumsum(count[:-1] * np.diff(t))))

    def integral(x: np.ndarray) -> np.ndarray:
        i = np.clip(np.searchsorted(t, x, side="right") - 1, 0, len(t) - 1)
        inside = area[i] + count[i] * (x - t[i])
        return np.where(x < t[0], 0.0, inside)

    return (integral(b) - integral(a)) / (b - a)


def decoding_at(begin: np.ndarray, end: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Number of intervals (begin, end] that hold each of the times."""
    before = np.searchsorted(np.sort(begin), at, side="left")
    return (before - np.searchsorted(np.sort(end), at, side="left")).astype(float)


def mean_context(s: Streams, at: np.ndarray) -> np.ndarray:
    """Mean context (prompt and frames so far, tokens) of the streams that decode at each time."""
    slope = s.frames / np.maximum(s.end - s.begin, 1e-9)
    level = np.nan_to_num(s.prompt) - slope * s.begin
    edges = np.concatenate((s.begin, s.end))
    order = np.argsort(edges, kind="stable")
    sign = np.repeat([1.0, -1.0], len(s.begin))
    sums = [
        np.cumsum((sign * np.tile(part, 2))[order]) for part in (level, slope, np.ones(len(level)))
    ]
    i = np.clip(np.searchsorted(edges[order], at, side="right") - 1, 0, len(edges) - 1)
    n = np.maximum(sums[2][i], 1.0)
    return np.maximum((sums[0][i] + sums[1][i] * at) / n, 0.0)


def joined_between(s: Streams, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Streams that got their first token in (a, b], and their prompt tokens."""
    order = np.argsort(s.begin, kind="stable")
    t = s.begin[order]
    prompts = np.concatenate(([0.0], np.cumsum(np.nan_to_num(s.prompt[order]))))
    i, j = np.searchsorted(t, a, side="right"), np.searchsorted(t, b, side="right")
    return (j - i).astype(float), prompts[j] - prompts[i]
