"""Where runs are played: processes of this machine, a Dask cluster, a Ray cluster.

A run depends on its job alone, so the results are the same to the bit wherever and in whatever
order they are played.  A worker that dies (killed, out of memory) costs the runs it was playing:
they are played again.

Processes come from joblib.  Dask and Ray are asked directly: through joblib, a job that kills
every worker it meets would wait for ever on either of them, and Ray would give results in lots.
"""

import os
import re
import socket
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from typing import Any, Protocol

from joblib import Parallel, delayed
from joblib.externals.loky.process_executor import TerminatedWorkerError

from voicesim import terminal
from voicesim.experiment.metrics import ExperimentError, chosen
from voicesim.experiment.work import Job, model_version, play
from voicesim.workers import started

BACKENDS = ("processes", "dask", "ray")
REACH_S = 5.0  # patience with a Ray cluster that does not answer
STRIKES = 3  # deaths after which a run (or a pool that finishes nothing) is given up

Play = Callable[[Job], dict[str, Any]]
More = Callable[[], bool]
Results = Iterator[tuple[Job, dict[str, Any]]]


class WorkerDied(RuntimeError):
    """Workers die again and again while playing the same runs."""

    def __init__(self, names: Iterable[tuple[str, int]]):
        runs = ", ".join(f"{variant} {replication}" for variant, replication in names)
        super().__init__(f"workers died {STRIKES} times (memory?) while playing {runs}")


class Backend(Protocol):
    """A place to play runs, open for the time of a study."""

    def __enter__(self) -> "Backend": ...
    def __exit__(self, *problem: Any) -> None: ...
    def run(self, jobs: Iterable[Job], more: More = ..., play: Play = ...) -> Results:
        """Play the jobs and give each result as it comes, in any order.

        more: asked before each job is begun; False ends the work (the budget is spent).
        """


def refuse(kind: str, workers: int | None = None, address: str | None = None) -> None:
    """Raise ExperimentError for an unknown backend, or for a knob that it would not use."""
    chosen(kind, BACKENDS, "backend")
    if kind == "processes" and address is not None:
        raise ExperimentError(f"--address {address}: is of --backend dask or ray, not processes")
    if workers is not None and address is not None:
        raise ExperimentError(f"--workers: the cluster at --address {address} has its own")


def backend(kind: str, workers: int | None = None, address: str | None = None) -> Backend:
    """The backend of this name.  workers: default one per core (dask, ray: of the local cluster).

    address: of a running Dask scheduler or Ray cluster; None: a local one is started.  Raises
    ExperimentError (see ``refuse``).
    """
    refuse(kind, workers, address)
    count = workers or os.cpu_count() or 1
    if kind == "processes":
        return Processes(count)
    return Dask(count, address) if kind == "dask" else Ray(count, address)


def _always() -> bool:
    return True


class Processes:
    """Worker processes of this machine (loky); with one worker, this process itself."""

    def __init__(self, workers: int):
        self.workers = workers

    def __enter__(self) -> "Processes":
        return self

    def __exit__(self, *problem: Any) -> None:
        pass

    def run(self, jobs: Iterable[Job], more: More = _always, play: Play = play) -> Results:
        """See Backend."""
        waiting = {job.id: job for job in jobs}
        if self.workers == 1:
            for job in waiting.values():
                terminal.stop_if_told()
                if more():
                    yield job, play(job)
            return
        strikes = 0
        while waiting and more():
            finished = False
            pool = Parallel(
                self.workers, "loky", return_as="generator_unordered",
                batch_size=1, pre_dispatch="n_jobs",
            )  # fmt: skip
            begun = (delayed(_named)(play, job) for job in list(waiting.values()) if more())
            try:
                for name, result in started(pool, begun):
                    terminal.stop_if_told()
                    finished = True
                    yield waiting.pop(name), result
            except (TerminatedWorkerError, BrokenProcessPool) as problem:
                terminal.stop_if_told()
                strikes = 0 if finished else strikes + 1
                if strikes == STRIKES:
                    raise WorkerDied(list(waiting)[: self.workers]) from problem


def _named(play: Play, job: Job) -> tuple[Any, dict[str, Any]]:
    return job.id, play(job)


def elsewhere(play: Play, job: Job, model: str) -> dict[str, Any]:
    """Play on a machine that may have another voicesim, and refuse if it has."""
    if model_version() != model:
        raise ExperimentError(f"a worker has another voicesim: {model_version()}, not {model}")
    return play(job)


class Dask:
    """A Dask cluster; its scheduler moves the runs of a dead worker to another."""

    def __init__(self, workers: int, address: str | None):
        try:
            import distributed
        except ImportError:
            raise ExperimentError("the dask backend needs: pip install 'voicesim[dask]'") from None
        self._distributed = distributed
        self.workers, self.address = workers, address
        self._open = ExitStack()

    def __enter__(self) -> "Dask":
        where: Any = self.address
        if where is None:
            where = self._open.enter_context(
                self._distributed.LocalCluster(
                    n_workers=self.workers, threads_per_worker=1, dashboard_address=None,
                    silence_logs=50,
                )
            )  # fmt: skip
        try:
            client = self._distributed.Client(where, timeout="10s", set_as_default=False)
        except (OSError, ValueError) as problem:
            raise ExperimentError(f"no Dask scheduler at {self.address}: {problem}") from None
        self._client = self._open.enter_context(client)
        return self

    def __exit__(self, *problem: Any) -> None:
        self._open.close()

    def run(self, jobs: Iterable[Job], more: More = _always, play: Play = play) -> Results:
        """See Backend."""
        flying: dict[Any, Job] = {}
        waiting = iter(jobs)
        done = self._distributed.as_completed(loop=self._client.loop)
        while True:
            # one run for each core: a death is blamed on all that a worker holds
            room = max(sum(self._client.ncores().values()), 1) - len(flying)
            for job in _take(waiting, room, more):
                future = self._client.submit(elsewhere, play, job, model_version(), pure=False)
                flying[future] = job
                done.add(future)
            if not flying:
                return
            future = next(done)
            job = flying.pop(future)
            try:
                result = future.result()
            except self._distributed.KilledWorker as problem:
                raise WorkerDied([job.id]) from problem
            yield job, result


class Ray:
    """A Ray cluster; a task whose worker died is begun anew."""

    def __init__(self, workers: int, address: str | None):
        try:
            import ray
        except ImportError:
            raise ExperimentError("the ray backend needs: pip install 'voicesim[ray]'") from None
        self._ray = ray
        self.workers, self.address = workers, address

    def __enter__(self) -> "Ray":
        if self.address is not None:
            _reach(self.address)
        where: dict[str, Any] = {"num_cpus": self.workers, "include_dashboard": False}
        try:
            self._ray.init(
                **({"address": self.address} if self.address else where), log_to_driver=False
            )
        except (ConnectionError, ValueError) as problem:
            raise ExperimentError(f"no Ray cluster at {self.address}: {problem}") from None
        return self

    def __exit__(self, *problem: Any) -> None:
        self._ray.shutdown()

    def run(self, jobs: Iterable[Job], more: More = _always, play: Play = play) -> Results:
        """See Backend."""
        task = self._ray.remote(elsewhere).options(num_cpus=1, max_retries=STRIKES)
        flying: dict[Any, Job] = {}
        waiting = iter(jobs)
        while True:
            room = max(int(self._ray.cluster_resources().get("CPU", 1)), 1) - len(flying)
            flying |= {
                task.remote(play, job, model_version()): job for job in _take(waiting, room, more)
            }
            if not flying:
                return
            (done,), _ = self._ray.wait(list(flying), num_returns=1)
            job = flying.pop(done)
            try:
                result = self._ray.get(done)
            except self._ray.exceptions.WorkerCrashedError as problem:
                raise WorkerDied([job.id]) from problem
            yield job, result


def _reach(address: str) -> None:
    """Raise ExperimentError if nothing listens at [ray://]HOST:PORT: Ray would wait a minute."""
    found = re.fullmatch(r"(?:ray://)?\[?(.+?)\]?:(\d{1,5})", address)
    if found is None:
        return  # auto, local: Ray knows where
    try:
        socket.create_connection((found[1], int(found[2])), timeout=REACH_S).close()
    except (OSError, OverflowError) as problem:
        words = getattr(problem, "strerror", None) or problem
        raise ExperimentError(f"--address {address}: no Ray cluster there: {words}") from None


def _take(waiting: Iterator[Job], room: int, more: More) -> Iterator[Job]:
    """The next jobs that there is room for, as long as more may be begun."""
    while room > 0 and more() and (job := next(waiting, None)) is not None:
        room -= 1
        yield job
