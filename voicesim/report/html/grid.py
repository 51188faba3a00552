"""Numbers by variant as the terminal shows them: its columns, cells and words."""

from collections.abc import Mapping, Sequence
from typing import Any

from voicesim.report import words
from voicesim.report.html.page import table
from voicesim.report.html.tags import Html, join, tag
from voicesim.report.table import Column

STYLES = {"bold green": "good", "green": "good", "red": "bad", "bold red": "bad",
          "yellow": "doubt", "dim": "na"}  # fmt: skip
"""Styles of the terminal as classes of style.css."""


def grid(
    caption: str, rows: words.Summary, columns: Sequence[Column], what: str = "variant",
    best: str | None = None,
) -> Html:  # fmt: skip
    """A row per variant, stage or segment (``what`` it is); best: the variant that is."""
    head = [what, *("\n".join(c.head) for c in columns)]
    body = [
        [_name(name, name == best), *(_cell(m, c, name == best) for c in columns)]
        for name, m in rows.items()
    ]
    return table(caption, head, body, groups=["", *(c.group for c in columns)])


def _name(name: str, best: bool) -> Html:
    return join(tag("span", name, class_="good"), " (best)") if best else join(name)


def _cell(metrics: Mapping[str, Any], column: Column, best: bool) -> Html:
    found = words.metric(metrics, *column.path)
    style = "dim" if found["mean"] is None else column.style(found["mean"])
    if best and column.path == ["clean_share"]:
        style = "bold green"
    return tag("span", words.with_interval(found, column.show), class_=STYLES.get(style))
