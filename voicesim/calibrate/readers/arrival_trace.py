"""Per-token arrival trace (CSV of our own); see ``voicesim.calibrate.arrivals`` for the columns."""

from pathlib import Path

from voicesim.calibrate.arrivals import REQUIRED, check_streams, samples_of
from voicesim.calibrate.readers.measured import Measured
from voicesim.calibrate.readers.source import Head
from voicesim.calibrate.table import header_of, parse, read_text, require

NAME = "arrival trace (CSV)"
OPTIONAL = ["concurrency", "token_budget"]


def sniff(head: Head) -> bool:
    """A CSV with any of the three columns that make a token."""
    return bool({"t_arrival_s", "token_index", "stream_id"} & set(head.header))


def read(path: Path) -> Measured:
    """Step samples of a trace: its steps are found from the arrivals."""
    file, text = path.name, read_text(path)
    header = header_of(text, file)
    require(header, REQUIRED, file)
    table = parse(text, file, [*REQUIRED[1:], *(n for n in OPTIONAL if n in header)])
    table["run_id"] = table["run_id"].astype(str)
    table = table.sort_values(["run_id", "stream_id", "token_index"], kind="stable")
    check_streams(table, file)
    return Measured(
        file,
        NAME,
        len(table),
        tells=["step time by batch, context and prompt", "step noise and the spread of runs"],
        cannot=["the codec: tokens are not audio"],
        samples=samples_of(table, file),
    )
