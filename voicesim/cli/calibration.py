"""Commands on measurements and profiles."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from voicesim.cli import complete
from voicesim.cli.options import Json, JsonFile, Quiet, app, seconds_of


@app.command(rich_help_panel="Measure and calibrate")
def calibrate(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[FILE...]",
            help="Measurements (docs/reference/files.md); none: a roofline of --prior.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="PROFILE",
            help="Profile to write (YAML); needed unless the files hold conversations only.",
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
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Page about the profile (HTML).")
    ] = None,
    reply: Annotated[
        str | None,
        typer.Option(metavar="4s|200", help="Mean reply, where aggregates do not say: s, tokens."),
    ] = None,
    chunk: Annotated[
        str | None,
        typer.Option(metavar="LIST", help="Chunks behind aggregates: 4,8,16,25 (tokens), or all."),
    ] = None,
    loads: Annotated[
        str | None,
        typer.Option(metavar="LIST", help="Of aggregates that state none: 8 in flight, 2.5/s."),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Fit a profile to measurements, with intervals, origins and held-out errors."""
    # The fit's matrices are tall and thin: threads only wait for each other, badly so on a busy
    # machine.  Read by numpy's library when it is first imported.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from voicesim.report.calibrate import Asked, calibrate_command

    about = dict(reply=reply, chunk=chunk, loads=loads)
    asked = Asked(
        files or [], output, name, seconds_of("--token-audio", token_audio), prior, figure, about,
        report,
    )  # fmt: skip
    raise typer.Exit(calibrate_command(asked, as_json, quiet))


@app.command(rich_help_panel="Measure and calibrate")
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
    as_json: Json = False,
    quiet: Quiet = False,
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
    raise typer.Exit(measure_command(url, options, out, as_json, quiet))


@app.command(rich_help_panel="Measure and calibrate")
def ladder(
    profile: Annotated[
        Path,
        typer.Argument(
            metavar="PROFILE",
            help="Profile (YAML), or the name of one that ships.",
            autocompletion=complete.profiles,
        ),
    ],
    levels: Annotated[
        str, typer.Option(metavar="LIST", help="Concurrencies to play.")
    ] = "1,2,4,8,16,32,64,128",
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each level.")] = 10,
    audio: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Mean audio of a reply; 8s.")
    ] = None,
    prompt: Annotated[
        int | None,
        typer.Option(
            min=1, help="Prompt tokens of a reply; 60, or 1 if the profile measured no prompt."
        ),
    ] = None,
    chunk: Annotated[
        str | None,
        typer.Option(
            metavar="LIST", help="Tokens of first chunk, ramp and (last) steady; 4,8,16,25."
        ),
    ] = None,
    codec_cap: Annotated[int | None, typer.Option(min=1, help="Rows of a codec batch; 8.")] = None,
    codec_queue: Annotated[str | None, typer.Option(help="fifo or edf; fifo.")] = None,
    left_context: Annotated[
        int | None, typer.Option(min=0, help="Frames recomputed with a chunk; 0.")
    ] = None,
    token_audio: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Audio per decode step; default the profile's."),
    ] = None,
    limit: Annotated[float, typer.Option(help="Least p99 pace.")] = 1.2,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Folder; default runs/ladder-NAME."),
    ] = None,
    json_file: JsonFile = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Find the largest concurrency of one replica at which the slowest chunks keep their pace.

    What is not given is taken as the profile's published figures were measured, if it says so.
    """
    from voicesim.report.ladder import ladder_command

    asked = dict(
        levels=levels, audio=audio, prompt=prompt, chunk=chunk, codec_cap=codec_cap,
        codec_queue=codec_queue, left_context=left_context, token_audio=token_audio,
    )  # fmt: skip
    code = ladder_command(profile, asked, seeds, limit, workers, out, json_file, as_json, quiet)
    raise typer.Exit(code)


@app.command(rich_help_panel="Measure and calibrate")
def validate(
    profile: Annotated[
        Path,
        typer.Argument(
            metavar="PROFILE",
            help="Profile (YAML), or the name of one that ships.",
            autocompletion=complete.profiles,
        ),
    ],
    trace: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="Measured tokens, chunks or requests (docs/reference/files.md)."
        ),
    ],
    sessions: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Send times of a token trace (CSV).")
    ] = None,
    chunk: Annotated[
        str | None,
        typer.Option(metavar="LIST", help="Tokens of first chunk, ramp and (last) steady."),
    ] = None,
    codec_cap: Annotated[int | None, typer.Option(min=1, help="Rows of a codec batch.")] = None,
    codec_window: Annotated[
        str | None, typer.Option(metavar="TIME", help="Gather window of codec batches: 5ms.")
    ] = None,
    left_context: Annotated[
        int | None, typer.Option(min=0, help="Frames recomputed with a chunk.")
    ] = None,
    prompt: Annotated[
        int | None, typer.Option(min=1, help="Prompt tokens where the file has none.")
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option(min=1, help="Requests in flight where nothing else says.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Replays of each run.")] = 5,
    buffer: Annotated[int, typer.Option(min=1, help="Tokens that the player gathers.")] = 4,
    json_file: JsonFile = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Folder with report.html; default none."),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Replay a measured run on a profile: measured against predicted."""
    from voicesim.report.validate import validate_command

    asked = dict(
        chunk=chunk, codec_cap=codec_cap, codec_window=codec_window, left_context=left_context,
        prompt=prompt, concurrency=concurrency,
    )  # fmt: skip
    raise typer.Exit(
        validate_command(
            profile, trace, sessions, asked, seeds, buffer, json_file, out, as_json, quiet
        )
    )


@app.command(rich_help_panel="Measure and calibrate")
def profiles(as_json: Json = False, quiet: Quiet = False) -> None:
    """List what ships: profiles with their range and error, and the catalogue they draw on."""
    from voicesim.report.profiles import profiles_command

    raise typer.Exit(profiles_command(as_json, quiet))
