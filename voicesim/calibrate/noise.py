"""Step noise: what is left of a step after its prediction and its run's own speed.

How much faster or slower a whole run was does not average out within a run, so it is no step
noise: it is reported as ``run_spread`` and shows in the parameters' intervals.  The ends of the
101 quantiles stand at 0.25 % and 99.75 %, so that one extreme step does not stretch a whole per
cent.
"""

import numpy as np
import pandas as pd

from voicesim.engine.profile import Noise

MIN_STEPS = 200
MIN_PER_RUN = 20


def split_noise(
    decode: pd.DataFrame, predicted: np.ndarray
) -> tuple[Noise | None, float, float | None]:
    """Noise of mean 1, the mean of measured/predicted in a run of median 1, and the run spread.

    decode: decode rows.  A None noise (and a mean of 1) means too few steps.
    """
    rows = decode.assign(ratio=decode["seconds"].to_numpy() / predicted)
    sizes = rows.groupby("run")["ratio"].transform("size")
    rows = rows[sizes >= MIN_PER_RUN]
    if len(rows) < MIN_STEPS:
        return None, 1.0, None
    median = rows.groupby("run")["ratio"].median()
    ratio = (rows["ratio"] / rows.groupby("run")["ratio"].transform("median")).to_numpy()
    size = rows.groupby("run")["ratio"].transform("size").to_numpy(dtype=float)
    at = np.linspace(0.0, 1.0, 101)
    at[[0, -1]] = 0.0025, 0.9975
    quantiles = _weighted_quantiles(ratio, rows["reliability"].to_numpy() / size, at)
    mean = float((quantiles[:-1] + quantiles[1:]).mean() / 2)
    spread = float(median.std(ddof=1)) if len(median) > 1 else None
    return Noise(quantiles=[float(q / mean) for q in quantiles]), mean, spread


def _weighted_quantiles(values: np.ndarray, weight: np.ndarray, at: np.ndarray) -> np.ndarray:
    order = np.argsort(values, kind="stable")
    v, w = values[order], weight[order]
    mid = (np.cumsum(w) - 0.5 * w) / w.sum()
    return np.asarray(np.interp(at, mid, v))
