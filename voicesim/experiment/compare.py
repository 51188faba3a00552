"""Compare variants under the same callers, with as many replications as the answer needs."""

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

import voicesim
from voicesim.experiment.backends import Backend, refuse
from voicesim.experiment.backends import backend as backend_of
from voicesim.experiment.decide import Difference, Precision, Values, differences, enough
from voicesim.experiment.looks import FIRST, Looks, schedule
from voicesim.experiment.metrics import (
    COSTS,
    METRICS,
    ExperimentError,
    bottleneck,
    chosen,
    flat,
    value,
)
from voicesim.experiment.store import Store
from voicesim.experiment.work import Job, jobs_of, model_version
from voicesim.files import finite, write_json, write_tables, write_whole
from voicesim.metrics import warmup
from voicesim.metrics.summary import aggregate
from voicesim.progress import Show, silent
from voicesim.scenario import ScenarioFile, load
from voicesim.schemas import current
from voicesim.simulation import playable
from voicesim.study import merged, replication_table

STUDY_SCHEMA = current("comparison")
SETTLED, EXHAUSTED, BUDGET, INTERRUPTED = "settled", "largest number", "budget", "interrupted"

Results = dict[tuple[str, int], dict[str, Any]]


@dataclass(frozen=True)
class Settings:
    """What was asked: all that the answer depends on beside the scenario."""

    baseline: str
    metrics: tuple[str, ...]
    precision: Precision
    looks: Looks

    @property
    def shown(self) -> tuple[str, ...]:
        """The metrics asked for, then what they cost."""
        return tuple(dict.fromkeys((*self.metrics, *COSTS)))


@dataclass
class Comparison:
    """The answer.

    ended: settled, largest number (of replications), budget or interrupted.  look: which one the
    verdicts are of, from 1; 0: the end came before the first, and nothing is decided.
    """

    file: ScenarioFile
    settings: Settings
    ended: str
    look: int
    replications: int
    results: Results
    found: list[Difference]

    @property
    def verdicts(self) -> dict[str, dict[str, str]]:
        """Variant -> metric -> better, worse, cannot tell, ..."""
        names = dict.fromkeys(d.variant for d in self.found)
        return {v: {d.metric: d.verdict for d in self.found if d.variant == v} for v in names}

    @property
    def differences(self) -> pd.DataFrame:
        """One row per variant and metric: the difference from the baseline and its verdict."""
        return pd.DataFrame(self.rows())

    @property
    def summary(self) -> pd.DataFrame:
        """One row per variant and metric: mean and its own 95 % interval over replications."""
        return pd.DataFrame(
            [
                {"variant": v, "metric": m, "replications": self.replications, **of}
                for v in self.file.variants
                for m, of in flat(aggregate(self._metrics(v))).items()
            ]
        )

    @property
    def pairs(self) -> pd.DataFrame:
        """One row per variant, metric and replication: the value and the baseline's."""
        base = self._metrics(self.settings.baseline)
        return pd.DataFrame(
            [
                {"variant": v, "metric": m, "replication": r, "baseline": value(base[r], m),
                 "value": value(mine, m)}
                for v in self.file.variants if v != self.settings.baseline
                for m in METRICS
                for r, mine in enumerate(self._metrics(v))
            ]
        ).astype({"baseline": float, "value": float})  # fmt: skip

    @property
    def replicated(self) -> pd.DataFrame:
        """One row per variant and replication: its callers and every metric."""
        return replication_table(
            (v, r, self.results[v, r]["callers"], of)
            for v in self.file.variants
            for r, of in enumerate(self._metrics(v))
        )

    @property
    def bottlenecks(self) -> dict[str, tuple[str, float] | None]:
        """Variant -> the stage that is nearest what it can do, and how near."""
        return {v: bottleneck(self._metrics(v)) for v in self.file.variants}

    @property
    def same_callers(self) -> dict[str, bool]:
        """Variant -> did it meet the same callers as the baseline in every replication?"""
        base = self.settings.baseline
        return {
            v: all(
                self.results[v, r]["callers"] == self.results[base, r]["callers"]
                for r in range(self.replications)
            )
            for v in self.file.variants
        }

    @property
    def warnings(self) -> list[str]:
        """What a reader must know before trusting these numbers."""
        found = (
            w
            for v in self.file.variants
            for r in range(self.replications)
            for w in self.results[v, r]["warnings"]
        )
        return [*merged(found), *self._starts()]

    def _starts(self) -> list[str]:
        """What MSER-5 says of each variant's warm-up."""
        runs = range(self.replications)
        said = {
            v: warmup.advice(s, [self.results[v, r]["live"] for r in runs])
            for v, s in self.file.variants.items()
        }
        return [f"{v}: {text}" for v, text in said.items() if text]

    def rows(self) -> list[dict[str, Any]]:
        """``differences`` as plain data."""
        return [
            {
                "variant": d.variant, "metric": d.metric, "replications": d.replications,
                "measured": d.measured, "baseline": finite(d.baseline), "mean": finite(d.mean),
                "difference": finite(d.difference.mean), "low": finite(d.difference.low),
                "high": finite(d.difference.high), "half_width": finite(d.difference.half),
                "p": d.p, "p_holm": d.p_holm, "correlation": d.correlation,
                "runs_saved": d.runs_saved, "verdict": d.verdict, "settled": d.settled,
            }
            for d in self.found
        ]  # fmt: skip

    def as_dict(self) -> dict[str, Any]:
        """study.json: the same whatever the backend, the workers or interruptions on the way."""
        base = self.file.variants[self.settings.baseline]
        bottlenecks, callers = self.bottlenecks, self.same_callers
        return {
            "schema": STUDY_SCHEMA,
            "voicesim": voicesim.__version__,
            "model": model_version(),
            "title": base.title,
            "scenario": self.file.path.name,
            "settings": {
                "baseline": self.settings.baseline,
                "metrics": list(self.settings.metrics),
                "precision": asdict(self.settings.precision),
                "looks": list(self.settings.looks.sizes),
                "level_of_a_look": self.settings.looks.level,
                "seed": base.seed,
                "horizon": base.horizon,
                "warmup": base.warmup,
            },
            "ended": self.ended,
            "look": self.look,
            "replications": self.replications,
            "verdicts": self.verdicts,
            "differences": self.rows(),
            "variants": {
                v: {
                    "bottleneck": None if (b := bottlenecks[v]) is None
                    else {"stage": b[0], "busy_share": b[1]},
                    "same_callers": callers[v],
                    "metrics": aggregate(self._metrics(v)),
                }
                for v in self.file.variants
            },
            "warnings": self.warnings,
        }  # fmt: skip

    def write(self, folder: Path) -> None:
        """study.json, the resolved scenario and the tables, beside the runs."""
        tables = {
            "differences": self.differences, "pairs": self.pairs,
            "replications": self.replicated,
        }  # fmt: skip
        write_tables(folder, tables)
        write_whole(folder / "scenario.yaml", self.file.resolved_yaml())
        write_json(folder / "study.json", self.as_dict())

    def _metrics(self, variant: str) -> list[dict[str, Any]]:
        return [self.results[variant, r]["metrics"] for r in range(self.replications)]


def compare(
    file: ScenarioFile | str | Path,
    baseline: str | None = None,
    metrics: Sequence[str] = ("clean_share",),
    precision: float = 0.1,
    width: float | None = None,
    max_replications: int = 40,
    first: int | None = None,
    budget: float | None = None,
    workers: int | None = None,
    backend: str = "processes",
    address: str | None = None,
    out: Path | str | None = None,
    progress: Show = silent,
) -> Comparison:
    """Play every variant of a scenario under the same callers until the differences are settled.

    baseline: what the others are compared with, default the first variant.  A difference in one
    of ``metrics`` is settled when its half-width is at most precision x |mean of the baseline| or
    ``width`` (the metric's unit; default see experiment.metrics), or when its sign is.  Looked at
    after ``first`` (default 8, or max_replications if that is less), x 1.5, ..., max_replications
    replications (experiment.looks); ``budget`` s of wall time end it earlier, with the verdicts of
    the last look.  out: folder in which finished runs are kept and found again; None: nowhere.

    KeyboardInterrupt gives the answer so far.  Raises ExperimentError (what was asked for),
    ScenarioErrors, ModelError, ProfileError, PolicyError (the scenario), WorkerDied.
    """
    if not isinstance(file, ScenarioFile):
        file = load(file)
    for option, given in (("precision", precision), ("width", width), ("budget", budget)):
        if given is not None and not 0.0 < given < math.inf:
            raise ExperimentError(f"--{option}: found {given:g}; must be finite and more than 0")
    if first is not None and first > max_replications:
        raise ExperimentError(f"--first {first}: is more than --max-replications "
                              f"{max_replications}")  # fmt: skip
    settings = _settings(file, baseline, metrics, Precision(precision, width),
                         schedule(max_replications, first or FIRST))  # fmt: skip
    refuse(backend, workers, address)
    _check(file)
    store = Store(None if out is None else Path(out))
    deadline = math.inf if budget is None else time.monotonic() + budget
    work = _Study(file, settings, store, deadline, progress)
    with backend_of(backend, workers, address) as place:
        answer = work.run(place)
    if store.folder is not None:
        answer.write(store.folder)
    return answer


class _Study:
    """The rounds of one comparison."""

    def __init__(
        self, file: ScenarioFile, settings: Settings, store: Store, deadline: float,
        progress: Show,
    ):  # fmt: skip
        self.file, self.settings, self.store = file, settings, store
        self.deadline, self.progress = deadline, progress
        most = settings.looks.sizes[-1]
        self.jobs = {v: jobs_of(v, s, most) for v, s in file.variants.items()}
        self.results: Results = {}
        self.reused = 0

    def run(self, place: Backend) -> Comparison:
        """Rounds of runs until the answer is settled, or the end of runs, budget or patience."""
        answer: Comparison | None = None
        ended = EXHAUSTED
        try:
            for look, size in enumerate(self.settings.looks.sizes, 1):
                if not self._round(place, look, size):
                    ended = BUDGET
                    break
                answer = self._answer(look, size, EXHAUSTED)
                if enough(answer.found, self.settings.metrics):
                    ended = SETTLED
                    break
        except KeyboardInterrupt:
            if not self._complete():
                raise
            ended = INTERRUPTED
        if answer is None:
            if not self._complete():
                raise ExperimentError("the budget ended before one replication was finished")
            return self._answer(0, self._complete(), ended)
        answer.ended = ended
        return answer

    def _round(self, place: Backend, look: int, size: int) -> bool:
        """Have all runs of a look; False if the budget ended before."""
        wanted = [self.jobs[v][r] for r in range(size) for v in self.file.variants]
        missing = []
        for job in wanted:
            if job.id not in self.results:
                kept = self.store.read(job)
                if kept is None:
                    missing.append(job)
                else:
                    self.results[job.id] = kept
                    self.reused += 1
        self._say(look, len(wanted))
        for job, result in place.run(missing, self._in_time):
            self.store.write(job, result)
            self.results[job.id] = result
            self._say(look, len(wanted), job, result["events"])
        return all(job.id in self.results for job in wanted)

    def _in_time(self) -> bool:
        return time.monotonic() < self.deadline

    def _complete(self) -> int:
        """How many replications, from the first on, all variants have finished."""
        n = 0
        while all((v, n) in self.results for v in self.file.variants):
            n += 1
        return n

    def _values(self, size: int) -> Values:
        return {
            v: {
                m: [value(self.results[v, r]["metrics"], m) for r in range(size)]
                for m in self.settings.shown
            }
            for v in self.file.variants
        }

    def _found(self, size: int, final: bool) -> list[Difference]:
        s = self.settings
        return differences(self._values(size), s.baseline, s.shown, s.looks, s.precision, final)

    def _answer(self, look: int, size: int, ended: str) -> Comparison:
        found = self._found(size, look > 0)
        return Comparison(self.file, self.settings, ended, look, size, self.results, found)

    def _say(self, look: int, wanted: int, job: Job | None = None, events: int = 0) -> None:
        if self.progress is silent:
            return
        done = self._complete()
        found = self._found(done, False) if done > 1 else []
        what = "" if job is None else f", {job.variant} {job.replication}"
        text = f"look {look}{what}{_widest(found)}"
        self.progress(text, len(self.results), wanted, self.reused, events)


def _widest(found: Sequence[Difference]) -> str:
    """The widest half-width of the first metric asked for."""
    if not found:
        return ""
    first = found[0].metric
    widest = max((d for d in found if d.metric == first), key=lambda d: d.difference.half)
    show = METRICS[first].gap(widest.difference.half, widest.difference.half)
    return f", {first} ±{show} ({widest.variant}, n={widest.replications})"


def _settings(
    file: ScenarioFile, baseline: str | None, metrics: Sequence[str], precision: Precision,
    looks: Looks,
) -> Settings:  # fmt: skip
    names = list(file.variants)
    if len(names) < 2:
        raise ExperimentError(f"{file.path}: nothing to compare: it has only one variant")
    base = chosen(file.baseline if baseline is None else baseline, names, "baseline")
    asked = tuple(dict.fromkeys(chosen(m, list(METRICS), "metric") for m in metrics))
    if not asked:
        raise ExperimentError("no metric to compare")
    return Settings(base, asked, precision, looks)


def _check(file: ScenarioFile) -> None:
    """Refuse what cannot be simulated before anything is played or written."""
    for scenario in file.variants.values():
        playable(scenario)
