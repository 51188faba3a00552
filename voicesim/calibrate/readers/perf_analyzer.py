"""perf_analyzer's profile_export.json, which GenAI-Perf keeps too: every response's arrival.

{"experiments": [{"experiment": {"mode": "concurrency"|"request_rate", "value"}, "requests":
[{"timestamp", "response_timestamps": [...]}]}]}, nanoseconds.
Source: https://github.com/triton-inference-server/perf_analyzer
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from voicesim.calibrate.errors import CalibrationError
from voicesim.calibrate.readers import aggregates
from voicesim.calibrate.readers.measured import CHUNKS, REQUESTS, Measured, table
from voicesim.calibrate.readers.record import NAN, Record
from voicesim.calibrate.readers.source import Head, load_json

NAME = "perf_analyzer profile_export.json"


def sniff(head: Head) -> bool:
    """A JSON object with experiments."""
    return "experiments" in head.keys


def read(path: Path) -> Measured:
    """Requests and their responses, times since the first request of each experiment."""
    data, text = load_json(path)
    root = Record(data if isinstance(data, dict) else {}, path.name, text=text)
    requests: list[dict[str, Any]] = []
    chunks: list[dict[str, Any]] = []
    for each in root.records("experiments"):
        for row, parts in _of_experiment(each):
            requests.append(row)
            chunks += parts
    if not requests:
        raise CalibrationError(path.name, None, "holds no request")
    return Measured(
        path.name,
        NAME,
        len(requests),
        tells=["first response, latency and gaps between responses, by load"],
        cannot=["audio: responses are not measured in seconds of sound", aggregates.PER_REQUEST],
        requests=table(REQUESTS, requests),
        chunks=table(CHUNKS, chunks),
    )


def _of_experiment(each: Record) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    load = each.sub("experiment")
    mode, level = load.text_of("mode"), load.number("value")
    run = f"{mode} {level:g}"
    found = each.records("requests")
    begin = min((_nanoseconds(r) for r in found), default=0)
    for i, record in enumerate(found):
        start = _nanoseconds(record)
        record.numbers("response_timestamps")  # checked; as floats they would lose digits
        times = [int(t) - start for t in record.items("response_timestamps")]
        if any(b < a for a, b in zip([0, *times], times, strict=False)):
            raise record.refuse("response_timestamps", "go back in time")
        sent = (start - begin) / 1e9
        row = {
            "run": run,
            "request": i,
            "arrival_s": sent,
            "ttft_s": times[0] / 1e9 if times else NAN,
            "latency_s": times[-1] / 1e9 if times else NAN,
            "ok": bool(times),
        }
        at = {"run": run, "request": i, "sent_s": sent}
        if mode == "concurrency":
            at["concurrency"] = level
        yield row, [{**at, "chunk": k, "t_s": sent + t / 1e9} for k, t in enumerate(times)]


def _nanoseconds(record: Record) -> int:
    record.whole("timestamp")
    return int(record.data["timestamp"])
