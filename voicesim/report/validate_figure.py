"""A validation as a picture: how far each predicted metric is from the measured one."""

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from voicesim.experiment.validate import Setting, compared
from voicesim.report.figure import BLUE, FAINT, INK
from voicesim.report.validate_sheets import Shown


def draw(settings: Sequence[Setting], shown: Shown) -> Figure:
    """A row per metric: a dot per setting at the error of the mean, a line over its replays.

    shown: the metrics and their titles; those that were not measured, or measured as 0,
    are left out.
    """
    found = {name: [compared(setting, name) for setting in settings] for name in shown}
    rows = [name for name in shown if any(c["error"] is not None for c in found[name])]
    figure = Figure(figsize=(8.6, 0.42 * len(rows) + 1.3), layout="constrained")
    axis = figure.add_subplot()
    axis.set_label("errors")
    axis.axvline(0, color=FAINT, lw=1)
    for y, name in enumerate(rows):
        for i, each in enumerate(found[name]):
            measured, low, high = each["measured"], each["predicted_low"], each["predicted_high"]
            if each["error"] is None or not measured or low is None or high is None:
                continue
            at = y + (0.6 * (i + 0.5) / len(settings) - 0.3)
            ends = [100 * (low / measured - 1), 100 * (high / measured - 1)]
            axis.plot(ends, [at, at], color=BLUE, lw=1.2, alpha=0.6)
            axis.plot(100 * each["error"], at, "o", color=BLUE, ms=4)
    axis.set_yticks(range(len(rows)), [shown[name][0] for name in rows])
    axis.set_ylim(len(rows) - 0.4, -0.6)
    axis.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:+g}%" if x else "0"))
    axis.set_xlabel("predicted against measured: mean, and the replays' extremes", color=INK)
    axis.tick_params(colors=INK, labelsize=9)
    for side in ("top", "right", "left"):
        axis.spines[side].set_visible(False)
    axis.grid(axis="x", color="#e6e6e6", lw=0.8)
    axis.set_axisbelow(True)
    return figure
