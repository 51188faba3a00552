"""What the readers of request traces share: one row per request, when it came and how long it is.

Such a file tells who asks for what and when, and nothing of what serves it.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from voicesim.calibrate.errors import CalibrationError
from voicesim.calibrate.readers.measured import REQUESTS, Measured, table

NO_STEPS = "step times: a trace of requests says nothing of what served them"
TEXT_TOKENS = "speech: tokens are those of text (voicesim replay says how they become seconds)"

NO_SESSIONS = "sessions: no id, each request stands alone"


Part = dict[str, np.ndarray]
"""Columns of some of the rows of a trace."""


def arrays(part: Mapping[str, Any]) -> Part:
    """Columns as bare arrays, so that what they were cut from can be forgotten."""
    return {name: np.array(column) for name, column in part.items()}


def joined(parts: Sequence[Part]) -> Part:
    """The rows of all parts."""
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def measured(
    path: Path,
    name: str,
    part: Part,
    cannot: Iterable[str],
    epoch_s: float = np.nan,
    tells: Iterable[str] = ("arrivals, and the prompt and reply length of each request",),
    rows_are: str = "rows",
) -> Measured:
    """The requests of a trace.  Refuses an empty one."""
    rows: dict[str, Any] = {**part, "run": path.name, "request": np.arange(len(part["arrival_s"]))}
    requests = table(REQUESTS, rows)
    if requests is None:
        raise CalibrationError(path.name, None, "holds no request")
    return Measured(
        path.name,
        name,
        len(requests),
        tells=list(tells),
        cannot=[NO_STEPS, *cannot],
        epoch_s=epoch_s,
        requests=requests,
        rows_are=rows_are,
    )
