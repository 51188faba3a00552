"""AIPerf's record per request: profile_export.jsonl.

metadata: request_start_ns, request_end_ns (Unix ns), conversation_id, turn_index, benchmark_phase,
was_cancelled; metrics: {<tag>: {value, unit}}; error: null or an object.
Source: https://github.com/ai-dynamo/aiperf (working with profile exports)
"""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from voicesim.calibrate.errors import CalibrationError
from voicesim.calibrate.readers import aggregates
from voicesim.calibrate.readers.measured import REQUESTS, Measured, table
from voicesim.calibrate.readers.record import NAN, Record
from voicesim.calibrate.readers.source import Head, json_lines

NAME = "AIPerf profile_export.jsonl"
TAGS = {
    "ttft_s": ("time_to_first_token",),
    "latency_s": ("request_latency",),
    "prompt_tokens": ("input_sequence_length",),
    "tokens": ("output_sequence_length", "output_token_count"),
}


def sniff(head: Head) -> bool:
    """JSON lines with metadata and metrics."""
    return {"metadata", "metrics"} <= head.keys and "request_start_ns" in head.text


def read(path: Path) -> Measured:
    """Requests of the profiling phase, in the order of their start."""
    names = ("start", "session", "request", "ok", "cancelled", "line", *TAGS)
    found: dict[str, list[Any]] = {name: [] for name in names}
    for line, data in json_lines(path):
        record = Record(data, path.name, line)
        meta, metrics = record.sub("metadata"), record.sub("metrics")
        if meta.text_of("benchmark_phase", default="profiling") != "profiling":
            continue
        meta.whole("request_start_ns")
        start = int(meta.data["request_start_ns"])  # as a float it would lose its last digits
        if start > np.iinfo(np.int64).max:
            what = f"found {start:g}; must be nanoseconds since 1970, of 63 bits at most"
            raise meta.refuse("request_start_ns", what)
        if meta.whole("request_end_ns", default=float(start)) < float(start):
            raise meta.refuse("request_end_ns", "is before request_start_ns")
        found["start"].append(start)
        found["session"].append(meta.text_of("conversation_id", default="") or f"line {line}")
        found["request"].append(meta.text_of("x_request_id", default=str(line)))
        found["ok"].append(not record.has("error"))
        found["cancelled"].append(meta.flag("was_cancelled", default=False))
        found["line"].append(line)
        for name, tags in TAGS.items():
            found[name].append(_value(metrics, tags))
    if not found["line"]:
        raise CalibrationError(path.name, None, "holds no request of the profiling phase")
    start_ns = np.array(found.pop("start"), dtype=np.int64)
    rows = {**found, "run": path.name, "arrival_s": (start_ns - start_ns.min()) / 1e9}
    requests = table(REQUESTS, rows)
    assert requests is not None
    return Measured(
        path.name,
        NAME,
        len(requests),
        tells=["arrivals, sessions, lengths, first token and latency of each request"],
        cannot=[aggregates.PER_REQUEST],
        epoch_s=float(start_ns.min()) / 1e9,
        requests=requests.sort_values("arrival_s", kind="stable", ignore_index=True),
    )


def _value(metrics: Record, tags: tuple[str, ...]) -> float:
    """The first of the tags that is there, in seconds or tokens by its own unit."""
    for tag in tags:
        if metrics.has(tag):
            each = metrics.sub(tag)
            unit = each.text_of("unit")
            return each.number("value", aggregates.scale(unit, partial(each.refuse, "unit")))
    return NAN
