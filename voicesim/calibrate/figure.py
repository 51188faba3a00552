"""The fit as a picture: measured steps, curve and knee, residuals, and where it extrapolates."""

import io

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from voicesim.calibrate.levels import decode_levels, level_rows, level_value
from voicesim.calibrate.noise import median_share
from voicesim.engine.profile import Profile

MOST_POINTS = 20_000


def draw(profile: Profile, samples: pd.DataFrame) -> bytes:
    """``fit_figure`` as PNG."""
    png = io.BytesIO()
    fit_figure(profile, samples).savefig(png, dpi=120, format="png")
    return png.getvalue()


def fit_figure(profile: Profile, samples: pd.DataFrame) -> Figure:
    """Step against batch above, measured over predicted below; hatched: beyond the batches.

    Medians throughout: of the steps measured, and of the profile's steps with their noise.
    """
    decode = samples[samples["stage"] == "decode"]
    decode = decode.iloc[:: max(1, -(-len(decode) // MOST_POINTS))]
    loads = (decode[n].to_numpy(dtype=float) for n in ("tokens", "kv_read", "pairs", "streams"))
    middle = median_share(profile, decode)
    ratio = decode["seconds"].to_numpy() / (profile.predict_loads(*loads) * middle)
    batch = decode["tokens"].to_numpy(dtype=float)
    few = len(decode) <= 60
    figure = Figure(figsize=(8, 7), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[2, 1])
    top = max(2.0, 1.25 * float(batch.max()))
    size = 5 if few else 3
    above.plot(batch, decode["seconds"] * 1e3, ".", ms=size, color="0.65", label="measured steps")
    low, high = np.quantile(decode["context"], [0.1, 0.9]).round()
    levels = decode_levels(samples)
    values = [_at_context(profile, samples, b, low) * 1e3 for b in levels]
    label = f"measured batch, brought to context {low:.0f}"
    above.plot(levels, values, "o", color="C0", ms=5, label=label)
    grid = np.linspace(1, top, 200)
    typical = float(np.median(middle)) if len(decode) else 1.0
    of = "profile" if typical == 1.0 else "profile, median step"
    scale = 1e3 * typical
    curves = [[profile.predict(b, context) * scale for b in grid] for context in (low, high)]
    above.plot(grid, curves[0], "-", color="C1", label=f"{of}, context {low:.0f} tokens")
    if curves[1][-1] > 1.02 * curves[0][-1]:
        above.plot(grid, curves[1], "--", color="C1", label=f"{of}, context {high:.0f} tokens")
    _knee(above, profile)
    below.plot(batch, ratio, ".", ms=size, color="0.5")
    below.axhline(1.0, color="C1")
    for axis in (above, below):
        _beyond(axis, float(batch.min()), float(batch.max()), top)
        axis.spines[["top", "right"]].set_visible(False)
    above.set_ylabel("step (ms)")
    if len(ratio):
        highest = max(float(decode["seconds"].quantile(0.99)) * 1e3, *values, 0.0)
        above.set_ylim(0, 1.3 * highest)
        wide = max(0.1, 1.2 * float(np.quantile(np.abs(ratio - 1.0), 0.99)))
        below.set_ylim(max(0.0, 1.0 - wide), 1.0 + wide)
    above.set_title(f"{profile.name}: {profile.form} (hatched: beyond the measured batches)")
    above.legend(loc="lower right", framealpha=1.0)
    below.set_xlabel("streams in the batch")
    below.set_ylabel("measured / predicted")
    return figure


def _at_context(profile: Profile, samples: pd.DataFrame, batch: float, context: float) -> float:
    """Seconds of a measured batch had its streams had this context: by the profile's ratio."""
    rows = level_rows(samples, batch)
    loads = (rows[n].to_numpy(dtype=float) for n in ("tokens", "kv_read", "pairs", "streams"))
    ratio = level_value(rows, rows["seconds"].to_numpy() / profile.predict_loads(*loads))
    # The ratio is of a median to the mean step, so the product is a median at the other context.
    return ratio * profile.predict(batch, context)


def _knee(axis: Axes, profile: Profile) -> None:
    """A line at the knee and a band over its interval, where there is one."""
    knee = profile.fit.knee if profile.fit is not None else None
    if knee is None:
        return
    axis.axvline(knee.value, color="C3", lw=1, label=f"knee, batch {knee.value:.0f}")
    if knee.low is not None:
        high = axis.get_xlim()[1] if knee.high is None else knee.high
        axis.axvspan(knee.low, high, color="C3", alpha=0.12, lw=0, label="its 5 % to 95 %")


def _beyond(axis: Axes, low: float, high: float, top: float) -> None:
    """Hatch what was not measured."""
    for a, b in ((0.0, low), (high, top)):
        axis.axvspan(a, b, facecolor="none", edgecolor="0.8", hatch="//", lw=0, zorder=0)
    axis.set_xlim(0, top)
