"""Charts as plain data, which ``script-*.js`` draw as SVG.

A chart is a column of panels over one x axis.  A panel has marks: ``line`` and ``step`` (x, y),
``area`` (x, y: from 0), ``band`` (x, y, y0), ``spans`` (x, x1, row, label), ``ranges`` (x, x0, x1,
row: a mean with its interval), ``level`` (y) and ``place`` (x): a labelled line across, and
``zone`` (x, x1: a shaded part).  A mark of a variant has its number and its colour, and goes when
that is switched off.  None in y is a gap.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

Chart = dict[str, Any]
FIGURES = 5  # significant; more cannot be seen, and the page stays small


def chart(
    name: str, title: str, desc: str, x: dict[str, Any], panels: Sequence[dict[str, Any]],
    zoom: bool = False, variant: int | None = None,
) -> Chart:  # fmt: skip
    """A chart.  name: its id.  desc: what a reader who does not see it should know.  x: an
    ``axis``.  variant: the chart is about this one alone."""
    made = {"id": name, "title": title, "desc": desc, "x": x, "panels": list(panels), "zoom": zoom}
    return made if variant is None else {**made, "variant": variant}


def axis(
    label: str, low: float, high: float, log: bool = False, unit: str = "", short: str = ""
) -> dict[str, Any]:
    """An axis from low to high; unit: of values that are read off ("%", "ms")."""
    return {"label": label, "min": number(low), "max": number(high), "log": log, "unit": unit,
            "short": short or label}  # fmt: skip


def panel(
    y: dict[str, Any], marks: Iterable[dict[str, Any]], height: int = 110,
    rows: Sequence[str] = (),
) -> dict[str, Any]:  # fmt: skip
    """A panel.  rows: names of the rows of spans and ranges, from the top."""
    found = {"y": y, "marks": list(marks), "height": height}
    return {**found, "rows": list(rows)} if rows else found


def mark(kind: str, name: str, variant: int | None = None, **data: Any) -> dict[str, Any]:
    """A mark; arrays are shortened to FIGURES significant digits."""
    found: dict[str, Any] = {"kind": kind, "name": name}
    if variant is not None:
        found["variant"] = variant
    for key, value in data.items():
        found[key] = numbers(value) if isinstance(value, np.ndarray) else value
    return found


def number(x: Any) -> float | int | None:
    """A number of FIGURES significant digits; None where it is not finite."""
    if x is None or not np.isfinite(x):
        return None
    short = float(f"{float(x):.{FIGURES}g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short


def numbers(values: Any) -> list[float | int | None]:
    """An array as JSON has it."""
    return [number(x) for x in np.asarray(values, float).tolist()]
