"""The peak over time: what was offered, who spoke, how late chunks were, who was lost."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from voicesim.report import words
from voicesim.report.figure import bin_width, smooth
from voicesim.report.html.charts import Chart, axis, chart, mark, panel
from voicesim.report.html.page import Section, folded, place, table
from voicesim.report.html.tags import Html

MOST_ROWS = 24  # of the table that says the same as the chart


def section(
    series: pd.DataFrame, summary: words.Summary, context: Mapping[str, Any], charts: list[Chart]
) -> Section | None:
    """The chart and its numbers as a table; None without a series."""
    if series.empty:
        return None
    width = bin_width(series, context["horizon"])
    drawn = {name: smooth(series[series["variant"] == name], width) for name in summary}
    live = "calls on the line" if "tenants" in context else "live streams"  # of dialogues
    made = peak_chart(drawn, context["horizon"], width, live)
    charts.append(made)
    return Section("peak", "The peak over time", [place(made, _numbers(drawn))])


def peak_chart(drawn: Mapping[str, pd.DataFrame], horizon: float, width: float, live: str) -> Chart:
    """drawn: variant -> ``figure.smooth`` of its series, in bins of ``width`` s.  live: what the
    column of that name counts."""
    every = pd.concat(drawn.values())
    active = every["minutes"][(every["live"] > 0) | (every["stalls"] > 0)]
    end = max(horizon / 60, (active.max() if len(active) else 0) + width / 60)
    offered = [rows["offered"].to_numpy() for rows in drawn.values()]
    same = all(len(o) == len(offered[0]) and np.allclose(o, offered[0]) for o in offered)
    marks: dict[str, list[dict[str, Any]]] = {k: [] for k in ("calls", "live", "gap", "stalls")}
    if same:
        rows = next(iter(drawn.values()))
        marks["calls"].append(_line("area", "offered", None, rows, "offered", width))
    for i, rows in enumerate(drawn.values()):
        if not same:
            marks["calls"].append(_line("line", "offered", i, rows, "offered", width))
        marks["calls"] += [
            _line("line", "refused", i, rows, "refused", width),
            {**_line("line", "hung up", i, rows, "abandoned", width), "look": "second"},
        ]
        marks["live"].append(_line("line", live, i, rows, "live", width))
        marks["gap"].append(_line("line", "p99 chunk gap", i, rows, "gap", width))
        marks["stalls"].append(_line("line", "stalls", i, rows, "stalls", width))
    gaps = every["gap"][every["gap"] > 0]
    low, high = (gaps.min(), gaps.max()) if len(gaps) else (0.5, 2.0)
    marks["gap"].append(mark("level", "beyond 1 the listener's buffer drains", y=1))
    lost = (every["refused"]).max(), every["abandoned"].max(), every["offered"].max()
    stalls = f"audible stalls per {words.duration(width)}"
    panels = [
        panel(axis("calls per second: offered (grey), refused, hung up (dashed)", 0,
                   1.08 * max(lost) or 1), marks["calls"]),
        panel(axis(live, 0, 1.08 * every["live"].max() or 1), marks["live"]),
        panel(axis("p99 chunk gap ÷ audio of the chunk before", min(low, 0.8), max(1.2 * high, 1.5),
                   log=True), marks["gap"]),
        panel(axis(stalls, 0, 1.1 * every["stalls"].max() or 1), marks["stalls"], 80),
    ]  # fmt: skip
    x = axis("minutes", 0, end, unit="min")
    return chart("peak", "The peak over time.", _said(drawn, live), x, panels, zoom=True)


def _line(
    kind: str, name: str, variant: int | None, rows: pd.DataFrame, column: str, width: float
) -> dict[str, Any]:
    middle = rows["minutes"].to_numpy() + width / 120
    return mark(kind, name, variant, x=middle, y=rows[column].to_numpy())


def _said(drawn: Mapping[str, pd.DataFrame], live: str) -> str:
    """Where each variant has most streams, and how many stalls."""
    parts = []
    for name, rows in drawn.items():
        if not len(rows):
            continue
        at = int(rows["live"].argmax())
        stalls = rows["stalls"].sum()
        heard = "no audible stall" if not stalls else f"{words.count(float(stalls))} audible stalls"
        parts.append(
            f"{name}: at most {words.count(float(rows['live'].iloc[at]))} {live}, at "
            f"{rows['minutes'].iloc[at]:.0f} min; {heard}"
        )
    return ". ".join(parts) + "."


def _numbers(drawn: Mapping[str, pd.DataFrame]) -> Html:
    head = ["minute", "variant", "offered/s", "refused/s", "hung up/s", "live", "p99 gap", "stalls"]
    found = []
    for name, rows in drawn.items():
        every = max(-(-len(rows) // MOST_ROWS), 1)
        for start in range(0, len(rows), every):
            part = rows.iloc[start : start + every]
            means = [part[c].mean() for c in ("offered", "refused", "abandoned", "live", "gap")]
            shown = [words.NOT_MEASURED if np.isnan(m) else f"{m:,.4g}" for m in means]
            stalls = words.count(float(part["stalls"].sum()))
            found.append([f"{part['minutes'].iloc[0]:.1f}", name, *shown, stalls])
    return folded("The same in numbers", table("Means from the minute on, stalls counted", head,
                                                found, names=2))  # fmt: skip
