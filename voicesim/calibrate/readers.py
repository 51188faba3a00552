"""Which reader a file needs, by its header."""

from pathlib import Path

import pandas as pd

from voicesim.calibrate.arrivals import read_arrivals
from voicesim.calibrate.errors import CalibrationError
from voicesim.calibrate.steps import read_steps
from voicesim.calibrate.table import header_of, read_text, require


def read_samples(path: str | Path) -> pd.DataFrame:
    """Sample table of a step CSV or an arrival trace (.csv or .csv.gz).

    A header with any of t_arrival_s, token_index, stream_id is an arrival trace; one with
    seconds or batch is a step CSV; anything else is refused.
    """
    path = Path(path)
    text = read_text(path)
    header = header_of(text, path.name)
    if {"t_arrival_s", "token_index", "stream_id"} & set(header):
        return read_arrivals(text, path.name)
    if {"seconds", "batch"} & set(header):
        return read_steps(text, path.name)
    require(header, ["batch", "seconds"], path.name)
    raise CalibrationError(path.name, 1, "is neither a step CSV nor an arrival trace")
