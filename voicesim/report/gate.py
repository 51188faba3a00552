"""The ``gate`` command: play what is missing, judge, print, write."""

import json
import sys
from pathlib import Path
from typing import Any

from rich.console import Console

from voicesim import terminal
from voicesim.engine.profile import ProfileError
from voicesim.engine.spec import NoProgressError
from voicesim.experiment.backends import WorkerDied
from voicesim.experiment.gate import gate
from voicesim.experiment.metrics import ExperimentError
from voicesim.files import unwritable, write_whole
from voicesim.policy.python import PolicyError
from voicesim.report.junit import junit
from voicesim.report.ladder import progress
from voicesim.report.sides import print_gate
from voicesim.scenario import ScenarioErrors
from voicesim.simulation import ModelError


def gate_command(
    out: Path | None, junit_file: Path | None, as_json: bool, quiet: bool, **asked: Any
) -> int:
    """The exit code: 0 pass, 1 worse, 2 bad input (too few replications too), 130 interrupted."""
    terminal.stop_on_sigterm()
    what = asked["scenario"] or asked["candidate"]
    folder = out or Path("runs") / f"{'gate' if what is None else what.stem + '-gate'}"
    try:
        if junit_file is not None and junit_file.is_dir():
            raise ExperimentError(f"--junit {junit_file}: is a folder; give the name of a file")
        if junit_file is not None and (why := unwritable(junit_file.parent)):
            raise ExperimentError(f"--junit {junit_file}: {junit_file.parent} {why}")
        with progress(Console(stderr=True), quiet) as report:
            answer = gate(out=folder, progress=report, **asked)
        if junit_file is not None:
            write_whole(junit_file, junit(answer))
    except (ScenarioErrors, ExperimentError, ModelError, ProfileError, PolicyError) as problem:
        print(problem, file=sys.stderr)
        return 2
    except (WorkerDied, OSError, NoProgressError) as problem:
        print(problem, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(
            f"interrupted: finished runs are kept in {folder}/; the same command goes on from here",
            file=sys.stderr,
        )
        return 130
    if as_json:
        print(json.dumps(answer.as_dict(), indent=2, allow_nan=False))
    elif not quiet:
        console = terminal.console()
        print_gate(answer, console)
        wrote = f"wrote {folder}/ (gate.json, tables in Parquet, runs/)"
        console.print(wrote + (f" and {junit_file}" if junit_file else ""), markup=False)
    return 0 if answer.passed else 1
