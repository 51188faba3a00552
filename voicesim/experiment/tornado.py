"""Which input, moved from end to end of its interval, moves a metric most."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

import voicesim
from voicesim.experiment import method
from voicesim.experiment.backends import refuse
from voicesim.experiment.bars import Bar, bars_of, p_lead
from voicesim.experiment.decide import ALPHA
from voicesim.experiment.inputs import BASE, HIGH, LOW, Input, inputs_of
from voicesim.experiment.metrics import METRICS, ExperimentError, chosen, value
from voicesim.experiment.perturb import INTERVAL, Still
from voicesim.experiment.playing import (
    Run,
    measured,
    play_all,
    warnings_of,
)
from voicesim.experiment.space import SettingError, Space
from voicesim.experiment.work import jobs_of, model_version
from voicesim.files import write_json, write_tables, write_whole
from voicesim.metrics.summary import interval
from voicesim.progress import Show, silent
from voicesim.scenario import ScenarioFile, load
from voicesim.schemas import current

TORNADO_SCHEMA = current("tornado")
REPLICATIONS = 10


@dataclass
class Tornado:
    """The answer; ``bars``: the widest first.  still: numbers of the profile without interval."""

    file: ScenarioFile
    variant: str
    profile: str
    metric: str
    base: list[Run]
    bars: list[Bar]
    still: list[Still]
    runs: pd.DataFrame
    warnings: list[str]
    notes: list[str]
    reused: int = field(default=0, compare=False)

    @property
    def mean(self) -> dict[str, float | None]:
        """{mean, low, high} of the metric in the base."""
        return interval([value(run["metrics"], self.metric) for run in self.base])

    @property
    def leader(self) -> Bar | None:
        """The input that moves it most; None if none is shown to move it."""
        return next((bar for bar in self.bars if bar.shown), None)

    @property
    def rivals(self) -> list[Bar]:
        """Inputs that may move it as much as the leader: the paired difference of their spans is
        not shown to be other than 0 (Holm over all others)."""
        top = self.leader
        others = [bar for bar in self.bars if bar is not top and bar.span > 0]
        if top is None:
            return []
        adjusted = method.holm([p_lead(top.spans, bar.spans) for bar in others])
        return [bar for bar, p in zip(others, adjusted, strict=True) if p >= ALPHA]

    def reach_of(self, why: Callable[[str], bool]) -> tuple[float, float] | None:
        """Lowest and highest mean difference that inputs of this kind bring about, one by one."""
        found = [bar.reach for bar in self.bars if why(bar.input.why)]
        return (min(a for a, _ in found), max(b for _, b in found)) if found else None

    @property
    def calibration(self) -> tuple[float, float] | None:
        """``reach_of`` the intervals of the profile; None: it has none."""
        return self.reach_of(lambda why: why == INTERVAL)

    @property
    def table(self) -> pd.DataFrame:
        """One row per input and end: its value, the difference from the base and its verdict."""
        return pd.DataFrame(
            [
                {"input": bar.input.name, "why": bar.input.why, "end": end, **row}
                for bar in self.bars
                for end, row in zip((LOW, HIGH), bar.ends, strict=True)
            ]
        ).astype(dict.fromkeys(("mean", "difference", "low", "high"), float))

    def as_dict(self) -> dict[str, Any]:
        """tornado.json: the same whatever the backend, the workers or interruptions."""
        base, top = self.file.variants[self.variant], self.leader
        return {
            "schema": TORNADO_SCHEMA,
            "voicesim": voicesim.__version__,
            "model": model_version(),
            "title": base.title,
            "scenario": self.file.path.name,
            "variant": self.variant,
            "profile": self.profile,
            "metric": self.metric,
            "replications": len(self.base),
            "seed": base.seed,
            "horizon": base.horizon,
            "base": self.mean,
            "decided_by": None if top is None else top.input.name,
            "as_much_perhaps": [bar.input.name for bar in self.rivals],
            "calibration": _pair(self.calibration),
            "inputs": [
                {
                    "input": bar.input.name, "why": bar.input.why, "span": bar.span,
                    "same_callers": bar.same_callers,
                    **dict(zip((LOW, HIGH), bar.ends, strict=True)),
                }
                for bar in self.bars
            ],
            "no_interval": [
                {"key": each.key, "value": each.value, "origin": each.origin}
                for each in self.still
            ],
            "notes": self.notes,
            "warnings": self.warnings,
        }  # fmt: skip

    def write(self, folder: Path) -> None:
        """tornado.json, tornado.parquet, runs.parquet and the resolved scenario."""
        write_tables(folder, {"tornado": self.table, "runs": self.runs})
        write_whole(folder / "scenario.yaml", self.file.resolved_yaml())
        write_json(folder / "tornado.json", self.as_dict())


def tornado(
    file: ScenarioFile | str | Path,
    vary: Sequence[str] = (),
    assume: float | None = None,
    metric: str = "clean_share",
    variant: str | None = None,
    replications: int = REPLICATIONS,
    workers: int | None = None,
    backend: str = "processes",
    address: str | None = None,
    out: Path | str | None = None,
    progress: Show = silent,
) -> Tornado:
    """Move each input to both ends of its interval, one at a time, under the same callers.

    vary: KEY=LOW..HIGH of the scenario, or profile.KEY=LOW..HIGH of a number of its profile.
    Every number of the profile that has an interval is an input too; assume: share by which the
    others move (see ``perturb.moves``).  replications: 2 or more, of the base and of every end.

    Raises ExperimentError (what was asked for, before anything runs), ScenarioErrors,
    ProfileError, WorkerDied; KeyboardInterrupt passes through, finished runs are kept.
    """
    if not isinstance(file, ScenarioFile):
        file = load(file)
    refuse(backend, workers, address)
    chosen(metric, list(METRICS), "metric")
    if replications < 2:
        raise ExperimentError("--replications: a difference has no interval with fewer than 2")
    space = Space(file, variant)
    try:
        space.playable(space.base)
    except SettingError as problem:
        raise ExperimentError(f"{file.path}: {problem}") from None
    inputs, still = inputs_of(space, vary, assume, replications)
    name = ", ".join(profile.name for profile in space.profiles)
    if not inputs:
        ways = "--vary" if space.base.dialogue is not None else "--vary or --assume 20%"
        raise ExperimentError(f"nothing to move: profile {name} has no intervals; give {ways}")
    base_jobs = jobs_of(BASE, space.base, replications)
    jobs = [*base_jobs, *(job for each in inputs for end in each.jobs for job in end)]
    results, reused = play_all(jobs, out, backend, workers, address, progress)
    base = [results[job.id] for job in base_jobs]
    ends = [[[results[job.id] for job in end] for end in each.jobs] for each in inputs]
    named = [(BASE, base)] + [
        (jobs[0].variant, runs)
        for each, of in zip(inputs, ends, strict=True)
        for jobs, runs in zip(each.jobs, of, strict=True)
    ]
    found = Tornado(
        file, space.variant, name, metric, base, bars_of(metric, base, inputs, ends), still,
        _runs(base, inputs, ends), warnings_of(named), space.notes, reused,
    )  # fmt: skip
    if out is not None:
        found.write(Path(out))
    return found


# --- as tables --------------------------------------------------------------------------------


def _runs(
    base: Sequence[Run], inputs: Sequence[Input], ends: Sequence[Sequence[list[Run]]]
) -> pd.DataFrame:
    """One row per input, end and replication with every metric; the base's input is "base"."""
    parts = [(BASE, "", base)] + [
        (each.name, end, runs)
        for each, of in zip(inputs, ends, strict=True)
        for end, runs in zip((LOW, HIGH), of, strict=True)
    ]
    return pd.DataFrame(
        [
            {"input": name, "end": end, "replication": r, **measured(run)}
            for name, end, runs in parts
            for r, run in enumerate(runs)
        ]
    )


def _pair(reach: tuple[float, float] | None) -> dict[str, float] | None:
    return None if reach is None else {"low": reach[0], "high": reach[1]}
