"""The ``check`` command: everything that is wrong with a scenario, or what it will run."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from voicesim.report.studies import DONE, attempt, hand_over
from voicesim.scenario import ScenarioFile, load
from voicesim.simulation import checked


def check_command(path: Path, sets: Sequence[str], as_json: bool, quiet: bool) -> int:
    """Check a file; the exit code: 0, 2 if something is wrong."""
    file = attempt(lambda: checked(load(path, sets=sets)))
    if isinstance(file, int):
        return file
    hand_over(lambda console: _print(file, console), lambda: as_data(file), "", None, as_json,
              quiet)  # fmt: skip
    return DONE


def as_data(file: ScenarioFile) -> dict[str, Any]:
    """What each variant will play; horizon in seconds."""
    return {
        "file": str(file.path),
        "title": file.variants[file.baseline].title,
        "baseline": file.baseline,
        "variants": {
            name: {
                "calls_expected": scenario.workload.arrivals.expected(scenario.horizon),
                "horizon_s": scenario.horizon,
                "replications": scenario.replications,
                "pools": {n: [p.replicas, p.on] for n, p in scenario.cluster.pools.items()},
                "admission": scenario.policies.admission.kind,
            }
            for name, scenario in file.variants.items()
        },
    }


def _print(file: ScenarioFile, console: Console) -> None:
    data = as_data(file)
    title = f": {data['title']}" if data["title"] else ""
    lines = [f"OK {data['file']}{title}"]
    width = max(map(len, file.variants))
    for name, of in data["variants"].items():
        pools = " + ".join(f"{count} x {on}" for count, on in of["pools"].values())
        lines.append(
            f"  {name:<{width}}  {of['calls_expected']:,.0f} calls expected in "
            f"{of['horizon_s']:g} s x {of['replications']}, {pools}, admission {of['admission']}"
            + ("  (baseline)" if name == file.baseline else "")
        )
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
