"""The commands; no logic.  Imports wait until a command runs, so that ``--help`` is immediate."""

from __future__ import annotations

from typing import Annotated

import typer

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
