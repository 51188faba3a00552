"""A CSV file of any size, read block by block with the strictness of ``calibrate.table``."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from voicesim.calibrate.errors import CalibrationError
from voicesim.calibrate.readers.source import head_of, text_blocks
from voicesim.calibrate.table import header_of, parse_block


def header_of_file(path: Path) -> list[str]:
    """Column names of the first line."""
    return header_of(head_of(path).text, path.name)


def parse_file(
    path: Path, numeric: Sequence[str], text: Sequence[str] = (), gaps: Sequence[str] = ()
) -> pd.DataFrame:
    """All rows with a ``line`` column; at least one.

    numeric: columns of finite numbers >= 0, as floats.  gaps: the same, but an empty cell is NaN.
    text: columns as they stand.
    """
    header = header_of_file(path)
    parts: list[pd.DataFrame] = []
    last: tuple[int, str] | None = None
    for here in text_blocks(path):
        if last is not None:
            parts.append(parse_block(*last, header, path.name, numeric, text, gaps, at_end=False))
        last = here
    assert last is not None  # an empty file has no head
    parts.append(parse_block(*last, header, path.name, numeric, text, gaps))
    parts = [part for part in parts if len(part)]
    if not parts:
        raise CalibrationError(path.name, 1, "has a header but no rows")
    return pd.concat(parts, ignore_index=True)
