"""The shell commands of a page: split, checked against the program's options, or run.

``voicesim`` runs in this process, in the page's folder; few others do (``cp``, ``duckdb``).  What
is neither is only looked at: a ``make`` target exists, an extra of ``pip install`` too.
"""

import re
import shlex
import shutil
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import typer
from typer.testing import CliRunner

from tests.docs.blocks import ROOT
from voicesim.cli import app

PROGRAM: Any = typer.main.get_command(app)
CONTROL = ("||", "&&", ">", ">>", "|", "echo")


@dataclass
class Shown:
    """What a command printed (stdout and stderr) and its exit code."""

    text: str
    code: int


def split(text: str) -> list[list[str]]:
    """The words of each command: lines joined at a backslash, comments left out, and what comes
    after ``||``, ``&&``, ``|`` or ``>``."""
    found = []
    for line in re.sub(r" *\\\n *", " ", text).splitlines():
        words = shlex.split(line, comments=True)
        cut = next((i for i, word in enumerate(words) if word in CONTROL), len(words))
        found.append(words[:cut])
    return [words for words in found if words]


COMPLETION = {"--install-completion", "--show-completion"}
"""Options of voicesim itself, which typer adds."""


def of_voicesim(words: list[str]) -> list[str] | None:
    """The arguments of a ``voicesim`` command, None of another."""
    return words[1:] if words[0] in ("voicesim", ".venv/bin/voicesim") else None


def known(args: list[str]) -> None:
    """Raise ValueError unless the program takes these arguments: command, options, their types."""
    line = shlex.join(["voicesim", *args])
    if args and (args[0] in ("--help", "--version") or args[0] in COMPLETION):
        return
    if not args or args[0] not in PROGRAM.commands:
        raise ValueError(f"{line}: no such command")
    try:
        PROGRAM.commands[args[0]].make_context(args[0], args[1:])
    except typer.Exit as stop:
        if stop.exit_code:
            raise ValueError(f"{line}: refused") from None
    except Exception as error:  # of click's or of typer's own copy of it
        raise ValueError(f"{line}: {getattr(error, 'message', error)}") from None


def options(command: str) -> set[str]:
    """The options of a ``voicesim`` command."""
    found = PROGRAM.commands[command].params
    return {name for each in found for name in (*each.opts, *each.secondary_opts)} | {"--help"}


def with_options(args: list[str], more: list[str]) -> list[str]:
    """The command with those of ``more`` (option and value in turn) that it has."""
    pairs = [more[i : i + 2] for i in range(0, len(more), 2)]
    return [*args, *(w for pair in pairs if pair[0] in options(args[0]) for w in pair)]


def looked_at(words: list[str]) -> None:
    """Check a command that is not run here; raises ValueError for one that cannot be right."""
    args = of_voicesim(words)
    name = Path(words[0]).name
    if args is not None:
        known(args)
    elif name == "make":
        text = (ROOT / "Makefile").read_text()
        for target in words[1:]:
            if not re.search(rf"^{re.escape(target)}:", text, re.M):
                raise ValueError(f"the Makefile has no target {target!r}")
    elif name == "pip":
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        for extra in re.findall(r"\[(\w+)\]", " ".join(words)):
            if extra not in extras["optional-dependencies"]:
                raise ValueError(f"pyproject.toml has no extra {extra!r}")
    elif name.startswith("python") and words[1].endswith(".py"):
        if not (ROOT / words[1]).is_file():
            raise ValueError(f"no such script: {words[1]}")
    elif name not in ("python", "python3", "cp", "duckdb", "export", "promtool", "scp", "ssh"):
        raise ValueError(f"{name!r} is no command that pages use")


def run(words: list[str], more: list[str], folder: Path) -> Shown | None:
    """Run one command in ``folder`` (which is the working folder); None: it is only looked at."""
    looked_at(words)
    args = of_voicesim(words)
    if args is not None:
        args = with_options(args, more)
        if "--workers" in options(args[0]) and "--workers" not in args:
            args += ["--workers", "1"]  # processes of their own would each load the kernel
        found = CliRunner().invoke(app, args)
        if found.exception and not isinstance(found.exception, SystemExit):
            raise found.exception
        return Shown(found.output, found.exit_code)
    if words[0] == "cp":
        shutil.copy(folder / words[1], folder / words[2])
        return Shown("", 0)
    if words[0] == "duckdb":
        return Shown(str(duckdb.sql(words[2])), 0)
    return None
