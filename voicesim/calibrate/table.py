"""Reading a CSV strictly: every refusal names the file and the line.

The good path is one vectorised read of a block of lines; only a bad block is searched row by row.
A large file is read in many (``readers.csv_file``).
"""

import csv
import difflib
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from voicesim.calibrate.errors import CalibrationError


def header_of(text: str, file: str) -> list[str]:
    """Column names of the first line."""
    if not text.strip():
        raise CalibrationError(file, None, "is empty")
    try:
        return [name.strip() for name in next(csv.reader(io.StringIO(text)))]
    except csv.Error as error:
        raise CalibrationError(file, 1, f"is not a CSV header: {error}") from error


def parse(text: str, file: str, numeric: Sequence[str]) -> pd.DataFrame:
    """All rows of a text with a header, as ``parse_block`` gives them; at least one."""
    header = header_of(text, file)
    table = parse_block(1, text, header, file, numeric)
    if table.empty:
        raise CalibrationError(file, 1, "has a header but no rows")
    return table


def require(header: list[str], names: Sequence[str], file: str) -> None:
    """Refuse a missing column, with the nearest name that is there."""
    for name in names:
        if name not in header:
            near = difflib.get_close_matches(name, header, 1, 0.5)
            hint = f"; nearest is {near[0]!r}" if near else ""
            have = ", ".join(header)
            raise CalibrationError(file, 1, f"column {name!r} is missing{hint} (has: {have})")


def parse_block(
    first: int, block: str, header: list[str], file: str, numeric: Sequence[str],
    text: Sequence[str] = (), gaps: Sequence[str] = (), at_end: bool = True,
) -> pd.DataFrame:  # fmt: skip
    """Rows of whole lines with their ``line``; the first is line ``first`` (1: the header).

    numeric: columns of finite numbers >= 0, as floats.  gaps: the same, but an empty cell is NaN.
    text: columns as they stand.  at_end: is the block the end of the file?
    """
    for name in header:
        if header.count(name) > 1:
            raise CalibrationError(file, 1, f"column {name!r} is there twice")
    skip = first == 1
    lines = _check_shape(first, block, file, len(header), at_end)[skip:]

    def rows(dtype: dict[str, Any]) -> pd.DataFrame:
        return pd.read_csv(
            io.StringIO(block),
            names=header,
            skiprows=int(skip),
            skipinitialspace=True,
            skip_blank_lines=True,
            keep_default_na=False,
            na_values=[""],
            dtype=dtype,
        )

    types: dict[str, Any] = {name: str for name in text if name in header}
    wanted = [name for name in (*numeric, *gaps) if name in header]
    try:
        table = rows({**types, **dict.fromkeys(wanted, float)})
        values = table[wanted].to_numpy()
        bad = not bool((np.isfinite(values) & (values >= 0)).all())
    except ValueError:
        bad = True
    if bad:
        try:
            table = rows({**types, **dict.fromkeys(wanted, str)})
        except ValueError as error:
            raise CalibrationError(file, None, f"is not CSV: {error}") from error
    if len(table) != len(lines):
        raise CalibrationError(file, None, "has line breaks that are not those of a CSV")
    table["line"] = np.array(lines, dtype=np.int64)
    for name in wanted if bad else ():
        table[name] = _numbers(table, name, file, name in gaps)
    return table


def _check_shape(first: int, block: str, file: str, width: int, at_end: bool) -> np.ndarray:
    """Line numbers of the rows; refuses rows of the wrong width."""
    if '"' in block:
        lines, widths = _quoted_shape(first, block, file)
    else:
        lines, widths = _plain_shape(first, block)
    wrong = np.flatnonzero(widths != width)
    if not len(wrong):
        return lines
    line, found = int(lines[wrong[0]]), int(widths[wrong[0]])
    message = f"row has {found} of {width} fields"
    if at_end and wrong[0] == len(lines) - 1 and found < width:
        message += "; the last row is truncated"
    elif found > width:
        message += " (a thousands comma in a number splits it in two)"
    raise CalibrationError(file, line, message)


def _plain_shape(first: int, block: str) -> tuple[np.ndarray, np.ndarray]:
    """Line numbers and widths of the rows of a block without quotes."""
    raw = np.frombuffer(block.encode(), np.uint8)
    ends = np.flatnonzero(raw == ord("\n"))
    if not len(ends) or ends[-1] != len(raw) - 1:
        ends = np.append(ends, len(raw))
    commas = np.flatnonzero(raw == ord(","))
    widths = np.diff(np.searchsorted(commas, ends), prepend=0) + 1
    starts = np.concatenate(([0], ends[:-1] + 1))
    keep = np.ones(len(ends), bool)
    for i in np.flatnonzero(widths == 1):
        keep[i] = bool(raw[starts[i] : ends[i]].tobytes().strip())
    return first + np.flatnonzero(keep), widths[keep]


def _quoted_shape(first: int, block: str, file: str) -> tuple[np.ndarray, np.ndarray]:
    reader = csv.reader(io.StringIO(block), strict=True)
    lines, widths, before = [], [], 0
    try:
        for row in reader:
            if row:
                lines.append(first + before)
                widths.append(len(row))
            before = reader.line_num
    except csv.Error as error:
        raise CalibrationError(file, first + before, f"is not CSV: {error}") from error
    return np.array(lines, dtype=int), np.array(widths, dtype=int)


def numeric(column: pd.Series) -> pd.Series:
    """A column as floats: NaN where it holds no number, inf where one is too large for a float."""
    try:
        return pd.to_numeric(column, errors="coerce").astype(float)
    except OverflowError:  # a whole number of hundreds of digits
        return column.map(_float).astype(float)


def _float(cell: Any) -> float:
    try:
        return float(str(cell))
    except ValueError:
        return float("nan")


def _numbers(table: pd.DataFrame, name: str, file: str, gaps: bool) -> pd.Series:
    """A text column as finite numbers >= 0, or the line of the first value that is not.

    gaps: may cells be empty (NaN)?
    """
    column = table[name]
    values = numeric(column)
    fine = np.isfinite(values.to_numpy()) & (values.to_numpy() >= 0)
    bad = np.flatnonzero(~(fine | column.isna().to_numpy()) if gaps else ~fine)
    if len(bad) == 0:
        return values
    at = int(bad[0])
    line, raw, value = int(table["line"].iloc[at]), column.iloc[at], values.iloc[at]
    if not isinstance(raw, str):
        what = "the cell is empty"
    elif "," in raw:
        what = f"{raw!r} has thousands commas; write plain numbers"
    elif value < 0 and np.isfinite(value):
        what = f"{raw} is negative"
    elif np.isinf(value):
        what = f"{raw} is not finite"
    else:
        what = f"{raw.strip()!r} is not a number"
    raise CalibrationError(file, line, f"{name}: {what}")
