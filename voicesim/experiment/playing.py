"""All runs of a study whose number is fixed beforehand, and its files."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from voicesim.experiment.backends import backend as backend_of
from voicesim.experiment.metrics import METRICS, value
from voicesim.experiment.store import Store
from voicesim.experiment.work import Job
from voicesim.progress import Show, silent
from voicesim.study import merged

Run = Mapping[str, Any]
"""What ``work.play`` gives."""


def play_all(
    jobs: Sequence[Job], out: Path | str | None, backend: str, workers: int | None,
    address: str | None, progress: Show = silent,
) -> tuple[dict[tuple[str, int], Run], int]:  # fmt: skip
    """The result of every job, from the folder or by playing it, and how many were found there.

    Raises ExperimentError for a folder that cannot be written, before anything is played.
    """
    store = Store(None if out is None else Path(out))
    results: dict[tuple[str, int], Run] = {}
    reused = 0
    with backend_of(backend, workers, address) as place:
        for job, result, kept in store.have(jobs, place):
            results[job.id] = result
            reused += kept
            name = f"{job.variant} {job.replication}"
            progress(name, len(results), len(jobs), reused, 0 if kept else result["events"])
    return results, reused


def measured(run: Run) -> dict[str, float]:
    """Every metric of a run; NaN: not measured."""
    found = {name: value(run["metrics"], name) for name in METRICS}
    return {name: float("nan") if x is None else x for name, x in found.items()}


def warnings_of(played: Sequence[tuple[str, Sequence[Run]]]) -> list[str]:
    """Each warning of these (name, runs) once, and how many of them it is of."""
    most: dict[str, float] = {}
    names: dict[str, set[str]] = {}
    for name, runs in played:
        for text, number in (w for run in runs for w in run["warnings"]):
            plain = text.removeprefix(f"{name}: ")
            most[plain] = max(number, most.get(plain, number))
            names.setdefault(plain, set()).add(name)
    lines = {text: merged([(text, number)])[0] for text, number in most.items()}
    return [
        line
        + ("" if len(names[text]) == len(played) else f" ({len(names[text])} of {len(played)})")
        for text, line in lines.items()
    ]
