"""One JSON object of a measurement, asked for its values strictly."""

import difflib
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from voicesim.calibrate.errors import CalibrationError
from voicesim.calibrate.readers.source import json_lines, kind, line_of, load_json, text_lines

NAN = float("nan")


class Record:
    """Values of one object by key; every refusal names the file, the line and the key.

    line: where the object stands, if it is one line.  text: of the document that it is a part of,
    by ``path`` (keys and indices), to find the key's own line.
    """

    def __init__(
        self,
        data: Mapping[str, Any],
        file: str,
        line: int = 1,
        text: str | None = None,
        path: tuple[str | int, ...] = (),
    ):
        self.data, self.file, self.line, self.text, self.path = data, file, line, text, path

    def refuse(self, key: str, message: str, *inside: int) -> CalibrationError:
        """The error to raise about a key, or an item of its list."""
        path = (*self.path, key, *inside)
        line = self.line if self.text is None else line_of(self.text, path)
        name = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in path).lstrip(".")
        return CalibrationError(self.file, line, f"{name}: {message}")

    def has(self, key: str) -> bool:
        """Is there a value that is not null?"""
        return self.data.get(key) is not None

    def number(self, key: str, scale: float = 1.0, low: float = 0.0, **default: float) -> float:
        """A finite number >= low, times scale.

        default=...: what a missing or null value is (without it, such a value is refused).
        """
        if not self.has(key):
            if "default" in default:
                return default["default"]
            raise self._missing(key)
        return self.checked(key, self.data[key], low) * scale

    def whole(self, key: str, low: int = 0, **default: float) -> float:
        """A whole number >= low."""
        value = self.number(key, low=low, **default)
        if value % 1 and not math.isnan(value):
            raise self.refuse(key, f"found {value:g}; must be a whole number")
        return value

    def numbers(self, key: str, scale: float = 1.0, low: float = 0.0) -> list[float]:
        """A list of finite numbers >= low, times scale."""
        return [self.checked(key, v, low, i) * scale for i, v in enumerate(self.items(key))]

    def items(self, key: str) -> list[Any]:
        """A list."""
        value = self._typed(key, list, "a list")
        return list(value)

    def text_of(self, key: str, **default: str) -> str:
        """A text."""
        if not self.has(key) and "default" in default:
            return default["default"]
        return str(self._typed(key, str, "text"))

    def flag(self, key: str, **default: bool) -> bool:
        """True or false."""
        if not self.has(key) and "default" in default:
            return default["default"]
        return bool(self._typed(key, bool, "true or false"))

    def sub(self, key: str) -> "Record":
        """An object inside."""
        data = self._typed(key, dict, "an object")
        return Record(data, self.file, self.line, self.text, (*self.path, key))

    def records(self, key: str) -> list["Record"]:
        """A list of objects inside."""
        out = []
        for i, item in enumerate(self.items(key)):
            if not isinstance(item, dict):
                raise self.refuse(key, f"must be an object; found {kind(item)}", i)
            out.append(Record(item, self.file, self.line, self.text, (*self.path, key, i)))
        return out

    def _typed(self, key: str, wanted: type, name: str) -> Any:
        if not self.has(key):
            raise self._missing(key)
        value = self.data[key]
        if not isinstance(value, wanted):
            raise self.refuse(key, f"must be {name}; found {kind(value)}")
        return value

    def _missing(self, key: str) -> CalibrationError:
        if key in self.data:
            return self.refuse(key, "is null")
        near = difflib.get_close_matches(key, self.data, 1, 0.6)
        hint = f"; nearest is {near[0]!r}" if near else ""
        return self.refuse(key, f"is missing{hint}")

    def checked(self, key: str, value: Any, low: float = 0.0, *inside: int) -> float:
        """A value of ``key`` (or an item of its list) as a finite number >= low."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            found = f"{value!r}" if isinstance(value, str) else kind(value)
            hint = " (thousands commas?)" if isinstance(value, str) and "," in value else ""
            raise self.refuse(key, f"must be a number; found {found}{hint}", *inside)
        if not math.isfinite(value):
            raise self.refuse(key, f"found {value}; must be finite", *inside)
        if value < low:
            raise self.refuse(key, f"found {value:g}; must be at least {low:g}", *inside)
        return float(value)


def documents(path: Path, infinity: bool = False) -> Iterator[Record]:
    """Objects of JSON lines (streamed), of one list of objects, or the one object of a file.

    infinity: is a bare Infinity allowed?
    """
    first = next(text_lines(path), (1, ""))[1]
    if first.startswith("{") and first.endswith("}"):
        for line, data in json_lines(path, infinity):
            yield Record(data, path.name, line)
        return
    found, text = load_json(path, infinity)
    for i, item in enumerate(found if isinstance(found, list) else [found]):
        if not isinstance(item, dict):
            raise CalibrationError(path.name, 1, f"must hold JSON objects; found {kind(item)}")
        yield Record(item, path.name, 1, text, (i,) if isinstance(found, list) else ())
