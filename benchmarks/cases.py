"""docs/concepts/field-cases.md from the tests of tests/cases (``python benchmarks/pages.py``).

A case is a module there: its docstring has the title (with the case's number), what the field saw,
with its public source, and, after "Must show:", what a right simulator must show.  Its tests are
what this one shows, by names that read as sentences.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HOME = Path(__file__).parents[1]
CASES = HOME / "tests" / "cases"
PAGE = HOME / "docs" / "concepts" / "field-cases.md"
HEAD = (
    "# Field cases\n\n"
    "What others saw in production or in a benchmark, and what this model makes of it. Each case "
    "is a test on the model as it ships; no code knows a case. The page is made of those tests "
    "(`python benchmarks/pages.py`); `pytest tests/cases -k NAME` plays one.\n"
)
NUMBERED = "## Cases with a number"
OTHERS = """\
## What must hold besides

Not one report but a rule that several lean on, or an identity that no run may break.
"""
URL = re.compile(r"https?://[^\s,;)]+[^\s,;).:]")


@dataclass
class Case:
    """A module of tests/cases."""

    file: str
    title: str
    saw: str
    must: str
    tests: list[tuple[str, str]]  # name, docstring

    @property
    def numbered(self) -> bool:
        return re.match(r"C\d+", self.title) is not None


def read(path: Path) -> Case:
    """The case of a module.  Raises ValueError if its docstring lacks a part."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    title, _, rest = (ast.get_docstring(tree) or "").partition("\n\n")
    saw, must_show, must = rest.partition("Must show:")
    if not must_show or not title:
        raise ValueError(f"{path.name}: the docstring must have a title and 'Must show:'")
    found = Case(path.name, _line(title).rstrip("."), _line(saw), _line(must), list(_tests(tree)))
    number = re.match(r"test_c(\d+)_", path.name)
    if number and not re.match(rf"C{int(number[1])}\b", found.title):
        raise ValueError(f"{path.name}: the title must begin with C{int(number[1])}")
    if number and not URL.search(saw):
        raise ValueError(f"{path.name}: the docstring must have the public source of what was seen")
    return found


def _tests(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield node.name, _line((ast.get_docstring(node) or "").split("\n\n")[0])


def _line(text: str) -> str:
    return " ".join(text.split())


def cases() -> list[Case]:
    """Those with a number by it, then the others."""
    found = [read(path) for path in sorted(CASES.glob("test_*.py"))]
    return sorted(found, key=lambda case: (not case.numbered, case.file))


def page() -> str:
    """The page's text."""
    parts = [HEAD]
    before = None
    for case in cases():
        if case.numbered != before:
            parts.append(NUMBERED if case.numbered else OTHERS.rstrip())
            before = case.numbered
        parts.append(_section(case))
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def _section(case: Case) -> str:
    lines = [f"### {_text(case.title)}"]
    if case.saw:
        lines += ["", f"**Seen.** {_text(case.saw)}" if case.numbered else _text(case.saw)]
    lines += ["", f"**Must show.** {_text(case.must[:1].upper() + case.must[1:])}", ""]
    lines += [f"**Shows** (`tests/cases/{case.file}`):", ""]
    for name, said in case.tests:
        lines.append(f"- `{name}`" + (f": {_text(said)}" if said else ""))
    return "\n".join(lines)


def _text(text: str) -> str:
    """As Markdown: addresses are links, and nothing is taken for emphasis or HTML."""
    parts, at = [], 0
    for url in URL.finditer(text):
        name = url[0].split("://", 1)[1].removeprefix("github.com/")
        parts += [_plain(text[at : url.start()]), f"[{_plain(name)}]({url[0]})"]
        at = url.end()
    return "".join([*parts, _plain(text[at:])])


def _plain(text: str) -> str:
    return re.sub(r"([\\`*_<>\[\]|#])", r"\\\1", text)
