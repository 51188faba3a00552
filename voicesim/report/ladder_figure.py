"""The ladder as a picture: pace of the slowest 1 % above, audio per second below.

Both over the concurrency (log scale), with the seeds' band, and upright lines at the ceiling, the
naive figures and the throughput knee.  What lies beyond the measured batches is shaded.
"""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from voicesim.experiment.ladder import Ladder
from voicesim.experiment.rung import Load
from voicesim.report import words

BLUE, ORANGE, RED, GREEN, PURPLE = "#0072B2", "#E69F00", "#D55E00", "#009E73", "#AA4499"
INK, FAINT, SHADE = "#222222", "#6b6b6b", "#f0ece4"
DPI = 120


def ladder_figure(ladder: Ladder, path: Path) -> None:
    """Write the figure as PNG."""
    figure = draw(ladder)
    FigureCanvasAgg(figure)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="png", dpi=DPI)


def draw(ladder: Ladder) -> Figure:
    """The figure; its axes are labelled "pace" and "audio"."""
    figure = Figure(figsize=(10, 7.6))
    pace, audio = figure.subplots(
        2, 1, sharex=True,
        gridspec_kw={"left": 0.085, "right": 0.97, "top": 0.80, "bottom": 0.075, "hspace": 0.1},
    )  # fmt: skip
    pace.set_label("pace")
    audio.set_label("audio")
    every = {c for c, _ in ladder.rungs}
    played = sorted(c for c in every if len(ladder.values("xrt", c)) == ladder.seeds)
    figures = (ladder.ceiling(0.5), ladder.naive, ladder.naive_throughput, ladder.knee)
    marks = [m for m in figures if m]
    right = 1.3 * max(*ladder.levels, *marks)
    played = [c for c in played if c <= right]
    for axis in (pace, audio):
        _dress(axis, ladder, right)
    _curve(pace, ladder, played, "pace_p99", INK)
    _curve(audio, ladder, played, "xrt", BLUE)
    _limits(pace, ladder, played)
    audio.set_ylim(bottom=0)
    if ladder.measured_to is not None and ladder.measured_to < right:
        audio.annotate(
            f"shaded: extrapolated, measured up to {ladder.measured_to:g}", (1, 0.04), (-4, 0),
            xycoords="axes fraction", textcoords="offset points", fontsize=8.5, color=RED,
            ha="right", backgroundcolor=SHADE,
        )  # fmt: skip
    audio.set_ylabel("audio seconds made per second", color=INK)
    audio.set_xlabel("callers at once (closed loop)", color=INK)
    pace.set_ylabel("pace, slowest 1 % of chunks", color=INK)
    _marks(pace, audio, ladder)
    _headline(figure, ladder)
    return figure


def _dress(axis: Axes, ladder: Ladder, right: float) -> None:
    axis.set_xscale("log", base=2)
    axis.set_xlim(min(ladder.levels[0], 1) * 0.9, right)
    axis.xaxis.set_major_locator(FixedLocator([2**k for k in range(13)]))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.tick_params(labelsize=9, colors=FAINT, length=2.5)
    axis.grid(color="#e6e6e6", lw=0.6)
    axis.set_axisbelow(True)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axis.spines[side].set_color("#9a9a9a")
    if ladder.measured_to is not None and ladder.measured_to < right:
        axis.axvspan(ladder.measured_to, right, color=SHADE, zorder=0, lw=0)


def _curve(axis: Axes, ladder: Ladder, played: list[int], name: str, color: str) -> None:
    """Mean over seeds, the band from the lowest to the highest seed, a point per level."""
    seen = [c for c in played if ladder.mean(name, c) is not None]
    values = [[v for v in ladder.values(name, c) if v is not None] for c in seen]
    axis.fill_between(
        seen, [min(v) for v in values], [max(v) for v in values], color=color, alpha=0.18, lw=0
    )
    axis.plot(seen, [float(np.mean(v)) for v in values], color=color, lw=1.6)
    levels = [c for c in ladder.levels if c in seen]
    axis.plot(levels, [ladder.mean(name, c) or 0.0 for c in levels], "o", color=color, ms=4)


def _limits(axis: Axes, ladder: Ladder, played: list[int]) -> None:
    """Log scale of pace, the limit, and 1.0, below which the buffer drains."""
    axis.set_yscale("log")
    paces = [p for c in played for p in ladder.values("pace_p99", c) if p is not None]
    axis.set_ylim(min(0.8, 0.8 * min(paces)), 1.25 * max(*paces, 1.5))
    ticks = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100]
    axis.yaxis.set_major_locator(FixedLocator([*ticks, ladder.limit]))
    axis.yaxis.set_minor_locator(NullLocator())
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.axhline(ladder.limit, color=RED, lw=1.2, ls=(0, (4, 2)))
    axis.annotate(
        f"limit {ladder.limit:g}", (0, ladder.limit), (4, 3), xycoords=("axes fraction", "data"),
        textcoords="offset points", fontsize=8.5, color=RED,
    )  # fmt: skip
    axis.axhline(1.0, color=FAINT, lw=0.8)


def _marks(pace: Axes, audio: Axes, ladder: Ladder) -> None:
    """Upright lines at ceiling, naive figures and knee; their names above, in steps of height."""
    most = ladder.naive_throughput
    named = [
        (float(ladder.ceiling(0.5)), RED, f"ceiling {ladder.ceiling(0.5)}", "-"),
        (ladder.naive, ORANGE, f"naive {ladder.naive:.1f}", (0, (5, 2))),
        (most, PURPLE, f"by audio/s {words.amount(most)}", (0, (5, 1, 1, 1))),
        (float(ladder.knee or 0), GREEN, f"knee {ladder.knee}", (0, (1, 1.2))),
    ]
    left, right = pace.get_xlim()
    shown = [m for m in sorted(named, key=lambda m: m[0]) if m[0] >= left]
    for i, (x, color, text, style) in enumerate(shown):
        for axis in (pace, audio):
            axis.axvline(x, color=color, lw=1.4, ls=style)
        near = x > right**0.93 * left**0.07  # the edge: the name would not fit beyond it
        pace.annotate(
            text, (x, 1), (0, 4 + 12 * (i % 4)), xycoords=("data", "axes fraction"),
            ha="right" if near else "center", textcoords="offset points",
            fontsize=9.5, color=color, fontweight="bold", annotation_clip=False,
        )  # fmt: skip


def _headline(figure: Figure, ladder: Ladder) -> None:
    load, half = ladder.load, ladder.ceiling(0.5)
    least = "at least " if ladder.censored else ""
    who = "1 caller keeps" if half == 1 else f"{half} callers at once keep"
    text = f"{load.profile.name}: {least}{who} a p99 pace of {ladder.limit:g}"
    if ladder.extrapolated(half):
        text += " (extrapolated)"
    figure.text(0.085, 0.955, text, fontsize=13, fontweight="bold", color=INK)
    nine, all_ = ladder.ceiling(0.9), ladder.ceiling(1.0)
    about = [
        f"50 % of {ladder.seeds} seeds; {nine} in 90 %, {all_} in all",
        f"replies of {words.duration(load.audio)}, prompts of {load.prompt} tokens",
        f"chunks {','.join(map(str, load.chunks))}",
        f"{codec_words(load)}; bands: seeds",
    ]
    figure.text(0.085, 0.925, "  |  ".join(about), fontsize=9, color=FAINT)


def codec_words(load: Load) -> str:
    """The codec stage in words."""
    if load.profile.codec is None:
        return "no codec"
    window = f", {load.codec_window} streams at a time" * (load.codec_queue == "window")
    return f"codec batches of {load.codec_cap}{window}"
