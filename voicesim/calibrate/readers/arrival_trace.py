"""Per-token arrival trace (CSV of our own); see ``voicesim.calibrate.arrivals`` for the columns."""

from pathlib import Path

import numpy as np
import pandas as pd

from voicesim.calibrate.arrivals import REQUIRED, check_streams, samples_of
from voicesim.calibrate.readers.csv_file import header_of_file, parse_file
from voicesim.calibrate.readers.measured import Measured
from voicesim.calibrate.readers.source import Head
from voicesim.calibrate.table import require

NAME = "arrival trace (CSV)"
OPTIONAL = ["concurrency", "token_budget"]


def sniff(head: Head) -> bool:
    """A CSV with any of the three columns that make a token."""
    return bool({"t_arrival_s", "token_index", "stream_id"} & set(head.header))


def read(path: Path) -> Measured:
    """Step samples of a trace: its steps are found from the arrivals."""
    file, table = path.name, tokens_of(path)
    return Measured(
        file,
        NAME,
        len(table),
        tells=["step time by batch, context and prompt", "step noise and the spread of runs"],
        cannot=["the codec: tokens are not audio"],
        samples=samples_of(table, file),
    )


def tokens_of(path: Path) -> pd.DataFrame:
    """Rows of a trace, checked, by run, stream and token."""
    require(header_of_file(path), REQUIRED, path.name)
    table = parse_file(path, [*REQUIRED[1:], *OPTIONAL], ["run_id"])
    run, _ = pd.factorize(table["run_id"], sort=True)
    order = np.lexsort((table["token_index"], table["stream_id"], run))
    if (np.diff(order) != 1).any():
        table = table.iloc[order]
    check_streams(table, path.name)
    return table
