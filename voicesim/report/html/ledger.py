"""The latency ledger of dialogues as a waterfall: where the time goes from the caller's last word
to the answer's first sound.

Drawn where a variant's summary has ``ledger`` (voicesim.metrics.dialogue_ledger).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from voicesim.metrics.dialogue_ledger import waterfall
from voicesim.metrics.dialogue_run import SEGMENTS
from voicesim.report import dialogue_table, words
from voicesim.report.html.charts import Chart, axis, chart, mark, panel
from voicesim.report.html.grid import grid
from voicesim.report.html.page import Section, place

TURNS = {"median_turn": "the median turn", "p99_turn": "the slowest turn in a hundred"}


def section(summary: words.Summary, charts: list[Chart]) -> Section | None:
    """A chart and a table for each variant that has a ledger; None where none has."""
    body = []
    for i, (name, metrics) in enumerate(summary.items()):
        if not metrics.get("ledger"):
            continue
        made = ledger_chart(metrics["ledger"], f"ledger{i}", name, i)
        charts.append(made)
        columns = dialogue_table.LEDGER
        if "marginal" in metrics:
            columns = [*columns, dialogue_table.MARGINAL]
        rows = dialogue_table.ledger(metrics)
        body.append(place(made, grid(f"Where the time went: {name}", rows, columns, "segment")))
    heading = "From the caller's last word to the first sound"
    return Section("ledger", heading, body) if body else None


def ledger_chart(ledger: Mapping[str, Any], name: str, variant: str, number: int) -> Chart:
    """The turns around the median and around the p99: each segment begins where the one before
    ends, and together they are the whole."""
    means = {key: each["mean"] for key, each in ledger.items()}
    panels, said, end = [], [], 0.0
    for kind, turn in TURNS.items():
        parts = waterfall(means, kind)
        marks = [
            mark("spans", segment, number, row=row, x=np.array([1000 * begins]),
                 x1=np.array([1000 * (begins + lasts)]),
                 label=[f"{segment}: {words.milliseconds(lasts)} ms"])
            for row, (segment, begins, lasts) in enumerate(parts)
        ]  # fmt: skip
        whole = means[f"total_{kind}_s"]
        end = max([end, *(1000 * (begins + lasts) for _, begins, lasts in parts)])
        shown = words.NOT_MEASURED if whole is None else f"{words.milliseconds(whole)} ms"
        panels.append(panel(axis(f"{turn}: {shown}", 0, len(SEGMENTS)), marks, 150, SEGMENTS))
        most = max(parts, key=lambda p: p[2], default=None)
        longest = "" if most is None else f", most of it {most[0]}"
        said.append(f"{turn} takes {shown}{longest}")
    text = f"Means of the turns around each, so that the segments add up: {'; '.join(said)}."
    x = axis("ms after the caller's last word", 0, 1.02 * end or 1.0, unit="ms")
    return chart(name, f"Where a turn's time goes: {variant}.", text, x, panels, zoom=True,
                 variant=number)  # fmt: skip
