"""A run of nari-labs tts-bench: its folder, or ``requests.jsonl`` in it.

Open-loop arrivals; integer nanoseconds since the run began.  ``events.jsonl`` holds every chunk,
``run.json`` the requested rate; both are used where they are there.  The player pauses at an
underrun, so the largest stall is by definition B and the total by definition D.  Warm-up requests
are left out of the tables but count as load.

Source: https://github.com/nari-labs/benchmarks (tts_bench/src/tts_bench/models.py, runtime.py)
"""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from voicesim.calibrate.errors import CalibrationError
from voicesim.calibrate.readers.measured import CHUNKS, CURVE, REQUESTS, Measured, table
from voicesim.calibrate.readers.record import NAN, Record, documents
from voicesim.calibrate.readers.source import Head, head_of
from voicesim.calibrate.readers.stats import stat_rows

NAME = "nari tts-bench run (folder or requests.jsonl)"
NS = 1e-9
THRESHOLD_S = 0.1


def sniff(head: Head) -> bool:
    """A requests.jsonl by its keys, or a folder with one."""
    if "requests.jsonl" in head.names:
        return sniff(head_of(head.path / "requests.jsonl"))
    return {"scheduled_elapsed_ns", "first_body_elapsed_ns", "playback"} <= head.keys


def read(path: Path) -> Measured:
    """Requests, their chunks if events.jsonl is there, and the curve's point of this rate."""
    file = path / "requests.jsonl" if path.is_dir() else path
    rows: list[dict[str, Any]] = []
    flights: list[tuple[float, float]] = []
    stalls: list[tuple[float, float]] = []
    warm = 0
    for record in documents(file):
        row, stall = _request(record)
        if not np.isnan(row["arrival_s"]):
            flights.append((row["arrival_s"], record.number("completed_elapsed_ns", NS)))
        if record.text_of("phase") != "measurement":
            warm += 1
            continue
        rows.append(row)
        stalls.append(stall if row["ok"] else (NAN, NAN))
    requests = table(REQUESTS, rows)
    if requests is None:
        raise CalibrationError(file.name, None, "holds no request of the phase 'measurement'")
    rate = _requested_rate(file.parent)
    if np.isnan(rate):
        span = np.ptp(requests["arrival_s"].dropna())
        rate = (len(requests) - 1) / span if span > 0 else NAN
    events = file.parent / "events.jsonl"
    chunks = _chunks(events, requests, flights) if events.is_file() else None
    run = str(requests["run"].iloc[0])
    at = f" at {rate:.3g} requests/s" if rate > 0 else ""
    return Measured(
        path.name,
        "nari tts-bench run",
        len(requests),
        [
            f"time to first audio and latency{at}",
            "stalls of every request (the player pauses: largest B, total D)",
        ]
        + ["chunk timeline of every stream: cadence and the codec's share"] * (chunks is not None),
        [f"{warm} warm-up requests are left out"] * (warm > 0)
        + ["token counts: prompts are given in words"]
        + ["the chunk timeline: no events.jsonl beside it"] * (chunks is None),
        requests=requests,
        chunks=chunks,
        curve=table(CURVE, _curve(requests, stalls, flights, run, rate)),
    )


def _request(record: Record) -> tuple[dict[str, Any], tuple[float, float]]:
    """A row of requests, and its largest and total stall (s)."""
    play = record.sub("playback")
    sent = record.number("dispatch_elapsed_ns", NS, default=NAN)
    done = record.number("completed_elapsed_ns", NS)
    first = play.number("first_playable_elapsed_ns", NS, default=NAN)
    for key, time, at in (
        ("first_playable_elapsed_ns", first, play),
        ("completed_elapsed_ns", done, record),
    ):
        if time < sent:
            raise at.refuse(key, "is before dispatch_elapsed_ns")
    ok = record.flag("success") and record.flag("audio_success", default=True)
    row = {
        "run": record.text_of("run_id"),
        "request": record.text_of("request_id"),
        "arrival_s": sent,
        "ttfa_s": first - sent,
        "latency_s": done - sent,
        "audio_s": play.number("audio_duration_ns", NS),
        "ok": ok,
        "line": record.line,
    }
    total = sum(stall.number("stalled_ns", NS) for stall in play.records("underruns"))
    if abs(total - play.number("total_stalled_ns", NS)) > 1e-6:
        raise play.refuse("total_stalled_ns", f"the underruns add up to {total / NS:.0f}")
    return row, (play.number("largest_stall_ns", NS), total)


def _requested_rate(folder: Path) -> float:
    """Requests per second asked for, from run.json; NaN without it."""
    path = folder / "run.json"
    if not path.is_file():
        return NAN
    return next(documents(path)).number("requested_rps", default=NAN)


def _chunks(
    path: Path, requests: pd.DataFrame, flights: list[tuple[float, float]]
) -> pd.DataFrame | None:
    """Chunks with audio of the measured requests, in order of request and time."""
    sent = dict(zip(requests["request"], requests["arrival_s"], strict=True))
    names: list[str] = []
    numbers: list[tuple[float, float, float, float]] = []
    for record in documents(path):
        if record.text_of("type") != "response.body_chunk":
            continue
        name = record.text_of("request_id")
        data = record.sub("data")
        audio = data.number("media_duration_ns", NS)
        if name in sent and audio > 0:
            t = record.number("elapsed_ns", NS)
            if t < sent[name]:
                raise record.refuse("elapsed_ns", "is before its request was dispatched")
            names.append(name)
            numbers.append((t, audio, data.number("pcm_bytes"), sent[name]))
    if not names:
        return None
    t, audio, size, when = np.array(numbers).T
    began, ended = (np.sort(times) for times in np.array(flights).T)
    inside = np.searchsorted(began, t, "right") - np.searchsorted(ended, t, "left")
    found = pd.DataFrame(
        {"run": requests["run"].iloc[0], "request": names, "t_s": t, "audio_s": audio,
         "bytes": size, "sent_s": when, "concurrency": inside}
    )  # fmt: skip
    found = found.sort_values(["sent_s", "request", "t_s"], kind="stable", ignore_index=True)
    found["chunk"] = found.groupby("request").cumcount()
    return table(CHUNKS, found)


def _curve(
    requests: pd.DataFrame,
    stalls: list[tuple[float, float]],
    flights: list[tuple[float, float]],
    run: str,
    rate: float,
) -> list[dict[str, Any]]:
    load = {"run": run, "rate_per_s": rate}
    good = requests[requests["ok"]]
    rows: list[dict[str, Any]] = []
    for metric in ("ttfa_s", "latency_s", "audio_s"):
        rows += stat_rows(good[metric], metric, **load)
    rows += stat_rows(good["latency_s"] / good["audio_s"], "rtf_per_request", **load)
    largest, total = np.array(stalls).T
    rows += stat_rows(largest, "underrun_b_s", **load) + stat_rows(total, "underrun_d_s", **load)
    if len(good):
        share = float(np.mean(largest[~np.isnan(largest)] <= THRESHOLD_S))
        part = {"metric": "continuity", "stat": "share", "value": share}
        rows.append({**load, **part, "threshold_s": THRESHOLD_S, "definition": "b"})
    if flights:
        began, ended = (np.sort(times) for times in np.array(flights).T)
        peak = np.arange(1, len(began) + 1) - np.searchsorted(ended, began, "right")
        top = {"metric": "requests_running", "stat": "max", "value": float(peak.max())}
        rows.append({**load, **top})
    return rows
