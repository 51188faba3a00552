"""What the readers of request traces share: one row per request, when it came and how long it is.

Such a file tells who asks for what and when, and nothing of what serves it.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from voicesim.calibrate.errors import CalibrationError
from voicesim.calibrate.readers.measured import REQUESTS, Measured, table

NO_STEPS = "step times: a trace of requests says nothing of what served them"
TEXT_TOKENS = "speech: tokens are those of text (voicesim replay says how they become seconds)"

NO_SESSIONS = "sessions: no id, each request stands alone"


def measured(
    path: Path,
    name: str,
    parts: Iterable[dict[str, Any] | pd.DataFrame],
    cannot: Iterable[str] = (TEXT_TOKENS,),
    epoch_s: float = np.nan,
    tells: Iterable[str] = ("arrivals, and the prompt and reply length of each request",),
) -> Measured:
    """The requests of a trace from its parts, each a dict of columns.  Refuses an empty trace."""
    frames = [pd.DataFrame(part) for part in parts]
    rows = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()
    if rows.empty:
        raise CalibrationError(path.name, None, "holds no request")
    rows["run"] = path.name
    rows["request"] = np.arange(len(rows))
    return Measured(
        path.name,
        name,
        len(rows),
        tells=list(tells),
        cannot=[NO_STEPS, *cannot],
        epoch_s=epoch_s,
        requests=table(REQUESTS, rows),  # type: ignore[arg-type]
    )
