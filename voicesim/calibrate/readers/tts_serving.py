"""``records.jsonl`` of the schema tts-serving-record/2: one request with its chunks per line.

Seconds; chunk_arrival_s since the request was sent, t_submit_s on the client's clock.
``buffer_deficit_s`` is by definition A (the clock never pauses).  Warm-up requests are left out;
one-chunk replies are not measured for continuity.
"""

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from voicesim.calibrate.errors import CalibrationError
from voicesim.calibrate.readers.measured import CHUNKS, CURVE, REQUESTS, Measured, table
from voicesim.calibrate.readers.record import NAN, Record, documents
from voicesim.calibrate.readers.source import Head
from voicesim.calibrate.readers.stats import stat_rows

NAME = "tts-serving-record/2 (JSONL)"
SCHEMA = "tts-serving-record/"
LEVEL = re.compile(r"c(?:oncurrency)?[-_=]?(\d+)")


def sniff(head: Head) -> bool:
    """Lines with that schema."""
    return "schema_version" in head.keys and f'"{SCHEMA}' in head.text


def read(path: Path) -> Measured:
    """Requests, chunks and the curve of every point and repeat."""
    requests: list[dict[str, Any]] = []
    chunks: list[dict[str, Any]] = []
    scores: dict[tuple[str, float], list[tuple[float, ...]]] = {}
    start: dict[str, float] = {}
    warm = 0
    for record in documents(path):
        schema = record.text_of("schema_version")
        if schema != f"{SCHEMA}2":
            raise record.refuse("schema_version", f"found {schema!r}; {SCHEMA}2 is understood")
        if record.flag("warmup", default=False):
            warm += 1
            continue
        point = str(record.data.get("point", ""))
        run = f"{path.stem}/{point}/r{record.whole('repeat', default=0):g}"
        level = float(match[1]) if (match := LEVEL.fullmatch(point)) else NAN
        row, mine = _request(record, run, level)
        start[run] = min(start.get(run, np.inf), row["arrival_s"])
        requests.append(row)
        chunks += mine
        if row["ok"] and len(mine) > 1:
            score = (record.number("buffer_deficit_s"), *_verdicts(record))
            scores.setdefault((run, level), []).append(score)
    if not requests:
        raise CalibrationError(path.name, None, "holds no request after the warm-up")
    for row in requests:
        row["arrival_s"] -= start[row["run"]]
    for chunk in chunks:
        chunk["t_s"] -= start[chunk["run"]]
        chunk["sent_s"] -= start[chunk["run"]]
    return Measured(
        path.name,
        "tts-serving-record/2",
        len(requests),
        ["chunk timeline of every stream: cadence and the codec's share",
         "underruns (definition A: the clock never pauses)"],
        [f"{warm} warm-up requests are left out"] * (warm > 0) + ["token counts"],
        requests=table(REQUESTS, requests),
        chunks=table(CHUNKS, chunks),
        curve=table(CURVE, _curve(requests, scores)),
    )  # fmt: skip


def _request(record: Record, run: str, level: float) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A request and its chunks, on the client's clock."""
    sent = record.number("t_submit_s")
    name = record.text_of("request_id", default=str(record.line))
    times, audio = record.numbers("chunk_arrival_s"), record.numbers("chunk_audio_s")
    size = record.numbers("chunk_bytes")
    if not len(times) == len(audio) == len(size):
        message = f"holds {len(times)} values, chunk_audio_s {len(audio)}, chunk_bytes {len(size)}"
        raise record.refuse("chunk_arrival_s", message)
    if any(b < a for a, b in pairwise(times)):
        raise record.refuse("chunk_arrival_s", "goes back in time")
    row = {
        "run": run,
        "request": name,
        "arrival_s": sent,
        "ttfa_s": record.number("ttfa_s", default=NAN),
        "latency_s": record.number("wall_s"),
        "audio_s": record.number("audio_s"),
        "ok": record.flag("ok", default=True),
        "line": record.line,
    }
    chunks = [
        {"run": run, "request": name, "chunk": k, "t_s": sent + t, "audio_s": d, "bytes": b,
         "sent_s": sent, "concurrency": level}
        for k, (t, d, b) in enumerate(zip(times, audio, size, strict=True))
    ]  # fmt: skip
    return row, chunks


def _verdicts(record: Record) -> tuple[float, float, float]:
    """Continuity within 50, 100 and 200 ms, as 0 or 1."""
    by = record.sub("continuity_ok_by_threshold")
    return float(by.flag("0.05")), float(by.flag("0.1")), float(by.flag("0.2"))


def _curve(
    requests: list[dict[str, Any]], scores: dict[tuple[str, float], list[tuple[float, ...]]]
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for (run, level), score in scores.items():
        load = {"run": run, "concurrency": level}
        mine = [r for r in requests if r["run"] == run and r["ok"]]
        for metric in ("ttfa_s", "latency_s", "audio_s"):
            rows += stat_rows([r[metric] for r in mine], metric, **load)
        rtf = [r["latency_s"] / r["audio_s"] if r["audio_s"] else NAN for r in mine]
        rows += stat_rows(rtf, "rtf_per_request", **load)
        deficit, *verdicts = np.array(score).T
        rows += stat_rows(deficit, "underrun_a_s", **load)
        for threshold, good in zip((0.05, 0.1, 0.2), verdicts, strict=True):
            by = {"metric": "continuity", "stat": "share", "threshold_s": threshold}
            rows.append({**load, **by, "value": float(good.mean()), "definition": "a"})
    return rows
