"""Calls as a scenario plays them (``arrivals: {kind: trace}``), and as ``voicesim replay`` writes
them: t_s, session, audio_s, prompt_tokens, think_s, one row per utterance (docs/howto/replay.md).

Only t_s must be there; a cell of the others may be the word unknown.
"""

from pathlib import Path

import numpy as np

from voicesim.calibrate.errors import CalibrationError
from voicesim.calibrate.readers import demand
from voicesim.calibrate.readers.columns import csv_blocks, numbers_or_nan
from voicesim.calibrate.readers.measured import Measured
from voicesim.calibrate.readers.source import Head

NAME = "calls of voicesim (CSV)"
TOLD = ("session", "audio_s", "prompt_tokens", "think_s")
TELLS = ["who called when, what each utterance was, and the pauses, as far as its columns go"]


def sniff(head: Head) -> bool:
    """A CSV of start times, and of nothing that calls do not have."""
    return "t_s" in head.header and set(head.header) <= {"t_s", "tokens", *TOLD}


def read(path: Path) -> Measured:
    """Requests.  A time is that of the session's first row; the others follow their pauses.

    tokens are refused: they are decode steps, whose seconds only a profile knows.
    """
    parts: list[demand.Part] = []
    for table in csv_blocks(path, ["t_s"]):
        if "tokens" in table:
            text = "tokens are decode steps; a scenario plays them: arrivals: {kind: trace, file: "
            raise CalibrationError(path.name, 1, f"{text}{path.name}}}")
        rows = {"arrival_s": table["t_s"], "line": table["line"]}
        for name in TOLD:
            if name in table:
                table[name] = table[name].where(table[name] != "unknown", np.nan)
                rows[name] = numbers_or_nan(table, name, path.name)
        parts.append(demand.arrays(rows))
    found = demand.joined(parts)
    if "session" in found:
        number = found["session"]
        later = np.append(False, number[1:] == number[:-1])
        found["arrival_s"] = np.where(later, np.nan, found["arrival_s"])
        found["session"] = np.array([None if np.isnan(x) else str(x) for x in number], dtype=object)
    return demand.measured(path, NAME, found, [], tells=TELLS)
