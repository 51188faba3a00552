"""The commands; no logic.  Imports wait until a command runs, so that ``--help`` is immediate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    name="voicesim",
    help="How many calls a card holds before listeners hear it break.",
    no_args_is_help=True,
    add_completion=False,
)

ScenarioPath = Annotated[Path, typer.Argument(metavar="FILE", help="Scenario file (YAML).")]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a value of the base; repeatable."),
]


@app.callback()
def main() -> None:
    """How many calls a card holds before listeners hear it break."""


@app.command()
def check(file: ScenarioPath, sets: Sets = None) -> None:
    """Say everything that is wrong with a scenario, or what it will run."""
    from voicesim.scenario import ScenarioErrors, load

    try:
        found = load(file, sets=sets or ())
    except ScenarioErrors as errors:
        typer.echo(str(errors), err=True)
        raise typer.Exit(2) from None
    first = found.variants[found.baseline]
    typer.echo(f"OK {file}" + (f": {first.title}" if first.title else ""))
    width = max(map(len, found.variants))
    for name, scenario in found.variants.items():
        arrivals, pool = scenario.workload.arrivals, scenario.cluster.pool
        calls = arrivals.expected(scenario.horizon)
        typer.echo(
            f"  {name:<{width}}  {calls:,.0f} calls expected in {scenario.horizon:g} s"
            f" x {scenario.replications}, {pool.replicas} x {pool.on},"
            f" admission {scenario.policies.admission.kind}"
            + ("  (baseline)" if name == found.baseline else "")
        )


@app.command()
def schema() -> None:
    """Print the JSON Schema of a scenario file, for editors and other tools."""
    from voicesim.scenario.loader import json_schema

    typer.echo(json.dumps(json_schema(), indent=2))
