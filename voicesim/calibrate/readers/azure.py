"""Azure LLM inference traces of 2023 and 2024, and the multimodal one of 2025 (with images).

CSV: TIMESTAMP,ContextTokens,GeneratedTokens[,NumImages].  2023 has naive times of seven fractional
digits (2023-11-16 18:15:46.6805900), 2024 times with a zone and sometimes no fraction
(2024-05-10 00:00:00.009930+00:00).  No session id.
Source: https://github.com/Azure/AzurePublicDataset
"""

from pathlib import Path

import numpy as np
import pandas as pd

from voicesim.calibrate.errors import CalibrationError
from voicesim.calibrate.readers import demand
from voicesim.calibrate.readers.columns import csv_blocks, in_order, whole_numbers
from voicesim.calibrate.readers.measured import Measured
from voicesim.calibrate.readers.source import Head

NAME = "Azure LLM trace (CSV)"
COUNTS = ["ContextTokens", "GeneratedTokens"]


def sniff(head: Head) -> bool:
    """A CSV with Azure's columns."""
    return len({"TIMESTAMP", *COUNTS} & set(head.header)) >= 2


def read(path: Path) -> Measured:
    """Requests; arrival_s since the first of them."""
    parts: list[demand.Part] = []
    begin, last = 0, -np.inf
    for table in csv_blocks(path, COUNTS, needed=["TIMESTAMP"]):
        whole_numbers(table, COUNTS, path.name)
        nanos = _nanoseconds(table, path.name)
        begin = begin if parts else int(nanos[0])
        table["TIMESTAMP"] = (nanos - begin) / 1e9
        last = in_order(table, "TIMESTAMP", path.name, last)
        parts.append(
            demand.arrays(
                {
                    "arrival_s": table["TIMESTAMP"],
                    "prompt_tokens": table["ContextTokens"],
                    "tokens": table["GeneratedTokens"],
                    "line": table["line"],
                }
            )
        )
    cannot = [demand.TEXT_TOKENS, demand.NO_SESSIONS]
    return demand.measured(path, NAME, demand.joined(parts), cannot, epoch_s=begin / 1e9)


def _nanoseconds(table: pd.DataFrame, file: str) -> np.ndarray:
    """int64 nanoseconds since 1970; a time without a zone is taken as UTC."""
    when = pd.to_datetime(table["TIMESTAMP"], format="ISO8601", utc=True, errors="coerce")
    bad = when.isna()
    if bad.any():
        found = table["TIMESTAMP"][bad].iloc[0]
        what = f"TIMESTAMP: found {found!r}; must be such as 2024-05-10 00:00:00.009930+00:00"
        raise CalibrationError(file, int(table["line"][bad].iloc[0]), what)
    return when.dt.tz_localize(None).to_numpy("datetime64[ns]").astype(np.int64)
