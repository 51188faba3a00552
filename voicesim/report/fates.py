"""What became of the calls of each variant: one bar a variant, for a study with degraded calls."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from voicesim.report import words
from voicesim.report.words import Summary

FATES = {
    "CLEAN, as the pool is": "#009E73",
    "CLEAN at a rung": "#8FD3BE",
    "text or a filler": "#F0E442",
    "broke: late or stalled": "#D55E00",
    "refused": "#E69F00",
    "hung up": "#56B4E9",
    "failed, cut or live": "#BBBBBB",
}
"""What can become of a call, from best to worst, and its colour (Okabe and Ito's palette)."""
ROW, HEAD, FOOT, WIDTH, DPI = 0.5, 0.75, 0.9, 11.0, 150


def degrades(summary: Summary) -> bool:
    """Was any call of any variant degraded?"""
    return any((words.mean(m, "degraded_share") or 0.0) > 0 for m in summary.values())


def fates(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Shares of all offered calls, by the names of ``FATES``; they add up to 1."""
    offered = words.mean(metrics, "offered") or 0.0
    if not offered:
        return dict.fromkeys(FATES, 0.0)

    def share(*names: str) -> float:
        return sum(words.mean(metrics, name) or 0.0 for name in names) / offered

    clean = words.mean(metrics, "clean_share") or 0.0
    at_a_rung = words.mean(metrics, "clean_degraded_share") or 0.0
    gone = share("failed", "cut", "live_at_end")
    rest = [share("stood_in"), share("refused"), share("abandoned"), gone]
    broke = max(1.0 - clean - sum(rest), 0.0)
    shares = [clean - at_a_rung, at_a_rung, rest[0], broke, *rest[1:]]
    return dict(zip(FATES, shares, strict=True))


def fates_figure(summary: Summary, context: Mapping[str, Any], path: Path) -> None:
    """Write the figure as PNG."""
    height = HEAD + FOOT + ROW * len(summary)
    figure = Figure(figsize=(WIDTH, height))
    FigureCanvasAgg(figure)
    axis = figure.add_axes((0.16, FOOT / height, 0.81, 1 - (HEAD + FOOT) / height))
    names = list(summary)
    for i, name in enumerate(names):
        left = 0.0
        for fate, share in fates(summary[name]).items():
            axis.barh(i, 100 * share, left=100 * left, height=0.7, color=FATES[fate])
            if share >= 0.03:
                x = 100 * (left + share / 2)
                axis.text(x, i, f"{100 * share:.0f}", ha="center", va="center", fontsize=9)
            left += share
    axis.set_yticks(range(len(names)), names)
    axis.set_ylim(len(names) - 0.5, -0.5)
    axis.set_xlim(0, 100)
    axis.set_xlabel("% of all offered calls", fontsize=9)
    axis.tick_params(labelsize=9, length=0)
    for side in ("top", "right", "left"):
        axis.spines[side].set_visible(False)
    handles = [Patch(color=color, label=fate) for fate, color in FATES.items()]
    figure.legend(
        handles=handles, loc="lower center", ncols=len(FATES), fontsize=8, frameon=False,
        handlelength=1.0, columnspacing=1.2,
    )  # fmt: skip
    figure.text(0.16, 1 - 0.3 / height, context["title"] or "voicesim", fontsize=12, weight="bold")
    figure.text(
        0.16, 1 - 0.55 / height, f"what became of each call; {words.setting(context)}", fontsize=9
    )
    figure.savefig(path, format="png", dpi=DPI)
