"""What a command prints, as HTML: one telling for the terminal and for the page."""

import io
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from voicesim.report.html.grid import STYLES
from voicesim.report.html.page import bullets, table
from voicesim.report.html.tags import Html, tag


class Listening(Console):
    """A console that keeps what is printed instead of showing it."""

    def __init__(self) -> None:
        super().__init__(file=io.StringIO(), width=1000)
        self.said: list[Table | Text] = []

    def print(self, *objects: Any, **how: Any) -> None:
        """Keep tables and lines; empty lines are left out."""
        for each in objects:
            if isinstance(each, str):
                each = Text.from_markup(each) if how.get("markup", True) else Text(each)
            if isinstance(each, Table) or each.plain.strip():
                self.said.append(each)


@dataclass
class Heard:
    """What a command printed.  title: its first line, if that is bold.  body: tables and sentences
    in order.  cautions: what is yellow or marked with (!).  method: what is dim."""

    title: str = ""
    body: list[Html] = field(default_factory=list)
    cautions: list[str] = field(default_factory=list)
    method: list[str] = field(default_factory=list)


def heard(show: Callable[[Console], None]) -> Heard:
    """Listen to ``show``."""
    console, found = Listening(), Heard()
    show(console)
    said = console.said
    if said and isinstance(said[0], Text) and str(said[0].style) == "bold":
        found.title = said[0].plain
        said = said[1:]
    lines: list[str] = []
    for each in said:
        if isinstance(each, Table):
            found.body += [*_sentences(lines), as_table(each)]
            lines = []
        elif str(each.style) == "yellow" or each.plain.startswith("(!)"):
            found.cautions.append(each.plain.removeprefix("warning: ").removeprefix("(!) "))
        elif str(each.style) == "dim":
            found.method.append(each.plain)
        else:
            lines.append(each.plain)
    found.body += _sentences(lines)
    return found


def _sentences(lines: list[str]) -> list[Html]:
    return [bullets(line.strip() for line in lines)] if lines else []


def as_table(shown: Table) -> Html:
    """A table of the terminal as one of the page; the same cells."""
    columns = [list(column.cells) for column in shown.columns]
    words = [i for i, column in enumerate(shown.columns) if column.justify == "left"]
    names = columns[0]
    for k, name in enumerate(names):  # a row whose name stands above it says it again
        names[k] = name if k == 0 or _plain(name) else names[k - 1]
    rows = [[_cell(cell) for cell in row] for row in zip(*columns, strict=True)]
    head = [_plain(column.header) for column in shown.columns]
    return table(_plain(shown.title or "Results"), head, rows, text=words)


def _plain(cell: Any) -> str:
    return cell.plain if isinstance(cell, Text) else str(cell)


def _cell(cell: Any) -> Any:
    """A cell with the colour that it has on the terminal."""
    style = STYLES.get(str(cell.style)) if isinstance(cell, Text) else None
    return tag("span", cell.plain, class_=style) if style else _plain(cell)
