"""The ``run`` command: progress, table, figure and folder of one study."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from voicesim.engine.kernel.jit import is_compiled
from voicesim.experiment.backends import refuse
from voicesim.experiment.metrics import ExperimentError
from voicesim.experiment.tables import elsewhere
from voicesim.metrics.fleet import needs_rows
from voicesim.progress import Progress
from voicesim.report.dialogue_figure import waterfall_figure
from voicesim.report.dialogue_table import print_dialogues
from voicesim.report.fates import degrades, fates_figure
from voicesim.report.figure import peak_figure
from voicesim.report.html.run import write_report
from voicesim.report.studies import DONE, STOPPED, attempt, hand_over
from voicesim.report.table import print_report
from voicesim.report.trace import Window, window_of, write_trace
from voicesim.runfolder import RunFolder, write_results
from voicesim.scenario import ScenarioFile, load
from voicesim.simulation import checked
from voicesim.study import StudyResult, run_study


@dataclass(frozen=True)
class How:
    """workers: processes, or of a local cluster; None: one per core.  chunks: write them too.
    engine: kernel or reference.  marginal: dialogues also with one thing changed at a time
    (voicesim.metrics.dialogue_marginal).  backend, address: see experiment.backends.  trace,
    trace_of: see report.trace.  rows: of every call, written or not; None: by the run's size (see
    study.job)."""

    workers: int | None = None
    chunks: bool = False
    engine: str = "kernel"
    backend: str = "processes"
    address: str | None = None
    marginal: bool = False
    trace: str | None = None
    trace_of: str | None = None
    rows: bool | None = None


def run_command(
    file: Path,
    out: Path | None,
    sets: Sequence[str],
    seed: int | None,
    replications: int | None,
    how: How,
    quiet: bool,
    as_json: bool = False,
) -> int:
    """Run a scenario file; returns the exit code (0, 1 workers lost, 2 for bad input, 130 when
    interrupted)."""
    shown = out or Path("runs") / file.stem

    def read() -> tuple[ScenarioFile, RunFolder]:
        refuse(how.backend, how.workers, how.address)
        study = checked(load(file, sets=sets, seed=seed, replications=replications))
        _refuse_rows(study, how)
        _window(study, how)  # what is wrong with it is said before anything is written
        return study, RunFolder(shown)

    found = attempt(read)
    if isinstance(found, int):
        return found
    return play_and_show(*found, shown, how, quiet, (), as_json)


def play_and_show(
    study: ScenarioFile, folder: RunFolder, shown: Path, how: How, quiet: bool,
    notes: Sequence[str] = (), as_json: bool = False,
) -> int:  # fmt: skip
    """Play a study, publish its folder and print it (or its summary.json); returns the exit code.

    shown: the folder as the user named it.  notes: assumptions to keep and print with the model's.
    """
    if how.engine == "kernel" and not quiet and not is_compiled():
        print("compiling the kernel, once: about 20 s", file=sys.stderr)

    def work() -> tuple[StudyResult, Path]:
        result = play(study, folder, how, quiet, notes)
        return result, folder.publish()

    found = attempt(work, study.path)
    if isinstance(found, int):
        return found
    result, target = found
    did = "replaced the run in" if folder.replaces else "wrote"
    hand_over(
        lambda console: show(result, console),
        lambda: json.loads((target / "summary.json").read_text(encoding="utf-8")),
        f"{did} {shown}/ (report.html, summary.json, scenario.yaml, peak.png, tables in Parquet)"
        + (f"\n{result.trace}" if result.trace else ""),
        shown, as_json, quiet,
    )  # fmt: skip
    if not result.complete:
        _say_what_is_missing(result, shown)
        return STOPPED
    return DONE


def play(
    study: ScenarioFile, folder: RunFolder | None, how: How, quiet: bool, notes: Sequence[str] = (),
) -> StudyResult:  # fmt: skip
    """Play a study and write its folder, all but the publishing; it is discarded if that fails.

    Raises PolicyError, NoProgressError, ExperimentError, WorkerDied; KeyboardInterrupt if no run
    was finished.
    """
    try:
        if how.marginal:
            _refuse_marginal(study, how)
        with Progress(quiet) as bar:
            path = None if folder is None else folder.path
            place = elsewhere(
                how.backend, how.workers, how.address, path, how.chunks, how.engine, how.rows
            )
            result = run_study(study, path, how.workers, how.chunks, how.engine, bar.show, place,
                               how.marginal, how.rows)  # fmt: skip
        result.notes = notes
        if folder is not None:
            write_results(result, folder.path)
            draw(result, folder.path)
            write_report(result, folder.path)
            if (window := _window(study, how)) is not None and result.complete:
                path = folder.path / "trace.json"
                result.trace = write_trace(study, window, how.engine, path)
    except BaseException:
        if folder is not None:
            folder.discard()
        raise
    return result


def _window(study: ScenarioFile, how: How) -> Window | None:
    """What is to be traced.  Raises ExperimentError."""
    if how.trace is None:
        if how.trace_of is not None:
            raise ExperimentError("--trace-of is of --trace FROM..TO, which is not given")
        return None
    return window_of(how.trace, how.trace_of, study)


def _refuse_rows(study: ScenarioFile, how: How) -> None:
    """Raise ExperimentError where the rows cannot be left out."""
    if how.rows is not False:
        return
    if how.chunks:
        raise ExperimentError("--no-rows: --chunks asks for rows; give one of the two")
    if study.variants[study.baseline].dialogue is not None:
        raise ExperimentError("--no-rows: a run of dialogues keeps its rows; only kind tts can not")
    if any(needs_rows(scenario) for scenario in study.variants.values()):
        raise ExperimentError("--no-rows: shadow policies and a rollout's guard look at the rows")


def _refuse_marginal(study: ScenarioFile, how: How) -> None:
    """Raise ExperimentError where there are no segments, or the runs are played elsewhere."""
    if study.variants[study.baseline].dialogue is None:
        raise ExperimentError("--marginal: only a dialogue (workload.kind) has segments")
    if how.backend != "processes":
        raise ExperimentError(f"--marginal is of --backend processes, not {how.backend}")


def show(result: StudyResult, console: Console) -> None:
    """The table of a study, of whichever kind."""
    if result.of_dialogues:
        print_dialogues(result.summary, result.context, console)
    else:
        print_report(result.summary, result.context, console, result.pools)


def draw(result: StudyResult, folder: Path) -> None:
    """The figures of a study, of whichever kind."""
    peak_figure(result.series, result.summary, result.context, folder / "peak.png")
    if degrades(result.summary):
        fates_figure(result.summary, result.context, folder / "fates.png")
    if result.of_dialogues:
        waterfall_figure(result.summary, result.context, folder / "waterfall.png")


def _say_what_is_missing(result: StudyResult, target: Path) -> None:
    done, planned = len(result.outcomes), sum(v.replications for v in result.file.variants.values())
    print(f"interrupted: {done} of {planned} runs are finished and kept in {target}/",
          file=sys.stderr)  # fmt: skip
