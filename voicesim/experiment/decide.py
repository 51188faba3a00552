"""From the runs of one look to differences, verdicts, and whether it is enough."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from voicesim.experiment import method
from voicesim.experiment.looks import Looks
from voicesim.experiment.method import Interval
from voicesim.experiment.metrics import METRICS

Values = Mapping[str, Mapping[str, Sequence[float | None]]]
"""Variant -> metric -> its value in replication 0, 1, ...; None: not measured."""

ALPHA = 1.0 - method.LEVEL
SAME, UNKNOWN, UNMEASURED = "the same", "cannot tell", "not measured"


@dataclass(frozen=True)
class Precision:
    """What is tight enough: a half-width of at most ``relative`` x |mean of the baseline|, or of
    ``width`` in the metric's own unit (default: Metric.fine)."""

    relative: float = 0.1
    width: float | None = None

    def allows(self, half: float, baseline: float, metric: str) -> bool:
        """Is this half-width of a difference tight?"""
        fine = METRICS[metric].fine if self.width is None else self.width
        return half <= max(self.relative * abs(baseline), fine)


@dataclass(frozen=True)
class Difference:
    """A variant against the baseline in one metric.

    difference: of the paired replications, at the level of the look; p_holm: adjusted for the
    looks and (Holm) for the variants.  measured: pairs in which both were measured, of
    ``replications``.  runs_saved: variance that independent seeds would have had / this one's.
    """

    variant: str
    metric: str
    replications: int
    measured: int
    baseline: float
    mean: float
    difference: Interval
    p: float
    p_holm: float
    correlation: float | None
    runs_saved: float | None
    verdict: str
    settled: bool


def differences(
    values: Values, baseline: str, metrics: Sequence[str], looks: Looks, precision: Precision,
    final: bool = True,
) -> list[Difference]:  # fmt: skip
    """Every variant against the baseline in every metric.

    final: whether this is a look of the schedule; between looks nothing is decided.
    """
    others = [name for name in values if name != baseline]
    found = []
    for metric in metrics:
        pairs = {v: _pairs(values[baseline][metric], values[v][metric]) for v in others}
        raw = {v: looks.adjust(_p_value(a, b)) for v, (a, b) in pairs.items()}
        adjusted = dict(zip(others, method.holm(list(raw.values())), strict=True))
        found += [
            _difference(
                v, metric, len(values[v][metric]), *pairs[v], raw[v], adjusted[v],
                looks.level, precision, final,
            )
            for v in others
        ]  # fmt: skip
    return sorted(found, key=lambda d: others.index(d.variant))


def enough(found: Sequence[Difference], metrics: Sequence[str]) -> bool:
    """Is every difference in these metrics settled?"""
    return all(d.settled for d in found if d.metric in metrics)


def _pairs(a: Sequence[float | None], b: Sequence[float | None]) -> tuple[list[float], list[float]]:
    known = [(x, y) for x, y in zip(a, b, strict=True) if x is not None and y is not None]
    return [x for x, _ in known], [y for _, y in known]


def _p_value(a: Sequence[float], b: Sequence[float]) -> float:
    return method.t_p_value([y - x for x, y in zip(a, b, strict=True)])


def _difference(
    variant: str, metric: str, replications: int, a: list[float], b: list[float], p: float,
    p_holm: float, level: float, precision: Precision, final: bool,
) -> Difference:  # fmt: skip
    interval = method.paired(a, b, level)
    baseline, mean = method.t_interval(a).mean, method.t_interval(b).mean
    measured = len(a)
    sign = final and p_holm < ALPHA
    if measured == 0:
        verdict = UNMEASURED
    elif measured > 1 and interval.half == 0.0 and interval.mean == 0.0:
        verdict = SAME
    elif sign:
        verdict = _word(interval.mean * (METRICS[metric].better or 1), METRICS[metric].better)
    else:
        verdict = UNKNOWN
    tight = measured > 1 and precision.allows(interval.half, baseline, metric)
    return Difference(
        variant, metric, replications, measured, baseline, mean, interval, p, p_holm,
        method.correlation(a, b), method.variance_ratio(a, b), verdict,
        final and (tight or sign or (measured == 0 and not math.isfinite(baseline))),
    )  # fmt: skip


def _word(gain: float, better: int) -> str:
    if better == 0:
        return "higher" if gain > 0 else "lower"
    return "better" if gain > 0 else "worse"
