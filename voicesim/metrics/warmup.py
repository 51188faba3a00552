"""Is the warm-up long enough?  MSER-5 on the live streams, averaged over the replications."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import t as student

STATIONARY = ("poisson", "constant", "gamma", "closed")
"""Arrivals that settle to a steady state; a surge or a day is a run with an end of its own."""
POINTS = 400


@dataclass(frozen=True)
class Truncation:
    """Where the start-up of a series ends: ``cut`` observations to leave out.

    at_edge: the best cut lies at the edge of the search, half of the series: run longer.
    """

    cut: int
    at_edge: bool


def mser5(series: Any) -> Truncation:
    """White's MSER-5 (1997): the cut that makes the interval of the remaining mean shortest.

    Minimises the variance of the means of 5 observations that are left / their number, over the
    first half of the series.
    """
    x = np.asarray(series, float)
    means = x[: len(x) // 5 * 5].reshape(-1, 5).mean(axis=1)
    n = len(means)
    if n < 2:
        return Truncation(0, True)
    left = n - np.arange(n)
    centred = means - means.mean()  # a constant is harmless, and keeps the squares small
    total = centred[::-1].cumsum()[::-1]
    squares = (centred**2)[::-1].cumsum()[::-1]
    error = np.maximum(squares - total**2 / left, 0.0) / left**2
    last = n // 2
    best = int(np.argmin(error[: last + 1]))
    return Truncation(5 * best, best == last)


def thinned(live: np.ndarray, resolution: float, horizon: float) -> list[float]:
    """The live streams up to the horizon as at most POINTS means of equal stretches."""
    x = np.asarray(live, float)[: max(int(horizon / resolution), 1)]
    size = -(-len(x) // POINTS)
    return [float(v) for v in x[: len(x) // size * size].reshape(-1, size).mean(axis=1)]


def stretches(series: Any, batches: int = 20, level: float = 0.95) -> tuple[float, float] | None:
    """Mean and half-width of a steady series cut into batches of equal length (batch means).

    What does not fill a batch is left out at the start; None if there is not one value for each.
    A check on replications, no more: a batch must be long against the memory of the series.
    """
    x = np.asarray(series, float)
    size = len(x) // batches
    if size == 0:
        return None
    means = x[len(x) - size * batches :].reshape(batches, size).mean(axis=1)
    if (means == means[0]).all():
        return float(means[0]), 0.0
    half = student.ppf(0.5 + level / 2, batches - 1) * means.std(ddof=1) / np.sqrt(batches)
    return float(means.mean()), float(half)


def advice(scenario: Any, runs: Sequence[Sequence[float]]) -> str | None:
    """A sentence if MSER-5 would leave out more than the scenario's warm-up, else None.

    runs: ``thinned`` of each replication.
    """
    if scenario.workload.arrivals.kind not in STATIONARY or not runs:
        return None
    mean = np.mean(runs, axis=0)
    found, step = mser5(mean), scenario.horizon / max(len(mean), 1)
    if found.at_edge:
        return (
            "the live streams do not settle within half of the horizon (MSER-5): overloaded, or "
            "too short a run"
        )
    if found.cut * step <= scenario.warmup + 5 * step:
        return None
    return (
        f"MSER-5 would leave out the first {found.cut * step:.0f} s of the live streams as "
        f"start-up; warmup is {scenario.warmup:g} s"
    )
