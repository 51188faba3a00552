"""Studies as pictures: the differences of a gate, and the settings that a plan judged.

Both are drawn from the tables that a study writes, so that a finished folder can be drawn too.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from voicesim.experiment.gate import MEANINGS
from voicesim.experiment.judge import BETTER, LOST, WORSE
from voicesim.experiment.plan import SHARES
from voicesim.experiment.plan_search import FAILS, MEETS
from voicesim.report.figure import BLUE, FAINT, INK, ORANGE, RED

VERDICTS = {BETTER: BLUE, WORSE: RED, LOST: RED, MEETS: BLUE, FAILS: RED}
OTHER = "#8a8a8a"
ACROSS = 3


def differences_figure(table: pd.DataFrame, metrics: Sequence[str], baseline: str) -> Figure:
    """Differences from the baseline: a panel per metric, a row per variant.

    table: columns variant, metric, difference, low, high (NaN: no interval), verdict.
    """
    variants = list(dict.fromkeys(table["variant"]))
    across = min(ACROSS, len(metrics))
    down = -(-len(metrics) // across)
    size = (3.6 * across + 1.4, (0.42 * len(variants) + 1.15) * down + 0.5)
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(down, across, squeeze=False)
    for i, axis in enumerate(panels.flat):
        if i >= len(metrics):
            axis.set_visible(False)
            continue
        axis.set_label(metrics[i])
        of = table[table["metric"] == metrics[i]]
        rows = {str(row["variant"]): row for row in of.to_dict("records")}
        _differences(axis, rows, variants, metrics[i], outer=i % across == 0)
    handles = [
        Line2D([], [], marker="o", ls="", color=color, label=text)
        for text, color in ((BETTER, BLUE), (WORSE, RED), ("not settled", OTHER))
    ]
    figure.legend(
        handles=handles, loc="outside upper left", ncols=3, frameon=False, fontsize=9,
        title=f"difference from {baseline}, 95 % interval", alignment="left",
    )  # fmt: skip
    return figure


def _differences(
    axis: Axes, rows: dict[str, Any], variants: Sequence[str], metric: str, outer: bool
) -> None:
    of = MEANINGS[metric]
    scale, unit = _scale(metric)
    for y, name in enumerate(variants):
        row = rows.get(name, {})
        if not np.isfinite(row.get("difference", np.nan)):
            axis.annotate("n/a", (0, y), color=FAINT, fontsize=8.5, va="center", ha="center")
            continue
        color = VERDICTS.get(row["verdict"], OTHER)
        if np.isfinite(row["low"]):
            axis.plot([scale * row["low"], scale * row["high"]], [y, y], color=color, lw=2.2)
        axis.plot(scale * row["difference"], y, "o", color=color, ms=6)
    axis.xaxis.set_major_locator(MaxNLocator(6))
    axis.axvline(0.0, color=INK, lw=0.9, zorder=1)
    axis.set_ylim(len(variants) - 0.5, -0.5)
    axis.set_yticks(range(len(variants)), variants if outer else [""] * len(variants))
    arrow = {1: "better →", -1: "← better", 0: ""}[of.better]
    axis.set_title(of.title, fontsize=10, color=INK, loc="left")
    unit = "points" if unit == "%" else unit
    axis.set_xlabel("   ".join(filter(None, (unit, arrow))), fontsize=8.5, color=FAINT)
    _dress(axis)


def plan_figure(table: pd.DataFrame, keys: Sequence[str], limits: pd.DataFrame) -> Figure:
    """The settings judged: a panel per SLO over the first of the varied ``keys``.

    table: the plan's (see Plan.table).  limits: columns metric, at_least, value.
    """
    figure = Figure(figsize=(4.4 * len(limits) + 1.0, 4.2), layout="constrained")
    panels = figure.subplots(1, len(limits), squeeze=False)[0]
    for axis, limit in zip(panels, limits.itertuples(), strict=True):
        metric = str(limit.metric)
        axis.set_label(metric)
        rows = table[table["metric"] == metric]
        counted = metric in SHARES  # a plan limits these counts as shares of the calls offered
        scale, unit = (100.0, "% of calls offered") if counted else _scale(metric)
        for values in rows.to_dict("records"):
            x, color = values[keys[0]], VERDICTS.get(str(values["verdict"]), OTHER)
            bounds = [scale * values[b] for b in ("worst", "best") if np.isfinite(values[b])]
            axis.plot([x] * len(bounds), bounds, color=color, lw=2)
            axis.plot(x, scale * values["mean"], "o", color=color, ms=6)
            if len(keys) > 1:
                axis.annotate(str(values[keys[1]]), (x, scale * values["mean"]), (6, 0),
                              textcoords="offset points", fontsize=8, color=FAINT)  # fmt: skip
        axis.axhline(scale * float(str(limit.value)), color=ORANGE, lw=1.6, zorder=0)
        title = MEANINGS[metric].title
        axis.set_title(title, fontsize=10, color=INK, loc="left")
        axis.set_ylabel(unit, fontsize=8.5, color=FAINT)
        axis.set_xlabel(keys[0].removeprefix("cluster.pools."), fontsize=9, color=INK)
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.margins(x=0.15)
        _dress(axis)
    handles: list[Line2D] = [
        Line2D([], [], marker="o", ls="", color=color, label=text)
        for text, color in ((MEETS, BLUE), (FAILS, RED), ("undecided", OTHER))
    ]
    handles.append(Line2D([], [], color=ORANGE, lw=1.6, label="limit"))
    also = f"; beside a point: {keys[1].removeprefix('cluster.pools.')}" if len(keys) > 1 else ""
    figure.legend(
        handles=handles, loc="outside upper left", ncols=4, frameon=False, fontsize=9,
        title=f"mean and one-sided bounds of each setting{also}", alignment="left",
    )  # fmt: skip
    return figure


def _scale(metric: str) -> tuple[float, str]:
    """Factor and unit for an axis: shares in %, TTFA in ms."""
    if MEANINGS[metric].points:
        return 100.0, "%"
    return (1000.0, "ms") if metric.startswith("ttfa") else (1.0, "")


def _dress(axis: Axes) -> None:
    axis.tick_params(labelsize=8.5, colors=FAINT, length=2.5)
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.5g}"))
    axis.grid(color="#e6e6e6", lw=0.6)
    axis.set_axisbelow(True)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axis.spines[side].set_color("#9a9a9a")
