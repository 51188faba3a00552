"""LLMPerf's <name>_summary.json and <name>_individual_responses.json; seconds.

The summary's nested keys are flattened with an underscore (results_ttft_s_quantiles_p50), and
minima and maxima of whole numbers are written as text.
Source: https://github.com/ray-project/llmperf (token_benchmark_ray.py)
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from voicesim.calibrate.errors import CalibrationError
from voicesim.calibrate.readers import aggregates
from voicesim.calibrate.readers.measured import REQUESTS, Measured, table
from voicesim.calibrate.readers.record import NAN, Record
from voicesim.calibrate.readers.source import Head, kind, load_json

NAME = "LLMPerf summary or individual responses (JSON)"
METRICS = {
    "ttft_s": "ttft_s",
    "inter_token_latency_s": "itl_s",
    "end_to_end_latency_s": "latency_s",
    "number_input_tokens": "prompt_tokens",
    "number_output_tokens": "tokens",
}
STATS = {"mean": "mean", "stddev": "std", "min": "min", "max": "max"}
STAT = re.compile(r"(?:quantiles_)?(p\d+|mean|stddev|min|max)")


def sniff(head: Head) -> bool:
    """Keys of one response, or of the summary."""
    if {"end_to_end_latency_s", "ttft_s"} <= head.keys:
        return True
    return "num_concurrent_requests" in head.keys and '"results' in head.text


def read(path: Path) -> Measured:
    """Requests without their arrivals, or points at one load."""
    data, text = load_json(path)
    if isinstance(data, list):
        return _individual(path.name, data, text)
    record = Record(_flat(data), path.name, text=text)
    rows = int(record.whole("results_num_completed_requests", default=0))
    return aggregates.measured(path.name, NAME, rows, _points(record))


def _flat(data: Any, above: str = "") -> dict[str, Any]:
    """Nested keys joined with underscores."""
    found: dict[str, Any] = {}
    for key, value in data.items():
        name = f"{above}{key}"
        found |= _flat(value, f"{name}_") if isinstance(value, dict) else {name: value}
    return found


def _points(record: Record) -> Iterator[dict[str, Any]]:
    concurrency = record.number("num_concurrent_requests")
    base = {"run": record.file, "concurrency": concurrency}
    for name, metric in METRICS.items():
        stats = {}
        for key in record.data:
            prefix, _, rest = key.partition(f"results_{name}_")
            if not prefix and (found := STAT.fullmatch(rest)) and record.has(key):
                stats[STATS.get(found[1], found[1])] = _number(record, key)
        yield from aggregates.points(base, metric, stats)
    for key, metric, factor in (
        ("results_mean_output_throughput_token_per_s", "throughput_tokens", 1.0),
        ("results_num_completed_requests_per_min", "throughput_requests", 1 / 60),
    ):
        if record.has(key):
            yield from aggregates.points(base, metric, {"mean": record.number(key, factor)})


def _number(record: Record, key: str) -> float:
    value = record.data[key]
    if isinstance(value, str) and re.fullmatch(r"\d+(\.\d+)?", value):
        return float(value)
    return record.number(key)


def _individual(file: str, data: list[Any], text: str) -> Measured:
    rows = []
    for i, item in enumerate(data):
        if not isinstance(item, dict):
            raise CalibrationError(file, None, f"[{i}]: must be an object; found {kind(item)}")
        rows.append(_row(Record(item, file, text=text, path=(i,))))
    if not rows:
        raise CalibrationError(file, None, "holds no response")
    numbered = [{**row, "run": file, "request": i} for i, row in enumerate(rows)]
    return Measured(
        file,
        NAME,
        len(rows),
        tells=["first token, latency and lengths of each request"],
        cannot=["when requests came", aggregates.PER_REQUEST],
        requests=table(REQUESTS, numbered),
    )


def _row(record: Record) -> dict[str, Any]:
    ok = not record.has("error_code")
    need = {} if ok else {"default": NAN}
    return {
        "ttft_s": record.number("ttft_s", **need),
        "latency_s": record.number("end_to_end_latency_s", **need),
        "prompt_tokens": record.number("number_input_tokens", default=NAN),
        "tokens": record.number("number_output_tokens", **need),
        "ok": ok,
    }
