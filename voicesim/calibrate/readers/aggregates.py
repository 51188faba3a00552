"""What the readers of summaries share: names of statistics, units, and the load in a settings tree.

A summary gives points of a curve by load and no more: decode and codec cannot be told apart.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from voicesim.calibrate.errors import CalibrationError
from voicesim.calibrate.readers.measured import CURVE, Measured, table

ONLY = "aggregates only: decode and codec cost cannot be told apart"
PER_REQUEST = "single steps: requests alone cannot tell decode and codec cost apart"

UNITS = {
    "ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0, "seconds": 1.0,
    "milliseconds": 1e-3, "nanoseconds": 1e-9, "microseconds": 1e-6,
    "tokens": 1.0, "requests": 1.0, "requests/sec": 1.0, "per sec": 1.0, "tokens/sec": 1.0,
    "tokens/sec/user": 1.0,
}  # fmt: skip
"""What a value in this unit is multiplied by to be in seconds, tokens, or one of them a second."""


def scale(unit: str, refuse: Callable[[str], CalibrationError]) -> float:
    """The factor of a unit; an unknown one is raised as what ``refuse`` makes of the words."""
    if unit not in UNITS:
        raise refuse(f"unknown unit {unit!r}; known: {', '.join(UNITS)}")
    return UNITS[unit]


def loads(settings: Any) -> tuple[float | None, float | None]:
    """(concurrency, requests per second) as set anywhere in a tree of settings; None: not set."""
    found = {name: _first(settings, names) for name, names in _LOADS.items()}
    return found["concurrency"], found["rate"]


_LOADS = {
    "concurrency": ("concurrency", "streams", "max_concurrency"),
    "rate": ("request_rate", "rate"),
}


def _first(tree: Any, names: tuple[str, ...]) -> float | None:
    if not isinstance(tree, dict):
        return None
    for name in names:
        value = tree.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    return next((f for each in tree.values() if (f := _first(each, names)) is not None), None)


def points(
    base: Mapping[str, Any], metric: str, stats: Mapping[str, float]
) -> Iterator[dict[str, Any]]:
    """Rows of a curve: one per statistic."""
    for stat, value in stats.items():
        yield {**base, "metric": metric, "stat": stat, "value": value}


def measured(
    file: str, name: str, rows: int, curve: Iterable[Mapping[str, Any]], **more: Any
) -> Measured:
    """A summary as read.  Refuses one without a single point."""
    found = list(curve)
    if not found:
        raise CalibrationError(file, None, f"{name}: holds no statistic that is known")
    told = sorted({str(point["metric"]) for point in found})
    more = {"cannot": [ONLY], "tells": [f"by load: {', '.join(told)}"], **more}
    return Measured(file, name, rows, curve=table(CURVE, found), **more)
