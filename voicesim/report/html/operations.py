"""What operators and faults did to a run: the log of its controllers, from the folder's tables."""

from pathlib import Path

import pandas as pd

from voicesim.report.html.page import Section, table
from voicesim.report.html.tags import tag
from voicesim.study import StudyResult

MOST = 60
"""Rows shown of each variant, the first ones."""


def section(result: StudyResult, folder: Path | None) -> Section | None:
    """The first replication of each variant; None where nothing was done."""
    if folder is None or not (folder / "operations").is_dir():
        return None
    body = []
    for name in result.summary:
        file = folder / "operations" / f"{name}-0.parquet"
        if not file.is_file():
            continue
        rows = pd.read_parquet(file)
        said = f"{name}: the first {MOST} of {len(rows)}" if len(rows) > MOST else name
        columns = (rows.head(MOST)[c] for c in ("t_s", "what", "pool", "replica", "value"))
        cells = [
            (f"{t:.1f}", what, pool, replica if replica >= 0 else "all", f"{value:g}")
            for t, what, pool, replica, value in zip(*columns, strict=True)
        ]
        body.append(table(said, ("t, s", "what", "pool", "replica", "value"), cells, text=(1, 2)))
    text = "Scaling, rollout, faults and what noticed them, in the first replication of each."
    note = tag("p", text, class_="faint")
    return (
        Section("operations", "What was done, and what happened", [note, *body]) if body else None
    )
