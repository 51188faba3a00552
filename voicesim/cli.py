"""The commands; no logic.  Imports wait until a command runs, so that ``--help`` is immediate."""

from __future__ import annotations

import json
import os
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


@app.command()
def run(
    file: ScenarioPath,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Run folder; default runs/NAME."),
    ] = None,
    sets: Sets = None,
    seed: Annotated[int | None, typer.Option(help="Seed instead of the file's.")] = None,
    replications: Annotated[
        int | None, typer.Option(min=1, help="Independent runs of each variant.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes; default one per core.")
    ] = None,
    chunks: Annotated[bool, typer.Option("--chunks", help="Also write every chunk.")] = False,
    engine: Annotated[
        str, typer.Option(help="kernel (compiled) or reference (plain SimPy, slow).")
    ] = "kernel",
    backend: Annotated[str, typer.Option(help="processes, dask or ray.")] = "processes",
    address: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Dask scheduler or Ray cluster.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
) -> None:
    """Run every variant of a scenario; print the table and write the run folder."""
    from voicesim.report.run import How, run_command

    if engine not in ("kernel", "reference"):
        typer.echo(f"--engine: found {engine!r}; allowed: kernel, reference", err=True)
        raise typer.Exit(2)
    how = How(workers, chunks, engine, backend, address)
    raise typer.Exit(run_command(file, out, sets or (), seed, replications, how, quiet))


@app.command()
def compare(
    file: ScenarioPath,
    baseline: Annotated[
        str | None, typer.Option(metavar="NAME", help="Variant to compare with; default the first.")
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(metavar="METRIC", help="What must be settled; repeatable; clean_share."),
    ] = None,
    precision: Annotated[
        float, typer.Option(min=0.0, help="Half-width that is enough, of the baseline's mean.")
    ] = 0.1,
    width: Annotated[
        float | None, typer.Option(min=0.0, help="Half-width that is enough, in the metric's unit.")
    ] = None,
    max_replications: Annotated[
        int, typer.Option(min=2, help="Most replications of each variant.")
    ] = 40,
    first: Annotated[int, typer.Option(min=2, help="Replications before the first look.")] = 8,
    budget: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Wall time to begin runs in; 5min.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes; default one per core.")
    ] = None,
    backend: Annotated[str, typer.Option(help="processes, dask or ray.")] = "processes",
    address: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Dask scheduler or Ray cluster.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Study folder; default runs/NAME-compare."),
    ] = None,
    sets: Sets = None,
    seed: Annotated[int | None, typer.Option(help="Seed instead of the file's.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print study.json, no table.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
) -> None:
    """Compare variants under the same callers, with as many replications as it takes."""
    from voicesim.experiment.command import compare_command
    from voicesim.scenario.units import duration

    try:
        seconds = None if budget is None else duration(budget)
    except ValueError as error:
        typer.echo(f"--budget: {error}", err=True)
        raise typer.Exit(2) from None
    code = compare_command(
        file, sets or (), seed, out, as_json, quiet, metric or (), baseline=baseline,
        precision=precision, width=width, max_replications=max_replications, first=first,
        budget=seconds, workers=workers, backend=backend, address=address,
    )  # fmt: skip
    raise typer.Exit(code)


@app.command()
def plan(
    file: ScenarioPath,
    slo: Annotated[
        list[str], typer.Option(metavar="LIMIT", help="Such as 'clean>=99%'; repeatable.")
    ],
    vary: Annotated[
        list[str],
        typer.Option(metavar="KEY=LOW..HIGH", help="What to choose, with [:STEP]; once or twice."),
    ],
    variant: Annotated[
        str | None, typer.Option(metavar="NAME", help="Variant to plan for; default the first.")
    ] = None,
    confidence: Annotated[float, typer.Option(help="Of the answer as a whole.")] = 0.95,
    max_replications: Annotated[
        int, typer.Option(min=5, help="Most replications of each setting.")
    ] = 40,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes; default one per core.")
    ] = None,
    backend: Annotated[str, typer.Option(help="processes, dask or ray.")] = "processes",
    address: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Dask scheduler or Ray cluster.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Study folder; default runs/NAME-plan."),
    ] = None,
    sets: Sets = None,
    seed: Annotated[int | None, typer.Option(help="Seed instead of the file's.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print plan.json, no table.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
) -> None:
    """Find the cheapest setting that meets every SLO with a stated confidence."""
    from voicesim.report.plan import plan_command

    code = plan_command(
        file, slo, vary, sets or (), seed, out, as_json, quiet, variant=variant,
        confidence=confidence, max_replications=max_replications, workers=workers,
        backend=backend, address=address,
    )  # fmt: skip
    raise typer.Exit(code)


@app.command()
def sweep(
    file: ScenarioPath,
    vary: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUES", help="LOW..HIGH[:STEP] or a,b,c; repeatable."),
    ] = None,
    lhs: Annotated[
        int | None, typer.Option(metavar="N", help="N settings of a Latin hypercube, no grid.")
    ] = None,
    settings: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Settings to play (CSV, header of keys).")
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(metavar="METRIC", help="What to show; repeatable; clean_share."),
    ] = None,
    variant: Annotated[
        str | None, typer.Option(metavar="NAME", help="Variant to vary; default the first.")
    ] = None,
    replications: Annotated[int, typer.Option(min=1, help="Runs of each setting.")] = 5,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes; default one per core.")
    ] = None,
    backend: Annotated[str, typer.Option(help="processes, dask or ray.")] = "processes",
    address: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Dask scheduler or Ray cluster.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Study folder; default runs/NAME-sweep."),
    ] = None,
    sets: Sets = None,
    seed: Annotated[int | None, typer.Option(help="Seed instead of the file's.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print sweep.json, no table.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
) -> None:
    """Play a grid, a Latin hypercube or a list of settings under the same callers."""
    from voicesim.report.sweep import sweep_command

    code = sweep_command(
        file, sets or (), seed, out, as_json, quiet, vary=vary or (), points=lhs,
        settings=settings, metrics=metric or ("clean_share",), variant=variant,
        replications=replications, workers=workers, backend=backend, address=address,
    )  # fmt: skip
    raise typer.Exit(code)


@app.command()
def tornado(
    file: ScenarioPath,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=LOW..HIGH",
            help="What else to move; profile.KEY of its profile; repeatable.",
        ),
    ] = None,
    assume: Annotated[
        str | None, typer.Option(metavar="SHARE", help="Move what has no interval by it; 20%.")
    ] = None,
    metric: Annotated[str, typer.Option(metavar="METRIC", help="What is moved.")] = "clean_share",
    variant: Annotated[
        str | None, typer.Option(metavar="NAME", help="Variant to study; default the first.")
    ] = None,
    replications: Annotated[int, typer.Option(min=2, help="Runs of the base and each end.")] = 10,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes; default one per core.")
    ] = None,
    backend: Annotated[str, typer.Option(help="processes, dask or ray.")] = "processes",
    address: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Dask scheduler or Ray cluster.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Study folder; default runs/NAME-tornado."),
    ] = None,
    sets: Sets = None,
    seed: Annotated[int | None, typer.Option(help="Seed instead of the file's.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print tornado.json, no table.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
) -> None:
    """Find the input whose uncertainty moves a metric most, the calibration's included."""
    from voicesim.report.tornado import tornado_command

    code = tornado_command(
        file, sets or (), seed, out, as_json, quiet, assume, vary=vary or (), metric=metric,
        variant=variant, replications=replications, workers=workers, backend=backend,
        address=address,
    )  # fmt: skip
    raise typer.Exit(code)


@app.command()
def alarms(
    file: ScenarioPath,
    rules: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Rules (YAML), or shipped; default the scenario's."),
    ] = None,
    variant: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Repeatable; default all variants.")
    ] = None,
    replications: Annotated[int, typer.Option(min=1, help="Runs of each variant.")] = 10,
    scrape: Annotated[
        str, typer.Option(metavar="DURATION", help="Between scrapes; 0: every bin.")
    ] = "5s",
    evaluate: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Between evaluations; default --scrape.")
    ] = None,
    horizon: Annotated[
        str, typer.Option(metavar="DURATION", help="How far a stall may be from its alarm.")
    ] = "5min",
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes; default one per core.")
    ] = None,
    backend: Annotated[str, typer.Option(help="processes, dask or ray.")] = "processes",
    address: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Dask scheduler or Ray cluster.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Study folder; default runs/NAME-alarms."),
    ] = None,
    sets: Sets = None,
    seed: Annotated[int | None, typer.Option(help="Seed instead of the file's.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print alarms.json, no table.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
) -> None:
    """Back-test alert rules on simulated peaks; write them for Prometheus, with their tests."""
    from voicesim.report.alarms import alarms_command

    code = alarms_command(
        file, rules, sets or (), seed, out, as_json, quiet, variants=variant or (),
        replications=replications, scrape=_seconds("--scrape", scrape),
        evaluate=None if evaluate is None else _seconds("--evaluate", evaluate),
        horizon=_seconds("--horizon", horizon), workers=workers, backend=backend, address=address,
    )  # fmt: skip
    raise typer.Exit(code)


def _seconds(option: str, text: str) -> float:
    from voicesim.scenario.units import duration

    try:
        return duration(text)
    except ValueError as error:
        typer.echo(f"{option}: {error}", err=True)
        raise typer.Exit(2) from None


@app.command()
def measure(
    url: Annotated[
        str, typer.Argument(metavar="URL", help=".../v1/audio/speech, .../v1/completions or ws://.")
    ],
    levels: Annotated[
        str | None, typer.Option(metavar="LIST", help="A ladder of requests in flight: 1,2,4,8.")
    ] = None,
    rate: Annotated[
        str | None, typer.Option(metavar="RATE", help="Poisson arrivals instead: 1/s.")
    ] = None,
    duration: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Of a Poisson run; 60s.")
    ] = None,
    repeats: Annotated[
        int | None, typer.Option(min=1, help="Poisson runs with the same arrivals; 1.")
    ] = None,
    level_time: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Of a level at most; 60s.")
    ] = None,
    precision: Annotated[
        float | None, typer.Option(min=0.0, help="Relative half-width that ends a level; 0.05.")
    ] = None,
    protocol: Annotated[
        str | None, typer.Option(help="speech, completions or websocket; default by the URL.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="Default: the server's first.")] = None,
    voice: Annotated[str | None, typer.Option(help="Voice of the speech.")] = None,
    format: Annotated[str | None, typer.Option(help="pcm or wav; pcm.")] = None,
    stream_format: Annotated[str | None, typer.Option(help="audio or sse; audio.")] = None,
    sample_rate: Annotated[
        int | None, typer.Option(min=1, help="Of PCM whose server does not say; 24000.")
    ] = None,
    sample_width: Annotated[
        int | None, typer.Option(min=1, max=8, help="Bytes per sample of raw PCM; 2.")
    ] = None,
    channels: Annotated[int | None, typer.Option(min=1, help="Of raw PCM; 1.")] = None,
    gather: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Reads closer than this are one; 2ms.")
    ] = None,
    texts: Annotated[
        Path | None, typer.Option(metavar="FILE", help="What to speak, one utterance a line.")
    ] = None,
    prompt_tokens: Annotated[
        str | None, typer.Option(metavar="N..M", help="Prompt of a completion; 32.")
    ] = None,
    tokens: Annotated[
        str | None, typer.Option(metavar="N..M", help="Tokens of a completion; 50..400.")
    ] = None,
    vocabulary: Annotated[
        int | None, typer.Option(help="Prompt ids are drawn below it; 1000.")
    ] = None,
    token_budget: Annotated[
        int | None, typer.Option(min=1, help="The engine's tokens per step, if you know it.")
    ] = None,
    token_audio: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Audio of a token, to show a pace.")
    ] = None,
    extra: Annotated[
        str | None, typer.Option(metavar="JSON", help="More fields of every request.")
    ] = None,
    warmup: Annotated[
        int | None, typer.Option(min=0, help="Requests before the first run; 2.")
    ] = None,
    timeout: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Longest silence; 30s.")
    ] = None,
    max_in_flight: Annotated[
        int | None, typer.Option(min=1, help="So many end a Poisson run; 512.")
    ] = None,
    host_ok: Annotated[
        str | None, typer.Option(metavar="NAME", help="A host, not this machine, to be loaded.")
    ] = None,
    api_key_env: Annotated[
        str | None, typer.Option(metavar="VARIABLE", help="Holds the key; VOICESIM_API_KEY.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Of arrivals and lengths; 1.")] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="New folder; default runs/measure-..."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
) -> None:
    """Load a real endpoint and write down when every chunk or token arrived."""
    from voicesim.report.measure import measure_command

    options = dict(
        levels=levels, rate=rate, duration=duration, repeats=repeats, level_time=level_time,
        precision=precision, protocol=protocol, model=model, voice=voice, format=format,
        stream_format=stream_format, sample_rate=sample_rate, sample_width=sample_width,
        channels=channels, gather=gather, texts=texts, prompt_tokens=prompt_tokens, tokens=tokens,
        vocabulary=vocabulary, token_budget=token_budget, token_audio=token_audio, extra=extra,
        warmup=warmup, timeout=timeout, max_in_flight=max_in_flight, host_ok=host_ok,
        api_key_env=api_key_env, seed=seed,
    )  # fmt: skip
    raise typer.Exit(measure_command(url, options, out, quiet))


@app.command()
def calibrate(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="PROFILE", help="Profile to write (YAML).")
    ],
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[FILE...]", help="Measurements (docs/files.md); none: a roofline of --prior."
        ),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the profile.")] = None,
    token_audio: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Audio per decode step, such as 80ms.")
    ] = None,
    prior: Annotated[
        str | None,
        typer.Option(metavar="gpu=NAME,model=NAME", help="Data sheets, where files cannot tell."),
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(help="Picture of points, curve and residuals (PNG).")
    ] = None,
) -> None:
    """Fit a profile to measurements, with intervals, origins and held-out errors."""
    # The fit's matrices are tall and thin: threads only wait for each other, badly so on a busy
    # machine.  Read by numpy's library when it is first imported.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from voicesim.calibrate import CalibrationError, describe, run_calibrate
    from voicesim.experiment.accuracy import run_ladder
    from voicesim.experiment.published import is_ladder
    from voicesim.scenario.units import duration

    try:
        seconds = None if token_audio is None else duration(token_audio)
        if files and len(files) == 1 and is_ladder(files[0]):
            if (name, seconds, prior, figure) != (None, None, None, None):
                raise ValueError("a ladder states its own settings: give --output only")
            profile = run_ladder(files[0], output)
        else:
            profile = run_calibrate(files or [], output, name, seconds, prior, figure, typer.echo)
    except (CalibrationError, ValueError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None
    typer.echo(describe(profile))
    typer.echo(f"wrote {output}")


@app.command()
def ladder(
    profile: Annotated[Path, typer.Argument(metavar="PROFILE", help="Profile (YAML).")],
    levels: Annotated[
        str, typer.Option(metavar="LIST", help="Concurrencies to play.")
    ] = "1,2,4,8,16,32,64,128",
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each level.")] = 10,
    audio: Annotated[str, typer.Option(metavar="DURATION", help="Mean audio of a reply.")] = "8s",
    prompt: Annotated[int, typer.Option(min=1, help="Prompt tokens of a reply.")] = 60,
    chunk: Annotated[
        str, typer.Option(metavar="LIST", help="Tokens of first chunk, ramp and (last) steady.")
    ] = "4,8,16,25",
    codec_cap: Annotated[int, typer.Option(min=1, help="Rows of a codec batch.")] = 8,
    codec_queue: Annotated[str, typer.Option(help="fifo or edf.")] = "fifo",
    left_context: Annotated[int, typer.Option(min=0, help="Frames recomputed with a chunk.")] = 0,
    limit: Annotated[float, typer.Option(help="Least p99 pace.")] = 1.2,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Folder; default runs/ladder-NAME."),
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Also write the numbers here.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
) -> None:
    """Find the largest concurrency of one replica at which listeners hear no break."""
    from voicesim.report.ladder import ladder_command

    asked = dict(
        levels=levels, audio=audio, prompt=prompt, chunk=chunk, codec_cap=codec_cap,
        codec_queue=codec_queue, left_context=left_context,
    )  # fmt: skip
    raise typer.Exit(ladder_command(profile, asked, seeds, limit, workers, out, json_file, quiet))


@app.command()
def validate(
    profile: Annotated[Path, typer.Argument(metavar="PROFILE", help="Profile (YAML).")],
    trace: Annotated[Path, typer.Argument(metavar="TRACE", help="Measured tokens (CSV, gzipped).")],
    sessions: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Send times of its streams (CSV).")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Replays of each run.")] = 5,
    buffer: Annotated[int, typer.Option(min=1, help="Tokens that the player gathers.")] = 4,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the numbers here.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
) -> None:
    """Replay a measured run on a profile: measured against predicted."""
    from voicesim.report.validate import validate_command

    raise typer.Exit(validate_command(profile, trace, sessions, seeds, buffer, json_file, quiet))


@app.command()
def gate(
    baseline: Annotated[
        Path, typer.Option(metavar="WHAT", help="Finished folder, or scenario file, to hold up to.")
    ],
    scenario: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Candidate: a scenario, played now.")
    ] = None,
    candidate: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Candidate: a finished folder instead.")
    ] = None,
    variant: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of the candidate; default its first.")
    ] = None,
    baseline_variant: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Of the baseline; default the same name."),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(metavar="METRIC", help="Judge these instead of the usual; repeatable."),
    ] = None,
    margin: Annotated[
        list[str] | None,
        typer.Option(metavar="METRIC=VALUE", help="Worsening that is allowed; ttfa_p99=20ms."),
    ] = None,
    quality: Annotated[
        Path | None, typer.Option(metavar="FILE", help="WER and MOS of model versions (YAML).")
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="The candidate's model version in it.")
    ] = None,
    baseline_model: Annotated[
        str | None, typer.Option(metavar="NAME", help="The baseline's model version in it.")
    ] = None,
    junit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write JUnit XML, a test case per metric.")
    ] = None,
    replications: Annotated[
        int | None, typer.Option(min=1, help="Of what is played now; default as the baseline.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes; default one per core.")
    ] = None,
    backend: Annotated[str, typer.Option(help="processes, dask or ray.")] = "processes",
    address: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Dask scheduler or Ray cluster.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Folder; default runs/NAME-gate."),
    ] = None,
    sets: Sets = None,
    seed: Annotated[int | None, typer.Option(help="Seed instead of the file's.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print gate.json, no table.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
) -> None:
    """Fail (exit code 1) if a candidate is significantly worse than a baseline."""
    from voicesim.report.gate import gate_command

    code = gate_command(
        out, junit, as_json, quiet, baseline=baseline, scenario=scenario, candidate=candidate,
        variant=variant, baseline_variant=baseline_variant, metrics=metric or (),
        margins=margin or (), quality=quality, model=model, baseline_model=baseline_model,
        replications=replications, workers=workers, backend=backend, address=address,
        sets=sets or (), seed=seed,
    )  # fmt: skip
    raise typer.Exit(code)


@app.command()
def runs(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[DIR | A B]", help="Folder to list, or two to compare; runs/."),
    ] = None,
    variant: Annotated[
        str | None, typer.Option(metavar="NAME", help="Compare this one; default all in common.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, no table.")] = False,
) -> None:
    """List finished runs and studies, or put two of them side by side."""
    from voicesim.report.runs import runs_command

    raise typer.Exit(runs_command(folders or (), variant, as_json))


@app.command()
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
    seed: Annotated[int | None, typer.Option(help="Seed instead of the file's.")] = None,
    replications: Annotated[
        int | None, typer.Option(min=1, help="Independent runs of each variant.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes; default one per core.")
    ] = None,
    chunks: Annotated[bool, typer.Option("--chunks", help="Also write every chunk.")] = False,
    engine: Annotated[
        str, typer.Option(help="kernel (compiled) or reference (plain SimPy, slow).")
    ] = "kernel",
    backend: Annotated[str, typer.Option(help="processes, dask or ray.")] = "processes",
    address: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Dask scheduler or Ray cluster.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
) -> None:
    """Play recorded calls, instead of a scenario's own, on its cluster and under its policies."""
    from voicesim.report.replay import replay_command
    from voicesim.report.run import How
    from voicesim.scenario.units import duration

    if engine not in ("kernel", "reference"):
        typer.echo(f"--engine: found {engine!r}; allowed: kernel, reference", err=True)
        raise typer.Exit(2)
    knobs: dict[str, float | None] = {"speed": speed, "scale": scale}
    for name, option, text in (
        ("jitter", "--jitter", jitter), ("after", "--from", after), ("until", "--until", until),
    ):  # fmt: skip
        try:
            knobs[name] = None if text is None else duration(text)
        except ValueError as error:
            typer.echo(f"{option}: {error}", err=True)
            raise typer.Exit(2) from None
    if seconds_per_token is not None and not 0 < seconds_per_token < 60:
        typer.echo(f"--seconds-per-token: found {seconds_per_token:g}; must be over 0", err=True)
        raise typer.Exit(2)
    code = replay_command(
        traces, scenario, knobs, seconds_per_token, recorded_run, convert, out, sets or (), seed,
        replications, How(workers, chunks, engine, backend, address), quiet,
    )  # fmt: skip
    raise typer.Exit(code)


@app.command()
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


@app.command()
def profiles() -> None:
    """List what ships: profiles with their range and error, and the catalogue they draw on."""
    from voicesim.report.profiles import profiles_command

    raise typer.Exit(profiles_command())


@app.command()
def schema() -> None:
    """Print the JSON Schema of a scenario file, for editors and other tools."""
    from voicesim.scenario.loader import json_schema

    typer.echo(json.dumps(json_schema(), indent=2))
