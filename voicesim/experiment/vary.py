"""What is varied: KEY=LOW..HIGH[:STEP] and KEY=a,b,c, read and turned into values."""

import re
from dataclasses import dataclass
from decimal import Decimal

from voicesim.experiment.metrics import ExperimentError

MOST_VALUES = 100_000
_NUMBER = r"[-+]?(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?"
_END = rf"({_NUMBER})\s*([A-Za-z/]*)"
_RANGE = rf"{_END}\s*\.\.\s*{_END}(?:\s*:\s*{_END})?"


@dataclass(frozen=True)
class Axis:
    """A key of the scenario, in full, and its values as the scenario file would have them.

    values: None for a range of real numbers without a step, which has no list of values.
    low, high: the ends of a range, with their ``unit``; None for a list.  stepped: whether the
    range came with a step.
    """

    key: str
    values: tuple[str, ...] | None
    low: Decimal | None = None
    high: Decimal | None = None
    unit: str = ""
    stepped: bool = False

    @property
    def ends(self) -> tuple[str, str] | None:
        """Both ends of a range as text; None for a list."""
        if self.low is None or self.high is None:
            return None
        return _text(self.low, self.unit), _text(self.high, self.unit)

    def at(self, u: float) -> str:
        """The value at share u, 0 <= u < 1, of the range or of the list."""
        if self.values is not None:
            return self.values[int(u * len(self.values))]
        assert self.low is not None and self.high is not None
        value = float(self.low) + u * float(self.high - self.low)
        return _text(Decimal(f"{value:.10g}"), self.unit)


def key_of(text: str) -> str:
    """The dotted path in full: ``pools.`` and ``gpus.`` are of ``cluster``."""
    return f"cluster.{text}" if text.startswith(("pools.", "gpus.")) else text


def short(key: str) -> str:
    """The dotted path as it is shown."""
    return key.removeprefix("cluster.pools.")


def axis_of(text: str, option: str = "--vary") -> Axis:
    """Read KEY=LOW..HIGH[:STEP] or KEY=a,b,c.

    LOW, HIGH and STEP are numbers with one unit (10ms..40ms:10ms); whole numbers without a step
    go by 1.  HIGH below LOW counts down.  Raises ExperimentError.
    """
    found = re.fullmatch(r"\s*([\w.-]+)\s*=\s*(.*?)\s*", text, re.DOTALL)
    if found is None or not found[2]:
        raise ExperimentError(
            f"{option} {text}: expected KEY=LOW..HIGH, KEY=LOW..HIGH:STEP or KEY=a,b,c"
        )
    key, written = key_of(found[1]), found[2]
    if ".." in written:
        return _range(key, written, f"{option} {text}")
    values = tuple(each.strip() for each in written.split(","))
    if "" in values:
        raise ExperimentError(f"{option} {text}: there is nothing between two commas")
    twice = next((v for v in values if values.count(v) > 1), None)
    if twice is not None:
        raise ExperimentError(f"{option} {text}: {twice} is given twice")
    return Axis(key, values)


def _range(key: str, written: str, where: str) -> Axis:
    found = re.fullmatch(_RANGE, written)
    if found is None:
        raise ExperimentError(
            f"{where}: expected KEY=LOW..HIGH or KEY=LOW..HIGH:STEP, all numbers of one unit"
        )
    units = {u for n, u in zip(found.groups()[::2], found.groups()[1::2], strict=True) if n}
    if len(units) > 1:
        raise ExperimentError(f"{where}: give all numbers in one unit; found {_list(units)}")
    (unit,) = units
    low, high = Decimal(found[1]), Decimal(found[3])
    whole = low == low.to_integral_value() and high == high.to_integral_value()
    whole = whole and "." not in found[1] + found[3] and not unit
    if found[5] is None and not whole:
        return Axis(key, None, low, high, unit)
    step = Decimal(found[5] or 1)
    if step <= 0 or abs(high - low) / step >= MOST_VALUES:
        raise ExperimentError(f"{where}: from 1 to {MOST_VALUES:,} values")
    count = int(abs(high - low) / step) + 1
    sign = 1 if high >= low else -1
    values = tuple(_text(low + sign * i * step, unit) for i in range(count))
    return Axis(key, values, low, high, unit, found[5] is not None)


def _text(number: Decimal, unit: str) -> str:
    """Without trailing zeros, and without an exponent, which YAML would read as text."""
    return format(number.normalize() + 0, "f") + unit


def _list(units: set[str]) -> str:
    return " and ".join(unit or "a bare number" for unit in sorted(units))
