"""When requests came: a closed loop or open arrivals, their rate and how they bunch."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from scipy.stats import chi2

from voicesim.calibrate.chunks.load import mean_between, one_clock
from voicesim.engine.profile import Quantity

STEADY = 0.1
"""Variance over mean of the requests in flight below which a loop is closed (open: about 1)."""
EVEN = 0.2
"""Coefficient of variation of the times between requests below which they are evenly spaced."""
ENOUGH = 10
WINDOW_S = 10.0
"""The scenario's default window of a dispersion."""


@dataclass(frozen=True)
class Demand:
    """Requests of one run.

    kind: closed (``callers`` always in flight), open, or unknown (too few).  spread: variance
    over mean of the requests in flight, in the middle half of the run.  last_sent: s.  rate: per
    second.
    dispersion: variance over mean of the counts in windows of window_s; Poisson: 1.
    """

    run: str
    kind: Literal["closed", "open", "unknown"]
    requests: int
    callers: int
    spread: float
    last_sent: float
    rate: Quantity | None = None
    dispersion: Quantity | None = None
    window_s: float = WINDOW_S


def demand_of(run: str, sent: np.ndarray, end: np.ndarray) -> Demand:
    """Demand of one run from the times (s) at which its requests were sent and complete."""
    n = len(sent)
    callers, spread = in_flight(sent, end)
    last = float(sent.max())
    if n < ENOUGH:
        return Demand(run, "unknown", n, callers, spread, last)
    between = np.diff(np.sort(sent))
    even = float(between.std()) < EVEN * float(between.mean())
    if spread < STEADY and not even:
        return Demand(run, "closed", n, callers, spread, last)
    span = float(sent.max() - sent.min())
    rate = (n - 1) / span
    window = min(WINDOW_S, max(span / 20, 4 / rate))
    k = int(span // window)
    dispersion = None
    bunched = 1.0
    if k >= 5:
        counts = np.histogram(sent - sent.min(), bins=np.arange(k + 1) * window)[0]
        value = float(counts.var(ddof=1) / counts.mean())
        low, high = ((k - 1) * value / chi2.ppf(p, k - 1) for p in (0.95, 0.05))
        dispersion = Quantity(value=value, low=float(low), high=float(high), origin="measured")
        bunched = value
    half = 1.645 * np.sqrt(bunched / n)
    measured = Quantity(
        value=rate, low=max(rate * (1 - half), 0.0), high=rate * (1 + half), origin="measured"
    )
    return Demand(run, "open", n, callers, spread, last, measured, dispersion, window)


def in_flight(sent: np.ndarray, end: np.ndarray) -> tuple[int, float]:
    """Requests in flight in the middle half of a run: the usual number, and variance / mean."""
    start, stop = np.quantile(sent, [0.25, 0.75])
    edges = np.sort(np.concatenate((sent, end, [start, stop])))
    edges = np.unique(edges[(edges >= start) & (edges <= stop)])
    if len(edges) < 2:
        return len(sent), 1.0
    count = np.rint(mean_between(sent, end, edges[:-1], edges[1:]))
    seconds = np.diff(edges)
    mean = float(np.average(count, weights=seconds))
    variance = float(np.average((count - mean) ** 2, weights=seconds))
    by_count = np.bincount(count.astype(int), weights=seconds)
    return int(by_count.argmax()), variance / mean if mean else 1.0


def demands_of(chunks: pd.DataFrame) -> list[Demand]:
    """Demand of every run whose requests have their times (rows sorted by request and chunk)."""
    out = []
    for run, rows in chunks.groupby("run", sort=False):
        timed = rows["sent_s"].notna().all() and rows["request"].nunique() > 1
        if not (timed and one_clock(rows)):
            continue
        by = rows.groupby("request", sort=False)
        out.append(demand_of(str(run), by["sent_s"].first().to_numpy(), by["t_s"].max().to_numpy()))
    return out
