"""One run of an experiment: everything that it depends on, its key, and playing it anywhere.

A Job carries the texts of the files it reads (profile, recorded arrivals), so that a worker on
another machine plays the same run, whether or not it has those files.
"""

import hashlib
import importlib.util
import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import voicesim
from voicesim.engine.layout import B_LIVE
from voicesim.files import write_whole
from voicesim.metrics import dialogue_study, fleet, warmup
from voicesim.metrics.dialogue import run_metrics as dialogue_metrics
from voicesim.scenario import Scenario
from voicesim.scenario.cluster import Pool
from voicesim.session.play import simulate_dialogue
from voicesim.session.record import D_LIVE
from voicesim.simulation import Run, simulate
from voicesim.study import callers, callers_of, warnings_of

MODEL_PARTS = (
    "cluster",
    "engine",
    "listener",
    "metrics",
    "policy",
    "scenario",
    "session",
    "workload",
)


@dataclass(frozen=True)
class Job:
    """One replication of one variant; ``files``: the contents of what the scenario reads."""

    variant: str
    replication: int
    scenario: Scenario
    files: tuple[bytes, ...]
    key: str
    path: str = ""  # working directory of the study, in which policies are looked for too

    @property
    def id(self) -> tuple[str, int]:
        return self.variant, self.replication


def jobs_of(
    variant: str, scenario: Scenario, count: int, profile: bytes | None = None
) -> list[Job]:
    """The first ``count`` replications of a variant.

    profile: text that stands in for that of every pool's profile.
    """
    files = tuple(
        Path(part._path).read_bytes() if profile is None or part is scenario.workload.arrivals
        else profile
        for part in _reading(scenario)
    )  # fmt: skip
    base = _digest(scenario, files)
    here = str(Path.cwd())
    return [
        Job(variant, r, scenario, files, _hash(f"{base}-{r}".encode()), here) for r in range(count)
    ]


def play(job: Job) -> dict[str, Any]:
    """Play one run; plain data that JSON keeps to the bit.

    callers: see ``study.callers``.
    """
    if job.scenario.dialogue is not None:
        return _kept_form(_dialogue(job))
    whole = ready(job)
    parts = [fleet.played(part, job.replication) for part in whole.apart()]
    runs = [part.run for part in parts]
    result = {
        "metrics": fleet.metrics_of(parts, whole),
        "warnings": [w for part in parts for w in warnings_of(part, job.variant)],
        "callers": "-".join(callers_of(part) for part in parts),
        "live": live_of(runs),
        "events": sum(int(run.record.counters.get("events", 0)) for run in runs),
    }
    return _kept_form(result)


def _kept_form(result: dict[str, Any]) -> dict[str, Any]:
    """As a kept run is read."""
    return dict(json.loads(json.dumps(result, allow_nan=False)))


def _dialogue(job: Job) -> dict[str, Any]:
    """``play`` of a scenario of dialogues."""
    run = simulate_dialogue(ready(job), job.replication)
    spec, live = run.spec, run.record.series[:, D_LIVE]
    return {
        "metrics": dialogue_metrics(dialogue_study.tables_of(run)),
        "warnings": dialogue_study.warnings_of(run, job.variant),
        "callers": callers(run.tape),
        "live": warmup.thinned(live, spec.resolution, spec.horizon),
        "events": run.events,
    }


def runs_of(job: Job, watch: bool = False) -> tuple[Scenario, list[Run]]:
    """The scenario of a job where its files are, and the run of each of its pools; watch: see
    ``simulate``."""
    whole = ready(job)
    return whole, [simulate(part, job.replication, watch=watch) for part in whole.apart()]


def ready(job: Job) -> Scenario:
    """The scenario of a job, its files and policies where this machine finds them."""
    if job.path and job.path not in sys.path and Path(job.path).is_dir():
        sys.path.insert(0, job.path)
    return _at_home(job)


def live_of(runs: list[Run]) -> list[float]:
    """Live streams of all pools over the horizon, thinned: what a warm-up is judged by."""
    spec = runs[0].spec
    live = np.sum([run.record.series[:, B_LIVE] for run in runs], axis=0)
    return warmup.thinned(live, spec.resolution, spec.horizon)


# --- what a run depends on --------------------------------------------------------------------


@cache
def model_version() -> str:
    """Version of the model: the package's, and a hash of the source files that make a result."""
    root = Path(voicesim.__file__).parent
    sources = [
        root / "simulation.py",
        root / "kv.py",
        root / "cards.py",
        root / "study.py",
        *(p for d in MODEL_PARTS for p in (root / d).rglob("*.py")),
    ]
    digest = hashlib.sha256()
    for source in sorted(sources):
        digest.update(source.relative_to(root).as_posix().encode() + b"\0" + source.read_bytes())
    return f"{voicesim.__version__}+{digest.hexdigest()[:16]}"


def _digest(scenario: Scenario, files: tuple[bytes, ...]) -> str:
    """Hash of all that decides the runs of a scenario but for the replication's number."""
    resolved = scenario.resolved()
    for name in ("title", "replications"):
        resolved.pop(name, None)
    parts = {
        "model": model_version(),
        "scenario": resolved,
        "files": [_hash(content) for content in files],
        "policies": [_hash(content) for content in _own_policies(scenario)],
    }
    return _hash(json.dumps(parts, sort_keys=True, default=str).encode())


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _reading(scenario: Scenario) -> list[Any]:
    """The parts of a scenario that name a file to read."""
    engines = (p.engine for p in scenario.cluster.pools.values() if isinstance(p, Pool))
    parts = [*engines, scenario.workload.arrivals]
    return [part for part in parts if getattr(part, "_path", None) is not None]


def _own_policies(scenario: Scenario) -> Iterator[bytes]:
    """Source of the modules in which the user's own policies are."""
    for policy in (scenario.policies.admission, scenario.policies.routing):
        if policy.kind == "custom":
            found = importlib.util.find_spec(policy.policy.partition(":")[0])
            if found is not None and found.origin and Path(found.origin).is_file():
                yield Path(found.origin).read_bytes()


# --- on another machine -----------------------------------------------------------------------


def _at_home(job: Job) -> Scenario:
    """The scenario with its files where this machine has them, written there if need be."""
    if all(
        _same(part._path, text)
        for part, text in zip(_reading(job.scenario), job.files, strict=True)
    ):
        return job.scenario
    scenario = job.scenario.model_copy(deep=True)
    for part, content in zip(_reading(scenario), job.files, strict=True):
        if not _same(part._path, content):
            part._path = _kept(content, Path(part._path).suffix)
    return scenario


def _same(path: Any, content: bytes) -> bool:
    try:
        return Path(path).read_bytes() == content
    except OSError:
        return False


def _kept(content: bytes, suffix: str) -> Path:
    """A file of this content in the temporary folder, named by its hash."""
    target = Path(tempfile.gettempdir()) / f"voicesim-{_hash(content)[:32]}{suffix}"
    if not _same(target, content):
        write_whole(target, content)
    return target
