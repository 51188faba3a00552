"""The ``validate`` command: measured against predicted, as a table and as JSON."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from voicesim import terminal
from voicesim.calibrate.errors import CalibrationError
from voicesim.engine.profile import Profile, ProfileError, load_profile
from voicesim.experiment.traces import read_runs
from voicesim.experiment.validate import METRICS, Setting, as_data, compared, validate
from voicesim.report import words
from voicesim.report.ladder import progress, write_json


def _ms(seconds: float) -> str:
    """52.5 ms"""
    return f"{1000 * seconds:.1f} ms"


SHOWN: dict[str, tuple[str, Callable[[float], str]]] = {
    "gap_p50_s": ("token gap p50 (ITL)", _ms),
    "gap_p90_s": ("token gap p90 (ITL)", _ms),
    "gap_p99_s": ("token gap p99 (ITL)", _ms),
    "pace_p50": ("pace p50", words.times),
    "pace_p99": ("pace, slowest 1 %", words.times),
    "ttft_p50_s": ("TTFT p50", _ms),
    "ttft_p95_s": ("TTFT p95", _ms),
    "stalled_share": ("streams that stall", words.percent),
    "stall_total_s": ("stalls, all streams", lambda v: f"{v:.2f} s"),
    "tokens_per_s": ("tokens per second", lambda v: f"{v:.1f}"),
}
BRIEF = (
    ("gap p50, ms", "gap_p50_s", 1000.0, 1),
    ("gap p99, ms", "gap_p99_s", 1000.0, 0),
    ("tokens per s", "tokens_per_s", 1.0, 0),
)
"""Columns where a file has many settings: title, metric, scale, decimals."""
WHOLE = 4
"""So many settings get a table of every metric each; more, a row each."""


def validate_command(
    profile_path: Path,
    trace: Path,
    sessions: Path | None,
    seeds: int,
    buffer: int,
    json_file: Path | None,
    quiet: bool,
) -> int:
    """Replay, print, write; returns the exit code (0, 2 for bad input, 130 when interrupted)."""
    console = terminal.console(quiet)
    terminal.stop_on_sigterm()
    try:
        profile = load_profile(profile_path)
        runs = read_runs(trace, sessions, profile)
        with progress(Console(stderr=True), quiet) as report:
            settings = validate(profile, runs, seeds, buffer, report)
        if json_file is not None:
            write_json(json_file, as_data(profile, settings, trace.name, seeds, buffer))
    except (CalibrationError, ProfileError, OSError) as problem:
        print(problem, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted: nothing was written", file=sys.stderr)
        return 130
    print_validation(profile, settings, trace.name, seeds, buffer, console)
    return 0


def print_validation(
    profile: Profile,
    settings: Sequence[Setting],
    trace: str,
    seeds: int,
    buffer: int,
    console: Console,
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
    if len(settings) > WHOLE:
        console.print(_several(settings))
    for setting in settings if len(settings) <= WHOLE else ():
        if len(settings) > 1:
            console.print(Text(setting.name, style="bold"))
        console.print(_one(setting))
    for line in sentences(profile, settings):
        console.print(line)


def _count(n: int, what: str) -> str:
    return f"{n:,} {what}" + ("" if n == 1 else "s")


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    for i, name in enumerate(columns):
        table.add_column(name, justify="left" if i == 0 else "right", vertical="bottom")
    return table


def _one(setting: Setting) -> Table:
    repeats = len(setting.runs) > 1
    over = ["min to max\nof the runs", "spread of\nthe runs"] if repeats else []
    table = _table("", "measured", *over, "predicted", "min to max\nof the replays", "error")
    for name, (title, show) in SHOWN.items():
        found = compared(setting, name)
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


def _several(settings: Sequence[Setting]) -> Table:
    heads = [h for title, _, _, _ in BRIEF for h in (f"{title}\nmeasured, predicted", "error")]
    table = _table("setting", *heads)
    table.columns[0].no_wrap = True
    for setting in settings:
        cells = [setting.name]
        for _, name, scale, decimals in BRIEF:
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


def sentences(profile: Profile, settings: Sequence[Setting]) -> list[Text]:
    """Mean errors, how far runs differ from each other, and what to distrust."""
    found = []
    if len(settings) > 1:
        parts = []
        for name in ("gap_p50_s", "gap_p99_s", "tokens_per_s"):
            errors = [e for s in settings if (e := compared(s, name)["error"]) is not None]
            if errors:
                mean = sum(map(abs, errors)) / len(errors)
                parts.append(f"{SHOWN[name][0]} {mean:.1%}")
        found.append("mean absolute error over the settings: " + ", ".join(parts))
    repeats = [v for s in settings if (v := compared(s, "gap_p50_s")["spread"]) is not None]
    if repeats:
        mean = sum(repeats) / len(repeats)
        found.append(f"repeats of one setting differ by {mean:.1%} (standard deviation) in gap p50")
    elif profile.fit is not None and profile.fit.run_spread is not None:
        found.append(
            f"no repeats here; the profile's own runs differed by {profile.fit.run_spread:.0%} "
            "(standard deviation): an error below that is luck"
        )
    if not all(run.send_known for s in settings for run in s.runs):
        found.append(
            "send times are not known (--sessions): first token minus the predicted first step; "
            "TTFT is not compared"
        )
    lines = [Text(text) for text in found]
    most = max(s.most_running for s in settings)
    if profile.range is not None and most > profile.range.batch[1]:
        text = f"(!) steps of up to {most} streams; measured up to {profile.range.batch[1]:g}"
        lines.append(Text(text, style="bold red"))
    return lines


assert set(SHOWN) == set(METRICS)
