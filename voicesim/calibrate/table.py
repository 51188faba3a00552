"""Reading a CSV strictly: every refusal names the file and the line.

The good path is one vectorised read; only a bad file is searched row by row.
"""

import csv
import difflib
import gzip
import io
import zlib
from pathlib import Path

import numpy as np
import pandas as pd

from voicesim.calibrate.errors import CalibrationError


def read_text(path: Path) -> str:
    """Text of a .csv or .csv.gz file."""
    try:
        raw = path.read_bytes()
        raw = gzip.decompress(raw) if path.suffix == ".gz" else raw
        return raw.decode("utf-8-sig")
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise CalibrationError(str(path), None, f"cannot be read: {reason}") from error
    except UnicodeDecodeError as error:
        raise CalibrationError(str(path), None, "is not UTF-8 text") from error


def header_of(text: str, file: str) -> list[str]:
    """Column names of the first line."""
    if not text.strip():
        raise CalibrationError(file, None, "is empty")
    try:
        return [name.strip() for name in next(csv.reader(io.StringIO(text)))]
    except csv.Error as error:
        raise CalibrationError(file, 1, f"is not a CSV header: {error}") from error


def parse(text: str, file: str, numeric: list[str]) -> pd.DataFrame:
    """All rows as a table with a ``line`` column; the ``numeric`` columns as finite floats >= 0."""
    header = header_of(text, file)
    for name in header:
        if header.count(name) > 1:
            raise CalibrationError(file, 1, f"column {name!r} is there twice")
    lines = _check_shape(text, file, header)
    if not lines:
        raise CalibrationError(file, 1, "has a header but no rows")
    table = pd.read_csv(
        io.StringIO(text),
        skipinitialspace=True,
        skip_blank_lines=True,
        keep_default_na=False,
        na_values=[""],
    )
    table.columns = pd.Index(header)
    if len(table) != len(lines):
        raise CalibrationError(file, None, "has line breaks that are not those of a CSV")
    table["line"] = np.array(lines)
    for name in numeric:
        if name in table:
            table[name] = _numbers(table, name, file)
    return table


def require(header: list[str], names: list[str], file: str) -> None:
    """Refuse a missing column, with the nearest name that is there."""
    for name in names:
        if name not in header:
            near = difflib.get_close_matches(name, header, 1, 0.5)
            hint = f"; nearest is {near[0]!r}" if near else ""
            have = ", ".join(header)
            raise CalibrationError(file, 1, f"column {name!r} is missing{hint} (has: {have})")


def _check_shape(text: str, file: str, header: list[str]) -> list[int]:
    """Line numbers of the rows; refuses rows of the wrong width."""
    width = len(header)
    lines: list[int] = []
    bad: tuple[int, int] | None = None
    if '"' in text:
        reader = csv.reader(io.StringIO(text))
        next(reader)
        before = reader.line_num
        for row in reader:
            if row:
                lines.append(before + 1)
                if len(row) != width and bad is None:
                    bad = (before + 1, len(row))
            before = reader.line_num
    else:
        rows = text.splitlines()
        lines = [i for i, row in enumerate(rows, 1) if row.strip()][1:]
        widths = np.array([rows[i - 1].count(",") + 1 for i in lines])
        wrong = np.flatnonzero(widths != width)
        if len(wrong):
            bad = (lines[wrong[0]], int(widths[wrong[0]]))
    if bad is None:
        return lines
    line, found = bad
    message = f"row has {found} of {width} fields"
    if line == lines[-1] and found < width:
        message += "; the last row is truncated"
    elif found > width:
        message += " (a thousands comma in a number splits it in two)"
    raise CalibrationError(file, line, message)


def _numbers(table: pd.DataFrame, name: str, file: str) -> pd.Series:
    """A column as finite numbers >= 0, or the line of the first value that is not."""
    column = table[name]
    values = pd.to_numeric(column, errors="coerce").astype(float)
    bad = np.flatnonzero(~(np.isfinite(values.to_numpy()) & (values.to_numpy() >= 0)))
    if len(bad) == 0:
        return values
    at = int(bad[0])
    line, raw, value = int(table["line"].iloc[at]), column.iloc[at], values.iloc[at]
    if isinstance(raw, str) and "," in raw:
        what = f"{raw!r} has thousands commas; write plain numbers"
    elif value < 0 and np.isfinite(value):
        what = f"{raw} is negative"
    elif np.isinf(value):
        what = f"{raw} is not finite"
    elif isinstance(raw, str):
        what = f"{raw.strip()!r} is not a number"
    else:
        what = "the cell is empty"
    raise CalibrationError(file, line, f"{name}: {what}")
