"""The page of a measurement: its verdict, its table, when sounds came as a picture."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from voicesim.metrics.summary import nearest_rank
from voicesim.report import words
from voicesim.report.figure import FAINT, INK
from voicesim.report.html.study import write_study
from voicesim.report.measure import print_measurement
from voicesim.report.png import png

DPI = 120
SLOWEST = 0.01
"""Share of the chunks whose pace a listener must be able to live with."""


def write_page(folder: Path, runs: Sequence[Any], tokens: bool, told: Mapping[str, Any]) -> None:
    """report.html of a measurement whose rows are in the folder.  told: its manifest."""
    pictures = {}
    if any(run.firsts for run in runs):
        what = "first tokens and the gaps after them" if tokens else "first sounds and chunk gaps"
        pictures[f"How late {what} were, run by run"] = png(draw(runs, tokens), DPI)
    lines = verdict(runs, tokens, told)
    write_study(folder, told, lines, lambda c: print_measurement(runs, tokens, c), pictures)


def verdict(runs: Sequence[Any], tokens: bool, told: Mapping[str, Any]) -> list[str]:
    """What was heard at the highest load, and up to which load listeners hear no break."""
    heard = [run for run in runs if run.firsts]
    if not heard:
        return ["No request came to its end"]
    last = heard[-1]
    first = nearest_rank(np.asarray(last.firsts, float), 0.5)
    assert first is not None
    what = "first token" if tokens else "first sound"
    text = f"With {_load(last)} half of the requests have their {what} within "
    found = [text + words.duration(first)]
    paced = [(run, nearest_rank(np.asarray(run.paces, float), SLOWEST)) for run in heard]
    known = [(run, pace) for run, pace in paced if pace is not None]
    if known:
        found.append(_keeps(known))
    asked = sum(run["sent"] for run in told["runs"])
    failed = sum(run["failed"] for run in told["runs"])
    lost = f", {failed} failed" if failed else ""
    late = max(run.lag_p99 for run in runs)
    found.append(
        f"{asked:,} requests were sent{lost}; the client itself was at most "
        f"{words.milliseconds(late)} ms late (p99 of the worst run)"
    )
    return found


def _keeps(known: Sequence[tuple[Any, float]]) -> str:
    """Up to which load the slowest chunks still come faster than they are played."""
    good = 0
    while good < len(known) and known[good][1] >= 1.0:
        good += 1
    run, pace = known[min(good, len(known) - 1)]
    slowest = f"the slowest 1 % of chunks come at {words.times(pace)} the speed of speech"
    if good == len(known):
        return f"Up to {_load(run)}, the highest load measured, {slowest}: no buffer drains"
    if good == 0:
        return f"Already with {_load(run)} {slowest}: buffers drain"
    return f"Up to {_load(known[good - 1][0])} no buffer drains; with {_load(run)} {slowest}"


def _load(run: Any) -> str:
    if run.places is not None:
        return "one request in flight" if run.places == 1 else f"{run.places} requests in flight"
    return f"{run.rate:g} requests a second"


def draw(runs: Sequence[Any], tokens: bool) -> Figure:
    """Shares of the requests, and of the chunks, that came later than a time; a curve a run."""
    figure = Figure(figsize=(9.6, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    shades = np.linspace(0.25, 0.95, max(len(runs), 2))
    first = "time to first token" if tokens else "time to first sound"
    gap = "gap between tokens" if tokens else "gap between chunks"
    for axis, name, label in ((left, "firsts", first), (right, "gaps", gap)):
        for shade, run in zip(shades, runs, strict=False):
            values = np.sort(np.asarray(getattr(run, name), float)) * 1000
            values = values[values > 0]
            if len(values):
                later = 1.0 - np.arange(1, len(values) + 1) / len(values)
                colour = (0.0, 0.45 * (1.1 - shade), 0.35 + 0.35 * (1.0 - shade))
                axis.step(values, 100 * later, where="post", color=(*colour, shade), lw=1.6,
                          label=run.name)  # fmt: skip
        _dress(axis, label)
    left.set_ylabel("later than that, %", color=INK)
    handles, labels = left.get_legend_handles_labels()
    if labels:
        right.legend(handles, labels, frameon=False, fontsize=8, title="run", title_fontsize=8)
    return figure


def _dress(axis: Axes, label: str) -> None:
    axis.set_xscale("log")
    for put in (axis.xaxis.set_major_formatter, axis.xaxis.set_minor_formatter):
        put(FuncFormatter(lambda x, _: f"{x:g}"))
    axis.set_ylim(0, 102)
    axis.set_xlabel(f"{label}, ms", color=INK)
    axis.set_label(label)
    axis.tick_params(which="both", colors=INK, labelsize=9)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    axis.grid(color="#e6e6e6", lw=0.8)
    axis.spines["left"].set_color(FAINT)
    axis.set_axisbelow(True)
