"""Mooncake's request trace, and AIPerf's with several turns to a session.

JSON lines: timestamp (ms), input_length, output_length, hash_ids (prefix blocks, not used here);
with sessions also session_id and, for all but the first turn, delay (ms): the pause after the
reply before.
Sources: https://github.com/kvcache-ai/Mooncake, https://docs.nvidia.com/aiperf (trace replay)
"""

from pathlib import Path
from typing import Any

import numpy as np

from voicesim.calibrate.readers import demand
from voicesim.calibrate.readers.measured import Measured
from voicesim.calibrate.readers.record import Record
from voicesim.calibrate.readers.source import Head, json_lines, kind

NAME = "Mooncake or AIPerf trace (JSON lines)"
COLUMNS = ("arrival_s", "prompt_tokens", "tokens", "think_s", "line")


def sniff(head: Head) -> bool:
    """JSON lines with an input_length."""
    return "input_length" in head.keys and bool({"timestamp", "session_id"} & head.keys)


def read(path: Path) -> Measured:
    """Requests; a later turn without a timestamp has no arrival of its own (NaN)."""
    found: dict[str, list[float]] = {name: [] for name in COLUMNS}
    sessions: list[Any] = []
    latest: dict[Any, int] = {}  # session -> its latest turn so far
    times: dict[Any, float] = {}  # session -> its latest time (None: of requests without one)
    for line, data in json_lines(path):
        record = Record(data, path.name, line)
        session = data.get("session_id")
        if isinstance(session, dict | list):
            raise record.refuse("session_id", f"must be text or a number; found {kind(session)}")
        turn = latest.get(session) if session is not None else None
        nan = {} if turn is None else {"default": np.nan}
        at = record.number("timestamp", 1e-3, **nan)
        if at < (last := times.get(session, 0.0)):
            raise record.refuse("timestamp", f"goes back in time: {at:g} s after {last:g} s")
        times[session] = last if np.isnan(at) else at
        if record.has("delay") and turn is not None:
            found["think_s"][turn] = record.number("delay", 1e-3)
        if session is not None:
            latest[session] = len(sessions)
        sessions.append(session)
        found["arrival_s"].append(at)
        found["prompt_tokens"].append(record.whole("input_length"))
        found["tokens"].append(record.whole("output_length"))
        found["think_s"].append(np.nan)
        found["line"].append(line)
    part = demand.arrays(found)
    named = any(session is not None for session in sessions)
    if named:
        part["session"] = np.array(
            [
                f"line {line:g}" if session is None else str(session)
                for session, line in zip(sessions, found["line"], strict=True)
            ]
        )
    cannot = [demand.TEXT_TOKENS, *([] if named else [demand.NO_SESSIONS])]
    return demand.measured(path, NAME, part, cannot)
