"""What the commands that play many runs share: a progress bar, and their exit codes."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from voicesim import terminal
from voicesim.engine.profile import ProfileError
from voicesim.engine.spec import NoProgressError
from voicesim.experiment.backends import WorkerDied
from voicesim.experiment.metrics import ExperimentError
from voicesim.experiment.playing import State
from voicesim.policy.python import PolicyError
from voicesim.scenario import ScenarioErrors
from voicesim.simulation import ModelError

LINES = 40  # of progress in all, where there is no terminal


class Study(Protocol):
    """A finished study."""

    def as_dict(self) -> dict[str, Any]: ...


Found = TypeVar("Found", bound=Study)


class Shown(Protocol):
    """What shows the progress: it knows how many runs are finished."""

    runs: int


def attempt(path: Path, folder: Path, shown: Shown, work: Callable[[], Found]) -> Found | int:
    """What ``work`` finds, or the exit code: 2 bad input, 1 workers lost, 130 interrupted."""
    terminal.stop_on_sigterm()
    try:
        return work()
    except (ScenarioErrors, ExperimentError) as problem:
        print(problem, file=sys.stderr)
        return 2
    except (ModelError, ProfileError, PolicyError, NoProgressError) as problem:
        print(f"{path}: {problem}", file=sys.stderr)
        return 2
    except OSError as problem:
        print(f"{problem.filename or folder}: {problem.strerror}", file=sys.stderr)
        return 2
    except WorkerDied as problem:
        print(f"{problem}; finished runs are kept in {folder}/", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(
            f"interrupted: {shown.runs} finished runs are kept in {folder}/; the same command "
            "goes on from here",
            file=sys.stderr,
        )
        return 130


class Bar:
    """Runs finished of all, on stderr; some lines of it where there is no terminal."""

    def __init__(self, quiet: bool):
        self.runs = 0
        self._console = Console(stderr=True)
        self._lines = not quiet and not self._console.is_terminal
        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
            TextColumn("runs"), TimeElapsedColumn(), console=self._console, transient=True,
            disable=quiet or self._lines,
        )  # fmt: skip
        self._task = self._bar.add_task("", total=None)

    def __enter__(self) -> "Bar":
        self._bar.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._bar.stop()

    def show(self, state: State) -> None:
        """One more run."""
        self.runs = done = state.finished
        kept = f"{state.reused} found in the folder" if state.reused else ""
        self._bar.update(self._task, completed=done, total=state.wanted, description=kept)
        steps = (done * LINES // state.wanted) > ((done - 1) * LINES // state.wanted)
        if self._lines and steps:
            tail = f" ({kept})" if kept else ""
            line = f"[{done}/{state.wanted}] {state.last.variant} {state.last.replication}{tail}"
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)
