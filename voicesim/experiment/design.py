"""Which settings a sweep plays: a grid, a Latin hypercube, or the rows of a CSV file."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from pathlib import Path

import numpy as np

from voicesim.experiment.metrics import ExperimentError
from voicesim.experiment.space import SettingError, Space
from voicesim.experiment.vary import Axis, axis_of, key_of, short

GRID, LHS, LISTED = "grid", "latin hypercube", "list"
MOST_SETTINGS = 10_000
STREAM = 0x1A717  # keeps the hypercube's draws apart from those of the callers of the same seed


@dataclass(frozen=True)
class Setting:
    """A text for each varied key (in full).

    source, word: for errors, where the setting was asked for and what a key is called there.
    """

    values: Mapping[str, str]
    source: str
    word: str = ""

    @property
    def name(self) -> str:
        """tts.replicas=4, policies.admission.streams=16"""
        return ", ".join(f"{short(k)}={v}" for k, v in self.values.items())

    def refused(self, problem: SettingError) -> ExperimentError:
        """The problem with its place."""
        word = self.word if problem.key in self.values else ""
        return ExperimentError(f"{self.source}: {word}{problem}")


@dataclass(frozen=True)
class Design:
    """The settings in order, all of the same keys; none twice."""

    kind: str
    keys: tuple[str, ...]
    settings: tuple[Setting, ...]


def design(
    space: Space, vary: Sequence[str], points: int | None, listed: Path | None, seed: int
) -> Design:
    """What was asked for.  Raises ExperimentError.

    vary: as ``vary.axis_of`` reads it.  points: of a Latin hypercube over it, None for the grid.
    listed: a CSV file in place of both.  seed: of the hypercube.
    """
    if listed is not None:
        if vary or points is not None:
            raise ExperimentError("--settings stands alone: leave --vary and --lhs out")
        return _listed(listed, space)
    axes = [axis_of(text) for text in vary]
    if not axes:
        raise ExperimentError("nothing is varied: give --vary KEY=LOW..HIGH or --settings FILE.csv")
    for axis, text in zip(axes, vary, strict=True):
        _sound(axis, text, [a.key for a in axes], space, points is not None)
    return grid(axes) if points is None else latin_hypercube(axes, points, seed)


def _sound(axis: Axis, text: str, keys: Sequence[str], space: Space, drawn: bool) -> None:
    """Refuse an axis that cannot be used."""
    if keys.count(axis.key) > 1:
        raise ExperimentError(f"--vary {axis.key}: given twice")
    if axis.low is not None and axis.high is not None and axis.high < axis.low:
        raise ExperimentError(f"--vary {text}: the range is empty: its end lies below its start")
    if axis.values is None and not drawn:
        raise ExperimentError(f"--vary {text}: a grid needs a step: KEY=LOW..HIGH:STEP")
    if axis.values is None and axis.low == axis.high:
        raise ExperimentError(f"--vary {text}: the range is empty: both ends are the same")
    try:
        space.known(axis.key, text.partition("=")[2].strip())
    except SettingError as problem:
        raise ExperimentError(f"--vary {text}: {problem}") from None


def grid(axes: Sequence[Axis]) -> Design:
    """Every combination; the last key changes fastest."""
    keys = tuple(axis.key for axis in axes)
    lists = [axis.values or () for axis in axes]
    if prod(map(len, lists)) > MOST_SETTINGS:
        raise ExperimentError(f"--vary: {prod(map(len, lists)):,} settings; {_at_most()}")
    return Design(GRID, keys, tuple(_asked(keys, each) for each in product(*lists)))


def latin_hypercube(axes: Sequence[Axis], points: int, seed: int) -> Design:
    """``points`` settings: each key cut into that many strata of equal share, one value from each,
    the strata of the keys matched at random (McKay, Beckman and Conover, Technometrics 1979).

    Values of a list or a stepped range are equal shares of it; settings that coincide are one.
    """
    if not 2 <= points <= MOST_SETTINGS:
        raise ExperimentError(f"--lhs {points}: from 2 to {MOST_SETTINGS:,} settings")
    keys = tuple(axis.key for axis in axes)
    rng = np.random.default_rng([STREAM, seed])
    columns = []
    for axis in axes:
        shares = (rng.permutation(points) + rng.random(points)) / points
        columns.append([axis.at(float(u)) for u in shares])
    rows = dict.fromkeys(zip(*columns, strict=True))
    return Design(LHS, keys, tuple(_asked(keys, each) for each in rows))


def _asked(keys: Sequence[str], texts: Sequence[str]) -> Setting:
    values = dict(zip(keys, texts, strict=True))
    return Setting(values, "--vary " + ", ".join(f"{k}={t}" for k, t in values.items()))


def _at_most() -> str:
    return f"at most {MOST_SETTINGS:,}"


# --- a file of settings -----------------------------------------------------------------------


def _listed(path: Path, space: Space) -> Design:
    """The rows of a CSV file whose header names keys."""
    rows = _rows(path)
    if not rows:
        raise ExperimentError(f"{path}: is empty; the first line names the keys")
    line, header = rows[0]
    keys = tuple(key_of(cell.strip()) for cell in header)
    for number, key in enumerate(keys, 1):
        where = f"{path}:{line}: column {number}"
        if not key:
            raise ExperimentError(f"{where}: has no name; the first line names the keys")
        if keys.index(key) < number - 1:
            raise ExperimentError(f"{where}: {key}: given twice")
        try:
            space.known(key)
        except SettingError as problem:
            raise ExperimentError(f"{where}: {problem}") from None
    if not 1 <= len(rows) - 1 <= MOST_SETTINGS:
        raise ExperimentError(f"{path}: {len(rows) - 1:,} settings below the header; 1 or more, "
                              + _at_most())  # fmt: skip
    seen: dict[tuple[str, ...], int] = {}
    for line, row in rows[1:]:
        texts = tuple(cell.strip() for cell in row)
        if len(texts) != len(keys):
            raise ExperimentError(f"{path}:{line}: {len(texts)} cells; the header has {len(keys)}")
        for key, text in zip(keys, texts, strict=True):
            if not text:
                raise ExperimentError(f"{path}:{line}: column {key}: is empty")
        if texts in seen:
            raise ExperimentError(f"{path}:{line}: the same setting as line {seen[texts]}")
        seen[texts] = line
    settings = (
        Setting(dict(zip(keys, texts, strict=True)), f"{path}:{line}", "column ")
        for texts, line in seen.items()
    )
    return Design(LISTED, keys, tuple(settings))


def _rows(path: Path) -> list[tuple[int, list[str]]]:
    """(line, cells) of each row that is not blank."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, strict=True)
            return [(reader.line_num, row) for row in reader if any(c.strip() for c in row)]
    except UnicodeDecodeError:
        raise ExperimentError(f"{path}: is not UTF-8 text") from None
    except csv.Error as problem:
        raise ExperimentError(f"{path}: cannot be read as CSV: {problem}") from None
    except (OSError, ValueError) as problem:
        words = getattr(problem, "strerror", None) or problem
        raise ExperimentError(f"{path}: cannot be read: {words}") from None
