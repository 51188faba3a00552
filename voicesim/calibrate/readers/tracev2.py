"""inference-sim's TraceV2: the CSV of a pair of files (a YAML header lies beside it).

Columns by name, microseconds: arrival_time_us, send_time_us, first_chunk_time_us,
last_chunk_time_us; input_tokens, output_tokens; session_id and round_index; status (ok, ...).
Times of 0 are not known; later versions put more columns in between.
Source: https://github.com/inference-sim/inference-sim
"""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from voicesim.calibrate.readers import demand
from voicesim.calibrate.readers.columns import csv_blocks, whole_numbers
from voicesim.calibrate.readers.measured import Measured
from voicesim.calibrate.readers.source import Head

NAME = "inference-sim TraceV2 (CSV)"
NUMBERS = ["arrival_time_us", "input_tokens", "output_tokens"]
TIMES = ["send_time_us", "first_chunk_time_us", "last_chunk_time_us"]


def sniff(head: Head) -> bool:
    """A CSV with arrival_time_us and token counts."""
    return len({*NUMBERS, *TIMES} & set(head.header)) >= 3


def read(path: Path) -> Measured:
    """Requests, in the order of their arrival; arrival_s as the trace has it."""
    parts: list[demand.Part] = []
    for table in csv_blocks(path, NUMBERS, optional=TIMES):
        whole_numbers(table, NUMBERS[1:], path.name)
        sent = table["send_time_us"].where(table["send_time_us"] > 0, table["arrival_time_us"])
        first, last = (table[name].where(table[name] > 0) for name in TIMES[1:])
        part: dict[str, Any] = {
            "arrival_s": table["arrival_time_us"] / 1e6,
            "ttft_s": ((first - sent) / 1e6).where(first >= sent),
            "latency_s": ((last - sent) / 1e6).where(last >= sent),
            "prompt_tokens": table["input_tokens"],
            "tokens": table["output_tokens"],
            "line": table["line"],
        }
        if "status" in table:
            part["ok"] = table["status"].fillna("ok").astype(str).isin(["ok", ""])
        if "session_id" in table:
            part["session"] = _sessions(table)
        parts.append(demand.arrays(part))
    rows = demand.joined(parts)
    order = np.argsort(rows["arrival_s"], kind="stable")
    named = any(not str(each).startswith("line ") for each in rows.get("session", ()))
    cannot = [demand.TEXT_TOKENS, *([] if named else [demand.NO_SESSIONS])]
    in_order = {name: column[order] for name, column in rows.items()}
    return demand.measured(path, NAME, in_order, cannot)


def _sessions(table: pd.DataFrame) -> pd.Series:
    """Session ids as text; a request without one is a session by its line."""
    own = "line " + table["line"].astype(str)
    return table["session_id"].astype(object).where(table["session_id"].notna(), own).astype(str)
