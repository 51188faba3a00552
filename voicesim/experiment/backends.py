"""Where runs are played: processes of this machine, a Dask cluster, a Ray cluster.

All through joblib.  A run depends on its job alone, so the results are the same to the bit
wherever and in whatever order they are played.  A worker that dies (killed, out of memory) costs
the runs it was playing: they are played again.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from typing import Any

from joblib import Parallel, delayed, parallel_config
from joblib.externals.loky.process_executor import TerminatedWorkerError

from voicesim.experiment.metrics import ExperimentError
from voicesim.experiment.work import Job, play

BACKENDS = ("processes", "dask", "ray")
STRIKES = 3  # a pool that breaks so often without finishing a run is given up

Play = Callable[[Job], dict[str, Any]]
Results = Iterator[tuple[Job, dict[str, Any]]]


class WorkerDied(RuntimeError):
    """Workers die again and again while playing the same runs."""


class Backend:
    """A place to play runs, open for the time of a study."""

    def __init__(
        self, kind: str = "processes", workers: int | None = None, address: str | None = None
    ):
        self.kind, self.address = kind, address
        self.workers = workers or os.cpu_count() or 1
        self._open = ExitStack()

    def __enter__(self) -> "Backend":
        opening = {"dask": _dask, "ray": _ray}.get(self.kind)
        if opening is not None:
            self._open.enter_context(opening(self.workers, self.address))
        return self

    def __exit__(self, *problem: Any) -> None:
        self._open.close()

    def run(
        self, jobs: Iterable[Job], more: Callable[[], bool] = lambda: True, play: Play = play
    ) -> Results:
        """Play the jobs and give each result as it comes, in any order.

        more: asked before each job is begun; False ends the work (the budget is spent).
        """
        waiting = {job.id: job for job in jobs}
        strikes = 0
        while waiting and more():
            finished = 0
            try:
                for name, result in self._parallel(list(waiting.values()), more, play):
                    finished += 1
                    yield waiting.pop(name), result
            except (TerminatedWorkerError, BrokenProcessPool) as problem:
                strikes = 0 if finished else strikes + 1
                if strikes == STRIKES:
                    names = ", ".join(f"{v} {r}" for v, r in list(waiting)[: self.workers])
                    raise WorkerDied(
                        f"workers died {STRIKES} times in a row (memory?) while playing {names}"
                    ) from problem

    def _parallel(self, jobs: list[Job], more: Callable[[], bool], play: Play) -> Iterator[Any]:
        begun = ((play, job) for job in jobs if more())
        if self.kind == "processes" and min(self.workers, len(jobs)) == 1:
            yield from (_named(*each) for each in begun)
            return
        if self.kind == "ray":  # its pool cannot give results one by one
            for at in range(0, len(jobs), self.workers):
                if more():
                    part = jobs[at : at + self.workers]
                    yield from Parallel(self.workers)(delayed(_named)(play, job) for job in part)
            return
        parallel = Parallel(
            self.workers,
            return_as="generator_unordered",
            batch_size=1,
            pre_dispatch="n_jobs",
            **({"backend": "loky"} if self.kind == "processes" else {}),
        )
        yield from parallel(delayed(_named)(*each) for each in begun)


def _named(play: Play, job: Job) -> tuple[Any, dict[str, Any]]:
    return job.id, play(job)


@contextmanager
def _dask(workers: int, address: str | None) -> Iterator[None]:
    try:
        from dask.distributed import Client, LocalCluster
    except ImportError:
        raise ExperimentError("the dask backend needs: pip install 'voicesim[dask]'") from None
    with ExitStack() as open_:
        if address is None:
            cluster = open_.enter_context(
                LocalCluster(
                    n_workers=workers,
                    threads_per_worker=1,
                    dashboard_address=None,
                    silence_logs=50,
                )
            )
            client = Client(cluster, set_as_default=False)
        else:
            try:
                client = Client(address, timeout="10s", set_as_default=False)
            except (OSError, ValueError) as problem:
                raise ExperimentError(f"no Dask scheduler at {address}: {problem}") from None
        open_.enter_context(client)
        open_.enter_context(parallel_config("dask", client=client))
        yield


@contextmanager
def _ray(workers: int, address: str | None) -> Iterator[None]:
    try:
        import ray
        from ray.util.joblib import register_ray
    except ImportError:
        raise ExperimentError("the ray backend needs: pip install 'voicesim[ray]'") from None
    try:
        where: dict[str, Any] = {"address": address} if address else {"num_cpus": workers}
        ray.init(**where, log_to_driver=False, include_dashboard=False if not address else None)
    except (ConnectionError, ValueError) as problem:
        raise ExperimentError(f"no Ray cluster at {address}: {problem}") from None
    register_ray()
    try:
        with parallel_config("ray", n_jobs=workers):
            yield
    finally:
        ray.shutdown()
