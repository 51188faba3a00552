"""Commands on one scenario: run, replay, check, schema, runs, explore."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from voicesim.cli.options import (
    Address,
    Backend,
    Chunks,
    Engine,
    Json,
    Quiet,
    Replications,
    ScenarioPath,
    Seed,
    Sets,
    Workers,
    app,
    seconds_of,
)


@app.command(rich_help_panel="One scenario")
def run(
    file: ScenarioPath,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Run folder; default runs/NAME."),
    ] = None,
    sets: Sets = None,
    seed: Seed = None,
    replications: Replications = None,
    workers: Workers = None,
    chunks: Chunks = False,
    engine: Engine = "kernel",
    backend: Backend = "processes",
    address: Address = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run every variant of a scenario; print the table and write the run folder."""
    from voicesim.report.run import How, run_command

    how = How(workers, chunks, engine, backend, address)
    raise typer.Exit(run_command(file, out, sets or (), seed, replications, how, quiet, as_json))


@app.command(rich_help_panel="One scenario")
def replay(
    traces: Annotated[
        list[Path], typer.Argument(metavar="TRACE...", help="Recorded requests, of any format.")
    ],
    scenario: Annotated[
        Path | None, typer.Option("--scenario", "-s", metavar="FILE", help="What serves them.")
    ] = None,
    speed: Annotated[float | None, typer.Option(help="How many times faster calls start.")] = None,
    scale: Annotated[float | None, typer.Option(help="Calls for each recorded one.")] = None,
    jitter: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Width by which copies are moved; 60s.")
    ] = None,
    after: Annotated[
        str | None, typer.Option("--from", metavar="DURATION", help="Where the window begins.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="DURATION", help="Where the window ends.")
    ] = None,
    seconds_per_token: Annotated[
        float | None, typer.Option(help="Speech of a text token (s); 0.32 s / 1.3.")
    ] = None,
    recorded_run: Annotated[
        str | None,
        typer.Option(
            "--run", metavar="NAME", help="Of several runs in a trace; default the first."
        ),
    ] = None,
    convert: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Only write the calls here (CSV).")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Run folder; default runs/NAME-replay."),
    ] = None,
    sets: Sets = None,
    seed: Seed = None,
    replications: Replications = None,
    workers: Workers = None,
    chunks: Chunks = False,
    engine: Engine = "kernel",
    backend: Backend = "processes",
    address: Address = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Play recorded calls, instead of a scenario's own, on its cluster and under its policies."""
    from voicesim.report.replay import replay_command
    from voicesim.report.run import How

    knobs = {
        "speed": speed, "scale": scale, "jitter": seconds_of("--jitter", jitter),
        "after": seconds_of("--from", after), "until": seconds_of("--until", until),
    }  # fmt: skip
    code = replay_command(
        traces, scenario, knobs, seconds_per_token, recorded_run, convert, out, sets or (), seed,
        replications, How(workers, chunks, engine, backend, address), quiet, as_json,
    )  # fmt: skip
    raise typer.Exit(code)


@app.command(rich_help_panel="One scenario")
def check(file: ScenarioPath, sets: Sets = None) -> None:
    """Say everything that is wrong with a scenario, or what it will run."""
    from voicesim.scenario import ScenarioErrors, load

    try:
        found = load(file, sets=sets or ())
    except ScenarioErrors as errors:
        typer.echo(str(errors), err=True)
        raise typer.Exit(2) from None
    from voicesim.simulation import problems

    wrong = problems(found)
    if wrong:
        typer.echo("\n".join(wrong), err=True)
        raise typer.Exit(2)
    first = found.variants[found.baseline]
    typer.echo(f"OK {file}" + (f": {first.title}" if first.title else ""))
    width = max(map(len, found.variants))
    for name, scenario in found.variants.items():
        calls = scenario.workload.arrivals.expected(scenario.horizon)
        pools = [f"{p.replicas} x {p.on}" for p in scenario.cluster.pools.values()]
        typer.echo(
            f"  {name:<{width}}  {calls:,.0f} calls expected in {scenario.horizon:g} s"
            f" x {scenario.replications}, {' + '.join(pools)},"
            f" admission {scenario.policies.admission.kind}"
            + ("  (baseline)" if name == found.baseline else "")
        )


@app.command(rich_help_panel="One scenario")
def schema() -> None:
    """Print the JSON Schema of a scenario file, for editors and other tools."""
    from voicesim.scenario.loader import json_schema

    typer.echo(json.dumps(json_schema(), indent=2))


@app.command(rich_help_panel="One scenario")
def runs(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[DIR | A B]", help="Folder to list, or two to compare; runs/."),
    ] = None,
    variant: Annotated[
        str | None, typer.Option(metavar="NAME", help="Compare this one; default all in common.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List finished runs and studies, or put two of them side by side."""
    from voicesim.report.runs import runs_command

    raise typer.Exit(runs_command(folders or (), variant, as_json))


@app.command(rich_help_panel="One scenario")
def explore(
    file: ScenarioPath,
    variant: Annotated[
        str | None, typer.Option(metavar="NAME", help="Variant to move first; default the first.")
    ] = None,
    length: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Time a move plays; default what takes a moment."),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 0,
    browser: Annotated[bool, typer.Option(help="Open it in the browser.")] = True,
    sets: Sets = None,
    seed: Seed = None,
) -> None:
    """Open a local page with sliders that answers every move with a short run."""
    from voicesim.explore.command import explore_command

    seconds = seconds_of("--length", length)
    raise typer.Exit(explore_command(file, variant, sets or (), seed, seconds, port, browser))
