"""Step noise: how a step differs from the others of its run at its batch.

How much faster or slower a whole run was does not average out within a run, nor does how far the
form misses a batch: neither is step noise.  The one is reported as ``run_spread`` and shows in the
parameters' intervals, the other stands among the measured points.  The ends of the 101 quantiles
are at 0.25 % and 99.75 %, so that one extreme step does not stretch a whole per cent.
"""

import numpy as np
import pandas as pd

from voicesim.engine.profile import Noise, Profile

MIN_STEPS = 200
MIN_PER_RUN = 20


def split_noise(
    decode: pd.DataFrame, predicted: np.ndarray
) -> tuple[Noise | None, float, float | None]:
    """Noise of mean 1, the mean of measured/predicted about a median of 1, and the run spread.

    decode: decode rows.  A None noise (and a mean of 1) means too few steps.  Runs that hold too
    few steps at any one batch are taken each as a whole.
    """
    every = decode.assign(ratio=decode["seconds"].to_numpy() / predicted)
    rows = _often(every, ["run", "batch"])
    if len(rows) < MIN_STEPS:
        rows = _often(every, ["run"])
    if len(rows) < MIN_STEPS:
        return None, 1.0, None
    ratio = (rows["ratio"] / rows["middle"]).to_numpy()
    median = rows.groupby("run")["ratio"].median()
    size = rows.groupby("run")["ratio"].transform("size").to_numpy(dtype=float)
    at = np.linspace(0.0, 1.0, 101)
    at[[0, -1]] = 0.0025, 0.9975
    quantiles = _weighted_quantiles(ratio, rows["reliability"].to_numpy() / size, at)
    mean = float((quantiles[:-1] + quantiles[1:]).mean() / 2)
    spread = float(median.std(ddof=1)) if len(median) > 1 else None
    return Noise(quantiles=[float(q / mean) for q in quantiles]), mean, spread


def _often(rows: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Rows of the groups of MIN_PER_RUN and more, with the median ratio of each as ``middle``."""
    ratio = rows.groupby(by)["ratio"]
    return rows.assign(middle=ratio.transform("median"))[ratio.transform("size") >= MIN_PER_RUN]


def median_share(profile: Profile, rows: pd.DataFrame) -> np.ndarray:
    """float64[rows]: what a row's usual value is of the profile's cost, which is the mean step.

    The median of the noise where the row is one step; 1 where it is a mean of several already.
    """
    middle = 1.0 if profile.noise is None else profile.noise.quantiles[50]
    return np.where(rows["steps"].to_numpy(dtype=float) > 1, 1.0, middle)


def _weighted_quantiles(values: np.ndarray, weight: np.ndarray, at: np.ndarray) -> np.ndarray:
    order = np.argsort(values, kind="stable")
    v, w = values[order], weight[order]
    mid = (np.cumsum(w) - 0.5 * w) / w.sum()
    return np.asarray(np.interp(at, mid, v))
