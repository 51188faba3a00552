"""The ``ladder`` command: progress, table, figure and folder of one ladder."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from voicesim.catalogue.profiles import profile_file
from voicesim.engine.profile import Profile, load_profile
from voicesim.experiment.ladder import Ladder, as_data, climb
from voicesim.experiment.metrics import ExperimentError
from voicesim.experiment.rung import Load
from voicesim.files import write_json
from voicesim.progress import Progress
from voicesim.report import words
from voicesim.report.html.study import write_study
from voicesim.report.ladder_figure import codec_words, ladder_figure
from voicesim.report.studies import DONE, attempt, hand_over
from voicesim.runfolder import RunFolder
from voicesim.scenario.units import stated_duration

FILES = ("ladder.json", "ladder.png", "levels.parquet", "report.html")
SHOWN_AROUND = 9


def ladder_command(
    profile: Path,
    asked: Mapping[str, Any],
    seeds: int,
    limit: float,
    workers: int,
    out: Path | None,
    json_file: Path | None,
    as_json: bool,
    quiet: bool,
) -> int:
    """Climb, print, write; returns the exit code (0, 2 for bad input, 130 when interrupted).

    asked: levels, audio, prompt, chunk, codec_cap, codec_queue, left_context, token_audio as on
    the command line (None: not given, see ``read``).
    """
    out = out or Path("runs") / f"ladder-{profile_file(profile).stem}"
    progress = Progress(quiet)

    def work() -> Ladder:
        load, levels = read(profile, asked)
        folder = RunFolder(out, FILES, ())
        try:
            with progress:
                found = climb(load, levels, seeds, limit, workers, progress.show)
            write_ladder(found, folder)
            if json_file is not None:
                write_json(json_file, as_data(found))
        except BaseException:
            folder.discard()
            raise
        folder.publish()
        return found

    found = attempt(work)
    if isinstance(found, int):
        return found
    hand_over(
        lambda console: print_ladder(found, console), lambda: as_data(found),
        f"wrote {out}/ ({', '.join(FILES)})", out, as_json, quiet,
    )  # fmt: skip
    return DONE


def read(profile: Path, asked: Mapping[str, Any]) -> tuple[Load, list[int]]:
    """The load and the levels.

    What is not asked for (None) is taken as the profile's ladder was measured (``played``), else
    the usual.  Raises ExperimentError, ProfileError.
    """
    if asked["codec_queue"] not in (None, "fifo", "edf"):
        raise ExperimentError(f"--codec-queue: found {asked['codec_queue']!r}; allowed: fifo, edf")
    found = load_profile(profile_file(profile))
    token = _seconds("token-audio", asked["token_audio"])
    if token is not None:
        found = found.model_copy(update={"token_audio_s": token})
    given = {
        "audio": _seconds("audio", asked["audio"]),
        "prompt": asked["prompt"],
        "chunks": asked["chunk"] and tuple(whole_numbers("--chunk", asked["chunk"])),
        "codec_cap": asked["codec_cap"],
        "left_context": asked["left_context"],
        "codec_queue": asked["codec_queue"],
    }
    given = {name: value for name, value in given.items() if value is not None}
    own = {name: value for name, value in as_played(found).items() if name not in given}
    if "codec_queue" in given:
        own.pop("codec_window", None)
    usual = {"prompt": usual_prompt(found)}
    load = Load(found, **{**usual, **own, **given}, as_measured=tuple(own))
    return load, whole_numbers("--levels", asked["levels"])


def as_played(profile: Profile) -> dict[str, Any]:
    """What a profile says of how its ladder was asked, by the names of a Load."""
    played = profile.played
    if played is None:
        return {}
    audio = played.reply_audio_s
    if audio is None and played.reply_tokens and profile.token_audio_s:
        audio = played.reply_tokens * profile.token_audio_s
    found: dict[str, Any] = {
        "audio": audio,
        "prompt": played.prompt_tokens,
        "chunks": None if played.chunks is None else tuple(played.chunks),
        "budget": played.step_tokens,
    }
    if profile.codec is not None:
        found |= {
            "codec_cap": played.codec_cap,
            "codec_queue": played.codec_queue,
            "codec_window": played.codec_window,
            "left_context": played.left_context,
        }
    return {name: value for name, value in found.items() if value is not None}


def _seconds(option: str, text: str | None) -> float | None:
    try:
        return None if text is None else stated_duration(text)
    except ValueError as problem:
        raise ExperimentError(f"--{option}: {problem}") from None


def usual_prompt(profile: Profile) -> int:
    """Prompt tokens of a reply: 60, or 1 where the profile says nothing of what a prompt costs."""
    unmeasured = profile.range is not None and profile.range.prefill_tokens[1] == 0
    return 1 if unmeasured else Load.prompt


def write_ladder(ladder: Ladder, folder: RunFolder) -> None:
    """The ladder as JSON, figure and table."""
    data = as_data(ladder)
    write_json(folder.path / FILES[0], data)
    ladder_figure(ladder, folder.path / FILES[1])
    pd.DataFrame(data["levels"]).to_parquet(folder.path / FILES[2], index=False)
    ceiling, _, naive, *_ = (line.plain for line in sentences(ladder))
    shown = {"Pace and throughput by callers": (folder.path / FILES[1]).read_bytes()}
    lines = [ceiling, naive]
    write_study(folder.path, data, lines, lambda c: print_ladder(ladder, c), shown)


def whole_numbers(option: str, text: str) -> list[int]:
    """1,2,4 as numbers from 1 on."""
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or min(found) < 1:
        raise ExperimentError(f"{option}: found {text!r}; allowed: whole numbers from 1 on: 1,2,4")
    return found


# --- the table --------------------------------------------------------------------------------


def print_ladder(ladder: Ladder, console: Console) -> None:
    """A row per level, then ceiling, naive figures and knee, and what to distrust."""
    load = ladder.load
    console.print(
        Text(
            f"{load.profile.name}: closed loop on one replica, replies of {load.audio:g} s, prompts"
            f" of {load.prompt} tokens, chunks {','.join(map(str, load.chunks))},"
            f" {codec_words(load)}; mean of {ladder.seeds} seeds",
            style="dim",
        )
    )
    if load.as_measured:
        console.print(Text(_as_measured(load), style="dim"))
    console.print(_table(ladder))
    for line in sentences(ladder):
        console.print(line, soft_wrap=False)


def _as_measured(load: Load) -> str:
    """Which settings are the profile's own."""
    played = load.profile.played
    own = {name: getattr(load, name) for name in load.as_measured}
    own = {name: value for name, value in own.items() if value not in (0, "fifo")}
    if "audio" in own:
        own["audio"] = f"{load.audio:g} s"
    if "chunks" in own:
        own["chunks"] = ",".join(map(str, load.chunks))
    text = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in own.items())
    loop = "" if played is None or played.load == "closed" else f" (a {played.load} load, there)"
    return f"as the profile's figures were measured{loop}: {text}; options change them"


COLUMNS: list[tuple[str, str, Any]] = [
    ("p99\npace", "pace_p99", words.times),
    ("TTFA ms\np50", "ttfa_p50_s", words.milliseconds),
    ("\np95", "ttfa_p95_s", words.milliseconds),
    ("audio s\nper s", "xrt", words.amount),
    ("RTF", "rtf", lambda v: f"{v:.3f}"),
    ("replies that\nstall", "stalled_share", words.percent),
    ("C100", "c100", words.percent),
    ("busy\ndecode", "busy_decode", words.percent),
    ("\nhost", "busy_host", words.percent),
    ("\ncodec", "busy_codec", words.percent),
]


def _table(ladder: Ladder) -> Table:
    known = {n: [ladder.mean(n, c) for c in ladder.levels] for _, n, _ in COLUMNS}
    columns = [c for c in COLUMNS if any(v is not None for v in known[c[1]])]
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    table.add_column("callers", justify="right", vertical="bottom")
    for head, _, _ in columns:
        table.add_column(head, justify="right", vertical="bottom")
    table.add_column("seeds\nthat pass", justify="right", vertical="bottom")
    for i, callers in enumerate(ladder.levels):
        cells = []
        for _, name, show in columns:
            value = known[name][i]
            cells.append(words.NOT_MEASURED if value is None else show(value))
        pace = known["pace_p99"][i]
        share = ladder.share(callers)
        style = "red" if pace is not None and pace < 1 else "yellow" if share < 1 else ""
        mark = " (!)" if ladder.extrapolated(callers) else ""
        table.add_row(f"{callers}{mark}", *cells, words.percent(share), style=style)
    return table


def sentences(ladder: Ladder) -> list[Text]:
    """Ceiling, naive figures, knee; warnings."""
    found = [_ceiling(ladder)]
    shown = _thinned(ladder.around)
    shares = ", ".join(f"{c}: {words.percent(ladder.share(c))}" for c in shown)
    found.append(Text(f"  seeds that pass, by callers: {shares}"))
    best = ladder.ceiling(0.5)
    found.append(
        Text(
            f"  a benchmark at batch 1 suggests {ladder.naive:.1f} (1 / RTF of a caller alone)"
            f"{_against(best, ladder.naive)}"
        )
    )
    most = ladder.naive_throughput
    found.append(
        Text(
            f"  a benchmark's throughput suggests {words.amount(most)} listeners (so many audio-s/s"
            f", the most on the ladder, at {ladder.peak} callers){_against(best, most)}"
        )
    )
    found.append(Text(f"  {_knee(ladder)}"))
    return found + warnings(ladder)


def _ceiling(ladder: Ladder) -> Text:
    half, nine, all_ = (ladder.ceiling(p) for p in (0.5, 0.9, 1.0))
    least = "at least " if ladder.censored else ""
    rule = f"p99 pace of {ladder.limit:g} or more"
    if half == 0:
        text = f"CEILING 0: not even one caller keeps a {rule} in half of the seeds"
    else:
        text = (
            f"CEILING {least}{half} at once: a {rule} in 50 % of {ladder.seeds} seeds; "
            f"{nine} in 90 %, {all_} in all of them"
        )
    if half and ladder.extrapolated(half):
        text += "  EXTRAPOLATED (!)"
    return Text(text, style="bold")


def _against(ceiling: int, other: float) -> str:
    """How far the ceiling lies from another figure."""
    if not ceiling or not other:
        return ""
    if ceiling < other:
        return f": the ceiling is {1 - ceiling / other:.0%} below it"
    return f": the ceiling is {ceiling / other:.1f} times that"


def _knee(ladder: Ladder) -> str:
    if ladder.knee is None:
        return "throughput knee: not reached, every doubling that was tried adds 10 %"
    text = f"throughput knee: {ladder.knee} callers, beyond which doubling adds less than 10 %"
    return f"{text}{_against(ladder.ceiling(0.5), ladder.knee)}"


def _thinned(values: list[int]) -> list[int]:
    step = -(-len(values) // SHOWN_AROUND)
    return values[::step] if step == 1 else sorted({*values[::step], values[-1]})


def warnings(ladder: Ladder) -> list[Text]:
    """What a reader must know before trusting the ladder."""
    found = []
    name, far = ladder.load.profile.name, ladder.measured_to
    seen = {*ladder.levels, ladder.ceiling(0.5), ladder.knee or 0}
    beyond = [c for c in seen if ladder.extrapolated(c)]
    if beyond:
        found.append(
            f"(!) EXTRAPOLATED: {name} was measured at up to {far:g} streams; everything above, "
            f"from {min(beyond)} callers on, is its curve drawn on, not a measurement"
        )
    elif far is None:
        found.append(f"(!) {name} does not say at which batches it was measured")
    found += [f"note: {text}" for text in [*_stalls_below(ladder), *_outside(ladder.load)]]
    found += [
        f"(!) latency x throughput is {ladder.mean('in_flight', c) or 0:.1f} at {c} callers: the "
        "run is too short for replies of this length"
        for c in ladder.off()
    ]
    return [Text(text, style="bold red" if text.startswith("(!)") else "dim") for text in found]


def _stalls_below(ladder: Ladder) -> list[str]:
    """Levels that keep the pace and yet stall: pace does not see how little was in hand."""
    for callers in ladder.levels:
        c100 = ladder.mean("c100", callers)
        if c100 is not None and c100 < 0.99 and ladder.share(callers) >= 0.5:
            return [
                f"at {callers} callers the pace passes, yet {words.percent(1 - c100)} of the "
                "replies stall for over 100 ms: pace does not see a first chunk too short for the "
                "second"
            ]
    return []


def _outside(load: Load) -> list[str]:
    """Prompt and context outside the measured range; none where they are those measured."""
    measured = load.profile.range
    if measured is None or {"audio", "prompt"} <= set(load.as_measured):
        return []
    found = []
    if load.prompt > measured.prefill_tokens[1]:
        found.append(
            f"prompts of {load.prompt} tokens were not measured "
            f"(up to {measured.prefill_tokens[1]:g})"
        )
    context = load.prompt + load.audio / load.token_audio
    low, high = measured.context_tokens
    if context > high or load.prompt > high:
        found.append(f"contexts of up to {context:.0f} tokens were not measured ({low:g}-{high:g})")
    return found
