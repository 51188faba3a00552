"""A comparison as a picture: a panel per metric, a row per variant, mean and 95 % interval."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from voicesim.report import words
from voicesim.report.figure import BLUE, DPI, FAINT, INK, ORANGE

if TYPE_CHECKING:
    from voicesim.experiment.compare import Comparison

COLOURS = {"better": BLUE, "worse": ORANGE}
"""Of a verdict; everything else, the baseline too, is drawn in ink."""


def draw(answer: Comparison, metrics: Sequence[str] | None = None) -> Figure:
    """The figure; ``metrics``: which panels, default those that were asked for."""
    shown = list(metrics or answer.settings.metrics)
    variants = list(answer.file.variants)
    table = answer.summary
    longest = 0.085 * max(map(len, variants))  # inches
    width, height = longest + 0.4 + 2.9 * len(shown), 1.15 + 0.34 * len(variants)
    figure = Figure(figsize=(width, height))
    panels = figure.subplots(1, len(shown), sharey=True, squeeze=False)[0]
    figure.subplots_adjust(
        left=(longest + 0.15) / width, right=1 - 0.15 / width, wspace=0.12,
        top=1 - 0.75 / height, bottom=0.4 / height,
    )  # fmt: skip
    for metric, axis in zip(shown, panels, strict=True):
        rows = table[table["metric"] == metric].set_index("variant")[["mean", "low", "high"]]
        _panel(axis, rows.astype(float), metric, variants, answer)
    base = answer.file.variants[answer.settings.baseline]
    title = "\n".join(textwrap.wrap(base.title or answer.file.path.stem, int(width * 11)))
    figure.suptitle(title, x=0.15 / width, ha="left", fontsize=11, color=INK)
    return figure


def png(answer: Comparison) -> bytes:
    """The figure of a comparison as a PNG."""
    figure = draw(answer)
    FigureCanvasAgg(figure)
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=DPI)
    return content.getvalue()


def _panel(
    axis: Axes, rows: pd.DataFrame, metric: str, variants: list[str], answer: Comparison
) -> None:
    from voicesim.experiment.metrics import METRICS

    about = METRICS[metric]
    numbers = dict(zip(rows.index, rows.to_numpy(), strict=True))
    for y, variant in enumerate(variants):
        mean, low, high = numbers[variant]
        colour = COLOURS.get(answer.verdicts.get(variant, {}).get(metric, ""), INK)
        if mean != mean:
            axis.text(0.02, y, words.NOT_MEASURED, color=FAINT, fontsize=9, va="center",
                      transform=axis.get_yaxis_transform())  # fmt: skip
            continue
        if low == low:
            axis.plot([low, high], [y, y], color=colour, lw=2, solid_capstyle="butt")
        axis.plot([mean], [y], "o", color=colour, ms=6)
        axis.annotate(about.show(mean), (mean, y), (0, 6), textcoords="offset points",
                      ha="center", fontsize=8, color=colour)  # fmt: skip
    axis.set_yticks(range(len(variants)), variants)
    axis.set_ylim(len(variants) - 0.4, -0.75)
    axis.margins(x=0.16)
    axis.set_title(about.title, fontsize=9.5, loc="left", color=INK)
    axis.xaxis.set_major_locator(MaxNLocator(4))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda x, _: about.show(x)))
    axis.tick_params(labelsize=8, colors=FAINT, labelcolor=INK, length=0)
    axis.grid(axis="x", color="#e6e6e6", lw=0.6)
    for side in ("top", "right", "left"):
        axis.spines[side].set_visible(False)
    axis.spines["bottom"].set_color("#cccccc")
