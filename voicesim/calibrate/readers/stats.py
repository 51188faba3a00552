"""Aggregates as benchmarks name them, to rows of a curve."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from voicesim.calibrate.readers.record import Record

_BEFORE = re.compile(r"(mean|median|std|min|max|p\d+(?:\.\d+)?)_(.+)")
_AFTER = re.compile(r"(.+)_(mean|median|std|min|max|p\d+(?:\.\d+)?)(_s)?")

Metrics = Mapping[str, tuple[str, float]]
"""A tool's name of a metric to ours and the factor to our unit."""


def stats_before(record: Record, metrics: Metrics, **load: Any) -> list[dict[str, Any]]:
    """Rows of keys such as ``p99_ttft_ms`` (metrics: {"ttft_ms": ("ttft_s", 1e-3)}).

    load: the columns that all rows share.  Null values are left out.
    """
    found = ((m[2], m[1], key) for key in record.data if (m := _BEFORE.fullmatch(key)))
    return _rows(record, metrics, found, load)


def stats_after(record: Record, metrics: Metrics, **load: Any) -> list[dict[str, Any]]:
    """Rows of keys such as ``latency_p95_s`` (metrics: {"latency_s": ("latency_s", 1.0)})."""
    matches = ((_AFTER.fullmatch(key), key) for key in record.data)
    found = ((m[1] + (m[3] or ""), m[2], key) for m, key in matches if m)
    return _rows(record, metrics, found, load)


def stat_rows(values: Any, metric: str, **load: Any) -> list[dict[str, Any]]:
    """Mean, median, p95, p99 and max of the values that are finite."""
    finite = np.asarray(values, float)
    finite = finite[np.isfinite(finite)]
    if not len(finite):
        return []
    stats = {"mean": finite.mean(), "max": finite.max()}
    stats |= {f"p{q}": np.quantile(finite, q / 100) for q in (95, 99)}
    stats["median"] = np.median(finite)
    return [{**load, "metric": metric, "stat": k, "value": float(v)} for k, v in stats.items()]


def single(record: Record, key: str, metric: str, stat: str, **load: Any) -> list[dict[str, Any]]:
    """One row of a key that may be missing or null."""
    if not record.has(key):
        return []
    return [{**load, "metric": metric, "stat": stat, "value": record.number(key)}]


def share_bounds(
    rows: Iterable[Mapping[str, Any]], metric: str, within: float
) -> tuple[float, float]:
    """Least and largest share of requests whose ``metric`` is within a limit (by percentiles)."""
    low, high = 0.0, 1.0
    for row in rows:
        stat = {"median": "p50"}.get(row["stat"], row["stat"])
        if row["metric"] != metric or not stat.startswith("p"):
            continue
        share = float(stat[1:]) / 100.0
        if row["value"] <= within:
            low = max(low, share)
        else:
            high = min(high, share)
    return low, max(low, high)


def _rows(
    record: Record, metrics: Metrics, found: Iterable[tuple[str, str, str]], load: dict[str, Any]
) -> list[dict[str, Any]]:
    out = []
    for name, stat, key in found:
        if name in metrics and record.has(key):
            metric, scale = metrics[name]
            value = record.number(key, scale)
            out.append({**load, "metric": metric, "stat": stat, "value": value})
    return out
