"""``run --trace``: one run of a study again, with a log of a window, as trace.json."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from voicesim.engine.trace import MOST_EVENTS, MOST_OF_ASR
from voicesim.experiment.metrics import ExperimentError
from voicesim.metrics import trace
from voicesim.metrics.dialogue_trace import of_dialogue
from voicesim.metrics.stalls import clock
from voicesim.scenario import Scenario, ScenarioFile
from voicesim.scenario.units import stated_duration
from voicesim.session.play import simulate_dialogue
from voicesim.simulation import simulate

MOST_BYTES = 200_000_000
"""Size of a trace at most; the end of a longer one is cut off."""
CLOCK = re.compile(r"(?:(\d+):)?(\d{1,2}):(\d{1,2}(?:\.\d+)?)")


@dataclass(frozen=True)
class Window:
    """What is traced: seconds from the start of a run, of one variant and replication."""

    start: float
    end: float
    variant: str
    replication: int


def window_of(text: str, whose: str | None, study: ScenarioFile) -> Window:
    """From ``--trace 12:00..12:30`` and ``--trace-of VARIANT[:REPLICATION]``.

    Raises ExperimentError.
    """
    begins, dots, ends = text.partition("..")
    if not dots:
        raise ExperimentError(
            f"--trace {text}: a window is FROM..TO, as 12:00..12:30 or 4min..5min"
        )
    start, end = (_instant(each, text) for each in (begins, ends))
    variant, replication = _whose(whose, study)
    scenario = study.variants[variant]
    last = scenario.horizon + scenario.drain
    if not start < end:
        raise ExperimentError(f"--trace {text}: ends before it begins")
    if start < 0.0 or end > last:
        raise ExperimentError(
            f"--trace {text}: the run is 0:00:00.0..{clock(last)} long (horizon and drain)"
        )
    return Window(start, end, variant, replication)


def _instant(text: str, whole: str) -> float:
    if found := CLOCK.fullmatch(text.strip()):
        hours, minutes, seconds = found.groups()
        return 3600.0 * float(hours or 0) + 60.0 * float(minutes) + float(seconds)
    try:
        return stated_duration(text.strip())
    except ValueError as problem:
        raise ExperimentError(
            f"--trace {whole}: {text.strip()!r} is neither m:ss, h:mm:ss nor a duration ({problem})"
        ) from None


def _whose(text: str | None, study: ScenarioFile) -> tuple[str, int]:
    if text is None:
        return next(iter(study.variants)), 0
    name, number = text, "0"
    if name not in study.variants:
        name, _, number = text.rpartition(":")
    if name not in study.variants:
        known = ", ".join(study.variants)
        raise ExperimentError(f"--trace-of {text}: no such variant; there are {known}")
    count = study.variants[name].replications
    if not number.isdigit() or int(number) >= count:
        raise ExperimentError(f"--trace-of {text}: {name} has the replications 0 to {count - 1}")
    return name, int(number)


def write_trace(study: ScenarioFile, window: Window, engine: str, path: Path) -> str:
    """Play the window's run again and write its trace; returns a sentence about it."""
    scenario = study.variants[window.variant]
    events, full = _events(scenario, window, engine)
    about = {"variant": window.variant, "replication": window.replication}
    span = f"{clock(window.start)}..{clock(window.end)}"
    written, cut = _write(events, {**about, "window": span}, path)
    said = f"trace.json: {written:,} events of {window.variant}, replication {window.replication}"
    said += f", {span}; open it at https://ui.perfetto.dev"
    ends = [t for t in (full, cut) if t is not None]
    if ends:
        said += f" (cut at {clock(min(ends))}: too much for one file; trace a shorter window)"
    return said


def _events(
    scenario: Scenario, window: Window, engine: str
) -> tuple[list[trace.Event], float | None]:
    between = (window.start, window.end)
    if scenario.dialogue is not None:
        run = simulate_dialogue(scenario, window.replication, engine, trace=between)
        logs = [(pool.trace_f, MOST_EVENTS) for pool in run.record.pools]
        if run.record.asr:
            logs.append((run.record.asr["trace_f"], MOST_OF_ASR))
        return of_dialogue(run), trace.cut_at(logs)
    runs = [simulate(part, window.replication, engine, trace=between) for part in scenario.apart()]
    return trace.of_pools(runs), trace.cut_at([(run.record.trace_f, MOST_EVENTS) for run in runs])


def _write(
    events: Iterable[trace.Event], about: dict[str, object], path: Path
) -> tuple[int, float | None]:
    """How many were written, and where it was cut (s), None: nowhere."""
    head = json.dumps(about, allow_nan=False)
    size = count = 0
    with path.open("w", encoding="utf-8") as file:
        file.write(f'{{"displayTimeUnit": "ms", "otherData": {head}, "traceEvents": [\n')
        for event in events:
            line = json.dumps(event, allow_nan=False, separators=(",", ":"))
            size += len(line) + 2
            if size > MOST_BYTES:
                file.write("\n]}\n")
                return count, event["ts"] / 1e6
            file.write((",\n" if count else "") + line)
            count += 1
        file.write("\n]}\n")
    return count, None
