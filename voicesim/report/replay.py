"""The ``replay`` command: recorded calls on a scenario's cluster, under its policies."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from voicesim.calibrate.errors import CalibrationError
from voicesim.experiment.backends import refuse
from voicesim.experiment.metrics import ExperimentError
from voicesim.experiment.replay import Calls, calls_csv, recorded_calls
from voicesim.files import write_whole
from voicesim.report.run import How, play_and_show
from voicesim.report.studies import DONE, attempt, hand_over
from voicesim.runfolder import FILES, RunFolder
from voicesim.scenario import Scenario, ScenarioErrors, ScenarioFile, load
from voicesim.scenario.arrivals import Trace
from voicesim.scenario.loader import Mark, Tree
from voicesim.simulation import checked
from voicesim.workload import draw_arrivals

CALLS = "calls.csv"
"""The recorded calls in the run folder, as ``arrivals: {kind: trace}`` reads them."""


def replay_command(
    traces: Sequence[Path],
    scenario: Path | None,
    knobs: dict[str, float | None],
    seconds_per_token: float | None,
    run: str | None,
    convert: Path | None,
    out: Path | None,
    sets: Sequence[str],
    seed: int | None,
    replications: int | None,
    how: How,
    quiet: bool,
    as_json: bool = False,
) -> int:
    """Replay recorded files; returns the exit code (0, 1 workers lost, 2 for bad input,
    130 when interrupted).

    knobs: speed, scale, jitter, after, until of the trace, None where not given.  convert: only
    write the calls here.
    """
    shown = out or Path("runs") / f"{'' if scenario is None else scenario.stem}-replay"

    def read() -> Calls:
        if convert is not None and convert.is_dir():
            raise ExperimentError(f"--convert {convert}: is a folder")
        return recorded_calls(traces, seconds_per_token, run)

    def prepare(calls: Calls) -> tuple[ScenarioFile, list[str], RunFolder]:
        if scenario is None:
            raise ExperimentError("--scenario: missing; it says what serves the calls")
        refuse(how.backend, how.workers, how.address)
        folder = RunFolder(shown, files=(*FILES, CALLS))
        try:
            knew = playable(calls, folder.path, scenario, knobs, sets, seed, replications)
        except BaseException:
            folder.discard()
            raise
        return *knew, folder

    calls = attempt(read)
    if isinstance(calls, int):
        return calls
    if convert is not None:
        return _convert(calls, convert, as_json, quiet)
    found = attempt(lambda: prepare(calls))
    if isinstance(found, int):
        return found
    study, notes, folder = found
    return play_and_show(study, folder, shown, how, quiet, notes, as_json)


def playable(
    calls: Calls, folder: Path, scenario: Path, knobs: dict[str, float | None],
    sets: Sequence[str], seed: int | None, replications: int | None,
) -> tuple[ScenarioFile, list[str]]:  # fmt: skip
    """The scenario with these calls, which are written to ``folder``, and what was assumed.

    Raises ScenarioErrors, ModelError; CalibrationError if no call is left.
    """
    (folder / CALLS).write_bytes(calls_csv(calls))
    given = {name: value for name, value in knobs.items() if value is not None}
    change = _recorded(calls, folder / CALLS, given)
    study = checked(load(scenario, sets, seed, replications, change))
    return _named(study), [*calls.notes, *_played(study.variants[study.baseline], calls)]


def _convert(calls: Calls, target: Path, as_json: bool, quiet: bool) -> int:
    def work() -> None:
        try:
            write_whole(target, calls_csv(calls))
        except OSError as problem:
            text = f"--convert {target}: cannot be written: {problem.strerror}"
            raise ExperimentError(text) from None

    if isinstance(code := attempt(work), int):
        return code

    def show(console: Console) -> None:
        for note in calls.notes:
            console.print(f"- {note}", markup=False, highlight=False, soft_wrap=True)

    wrote = f"wrote {target}: {calls.sessions:,} calls; arrivals: {{kind: trace, file: {target}}}"
    data = {"file": str(target), "calls": calls.sessions, "notes": list(calls.notes)}
    hand_over(show, lambda: data, wrote, target, as_json, quiet)
    return DONE


def _recorded(calls: Calls, file: Path, knobs: dict[str, float]) -> Callable[[Tree], None]:
    """The change of a scenario that lets it play the calls: its arrivals, and no law that the
    trace makes idle."""
    known = {name for name, column in calls.table.items() if not column.isna().any()}

    def change(tree: Tree) -> None:
        workload = tree.data.get("workload")
        if not isinstance(workload, dict):
            return  # the scenario's own errors say so
        _no_other_arrivals(tree)
        arrivals = {"kind": "trace", "file": str(file), **knobs}
        tree.put(("workload", "arrivals"), arrivals, {(): Mark("replay", 0)})
        said = workload.get("utterance")
        if isinstance(said, dict):
            for name in ("audio", "tokens") if "audio_s" in known else ():
                said.pop(name, None)
            if "prompt_tokens" in known:
                said.pop("prompt_tokens", None)
        if len(calls.table.columns) > 1:
            workload.pop("utterances_per_session", None)
        alone = len(calls.table.columns) > 1 and "session" not in calls.table
        if "think_s" in known or alone:
            workload.pop("think", None)

    return change


def _no_other_arrivals(tree: Tree) -> None:
    """Refuse a variant that would not play the trace.  Raises ScenarioErrors."""
    variants = tree.data.get("variants")
    found = [
        tree.problem(("variants", name, key), "a replay has the arrivals of its trace")
        for name, overrides in (variants.items() if isinstance(variants, dict) else ())
        for key in (overrides if isinstance(overrides, dict) else ())
        if key in ("workload", "workload.arrivals")
    ]
    if found:
        raise ScenarioErrors(found)


def _played(scenario: Scenario, calls: Calls) -> list[str]:
    """What the window, the clock, the copies and the horizon make of the calls.

    Raises CalibrationError if nothing of them is left.
    """
    arrivals = scenario.workload.arrivals
    assert isinstance(arrivals, Trace)
    starts = np.array(arrivals.starts())
    if not len(starts):
        window = f"from {arrivals.after:g} s" + (
            f" to {arrivals.until:g} s" if arrivals.until else ""
        )
        last = calls.table["t_s"].max()
        text = f"no call starts {window}; those of the trace start up to {last:g} s"
        raise CalibrationError("--from/--until", None, text)
    played = len(draw_arrivals(arrivals, scenario.horizon, scenario.seed, 0))
    if not played:
        text = f"no call starts before the horizon ({scenario.horizon:g} s): the first is at "
        raise CalibrationError("--scenario", None, f"{text}{starts[0]:g} s; give --from")
    notes = [f"{calls.sessions:,} recorded calls"]
    if len(starts) < calls.sessions:
        notes = [f"{calls.sessions:,} recorded calls, {len(starts):,} of them in the window"]
    if arrivals.speed != 1:
        notes.append(
            f"calls start {arrivals.speed:g} times as fast; within a call nothing is hurried"
        )
    if arrivals.scale != 1:
        notes.append(
            f"{arrivals.scale:g} calls for each recorded one: copies start within "
            f"{arrivals.jitter / 2:g} s of it, uniformly"
        )
    in_all = int(len(starts) * arrivals.scale + 0.5)
    if played < in_all:
        notes.append(
            f"the horizon ({scenario.horizon:g} s) is shorter than the trace "
            f"({starts[-1]:g} s): {in_all - played:,} of {in_all:,} calls are cut"
        )
    return notes


def _named(study: ScenarioFile) -> ScenarioFile:
    """The study with the calls under the name that they have in the finished folder."""

    def named(scenario: Scenario) -> Scenario:
        arrivals: Any = scenario.workload.arrivals.model_copy(update={"file": CALLS})
        workload = scenario.workload.model_copy(update={"arrivals": arrivals})
        return scenario.model_copy(update={"workload": workload})

    return ScenarioFile(study.path, {name: named(each) for name, each in study.variants.items()})
