"""The commands and snippets of a page, and what the page says of how they are tested.

A block is fenced (```sh, ```python, ```yaml, ```text) or indented by four spaces; of an indented
one the kind is told by how it begins.  A comment on the line above it says what is special:

    <!-- test: skip: REASON -->          its commands are checked against the program's options only
    <!-- test: with: OPTIONS -->         shorter: added to its commands that have these options
    <!-- test: exit: 1 -->               the exit code of its last command
    <!-- test: file: NAME -->            the block is that file, for the blocks after it
    <!-- test: at: KEY -->               where in a scenario this YAML stands (dotted)
    <!-- test: instead: KEY -->          the same, in place of what stands there
    <!-- test: of: FILE -->              the scenario it stands in, else the tutorial's
    <!-- test: form: quality -->         YAML that is no scenario: whose reader must take it

and anywhere in a page, for all of it:

    <!-- test: short: FILE KEY=VALUE ... -->   a top-level key of a scenario, in the page's copy
    <!-- test: each: OPTIONS -->               as ``with``, of every block

With VOICESIM_DOCS=1 nothing is made shorter.
"""

import os
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
ORDER = re.compile(r"<!-- test: (\w+): (.+?) -->")
KNOWN = ("skip", "with", "exit", "file", "at", "instead", "of", "form")
OF_PAGE = ("short", "each")
FULL = os.environ.get("VOICESIM_DOCS") == "1"
KINDS = ("sh", "python", "yaml", "text")
SHELL = re.compile(
    r"(\.venv/bin/)?(voicesim|python3?|pip|make|cp|duckdb|promtool|scp|ssh|git|export) "
)


@dataclass(frozen=True)
class Block:
    """One block: page and line (from 1) of its first line, sh, python, yaml or text, its text,
    and the orders above it."""

    page: str
    line: int
    kind: str
    text: str
    orders: dict[str, str]

    @property
    def where(self) -> str:
        """``page:line``."""
        return f"{self.page}:{self.line}"


def pages() -> list[str]:
    """Every page whose blocks are tested, relative to the repository."""
    found = sorted((ROOT / "docs").rglob("*.md"))
    return ["README.md", *(str(page.relative_to(ROOT)) for page in found)]


def of_page(page: str, order: str) -> list[str]:
    """What the page says by comments of this kind that hold for all of it; none at full length."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return [found[2] for found in ORDER.finditer(text) if found[1] == order and not FULL]


def blocks(page: str) -> list[Block]:
    """The page's blocks in order.  Raises ValueError where a comment or a fence is not known."""
    return parse(page, (ROOT / page).read_text(encoding="utf-8"))


def parse(page: str, text: str) -> list[Block]:
    """As ``blocks``, of a text."""
    lines = text.splitlines()
    found, at = [], 0
    orders: dict[str, str] = {}
    while at < len(lines):
        line = lines[at]
        order = ORDER.fullmatch(line.strip())
        fence = re.match(r"( *)(`{3,})(.*)", line)
        if order:
            if order[1] not in (*KNOWN, *OF_PAGE):
                raise ValueError(f"{page}:{at + 1}: unknown order {order[1]!r}")
            orders |= {} if order[1] in OF_PAGE else {order[1]: order[2]}
            at += 1
            continue
        if "<!-- test" in line and "`" not in line:
            raise ValueError(f"{page}:{at + 1}: not an order: {line.strip()}")
        if fence:
            end = next(i for i in range(at + 1, len(lines)) if lines[i].strip() == fence[2])
            kind = fence[3].split()[0] if fence[3] else ""
            if kind not in KINDS:
                raise ValueError(f"{page}:{at + 1}: a fence of kind {kind!r}; known: {KINDS}")
            found.append(Block(page, at + 2, kind, _text(lines[at + 1 : end]), orders))
            at = end
        elif line.startswith("    ") and line.strip() and (at == 0 or not lines[at - 1].strip()):
            end = _end(lines, at)
            body = _text(lines[at:end])
            if not _in_list(lines, at):
                found.append(Block(page, at + 1, _kind(body), body, orders))
            at = end - 1
        if line.strip():
            orders = {}
        at += 1
    return found


def _text(lines: list[str]) -> str:
    return textwrap.dedent("\n".join(lines)).strip("\n") + "\n"


def _end(lines: list[str], at: int) -> int:
    """The line after the last one of an indented block."""
    end = at
    for i in range(at, len(lines)):
        if lines[i].startswith("    "):
            end = i + 1
        elif lines[i].strip():
            break
    return end


def _in_list(lines: list[str], at: int) -> bool:
    """Whether what is indented here goes on with a list."""
    before = [line for line in lines[:at] if line.strip() and not line.startswith("    ")]
    return bool(before) and bool(re.match(r"([-*]|\d+\.) ", before[-1]))


def _kind(text: str) -> str:
    first = text.split("\n", 1)[0]
    if SHELL.match(first):
        return "sh"
    if re.match(r"(import|from|class|def|with|for) |# \w+\.py|\w[\w.]* = |\w[\w.]*\(", first):
        return "python"
    return "yaml" if re.match(r"[-\w.\"']+:( |$)", first) else "text"


def inline(page: str) -> list[tuple[int, str]]:
    """Line and text of every code span outside blocks."""
    inside = {
        number
        for block in blocks(page)
        for number in range(block.line, block.line + block.text.count("\n"))
    }
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    return [
        (number, span)
        for number, line in enumerate(lines, 1)
        if number not in inside
        for span in re.findall(r"`([^`]+)`", line)
    ]
