"""The latency ledger: where the time before an answer goes, and what one turn of a kind spent.

Percentiles of segments do not add up; the mean over the turns in a narrow band around a percentile
of the total does.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from voicesim.metrics.dialogue_run import PARTS, SEGMENTS
from voicesim.metrics.summary import Value, nearest_rank

BANDS = {"median_turn": (0.475, 0.525), "p99_turn": (0.985, 0.995)}
"""Which turns stand for the median and for the slowest in a hundred: quantiles of the total."""


def ledger(heard: pd.DataFrame) -> dict[str, Value]:
    """Of each segment, of network and of total: PART_p50_s, _p95_s, _p99_s, _mean_s, PART_share of
    the whole time, and PART_median_turn_s, _p99_turn_s: what the turns of a band spent on average.

    heard: turns that were answered.  None of none.  In a band the segments sum to the total.
    """
    ns = {name: nanoseconds_of(heard, name) for name in PARTS}
    total = ns["total"]
    spent = float(total.sum())
    rows = {name: band(total, *quantiles) for name, quantiles in BANDS.items()}
    found: dict[str, Value] = {}
    for name, part in ns.items():
        for q in (50, 95, 99):
            value = nearest_rank(part, q / 100.0)
            found[f"{name}_p{q}_s"] = None if value is None else value / 1e9
        found[f"{name}_mean_s"] = part.mean() / 1e9 if len(part) else None
        found[f"{name}_share"] = float(part.sum()) / spent if spent else None
        for kind, inside in rows.items():
            found[f"{name}_{kind}_s"] = part[inside].mean() / 1e9 if len(inside) else None
    return found


def nanoseconds_of(turns: pd.DataFrame, part: str) -> np.ndarray:
    """int64[n]: a part of the ledger in whole nanoseconds."""
    columns = [f"{name}_s" for name in PARTS[part]]
    return np.rint(turns[columns].to_numpy() * 1e9).astype(np.int64).sum(axis=1)


def band(total: np.ndarray, low: float, high: float) -> np.ndarray:
    """Rows whose total lies between two quantiles, by rank; at least the one in the middle."""
    n = len(total)
    if not n:
        return np.zeros(0, np.int64)
    order = np.argsort(total, kind="stable")
    first = min(int(np.ceil(low * n)), int(np.ceil((low + high) / 2 * n)) - 1)
    return order[max(first, 0) : max(int(np.floor(high * n)), max(first, 0) + 1)]


def waterfall(of: Mapping[str, Value], kind: str) -> list[tuple[str, float, float]]:
    """(segment, begins, lasts) in s of a band's turn, one after the other; [] if not measured."""
    found, at = [], 0.0
    for name in SEGMENTS:
        lasts = of[f"{name}_{kind}_s"]
        if lasts is None:
            return []
        found.append((name, at, lasts))
        at += lasts
    return found
