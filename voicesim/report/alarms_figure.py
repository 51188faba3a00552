"""Each rule's metric against its threshold over one run, with the first audible stall marked."""

import io
import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from voicesim.experiment.alarms import Backtest
from voicesim.experiment.backtest import EARLY, LATE, WARNED, episodes, judge, stall_times
from voicesim.metrics.alarms import Watched, watch
from voicesim.metrics.observed import Observed
from voicesim.metrics.prometheus import threshold
from voicesim.report import words
from voicesim.report.figure import BLUE, DPI, FAINT, INK, ORANGE, RED, WIDTH
from voicesim.scenario.alarms import Alarm

COLUMNS = 3
"""Variants shown at most."""
ROW = 1.15  # inches of a rule
TOP = 4.0  # thresholds that a panel is high at most


def alarms_figure(answer: Backtest) -> bytes:
    """PNG of replication 0 of the first variants, a column each; a row per rule."""
    figure = draw(answer)
    FigureCanvasAgg(figure)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI)
    return buffer.getvalue()


def draw(answer: Backtest) -> Figure:
    """The figure; its axes are labelled "VARIANT RULE"."""
    played = list(dict.fromkeys(f.variant for f in answer.findings))
    variants, rules = played[:COLUMNS], answer.asked.rules
    height = ROW * len(rules) + 1.75
    figure = Figure(figsize=(WIDTH, height))
    axes = figure.subplots(len(rules), len(variants), squeeze=False, sharex="col")
    figure.subplots_adjust(
        left=0.07, right=0.985, top=1 - 1.25 / height, bottom=0.5 / height,
        wspace=0.1, hspace=0.42,
    )  # fmt: skip
    for column, variant in enumerate(variants):
        seen = answer.seen[variant, 0]
        clock = answer.asked.clock(answer.file.variants[variant])
        for row, rule in enumerate(rules):
            axis = axes[row, column]
            axis.set_label(f"{variant} {rule.label}")
            _panel(axis, seen, rule, watch(seen, rule, clock), answer.asked.horizon)
            axis.set_title(_title(rule), fontsize=8, loc="left", color=INK, pad=3)
        axes[0, column].annotate(
            _heading(variant, seen, answer.asked.horizon), (0, 1.28), xycoords="axes fraction",
            fontsize=10, weight="bold",
        )  # fmt: skip
        axes[-1, column].set_xlabel("minutes", fontsize=8, color=FAINT)
    title = answer.file.variants[answer.file.baseline].title or answer.file.path.stem
    more = f", {len(variants)} of {len(played)} variants" if len(played) > len(variants) else ""
    figure.text(0.07, 1 - 0.3 / height, f"{title}: alert rules in one run{more}", fontsize=12,
                weight="bold", color=INK)  # fmt: skip
    figure.legend(
        handles=[
            Line2D([], [], color=BLUE, lw=1.2, label="metric as evaluated"),
            Line2D([], [], color=INK, lw=0.9, ls="--", label="threshold"),
            Patch(color=ORANGE, alpha=0.35, label="the alert fires"),
            Line2D([], [], color=RED, lw=1.4, label="first audible stall"),
            Line2D([], [], color=RED, lw=0, marker="|", ms=6, label="further stalls"),
        ],
        loc="upper left", bbox_to_anchor=(0.063, 1 - 0.38 / height), ncols=5, fontsize=8,
        frameon=False, borderaxespad=0,
    )  # fmt: skip
    return figure


def _heading(variant: str, seen: Observed, horizon: float) -> str:
    if not len(stall_times(seen)):
        return f"{variant}: no audible stall"
    return f"{variant}: {words.duration(horizon)} either side of the first stall"


def _title(rule: Alarm) -> str:
    side = ">" if rule.below is None else "<"
    hold = f" for {rule.hold:g} s" if rule.hold else ""
    over = f" over {rule.over:g} s" if rule.over else ""
    return f"{rule.label}: {rule.signal.title}{over} {side} {threshold(rule)}{hold}"


def span(seen: Observed, horizon: float) -> tuple[float, float]:
    """What a column shows (s): the horizon on both sides of the first stall, or the whole run."""
    stalls = stall_times(seen)
    if not len(stalls):
        return 0.0, seen.horizon
    return max(stalls[0] - horizon, 0.0), min(stalls[0] + horizon, seen.horizon)


def _panel(axis: Axes, seen: Observed, rule: Alarm, found: Watched, horizon: float) -> None:
    begin, end = span(seen, horizon)
    use = (found.at >= begin) & (found.at <= end)
    axis.plot(found.at[use] / 60, found.value[use], color=BLUE, lw=1.1)
    axis.axhline(rule.threshold, color=INK, lw=0.9, ls="--")
    spells = found.spells(seen.warmup)
    for start, stop in spells:
        if start <= end and stop >= begin:
            inside = max(start, begin) / 60, min(stop, end) / 60
            axis.axvspan(*inside, color=ORANGE, alpha=0.35, lw=0)
    known = found.value[use][np.isfinite(found.value[use])]
    most = max(float(known.max(initial=0.0)), rule.threshold)
    top = 1.45 * min(most, TOP * rule.threshold or math.inf)
    axis.set_ylim(0, top or 1.0)
    axis.set_xlim(begin / 60, end / 60)
    stalls = stall_times(seen)
    if len(stalls):
        axis.axvline(stalls[0] / 60, color=RED, lw=1.4)
        later = stalls[(stalls > stalls[0]) & (stalls <= end)]
        axis.plot(later / 60, np.zeros(len(later)), "|", color=RED, ms=5, clip_on=False)
        first, last = episodes(stalls, horizon)[0]
        text = _said(*judge(spells, first, last, horizon))
        axis.text(0.015, 0.95, text, transform=axis.transAxes, fontsize=8, va="top", color=INK)
    axis.tick_params(labelsize=7, colors=FAINT, length=2)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axis.spines[side].set_color(FAINT)
    axis.locator_params(axis="y", nbins=3)


def _said(outcome: str, lead: float) -> str:
    if outcome == WARNED:
        return f"{words.duration(lead)} before"
    if outcome == LATE:
        return f"{words.duration(-lead)} late"
    return "on too early" if outcome == EARLY else "silent"
