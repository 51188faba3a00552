"""A large CSV, block by block: as strict as a small one, in memory that does not grow with it."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from voicesim.calibrate.errors import CalibrationError
from voicesim.calibrate.readers.source import text_blocks
from voicesim.calibrate.table import header_of, numeric, parse, require


def csv_blocks(
    path: Path, numbers: Sequence[str], optional: Sequence[str] = (), needed: Sequence[str] = ()
) -> Iterator[pd.DataFrame]:
    """Tables of a CSV with a header, each of a few megabytes of text, with a ``line`` column.

    numbers: columns that must be there, finite and >= 0 in every row.  optional: number columns
    that may be absent or have empty cells (NaN).  needed: other columns that must be there.
    Raises CalibrationError with file and line.
    """
    file, header, rows = path.name, "", 0
    for first, block in text_blocks(path):
        text, shift = f"{header}\n{block}", first - 2
        if not header:
            header, _, block = block.partition("\n")
            require(header_of(header, file), [*numbers, *needed], file)
            text, shift = f"{header}\n{block}", 0
        if not block.strip():
            continue
        try:
            table = parse(text, file, list(numbers))
        except CalibrationError as error:
            line = None if error.line is None else error.line + shift
            raise CalibrationError(file, line, error.message) from None
        rows += len(table)
        table["line"] += shift
        for name in optional:
            table[name] = numbers_or_nan(table, name, file)
        yield table
    if not rows:
        raise CalibrationError(file, 1, "has a header but no rows")


def numbers_or_nan(table: pd.DataFrame, name: str, file: str) -> pd.Series:
    """A column as finite numbers >= 0; NaN where it is empty or absent."""
    if name not in table:
        return pd.Series(np.nan, table.index)
    raw = table[name]
    values = numeric(raw)
    bad = raw.notna() & ~(np.isfinite(values) & (values >= 0))
    if bad.any():
        what = f"found {str(raw[bad].iloc[0])!r}; must be a finite number >= 0, or empty"
        raise CalibrationError(file, int(table["line"][bad].iloc[0]), f"{name}: {what}")
    return values


def whole_numbers(table: pd.DataFrame, names: Sequence[str], file: str) -> None:
    """Refuse the first count that is not a whole number."""
    for name in names:
        bad = table[name] % 1 > 0
        if bad.any():
            line = int(table["line"][bad].iloc[0])
            what = f"found {table[name][bad].iloc[0]:g}; must be a whole number"
            raise CalibrationError(file, line, f"{name}: {what}")


def in_order(table: pd.DataFrame, name: str, file: str, before: float = -np.inf) -> float:
    """Refuse the first time that goes back; the last time.  before: the last of earlier rows."""
    times = table[name].to_numpy()
    back = np.flatnonzero(np.diff(times, prepend=before) < 0)
    if len(back):
        at = int(back[0])
        earlier = times[at - 1] if at else before
        line = int(table["line"].iloc[at])
        raise CalibrationError(
            file, line, f"{name}: goes back in time: {times[at]:g} after {earlier:g}; sort the file"
        )
    return float(times[-1])
