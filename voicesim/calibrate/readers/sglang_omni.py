"""sglang-omni TTS speed results: whole results, requests, summaries, sweeps and sweep folders.

A result is {summary, config, per_request}; a sweep writes one folder ``c<level>[_r<repeat>]`` per
run and ``concurrency_sweep.json`` with rows of ``per_repeat`` summaries.  All seconds; c50, c100
and c200 are percent, by definition B (the player pauses; largest gap), one-chunk replies left out.
A request's chunk k arrives at audio_ttfp_s plus the first k entries of inter_chunk_s.

Source: https://github.com/sgl-project/sglang-omni (benchmarks/metrics/performance.py,
playback_continuity.py)
"""

import re
from pathlib import Path
from typing import Any

from voicesim.calibrate.errors import CalibrationError
from voicesim.calibrate.readers.measured import CHUNKS, CURVE, REQUESTS, Measured, table
from voicesim.calibrate.readers.record import NAN, Record, documents
from voicesim.calibrate.readers.source import Head, head_of
from voicesim.calibrate.readers.stats import single, stat_rows, stats_after

NAME = "sglang-omni TTS speed results (JSON, JSONL or sweep folder)"
METRICS = {
    "latency_s": ("latency_s", 1.0),
    "audio_duration_s": ("audio_s", 1.0),
    "rtf": ("rtf_per_request", 1.0),
    "audio_ttfp_s": ("ttfa_s", 1.0),
    "text_ttft_s": ("ttft_s", 1.0),
    "inter_chunk_s": ("chunk_gap_s", 1.0),
    "max_playback_underrun_s": ("underrun_b_s", 1.0),
}
POINT = re.compile(r"c(\d+)(?:_r(\d+))?")


def sniff(head: Head) -> bool:
    """Any of the objects above, or a folder of a sweep."""
    if head.names:
        return any(POINT.fullmatch(n) for n in head.names) and bool(_files(head.path))
    keys = head.keys
    return (
        {"is_success", "latency_s"} <= keys
        or {"completed_requests", "failed_requests"} <= keys
        or ("per_request" in keys and '"is_success"' in head.text)
        or ("rows" in keys and "concurrencies" in keys)
    )


def read(path: Path) -> Measured:
    """Requests with their chunks where they are kept; the curve of every level."""
    found = _Found()
    if path.is_dir():
        for file, level in _files(path):
            found.file(file, f"{path.name}/{file.parent.name}", level)
    else:
        found.file(path, path.stem, NAN)
    requests, chunks = table(REQUESTS, found.requests), table(CHUNKS, found.chunks)
    curve = table(CURVE, found.curve)
    if curve is None and requests is None:
        raise CalibrationError(path.name, None, "holds no finished request")
    cannot = ["when requests were sent: each request has its own clock"]
    if chunks is None:
        cannot = ["decode and codec cost cannot be told apart: no chunk timeline"]
    return Measured(
        path.name,
        "sglang-omni TTS speed results",
        len(found.requests) or found.summaries,
        ["chunk timeline of every stream: cadence and the codec's share"] * (chunks is not None)
        + ["real-time factor, time to first audio and underruns (definition B: the player pauses)"],
        cannot,
        requests=requests,
        chunks=chunks,
        curve=curve,
    )


class _Found:
    """Rows gathered over objects and files."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.chunks: list[dict[str, Any]] = []
        self.curve: list[dict[str, Any]] = []
        self.summaries = 0

    def file(self, path: Path, run: str, level: float) -> None:
        """All objects of a file; loose requests make a curve of their own."""
        loose: list[Record] = []
        for record in documents(path):
            if record.has("rows"):
                self.sweep(record, run)
            elif record.has("per_request"):
                config = record.sub("config") if record.has("config") else Record({}, path.name)
                at = config.number("concurrency", low=1, default=level)
                for request in record.records("per_request"):
                    self.request(request, run, at)
                if record.has("summary"):
                    self.summary(record.sub("summary"), run, at)
            elif record.has("completed_requests"):
                self.summary(record, run, level)
            else:
                self.request(record, run, level)
                loose.append(record)
        good = [] if self.summaries else [r for r in loose if r.flag("is_success")]
        for key, (metric, _) in METRICS.items():
            if key != "inter_chunk_s":
                values = [r.number(key, default=NAN) for r in good]
                self.curve += stat_rows(values, metric, run=run, concurrency=level)

    def sweep(self, record: Record, run: str) -> None:
        """Rows by level: every repeat, or the row itself where there are none."""
        for row in record.records("rows"):
            level = row.number("concurrency", low=1)
            repeats = row.records("per_repeat") if row.has("per_repeat") else [row]
            for i, repeat in enumerate(repeats, 1):
                self.summary(repeat, f"{run}/c{level:g}_r{i}", level)

    def summary(self, record: Record, run: str, level: float) -> None:
        """Curve rows of one summary."""
        self.summaries += 1
        load = {"run": run, "concurrency": level}
        record.whole("completed_requests")
        self.curve += stats_after(record, METRICS, **load)
        self.curve += single(record, "throughput_qps", "throughput_requests", "mean", **load)
        self.curve += single(record, "completed_requests", "requests", "total", **load)
        self.curve += single(record, "audio_throughput_s_per_s", "throughput_audio", "mean", **load)
        for key, threshold in (("c50", 0.05), ("c100", 0.1), ("c200", 0.2)):
            if not record.has(key):
                continue
            share = record.number(key, 0.01)
            if share > 1:
                raise record.refuse(key, f"found {share * 100:g}; percent goes to 100")
            by = {"metric": "continuity", "stat": "share", "threshold_s": threshold}
            self.curve.append({**load, **by, "value": share, "definition": "b"})

    def request(self, record: Record, run: str, level: float) -> None:
        """One request and its chunks."""
        name = str(record.data.get("id") or record.data.get("request_id") or len(self.requests))
        ok = record.flag("is_success")
        ttfa = record.number("audio_ttfp_s", default=NAN)
        prompt = record.number("prompt_tokens", default=NAN)
        row = {
            "run": run,
            "request": name,
            "ttft_s": record.number("text_ttft_s", default=NAN),
            "ttfa_s": ttfa,
            "latency_s": record.number("latency_s"),
            "audio_s": record.number("audio_duration_s", default=NAN),
            "prompt_tokens": prompt,
            "tokens": record.number("completion_tokens", default=NAN),
            "ok": ok,
            "line": record.line,
        }
        self.requests.append(row)
        if not ok or not record.has("audio_ttfp_s") or not record.has("chunk_audio_duration_s"):
            return
        audio = record.numbers("chunk_audio_duration_s")
        gaps = record.numbers("inter_chunk_s") if record.has("inter_chunk_s") else []
        if len(gaps) != len(audio) - 1:
            message = f"{len(gaps)} gaps for {len(audio)} chunks; must be one less"
            raise record.refuse("inter_chunk_s", message)
        t = ttfa
        for k, d in enumerate(audio):
            t += gaps[k - 1] if k else 0.0
            self.chunks.append(
                {"run": run, "request": name, "chunk": k, "t_s": t, "audio_s": d, "sent_s": 0.0,
                 "prompt_tokens": prompt, "concurrency": level}
            )  # fmt: skip


def _files(folder: Path) -> list[tuple[Path, float]]:
    """Results of a sweep's folders with their levels; else its sweep file."""
    out = []
    points = [(m, p) for p in folder.iterdir() if (m := POINT.fullmatch(p.name)) and p.is_dir()]
    for match, point in sorted(points, key=lambda mp: (int(mp[0][1]), int(mp[0][2] or 0))):
        for file in sorted(point.iterdir()):
            if file.suffix in (".json", ".jsonl") and _is_result(file):
                out.append((file, float(match[1])))
    if not out:
        names = ("concurrency_sweep.json", "sweep.json")
        out = [(folder / name, NAN) for name in names if (folder / name).is_file()][:1]
    return out


def _is_result(file: Path) -> bool:
    head = head_of(file)
    return {"is_success", "latency_s"} <= head.keys or "per_request" in head.keys
