"""Vidur's request trace: arrived_at (s), num_prefill_tokens, num_decode_tokens.

Source: https://github.com/microsoft/vidur
"""

from pathlib import Path

import numpy as np

from voicesim.calibrate.readers import demand
from voicesim.calibrate.readers.columns import csv_blocks, in_order, whole_numbers
from voicesim.calibrate.readers.measured import Measured
from voicesim.calibrate.readers.source import Head

NAME = "Vidur trace (CSV)"
COUNTS = ["num_prefill_tokens", "num_decode_tokens"]


def sniff(head: Head) -> bool:
    """A CSV with Vidur's columns."""
    return len({"arrived_at", *COUNTS} & set(head.header)) >= 2


def read(path: Path) -> Measured:
    """Requests."""
    parts: list[demand.Part] = []
    last = -np.inf
    for table in csv_blocks(path, ["arrived_at", *COUNTS]):
        whole_numbers(table, COUNTS, path.name)
        last = in_order(table, "arrived_at", path.name, last)
        parts.append(
            demand.arrays(
                {
                    "arrival_s": table["arrived_at"],
                    "prompt_tokens": table["num_prefill_tokens"],
                    "tokens": table["num_decode_tokens"],
                    "line": table["line"],
                }
            )
        )
    return demand.measured(
        path, NAME, demand.joined(parts), [demand.TEXT_TOKENS, demand.NO_SESSIONS]
    )
