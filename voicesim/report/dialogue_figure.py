"""Where a turn's time goes, as a picture: for each variant the median and the p99 turn, segment
after segment, and beside them how near each stage is to its knee."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from voicesim.files import write_whole
from voicesim.metrics.dialogue_ledger import waterfall
from voicesim.metrics.dialogue_run import SEGMENTS
from voicesim.metrics.dialogue_stages import nearest
from voicesim.report import words
from voicesim.report.figure import BLUE, FAINT, GREY, INK, ORANGE, RED, SKY
from voicesim.report.png import png
from voicesim.report.words import Summary

DPI = 120
WIDTH = 1600 / DPI  # inches
HEAD, ROW, FOOT = 1.25, 2.75, 0.55  # inches: headline, one variant, the axis' name
COLOURS = {
    "capture": GREY, "uplink": SKY, "endpointing": ORANGE, "asr": BLUE, "llm": "#009E73",
    "tts": "#CC79A7", "downlink": SKY, "playback": GREY,
}  # fmt: skip
PAPER = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
KINDS = {"median_turn": "median turn", "p99_turn": "p99 turn"}


def waterfall_figure(summary: Summary, context: Mapping[str, Any], path: Path) -> None:
    """Write the figure as PNG, whole."""
    write_whole(path, png(draw(summary, context), DPI))


def draw(summary: Summary, context: Mapping[str, Any]) -> Figure:
    """The figure; its axes are labelled "VARIANT median_turn", "VARIANT p99_turn", "VARIANT
    stages"."""
    height = HEAD + ROW * len(summary) + FOOT
    figure = Figure(figsize=(WIDTH, height))
    grid = figure.add_gridspec(
        len(summary), 3, width_ratios=(1, 1, 0.55), left=0.075, right=0.985, wspace=0.09,
        top=1 - (HEAD + 0.1) / height, bottom=FOOT / height, hspace=0.42,
    )  # fmt: skip
    totals = [words.mean(m, "ledger", f"total_{kind}_s") or 0.0 for m in summary.values()
              for kind in KINDS]  # fmt: skip
    end = 1.12e3 * max(totals, default=0.0) or 1.0
    for row, (name, m) in enumerate(summary.items()):
        last = row == len(summary) - 1
        for column, kind in enumerate(KINDS):
            axis = figure.add_subplot(grid[row, column], label=f"{name} {kind}")
            _turn(axis, m, kind, end, context)
            axis.tick_params(labelleft=column == 0)
            if last:
                axis.set_xlabel("ms after the caller's last word", color=INK)
            if column == 0:
                axis.text(-0.13, 1.09, name, transform=axis.transAxes, fontsize=12,
                          fontweight="bold", color=INK, va="bottom")  # fmt: skip
        _stages(figure.add_subplot(grid[row, 2], label=f"{name} stages"), m, last)
    _headline(figure, summary, context, height)
    return figure


def _turn(axis: Axes, m: Mapping[str, Any], kind: str, end: float, context: Any) -> None:
    ledger = {name: each["mean"] for name, each in m["ledger"].items()}
    parts = waterfall(ledger, kind)
    _dress(axis)
    axis.set_xlim(0, end)
    axis.set_ylim(len(SEGMENTS) - 0.4, -0.6)
    axis.set_yticks(range(len(SEGMENTS)), SEGMENTS)
    for limit in sorted({t["start_within"] for t in context["tenants"].values()}):
        axis.axvline(1000 * limit, color=RED, lw=1, ls=(0, (4, 3)), zorder=0)
    for y, (name, begins, lasts) in enumerate(parts):
        left, wide = 1000 * begins, 1000 * lasts
        axis.barh(y, wide, left=left, height=0.72, color=COLOURS[name])
        after = left + wide + 0.06 * end < end
        x, side = (left + wide + 0.008 * end, "left") if after else (left - 0.008 * end, "right")
        axis.text(x, y, words.milliseconds(lasts), va="center", ha=side, fontsize=8, color=INK,
                  bbox=PAPER)  # fmt: skip
        if y:
            axis.plot([left, left], [y - 1 + 0.36, y - 0.36], color=FAINT, lw=0.6)
    total = ledger[f"total_{kind}_s"]
    said = words.NOT_MEASURED if total is None else f"{words.milliseconds(total)} ms"
    axis.set_title(f"{KINDS[kind]}: {said}", loc="right", fontsize=10, color=INK)


def _stages(axis: Axes, m: Mapping[str, Any], last: bool) -> None:
    """Bars of the stages' knees; 1 is where a stage can do no more."""
    _dress(axis)
    first = nearest(m["stages"])
    names = list(m["stages"])
    axis.set_ylim(max(len(names), 1) - 0.4, -0.6)
    axis.set_yticks([])
    values = {name: words.mean(of, "knee") for name, of in m["stages"].items()}
    axis.set_xlim(0, 1.12 * max([1.0, *(v for v in values.values() if v is not None)]))
    axis.axvline(1.0, color=RED, lw=1, ls=(0, (4, 3)), zorder=0)
    for y, (name, value) in enumerate(values.items()):
        if value is not None:
            axis.barh(y + 0.1, value, height=0.4, color=ORANGE if name == first else GREY)
        text = words.NOT_MEASURED if value is None else words.percent(value)
        axis.text(0, y - 0.15, f"{name} {text}", va="bottom", fontsize=9, color=INK)
    title = "" if first is None else f"nearest its knee: {first}"
    axis.set_title(title, loc="right", fontsize=10, color=INK)
    if last:
        axis.set_xlabel("of what a stage can do", color=INK)


def _dress(axis: Axes) -> None:
    for side in ("top", "right", "left"):
        axis.spines[side].set_visible(False)
    axis.spines["bottom"].set_color(FAINT)
    axis.tick_params(length=0, colors=INK, labelsize=9)
    axis.grid(axis="x", color="#eeeeee", lw=0.8)
    axis.set_axisbelow(True)


def _headline(figure: Figure, summary: Summary, context: Mapping[str, Any], height: float) -> None:
    title = context["title"] or "voicesim"
    figure.text(0.012, 1 - 0.3 / height, f"{title}: where a turn's time goes", fontsize=15,
                fontweight="bold", color=INK, va="center")  # fmt: skip
    limits = {t["start_within"] for t in context["tenants"].values()}
    line = ", ".join(words.duration(x) for x in sorted(limits))
    says = (
        f"{words.setting(context)}. Each bar: mean over the turns around that percentile of the "
        f"total; they add up. Dashed: {line}, the latest CLEAN answer; full use of a stage."
    )
    figure.text(0.012, 1 - 0.62 / height, says, fontsize=9, color=FAINT, va="center")
