"""The ``compare`` command: progress, table and study folder."""

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from voicesim import terminal
from voicesim.engine.profile import ProfileError
from voicesim.engine.spec import NoProgressError
from voicesim.experiment.backends import WorkerDied
from voicesim.experiment.compare import INTERRUPTED, State, compare
from voicesim.experiment.metrics import METRICS, ExperimentError
from voicesim.experiment.table import print_comparison
from voicesim.files import write_whole
from voicesim.policy.python import PolicyError
from voicesim.scenario import ScenarioErrors, load
from voicesim.simulation import ModelError


def compare_command(
    path: Path,
    sets: Sequence[str],
    seed: int | None,
    out: Path | None,
    as_json: bool,
    quiet: bool,
    metrics: Sequence[str],
    **asked: Any,
) -> int:
    """Compare the variants of a file; the exit code: 0, 2 bad input, 1 workers lost, 130
    interrupted."""
    terminal.stop_on_sigterm()
    folder = out or Path("runs") / f"{path.stem}-compare"
    fresh = not folder.exists()
    try:
        file = load(path, sets=sets, seed=seed)
        with Bar(quiet) as bar:
            answer = compare(
                file, metrics=metrics or ("clean_share",), out=folder, progress=bar.show, **asked
            )
        from voicesim.report.compare_figure import png  # matplotlib is slow to import

        write_whole(folder / "compare.png", png(answer))
    except (ScenarioErrors, ExperimentError) as problem:
        print(problem, file=sys.stderr)
        return 2
    except (ModelError, ProfileError, PolicyError, NoProgressError) as problem:
        if fresh:
            shutil.rmtree(folder, ignore_errors=True)
        print(f"{path}: {problem}", file=sys.stderr)
        return 2
    except OSError as problem:
        print(f"--out {folder}: cannot be written: {problem.strerror}", file=sys.stderr)
        return 2
    except WorkerDied as problem:
        print(f"{problem}; finished runs are kept in {folder}/", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted before one replication was finished", file=sys.stderr)
        return 130
    if as_json:
        print(json.dumps(answer.as_dict(), indent=2, allow_nan=False))
    elif not quiet:
        console = terminal.console()
        print_comparison(answer, console)
        console.print(f"wrote {folder}/ (study.json, compare.png, tables in Parquet, runs/)")
    if answer.ended == INTERRUPTED:
        done = len(answer.results)
        print(f"interrupted: {done} finished runs are kept in {folder}/", file=sys.stderr)
        return 130
    return 0


class Bar:
    """Runs finished of this look, and the half-widths so far; a line per run if no terminal."""

    def __init__(self, quiet: bool):
        self._console = Console(stderr=True)
        self._quiet = quiet
        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
            TextColumn("runs"), TimeElapsedColumn(), console=self._console, transient=True,
            disable=quiet or not self._console.is_terminal,
        )  # fmt: skip
        self._task = self._bar.add_task("", total=None)

    def __enter__(self) -> "Bar":
        self._bar.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._bar.stop()

    def show(self, state: State) -> None:
        """One more run is finished, or a look begins."""
        text = f"look {state.look}" + _widths(state)
        self._bar.update(self._task, completed=state.finished, total=state.wanted, description=text)
        if not self._console.is_terminal and not self._quiet:
            if state.last is None:
                kept = f", {state.reused} runs found in the folder" if state.reused else ""
                line = f"look {state.look}: {state.wanted} runs{kept}"
            else:
                name = f"{state.last.variant} {state.last.replication}"
                line = f"[{state.finished}/{state.wanted}] {name} done{_widths(state)}"
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)


def _widths(state: State) -> str:
    """The widest half-width of the first metric asked for."""
    if not state.found:
        return ""
    first = state.found[0].metric
    widest = max((d for d in state.found if d.metric == first), key=lambda d: d.difference.half)
    show = METRICS[first].gap(widest.difference.half, widest.difference.half)
    return f", {first} ±{show} ({widest.variant}, n={widest.replications})"
