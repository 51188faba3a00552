"""The fit of a ladder as a picture: figures by load, what the profile gives, what was held out.

A panel per metric (the first four), a colour per statistic.  Points are measured: filled were
fitted, hollow were held out of the test fit, whose prediction is a cross.  The curve is the
profile, played at each load; hatched is what lies beyond the measured loads.
"""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from voicesim.engine.profile import Point, Profile
from voicesim.experiment.published import Ladder
from voicesim.experiment.served import METRICS, WITHIN, serve

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
GRID, REPLIES, ROUNDS, BEYOND = 13, 400, 10, 2.0
"""Loads of the curve, replies of each (runs, where a benchmark ends), and how far past the last
load it goes (a factor)."""
UNITS = {
    "rtf": "real-time factor", "rtf_aggregate": "real-time factor of all", "latency": "latency (s)",
    "throughput": "requests per second", "xrt": "audio seconds per second",
    "tokens_per_s": "tokens per second", "itl": "time per token (s)", "ttfa": "first audio (s)",
    "ttft": "first token (s)", "ttfb": "first byte (s)",
}  # fmt: skip


def curve_figure(ladder: Ladder, profile: Profile) -> Figure:
    """The picture."""
    points = [p for p in (profile.fit.points if profile.fit else []) if p.metric not in WITHIN]
    metrics = [m for m in METRICS if any(p.metric == m for p in points)][:4]
    series = list(dict.fromkeys((p.run or "", p.stat) for p in points if p.metric in metrics))
    colour = {s: COLOURS[i % len(COLOURS)] for i, s in enumerate(series)}
    curves = _curves(ladder, profile, [p for p in points if p.metric in metrics])
    wide = 2 if len(metrics) > 1 else 1
    tall = -(-len(metrics) // wide)
    figure = Figure(figsize=(5 * wide + 1, 3.6 * tall + 1), layout="constrained")
    axes = figure.subplots(tall, wide, squeeze=False).ravel()
    for axis, metric in zip(axes, metrics, strict=False):
        _panel(axis, ladder, metric, [p for p in points if p.metric == metric], curves, colour)
    for axis in axes[len(metrics) :]:
        axis.set_visible(False)
    figure.suptitle(f"{profile.name}: measured figures and the profile, played", fontsize=12)
    figure.legend(
        handles=_legend(series, colour, bool(ladder.held_out)), loc="outside lower center",
        ncols=4, fontsize=8.5, frameon=False,
    )  # fmt: skip
    return figure


Curves = dict[tuple[str, str, str], tuple[list[float], list[float]]]


def _curves(ladder: Ladder, profile: Profile, points: Sequence[Point]) -> Curves:
    """Loads and values of the profile by (run, metric, stat).  A load between two is asked as the
    nearest measured one was."""
    found: Curves = {}
    for run in dict.fromkeys(p.run or "" for p in points):
        levels = sorted({p.load for p in points if (p.run or "") == run})
        wanted = dict.fromkeys((p.metric, p.stat) for p in points if (p.run or "") == run)
        for at in _grid(levels, ladder.kind != "poisson"):
            near = min(levels, key=lambda c: abs(np.log(c / at)))
            count = ladder.requests(run, near)
            if count:
                count = max(round(count * at / near), round(at))
            least = max(REPLIES, ROUNDS * count)
            seen = serve(ladder.load(profile, run, near), ladder.kind, at, 0, least, count)
            for metric, stat in wanted:
                loads, values = found.setdefault((run, metric, stat), ([], []))
                loads.append(at)
                values.append(seen.value(metric, stat, ladder.after_first))
    return found


def _grid(levels: Sequence[float], whole: bool) -> list[float]:
    """The loads and some between, to twice the last."""
    between = np.geomspace(levels[0], BEYOND * levels[-1], GRID)
    every = {*levels, *(float(round(c)) if whole else float(c) for c in between)}
    return sorted(every)


def _panel(
    axis: Axes,
    ladder: Ladder,
    metric: str,
    points: Sequence[Point],
    curves: Curves,
    colour: dict[tuple[str, str], str],
) -> None:
    for (run, name, stat), (loads, values) in curves.items():
        if name == metric:
            axis.plot(loads, values, "-", color=colour[run, stat], lw=1.4)
    held = {(p.run, p.load, p.stat) for p in points if p.held_out}
    for p in points:
        c = colour[p.run or "", p.stat]
        if p.held_out:
            axis.plot(p.load, p.predicted, "x", color=c, ms=7, mew=1.6, zorder=4)
        else:
            blind = (p.run, p.load, p.stat) in held
            axis.plot(p.load, p.measured, "o", mec=c, mfc="white" if blind else c, ms=6, zorder=3)
    levels = ladder.levels
    right, least = BEYOND * levels[-1], levels[0] == 1 and ladder.kind != "poisson"
    left = 0.85 if least else levels[0] / 1.3
    axis.set_xscale("log", base=2)
    axis.set_xlim(left, right)
    axis.set_ylim(bottom=0)
    for a, b in ((levels[-1], right), *([] if least else [(left, levels[0])])):
        axis.axvspan(a, b, facecolor="none", edgecolor="0.8", hatch="//", lw=0, zorder=0)
    axis.xaxis.set_major_locator(FixedLocator(_ticks(levels)))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_xlabel("requests per second" if ladder.kind == "poisson" else "requests in flight")
    axis.set_ylabel(UNITS[metric])
    axis.grid(color="#e6e6e6", lw=0.6)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)


def _ticks(levels: Sequence[float]) -> list[float]:
    """The measured loads that are far enough apart to be read."""
    kept: list[float] = []
    for level in levels:
        if not kept or level >= 1.35 * kept[-1]:
            kept.append(level)
    return kept


def _legend(
    series: Sequence[tuple[str, str]], colour: dict[tuple[str, str], str], held: bool
) -> list[Line2D | Patch]:
    grey = "0.35"
    found: list[Line2D | Patch] = [_line(run, stat, colour[run, stat]) for run, stat in series]
    found.append(Line2D([], [], color=grey, marker="o", ls="", label="measured, fitted"))
    if held:
        found.append(Line2D([], [], color=grey, marker="o", mfc="white", ls="", label="held out"))
        found.append(Line2D([], [], color=grey, marker="x", ls="", label="its blind prediction"))
    found.append(Patch(fc="none", ec="0.7", hatch="///", lw=0, label="extrapolated"))
    return found


def _line(run: str, stat: str, colour: str) -> Line2D:
    return Line2D([], [], color=colour, lw=1.6, label=f"{run + ', ' if run else ''}{stat}: profile")
