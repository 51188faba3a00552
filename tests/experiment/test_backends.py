"""The same results wherever runs are played, and what a dead worker costs."""

import os
import signal
import subprocess
import sys
from dataclasses import replace

import pytest

from tests.experiment import busy
from voicesim.experiment import ExperimentError, compare, tables
from voicesim.experiment.backends import WorkerDied, backend, elsewhere
from voicesim.experiment.work import jobs_of, model_version, play
from voicesim.scenario import load
from voicesim.study import run_study

VICTIM = ("cap", 2)


class DiesOnce:
    """Plays runs, but kills its process the first time that it meets one of them."""

    def __init__(self, flag):
        self.flag = str(flag)

    def __call__(self, job):
        if job.id == VICTIM:
            try:
                os.close(os.open(self.flag, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return play(job)
            os.kill(os.getpid(), signal.SIGKILL)
        return play(job)


def always_dies(job):
    if job.id == VICTIM:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"played": job.replication}


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return load(busy.write(tmp_path_factory.mktemp("busy")))


@pytest.fixture(scope="module")
def jobs(file):
    return [job for v in ("admit_all", "cap") for job in jobs_of(v, file.variants[v], 4)]


@pytest.fixture(scope="module")
def alone(jobs):
    """Played here, one after the other."""
    with backend("processes", 1) as place:
        return {job.id: result for job, result in place.run(jobs)}


def test_the_same_in_processes_after_one_dies(jobs, alone, tmp_path):
    with backend("processes", 2) as place:
        found = {job.id: r for job, r in place.run(jobs, play=DiesOnce(tmp_path / "died"))}
    assert (tmp_path / "died").exists()
    assert found == alone


def test_a_run_that_always_kills_its_worker_is_named(jobs):
    finished = []
    with backend("processes", 2) as place, pytest.raises(WorkerDied, match="cap 2"):
        for job, _ in place.run(jobs, play=always_dies):
            finished.append(job.id)
    assert VICTIM not in finished and len(finished) >= len(jobs) - 2


def test_no_run_begins_after_the_end(jobs):
    with backend("processes", 1) as place:
        begun = iter([True, True, False, True])
        assert len(list(place.run(jobs, lambda: next(begun, False), play=dict_of))) == 3


def dict_of(job):
    return {"played": job.replication}


def test_files_travel_with_the_job(jobs, alone, tmp_path):
    """A worker that has no profile at that path, or another one, gets the one it should have."""
    for change in ("missing", "other"):
        scenario = jobs[0].scenario.model_copy(deep=True)
        elsewhere = tmp_path / f"{change}.yaml"
        if change == "other":
            elsewhere.write_text("schema: voicesim-profile/1\n")
        scenario.cluster.pool.engine._path = elsewhere
        assert play(replace(jobs[0], scenario=scenario)) == alone[jobs[0].id]


def test_a_worker_with_another_model_refuses(jobs):
    with pytest.raises(ExperimentError, match="another voicesim"):
        elsewhere(dict_of, jobs[0], "0.0.1+00")
    assert elsewhere(dict_of, jobs[0], model_version()) == {"played": 0}


# --- Dask -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory):
    """A Dask scheduler and two worker processes on loopback; gives its address."""
    distributed = pytest.importorskip("distributed")
    folder = tmp_path_factory.mktemp("dask")
    known = folder / "scheduler.json"
    start = [sys.executable, "-m", "distributed.cli.dask_scheduler"]
    log = (folder / "log").open("w")
    processes = [
        subprocess.Popen(
            [*start, "--host", "127.0.0.1", "--port", "0", "--no-dashboard",
             "--scheduler-file", str(known)],
            stdout=log, stderr=log,
        )
    ]  # fmt: skip
    worker = [
        sys.executable, "-m", "distributed.cli.dask_worker", "--scheduler-file", str(known),
        "--host", "127.0.0.1", "--nthreads", "1", "--no-dashboard",
        "--local-directory", str(folder),
    ]  # fmt: skip
    processes += [subprocess.Popen(worker, stdout=log, stderr=log) for _ in range(2)]
    try:
        with distributed.Client(scheduler_file=str(known), timeout=60) as client:
            client.wait_for_workers(2, timeout=60)
            yield client.scheduler.address
    finally:
        for process in reversed(processes):
            process.terminate()
            process.wait(timeout=30)
        log.close()


def test_tables_of_a_run_come_back_from_a_dask_cluster(scheduler, file, tmp_path):
    """``run --backend dask`` leaves the folder that processes leave, byte for byte."""
    here, there = tmp_path / "here", tmp_path / "there"
    alone = run_study(file, here, workers=1, chunks=True)
    place = tables.elsewhere("dask", None, scheduler, there, True, "kernel")
    found = run_study(file, there, chunks=True, elsewhere=place)
    assert found.summary == alone.summary and found.complete
    names = sorted(str(p.relative_to(here)) for p in here.rglob("*.parquet"))
    assert len(names) == 4 * len(file.variants)  # sessions, streams, chunks, stalls
    assert names == sorted(str(p.relative_to(there)) for p in there.rglob("*.parquet"))
    for name in names:
        assert (here / name).read_bytes() == (there / name).read_bytes()


def test_the_same_on_a_dask_cluster_after_a_worker_dies(scheduler, jobs, alone, tmp_path):
    with backend("dask", address=scheduler) as place:
        found = {job.id: r for job, r in place.run(jobs, play=DiesOnce(tmp_path / "died"))}
    assert (tmp_path / "died").exists()
    assert found == alone


def test_a_study_is_the_same_to_the_byte_on_every_backend(scheduler, file, tmp_path):
    options = {"metrics": ["clean_share", "ttfa_p99_s"], "max_replications": 4, "first": 3}
    compare(file, workers=1, out=tmp_path / "one", **options)
    compare(file, workers=2, out=tmp_path / "two", **options)
    compare(file, backend="dask", address=scheduler, out=tmp_path / "dask", **options)
    for name in ("study.json", "differences.parquet", "pairs.parquet"):
        first = (tmp_path / "one" / name).read_bytes()
        assert first == (tmp_path / "two" / name).read_bytes()
        assert first == (tmp_path / "dask" / name).read_bytes()


def test_ray_gives_the_same(jobs, alone):
    pytest.importorskip("ray")
    with backend("ray", 2) as place:
        assert {job.id: r for job, r in place.run(jobs)} == alone
