"""Arenas: sections of rows in one flat array, found by the offsets in an int header."""

from collections.abc import Mapping, Sequence

import numpy as np

Sections = Sequence[tuple[int, str, int]]
"""(header entry of the offset, name of the number of rows, columns of a row)"""
NONE: Mapping[str, int] = {}
BLOCK = 1 << 16


def resized(
    old: np.ndarray,
    offsets: np.ndarray | None,
    sections: Sections,
    header: int,
    rows: Mapping[str, int],
    before: Mapping[str, int] | None,
    gone: Mapping[str, int] = NONE,
) -> np.ndarray:
    """The arena with room for ``rows``, keeping what it held, and its offsets written anew.

    offsets: the int arena that has them, None: this one.  header: entries before the sections.
    before: rows that it had, None: it is new.  gone: rows that left from the front of a section:
    its offset lies as many rows before it, so that the others keep their numbers.
    """
    size = header + sum(rows[name] * width for _, name, width in sections)
    new = np.zeros(size, old.dtype)
    new[:header] = old[:header]
    offsets = new if offsets is None else offsets
    position = header
    for entry, name, width in sections:
        if before is not None:
            start = int(offsets[entry]) + gone.get(name, 0) * width
            length = before[name] * width
            copy(old[start : start + length], new[position : position + length])
        offsets[entry] = position - gone.get(name, 0) * width
        position += rows[name] * width
    return new


def copy(old: np.ndarray, new: np.ndarray) -> None:
    """Copy rows into fresh ones, leaving alone what is all zero: the memory of a large section is
    only taken when something is written there."""
    for k in range(0, len(old), BLOCK):
        if (block := old[k : k + BLOCK]).any():
            new[k : k + BLOCK] = block


def section(
    arenas: Sequence[tuple[np.ndarray, Sections]],
    offsets: np.ndarray,
    rows: Mapping[str, int],
    entry: int,
    gone: Mapping[str, int] = NONE,
) -> np.ndarray:
    """A section as a 2-D array (rows, columns), by its header entry; gone: see ``resized``.

    Raises KeyError.
    """
    for arena, sections in arenas:
        for e, name, width in sections:
            if e == entry:
                start, n = int(offsets[entry]) + gone.get(name, 0) * width, rows[name]
                return arena[start : start + n * width].reshape(n, width)
    raise KeyError(entry)
