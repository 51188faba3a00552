"""What all commands share: their exit codes, and how they hand over an answer."""

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console

from voicesim import terminal
from voicesim.calibrate.errors import CalibrationError
from voicesim.engine.little import LittleError
from voicesim.engine.profile import ProfileError
from voicesim.engine.spec import NoProgressError
from voicesim.experiment.backends import WorkerDied
from voicesim.experiment.metrics import ExperimentError
from voicesim.policy.python import PolicyError
from voicesim.progress import Progress
from voicesim.runfolder import FolderError
from voicesim.scenario import ScenarioErrors
from voicesim.simulation import ModelError

DONE, NO, WRONG, STOPPED = 0, 1, 2, 130
"""Exit codes: done; the answer is no (or workers, or the endpoint, were lost); the input is wrong;
interrupted.  ``voicesim --help`` and docs/reference/cli.md say so."""

SAID = (ScenarioErrors, ExperimentError, CalibrationError, FolderError)
"""Errors that name the file they are about."""
OF_FILE = (ModelError, ProfileError, PolicyError, NoProgressError, LittleError)
"""Errors of a scenario, which ``said`` puts the file's name before."""

Found = TypeVar("Found")


def said(problem: BaseException, path: object = None) -> str:
    """The one line of an error of ours or of the operating system.

    path: of the scenario, for errors that do not name it.
    """
    if isinstance(problem, OSError):
        words = problem.strerror or str(problem) or type(problem).__name__
        where = problem.filename if problem.filename is not None else path
        return words if where is None else f"{_text(where)}: {words}"
    text = str(problem)
    named = path is None or not isinstance(problem, OF_FILE) or text.startswith(f"{path}:")
    return text if named else f"{path}: {text}"


def _text(name: Any) -> str:
    return name.decode(errors="replace") if isinstance(name, bytes) else str(name)


def attempt(
    work: Callable[[], Found],
    path: Path | None = None,
    folder: Path | None = None,
    progress: Progress | None = None,
    lost: int = NO,
) -> Found | int:
    """What ``work`` finds, or the exit code after one line that says what was wrong.

    path: the scenario.  folder: where finished runs are kept, None: nowhere.  progress: knows how
    many are.  lost: the code when workers died, or more was asked of the machine than it has.
    """
    terminal.heed_signals()
    try:
        return work()
    except (*SAID, *OF_FILE) as problem:
        print(said(problem, path), file=sys.stderr)
        return WRONG
    except OSError as problem:
        print(said(problem, folder), file=sys.stderr)
        return WRONG
    except (WorkerDied, MemoryError) as problem:
        kept = f"finished runs are kept in {folder}/" if folder else "nothing was kept"
        text = str(problem)
        if isinstance(problem, MemoryError):
            text = f"not enough memory ({text or 'an allocation failed'}): fewer calls, a shorter "
            text += "horizon or fewer --workers take less"
        print(f"{text}; {kept}", file=sys.stderr)
        return lost
    except KeyboardInterrupt:
        runs = progress.runs if progress else 0
        if folder is None or not runs:
            print("interrupted before anything was finished: nothing was kept", file=sys.stderr)
        else:
            print(
                f"interrupted: {runs} finished runs are kept in {folder}/; the same command goes "
                "on from here",
                file=sys.stderr,
            )
        return STOPPED


def hand_over(
    show: Callable[[Console], Any],
    data: Callable[[], Any],
    wrote: str,
    place: object,
    as_json: bool,
    quiet: bool,
) -> None:
    """The answer on stdout: as JSON alone, else (quiet) where it is, else as a table.

    show: prints the table.  data: the JSON.  wrote: the last line under the table.  place: the
    folder or file that holds the answer, None: none does.
    """
    if as_json:
        print_json(data())
    elif quiet:
        if place is not None:
            print(place)
    else:
        console = terminal.console()
        show(console)
        if wrote:
            console.print(wrote, markup=False, highlight=False, soft_wrap=True)


def print_json(data: Mapping[str, Any] | list[Any]) -> None:
    """JSON on stdout, as the files of a folder have it."""
    print(json.dumps(data, indent=2, allow_nan=False))
