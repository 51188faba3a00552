"""Quantities as people write them, turned into plain numbers.

Durations become seconds, rates become events per second, sizes bytes, money per hour; a bare
number is already in that unit.  A ``Distribution`` is a law over one such quantity.  Every type
here refuses what makes no sense (NaN, infinity, a negative time) in one plain sentence.
"""

from __future__ import annotations

import csv
import difflib
import functools
import math
import re
from array import array
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError
from pydantic_core.core_schema import ValidationInfo

from voicesim.catalogue import profiles
from voicesim.catalogue.profiles import SHIPPED, shipped_profile

from .errors import shown, unknown, wrong

SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
PER = {"s": 1.0, "min": 60.0, "h": 3600.0}
BYTES = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
BYTES |= {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
LONGEST = 10 * 365 * SECONDS["d"]
"""No duration is longer than ten years: beyond, it is a slip of the pen."""

BRIEF = 5.0
"""Seconds up to which a number without a unit is believed where delays are short."""

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_DURATION = rf"(?:{_NUMBER}\s*(?:us|ms|s|min|h|d)\s*)+"


def number(value: Any, form: str = "a number") -> float:
    """A finite float; text holding a number (``1e3``, which YAML reads as text) will do."""
    if isinstance(value, str) and re.fullmatch(_NUMBER, value.strip(), re.ASCII):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise wrong(f"expected {form}; found {shown(value)}")
    try:
        value = float(value)
    except OverflowError:
        value = math.inf
    if not math.isfinite(value):
        raise wrong(f"expected a finite number; found {shown(value)}")
    return value


def duration(value: Any) -> float:
    """Seconds of ``250ms``, ``4.3s``, ``40min``, ``1h``, ``1h30min`` or a bare number."""
    form = "a duration such as 250ms, 4.3s, 40min or 1h"
    if isinstance(value, str) and re.fullmatch(_DURATION, value.strip(), re.ASCII):
        parts = re.findall(rf"({_NUMBER})\s*(us|ms|s|min|h|d)", value)
        seconds = sum(number(count) * SECONDS[unit] for count, unit in parts)
        if any(count.startswith("-") for count, _ in parts):
            raise wrong(f"a duration cannot be negative; found {shown(value)}")
    else:
        seconds = number(value, form)
    if seconds < 0:
        raise wrong(f"a duration cannot be negative; found {shown(value)}")
    if seconds > LONGEST:
        raise wrong(f"a duration cannot be longer than ten years; found {shown(value)}")
    return seconds


def stated_duration(text: str) -> float:
    """``duration`` of a command's option, where only 0 may do without a unit: there is no file
    beside it that says which one is meant."""
    if re.fullmatch(_NUMBER, text.strip(), re.ASCII) and float(text) != 0.0:
        raise wrong(f"{text.strip()} needs a unit: ms, s, min or h")
    return duration(text)


def brief(value: Any) -> float:
    """``duration`` of what takes milliseconds or a few seconds at most: a bare number beyond
    BRIEF is no seconds but a slip of the pen (500 for 500ms); with a unit it stands."""
    seconds = duration(value)
    bare = not isinstance(value, str) or re.fullmatch(_NUMBER, value.strip(), re.ASCII)
    if bare and seconds > BRIEF:
        raise wrong(f"{seconds:g} without a unit is {seconds:g} seconds, which is long for this: "
                    f"write {seconds:g}ms, or {seconds:g}s if seconds are meant")  # fmt: skip
    return seconds


def _with_unit(seconds: float) -> float | str:
    """As ``brief`` reads it back."""
    return seconds if seconds <= BRIEF else f"{seconds!r}s"


def rate(value: Any) -> float:
    """Events per second of ``2.5/s``, ``45/min``, ``2/h`` or a bare number."""
    count, unit = _split(value, r"\s*/\s*(s|min|h)", "a rate such as 2.5/s, 45/min or 2/h")
    if not 0 <= count <= 1e9:
        raise wrong(f"a rate must lie between 0 and 1e9 a second; found {shown(value)}")
    return count / PER[unit or "s"]


def size(value: Any) -> int:
    """Bytes of ``80GB`` (powers of ten), ``10GiB`` (powers of two) or a bare number."""
    count, unit = _split(value, rf"\s*({'|'.join(BYTES)})", "a size such as 80GB or 10GiB")
    if not 0 < count <= 1e15:
        raise wrong(f"a size must be more than 0 and at most 1e15; found {shown(value)}")
    return round(count * BYTES[unit or "B"])


def money(value: Any) -> float:
    """Money per hour of ``2.65/h`` or a bare number."""
    count, _ = _split(value, r"\s*/\s*(h)", "money per hour such as 2.65/h")
    if not 0 <= count <= 1e9:
        raise wrong(f"a price must lie between 0 and 1e9 an hour; found {shown(value)}")
    return count


def _split(value: Any, unit: str, form: str) -> tuple[float, str | None]:
    if isinstance(value, str):
        match = re.fullmatch(rf"({_NUMBER}){unit}", value.strip(), re.ASCII)
        if match:
            return number(match[1]), match[2]
    return number(value, form), None


def whole(least: int, most: int = 2**31 - 1) -> Callable[[Any], int]:
    """Reader of whole numbers from ``least`` to ``most``."""

    def read(value: Any) -> int:
        count = value if type(value) is int else number(value, "a whole number")
        if count != math.floor(count):
            raise wrong(f"expected a whole number; found {shown(value)}")
        if not least <= count <= most:
            bound = f"of at least {least}" if count < least else f"of at most {most}"
            raise wrong(f"expected a whole number {bound}; found {shown(value)}")
        return int(count)

    return read


def above_zero(read: Callable[[Any], float]) -> Callable[[Any], float]:
    """The same reader, refusing zero as well."""

    def positive(value: Any) -> float:
        found = read(value)
        if found <= 0:
            raise wrong(f"must be more than 0; found {shown(value)}")
        return found

    return positive


def real(least: float, most: float = 1e12, above: float | None = None) -> Callable[[Any], float]:
    """Reader of plain numbers from ``least`` to ``most``, and strictly over ``above``."""

    def read(value: Any) -> float:
        found = number(value)
        if above is not None and found <= above:
            raise wrong(f"must be more than {above:g}; found {shown(value)}")
        if not least <= found <= most:
            raise wrong(f"must lie between {least:g} and {most:g}; found {shown(value)}")
        return found

    return read


def _schema(example: str, unit: str, text: str, above_zero: bool = False) -> WithJsonSchema:
    """text: pattern of a value with a unit.  ``unit``, a keyword of ours, says what a bare number
    is in."""
    bound = "exclusiveMinimum" if above_zero else "minimum"
    pattern = rf"^\s*(?:{_NUMBER}|{text})\s*$"
    return WithJsonSchema(
        {"type": ["number", "string"], bound: 0, "pattern": pattern, "examples": [example],
         "unit": unit}
    )  # fmt: skip


_TIME = "s; also us, ms, min, h, d"
_PER = "1/s; also /min, /h"
_RATE = rf"{_NUMBER}\s*/\s*(?:s|min|h)"
_SIZE = rf"{_NUMBER}\s*(?:{'|'.join(BYTES)})"
Duration = Annotated[float, BeforeValidator(duration), _schema("250ms", _TIME, _DURATION)]
PositiveDuration = Annotated[
    float, BeforeValidator(above_zero(duration)), _schema("40min", _TIME, _DURATION, True)
]
Brief = Annotated[
    float, BeforeValidator(brief), PlainSerializer(_with_unit),
    _schema("250ms", _TIME, _DURATION),
]  # fmt: skip
PositiveBrief = Annotated[
    float, BeforeValidator(above_zero(brief)), PlainSerializer(_with_unit),
    _schema("250ms", _TIME, _DURATION, True),
]  # fmt: skip
Rate = Annotated[float, BeforeValidator(rate), _schema("45/min", _PER, _RATE)]
PositiveRate = Annotated[
    float, BeforeValidator(above_zero(rate)), _schema("2.5/s", _PER, _RATE, True)
]
Size = Annotated[
    int, BeforeValidator(size), _schema("80GB", f"bytes; also {', '.join(BYTES)}", _SIZE, True)
]
Money = Annotated[
    float, BeforeValidator(money), _schema("2.65/h", "money per hour", rf"{_NUMBER}\s*/\s*h")
]
Count = Annotated[int, BeforeValidator(whole(1)), WithJsonSchema({"type": "integer", "minimum": 1})]
Natural = Annotated[
    int, BeforeValidator(whole(0)), WithJsonSchema({"type": "integer", "minimum": 0})
]


def _counted(least: int, most: int) -> tuple[BeforeValidator, WithJsonSchema]:
    schema = {"type": "integer", "minimum": least, "maximum": most}
    return BeforeValidator(whole(least, most)), WithJsonSchema(schema)


UpTo10K = Annotated[int, *_counted(1, 10_000)]
UpTo64Ki = Annotated[int, *_counted(1, 65_536)]
UpTo100K = Annotated[int, *_counted(1, 100_000)]
UpTo1M = Annotated[int, *_counted(1, 1_000_000)]
UpTo1Mi = Annotated[int, *_counted(1, 1_048_576)]
Attempts = Annotated[int, *_counted(0, 100)]
Seed = Annotated[
    int, BeforeValidator(whole(0, 2**63 - 1)), WithJsonSchema({"type": "integer", "minimum": 0})
]
Fraction = Annotated[
    float,
    BeforeValidator(real(0, 1, above=0)),
    WithJsonSchema({"type": "number", "exclusiveMinimum": 0, "maximum": 1}),
]
Share = Annotated[
    float,
    BeforeValidator(real(0, 1)),
    WithJsonSchema({"type": "number", "minimum": 0, "maximum": 1}),
]
Factor = Annotated[
    float, BeforeValidator(real(1)), WithJsonSchema({"type": "number", "minimum": 1})
]
OverOne = Annotated[
    float,
    BeforeValidator(real(1, above=1)),
    WithJsonSchema({"type": "number", "exclusiveMinimum": 1}),
]
Positive = Annotated[
    float,
    BeforeValidator(real(0, above=0)),
    WithJsonSchema({"type": "number", "exclusiveMinimum": 0}),
]


@dataclass(frozen=True)
class Distribution:
    """A law over one quantity.

    kind: constant or one of ``SHAPES``.
    params: its numbers in plain units, by the names of the file; ``value`` for a constant,
    ``values`` (a list of floats) for an empirical law, wherever it was read from; ``parts`` of a
    mixture: a list of (share, Distribution).
    """

    kind: str
    params: dict[str, Any]

    def mean(self) -> float:
        """The mean of the law."""
        p = self.params
        if self.kind == "constant":
            return p["value"]
        if self.kind == "uniform":
            return (p["low"] + p["high"]) / 2
        if self.kind == "empirical":
            return math.fsum(p["values"]) / len(p["values"])
        if self.kind == "lognormal" and "median" in p:
            return p["median"] * math.exp(p["sigma"] ** 2 / 2)
        if self.kind == "normal":
            z = p["mean"] / p["sd"]
            within = math.erfc(-z / math.sqrt(2)) / 2
            return p["mean"] + p["sd"] * math.exp(-z * z / 2) / math.sqrt(2 * math.pi) / within
        if self.kind == "mixture":
            return math.fsum(share * part.mean() for share, part in p["parts"])
        return p["mean"]

    def log_scale(self) -> tuple[float, float]:
        """(mu, sigma) of the logarithm, for a lognormal however it was written."""
        p = self.params
        if "median" in p:
            return math.log(p["median"]), p["sigma"]
        sigma = p["sigma"] if "sigma" in p else _sigma(p["mean"], p["p99"])
        return math.log(p["mean"]) - sigma**2 / 2, sigma

    def written(self) -> dict[str, Any]:
        """The law as a scenario file writes it."""
        if self.kind == "mixture":
            parts = [
                {"share": share, "law": part.written()} for share, part in self.params["parts"]
            ]
            return {"mixture": parts}
        return {self.kind: self.params["value"] if self.kind == "constant" else dict(self.params)}


def constant(value: float) -> Distribution:
    """The law that always gives ``value``."""
    return Distribution("constant", {"value": float(value)})


Z99 = 2.3263478740408408
"""The 99 % point of the standard normal law."""


def _sigma(mean: float, p99: float) -> float:
    """Sigma of the lognormal with this mean and 99 % point (the smaller root: the narrow law)."""
    return Z99 - math.sqrt(Z99**2 - 2 * math.log(p99 / mean))


SHAPES: dict[str, tuple[tuple[str, ...], ...]] = {
    "exponential": (("mean",),),
    "lognormal": (("mean", "p99"), ("median", "sigma"), ("mean", "sigma")),
    "geometric": (("mean",),),
    "poisson": (("mean",),),
    "negative_binomial": (("mean", "cv"),),
    "gamma": (("mean", "cv"),),
    "normal": (("mean", "sd"),),
    "uniform": (("low", "high"),),
    "empirical": (("values",), ("file", "column")),
    "mixture": (("share", "law"),),
}
"""The ways to write each law; a constant has no inner names."""
COUNTED = ("geometric", "poisson", "negative_binomial")
"""Laws of whole numbers from 1 on: for what is counted only."""
BARE = {"sigma": real(0, 10), "cv": real(0, 100, above=0)}
"""Parameters without a unit, and what they may be."""


def law(
    quantity: Callable[[Any], float], least: float = 0.0, whole_numbers: bool = False
) -> PlainValidator:
    """The reader of a Distribution whose numbers are read by ``quantity``.

    least: the smallest value that a constant, a bound or a listed value may have.
    whole_numbers: whether the quantity is counted; only then may the law be one of ``COUNTED``.
    """

    def bounded(value: Any) -> float:
        found = quantity(value)
        if found < least:
            raise wrong(f"must be at least {least:g}; found {shown(value)}")
        return found

    def read(value: Any, info: ValidationInfo) -> Distribution:
        if isinstance(value, Distribution):
            return value
        if not isinstance(value, Mapping):
            return constant(bounded(value))
        kinds = [each for each in ("constant", *SHAPES) if whole_numbers or each not in COUNTED]
        if len(value) != 1:
            raise wrong(
                f"a distribution has one key, one of {', '.join(kinds)}; found {len(value)}"
            )
        [(kind, inner)] = value.items()
        if kind not in kinds:
            raise wrong(((kind,), unknown(kind, kinds, "unknown distribution")))
        if kind == "constant":
            return _at(("constant",), lambda: constant(bounded(inner)))
        if kind == "mixture":
            return Distribution(kind, {"parts": _parts(inner, lambda part: read(part, info))})
        return Distribution(kind, _params(kind, inner, quantity, bounded, _base(info)))

    return PlainValidator(read)


WRITTEN = PlainSerializer(lambda found: found.written())
"""A Distribution goes out as the file writes it."""


def _law_schema() -> dict[str, Any]:
    """A number, or one law with its parameters; which unit they have depends on the quantity."""
    text = rf"^\s*(?:{_NUMBER}|{_DURATION})\s*$"
    quantity = {"type": ["number", "string"], "minimum": 0, "pattern": text}
    plain: dict[str, dict[str, Any]] = {
        **{name: {"type": "number", "minimum": 0} for name in BARE},
        **{name: {"type": "string"} for name in ("file", "column")},
        "values": {"type": "array", "items": quantity, "minItems": 1},
    }
    laws: dict[str, Any] = {"constant": quantity}
    for kind, ways in SHAPES.items():
        if kind == "mixture":
            continue
        written = [
            {
                "type": "object",
                "properties": {name: plain.get(name, quantity) for name in way},
                "required": list(way),
                "additionalProperties": False,
            }
            for way in ways
        ]
        laws[kind] = {"anyOf": written} if len(written) > 1 else written[0]
    part = {
        "type": "object",
        "properties": {"share": {"type": "number"}, "law": {"anyOf": [quantity, _one_of(laws)]}},
        "required": ["share", "law"],
        "additionalProperties": False,
    }
    law = _one_of({**laws, "mixture": {"type": "array", "items": part, "minItems": 1}})
    return {"anyOf": [quantity, law], "examples": [{"lognormal": {"mean": 4.3, "p99": 15}}]}


def _one_of(laws: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": laws,
        "additionalProperties": False,
        "minProperties": 1,
        "maxProperties": 1,
    }


LAW_SCHEMA = WithJsonSchema(_law_schema())


def _at(path: tuple[Any, ...], read: Callable[[], Any]) -> Any:
    """Run a reader, putting what it refuses under ``path``."""
    try:
        return read()
    except PydanticCustomError as error:
        found = (error.context or {})["found"]
        raise wrong(*((path + below, text) for below, text in found)) from None


def _params(
    kind: str,
    inner: Any,
    quantity: Callable[[Any], float],
    bounded: Callable[[Any], float],
    base: Path,
) -> dict[str, Any]:
    shapes = SHAPES[kind]
    if not isinstance(inner, Mapping):
        raise wrong(((kind,), f"expected {_ways(shapes)}; found {shown(inner)}"))
    names = list(dict.fromkeys(name for shape in shapes for name in shape))
    strange = [name for name in inner if name not in names]
    if strange:
        raise wrong(*(((kind, name), unknown(name, names)) for name in strange))
    if set(inner) not in [set(shape) for shape in shapes]:
        raise wrong(((kind,), f"expected {_ways(shapes)}; found {{{', '.join(inner)}}}"))
    if kind == "empirical":
        return {"values": _values(inner, bounded, base)}
    readers = {name: BARE.get(name, above_zero(quantity)) for name in inner}
    if kind == "uniform":
        readers = dict.fromkeys(inner, bounded)
    params: dict[str, Any] = {}
    bad: list[tuple[tuple[Any, ...], str]] = []
    for name, value in inner.items():
        try:
            params[name] = readers[name](value)
        except PydanticCustomError as error:
            found = (error.context or {})["found"]
            bad += [((kind, name, *below), text) for below, text in found]
    if bad:
        raise wrong(*bad)
    _sensible(kind, params)
    return params


def _parts(inner: Any, read: Callable[[Any], Distribution]) -> list[tuple[float, Distribution]]:
    """The parts of a mixture, their shares scaled to 1."""
    if not isinstance(inner, list) or not inner:
        raise wrong((("mixture",), f"expected a list of {{share, law}}; found {shown(inner)}"))
    found = []
    for i, part in enumerate(inner):
        here = ("mixture", i)
        if not isinstance(part, Mapping) or set(part) != {"share", "law"}:
            names = f"{{{', '.join(part)}}}" if isinstance(part, Mapping) else shown(part)
            raise wrong((here, f"expected {{share, law}}; found {names}"))
        share = _at((*here, "share"), functools.partial(real(0, 1, above=0), part["share"]))
        found.append((share, _at((*here, "law"), functools.partial(read, part["law"]))))
    total = math.fsum(share for share, _ in found)
    if abs(total - 1.0) > 1e-9:
        raise wrong((("mixture",), f"the shares must add up to 1; found {total:g}"))
    return found


def _ways(shapes: Iterable[tuple[str, ...]]) -> str:
    return " or ".join("{" + ", ".join(shape) + "}" for shape in shapes)


def _sensible(kind: str, params: Mapping[str, float]) -> None:
    """Refuse numbers that are fine one by one and impossible together."""
    if kind in COUNTED and params["mean"] < 1:
        raise wrong(((kind, "mean"), f"must be at least 1; found {params['mean']:g}"))
    if kind == "negative_binomial":
        least = math.sqrt(params["mean"] - 1) / params["mean"]
        if params["cv"] > least:
            return
        raise wrong(((kind, "cv"), f"must be more than {least:.3g}, that of 1 + Poisson"))
    if kind == "uniform" and params["high"] < params["low"]:
        raise wrong(((kind, "high"), f"is less than low ({params['low']:g})"))
    if kind == "lognormal" and "p99" in params:
        ratio, most = params["p99"] / params["mean"], math.exp(Z99**2 / 2)
        if not 1 < ratio < most:
            raise wrong(
                (
                    (kind, "p99"),
                    f"must be more than the mean and less than {most:.2f} times it "
                    f"(no lognormal is wider); found {ratio:.3g} times",
                )
            )


def _values(inner: Mapping[str, Any], bounded: Callable[[Any], float], base: Path) -> list[float]:
    if "values" in inner:
        path: tuple[Any, ...] = ("empirical", "values")
        if not isinstance(inner["values"], list) or not inner["values"]:
            raise wrong((path, f"expected a list of numbers; found {shown(inner['values'])}"))
        return [
            _at((*path, i), functools.partial(bounded, each))
            for i, each in enumerate(inner["values"])
        ]
    for name in ("file", "column"):
        if not isinstance(inner[name], str):
            raise wrong((("empirical", name), f"expected text; found {shown(inner[name])}"))
    found = _at(("empirical", "file"), lambda: find_file(inner["file"], base))
    where = ("empirical", "column")
    column = _at(where, lambda: columns(found, (inner["column"],))[inner["column"]])
    return [_at(where, functools.partial(bounded, each)) for each in column]


# Files that a scenario names.


def _base(info: ValidationInfo) -> Path:
    return (info.context or {}).get("base", Path())


def find_file(name: str, base: Path) -> Path:
    """The file a scenario names: beside the scenario, else in the working directory, else in the
    repository.  ``shipped:NAME`` is a profile that ships."""
    if name.startswith(SHIPPED):
        try:
            return shipped_profile(name)
        except KeyError as problem:
            raise wrong(str(problem.args[0])) from None
    tried = [base, Path(), Path(__file__).parents[2]]
    try:
        for folder in tried:
            if (folder / name).is_file():
                return folder / name
        folder_only = any((folder / name).is_dir() for folder in tried)
    except (OSError, ValueError):
        folder_only = False
    if folder_only:
        raise wrong(f"expected a file; {shown(name)} is a directory")
    asked = Path(name[:1000]).name.removesuffix(".yaml")
    ships = asked in profiles.names()
    near = f"; did you mean {SHIPPED + asked!r}?" if ships else near_file(name, tried)
    raise wrong(
        f"no such file: {shown(name)}{near} (looked beside the scenario, in the "
        "working directory and in the repository)"
    )


def near_file(name: str, folders: Iterable[Path]) -> str:
    """``; did you mean 'x'?`` for a file that is not there, from the files where it was sought.

    The names are compared without their endings, which make any two names alike.
    """
    near: dict[str, list[str]] = {}
    try:
        for place in [(folder / name).parent for folder in folders]:
            for each in place.iterdir() if place.is_dir() else ():
                if each.is_file():
                    near.setdefault(each.stem, []).append(each.name)
    except (OSError, ValueError):
        pass
    asked = Path(name[:1000])
    stems = difflib.get_close_matches(asked.stem, near, n=3, cutoff=0.7)
    files = [each for stem in stems for each in near[stem]]
    close = difflib.get_close_matches(asked.name, files, n=1, cutoff=0.0)
    return f"; did you mean {str(asked.parent / close[0])!r}?" if close else ""


def columns(
    path: Path, needed: tuple[str, ...], optional: tuple[str, ...] = ()
) -> dict[str, array[float]]:
    """Columns of a CSV file as finite, non-negative numbers.

    Where there are ``optional`` ones, a column that looks like one misspelt is refused; a cell of
    theirs may be the word unknown (NaN).
    """
    state = path.stat()
    return _columns(path, needed, optional, state.st_mtime_ns, state.st_size)


@functools.lru_cache(maxsize=32)
def _columns(
    path: Path, needed: tuple[str, ...], optional: tuple[str, ...], _when: int, _size: int
) -> dict[str, array[float]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.DictReader(file)
            header = [each for each in rows.fieldnames or [] if each]
            for name in needed:
                if name not in header:
                    raise wrong(unknown(name, header, f"{path.name} has no column {shown(name)}"))
            if optional:
                _misspelt(path.name, header, [*needed, *optional])
            found = {name: array("d") for name in (*needed, *optional) if name in header}
            for row in rows:
                for name, column in found.items():
                    where = f"{path.name}:{rows.line_num}: {name}"
                    known = row[name] != "unknown" or name in needed
                    column.append(_cell(row[name], where) if known else math.nan)
    except PydanticCustomError:
        raise
    except (OSError, ValueError, csv.Error) as error:
        raise wrong(f"{path.name} cannot be read as CSV: {error}") from None
    if not found[needed[0]]:
        raise wrong(f"{path.name} has no rows")
    return found


def _misspelt(file: str, header: list[str], names: list[str]) -> None:
    """Refuse a column that nobody reads and that comes near to one that is read and missing."""
    absent = [name for name in names if name not in header]
    for column in header:
        plain = column.strip().lower()[:100]
        close = difflib.get_close_matches(plain, absent, n=1, cutoff=0.8)
        if close and column not in names:
            text = f"{file}:1: unknown column {shown(column)}; did you mean {close[0]!r}?"
            raise wrong(text)


def _cell(text: str | None, where: str) -> float:
    try:
        value = float(text or "")
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise wrong(f"{where}: expected a number of at least 0; found {shown(text)}")
    return value
