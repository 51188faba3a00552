"""The commands; no logic.  Imports wait until a command runs, so that ``--help`` is immediate."""

from __future__ import annotations

import sys
import warnings
from typing import Annotated, TextIO

import typer

from voicesim.schemas import NewerWarning

# the order of --help
from voicesim.cli import simulate, studies, calibration  # isort: skip
from voicesim.cli.options import app

__all__ = ["app", "calibration", "simulate", "studies"]


def _version(asked: bool) -> None:
    if asked:
        from voicesim import __version__

        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """How many calls a card holds before listeners hear it break."""
    _said.clear()
    warnings.showwarning = _plainly


def _plainly(
    message: Warning | str, category: type[Warning], filename: str, lineno: int,
    file: TextIO | None = None, line: str | None = None,
) -> None:  # fmt: skip
    """A note of ours is a line, once; of others' warnings the place in the code matters."""
    if not issubclass(category, NewerWarning):
        _usual(message, category, filename, lineno, file, line)
    elif str(message) not in _said:
        _said.add(str(message))
        print(message, file=sys.stderr)


_usual = warnings.showwarning
_said: set[str] = set()
