"""Chunk CSV of our own: one row per audio chunk at the client, as ``voicesim measure`` writes it.

Columns: run_id, stream_id, chunk_index (from 0), t_arrival_s (since the run began), audio_s;
optional t_sent_s (when the request was sent), bytes, prompt_tokens, concurrency (requests in
flight); the last three may have empty cells.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from voicesim.calibrate.errors import CalibrationError
from voicesim.calibrate.readers.csv_file import header_of_file, parse_file
from voicesim.calibrate.readers.measured import CHUNKS, REQUESTS, Measured, table
from voicesim.calibrate.readers.source import Head
from voicesim.calibrate.table import require

NAME = "chunk CSV"
TEXT = ["run_id", "stream_id"]
NUMBERS = ["chunk_index", "t_arrival_s", "audio_s"]
OPTIONAL = ["t_sent_s", "bytes", "prompt_tokens", "concurrency"]


def sniff(head: Head) -> bool:
    """A CSV with a chunk's index or its audio."""
    names = set(head.header)
    return bool({"chunk_index", "audio_s"} & names) and bool({*TEXT, "t_arrival_s"} & names)


def read(path: Path) -> Measured:
    """Chunks as they stand, and their requests."""
    header, file = header_of_file(path), path.name
    require(header, [*TEXT, *NUMBERS], file)
    for name in header:
        if name not in TEXT + NUMBERS + OPTIONAL:
            allowed = ", ".join(TEXT + NUMBERS + OPTIONAL)
            raise CalibrationError(file, 1, f"unknown column {name!r}; allowed: {allowed}")
    rows = parse_file(path, [*NUMBERS, "t_sent_s"], TEXT, OPTIONAL[1:])
    rows = rows.sort_values([*TEXT, "chunk_index"], kind="stable", ignore_index=True)
    first = _check(rows, file)
    chunks = table(
        CHUNKS,
        {
            "run": rows["run_id"],
            "request": rows["stream_id"],
            "chunk": rows["chunk_index"],
            "t_s": rows["t_arrival_s"],
            "sent_s": rows.get("t_sent_s", np.nan),
            **{n: rows[n] for n in ("audio_s", *OPTIONAL[1:]) if n in rows},
        },
    )
    timed = "t_sent_s" in rows
    return Measured(
        file,
        NAME,
        len(rows),
        ["chunk timeline of every stream: cadence, underruns by any definition"]
        + ["time to first audio, prompts included"] * timed,
        [] if timed else ["the time to first audio: no t_sent_s"],
        requests=_requests(rows, first),
        chunks=chunks,
    )


def _check(rows: pd.DataFrame, file: str) -> np.ndarray:
    """Where each stream begins (bool); refuses chunks out of order and impossible times."""
    same = (rows["run_id"] == rows["run_id"].shift()) & (
        rows["stream_id"] == rows["stream_id"].shift()
    )
    first = ~same.to_numpy()
    index, t = rows["chunk_index"].to_numpy(), rows["t_arrival_s"].to_numpy()
    expected = np.where(first, 0.0, np.concatenate(([-1.0], index[:-1])) + 1)
    back = ~first & (np.diff(t, prepend=t[:1]) < 0)
    checks = [
        (index != expected, "chunk_index: repeated or missing in its stream"),
        (back, "t_arrival_s: before the chunk before it"),
    ]
    if "t_sent_s" in rows:
        sent = rows["t_sent_s"].to_numpy()
        other = ~first & (np.diff(sent, prepend=sent[:1]) != 0)
        checks.append((sent > t, "t_sent_s: after the chunk's arrival"))
        checks.append((other, "t_sent_s: another than that of its stream's first chunk"))
    for bad, message in checks:
        if bad.any():
            raise CalibrationError(file, int(rows["line"].to_numpy()[bad].min()), message)
    return first


def _requests(rows: pd.DataFrame, first: np.ndarray) -> pd.DataFrame | None:
    starts = np.flatnonzero(first)
    ends = np.append(starts[1:], len(rows)) - 1
    head, tail = rows.iloc[starts], rows["t_arrival_s"].to_numpy()[ends]
    columns = {
        "run": head["run_id"],
        "request": head["stream_id"],
        "audio_s": np.add.reduceat(rows["audio_s"].to_numpy(), starts),
        "line": head["line"],
    }
    if "prompt_tokens" in rows:
        columns["prompt_tokens"] = head["prompt_tokens"]
    if "t_sent_s" in rows:
        sent = head["t_sent_s"]
        columns |= {
            "arrival_s": sent,
            "ttfa_s": head["t_arrival_s"] - sent,
            "latency_s": tail - sent.to_numpy(),
        }
    return table(REQUESTS, pd.DataFrame(columns).reset_index(drop=True))
