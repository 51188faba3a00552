"""Did a metric get worse?  Two sets of replications, one verdict per metric.

Replications of the same callers are compared pair by pair, others as two independent samples
(Welch).  A metric is WORSE if it is shown that it worsened by more than its margin.  Each metric
has a two-sided p value (worse beyond the margin on one side, better on the other); Holm's step
over all metrics judged keeps the chance of any wrong "worse" or "better" below 5 %.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import comb

import numpy as np
import pandas as pd
from scipy.stats import t as student

from voicesim.experiment import method
from voicesim.experiment.decide import ALPHA, SAME, UNKNOWN, UNMEASURED
from voicesim.experiment.method import Estimate, Interval
from voicesim.experiment.metrics import ExperimentError

LEAST = 5
"""Replications of a side.  The interval of 5 is 1.2 standard deviations wide on either side, that
of 3 twice, that of 2 seven times as wide; one has none."""

WORSE, BETTER, LOST, WITHIN = "worse", "better", "no longer measured", "within the margin"
PAIRED, WELCH, GIVEN = "paired", "Welch", "given"
POWER = 0.8
ALPHA_LOST = 0.01


@dataclass(frozen=True)
class Judged:
    """A metric of the candidate against the baseline's.

    better: +1 the more the better, -1 the less.  baseline, candidate: means (NaN: not measured).
    difference: candidate - baseline with its own 95 % interval.  margin: worsening that is
    allowed, in the metric's unit.  sees: worsening that this gate would find with 80 %
    probability (infinite: none).
    """

    metric: str
    better: int
    how: str
    runs: tuple[int, int]
    baseline: float
    candidate: float
    difference: Interval
    margin: float
    p: float
    sees: float = math.inf
    p_holm: float = 1.0
    verdict: str = UNKNOWN

    @property
    def tested(self) -> bool:
        """Was there a test to make?  Else nothing was measured, or nothing any more."""
        return self.verdict not in (UNMEASURED, LOST)

    @property
    def failed(self) -> bool:
        """Is it shown to be worse?"""
        return self.verdict in (WORSE, LOST)


@dataclass(frozen=True)
class Asked:
    """Two means to be compared: which way is better, their difference and how it was had.  lost:
    only the baseline could measure it, and not by accident."""

    metric: str
    better: int
    how: str
    runs: tuple[int, int]
    baseline: float
    candidate: float
    difference: Estimate
    lost: bool = False


def asked_of(
    metric: str,
    better: int,
    baseline: pd.DataFrame,
    candidate: pd.DataFrame,
    paired: bool,
    least: int = LEAST,
) -> Asked:
    """One metric of two tables of replications (columns replication and the metric; NaN: not
    measured).  Raises ExperimentError where fewer than ``least`` replications could measure it on
    a side that could, or (if paired) on both together."""
    a, b = _values(baseline, metric), _values(candidate, metric)
    runs = (int(a.notna().sum()), int(b.notna().sum()))
    if paired and min(runs) > 0:
        both = pd.concat([a, b], axis=1, keys=["a", "b"], join="inner").dropna()
        a, b = both["a"], both["b"]
        few, where, found = len(both), "both sides", method.estimate(b.to_numpy() - a.to_numpy())
    else:
        a, b = a.dropna(), b.dropna()
        few, where = min(runs), "one side"
        found = method.difference(method.estimate(a), method.estimate(b))
    if min(runs) > 0 and few < least:
        raise ExperimentError(
            f"{metric}: measured in {few} replications of {where}, at least {least} are needed; "
            "play more, or leave it out"
        )
    lost = runs[0] > 0 and runs[1] == 0 and _lost(runs[0], len(baseline), len(candidate))
    if runs[0] > 0 and runs[1] == 0 and not lost and least > 1:
        raise ExperimentError(
            f"{metric}: measured in {runs[0]} of {len(baseline)} replications of the baseline and "
            "in none of the candidate's: cannot be judged; play more, or leave it out"
        )
    means = [float(x.mean()) if len(x) else math.nan for x in (a, b)]
    how = PAIRED if paired else WELCH
    return Asked(metric, better, how, runs, means[0], means[1], found, lost)


def _lost(measured: int, baseline: int, candidate: int) -> bool:
    """Is it no accident that all ``measured`` replications are the baseline's?  Fisher's exact
    test at ALPHA_LOST."""
    p = comb(baseline, measured) / comb(baseline + candidate, measured)
    return p < ALPHA_LOST


def _values(table: pd.DataFrame, metric: str) -> pd.Series:
    by = table.set_index("replication")
    return by[metric] if metric in by else pd.Series(np.nan, by.index, dtype=float)


def judge(asked: Sequence[Asked], margins: Mapping[str, float]) -> list[Judged]:
    """The verdict on each metric.  margins: metric -> allowed worsening, default 0.

    A metric that is lost is no longer measured, which fails beside Holm's step (with a chance of
    1 % of its own).
    """
    first = [_first(each, margins.get(each.metric, 0.0)) for each in asked]
    family = [j for j in first if j.verdict == UNKNOWN]
    adjusted = iter(method.holm([j.p for j in family]))
    strict = ALPHA / max(len(family), 1)
    found = []
    for j, each in zip(first, asked, strict=True):
        if j.verdict == UNKNOWN:
            p = next(adjusted)
            sees = _sees(each.difference, j.margin, strict)
            j = replace(j, p_holm=p, sees=sees, verdict=_verdict(j, each, p))
        found.append(j)
    return found


def _first(each: Asked, margin: float) -> Judged:
    """Without the other metrics: everything but the adjusted p value and what follows from it."""
    worsening = _worsening(each)
    p = min(worsening.p_above(margin), _negative(worsening).p_above(0.0))
    verdict = LOST if each.lost else UNKNOWN if min(each.runs) > 0 else UNMEASURED
    return Judged(
        each.metric, each.better, each.how, each.runs, each.baseline, each.candidate,
        each.difference.interval(), margin, min(1.0, 2.0 * p), verdict=verdict,
    )  # fmt: skip


def _worsening(each: Asked) -> Estimate:
    return each.difference if each.better < 0 else _negative(each.difference)


def _negative(e: Estimate) -> Estimate:
    return replace(e, mean=-e.mean)


def _verdict(j: Judged, each: Asked, p_holm: float) -> str:
    worsening = _worsening(each)
    if worsening.error == 0.0 and worsening.mean == 0.0:
        return SAME
    if p_holm < ALPHA:
        return WORSE if worsening.mean > j.margin else BETTER
    high = worsening.interval().high
    return WITHIN if j.margin > 0 and high <= j.margin else UNKNOWN


def _sees(e: Estimate, margin: float, strict: float) -> float:
    """The worsening found with 80 % probability at the strictest level of Holm's step."""
    if not e.df > 0:
        return math.inf
    ahead = student.ppf(1.0 - strict / 2.0, e.df) + student.ppf(POWER, e.df)
    return margin + (float(ahead * e.error) if e.error else 0.0)
