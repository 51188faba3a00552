"""The bars of a tornado: what moving an input to each of its ends does to a metric."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from voicesim.experiment import method
from voicesim.experiment.decide import ALPHA, SAME, Difference, Precision, differences
from voicesim.experiment.inputs import BASE, HIGH, LOW, Input
from voicesim.experiment.looks import Looks
from voicesim.experiment.metrics import value
from voicesim.experiment.playing import Run
from voicesim.files import finite


@dataclass(frozen=True)
class Bar:
    """An input: both ends against the base, and the span of the metric over low, base and high.

    spans: per replication, the metric where its mean is largest less where it is smallest; None
    where one was not measured.  same_callers: whether both ends met those of the base.
    """

    input: Input
    low: Difference
    high: Difference
    spans: list[float | None]
    same_callers: bool

    @property
    def reach(self) -> tuple[float, float]:
        """Lowest and highest mean difference from the base, the base's own 0 included."""
        known = [0.0, *(d.difference.mean for d in (self.low, self.high) if d.measured)]
        return min(known), max(known)

    @property
    def span(self) -> float:
        """How far the metric moves: the length of ``reach``."""
        return self.reach[1] - self.reach[0]

    @property
    def shown(self) -> bool:
        """Is one of the ends shown to move the metric (Holm over all ends)?"""
        return any(d.p_holm < ALPHA for d in (self.low, self.high) if d.measured)

    @property
    def nothing(self) -> bool:
        """Do both ends leave the metric as it is, to the bit?"""
        return self.low.verdict == self.high.verdict == SAME

    @property
    def ends(self) -> list[dict[str, Any]]:
        """Both ends as plain data, the low one first."""
        return [
            {
                "value": text, "mean": finite(d.mean), "difference": finite(d.difference.mean),
                "low": finite(d.difference.low), "high": finite(d.difference.high),
                "measured": d.measured, "p": d.p, "p_holm": d.p_holm, "verdict": d.verdict,
            }
            for text, d in ((self.input.low, self.low), (self.input.high, self.high))
        ]  # fmt: skip


def bars_of(
    metric: str, base: Sequence[Run], inputs: Sequence[Input], ends: Sequence[Sequence[list[Run]]]
) -> list[Bar]:
    """The bars, widest first; the verdicts of all ends together (Holm)."""
    names = [(f"{i} {LOW}", f"{i} {HIGH}") for i in range(len(inputs))]
    values = {BASE: _values(base, metric)}
    for pair, of in zip(names, ends, strict=True):
        values |= {name: _values(runs, metric) for name, runs in zip(pair, of, strict=True)}
    looks = Looks((len(base),))
    wide = {name: {metric: each} for name, each in values.items()}
    found = {d.variant: d for d in differences(wide, BASE, (metric,), looks, Precision())}
    bars = []
    for each, (low, high), of in zip(inputs, names, ends, strict=True):
        three = {0.0: BASE, found[low].difference.mean: low, found[high].difference.mean: high}
        known = [x for x in three if math.isfinite(x)]
        top, bottom = values[three[max(known)]], values[three[min(known)]]
        spans = [
            None if a is None or b is None else a - b for a, b in zip(top, bottom, strict=True)
        ]
        bars.append(
            Bar(each, found[low], found[high], spans, all(_same(runs, base) for runs in of))
        )
    return sorted(bars, key=lambda bar: -bar.span)


def _values(runs: Sequence[Run], metric: str) -> list[float | None]:
    return [value(run["metrics"], metric) for run in runs]


def _same(runs: Sequence[Run], base: Sequence[Run]) -> bool:
    return all(a["callers"] == b["callers"] for a, b in zip(runs, base, strict=True))


def p_lead(a: Sequence[float | None], b: Sequence[float | None]) -> float:
    """p value of two inputs having the same span, paired over replications."""
    pairs = zip(a, b, strict=True)
    return method.t_p_value([x - y for x, y in pairs if x is not None and y is not None])
