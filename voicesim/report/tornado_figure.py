"""A tornado as a picture: a bar per input, from its low to its high end, the widest on top."""

import math
import textwrap
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from voicesim.experiment.bars import Bar
from voicesim.experiment.metrics import METRICS
from voicesim.experiment.perturb import GIVEN, INTERVAL
from voicesim.experiment.tornado import Tornado
from voicesim.files import write_whole
from voicesim.report import words
from voicesim.report.png import png

BLUE, ORANGE, INK, FAINT = "#0072B2", "#E69F00", "#222222", "#6b6b6b"
DPI = 110
MOST = 20  # bars shown
ROW = 0.5  # inches


def draw_tornado(found: Tornado, headline: str, path: Path) -> None:
    """Write the figure as PNG."""
    write_whole(path, png(figure_of(found, headline), DPI))


def figure_of(found: Tornado, headline: str) -> Figure:
    """The figure; its axes are labelled "bars"."""
    shown = [bar for bar in found.bars if not bar.nothing][:MOST]
    lines = textwrap.wrap(headline, 88)
    head, foot = 1.0 + 0.27 * len(lines), 0.8
    height = head + foot + ROW * max(len(shown), 1)
    figure = Figure(figsize=(10, height))
    axes = figure.add_axes((0.36, foot / height, 0.6, 1 - (head + foot) / height), label="bars")
    for row, bar in enumerate(shown):
        _bar(axes, len(shown) - 1 - row, bar)
    _dress(axes, found, shown)
    _legend(figure, shown, height, head)
    figure.text(0.02, 1 - 0.2 / height, "\n".join(lines), fontsize=12, fontweight="bold",
                color=INK, va="top")  # fmt: skip
    base = found.file.variants[found.variant]
    about = [
        base.title or found.file.path.stem,
        f"variant {found.variant}",
        f"profile {found.profile}",
        f"{len(found.base)} replications",
    ]
    figure.text(0.02, 1 - (0.32 + 0.25 * len(lines)) / height, "  |  ".join(about), fontsize=9,
                color=FAINT, va="top")  # fmt: skip
    rest = len(found.bars) - len(shown)
    if rest:
        figure.text(0.02, 0.12 / height, f"{rest} more inputs move it by less, or not at all",
                    fontsize=8.5, color=FAINT)  # fmt: skip
    return figure


def _bar(axes: Axes, y: int, bar: Bar) -> None:
    """Both ends from the base, each with its interval; hatched where the range was assumed."""
    hatch = None if bar.input.why in (GIVEN, INTERVAL) else "////"
    ends = ((bar.low, BLUE, 0.14), (bar.high, ORANGE, -0.14))
    for d, color, shift in ends:
        if not d.measured:
            continue
        axes.barh(y + shift, d.difference.mean, height=0.28, color=color, hatch=hatch,
                  edgecolor="white", lw=0, zorder=2)  # fmt: skip
        if math.isfinite(d.difference.half) and d.difference.half > 0:
            axes.errorbar(d.difference.mean, y + shift, xerr=d.difference.half, color=INK, lw=0.9,
                          capsize=2.5, zorder=3)  # fmt: skip


def _dress(axes: Axes, found: Tornado, shown: list[Bar]) -> None:
    metric = METRICS[found.metric]
    axes.axvline(0.0, color=INK, lw=1.0, zorder=4)
    axes.set_ylim(-0.6, max(len(shown), 1) - 0.4)
    names = [f"{bar.input.name}\n{bar.input.low} .. {bar.input.high}" for bar in shown]
    axes.set_yticks(range(len(shown) - 1, -1, -1), names)
    axes.tick_params(axis="y", labelsize=8.5, colors=INK, length=0)
    axes.tick_params(axis="x", labelsize=9, colors=FAINT, length=2.5)
    axes.xaxis.set_major_locator(MaxNLocator(7))
    low, high = axes.get_xlim()
    of = abs(high - low) / 10 if metric.points else abs(found.mean["mean"] or high)
    axes.xaxis.set_major_formatter(
        FuncFormatter(
            lambda x, _: "0" if x == 0 else ("+" if x > 0 else "-") + metric.gap(abs(x), of)
        )
    )
    mean = words.with_interval(words.metric({"m": found.mean}, "m"), metric.show)
    axes.set_xlabel(f"{metric.title}: difference from the base, {mean}", color=INK)
    axes.grid(axis="x", color="#e6e6e6", lw=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color("#9a9a9a")


def _legend(figure: Figure, shown: list[Bar], height: float, head: float) -> None:
    keys = [Patch(color=BLUE, label="low end"), Patch(color=ORANGE, label="high end")]
    if any(bar.input.why not in (GIVEN, INTERVAL) for bar in shown):
        keys.append(Patch(facecolor=FAINT, edgecolor="white", hatch="////", label="range assumed"))
    figure.legend(
        handles=keys, loc="lower right", ncols=3, frameon=False, fontsize=9,
        bbox_to_anchor=(0.965, 1 - (head - 0.02) / height),
    )  # fmt: skip
