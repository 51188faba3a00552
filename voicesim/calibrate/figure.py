"""The fit as a picture: measured steps, the curve, residuals, and the measured range."""

import io

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from voicesim.calibrate.levels import decode_levels, level_rows
from voicesim.engine.profile import Profile


def draw(profile: Profile, samples: pd.DataFrame) -> bytes:
    """``fit_figure`` as PNG."""
    png = io.BytesIO()
    fit_figure(profile, samples).savefig(png, dpi=120, format="png")
    return png.getvalue()


def fit_figure(profile: Profile, samples: pd.DataFrame) -> Figure:
    """Step against batch above, measured over predicted below."""
    decode = samples[samples["stage"] == "decode"]
    loads = (decode[n].to_numpy(dtype=float) for n in ("tokens", "kv_read", "pairs", "streams"))
    ratio = decode["seconds"].to_numpy() / profile.predict_loads(*loads)
    batch = decode["batch"].to_numpy()
    figure = Figure(figsize=(8, 7), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[2, 1])
    above.plot(batch, decode["seconds"] * 1e3, ".", ms=2, color="0.7", label="measured steps")
    levels = decode_levels(samples)
    medians = [level_rows(samples, b)["seconds"].median() * 1e3 for b in levels]
    above.plot(levels, medians, "o", color="C0", label="median of a batch")
    top = max(2.0, 1.25 * float(batch.max()))
    grid = np.linspace(1, top, 200)
    contexts = np.unique(np.quantile(decode["context"], [0.1, 0.9]))
    for context, style in zip(contexts, ("-", "--"), strict=False):
        curve = [profile.predict(b, context) * 1e3 for b in grid]
        above.plot(grid, curve, style, color="C1", label=f"profile, context {context:.0f} tokens")
    below.plot(batch, ratio, ".", ms=2, color="0.5")
    below.axhline(1.0, color="C1")
    for axis in (above, below):
        axis.axvspan(float(batch.min()), float(batch.max()), color="C0", alpha=0.06)
    above.set_ylabel("step (ms)")
    if len(ratio):
        above.set_ylim(0, 1.3e3 * float(decode["seconds"].quantile(0.99)))
        below.set_ylim(0, max(2.0, float(np.quantile(ratio, 0.99))))
    above.set_title(f"{profile.name}: {profile.form} (shaded: measured range)")
    above.legend()
    below.set_xlabel("streams in the batch")
    below.set_ylabel("measured / predicted")
    return figure
