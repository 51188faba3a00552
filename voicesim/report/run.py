"""The ``run`` command: progress, table, figure and folder of one study."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from voicesim import terminal
from voicesim.engine.kernel.jit import is_compiled
from voicesim.engine.spec import NoProgressError
from voicesim.experiment.backends import WorkerDied, refuse
from voicesim.experiment.metrics import ExperimentError
from voicesim.experiment.tables import elsewhere
from voicesim.policy.python import PolicyError
from voicesim.report.dialogue_figure import waterfall_figure
from voicesim.report.dialogue_table import print_dialogues
from voicesim.report.figure import peak_figure
from voicesim.report.table import print_report
from voicesim.runfolder import FolderError, RunFolder, write_results
from voicesim.scenario import ScenarioErrors, ScenarioFile, load
from voicesim.simulation import ModelError, checked
from voicesim.study import Outcome, StudyResult, run_study


@dataclass(frozen=True)
class How:
    """workers: processes, or of a local cluster; None: one per core.  chunks: write them too.
    engine: kernel or reference.  marginal: dialogues also with one thing changed at a time
    (voicesim.metrics.dialogue_marginal).  backend, address: see experiment.backends."""

    workers: int | None = None
    chunks: bool = False
    engine: str = "kernel"
    backend: str = "processes"
    address: str | None = None
    marginal: bool = False


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
    try:
        refuse(how.backend, how.workers, how.address)
        study = checked(load(file, sets=sets, seed=seed, replications=replications))
        folder = RunFolder(shown)
    except (ScenarioErrors, ModelError, FolderError, ExperimentError) as problem:
        print(problem, file=sys.stderr)
        return 2
    return play_and_show(study, folder, shown, how, quiet, (), as_json)


def play_and_show(
    study: ScenarioFile, folder: RunFolder, shown: Path, how: How, quiet: bool,
    notes: Sequence[str] = (), as_json: bool = False,
) -> int:  # fmt: skip
    """Play a study, publish its folder and print it (or its summary.json); returns the exit code.

    shown: the folder as the user named it.  notes: assumptions to keep and print with the model's.
    """
    console = terminal.console(quiet)
    if how.engine == "kernel" and not quiet and not is_compiled():
        print("compiling the kernel, once: about 20 s", file=sys.stderr)
    terminal.stop_on_sigterm()
    try:
        result = play(study, folder, how, quiet, notes)
    except ExperimentError as problem:
        print(problem, file=sys.stderr)
        return 2
    except WorkerDied as problem:
        print(f"{problem}; nothing was kept", file=sys.stderr)
        return 1
    except (PolicyError, NoProgressError) as problem:
        print(f"{study.path}: {problem}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted before any run was finished; nothing was kept", file=sys.stderr)
        return 130
    target = folder.publish()
    if as_json:
        print((target / "summary.json").read_text(encoding="utf-8"), end="")
    else:
        show(result, console)
    did = "replaced the run in" if folder.replaces else "wrote"
    if not as_json:
        console.print(f"{did} {shown}/ (summary.json, scenario.yaml, peak.png, tables in Parquet)")
    if not result.complete:
        _say_what_is_missing(result, target)
        return 130
    return 0


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
        with _progress(Console(stderr=True), quiet) as bar:
            path = None if folder is None else folder.path
            place = elsewhere(how.backend, how.workers, how.address, path, how.chunks, how.engine)
            result = run_study(study, path, how.workers, how.chunks, how.engine, bar.report, place,
                               how.marginal)  # fmt: skip
        result.notes = notes
        if folder is not None:
            write_results(result, folder.path)
            draw(result, folder.path)
    except BaseException:
        if folder is not None:
            folder.discard()
        raise
    return result


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
    if result.of_dialogues:
        waterfall_figure(result.summary, result.context, folder / "waterfall.png")


def _say_what_is_missing(result: StudyResult, target: Path) -> None:
    done, planned = len(result.outcomes), sum(v.replications for v in result.file.variants.values())
    print(f"interrupted: {done} of {planned} runs are finished and kept in {target}/",
          file=sys.stderr)  # fmt: skip


class _progress:
    """A bar on the terminal: runs finished, simulated events so far."""

    def __init__(self, console: Console, quiet: bool):
        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
            TextColumn("runs"), TimeElapsedColumn(), console=console, transient=True,
            disable=quiet or not console.is_terminal,
        )  # fmt: skip
        self._task = self._bar.add_task("simulating", total=None)
        self._events = 0
        self._console = console
        self._quiet = quiet

    def __enter__(self) -> "_progress":
        self._bar.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._bar.stop()

    def report(self, done: int, total: int, outcome: Outcome) -> None:
        """One more run is finished."""
        self._events += outcome.events
        text = f"{outcome.variant} done, {self._events / 1e6:.1f} M events"
        self._bar.update(self._task, completed=done, total=total, description=text)
        if not self._console.is_terminal and not self._quiet:
            self._console.print(f"[{done}/{total}] {text}", markup=False, highlight=False)
