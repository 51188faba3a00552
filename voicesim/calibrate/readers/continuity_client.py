"""Aggregates of the continuity client of vllm-omni (pull requests 3535 and 3592).

One object per model and concurrency.  Underruns are by definition C (the clock never pauses, the
arriving chunk counts as received).  ``tpot_ms`` is per network read, not per token, and the p99
is the floor(0.99 n) - 1st value.

Source: https://github.com/vllm-project/vllm-omni/pull/3592
"""

from pathlib import Path
from typing import Any

from voicesim.calibrate.readers.measured import CURVE, Measured, table
from voicesim.calibrate.readers.record import documents
from voicesim.calibrate.readers.source import Head
from voicesim.calibrate.readers.stats import stats_before

NAME = "vllm-omni continuity client (JSON)"
METRICS = {
    "ttft_ms": ("ttft_s", 1e-3),
    "ttfp_ms": ("ttfa_s", 1e-3),
    "e2el_ms": ("latency_s", 1e-3),
    "tpot_ms": ("read_gap_s", 1e-3),
    "audio_duration_s": ("audio_s", 1.0),
    "audio_rtf": ("rtf_per_request", 1.0),
    "max_underrun_ms": ("underrun_c_s", 1e-3),
    "max_inter_chunk_gap_ms": ("largest_chunk_gap_s", 1e-3),
}
THRESHOLD_S = 0.1


def sniff(head: Head) -> bool:
    """An object with the client's two counts."""
    return {"num_requests_ok", "num_continuity_ok"} <= head.keys


def read(path: Path) -> Measured:
    """Curve, one load per object."""
    rows: list[dict[str, Any]] = []
    n = 0
    for record in documents(path):
        n += 1
        name = record.text_of("model", default=path.stem)
        load = {
            "run": f"{name}, {n}",
            "concurrency": record.number("concurrency", low=1),
        }
        rows += stats_before(record, METRICS, **load)
        done, good = record.whole("num_requests_ok"), record.whole("num_continuity_ok")
        if good > done:
            raise record.refuse("num_continuity_ok", f"found {good:g} of {done:g} requests")
        if done:
            rows.append({**load, "metric": "requests", "stat": "total", "value": done})
            share = {"metric": "continuity", "stat": "share", "value": good / done}
            rows.append({**load, **share, "threshold_s": THRESHOLD_S, "definition": "c"})
    return Measured(
        path.name,
        "vllm-omni continuity client",
        n,
        ["real-time factor, time to first audio and underruns by concurrency (definition C: the"
         " clock never pauses, the arriving chunk counts)"],
        ["aggregates only: decode and codec cost cannot be told apart",
         "time per token: its tpot is per network read"],
        curve=table(CURVE, rows),
    )  # fmt: skip
