"""The ``runs`` command: what the folders under a folder hold, and two of them side by side."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from voicesim.experiment.folders import listing
from voicesim.experiment.metrics import ExperimentError
from voicesim.experiment.sides import SideBySide, side_by_side
from voicesim.report.sides import print_side_by_side
from voicesim.report.studies import DONE, attempt, hand_over

NAMES_SHOWN = 3
FIXED = ("folder", "kind", "when", "runs", "schema")


def runs_command(paths: Sequence[Path], variant: str | None, as_json: bool, quiet: bool) -> int:
    """List the folders under one folder, or compare two; the exit code: 0, 2 bad input."""

    def compare() -> SideBySide:
        return side_by_side(paths[0], paths[1], variant)

    def rows() -> list[dict[str, Any]]:
        if len(paths) > 2:
            raise ExperimentError(f"{len(paths)} folders; give one to list or two to compare")
        if variant is not None:
            raise ExperimentError("--variant is of two folders to compare")
        return listing(root)

    def show(found: SideBySide, console: Console) -> None:
        print_side_by_side(found.asked, (str(paths[0]), str(paths[1])), console)
        console.print(Text("\n".join(["", *found.notes]), "dim"))

    root = paths[0] if paths else Path("runs")
    if len(paths) == 2:
        both = attempt(compare)
        if isinstance(both, int):
            return both
        hand_over(lambda console: show(both, console), both.as_dict, "", None, as_json, quiet)
        return DONE
    found = attempt(rows)
    if isinstance(found, int):
        return found
    hand_over(lambda console: print_listing(root, found, console), lambda: found, "", None,
              as_json, quiet)  # fmt: skip
    return DONE


def print_listing(root: Path, rows: Sequence[Mapping[str, Any]], console: Console) -> None:
    """A line per study, the unreadable ones last."""
    if not rows:
        console.print(f"{root}: no folders", markup=False, highlight=False)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("folder", "kind", "when", "variants", "runs", "says", "title", "schema"):
        side: Literal["left", "right"] = "right" if name == "runs" else "left"
        table.add_column(name, justify=side, no_wrap=name in FIXED)
    for row in rows:
        if row["problem"] is not None:
            continue
        table.add_row(
            Text(row["folder"], "bold"),
            row["kind"],
            f"{datetime.fromtimestamp(row['written']):%Y-%m-%d %H:%M}",
            Text(_names(row["variants"])),
            "" if row["replications"] is None else str(row["replications"]),
            Text(row["headline"] + ("" if row["complete"] else " (interrupted)")),
            Text(row["title"]),
            Text(row["schema"].removeprefix("voicesim-"), "dim"),
        )
    if table.row_count:
        console.print(table)
    for row in rows:
        if row["problem"] is not None:
            console.print(Text(f"{row['folder']}: unreadable: {row['problem']}", "yellow"))


def _names(names: Sequence[str]) -> str:
    more = len(names) - NAMES_SHOWN
    return ", ".join(names[:NAMES_SHOWN]) + (f", {more} more" if more > 0 else "")
