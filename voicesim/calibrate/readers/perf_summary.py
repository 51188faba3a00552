"""Summaries of AIPerf and of GenAI-Perf: profile_export_aiperf and *_genai_perf, .json or .csv.

JSON: {<tag>: {unit, avg, p1..p99, min, max, std}, input_config, ...}.  CSV: blocks, the first with
``Metric,avg,min,...``, the next ``Metric,Value``; a label carries its unit in parentheses.
GenAI-Perf writes thousands commas ("1,234.56").
Sources: https://github.com/ai-dynamo/aiperf, https://github.com/triton-inference-server/perf_analyzer
"""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from voicesim.calibrate.errors import CalibrationError
from voicesim.calibrate.readers import aggregates
from voicesim.calibrate.readers.measured import Measured
from voicesim.calibrate.readers.record import Record
from voicesim.calibrate.readers.source import Head, csv_rows, head_of, load_json

NAME = "AIPerf or GenAI-Perf summary (JSON, CSV)"
METRICS = {
    "time_to_first_token": "ttft_s",
    "inter_token_latency": "tpot_s",
    "inter_chunk_latency": "itl_s",
    "request_latency": "latency_s",
    "output_token_throughput": "throughput_tokens",
    "request_throughput": "throughput_requests",
    "output_sequence_length": "tokens",
    "input_sequence_length": "prompt_tokens",
}
"""inter_token_latency is a request's mean over its tokens, so it is a time per output token."""
STATS = {"avg": "mean", "std": "std", "min": "min", "max": "max"}
PERCENTILE = re.compile(r"p\d+(\.\d+)?")
LABEL = re.compile(r"(.*?)\s*\(([^()]*)\)")
DEFAULT_UNITS = {"_s": "ms", "_tokens": "tokens/sec", "_requests": "requests/sec"}
"""GenAI-Perf's own units, for JSON files of it that leave them out."""


def sniff(head: Head) -> bool:
    """Two known tags, or the CSV's first line."""
    if head.header[:1] == ["Metric"]:
        return "avg" in head.header
    return len(METRICS.keys() & head.keys) >= 2


def read(path: Path) -> Measured:
    """Points at one load (that of input_config, where the file has it)."""
    if head_of(path).header[:1] == ["Metric"]:
        points = list(_of_csv(path))
    else:
        data, text = load_json(path)
        points = list(_of_json(Record(data, path.name, text=text)))
    return aggregates.measured(path.name, NAME, 1, points)


def _of_json(record: Record) -> Iterator[dict[str, Any]]:
    concurrency, rate = aggregates.loads(record.data.get("input_config"))
    base = {"run": record.file, "concurrency": concurrency, "rate_per_s": rate}
    for tag, metric in METRICS.items():
        if record.has(tag):
            each = record.sub(tag)
            ends = next((u for end, u in DEFAULT_UNITS.items() if metric.endswith(end)), "tokens")
            unit = each.text_of("unit", default=ends)
            factor = aggregates.scale(unit, partial(each.refuse, "unit"))
            stats = {
                s: each.number(n, factor) for n in each.data if (s := _stat(n)) and each.has(n)
            }
            yield from aggregates.points(base, metric, stats)


def _stat(name: str) -> str | None:
    return STATS.get(name) or (name if PERCENTILE.fullmatch(name) else None)


def _of_csv(path: Path) -> Iterator[dict[str, Any]]:
    header: list[str] = []
    for line, row in csv_rows(path):
        cells = [cell.strip() for cell in row]
        if cells[0] == "Metric":
            header = ["avg" if name == "Value" else name for name in cells]
            continue
        label = LABEL.fullmatch(cells[0])
        metric = METRICS.get(re.sub(r"\W+", "_", label[1].lower())) if label else None
        if label is None or metric is None:
            continue
        if len(cells) != len(header):
            what = f"{cells[0]}: row has {len(cells)} of {len(header)} fields"
            raise CalibrationError(path.name, line, what)
        factor = aggregates.scale(label[2], partial(_of_row, path.name, line, cells[0]))
        named = zip(header[1:], cells[1:], strict=True)
        stats = {
            stat: _cell(cell, path.name, line, f"{label[1]}, {name}") * factor
            for name, cell in named
            if (stat := _stat(name)) and cell not in ("", "N/A")
        }
        yield from aggregates.points({"run": path.name}, metric, stats)


def _of_row(file: str, line: int, label: str, words: str) -> CalibrationError:
    return CalibrationError(file, line, f"{label}: {words}")


def _cell(text: str, file: str, line: int, where: str) -> float:
    """A number, thousands commas taken out."""
    if not re.fullmatch(r"\d{1,3}(,\d{3})*(\.\d+)?|\d+(\.\d+)?([eE][-+]?\d+)?", text):
        raise CalibrationError(file, line, f"{where}: found {text!r}; must be a number >= 0")
    return float(text.replace(",", ""))
