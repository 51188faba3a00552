"""The ``validate`` command: measured against predicted, as a table and as JSON."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from voicesim.calibrate.readers import arrival_trace, form_of, read
from voicesim.catalogue.profiles import profile_file
from voicesim.engine.profile import Profile, load_profile
from voicesim.experiment.assumed import Given, refuse_unused, replica_of, token_audio_of
from voicesim.experiment.metrics import ExperimentError
from voicesim.experiment.reenact import validate_replies
from voicesim.experiment.replies import replies_of, with_audio
from voicesim.experiment.traces import read_runs, runs_of_tokens
from voicesim.experiment.validate import Setting, as_data, compared, validate
from voicesim.files import write_json
from voicesim.progress import Progress, Show
from voicesim.report import words
from voicesim.report.ladder import usual_prompt, whole_numbers
from voicesim.report.studies import DONE, attempt, hand_over
from voicesim.report.validate_sheets import REPLIES, TOKENS, Brief, Sheet, Shown, of_replies
from voicesim.runfolder import RunFolder
from voicesim.scenario.units import duration

FILES = ("validate.json", "validate.png", "report.html")
DPI = 120


def validate_command(
    profile_path: Path,
    trace: Path,
    sessions: Path | None,
    asked: Mapping[str, Any],
    seeds: int,
    buffer: int,
    json_file: Path | None,
    out: Path | None,
    as_json: bool,
    quiet: bool,
) -> int:
    """Replay, print, write; returns the exit code (0, 2 for bad input, 130 when interrupted).

    out: a folder with a page; None: none is written.

    asked: chunk, codec_cap, codec_window, left_context, prompt, concurrency as on the command line.
    """

    def work() -> tuple[Profile, list[Setting], Sheet, dict[str, Any]]:
        read_too = [path.resolve() for path in (profile_path, trace, sessions) if path]
        if json_file is not None and json_file.resolve() in read_too:
            raise ExperimentError(f"--json-file {json_file}: is read too; give it another name")
        profile = load_profile(profile_file(profile_path))
        given = read_given(asked)
        folder = None if out is None else RunFolder(out, FILES, ())
        try:
            with Progress(quiet) as progress:
                found, sheet = replayed(
                    profile, trace, sessions, given, seeds, buffer, progress.show
                )
            names = list(sheet.shown)
            data = as_data(profile, found, trace.name, seeds, buffer, names, sheet.notes)
            if folder is not None:
                write_folder(folder.path, profile, found, sheet, data)
            if json_file is not None:
                write_json(json_file, data)
        except BaseException:
            if folder is not None:
                folder.discard()
            raise
        if folder is not None:
            folder.publish()
        return profile, found, sheet, data

    answer = attempt(work)
    if isinstance(answer, int):
        return answer
    profile, settings, sheet, data = answer
    hand_over(
        lambda console: print_validation(
            profile, settings, trace.name, seeds, buffer, console, sheet
        ),
        lambda: data, _wrote(json_file, out), out or json_file, as_json, quiet,
    )  # fmt: skip
    return DONE


def _wrote(json_file: Path | None, out: Path | None) -> str:
    lines = [] if json_file is None else [f"wrote {json_file}"]
    return "\n".join(lines + ([] if out is None else [f"wrote {out}/ ({', '.join(FILES)})"]))


def write_folder(
    folder: Path, profile: Profile, settings: Sequence[Setting], sheet: Sheet,
    data: Mapping[str, Any],
) -> None:  # fmt: skip
    """The validation as JSON, as a picture and as a page."""
    from voicesim.report.html.study import write_study
    from voicesim.report.png import png
    from voicesim.report.validate_figure import draw

    write_json(folder / FILES[0], data)
    picture = png(draw(settings, sheet.shown), DPI)
    (folder / FILES[1]).write_bytes(picture)
    seeds, buffer = data["seeds"], data["buffer_tokens"]

    def show(console: Console) -> None:
        print_validation(profile, settings, data["trace"], seeds, buffer, console, sheet)

    alt = "How far each predicted metric is from the measured one"
    write_study(folder, data, verdict(profile, settings, sheet), show, {alt: picture})


def verdict(profile: Profile, settings: Sequence[Setting], sheet: Sheet) -> list[str]:
    """How far the predictions are from what was measured, in two sentences."""
    errors = {
        name: [e for s in settings if (e := compared(s, name)["error"]) is not None]
        for _, name, _, _ in sheet.brief
    }
    found = {name: of for name, of in errors.items() if of}
    if not found:
        return [f"Nothing that {profile.name} predicts was measured here"]
    name, of = next(iter(found.items()))
    title = sheet.shown[name][0]
    mean = sum(of) / len(of)
    many = f" on average over {len(of)} settings" if len(of) > 1 else ""
    way = f"{abs(mean):.1%} too {'high' if mean > 0 else 'low'}"
    way = "as measured, to a tenth of a percent" if abs(mean) < 0.0005 else way
    first = f"{profile.name} predicts {title} {way}{many}"
    worst = max(((n, e) for n, every in found.items() for e in every), key=lambda e: abs(e[1]))
    largest = f"The largest error of the headline figures is {worst[1]:+.1%}"
    return [first, f"{largest}, in {sheet.shown[worst[0]][0]}"]


def read_given(asked: Mapping[str, Any]) -> Given:
    """The options of the server and the load; raises ExperimentError."""
    chunk, window = asked["chunk"], asked["codec_window"]
    try:
        gather = None if window is None else duration(window)
    except ValueError as problem:
        raise ExperimentError(f"--codec-window: {problem}") from None
    return Given(
        None if chunk is None else tuple(whole_numbers("--chunk", chunk)),
        asked["codec_cap"],
        gather,
        asked["left_context"],
        asked["prompt"],
        asked["concurrency"],
    )


def replayed(
    profile: Profile,
    trace: Path,
    sessions: Path | None,
    given: Given,
    seeds: int,
    buffer: int,
    report: Show,
) -> tuple[list[Setting], Sheet]:
    """Every run of a file, replayed by what the file holds: tokens, chunks, or requests."""
    if form_of(trace) is arrival_trace:
        refuse_unused(given, f"{trace.name} is a trace of tokens")
        return validate(profile, read_runs(trace, sessions, profile), seeds, buffer, report), TOKENS
    if sessions is not None:
        raise ExperimentError(f"--sessions: goes with a trace of tokens; {trace.name} is none")
    measured = with_audio(read(trace))
    tokens = measured.tokens
    if (
        tokens is not None
        and measured.requests is not None
        and tokens["prompt_tokens"].notna().all()
    ):
        refuse_unused(given, f"{trace.name} has every token's arrival")
        runs = runs_of_tokens(tokens, measured.requests, profile)
        return validate(profile, runs, seeds, buffer, report), TOKENS
    replies, notes = replies_of(
        measured, lambda: token_audio_of(profile, measured.file), usual_prompt(profile), given
    )
    replica = replica_of(measured, profile, replies[0].spoken, given)
    settings = validate_replies(replica, replies, seeds, buffer, report)
    return settings, of_replies([*notes, *replica.notes])


def print_validation(
    profile: Profile,
    settings: Sequence[Setting],
    trace: str,
    seeds: int,
    buffer: int,
    console: Console,
    sheet: Sheet = TOKENS,
) -> None:
    """Few settings: a table each, a row per metric.  Many: a row per setting.  Then the mean
    error."""
    streams = sum(len(run.sent) for s in settings for run in s.runs)
    runs = sum(len(s.runs) for s in settings)
    console.print(
        Text(
            f"{trace} on {profile.name}: {_count(runs, 'run')}, {_count(streams, 'stream')}, "
            f"replayed under {_count(seeds, 'seed')}; the player gathers {_count(buffer, 'token')}",
            style="dim",
        )
    )
    if len(settings) > sheet.whole:
        console.print(_several(settings, sheet.brief))
    for setting in settings if len(settings) <= sheet.whole else ():
        if len(settings) > 1:
            console.print(Text(setting.name, style="bold"))
        console.print(_one(setting, sheet.shown))
    for line in sentences(profile, settings, sheet):
        console.print(line)


def _count(n: int, what: str) -> str:
    return f"{n:,} {what}" + ("" if n == 1 else "s")


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    for i, name in enumerate(columns):
        table.add_column(name, justify="left" if i == 0 else "right", vertical="bottom")
    return table


def _one(setting: Setting, shown: Shown) -> Table:
    repeats = len(setting.runs) > 1
    over = ["min to max\nof the runs", "spread of\nthe runs"] if repeats else []
    table = _table("", "measured", *over, "predicted", "min to max\nof the replays", "error")
    for name, (title, show) in shown.items():
        found = compared(setting, name)
        if shown is REPLIES and found["measured"] is None:
            continue
        spread = [_range(found, "measured", show), _percent(found["spread"], "")]
        table.add_row(
            title,
            _text(found["measured"], show),
            *(spread if repeats else []),
            _text(found["predicted"], show),
            _range(found, "predicted", show),
            _percent(found["error"]),
        )
    return table


def _several(settings: Sequence[Setting], brief: Brief) -> Table:
    heads = [h for title, _, _, _ in brief for h in (f"{title}\nmeasured, predicted", "error")]
    table = _table("setting", *heads)
    table.columns[0].no_wrap = True
    for setting in settings:
        cells = [setting.name]
        for _, name, scale, decimals in brief:
            found = compared(setting, name)
            measured, predicted = found["measured"], found["predicted"]
            if measured is None or predicted is None:
                cells += [words.NOT_MEASURED, ""]
                continue
            cells.append(f"{scale * measured:.{decimals}f} {scale * predicted:10.{decimals}f}")
            cells.append(_percent(found["error"]))
        table.add_row(*cells)
    return table


def _text(value: float | None, show: Callable[[float], str]) -> str:
    return words.NOT_MEASURED if value is None else show(value)


def _range(found: dict[str, float | None], side: str, show: Callable[[float], str]) -> str:
    low, high = found[f"{side}_low"], found[f"{side}_high"]
    return "" if low is None or high is None else f"{show(low)} to {show(high)}"


def _percent(value: float | None, sign: str = "+") -> str:
    return "" if value is None else f"{100 * value:{sign}.1f}%"


# --- sentences --------------------------------------------------------------------------------


def sentences(profile: Profile, settings: Sequence[Setting], sheet: Sheet = TOKENS) -> list[Text]:
    """Mean errors, how far runs differ from each other, and what to distrust."""
    found = []
    if len(settings) > 1:
        parts = []
        for _, name, _, _ in sheet.brief:
            errors = [e for s in settings if (e := compared(s, name)["error"]) is not None]
            if errors:
                mean = sum(map(abs, errors)) / len(errors)
                parts.append(f"{sheet.shown[name][0]} {mean:.1%}")
        found.append("mean absolute error over the settings: " + ", ".join(parts))
    spreads: list[str] = []
    for title, name, _, _ in sheet.brief if sheet.shown is REPLIES else sheet.brief[:1]:
        each = [v for s in settings if (v := compared(s, name)["spread"]) is not None]
        if each:
            mean, what = sum(each) / len(each), title.split(",")[0]
            spreads.append(f"{mean:.1%}{'' if spreads else ' (standard deviation)'} in {what}")
    if spreads:
        found.append(f"repeats of one setting differ by {', '.join(spreads)}")
    elif profile.fit is not None and profile.fit.run_spread is not None:
        found.append(
            f"no repeats here; the profile's own runs differed by {profile.fit.run_spread:.0%} "
            "(standard deviation): an error below that is luck"
        )
    if not all(run.send_known for s in settings for run in s.runs):
        found.append(sheet.unsent)
    found += [f"assumed: {note}" for note in sheet.notes]
    lines = [Text(text) for text in found]
    most = max(s.most_running for s in settings)
    if profile.range is not None and most > profile.range.batch[1]:
        text = f"(!) steps of up to {most} streams; measured up to {profile.range.batch[1]:g}"
        lines.append(Text(text, style="bold red"))
    return lines
