"""Back-test alert rules on simulated peaks: every rule, every variant, R replications.

A run is kept as what could be scraped from it (``Observed``), whatever the rules: another rule,
horizon or scrape interval is answered from the runs that are there.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

import voicesim
from voicesim.experiment.backends import backend as backend_of
from voicesim.experiment.backends import refuse
from voicesim.experiment.backtest import OUTCOMES, Finding, Tally, finding, stall_times, tally
from voicesim.experiment.metrics import ExperimentError, chosen
from voicesim.experiment.store import Store
from voicesim.experiment.work import Job, jobs_of, model_version, runs_of
from voicesim.metrics import fleet, tables
from voicesim.metrics.alarms import expression, watch
from voicesim.metrics.observed import Observed, observe
from voicesim.metrics.promql import Clock
from voicesim.progress import Show, silent
from voicesim.scenario import Scenario, ScenarioFile
from voicesim.scenario.alarms import Alarm, narrow
from voicesim.scenario.checks import alarms as wrong_alarms
from voicesim.schemas import current
from voicesim.simulation import problems
from voicesim.study import merged, warnings_of

ALARMS_SCHEMA = current("alarms")
SHIPPED = Path(__file__).parent.parent / "metrics" / "alarms.yaml"
"""The rules for a scenario that has none."""


@dataclass(frozen=True)
class Asked:
    """rules and their source; scrape, evaluate, horizon in s."""

    rules: tuple[Alarm, ...]
    source: str
    replications: int
    scrape: float
    evaluate: float
    horizon: float

    def clock(self, scenario: Scenario) -> Clock:
        """Scrapes and evaluations in the bins of a scenario."""
        bin_s = scenario.series.resolution
        return Clock(bin_s, round(self.scrape / bin_s), round(self.evaluate / bin_s))


@dataclass
class Backtest:
    """The answer.  seen: what could be scraped from each (variant, replication)."""

    file: ScenarioFile
    asked: Asked
    seen: dict[tuple[str, int], Observed]
    findings: list[Finding]
    warnings: list[str]

    def of(self, variant: str) -> list[Finding]:
        """The rules in a variant, the best first."""
        return sorted((f for f in self.findings if f.variant == variant), key=lambda f: f.rank)

    def gauge_at_first_stall(self, variant: str) -> list[int]:
        """num_requests_waiting when the first late chunk left, of each run with a stall."""
        runs = [s for (v, _), s in self.seen.items() if v == variant]
        return [s.first_stall_waiting for s in runs if math.isfinite(s.first_stall)]

    @property
    def table(self) -> pd.DataFrame:
        """One row per variant and rule, the best of a variant first: the columns of alarms.json,
        what is by outcome under dotted names, NaN for null."""
        return pd.DataFrame(
            [
                {"variant": v, **_cells(f)}
                for v in dict.fromkeys(f.variant for f in self.findings)
                for f in self.of(v)
            ]
        )

    def as_dict(self) -> dict[str, Any]:
        """alarms.json."""
        base = self.file.variants[self.file.baseline]
        return {
            "schema": ALARMS_SCHEMA,
            "voicesim": voicesim.__version__,
            "model": model_version(),
            "title": base.title,
            "scenario": self.file.path.name,
            "settings": {
                "replications": self.asked.replications, "seed": base.seed,
                "scrape_s": self.asked.scrape, "evaluate_s": self.asked.evaluate,
                "horizon_s": self.asked.horizon, "rules": self.asked.source,
            },
            "rules": [
                {"name": rule.label, "metric": rule.metric, "expr": expression(rule),
                 "for_s": rule.hold}
                for rule in self.asked.rules
            ],
            "variants": {
                v: {
                    "waiting_at_first_stall": self.gauge_at_first_stall(v),
                    "rules": [_row(f) for f in self.of(v)],
                }
                for v in dict.fromkeys(f.variant for f in self.findings)
            },
            "warnings": self.warnings,
        }  # fmt: skip


def _row(f: Finding) -> dict[str, Any]:
    return {
        "rule": f.rule, "verdict": f.verdict, "runs": f.runs, "runs_with_stall": f.stalled,
        "first_stall": {o: f.first[o] for o in OUTCOMES},
        "warned_low": f.warned_range[0], "warned_high": f.warned_range[1],
        "lead_s": _finite(f.lead), "lead_range_s": f.lead_range and [*map(_finite, f.lead_range)],
        "leads_s": [_finite(x) for x in f.leads],
        "episodes": {o: f.all[o] for o in OUTCOMES},
        "missed_low": f.missed_range[0], "missed_high": f.missed_range[1],
        "raised": f.raised, "false": f.false, "hours": f.hours,
        "false_per_hour": f.false_per_hour,
        "false_per_hour_low": f.false_range[0], "false_per_hour_high": f.false_range[1],
    }  # fmt: skip


def _cells(f: Finding) -> dict[str, Any]:
    """``_row`` as cells of a table: numbers and words, and the leads as a list."""
    found: dict[str, Any] = {}
    for name, value in _row(f).items():
        if name == "lead_range_s":
            found["lead_low_s"], found["lead_high_s"] = map(_number, value or (None, None))
        elif name == "leads_s":
            found[name] = [*map(_number, value)]
        elif isinstance(value, dict):
            found |= {f"{name}.{outcome}": n for outcome, n in value.items()}
        else:
            found[name] = _number(value) if value is None else value
    return found


def _number(x: float | None) -> float:
    return math.nan if x is None else x


def _finite(x: float | None) -> float | None:
    return x if x is not None and math.isfinite(x) else None


def backtest(
    file: ScenarioFile,
    rules: Sequence[Alarm],
    source: str = "",
    variants: Sequence[str] = (),
    replications: int = 10,
    scrape: float = 5.0,
    evaluate: float | None = None,
    horizon: float = 300.0,
    workers: int | None = None,
    backend: str = "processes",
    address: str | None = None,
    out: Path | None = None,
    progress: Show = silent,
) -> Backtest:
    """Play R replications of each variant, and count what each rule was worth.

    scrape, evaluate: intervals (s), whole numbers of ``series.resolution``; 0: one bin; evaluate
    defaults to scrape.  horizon (s): see ``experiment.backtest``.  out: folder in which finished
    runs are kept.  Raises ExperimentError, ScenarioErrors (also for a model that cannot run),
    WorkerDied; KeyboardInterrupt leaves the finished runs in ``out``.
    """
    refuse(backend, workers, address)
    names = list(dict.fromkeys(chosen(v, list(file.variants), "variant") for v in variants))
    played = {v: file.variants[v] for v in names or file.variants}
    every = scrape if evaluate is None else evaluate
    asked = _asked(played, rules, source, replications, scrape, every, horizon)
    if any(scenario.dialogue is not None for scenario in played.values()):
        text = "alarms watch the engines of one pool; a dialogue has several stages"
        raise ExperimentError(f"{file.path}: workload.kind: {text}")
    if wrong := problems(file):
        raise ExperimentError("\n".join(wrong))
    store = Store(out)
    jobs = [j for v, s in played.items() for j in _jobs(v, s, replications)]
    results = {job.id: kept for job in jobs if (kept := store.read(job)) is not None}
    missing = [job for job in jobs if job.id not in results]
    found = len(results)
    progress("starting", found, len(jobs), found)
    if missing:
        with backend_of(backend, workers, address) as place:
            for job, result in place.run(missing, play=play):
                store.write(job, result)
                results[job.id] = result
                name = f"{job.variant} {job.replication}"
                progress(name, len(results), len(jobs), found, result["events"])
    seen = {job.id: Observed.unpacked(results[job.id]["observed"]) for job in jobs}
    findings = [
        finding(v, rule.label, [count(seen[v, r], rule, asked.clock(s), horizon)
                                for r in range(replications)])
        for v, s in played.items()
        for rule in rules
    ]  # fmt: skip
    warnings = merged((t, n) for job in jobs for t, n in results[job.id]["warnings"])
    return Backtest(file, asked, seen, findings, warnings)


def count(seen: Observed, rule: Alarm, clock: Clock, horizon: float) -> Tally:
    """One rule in one run."""
    spells = watch(seen, rule, clock).spells(seen.warmup)
    return tally(spells, stall_times(seen), horizon, seen.warmup, seen.horizon)


def play(job: Job) -> dict[str, Any]:
    """One run as plain data: what could be scraped from it."""
    whole, runs = runs_of(job, watch=True)
    streams = pd.concat([tables.streams(run) for run in runs], ignore_index=True)
    seen = observe(fleet.together(runs, whole), streams)
    warnings = [w for run in runs for w in warnings_of(run, job.variant)]
    events = sum(int(run.record.counters["events"]) for run in runs)
    return {"observed": seen.packed(), "warnings": warnings, "events": events}


def _jobs(variant: str, scenario: Scenario, replications: int) -> list[Job]:
    """Jobs whose key does not know of the rules, and is not that of another kind of study."""
    bare = scenario.model_copy(update={"alarms": []})
    jobs = jobs_of(variant, bare, replications)
    return [replace(job, key=f"a{job.key[1:]}") for job in jobs]


def _asked(
    played: dict[str, Scenario], rules: Sequence[Alarm], source: str, replications: int,
    scrape: float, evaluate: float, horizon: float,
) -> Asked:  # fmt: skip
    """Everything that is wrong between rules, clock and scenarios, at once."""
    if horizon <= 0:
        raise ExperimentError("--horizon: must be more than 0")
    found: dict[str, None] = {}
    for scenario in played.values():
        bin_s = scenario.series.resolution
        if not (bin_s * 500).is_integer():
            found[f"series.resolution: {bin_s:g}s is no even number of milliseconds"] = None
        for name, seconds in (("scrape", scrape), ("evaluate", evaluate)):
            if abs(seconds / bin_s - round(seconds / bin_s)) > 1e-9:
                text = f"--{name}: {seconds:g}s is no multiple of series.resolution ({bin_s:g}s)"
                found[text] = None
        for where, text in wrong_alarms(rules, scenario):
            found[f"{source}: {'.'.join(map(str, where))}: {text}"] = None
        for rule in rules:
            if text := narrow(rule, scrape or bin_s):
                found[f"{source}: {rule.label}: over: {text} (--scrape)"] = None
    if found:
        raise ExperimentError("\n".join(found))
    bin_s = min(s.series.resolution for s in played.values())
    return Asked(tuple(rules), source, replications, scrape or bin_s, evaluate or bin_s, horizon)
