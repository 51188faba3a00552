"""sglang ``bench_serving``: one aggregate per line, arrays with --output-details.

Statistics are in milliseconds, arrays in seconds; ``request_rate`` may be a bare Infinity.
``concurrency`` is the mean number of requests in flight.

Source: https://github.com/sgl-project/sglang/blob/main/python/sglang/bench_serving.py
"""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from voicesim.calibrate.readers.measured import CURVE, Measured, table
from voicesim.calibrate.readers.record import NAN, Record, documents
from voicesim.calibrate.readers.source import Head
from voicesim.calibrate.readers.stats import single, stats_before
from voicesim.calibrate.readers.vllm_detail import request_columns

NAME = "sglang bench_serving (JSONL)"
METRICS = {
    "e2e_latency_ms": ("latency_s", 1e-3),
    "ttft_ms": ("ttft_s", 1e-3),
    "tpot_ms": ("tpot_s", 1e-3),
    "itl_ms": ("itl_s", 1e-3),
}


def sniff(head: Head) -> bool:
    """An object with the header that bench_serving writes."""
    return {
        "dataset_name",
        "request_rate",
        "max_concurrency",
    } <= head.keys and "burstiness" not in head.keys


def read(path: Path) -> Measured:
    """Curve, one load per line; requests where there are details."""
    curve: list[dict[str, Any]] = []
    requests = []
    runs = 0
    for record in documents(path, infinity=True):
        runs += 1
        run = f"{path.stem}:{runs}"
        load = {
            "run": run,
            "concurrency": record.number("max_concurrency", low=1, default=NAN),
            "rate_per_s": _rate(record),
        }
        curve += stats_before(record, METRICS, **load)
        curve += single(record, "request_throughput", "throughput_requests", "mean", **load)
        curve += single(record, "output_throughput", "throughput_tokens", "mean", **load)
        curve += single(record, "completed", "requests", "total", **load)
        curve += single(record, "concurrency", "requests_running", "mean", **load)
        if record.has("ttfts"):
            requests.append(request_columns(record, run))
    return Measured(
        path.name,
        "sglang bench_serving" + " --output-details" * bool(requests),
        sum(map(len, requests)) if requests else runs,
        [f"latency and throughput of {runs} run(s)"],
        ["step times: it keeps no send times, so tokens of different streams share no clock",
         "the codec: it measures text"],
        requests=pd.concat(requests, ignore_index=True) if requests else None,
        curve=table(CURVE, curve),
    )  # fmt: skip


def _rate(record: Record) -> float:
    """Requests per second; NaN for Infinity (all at once)."""
    rate = record.data.get("request_rate")
    endless = rate in ("inf", "Infinity") or (isinstance(rate, float) and np.isposinf(rate))
    return NAN if endless else record.number("request_rate")
