"""The program, and the options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from voicesim.cli import complete

EXITS = (
    "Exit codes: 0 done; 1 the answer is no (gate: worse; plan: no setting meets), or workers or "
    "an endpoint were lost; 2 the input is wrong, nothing is written; 130 interrupted, finished "
    "runs are kept."
)

app = typer.Typer(
    name="voicesim",
    help="How many calls a card holds before listeners hear it break.",
    no_args_is_help=True,
    epilog=EXITS,
)

ScenarioPath = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="Scenario file (YAML).", autocompletion=complete.scenarios),
]
Sets = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Override a value of the base; repeatable.",
        autocompletion=complete.sets,
    ),
]
Seed = Annotated[int | None, typer.Option(help="Seed instead of the file's.")]
Workers = Annotated[int | None, typer.Option(min=1, help="Processes; default one per core.")]
Backend = Annotated[
    str,
    typer.Option(
        help="processes, dask or ray.", autocompletion=complete.one_of("processes", "dask", "ray")
    ),
]
Address = Annotated[
    str | None, typer.Option(metavar="HOST:PORT", help="Dask scheduler or Ray cluster.")
]
Json = Annotated[
    bool, typer.Option("--json", help="Print the answer as JSON; nothing else on stdout.")
]
JsonFile = Annotated[
    Path | None, typer.Option("--json-file", metavar="FILE", help="Also write the JSON here.")
]
Replications = Annotated[int | None, typer.Option(min=1, help="Independent runs of each variant.")]
Chunks = Annotated[bool, typer.Option("--chunks", help="Also write every chunk.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print errors and where the answer is.")]


def _engine(name: str) -> str:
    if name not in ("kernel", "reference"):
        typer.echo(f"--engine: found {name!r}; allowed: kernel, reference", err=True)
        raise typer.Exit(2)
    return name


Engine = Annotated[
    str,
    typer.Option(
        callback=_engine,
        help="kernel (compiled) or reference (plain SimPy, slow).",
        autocompletion=complete.one_of("kernel", "reference"),
    ),
]


def seconds_of(option: str, text: str | None) -> float | None:
    """Seconds of a duration, which has a unit; says what is wrong and exits with 2."""
    from voicesim.scenario.units import stated_duration

    try:
        return None if text is None else stated_duration(text)
    except ValueError as error:
        typer.echo(f"{option}: {error}", err=True)
        raise typer.Exit(2) from None
