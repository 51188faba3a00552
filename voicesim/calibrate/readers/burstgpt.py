"""BurstGPT: requests to ChatGPT and GPT-4 of a campus.

CSV: Timestamp (s from midnight of the first day), Session ID, Elapsed time (s), Model,
Request tokens, Response tokens, Total tokens, Log Type.  Response tokens of 0: the request failed.
Older files have no Session ID and no Elapsed time.
Source: https://github.com/HPMLL/BurstGPT
"""

from pathlib import Path
from typing import Any

import numpy as np

from voicesim.calibrate.readers import demand
from voicesim.calibrate.readers.columns import csv_blocks, in_order, whole_numbers
from voicesim.calibrate.readers.measured import Measured
from voicesim.calibrate.readers.source import Head

NAME = "BurstGPT trace (CSV)"
COUNTS = ["Request tokens", "Response tokens"]


def sniff(head: Head) -> bool:
    """A CSV with BurstGPT's columns."""
    return len({"Timestamp", *COUNTS} & set(head.header)) >= 2 and "Type" not in head.header


def read(path: Path) -> Measured:
    """Requests; latency_s is Elapsed time; a session is that of Session ID where there is one."""
    parts: list[demand.Part] = []
    last, named = -np.inf, False
    for table in csv_blocks(path, ["Timestamp", *COUNTS], optional=["Elapsed time"]):
        whole_numbers(table, COUNTS, path.name)
        last = in_order(table, "Timestamp", path.name, last)
        part: dict[str, Any] = {
            "arrival_s": table["Timestamp"],
            "latency_s": table["Elapsed time"],
            "prompt_tokens": table["Request tokens"],
            "tokens": table["Response tokens"],
            "ok": table["Response tokens"] > 0,
            "line": table["line"],
        }
        if "Session ID" in table:
            named = True
            part["session"] = table["Session ID"]
        parts.append(demand.arrays(part))
    cannot = [demand.TEXT_TOKENS, *([] if named else [demand.NO_SESSIONS])]
    return demand.measured(path, NAME, demand.joined(parts), cannot)
