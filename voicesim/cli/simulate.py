"""Commands on one scenario: new, run, replay, check, explain, schema, runs, explore."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from voicesim.cli import complete
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
def new(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Scenario to write (YAML).")],
    kind: Annotated[
        str, typer.Option(metavar="KIND", help="tts: utterances; call: whole calls.")
    ] = "tts",
    profile: Annotated[
        str | None,
        typer.Option(
            metavar="PROFILE",
            help="What is served: a file, or what ships.",
            autocompletion=complete.profiles,
        ),
    ] = None,
    gpu: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Card it runs on.", autocompletion=complete.cards),
    ] = None,
    cards: Annotated[str | None, typer.Option(metavar="N", help="How many of them.")] = None,
    llm: Annotated[
        str | None,
        typer.Option(
            metavar="PROFILE",
            help="Language model of a call.",
            autocompletion=complete.profiles,
        ),
    ] = None,
    llm_cards: Annotated[
        str | None, typer.Option(metavar="N", help="Cards of the language model.")
    ] = None,
    conversation: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of a call: service, task or companion.")
    ] = None,
    end_of_turn: Annotated[
        str | None,
        typer.Option(metavar="DURATION|semantic", help="Of a call: silence that ends a turn."),
    ] = None,
    calls: Annotated[str | None, typer.Option(metavar="RATE", help="Calls; 45/s.")] = None,
    peak: Annotated[str | None, typer.Option(metavar="RATE", help="Calls at the peak.")] = None,
    reply: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Mean audio of a reply; 4.3s.")
    ] = None,
    limit: Annotated[
        str | None, typer.Option(metavar="N|none", help="Calls that a card may hold at once.")
    ] = None,
    start_within: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Good: first sound at the latest; 1s.")
    ] = None,
    no_stall_over: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Good: no longer stall; 100ms.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing: the defaults.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Write over a file.")] = False,
    schema: Annotated[
        bool, typer.Option("--schema/--no-schema", help="With the schema for editors beside it.")
    ] = True,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a commented scenario from six questions, or from the options that answer them."""
    from voicesim.report.new import new_command

    given = {
        "profile": profile, "gpu": gpu, "cards": cards, "calls": calls, "peak": peak,
        "reply": reply, "limit": limit, "start-within": start_within,
        "no-stall-over": no_stall_over, "llm": llm, "llm-cards": llm_cards,
        "conversation": conversation, "end-of-turn": end_of_turn,
    }  # fmt: skip
    raise typer.Exit(new_command(file, kind, given, yes, force, schema, as_json, quiet))


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
    rows: Annotated[
        bool | None,
        typer.Option(
            "--rows/--no-rows",
            help="Write a row for every call, stream and stall, or count them only; default by "
            "size: rows up to two million streams.",
        ),
    ] = None,
    engine: Engine = "kernel",
    backend: Backend = "processes",
    address: Address = None,
    marginal: Annotated[
        bool,
        typer.Option(
            "--marginal",
            help="Dialogues: what one more caller, or a tenth less of each segment, does to p95; "
            "ten runs for each.",
        ),
    ] = False,
    trace: Annotated[
        str | None,
        typer.Option(
            metavar="FROM..TO",
            help="Also write trace.json, a window for Perfetto; 12:00..12:30, 4min..5min.",
        ),
    ] = None,
    trace_of: Annotated[
        str | None,
        typer.Option(
            metavar="VARIANT[:N]", help="Whose window; default the first variant, replication 0."
        ),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run every variant of a scenario; print the table and write the run folder."""
    from voicesim.report.run import How, run_command

    how = How(workers, chunks, engine, backend, address, marginal, trace, trace_of, rows)
    raise typer.Exit(run_command(file, out, sets or (), seed, replications, how, quiet, as_json))


@app.command(rich_help_panel="One scenario")
def replay(
    traces: Annotated[
        list[Path], typer.Argument(metavar="TRACE...", help="Recorded requests, of any format.")
    ],
    scenario: Annotated[
        Path | None,
        typer.Option(
            "--scenario",
            "-s",
            metavar="FILE",
            help="What serves them.",
            autocompletion=complete.scenarios,
        ),
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
def check(
    file: ScenarioPath, sets: Sets = None, as_json: Json = False, quiet: Quiet = False
) -> None:
    """Say everything that is wrong with a scenario, or what it will run."""
    from voicesim.report.check import check_command

    raise typer.Exit(check_command(file, sets or (), as_json, quiet))


@app.command(rich_help_panel="One scenario")
def explain(
    key: Annotated[
        str | None,
        typer.Argument(
            metavar="[KEY]",
            help="Dotted path, metric or profile.FIELD; none: all.",
            autocompletion=complete.explained,
        ),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Say what a key of a scenario, a metric or a field of a profile means."""
    from voicesim.report.explain import explain_command

    raise typer.Exit(explain_command(key, as_json, quiet))


@app.command(rich_help_panel="One scenario")
def schema(
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write it here instead.")
    ] = None,
) -> None:
    """Print the JSON Schema of a scenario file, for editors and other tools."""
    from voicesim.report.explain import schema_command

    raise typer.Exit(schema_command(out))


@app.command(rich_help_panel="One scenario")
def runs(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[DIR | A B]",
            help="Folder to list, or two to compare; runs/.",
            autocompletion=complete.folders,
        ),
    ] = None,
    variant: Annotated[
        str | None, typer.Option(metavar="NAME", help="Compare this one; default all in common.")
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """List finished runs and studies, or put two of them side by side."""
    from voicesim.report.runs import runs_command

    raise typer.Exit(runs_command(folders or (), variant, as_json, quiet))


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
