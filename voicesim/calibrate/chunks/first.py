"""The time to the first chunk: prompts, and what the gateway and the network add."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from voicesim.calibrate.chunks.load import decoding_at, one_clock, streams_of
from voicesim.calibrate.chunks.robust import codes, quantity, resampled, robust_fit, some
from voicesim.engine.profile import Quantity

SPREAD = 1.5
"""Longest prompt of a run over its shortest, at least, for a cost per prompt token."""
ENOUGH = 10


@dataclass(frozen=True)
class Firsts:
    """One row per stream, float64[S] (run: int[S]): seconds, tokens.

    step: the stream's own mean step.
    batch: streams that decoded before its first step (NaN where not known).
    """

    run: np.ndarray
    prompt: np.ndarray
    ttfa: np.ndarray
    frames: np.ndarray
    step: np.ndarray
    batch: np.ndarray


def firsts_of(chunks: pd.DataFrame) -> Firsts:
    """First chunks of all streams (rows sorted by run, request and chunk, with frames)."""
    parts = []
    for i, (_, rows) in enumerate(chunks.groupby("run", sort=False)):
        s = streams_of(rows)
        ttfa = s.first - s.sent
        batch = np.full(len(ttfa), np.nan)
        if one_clock(rows):
            batch = decoding_at(s.begin, s.end, s.begin - s.step)
        elif "concurrency" in rows:
            batch = rows.groupby("request", sort=False)["concurrency"].first().to_numpy() - 1.0
        parts.append((np.full(len(ttfa), i), s.prompt, ttfa, s.first_frames, s.step, batch))
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    return Firsts(*columns)


def prefill_per_token(f: Firsts) -> Quantity | None:
    """Seconds that a prompt token adds to the first chunk; None if prompts hardly differ.

    Every run has its own intercept; runs weigh by their scatter, so those without queues count.
    """
    usable = np.zeros(len(f.run), dtype=bool)
    for r in np.unique(f.run):
        mine = (f.run == r) & np.isfinite(f.prompt) & np.isfinite(f.ttfa)
        p = f.prompt[mine]
        if len(p) >= ENOUGH and p.max() >= SPREAD * p.min():
            usable |= mine
    if not usable.any():
        return None
    chosen = np.flatnonzero(usable)[some(int(usable.sum()))]
    run = codes(f.run[chosen])
    y = (f.ttfa - f.frames * f.step)[chosen]  # the first step is the prompt's
    design, each = f.prompt[chosen][:, None], np.ones(len(y))
    found = robust_fit(design, y, run, own=each)
    draws = resampled(lambda times: robust_fit(design, y, run, times, each), np.arange(len(y)), run)
    return quantity(found[-1], draws[:, -1])


def overhead(
    f: Firsts, prefill: Quantity | None, per_frame: float, steps: dict[int, float]
) -> Quantity | None:
    """Seconds of the first chunk that no prompt, step or frame explains, in the lightest run.

    steps: the mean step (s) of each run by number.  Beside others a request waits for the step
    that runs, between nothing and all of it: half a step is taken off and the interval is
    widened by as much.
    """
    known = np.isfinite(f.ttfa) & np.isin(f.run, list(steps))
    loads = {int(r): _load(f.batch[known & (f.run == r)]) for r in np.unique(f.run[known])}
    if not loads:
        return None
    lightest = min(loads, key=lambda r: loads[r])
    mine, step = known & (f.run == lightest), steps[lightest]
    half = 0.5 * step * min(loads[lightest], 1.0)
    left = f.ttfa[mine] - f.frames[mine] * (step + per_frame) - half
    # The first step holds the prompt in place of the stream's own token.
    more = np.maximum(np.nan_to_num(f.prompt[mine]) - 1.0, 0.0)
    if prefill is not None:
        left = left - more * prefill.value
    draws = resampled(
        lambda times: np.array([np.median(np.repeat(left, times.astype(int)))]),
        np.arange(len(left)),
        np.zeros(len(left), dtype=int),
    )
    low, high = np.quantile(draws, [0.05, 0.95])
    if prefill is not None and prefill.low is not None and prefill.high is not None:
        half += 0.5 * (prefill.high - prefill.low) * float(more.mean())
    return Quantity(
        value=max(float(np.median(left)), 0.0),
        low=max(float(low) - half, 0.0),
        high=max(float(high) + half, 0.0),
        origin="fitted",
    )


def _load(batch: np.ndarray) -> float:
    """Mean of what is known, else infinite."""
    known = batch[np.isfinite(batch)]
    return float(known.mean()) if len(known) else np.inf
