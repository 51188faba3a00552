"""The peak as a picture: a column of panels per variant, the same scales in all of them.

From top to bottom: calls (offered, refused, abandoned), live streams, the p99 chunk gap with the
line beyond which the listener's buffer drains, audible stalls, and, where they come and go, the
replicas.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from voicesim.report import words
from voicesim.report.words import Summary

# Okabe and Ito's colours, told apart by every kind of colour vision
GREY, BLUE, ORANGE, SKY, RED = "#c9c9c9", "#0072B2", "#E69F00", "#56B4E9", "#D55E00"
INK, FAINT = "#222222", "#6b6b6b"

DPI = 120
WIDTH = 1600 / DPI  # inches
ACROSS = 5  # variants side by side; more go into further bands below
PARTS = ("calls", "live", "gap", "stalls")  # the panels of a variant, from top to bottom
HEIGHTS = {"calls": 1.0, "live": 1.0, "gap": 1.0, "stalls": 0.8, "replicas": 0.8}
LEFT = 0.066
HEAD, BAND = 1.6, 6.0  # inches: headline and legend, one band of variants
BINS = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600)  # s
GAP_TOP = 4.0  # chunk gaps beyond are marked at the edge, so that the line at 1 stays readable


REPLICAS = ("replicas_open", "replicas_paid")


def peak_figure(
    series: pd.DataFrame, summary: Summary, context: Mapping[str, Any], path: Path
) -> None:
    """Write the figure as PNG, or as SVG where the path says so.

    series: one row per variant, (replication,) and bin; replications are averaged.
    """
    figure = draw(series, summary, context)
    FigureCanvasAgg(figure)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".svg":
        with matplotlib.rc_context({"svg.hashsalt": "voicesim"}):
            figure.savefig(path, format="svg", metadata={"Date": None})
    else:
        figure.savefig(path, format="png", dpi=DPI)


def draw(series: pd.DataFrame, summary: Summary, context: Mapping[str, Any]) -> Figure:
    """The figure; its axes are labelled "VARIANT calls", "VARIANT live" and so on (PARTS)."""
    width = bin_width(series, context["horizon"])
    drawn = {name: smooth(series[series["variant"] == name], width) for name in summary}
    bands = max(-(-len(drawn) // ACROSS), 1)
    columns = max(-(-len(drawn) // bands), 1)
    parts = (*PARTS, "replicas") if _moved(drawn) else PARTS
    height = BAND * bands * (1.2 if len(parts) > len(PARTS) else 1.0) + HEAD
    figure = Figure(figsize=(WIDTH, height))
    grid = figure.add_gridspec(
        bands, columns, left=LEFT, right=0.985, top=1 - (HEAD + 0.25) / height,
        bottom=0.55 / height, wspace=0.07, hspace=0.25,
    )  # fmt: skip
    end = _end(drawn, context["horizon"])
    tops = _tops(drawn)
    best = words.best_variant(summary) if len(summary) > 1 else None
    for i, (name, rows) in enumerate(drawn.items()):
        cell = grid[i // columns, i % columns].subgridspec(
            len(parts), 1, height_ratios=[HEIGHTS[part] for part in parts], hspace=0.15
        )
        panels = {part: figure.add_subplot(cell[k], label=f"{name} {part}")
                  for k, part in enumerate(parts)}  # fmt: skip
        for part, axis in panels.items():
            _dress(axis, end, tops[part], outer=i % columns == 0, lowest=part == parts[-1])
        if len(rows):
            _draw_calls(panels["calls"], rows)
            _draw_live(panels["live"], rows)
            _draw_gap(panels["gap"], rows, tops["gap"])
            _draw_stalls(panels["stalls"], rows, tops["stalls"])
            if "replicas" in panels:
                _draw_replicas(panels["replicas"], rows)
        _remark(panels["stalls"], rows, summary[name])
        _title(panels["calls"], name, summary[name], columns, name == best)
        if i % columns == 0:
            _name_rows(panels, width, figure)
    _headline(figure, summary, context, height)
    return figure


# --- the data ---------------------------------------------------------------------------------


def bin_width(series: pd.DataFrame, horizon: float) -> float:
    """Seconds per drawn bin: about 240 over the horizon, a whole number of the series' own."""
    starts = np.unique(series["t_s"])
    own = float(np.median(np.diff(starts))) if len(starts) > 1 else 1.0
    wanted = next((b for b in BINS if b >= horizon / 240), BINS[-1])
    return own * max(1, -(-wanted // own))


def smooth(rows: pd.DataFrame, width: float) -> pd.DataFrame:
    """One row per bin of ``width``, replications averaged.

    minutes: start of the bin.  offered, refused, abandoned: calls per second.  live, gap: means.
    stalls: count per bin.  Offered is what was seen where the nominal rate is unknown.
    """
    if rows.empty:
        return pd.DataFrame()
    own = rows.groupby("t_s").size()
    replications = int(own.max())
    number = np.floor(rows["t_s"] / width + 1e-6).astype(int)
    bins = rows.groupby(number)
    seconds = width * replications
    found = pd.DataFrame(
        {
            "offered": bins["offered_per_s"].mean().fillna(bins["calls"].sum() / seconds),
            "refused": bins["refused"].sum() / seconds,
            "abandoned": bins["abandoned"].sum() / seconds,
            "live": bins["live"].mean(),
            "gap": bins["gap_p99"].mean(),
            "stalls": bins["stalls"].sum() / replications,
            **{name: bins[name].mean() for name in REPLICAS if name in rows},
        }
    )
    found = found.reindex(range(int(number.max()) + 1))
    found.insert(0, "minutes", found.index * width / 60)
    return found


def _moved(drawn: Mapping[str, pd.DataFrame]) -> bool:
    """Do replicas come and go in one of the variants?"""
    paid = [rows["replicas_paid"] for rows in drawn.values() if "replicas_paid" in rows]
    return any(each.nunique() > 1 for each in paid)


def _end(drawn: Mapping[str, pd.DataFrame], horizon: float) -> float:
    """Minutes to show: the horizon, and beyond it until the last call has left."""
    end = horizon / 60
    for rows in drawn.values():
        if len(rows) > 1:
            active = rows["minutes"][(rows["live"] > 0) | (rows["stalls"] > 0)]
            end = max(end, active.max() + rows["minutes"].iloc[1]) if len(active) else end
    return end


def _tops(drawn: Mapping[str, pd.DataFrame]) -> dict[str, float]:
    """Upper end of each row of panels, the same for all variants."""
    every = pd.concat(drawn.values()) if drawn else pd.DataFrame()
    if every.empty:
        return dict.fromkeys(PARTS, 1.0)
    lost = (every["refused"] + every["abandoned"]).max()
    return {
        "calls": 1.08 * max(every["offered"].max(), lost) or 1.0,
        "live": 1.08 * every["live"].max() or 1.0,
        "gap": min(max(1.08 * np.nan_to_num(every["gap"].max()), 1.3), GAP_TOP),
        "stalls": 1.35 * every["stalls"].max() or 1.0,  # room for a remark
        "replicas": 1.3 * max((every[c].max() for c in REPLICAS if c in every), default=1.0),
    }


# --- the panels -------------------------------------------------------------------------------


def _edges(rows: pd.DataFrame) -> np.ndarray:
    minutes = rows["minutes"].to_numpy()
    step = minutes[1] - minutes[0] if len(minutes) > 1 else 1.0
    return np.append(minutes, minutes[-1] + step)


def _draw_calls(axis: Axes, rows: pd.DataFrame) -> None:
    edges, refused = _edges(rows), rows["refused"].to_numpy()
    axis.stairs(rows["offered"], edges, fill=True, color=GREY)
    axis.stairs(refused, edges, fill=True, color=ORANGE)
    lost = refused + rows["abandoned"].to_numpy()
    axis.stairs(lost, edges, baseline=refused, fill=True, color=SKY)


def _draw_live(axis: Axes, rows: pd.DataFrame) -> None:
    axis.plot(_middle(rows), rows["live"], color=BLUE, lw=1.6)


def _draw_gap(axis: Axes, rows: pd.DataFrame, top: float) -> None:
    minutes, gap = _middle(rows), rows["gap"].to_numpy()
    axis.axhline(1.0, color=INK, lw=1.0, ls=(0, (4, 2)))
    axis.fill_between(minutes, 1.0, gap, where=gap > 1.0, interpolate=True, color=RED, alpha=0.3,
                      lw=0)  # fmt: skip
    axis.plot(minutes, gap, color=INK, lw=1.2)
    beyond = gap > top
    if beyond.any():
        axis.plot(minutes[beyond], np.full(beyond.sum(), top), "^", color=RED, ms=5, clip_on=False)
        axis.annotate(f"▲ above {top:g}", (0, 1), (5, -5), xycoords="axes fraction",
                      textcoords="offset points", va="top", fontsize=8.5, color=RED)  # fmt: skip


def _draw_stalls(axis: Axes, rows: pd.DataFrame, top: float) -> None:
    seen = rows["stalls"].clip(lower=0.025 * top).where(rows["stalls"] > 0, 0)  # one stall shows
    axis.stairs(seen, _edges(rows), fill=True, color=RED)


def _draw_replicas(axis: Axes, rows: pd.DataFrame) -> None:
    axis.stairs(rows["replicas_paid"], _edges(rows), fill=True, color=GREY)
    axis.stairs(rows["replicas_open"], _edges(rows), baseline=None, color=BLUE, lw=1.4)
    axis.annotate("grey: paid for, line: take callers", (0, 1), (5, -3), xycoords="axes fraction",
                  textcoords="offset points", va="top", fontsize=8.5, color=FAINT)  # fmt: skip


def _middle(rows: pd.DataFrame) -> np.ndarray:
    edges = _edges(rows)
    return (edges[1:] + edges[:-1]) / 2


def _remark(axis: Axes, rows: pd.DataFrame, metrics: Mapping[str, Any]) -> None:
    """Says what an empty panel means."""
    share = words.mean(metrics, "stalled_share")
    if rows.empty:
        text = "no series"
    elif share is None:
        text = f"stalls {words.NOT_MEASURED}"
    elif share > 0:
        text = f"{words.percent(share)} of calls hear a stall"
    elif rows["stalls"].sum() > 0:
        text = "none after the warm-up"
    else:
        text = "no audible stall"
    axis.annotate(text, (0, 1), (5, -3), xycoords="axes fraction", textcoords="offset points",
                  va="top", fontsize=8.5, color=RED if share else FAINT)  # fmt: skip


# --- words and lines around them --------------------------------------------------------------


def _dress(axis: Axes, end: float, top: float, outer: bool, lowest: bool) -> None:
    axis.set_xlim(0, end)
    axis.set_ylim(0, top)
    axis.xaxis.set_major_locator(MaxNLocator(5))
    axis.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.4g}"))
    axis.tick_params(labelsize=8.5, colors=FAINT, labelleft=outer, labelbottom=lowest, length=2.5)
    axis.grid(axis="y", color="#e6e6e6", lw=0.6)
    axis.set_axisbelow(True)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axis.spines[side].set_color("#9a9a9a")
    if lowest:
        axis.set_xlabel("minutes", fontsize=8.5, color=FAINT, labelpad=2)


def _title(axis: Axes, name: str, metrics: Mapping[str, Any], columns: int, best: bool) -> None:
    clean = words.mean(metrics, "clean_share")
    share = words.NOT_MEASURED if clean is None else words.percent(clean)
    room = 115 // columns
    short = name if len(name) <= room else name[: room - 1] + "…"

    def line(text: str, y: float, **style: Any) -> None:
        axis.annotate(text, (0, 1), (0, y), xycoords="axes fraction", annotation_clip=False,
                      textcoords="offset points", va="baseline", **style)  # fmt: skip

    line(short, 35, fontsize=11, color=INK, fontweight="bold")
    line(f"{share} CLEAN" + (" (best)" if best else ""), 20, fontsize=11,
         color=BLUE if best else INK, fontweight="bold" if best else "normal")  # fmt: skip
    line(_lost(metrics), 7, fontsize=8.5, color=FAINT)


def _lost(metrics: Mapping[str, Any]) -> str:
    """10.6% refused, 0.8% abandoned; failed calls where there are any"""
    offered = words.mean(metrics, "offered")
    found = []
    fails = ("failed",) if words.mean(metrics, "failed") else ()
    for what in ("refused", "abandoned", *fails):
        lost = words.mean(metrics, what)
        share = words.percent(lost / offered) if offered and lost is not None else None
        found.append(f"{share or words.NOT_MEASURED} {what}")
    return ", ".join(found)


def _name_rows(panels: Mapping[str, Axes], width: float, figure: Figure) -> None:
    names = {
        "calls": "calls per second",
        "live": "live streams",
        "gap": "p99 chunk gap\n/ chunk before",
        "stalls": f"stalls\nper {words.duration(width)}",
        "replicas": "replicas",
    }
    for part, axis in panels.items():
        axis.set_ylabel(names[part], fontsize=9, color=INK)
    figure.align_ylabels(list(panels.values()))


def _headline(figure: Figure, summary: Summary, context: Mapping[str, Any], height: float) -> None:
    text = words.verdict(summary)
    size = min(14.0, 14.0 * 100 / len(text))
    figure.text(LEFT, 1 - 0.36 / height, text, fontsize=size, fontweight="bold", color=INK)
    about = [context["title"], words.setting(context), f"CLEAN: {words.clean_rule(context)}"]
    figure.text(LEFT, 1 - 0.62 / height, "  |  ".join(filter(None, about)), fontsize=9.5,
                color=FAINT)  # fmt: skip
    handles = [
        Patch(color=GREY, label="offered calls"),
        Patch(color=ORANGE, label="refused"),
        Patch(color=SKY, label="abandoned"),
        Line2D([], [], color=BLUE, lw=1.6, label="live streams"),
        Line2D([], [], color=INK, lw=1.2, label="p99 chunk gap"),
        Line2D([], [], color=INK, lw=1.0, ls=(0, (4, 2)),
               label="1.0: beyond, the listener's buffer drains"),
        Patch(color=RED, label="audible stalls"),
    ]  # fmt: skip
    figure.legend(handles=handles, loc="upper left", ncols=len(handles), fontsize=9,
                  bbox_to_anchor=(LEFT, 1 - 0.74 / height), borderaxespad=0, frameon=False,
                  borderpad=0.3, handlelength=1.6, columnspacing=1.6)  # fmt: skip
