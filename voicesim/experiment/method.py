"""The statistics of comparing simulations: pure functions over plain arrays.

The unit is the replication: values of one run (a mean, a share, a p99) are correlated inside, so
an interval takes one number from each independent run and never the calls or turns of one run.
``level`` is the coverage of a two-sided interval.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import binom, chi2, norm
from scipy.stats import t as student

from voicesim.metrics.warmup import Truncation, mser5, stretches

__all__ = [
    "LEVEL",
    "Controlled",
    "Interval",
    "Truncation",
    "batch_means",
    "control_variate",
    "correlation",
    "holm",
    "mser5",
    "paired",
    "quantile_interval",
    "quantile_ranks",
    "t_interval",
    "t_p_value",
    "variance_ratio",
]  # fmt: skip

LEVEL = 0.95


@dataclass(frozen=True)
class Interval:
    """An estimate with a two-sided interval of n values; half is infinite for fewer than two."""

    mean: float
    half: float
    n: int

    @property
    def low(self) -> float:
        return self.mean - self.half

    @property
    def high(self) -> float:
        return self.mean + self.half

    def covers(self, truth: float) -> bool:
        """Does the interval hold this value?"""
        return self.low <= truth <= self.high


# --- means and differences --------------------------------------------------------------------


def t_interval(values: Any, level: float = LEVEL) -> Interval:
    """Student's interval of the mean of independent values.

    Values that are all equal give half-width 0: nothing in them speaks of an error.
    """
    x = np.asarray(values, float)
    if len(x) == 0:
        return Interval(np.nan, np.inf, 0)
    if len(x) == 1:
        return Interval(float(x[0]), np.inf, 1)
    half = student.ppf(0.5 + level / 2, len(x) - 1) * _sd(x) / np.sqrt(len(x))
    return Interval(float(x.mean()), float(half), len(x))


def t_p_value(values: Any) -> float:
    """Two-sided p value of mean 0; values that are all equal give 1 (all zero) or 0."""
    x = np.asarray(values, float)
    if len(x) < 2:
        return 1.0
    error = _sd(x) / np.sqrt(len(x))
    if error == 0.0:
        return 0.0 if x[0] else 1.0
    return float(2.0 * student.sf(abs(x.mean()) / error, len(x) - 1))


def paired(baseline: Any, other: Any, level: float = LEVEL) -> Interval:
    """Interval of the mean of other - baseline, replication by replication.

    Under common random numbers both saw the same callers, so most of the noise cancels.
    """
    return t_interval(np.asarray(other, float) - np.asarray(baseline, float), level)


@dataclass(frozen=True)
class Estimate:
    """An estimated mean or difference: its standard error, the degrees of freedom of that error
    (infinite: it is taken as known; 0: no error can be known) and how many values it rests on."""

    mean: float
    error: float
    df: float
    n: int

    def interval(self, level: float = LEVEL) -> Interval:
        """Student's interval; infinite where no error can be known."""
        if not self.df > 0:
            return Interval(self.mean, np.inf, self.n)
        half = 0.0 if self.error == 0.0 else student.ppf(0.5 + level / 2, self.df) * self.error
        return Interval(self.mean, float(half), self.n)

    def p_above(self, x: float) -> float:
        """One-sided p value of "the difference is at most x"."""
        if not self.df > 0:
            return 1.0
        if self.error == 0.0:
            return 0.0 if self.mean > x else 1.0
        return float(student.sf((self.mean - x) / self.error, self.df))


def estimate(values: Any) -> Estimate:
    """The mean of independent values."""
    x = np.asarray(values, float)
    error = float(_sd(x) / np.sqrt(len(x))) if len(x) > 1 else np.nan
    return Estimate(float(x.mean()) if len(x) else np.nan, error, max(len(x) - 1, 0), len(x))


def difference(a: Estimate, b: Estimate) -> Estimate:
    """b - a of independent estimates whose variances may differ (Welch 1947)."""
    total = a.error**2 + b.error**2
    spent = sum(e.error**4 / e.df for e in (a, b) if e.error and e.df)
    df = 0.0 if min(a.df, b.df) <= 0 else float(total**2 / spent) if spent > 0 else np.inf
    return Estimate(b.mean - a.mean, float(np.sqrt(total)), df, min(a.n, b.n))


def correlation(a: Any, b: Any) -> float | None:
    """Pearson's correlation over replications; None where one of them does not vary."""
    x, y = np.asarray(a, float), np.asarray(b, float)
    if len(x) < 3 or _sd(x) == 0.0 or _sd(y) == 0.0:
        return None
    return float(np.corrcoef(x, y)[0, 1])


def variance_ratio(a: Any, b: Any) -> float | None:
    """(Var a + Var b) / Var(b - a): how many times the runs that independent seeds would need."""
    x, y = np.asarray(a, float), np.asarray(b, float)
    if len(x) < 3 or _sd(y - x) == 0.0:
        return None
    return float((_sd(x) ** 2 + _sd(y) ** 2) / _sd(y - x) ** 2)


def _sd(x: np.ndarray) -> float:
    """Sample standard deviation; exactly 0 for equal values, whatever the rounding of a mean."""
    return 0.0 if (x == x[0]).all() else float(x.std(ddof=1))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p values (1979): below alpha where the step-down test rejects at alpha.

    The chance of any wrong rejection in the family stays below alpha, however they depend.
    """
    order = np.argsort(p_values, kind="stable")
    adjusted = [1.0] * len(p_values)
    highest = 0.0
    for rank, i in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = highest
    return adjusted


# --- quantiles --------------------------------------------------------------------------------


def quantile_ranks(n: int, q: float, level: float = LEVEL) -> tuple[int, int] | None:
    """Ranks (from 1) of the order statistics around quantile q of n independent values.

    The shortest tails of the binomial law; None where n is too small (p99 needs 368 values).
    """
    tail = (1.0 - level) / 2
    low = int(binom.ppf(tail, n, q))
    high = int(binom.ppf(1.0 - tail, n, q)) + 1
    return None if low < 1 or high > n else (low, high)


def quantile_interval(values: Any, q: float, level: float = LEVEL) -> tuple[float, float] | None:
    """Distribution-free interval of quantile q.

    Only for independent values (one per replication or per independent call): on the waits of
    one queue a nominal 95 % covers less than 20 %.
    """
    x = np.sort(np.asarray(values, float))
    ranks = quantile_ranks(len(x), q, level)
    return None if ranks is None else (float(x[ranks[0] - 1]), float(x[ranks[1] - 1]))


# --- shares and counts ------------------------------------------------------------------------


def wilson(hits: int, n: int, level: float = LEVEL) -> tuple[float, float]:
    """Wilson's interval (1927) of a share of n independent yes-or-no answers; (0, 1) of none."""
    if n == 0:
        return 0.0, 1.0
    z = float(norm.ppf(0.5 + level / 2))
    centre = (hits + z * z / 2) / (n + z * z)
    half = z / (n + z * z) * np.sqrt(hits * (n - hits) / n + z * z / 4)
    return max(float(centre - half), 0.0), min(float(centre + half), 1.0)


def poisson_interval(count: int, level: float = LEVEL) -> tuple[float, float]:
    """Garwood's exact interval (1936) of the mean of a Poisson law of which ``count`` was seen."""
    tail = (1.0 - level) / 2
    low = float(chi2.ppf(tail, 2 * count)) / 2 if count else 0.0
    return low, float(chi2.ppf(1.0 - tail, 2 * count + 2)) / 2


def bootstrap_ratio(
    tops: Any, bottoms: Any, level: float = LEVEL, draws: int = 2000
) -> tuple[float, float] | None:
    """Percentile interval of sum(tops) / sum(bottoms), whole replications drawn again.

    The draws are the same every time.  None where nothing varies or a draw may have bottom 0.
    """
    a, b = np.asarray(tops, float), np.asarray(bottoms, float)
    keep = b > 0
    a, b = a[keep], b[keep]
    if len(a) < 2 or _sd(a / b) == 0.0:
        return None
    again = np.random.default_rng(0).integers(len(a), size=(draws, len(a)))
    ratios = a[again].sum(axis=1) / b[again].sum(axis=1)
    tail = (1.0 - level) / 2
    low, high = np.quantile(ratios, (tail, 1.0 - tail))
    return float(low), float(high)


# --- one long run -----------------------------------------------------------------------------


def batch_means(series: Any, batches: int = 20, level: float = LEVEL) -> Interval:
    """Interval of a steady mean from one run cut into batches of equal length.

    What does not fill a batch is left out at the start.  A check on replications, no more: a
    batch must be long against the memory of the series.
    """
    found = stretches(series, batches, level)
    return t_interval([], level) if found is None else Interval(*found, batches)


# --- less noise -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Controlled:
    """A mean adjusted by a control variate; ratio: variance before / after."""

    interval: Interval
    slope: float
    ratio: float


def control_variate(
    values: Any, control: Any, known_mean: float, level: float = LEVEL
) -> Controlled:
    """The mean of ``values``, corrected by how far the mean of ``control`` fell from its own.

    The least-squares line of values over the control, read at the control's known mean; exact
    for jointly normal values, with n - 2 degrees of freedom.
    """
    y, x = np.asarray(values, float), np.asarray(control, float)
    n = len(y)
    if n < 3 or _sd(x) == 0.0:
        return Controlled(t_interval(y, level), 0.0, 1.0)
    away = x - x.mean()
    spread = float(away @ away)
    slope = float(away @ y) / spread
    shift = float(x.mean() - known_mean)
    rest = y - y.mean() - slope * away
    variance = float(rest @ rest) / (n - 2)
    half = student.ppf(0.5 + level / 2, n - 2) * np.sqrt(variance * (1 / n + shift**2 / spread))
    mean = float(y.mean() - slope * shift)
    ratio = float(y.var(ddof=1) / variance) if variance > 0 else np.inf
    return Controlled(Interval(mean, float(half), n), slope, ratio)
