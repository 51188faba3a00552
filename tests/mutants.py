"""Valid files, broken at random: what an editor, a crash or an enemy might leave of them."""

import json
import re
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from tests.trust import note

NASTY = [
    "", "-1", "0", "1e400", "-1e308", "nan", "NaN", ".inf", "Infinity", "null", "~", "true", "{}",
    "[]", "[[]]", '""', '"x"', "x", "'", '"', "{", "}", "[", "]", ":", ",", ",,,", "- ", "? ",
    "!!python/object:os", "<<: ", "*a", "&a ", "\t", "\r\n", "\x00", "\ufeff", "\u2028", "é",
    "9" * 400, "1" * 5000, "0x1F", "12:30", "2024-01-01", "../" * 9 + "etc/passwd", "/dev/zero",
    "\\u0000", '"\\ud800"', "1_000", "1,5",
]  # fmt: skip
"""What takes the place of a word, or comes between two."""


def survived(what: str, cases: Iterable[Any], attempt: Callable[[Any], str]) -> None:
    """Try all cases; ``attempt`` says what came of one.  Fails with every kind of exception that
    there was, by the line that raised it, and a case of each."""
    outcomes: Counter[str] = Counter()
    broken: dict[str, str] = {}
    for case in cases:
        try:
            outcomes[attempt(case)] += 1
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            ours = [f for f in frames if "/voicesim/" in f.filename] or frames
            where = f"{type(error).__name__} at {ours[-1].filename}:{ours[-1].lineno}"
            broken.setdefault(where, f"{error}\n    {case!r}"[:2000])
            outcomes["broken"] += 1
    note("fuzz", what=what, **outcomes)
    assert not broken, "\n".join(f"{where}: {said}" for where, said in broken.items())


WORD = re.compile(rb"[A-Za-z0-9_.+-]+|\"[^\"\n]*\"")


def mutant(content: bytes, rng: np.random.Generator) -> bytes:
    """The content after one to four changes, mostly one."""
    for _ in range(min(int(rng.geometric(0.6)), 4)):
        content = CHANGES[int(rng.integers(len(CHANGES)))](content, rng)
    return content


def _slice(content: bytes, rng: np.random.Generator, most: int = 60) -> tuple[int, int]:
    a = int(rng.integers(len(content) + 1))
    return a, min(len(content), a + int(rng.integers(1, most)))


def _drop(content, rng):
    a, b = _slice(content, rng)
    return content[:a] + content[b:]


def _double(content, rng):
    a, b = _slice(content, rng)
    return content[:b] + content[a:]


def _cut(content, rng):
    return content[: int(rng.integers(len(content) + 1))]


def _noise(content, rng):
    a, b = _slice(content, rng, 9)
    return content[:a] + rng.bytes(b - a + 1) + content[b:]


def _lines(content, rng):
    """Two lines change places, or one goes, or one comes twice."""
    lines = content.split(b"\n")
    i, j = (int(rng.integers(len(lines))) for _ in range(2))
    what = int(rng.integers(3))
    if what == 0:
        lines[i], lines[j] = lines[j], lines[i]
    elif what == 1:
        del lines[i]
    else:
        lines.insert(j, lines[i])
    return b"\n".join(lines)


def _word(content, rng):
    """A word becomes something nasty, or another word of the file."""
    words = list(WORD.finditer(content))
    if not words:
        return content
    chosen = words[int(rng.integers(len(words)))]
    new = words[int(rng.integers(len(words)))].group()
    if rng.random() < 0.7:
        new = NASTY[int(rng.integers(len(NASTY)))].encode("utf-8", "surrogatepass")
    return content[: chosen.start()] + new + content[chosen.end() :]


def _insert(content, rng):
    a, _ = _slice(content, rng)
    new = NASTY[int(rng.integers(len(NASTY)))].encode("utf-8", "surrogatepass")
    return content[:a] + new + content[a:]


def _value(content, rng):
    """In a JSON document (or its first line) a value deep inside is replaced."""
    text, newline, rest = content, b"", b""
    try:
        tree = json.loads(text)
    except ValueError:
        text, newline, rest = content.partition(b"\n")
        try:
            tree = json.loads(text)
        except ValueError:
            return _word(content, rng)
    spots: list[tuple] = []

    def walk(node):
        items = node.items() if isinstance(node, dict) else enumerate(node)
        for key, inner in list(items):
            spots.append((node, key))
            if isinstance(inner, dict | list):
                walk(inner)

    if isinstance(tree, dict | list):
        walk(tree)
    if spots:
        node, key = spots[int(rng.integers(len(spots)))]
        new = [
            None,
            [],
            {},
            "x",
            "",
            -1,
            0,
            1e300,
            True,
            [1, [2, [3]]],
            {"a": {"b": []}},
            "1",
            10**40,
        ]
        if rng.random() < 0.2:
            del node[key]
        else:
            node[key] = new[int(rng.integers(len(new)))]
    return json.dumps(tree).encode() + newline + rest


CHANGES = [
    _drop,
    _double,
    _cut,
    _noise,
    _lines,
    _lines,
    _word,
    _word,
    _word,
    _insert,
    _value,
    _value,
]
