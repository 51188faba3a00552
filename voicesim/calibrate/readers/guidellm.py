"""GuideLLM's benchmarks.json and benchmarks.csv.

JSON: benchmarks[] with metrics.<name>.successful.{mean, median, std_dev, min, max, percentiles
{p001, p01, ..., p999}} (request_latency in s, *_ms in ms) and requests.{successful, incomplete,
errored}[].  CSV: three header rows (group, "Successful" and the unit, statistic; or
the statistic in the second row, too), mixed units.
Source: https://github.com/vllm-project/guidellm (benchmark/outputs/csv.py)
"""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from voicesim.calibrate.errors import CalibrationError
from voicesim.calibrate.readers import aggregates
from voicesim.calibrate.readers.measured import REQUESTS, Measured, table
from voicesim.calibrate.readers.record import NAN, Record
from voicesim.calibrate.readers.source import Head, csv_rows, head_of, load_json

NAME = "GuideLLM benchmarks (JSON, CSV)"
METRICS = {
    "request_latency": ("latency_s", 1.0),
    "time_to_first_token_ms": ("ttft_s", 1e-3),
    "time_per_output_token_ms": ("tpot_s", 1e-3),
    "inter_token_latency_ms": ("itl_s", 1e-3),
    "requests_per_second": ("throughput_requests", 1.0),
    "output_tokens_per_second": ("throughput_tokens", 1.0),
}
PERCENTILES = {
    "p001": "p0.1", "p01": "p1", "p05": "p5", "p10": "p10", "p25": "p25", "p50": "p50",
    "p75": "p75", "p90": "p90", "p95": "p95", "p99": "p99", "p999": "p99.9",
}  # fmt: skip
STATS = {"mean": "mean", "median": "median", "std_dev": "std", "min": "min", "max": "max"}
GROUPS = {
    "Request Latency": "latency_s",
    "Time to First Token": "ttft_s",
    "Time per Output Token": "tpot_s",
    "Inter Token Latency": "itl_s",
}
CSV_UNITS = {"Sec": 1.0, "ms": 1e-3}
CSV_STATS = {"Mean": "mean", "Median": "median", "Std Dev": "std"}
CSV_LIST = ("min", "p0.1", "p1", "p5", "p10", "p25", "p75", "p90", "p95", "p99", "max")
"""What the list in a Percentiles cell holds."""


def sniff(head: Head) -> bool:
    """Benchmarks in JSON, or the groups of the CSV's first row."""
    return "benchmarks" in head.keys or head.header[:1] == ["Run Info"]


def read(path: Path) -> Measured:
    """Points by load; of JSON also the requests that it kept."""
    if head_of(path).header[:1] == ["Run Info"]:
        points = list(_of_csv(path))
        return aggregates.measured(path.name, NAME, len({p["run"] for p in points}), points)
    data, text = load_json(path)
    root = Record(data if isinstance(data, dict) else {}, path.name, text=text)
    benchmarks = root.records("benchmarks")
    points = [p for i, each in enumerate(benchmarks) for p in _of_json(each, i)]
    requests = [r for i, each in enumerate(benchmarks) for r in _requests(each, i)]
    more: dict[str, Any] = {"requests": table(REQUESTS, requests)}
    if requests:
        more["cannot"] = [aggregates.PER_REQUEST]
    return aggregates.measured(path.name, NAME, len(requests) or len(benchmarks), points, **more)


def _of_json(each: Record, i: int) -> Iterator[dict[str, Any]]:
    settings = [each.data.get(name) for name in ("config", "args", "scheduler")]
    found = [aggregates.loads(s) for s in settings if isinstance(s, dict)]
    concurrency = next((c for c, _ in found if c is not None), None)
    rate = next((r for _, r in found if r is not None), None)
    base = {"run": str(i), "concurrency": concurrency, "rate_per_s": rate}
    metrics = each.sub("metrics")
    for name, (metric, factor) in METRICS.items():
        if not metrics.has(name) or not metrics.sub(name).has("successful"):
            continue
        of = metrics.sub(name).sub("successful")
        stats = {stat: of.number(key, factor) for key, stat in STATS.items() if of.has(key)}
        if of.has("percentiles"):
            p = of.sub("percentiles")
            stats |= {s: p.number(key, factor) for key, s in PERCENTILES.items() if p.has(key)}
        yield from aggregates.points(base, metric, stats)


def _requests(each: Record, i: int) -> Iterator[dict[str, Any]]:
    if not each.has("requests"):
        return
    groups = each.sub("requests")
    rows = [
        (name, record)
        for name in ("successful", "incomplete", "errored")
        if groups.has(name)
        for record in groups.records(name)
    ]
    starts = [_start(record) for _, record in rows]
    begin = min((t for t in starts if not math.isnan(t)), default=0.0)
    for (name, record), start in zip(rows, starts, strict=True):
        info = record.sub("info") if record.has("info") else record
        audio = NAN
        if record.has("output_metrics"):
            audio = record.sub("output_metrics").number("audio_seconds", default=NAN)
        yield {
            "run": str(i),
            "request": record.text_of("request_id", default=""),
            "session": info.data.get("conversation_id"),
            "arrival_s": start - begin,
            "ttft_s": record.number("time_to_first_token_ms", 1e-3, default=NAN),
            "latency_s": record.number("request_latency", default=NAN),
            "audio_s": audio,
            "prompt_tokens": record.number("prompt_tokens", default=NAN),
            "tokens": record.number("output_tokens", default=NAN),
            "ok": name == "successful",
            "cancelled": name == "incomplete",
        }


def _start(record: Record) -> float:
    if record.has("info") and record.sub("info").has("timings"):
        return record.sub("info").sub("timings").number("request_start", default=NAN)
    return NAN


def _of_csv(path: Path) -> Iterator[dict[str, Any]]:
    rows = list(csv_rows(path))
    if len(rows) < 4:
        raise CalibrationError(path.name, None, "has three header rows and no benchmark")
    heads = [[cell.strip() for cell in row] for _, row in rows[:3]]
    for (line, _), head in zip(rows, heads, strict=False):
        if len(head) != len(heads[0]):
            what = f"header row has {len(head)} of {len(heads[0])} fields"
            raise CalibrationError(path.name, line, what)
    for i, (line, row) in enumerate(rows[3:]):
        if len(row) != len(heads[0]):
            what = f"row has {len(row)} of {len(heads[0])} fields"
            raise CalibrationError(path.name, line, what)
        for group, unit, last, cell in zip(*heads, row, strict=True):
            words = f"{unit} {last}".strip().split(maxsplit=2)
            if group not in GROUPS or words[:1] != ["Successful"] or not cell.strip():
                continue
            if len(words) < 2 or words[1] not in CSV_UNITS:
                found = f"{words[1]!r}" if len(words) > 1 else "none"
                raise CalibrationError(path.name, 2, f"{group}: unknown unit {found}")
            stats = _csv_stats(words[-1], cell, f"{path.name}", line, group)
            scaled = {stat: value * CSV_UNITS[words[1]] for stat, value in stats.items()}
            yield from aggregates.points({"run": str(i)}, GROUPS[group], scaled)


def _csv_stats(name: str, cell: str, file: str, line: int, group: str) -> dict[str, float]:
    """The numbers of a cell by statistic; a Percentiles cell holds a list."""
    texts = cell.strip(" []").split(",")
    stats = CSV_LIST if name == "Percentiles" else (CSV_STATS.get(name),)
    if None in stats:
        return {}
    try:
        values = [float(text) for text in texts]
    except ValueError:
        values = []
    if len(values) != len(stats) or not all(0 <= v < math.inf for v in values):
        what = f"{group}, {name}: found {cell!r}; must be {len(stats)} numbers >= 0"
        raise CalibrationError(file, line, what)
    return dict(zip(stats, values, strict=True))  # type: ignore[arg-type]
