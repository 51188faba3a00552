"""A sweep as a picture: a line with its interval over one key, a heat map over two."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from voicesim.experiment.metrics import METRICS
from voicesim.experiment.sweep import Cell, Sweep
from voicesim.files import write_whole
from voicesim.report import words
from voicesim.report.png import png

BLUE, INK, FAINT = "#0072B2", "#222222", "#6b6b6b"
DPI = 110
MOST_TEXTS = 200  # cells of a heat map that still hold their numbers
MOST_TICKS = 24
COLOURS = "viridis"


def draw_sweep(found: Sweep, metric: str, path: Path) -> None:
    """Write the figure of a metric as PNG; nothing unless one or two keys vary."""
    if len(found.varied) not in (1, 2):
        return
    write_whole(path, png(figure_of(found, metric), DPI))


def figure_of(found: Sweep, metric: str) -> Figure:
    """The figure; its main axes are labelled "line", "map" or "points"."""
    keys = found.varied
    figure = Figure(figsize=(8.6, 5.4) if len(keys) == 1 else (9.4, 6.4))
    axes = figure.add_axes((0.1, 0.11, 0.86, 0.73) if len(keys) == 1 else (0.1, 0.11, 0.74, 0.75))
    if len(keys) == 1:
        _line(axes, found, metric, keys[0])
    else:
        shown = _map(axes, found, metric, keys)
        bar = figure.colorbar(shown, cax=figure.add_axes((0.87, 0.11, 0.022, 0.75)))
        bar.ax.yaxis.set_major_formatter(_shown(metric))
        bar.ax.tick_params(labelsize=9, colors=FAINT, length=2.5)
        bar.outline.set_visible(False)
    _headline(figure, found, metric)
    return figure


def _line(axes: Axes, found: Sweep, metric: str, key: str) -> None:
    """Mean and 95 % interval over the values in rising order, names in the order given."""
    axes.set_label("line")
    played = found.played
    numbers = all(isinstance(p.cells[key], float) for p in played)
    if numbers:
        played = sorted(played, key=lambda p: p.cells[key])  # type: ignore[arg-type,return-value]
    x = np.array([p.cells[key] for p in played] if numbers else range(len(played)), float)
    rows = [p.means[metric] for p in played]
    mean, low, high = (np.array([r[n] for r in rows], float) for n in ("mean", "low", "high"))
    axes.fill_between(x, low, high, color=BLUE, alpha=0.2, lw=0)
    axes.plot(x, mean, "o-" if len(x) <= 60 else "-", color=BLUE, lw=1.6, ms=4.5)
    if not numbers:
        axes.set_xticks(x, [str(p.cells[key]) for p in played])
    axes.set_xlabel(found.label(key), color=INK)
    axes.set_ylabel(METRICS[metric].title, color=INK)
    axes.yaxis.set_major_formatter(_shown(metric))
    axes.tick_params(labelsize=9, colors=FAINT, length=2.5)
    axes.grid(color="#e6e6e6", lw=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _map(axes: Axes, found: Sweep, metric: str, keys: list[str]) -> Any:
    """Equal cells with their numbers for a full grid, coloured points for anything else."""
    across, up = keys
    xs, ys = (_levels(found, key) for key in keys)
    axes.set_xlabel(found.label(across), color=INK)
    axes.set_ylabel(found.label(up), color=INK)
    axes.tick_params(labelsize=9, colors=FAINT, length=2.5)
    for spine in axes.spines.values():
        spine.set_visible(False)
    means = {(p.cells[across], p.cells[up]): p.means[metric]["mean"] for p in found.played}
    if len(means) < len(xs) * len(ys):
        return _points(axes, found, metric, xs, ys)
    axes.set_label("map")
    grid = np.array([[means[x, y] for x in xs] for y in ys], float)
    axes.set_facecolor("#d9d9d9")  # what is not measured
    image = axes.imshow(grid, origin="lower", aspect="auto", cmap=COLOURS)
    for ticks, levels in ((axes.set_xticks, xs), (axes.set_yticks, ys)):
        every = -(-len(levels) // MOST_TICKS)
        ticks(range(0, len(levels), every), [_name(v) for v in levels[::every]])
    if grid.size <= MOST_TEXTS:
        known = grid[~np.isnan(grid)]
        middle = (known.min() + known.max()) / 2 if known.size else 0.0
        for (j, i), value in np.ndenumerate(grid):
            text = words.NOT_MEASURED if np.isnan(value) else METRICS[metric].show(float(value))
            dark = value < middle
            axes.text(i, j, text, ha="center", va="center", color="white" if dark else INK,
                      fontsize=9 if len(xs) <= 10 else 7)  # fmt: skip
    return image


def _points(axes: Axes, found: Sweep, metric: str, xs: list[Cell], ys: list[Cell]) -> Any:
    axes.set_label("points")
    across, up = (
        _places(found, key, levels, ticks)
        for key, levels, ticks in zip(
            found.varied, (xs, ys), (axes.set_xticks, axes.set_yticks), strict=True
        )
    )
    colour = np.array([p.means[metric]["mean"] for p in found.played], float)
    axes.grid(color="#e6e6e6", lw=0.6)
    axes.set_axisbelow(True)
    return axes.scatter(
        across, up, c=colour, cmap=COLOURS, s=70, edgecolors="white", lw=0.6, plotnonfinite=True
    )


def _places(found: Sweep, key: str, levels: list[Cell], ticks: Any) -> np.ndarray:
    """Where the settings lie along a key: at their numbers, or one step for each name."""
    if isinstance(levels[0], float):
        return np.array([p.cells[key] for p in found.played], float)
    ticks(range(len(levels)), [_name(v) for v in levels])
    return np.array([levels.index(p.cells[key]) for p in found.played], float)


def _levels(found: Sweep, key: str) -> list[Cell]:
    """The values of a key, numbers rising, names in the order given."""
    levels = list(dict.fromkeys(p.cells[key] for p in found.played))
    return sorted(levels) if isinstance(levels[0], float) else levels  # type: ignore[type-var]


def _name(value: Cell) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _shown(metric: str) -> FuncFormatter:
    return FuncFormatter(lambda value, _: METRICS[metric].show(value, value))


def _headline(figure: Figure, found: Sweep, metric: str) -> None:
    base = found.file.variants[found.variant]
    title = METRICS[metric].title
    figure.text(0.1, 0.945, title[0].upper() + title[1:], fontsize=13, fontweight="bold", color=INK)
    n = found.replications
    what = "mean of" if len(found.varied) == 2 else "mean and 95 % interval of"
    about = [
        base.title or found.file.path.stem,
        f"variant {found.variant}",
        "one replication" if n == 1 else f"{what} {n} replications",
    ]
    figure.text(0.1, 0.905, "  |  ".join(about), fontsize=9, color=FAINT)
