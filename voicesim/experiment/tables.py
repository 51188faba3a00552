"""The runs of ``run`` and ``replay`` on a Dask or Ray cluster: their tables come back with them."""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from voicesim.experiment.backends import backend, refuse
from voicesim.experiment.work import Job, jobs_of, ready
from voicesim.files import write_whole
from voicesim.scenario import Scenario
from voicesim.study import Elsewhere, Piece, job


@dataclass(frozen=True)
class TableJob(Job):
    """The run of one pool, of which the tables are wanted too."""

    chunks: bool = False
    engine: str = "kernel"
    rows: bool | None = None

    @property
    def id(self) -> tuple[str, int]:
        pool = next(iter(self.scenario.cluster.pools))
        return f"{self.variant} {pool}", self.replication


def elsewhere(
    kind: str, workers: int | None, address: str | None, folder: Path | None, chunks: bool,
    engine: str, rows: bool | None = None,
) -> Elsewhere | None:  # fmt: skip
    """How ``study.run_study`` plays on this backend; None: its own processes do.

    Raises ExperimentError (see ``backends.refuse``); WorkerDied while playing.
    """
    refuse(kind, workers, address)
    if kind == "processes":
        return None

    def play(runs: Sequence[tuple[str, int, Scenario]]) -> Iterator[Piece]:
        jobs = [
            TableJob(**vars(jobs_of(name, part, r + 1)[r]), chunks=chunks, engine=engine, rows=rows)
            for name, r, part in runs
        ]
        with backend(kind, workers, address) as place:
            for _, result in place.run(jobs, play=play_tables):
                if folder is not None:
                    for name, content in result["tables"].items():
                        write_whole(folder / name, content)
                yield result["piece"]

    return play


def play_tables(job_: Job) -> dict[str, Any]:
    """Play one run: its piece, and its tables by their path in the run folder."""
    assert isinstance(job_, TableJob)
    scenario = ready(job_)
    with tempfile.TemporaryDirectory() as name:
        there = Path(name)
        named = job_.variant, job_.replication
        piece = job(scenario, *named, there, job_.chunks, job_.engine, rows=job_.rows)
        tables = {str(p.relative_to(there)): p.read_bytes() for p in there.rglob("*.parquet")}
    return {"piece": piece, "tables": tables}
