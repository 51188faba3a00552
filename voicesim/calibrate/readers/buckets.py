"""Cumulative histograms, as Prometheus keeps them, to rows of a curve."""

from collections.abc import Mapping
from typing import Any

import numpy as np


def histogram_rows(
    parts: Mapping[tuple[str, str], float], metric: str, **load: Any
) -> list[dict[str, Any]]:
    """Rows of one histogram: count up to each bucket's end, mean, median, p95, p99.

    parts: {("bucket", le): samples up to le, ("sum", ""): .., ("count", ""): ..}.  Quantiles are
    interpolated in their bucket as ``histogram_quantile`` does; one beyond the last finite bucket
    is left out.
    """
    ends = sorted((float(le), n) for (part, le), n in parts.items() if part == "bucket")
    count = parts.get(("count", ""), ends[-1][1] if ends else 0.0)
    if not count:
        return []
    base = {**load, "metric": metric}
    rows = [{**base, "stat": "count", "value": n, "upto": le} for le, n in ends]
    if ("sum", "") in parts:
        rows.append({**base, "stat": "mean", "value": parts["sum", ""] / count})
    finite = [(le, n) for le, n in ends if np.isfinite(le)]
    for stat, q in (("median", 0.5), ("p95", 0.95), ("p99", 0.99)):
        value = _quantile(finite, q * count)
        if value is not None:
            rows.append({**base, "stat": stat, "value": value})
    return rows


def _quantile(ends: list[tuple[float, float]], rank: float) -> float | None:
    low = below = 0.0
    for le, n in ends:
        if n >= rank:
            return low + (le - low) * (rank - below) / (n - below) if n > below else le
        low, below = le, n
    return None
