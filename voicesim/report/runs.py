"""The ``runs`` command: what the folders under a folder hold, and two of them side by side."""

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from voicesim import terminal
from voicesim.experiment.folders import listing
from voicesim.experiment.metrics import ExperimentError
from voicesim.experiment.sides import side_by_side
from voicesim.report.sides import print_side_by_side

NAMES_SHOWN = 3
FIXED = ("folder", "kind", "when", "runs", "schema")


def runs_command(paths: Sequence[Path], variant: str | None, as_json: bool) -> int:
    """List the folders under one folder, or compare two; the exit code: 0, 2 bad input."""
    console = terminal.console()
    try:
        if len(paths) > 2:
            raise ExperimentError(f"{len(paths)} folders; give one to list or two to compare")
        if len(paths) == 2:
            found = side_by_side(paths[0], paths[1], variant)
            if as_json:
                print(json.dumps(found.as_dict(), indent=2, allow_nan=False))
            else:
                print_side_by_side(found.asked, (str(paths[0]), str(paths[1])), console)
                console.print(Text("\n".join(["", *found.notes]), "dim"))
            return 0
        if variant is not None:
            raise ExperimentError("--variant is of two folders to compare")
        root = paths[0] if paths else Path("runs")
        rows = listing(root)
    except ExperimentError as problem:
        print(problem, file=sys.stderr)
        return 2
    if as_json:
        print(json.dumps(rows, indent=2, allow_nan=False))
    else:
        print_listing(root, rows, console)
    return 0


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
