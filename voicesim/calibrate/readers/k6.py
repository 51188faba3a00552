"""k6's CSV output (--out csv=FILE): one row per metric sample.

metric_name, timestamp (Unix s, or ms, us, ns as configured, or RFC 3339), metric_value (durations
in ms), status, ...  Custom trends stand under their own names: one whose name begins with ttfa is
taken as the time to first audio.  vus rows tell how many users there were.
Source: https://grafana.com/docs/k6/latest/results-output/real-time/csv/
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from voicesim.calibrate.errors import CalibrationError
from voicesim.calibrate.readers import aggregates
from voicesim.calibrate.readers.columns import csv_blocks
from voicesim.calibrate.readers.measured import REQUESTS, Measured, table
from voicesim.calibrate.readers.source import Head
from voicesim.calibrate.table import numeric

NAME = "k6 samples (CSV)"
METRICS = {"http_req_duration": "latency_s", "http_req_waiting": "ttfb_s"}
QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}


def sniff(head: Head) -> bool:
    """A CSV with k6's first columns."""
    return len({"metric_name", "metric_value", "timestamp"} & set(head.header)) >= 2


def read(path: Path) -> Measured:
    """Points by the number of users, and the requests (one per http_req_duration)."""
    rows = _samples(path)
    vus = rows[rows["metric"] == "vus"]
    users = np.full(len(rows), np.nan)
    if len(vus):
        place = np.searchsorted(vus["t"].to_numpy(), rows["t"].to_numpy(), side="right") - 1
        users = vus["value"].to_numpy()[np.maximum(place, 0)]
    rows["users"] = users
    begin = float(rows["t"].iloc[0])
    calls = rows[rows["metric"] == "latency_s"]
    points = list(_points(rows[~rows["metric"].isin(["vus", ""])], path.name))
    arrival = calls["t"] - begin - calls["value"]
    requests = {
        "run": path.name,
        "request": np.arange(len(calls)),
        "arrival_s": arrival - min(float(arrival.min()), 0.0) if len(calls) else arrival,
        "latency_s": calls["value"],
        "ok": calls["ok"],
        "line": calls["line"],
    }
    return aggregates.measured(
        path.name, NAME, len(rows), points, epoch_s=begin, requests=table(REQUESTS, requests)
    )


def _samples(path: Path) -> pd.DataFrame:
    """metric, t (Unix s), value (s; vus: users), ok and line of the known samples, by time."""
    parts = []
    for found in csv_blocks(path, ["metric_value"], needed=["metric_name", "timestamp"]):
        names = found["metric_name"].astype(str)
        metric = names.map(METRICS).astype(object)
        metric[names.str.startswith("ttfa")] = "ttfa_s"
        metric[names == "vus"] = "vus"
        kept = metric.notna()
        if not kept.any():
            continue
        found, metric = found[kept], metric[kept]
        status = found["status"] if "status" in found else pd.Series(np.nan, found.index)
        code = numeric(status)
        parts.append(
            pd.DataFrame(
                {
                    "metric": metric,
                    "t": _seconds(found, path.name),
                    "value": found["metric_value"] * np.where(metric == "vus", 1.0, 1e-3),
                    "ok": code.isna() | ((code >= 200) & (code < 400)),
                    "line": found["line"],
                }
            )
        )
    if not parts:
        known = ", ".join([*METRICS, "ttfa...", "vus"])
        raise CalibrationError(path.name, None, f"holds no sample that is known: {known}")
    rows = pd.concat(parts, ignore_index=True)
    return rows.sort_values("t", kind="stable", ignore_index=True)


def _seconds(found: pd.DataFrame, file: str) -> np.ndarray:
    """Unix seconds of timestamps in any of k6's formats, told by their size."""
    given = found["timestamp"]
    values = numeric(given).to_numpy(float)
    if np.isnan(values).all():
        when = pd.to_datetime(given, format="ISO8601", utc=True, errors="coerce")
        nanos = when.dt.tz_localize(None).to_numpy("datetime64[ns]").astype(np.int64)
        values = np.where(when.isna(), np.nan, nanos / 1e9)
    else:
        largest = np.nanmax(values)
        values = values / next(d for d in (1.0, 1e3, 1e6, 1e9) if largest / d < 1e11 or d == 1e9)
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        what = f"timestamp: found {given.iloc[bad[0]]!r}; must be Unix time or RFC 3339"
        raise CalibrationError(file, int(found["line"].iloc[bad[0]]), what)
    return values


def _points(rows: pd.DataFrame, file: str) -> Iterator[dict[str, Any]]:
    for (level, metric), each in rows.groupby(["users", "metric"], dropna=False):
        values = each["value"].to_numpy()
        base = {"run": file, "concurrency": level}
        stats = {"mean": values.mean(), "min": values.min(), "max": values.max()}
        stats |= {name: float(np.quantile(values, q)) for name, q in QUANTILES.items()}
        yield from aggregates.points(base, str(metric), stats)
