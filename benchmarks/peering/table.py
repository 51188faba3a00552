"""Rows of figures as lines of text: a head, then a row each, columns as wide as they need."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Column:
    """Its head, the key in a row, and how a value reads; a row without the key has a dash."""

    head: str
    key: str
    show: Callable[[float], str] = str


def ms(seconds: float) -> str:
    """Seconds as milliseconds to four digits."""
    return f"{1000.0 * seconds:,.4g}" if seconds < 9.9995 else f"{1000.0 * seconds:,.0f}"


def table(rows: Iterable[dict], columns: list[Column]) -> list[str]:
    """Lines, Markdown as they stand; the first column stands left, the others right."""
    cells = [[c.head for c in columns]]
    for row in rows:
        cells.append([c.show(row[c.key]) if row.get(c.key) is not None else "-" for c in columns])
    wide = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for first, *rest in cells:
        others = (cell.rjust(w) for cell, w in zip(rest, wide[1:], strict=True))
        lines.append("| " + " | ".join([first.ljust(wide[0]), *others]) + " |")
    rule = ["-" * wide[0], *("-" * (w - 1) + ":" for w in wide[1:])]
    return [lines[0], "| " + " | ".join(rule) + " |", *lines[1:]]
