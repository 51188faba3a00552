"""What Prometheus computes from samples, to the bit: instant and range selectors, rate(),
histogram_quantile(), and an alert's way from pending to firing.

Source: promql/functions.go (extrapolatedRate), promql/quantile.go (bucketQuantile) and
rules/alerting.go of Prometheus 2.42, https://github.com/prometheus/prometheus.  Versions before 3
count a sample that lies exactly at the start of a window, later ones do not: our samples never lie
there (``Clock``).  Times are whole milliseconds.  ``values``: one row per sample, any further axes.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

LOOKBACK_MS = 300_000
"""How long the last sample of a series still counts: --query.lookback-delta, 5 min."""


@dataclass(frozen=True)
class Clock:
    """When samples are scraped and rules evaluated, in bins of the time series.

    Scrapes are at bin edges; evaluations half a scrape interval after one (to a half-bin), as
    the two have no common clock in Prometheus.
    """

    bin_s: float
    scrape: int = 1
    evaluate: int = 1

    @property
    def phase_s(self) -> float:
        """From time 0 to the first evaluation (s)."""
        return (self.scrape // 2 + 0.5) * self.bin_s

    def scrapes(self, bins: int) -> np.ndarray:
        """int64[n]: the bins at whose edge is scraped; at time 0 there is nothing to see."""
        return np.arange(self.scrape, bins, self.scrape)

    def evaluations(self, until: float) -> np.ndarray:
        """float64[n]: times of evaluation (s) up to ``until``."""
        every = self.evaluate * self.bin_s
        return np.arange(max(int((until - self.phase_s) / every) + 1, 0)) * every + self.phase_s


def milliseconds(seconds: np.ndarray) -> np.ndarray:
    """Times as Prometheus keeps them."""
    return np.rint(np.asarray(seconds) * 1000.0).astype(np.int64)


# --- selectors and functions ------------------------------------------------------------------


def instant(times: np.ndarray, values: np.ndarray, at: np.ndarray) -> np.ndarray:
    """The latest sample at each time, NaN if it is older than the lookback."""
    last = np.searchsorted(times, at, "right") - 1
    known = (last >= 0) & (at - times[last] < LOOKBACK_MS) if len(times) else last >= 0
    found = np.full((len(at), *values.shape[1:]), np.nan)
    found[known] = values[last[known]]
    return found


def over_time(
    times: np.ndarray, values: np.ndarray, at: np.ndarray, window: int,
    reduce: Callable[..., np.ndarray],
) -> np.ndarray:  # fmt: skip
    """min_over_time, max_over_time: ``reduce`` over the samples of each window; NaN of none."""
    first = np.searchsorted(times, at - window, "right")
    last = np.searchsorted(times, at, "right")
    found = np.full((len(at), *values.shape[1:]), np.nan)
    for i in np.flatnonzero(last > first):
        found[i] = reduce(values[first[i] : last[i]], axis=0)
    return found


def rate(times: np.ndarray, counts: np.ndarray, at: np.ndarray, window: int) -> np.ndarray:
    """rate() of counters that are never reset; NaN where a window has fewer than two samples.

    The increase is extrapolated to the window's ends where these are near (1.1 mean intervals),
    by half an interval otherwise, and never to below zero.
    """
    first = np.searchsorted(times, at - window, "right")
    last = np.searchsorted(times, at, "right") - 1
    found = np.full((len(at), *counts.shape[1:]), np.nan)
    use = np.flatnonzero(last > first)
    if not len(use):
        return found
    a, b = first[use], last[use]
    column = (slice(None),) + (None,) * (counts.ndim - 1)
    start, sampled, end, n = (
        x[column]
        for x in (
            (times[a] - (at[use] - window)) / 1000.0,
            (times[b] - times[a]) / 1000.0,
            (at[use] - times[b]) / 1000.0,
            (b - a).astype(float),
        )
    )
    base = counts[a].astype(float)
    increase = counts[b].astype(float) - base
    with np.errstate(divide="ignore", invalid="ignore"):
        zero = sampled * (base / increase)
    start = np.where((increase > 0) & (base >= 0) & (zero < start), zero, start)
    between = sampled / n
    near = between * 1.1
    reach = sampled + np.where(start < near, start, between / 2)
    reach = reach + np.where(end < near, end, between / 2)
    found[use] = increase * (reach / sampled / (window / 1000.0))
    return found


def histogram_quantile(q: float, edges: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Quantile of cumulative buckets, linear inside one.

    edges: float64[n], upper bounds, the last +Inf; counts: [times, n].  In the last bucket the
    answer is its lower bound; NaN of nothing observed.
    """
    counts = np.maximum.accumulate(counts, axis=1)  # rates of neighbours may cross by rounding
    total = counts[:, -1]
    rank = q * total
    bucket = np.minimum((counts[:, :-1] < rank[:, None]).sum(axis=1), len(edges) - 1)
    rows = np.arange(len(counts))
    lower = np.where(bucket > 0, edges[bucket - 1], 0.0)
    below = np.where(bucket > 0, counts[rows, bucket - 1], 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = (rank - below) / (counts[rows, bucket] - below)
        inside = lower + (edges[bucket] - lower) * share
    value = np.where(bucket == len(edges) - 1, edges[-2], inside)
    return np.where(total > 0, value, np.nan)


# --- the alert --------------------------------------------------------------------------------


def firing(at: np.ndarray, true: np.ndarray, hold: float) -> np.ndarray:
    """bool[n]: does the alert fire at each evaluation?

    It is pending from the first evaluation at which the expression holds, fires at the first
    evaluation ``hold`` ms or more later, and begins anew when it fails once (or has no data).
    """
    found = np.zeros(len(at), bool)
    since = None
    for i, holds in enumerate(true):
        if not holds:
            since = None
            continue
        since = at[i] if since is None else since
        found[i] = at[i] - since >= hold
    return found
