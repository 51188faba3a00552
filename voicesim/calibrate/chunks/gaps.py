"""The gap before a chunk: decode steps, the prompts among them, and what the codec adds.

Decoding and codec overlap, so a chunk of n frames comes

    n steps + prompts of the streams that joined meanwhile + codec(n) - codec(frames before)

after the one before it.  Between two chunks of one size the codec cancels: such a gap over its
frames is a mean step.  Chunks of different sizes show what the codec takes per frame.  The last
chunk of a stream is left out: its gap ends when the stream does.
"""

import numpy as np
import pandas as pd

from voicesim.calibrate.chunks.load import (
    joined_between,
    mean_between,
    mean_context,
    one_clock,
    streams_of,
)
from voicesim.calibrate.chunks.robust import codes, quantity, resampled, robust_fit, some
from voicesim.calibrate.chunks.schedule import last_of_stream
from voicesim.engine.profile import Quantity

LIGHT = 1.5
"""Runs whose mean batch is within this factor of the least loaded one's count as light."""
JOINING = 4.0
ENOUGH = 30


def gaps_of(chunks: pd.DataFrame) -> pd.DataFrame:
    """One row per gap before a chunk that is neither the first nor the last of its stream.

    chunks: sorted by run, request and chunk, with frames.  Columns: run, stream (int), frames,
    before (frames of the chunk before), seconds, at (s, its middle), batch and context (means of
    the decoding streams meanwhile, tokens), joined (prompt tokens that joined).
    """
    parts = []
    for run, rows in chunks.groupby("run", sort=False):
        t, frames = rows["t_s"].to_numpy(dtype=float), rows["frames"].to_numpy(dtype=float)
        use = (rows["chunk"].to_numpy() > 0) & ~last_of_stream(rows)
        before = np.flatnonzero(use) - 1
        a, b = t[before], t[use]
        part = pd.DataFrame(
            {
                "run": run,
                "stream": rows["request"].to_numpy()[use],
                "frames": frames[use],
                "before": frames[before],
                "seconds": b - a,
                "at": (a + b) / 2,
            }
        )
        if one_clock(rows):
            s = streams_of(rows)
            late = np.maximum(b, a + 1e-6)
            part["batch"] = np.maximum(mean_between(s.begin, s.end, a, late), 1.0)
            part["context"] = mean_context(s, part["at"].to_numpy())
            part["joined"] = joined_between(s, a, b)[1]
            sent = np.where(np.isnan(s.sent), s.begin, s.sent)
            part["batch"] *= _unseen(rows, sent, s.end, a, late, use)
        else:
            part["batch"] = rows["concurrency"].to_numpy(dtype=float)[use]
            done = rows.groupby("request", sort=False)["frames"].cumsum().to_numpy()
            part["context"] = np.nan_to_num(rows["prompt_tokens"].to_numpy()[use]) + done[before]
            part["joined"] = np.nan
        parts.append(part)
    table = pd.concat(parts, ignore_index=True)
    table["stream"] = codes((table["run"].astype(str) + "\0" + table["stream"]).to_numpy(dtype=str))
    return table[table["seconds"] > 0].reset_index(drop=True)


def _unseen(
    rows: pd.DataFrame, sent: np.ndarray, end: np.ndarray, a: np.ndarray, b: np.ndarray,
    use: np.ndarray,
) -> float:  # fmt: skip
    """How many streams there were for each that the file holds (a file may hold a sample)."""
    said = rows["concurrency"].to_numpy(dtype=float)[use]
    if not np.isfinite(said).any():
        return 1.0
    seen = mean_between(sent, end, a, b)
    ratio = float(np.nanmean(said) / max(float(np.mean(seen)), 1e-9))
    return ratio if ratio > 1.2 else 1.0


def light(gaps: pd.DataFrame, factor: float = LIGHT) -> pd.DataFrame:
    """The gaps of the least loaded runs, where codec and scheduler make hardly anyone wait."""
    mean = gaps.groupby("run", sort=False)["batch"].transform("mean")
    return gaps[mean <= factor * mean.min()]


def codec_per_frame(gaps: pd.DataFrame, prefill: float) -> Quantity | None:
    """Codec seconds per frame from chunks of different sizes in the least loaded runs."""
    rows = light(gaps)
    change = (rows["frames"] - rows["before"]).to_numpy()
    return _slope(rows, change, rows["seconds"] - prefill * rows["joined"].fillna(0.0))


def prompt_in_gaps(gaps: pd.DataFrame, per_frame: float) -> Quantity | None:
    """Seconds per prompt token of the streams that join, where they are few (a light load)."""
    rows = light(gaps, JOINING)
    if rows["joined"].isna().any():
        return None
    change = (rows["frames"] - rows["before"]).to_numpy()
    return _slope(rows, rows["joined"].to_numpy(), rows["seconds"] - per_frame * change)


def _slope(rows: pd.DataFrame, column: np.ndarray, seconds: pd.Series) -> Quantity | None:
    """Seconds per unit of a column beside a step of each run's own; None if it cannot be told."""
    chosen = some(len(rows))
    rows, column, seconds = rows.iloc[chosen], column[chosen], seconds.iloc[chosen]
    n = rows["frames"].to_numpy()
    run = codes(rows["run"].to_numpy(dtype=str))
    if np.count_nonzero(column) < ENOUGH or not _apart(column, n, run):
        return None
    columns = [column]
    beyond = (rows["batch"] - rows.groupby("run")["batch"].transform("mean")).to_numpy()
    if np.ptp(beyond) > 0.5:
        columns.append(n * beyond)
    design, y = np.column_stack(columns), seconds.to_numpy(dtype=float)
    found = robust_fit(design, y, run, own=n)
    draws = resampled(
        lambda times: robust_fit(design, y, run, times, n), codes(rows["stream"].to_numpy()), run
    )
    return quantity(found[0], draws[:, 0])


def _apart(column: np.ndarray, n: np.ndarray, run: np.ndarray) -> bool:
    """Is a column more than a multiple of the frames in some run?"""
    for r in np.unique(run):
        x, f = column[run == r], n[run == r]
        if len(x) < 3 or not x.any():
            continue
        rest = x - f * float(x @ f) / float(f @ f)
        if float(rest @ rest) > 0.01 * float(x @ x):
            return True
    return False


def jitter_of(
    gaps: pd.DataFrame, per_frame: float, prefill: float
) -> tuple[Quantity | None, float]:
    """Mean extra one-way delay (s) and the mean batch of the runs it was read from.

    A chunk that is late makes the gap before it longer and the next one shorter: minus the
    covariance of neighbouring gaps is the variance of the delay.  Of a gamma of shape 2, as the
    scenario's jitter is, the mean is sqrt(2) standard deviations.  A codec that makes chunks
    wait does the same, so this is read where the load is least.
    """
    rows = light(gaps)
    change = rows["frames"] - rows["before"]
    own = rows["seconds"] - per_frame * change - prefill * rows["joined"].fillna(0.0)
    step = (own / rows["frames"]).groupby(rows["run"]).transform("median")
    rest = (own - step * rows["frames"]).to_numpy()
    stream = rows["stream"].to_numpy()
    follow = stream[1:] == stream[:-1]
    product, unit = -(rest[1:] * rest[:-1])[follow], codes(stream[1:][follow])
    if len(product) < ENOUGH:
        return None, float(rows["batch"].mean())

    def mean_delay(times: np.ndarray) -> np.ndarray:
        variance = float((times * product).sum() / max(times.sum(), 1.0))
        return np.array([np.sqrt(2.0 * max(variance, 0.0))])

    draws = resampled(mean_delay, unit, np.zeros(len(unit), dtype=int))
    value = float(mean_delay(np.ones(len(product)))[0])
    return quantity(value, draws[:, 0]), float(rows["batch"].mean())
