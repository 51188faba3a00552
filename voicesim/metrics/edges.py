"""Curves of all replies as counts on a fixed grid: pieces, pools and replications add up."""

import numpy as np
import pandas as pd

EDGES = 10.0 ** (np.arange(-72, 61) / 24)
"""Seconds at which the curves are known: 1 ms to about 300 s, 24 points a decade."""


def counted(seconds: pd.Series) -> np.ndarray:
    """int64[EDGES + 1]: how many are up to the first edge, up to the second, ..., beyond."""
    bins = np.searchsorted(EDGES, seconds.to_numpy(float), side="left")
    return np.bincount(bins, minlength=len(EDGES) + 1)


def curves(
    calls: pd.DataFrame, streams: pd.DataFrame, warmup: float
) -> tuple[np.ndarray, np.ndarray]:
    """``counted`` of request to first sound, and of the largest stall of replies in which one can
    be measured; without the calls that arrived before the warm-up."""
    late = calls["session"][calls["arrival_s"] >= warmup]
    seen = streams[streams["session"].isin(late)]
    heard = (seen["started_s"] - seen["requested_s"]).dropna()
    return counted(heard), counted(seen["stall_largest_s"].dropna())
