"""Opening a measurement: the head by which it is recognised, its lines, its JSON.

Files may be gzipped, whatever their name.  Text is UTF-8; what is not is refused with its line.
"""

import codecs
import csv
import gzip
import io
import json
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any

from voicesim.calibrate.errors import CalibrationError

HEAD_BYTES = 1 << 16
LARGEST_JSON = 256 << 20
"""Bytes of the largest JSON document (or line) that is read whole; lines may be many."""
MOST_DIGITS = 40
_LONG = re.compile(rf"\d{{{MOST_DIGITS}}}")
_HALF = re.compile(r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
_LIMIT = f"{LARGEST_JSON >> 20} MiB"


@dataclass(frozen=True)
class Head:
    """The beginning of a file.  text: up to 64 KiB; names: what a folder holds (else empty)."""

    path: Path
    text: str
    names: frozenset[str] = frozenset()

    @cached_property
    def header(self) -> list[str]:
        """Column names, if the first line is a CSV header."""
        first = self.text.split("\n", 1)[0]
        try:
            return [name.strip() for name in next(csv.reader([first]))]
        except (csv.Error, StopIteration):
            return []

    @cached_property
    def keys(self) -> frozenset[str]:
        """Keys of the first JSON object (of the first object in a list), as far as seen."""
        return frozenset(_keys(self.text))


@contextmanager
def refusing(path: Path) -> Iterator[None]:
    """An unreadable file becomes a CalibrationError."""
    try:
        yield
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise CalibrationError(str(path), None, f"cannot be read: {reason}") from error


def open_bytes(path: Path) -> IO[bytes]:
    """The bytes of a plain or gzipped file."""
    file = path.open("rb")
    if file.peek(2)[:2] != b"\x1f\x8b":
        return file
    return gzip.GzipFile(fileobj=file)  # type: ignore[return-value]


def head_of(path: Path) -> Head:
    """The head of a file or folder; refuses what is missing, empty or not text."""
    with refusing(path):
        if path.is_dir():
            return Head(path, "", frozenset(p.name for p in path.iterdir()))
        if path.exists() and not path.is_file():  # is read more than once, and has an end
            raise CalibrationError(str(path), None, "is no file (a device or a pipe)")
        with open_bytes(path) as file:
            raw = file.read(HEAD_BYTES)
    text = decode(raw, path.name, 1, final=False)
    if not text.strip():
        raise CalibrationError(path.name, None, "is empty")
    return Head(path, text)


def decode(raw: bytes, file: str, line: int, final: bool = True) -> str:
    """Bytes that begin at ``line`` as text (a byte-order mark is dropped)."""
    try:
        return codecs.getincrementaldecoder("utf-8-sig")().decode(raw, final)
    except UnicodeDecodeError as error:
        at = line + raw.count(b"\n", 0, error.start)
        raise CalibrationError(file, at, "is not UTF-8 text") from error


def text_blocks(path: Path, size: int = 1 << 23) -> Iterator[tuple[int, str]]:
    """Blocks of whole lines: the number of the first, and the text (about ``size`` bytes).

    A block never ends inside a quoted CSV cell.
    """
    line, rest = 1, b""
    with refusing(path), open_bytes(path) as file:
        while raw := file.read(size):
            rest += raw
            cut = rest.rfind(b"\n") + 1
            while cut and rest.count(b'"', 0, cut) % 2:
                cut = rest.rfind(b"\n", 0, cut - 1) + 1
            if cut:
                block, rest = rest[:cut], rest[cut:]
                yield line, decode(block, path.name, line)
                line += block.count(b"\n")
    if rest:
        yield line, decode(rest, path.name, line)


def text_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Lines that are not blank, with their numbers."""
    number = 0
    with refusing(path), open_bytes(path) as file:
        while raw := file.readline(LARGEST_JSON + 1):
            number += 1
            if len(raw) > LARGEST_JSON:
                raise CalibrationError(path.name, number, f"line is longer than {_LIMIT}")
            if text := decode(raw, path.name, number).strip():
                yield number, text


def json_lines(path: Path, infinity: bool = False) -> Iterator[tuple[int, dict[str, Any]]]:
    """Objects of a file of JSON lines, with their line numbers.

    infinity: is a bare Infinity allowed (read as a float)?
    """
    for number, text in text_lines(path):
        yield number, loads(text, path.name, number, infinity)


def loads(text: str, file: str, line: int, infinity: bool = False) -> dict[str, Any]:
    """One JSON object on ``line``."""
    found = _parse(text, file, line, infinity)
    if not isinstance(found, dict):
        raise CalibrationError(file, line, f"must be a JSON object; found {kind(found)}")
    return found


def load_json(path: Path, infinity: bool = False) -> tuple[Any, str]:
    """A whole JSON document and its text (for ``line_of``); refuses more than 256 MiB."""
    with refusing(path), open_bytes(path) as file:
        raw = file.read(LARGEST_JSON + 1)
    if len(raw) > LARGEST_JSON:
        raise CalibrationError(path.name, None, f"is one JSON document of more than {_LIMIT}")
    text = decode(raw, path.name, 1)
    return _parse(text, path.name, 1, infinity), text


def line_of(text: str, path: Sequence[str | int]) -> int:
    """Line of a value in a valid JSON text, by the keys and indices that lead to it.

    A path that ends nowhere gives the line of the last object or list that is there.
    """
    decoder, at = json.JSONDecoder(), _after_space(text, 0)
    for step in path:
        if text[at] not in "{[":
            break
        inside = _after_space(text, at + 1)
        n = 0
        while text[inside] not in "}]":
            found: str | int = n
            if text[at] == "{":
                found, inside = decoder.raw_decode(text, inside)
                inside = _after_space(text, text.index(":", inside) + 1)
            if found == step:
                at = inside
                break
            inside = _after_space(text, decoder.raw_decode(text, inside)[1])
            inside = _after_space(text, inside + 1) if text[inside] == "," else inside
            n += 1
        else:
            break
    return 1 + text.count("\n", 0, at)


def _after_space(text: str, at: int) -> int:
    while text[at] in " \t\r\n":
        at += 1
    return at


def kind(value: Any) -> str:
    """What a JSON value is, for messages."""
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false"}
    return "null" if value is None else names.get(type(value), "a number")


def _parse(text: str, file: str, line: int, infinity: bool) -> Any:
    def constant(name: str) -> float:
        if infinity and name == "Infinity":
            return float("inf")
        at = line + text.count("\n", 0, text.find(name))
        raise CalibrationError(file, at, f"{name} is not a number that JSON has")

    def whole(number: str) -> int:
        if len(number) <= MOST_DIGITS:
            return int(number)
        at = line + text.count("\n", 0, text.find(number))
        what = f"a number of {len(number)} digits; at most {MOST_DIGITS} are read"
        raise CalibrationError(file, at, what)

    # asked for every number, so only where there is a long one
    strict: dict[str, Any] = {"parse_int": whole} if _LONG.search(text) else {}
    try:
        found = json.loads(text, parse_constant=constant, **strict)
        if half := _HALF.search(text):
            json.dumps(found, ensure_ascii=False).encode()  # a pair makes a character, a half not
        return found
    except UnicodeEncodeError as error:
        assert half is not None
        at = line + text.count("\n", 0, half.start())
        raise CalibrationError(file, at, f"{half.group()} is half a character") from error
    except json.JSONDecodeError as error:
        at = line + error.lineno - 1
        cut = not text[error.pos :].strip() or error.msg.startswith("Unterminated")
        what = "is truncated" if cut else f"is not JSON: {error.msg} (column {error.colno})"
        raise CalibrationError(file, at, what) from error
    except RecursionError as error:
        raise CalibrationError(file, line, "is not JSON that a benchmark writes") from error


def _keys(text: str) -> Iterator[str]:
    """Top-level keys, by depth; a list is entered once."""
    text = text.lstrip()
    wanted = 2 if text.startswith("[") else 1
    if not text.startswith(("{", "[")):
        return
    depth = 0
    for token in re.finditer(r'"((?:[^"\\]|\\.)*)"(\s*:)?|[][{}]', text):
        mark = token.group()
        if mark in "{[":
            depth += 1
        elif mark in "}]":
            depth -= 1
            if depth < wanted:
                return
        elif token.group(2) and depth == wanted:
            yield token.group(1)


def csv_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Rows of a small CSV with the line that each begins on; blank lines are skipped."""
    for first, block in text_blocks(path):
        reader = csv.reader(io.StringIO(block), strict=True)
        before = 0
        try:
            for row in reader:
                if row:
                    yield first + before, row
                before = reader.line_num
        except csv.Error as error:
            raise CalibrationError(path.name, first + before, f"is not CSV: {error}") from error
