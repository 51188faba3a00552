"""Quantiles of the histograms of ratios that a run keeps (edges: ``layout.quantile_edges``)."""

import numpy as np

from voicesim.engine import layout as at


def quantile_rows(counts: np.ndarray, q: float) -> np.ndarray:
    """Quantile q of each row of a ratio histogram, interpolated in its bucket; NaN if empty.

    counts: int64[rows, buckets] as in voicesim.engine.layout.  Error: under one bucket, 1/16
    octave (6 %) for the coarse and 1/128 octave (0.8 %) for the fine histogram.
    """
    edges = at.quantile_edges(counts.shape[1] // at.OCTAVES)
    total = counts.sum(axis=1)
    cumulative = counts.cumsum(axis=1)
    rank = q * total
    bucket = (cumulative < rank[:, None]).sum(axis=1).clip(max=counts.shape[1] - 1)
    rows = np.arange(len(counts))
    inside = counts[rows, bucket]
    below = cumulative[rows, bucket] - inside
    with np.errstate(invalid="ignore", divide="ignore"):
        share = (rank - below) / inside
    value = edges[bucket] + share * (edges[bucket + 1] - edges[bucket])
    return np.where(total > 0, value, np.nan)
