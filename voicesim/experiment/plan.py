"""The cheapest setting that meets every SLO, found with a stated confidence."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import pandas as pd

import voicesim
from voicesim.experiment import plan_search as search
from voicesim.experiment.backends import Backend, refuse
from voicesim.experiment.backends import backend as backend_of
from voicesim.experiment.metrics import METRICS, ExperimentError, bottleneck, chosen, value
from voicesim.experiment.plan_search import MEETS, UNDECIDED, Limit, Node, Rule, Sample
from voicesim.experiment.space import SettingError, Space
from voicesim.experiment.store import Store
from voicesim.experiment.vary import axis_of, short
from voicesim.experiment.work import Job, jobs_of, model_version
from voicesim.files import write_json, write_tables, write_whole
from voicesim.progress import Show, silent
from voicesim.scenario import Scenario, ScenarioFile, load
from voicesim.scenario.units import stated_duration
from voicesim.schemas import current
from voicesim.simulation import problems

PLAN_SCHEMA = current("plan")
NEXT = 3  # settings named after the answer
ROWS = 9  # values of the second dimension, unless a step says otherwise
SHARES = {"refused": "refused", "abandoned": "abandoned", "failed": "failed"}
SHORT = {
    "clean": "clean_share", "stalled": "stalled_share", "ttfa_p50": "ttfa_p50_s",
    "ttfa_p95": "ttfa_p95_s", "ttfa_p99": "ttfa_p99_s",
    **{name: name for name in METRICS if name not in SHARES},
}  # fmt: skip
NAMES = (*list(SHORT)[:5], *SHARES, *list(SHORT)[5:])
TIMES = {name for name in METRICS if name.endswith("_s")}


@dataclass(frozen=True)
class Vary:
    """A whole number of the scenario and the values to try, the cheaper or preferred first."""

    key: str
    values: tuple[int, ...]


@dataclass(frozen=True)
class Setting:
    """One value of each varied key; cost in money (with a price) or cards."""

    name: str
    values: tuple[int, ...]
    cost: float
    scenario: Scenario


@dataclass(frozen=True)
class Judged:
    """A setting that was played; bottleneck: stage of the largest mean busy share, and it."""

    setting: Setting
    node: Node
    bottleneck: tuple[str, float] | None

    @property
    def weakest(self) -> search.Reading:
        """The limit with the least slack."""
        return min(self.node.readings, key=lambda r: r.slack)


@dataclass
class Plan:
    """The answer (None: no setting was shown to meet), and everything judged on the way."""

    file: ScenarioFile
    variant: str
    limits: tuple[Limit, ...]
    varied: tuple[Vary, ...]
    rule: Rule
    answer: Judged | None
    judged: list[Judged]
    priced: bool
    notes: list[str]
    runs: int
    reused: int = field(default=0, compare=False)

    @property
    def cheaper(self) -> Judged | None:
        """The nearest played setting before the answer that was not shown to meet: in the
        answer's own row."""
        if self.answer is None:
            found = [j for j in self.judged if j.node.verdict != MEETS]
            return found[-1] if found else None
        own = self.answer.setting
        order = self.varied[0].values
        at = order.index(own.values[0])
        row = [j for j in self.judged if j.setting.values[1:] == own.values[1:]]
        below = [j for j in row if order.index(j.setting.values[0]) < at]
        return max(below, key=lambda j: order.index(j.setting.values[0]), default=None)

    @property
    def alternatives(self) -> list[Judged]:
        """The next best three that were shown to meet, by cost, then as varied; the confidence is
        that of the answer alone."""
        found = [j for j in self.judged if j.node.verdict == MEETS and j is not self.answer]
        return sorted(found, key=lambda j: (j.setting.cost, *self._rank(j)))[:NEXT]

    @property
    def undecided(self) -> list[Judged]:
        """Settings about which the largest number of replications could not tell."""
        return [j for j in self.judged if j.node.verdict == UNDECIDED]

    @property
    def table(self) -> pd.DataFrame:
        """One row per setting judged and SLO: the setting, its cost and verdict, the metric with
        its mean and one-sided bounds (NaN: not measured)."""
        rows: list[dict[str, Any]] = []
        for judged in self.judged:
            row = self._row(judged) or {}
            setting, readings = row.pop("setting"), row.pop("slo")
            rows += [{**setting, **row, **reading} for reading in readings]
        return pd.DataFrame(rows).astype({"mean": float, "worst": float, "best": float})

    def _rank(self, judged: Judged) -> list[int]:
        pairs = zip(self.varied, judged.setting.values, strict=True)
        return [v.values.index(x) for v, x in pairs]

    def as_dict(self) -> dict[str, Any]:
        """plan.json: the same whatever the backend, the workers or interruptions on the way."""
        show = self._row
        return {
            "schema": PLAN_SCHEMA,
            "voicesim": voicesim.__version__,
            "model": model_version(),
            "scenario": self.file.path.name,
            "variant": self.variant,
            "slo": [asdict(limit) for limit in self.limits],
            "vary": [{"key": v.key, "values": list(v.values)} for v in self.varied],
            "rule": asdict(self.rule),
            "cost_unit": "money" if self.priced else "cards",
            "answer": show(self.answer),
            "first_to_break": show(self.cheaper),
            "next_best": [show(j) for j in self.alternatives],
            "undecided": [j.setting.name for j in self.undecided],
            "judged": [show(j) for j in self.judged],
            "notes": self.notes,
            "runs": self.runs,
        }

    def _row(self, judged: Judged | None) -> dict[str, Any] | None:
        if judged is None:
            return None
        keys = [v.key for v in self.varied]
        return {
            "setting": dict(zip(keys, judged.setting.values, strict=True)),
            "cost": judged.setting.cost,
            "verdict": judged.node.verdict,
            "replications": judged.node.replications,
            "binding": judged.weakest.limit.metric,
            "bottleneck": None if judged.bottleneck is None else judged.bottleneck[0],
            "slo": [
                {"metric": r.limit.metric, "mean": r.mean, "worst": r.worst, "best": r.best}
                for r in judged.node.readings
            ],
        }


def plan(
    file: ScenarioFile | str | Path,
    slo: Sequence[str],
    vary: Sequence[str],
    variant: str | None = None,
    confidence: float = 0.95,
    max_replications: int = 40,
    workers: int | None = None,
    backend: str = "processes",
    address: str | None = None,
    out: Path | str | None = None,
    progress: Show = silent,
    judged: Callable[[Judged], None] = lambda each: None,
) -> Plan:
    """Find the cheapest setting that meets every SLO with this confidence.

    slo: such as clean>=99% or ttfa_p95<=400ms.  vary: one or two of KEY=LOW..HIGH[:STEP], KEY a
    dotted path of the scenario.  out: folder in which finished runs are kept and found again.
    judged: told of each setting when its verdict is known.

    Raises ExperimentError (what was asked for), ScenarioErrors, WorkerDied; KeyboardInterrupt
    passes through, finished runs are kept.
    """
    if not isinstance(file, ScenarioFile):
        file = load(file)
    refuse(backend, workers, address)
    if not 0.5 <= confidence < 1.0:
        raise ExperimentError(f"confidence {confidence:g} is not within 0.5 and 1")
    limits = tuple(limit_of(text) for text in slo)
    if not limits or not 1 <= len(vary) <= 2:
        raise ExperimentError("give at least one --slo and one or two --vary")
    space = _Settings(Space(file, variant), [vary_of(text) for text in vary], vary)
    sizes = [len(v.values) for v in space.varied]
    nodes = search.depth(sizes[0]) if len(sizes) == 1 else sizes[0] * sizes[1]
    try:
        rule = search.rule_of(confidence, nodes, max_replications)
    except ValueError as problem:
        raise ExperimentError(str(problem)) from None
    store = Store(None if out is None else Path(out))
    with backend_of(backend, workers, address) as place:
        work = _Work(space, limits, rule, place, store, progress, judged)
        answer = work.search()
        if answer is not None:
            work.judge_next(answer)
    space.notes += work.oddities()
    found = Plan(
        file, space.space.variant, limits, space.varied, rule, answer,
        list(work.judged.values()), space.priced, space.notes, work.runs, work.reused,
    )  # fmt: skip
    if store.folder is not None:
        write_json(store.folder / "plan.json", found.as_dict())
        write_tables(store.folder, {"judged": found.table})
        write_whole(store.folder / "scenario.yaml", file.resolved_yaml())
    return found


# --- what was asked ---------------------------------------------------------------------------


def limit_of(text: str) -> Limit:
    """An SLO: METRIC>=VALUE or METRIC<=VALUE; shares in %, times in ms or s."""
    found = re.fullmatch(r"\s*([\w.]+)\s*(>=|<=)\s*(\S.*?)\s*", text)
    if found is None:
        raise ExperimentError(f"--slo {text}: expected such as clean>=99% or ttfa_p95<=400ms")
    name = chosen(found[1], NAMES, f"--slo {text}: metric")
    metric = SHARES.get(name) or SHORT[name]
    of = METRICS[metric]
    points = name in SHARES or of.points
    up = found[2] == ">="
    if of.better and up != (of.better > 0):
        right = ">=" if of.better > 0 else "<="
        raise ExperimentError(f"--slo {text}: {name} is limited by {right}")
    try:
        number = number_of(found[3], "share" if points else "s" if metric in TIMES else "")
    except ValueError as problem:
        raise ExperimentError(f"--slo {text}: {problem}") from None
    return Limit(name if name in SHARES else metric, up, number)


def number_of(text: str, unit: str) -> float:
    """A limit in its unit: "share" (99% or 0.99), "s" (400ms) or "" (1.2); raises ValueError."""
    if unit == "s":
        return stated_duration(text)
    number, percent = text.removesuffix("%").strip(), text.endswith("%")
    if unit != "share":
        number = text.removesuffix("x")
    try:
        plain = float(number)
    except ValueError:
        example = "99% or 0.99" if unit == "share" else "a number such as 1.2"
        raise ValueError(f"expected {example}; found {text!r}") from None
    plain = plain / 100.0 if percent and unit == "share" else plain
    if unit == "share" and not 0.0 <= plain <= 1.0:
        raise ValueError(f"a share lies between 0 and 100 %; found {text!r}")
    return plain


def vary_of(text: str) -> Vary:
    """KEY=LOW..HIGH[:STEP], whole numbers; HIGH below LOW counts down."""
    axis = axis_of(text)
    if axis.ends is None or axis.values is None or not all(v.isdecimal() for v in axis.values):
        raise ExperimentError(
            f"--vary {text}: expected KEY=LOW..HIGH or KEY=LOW..HIGH:STEP, whole numbers"
        )
    return Vary(axis.key, tuple(map(int, axis.values)))


class _Settings:
    """From values of the varied keys to a scenario, its name and its cost."""

    def __init__(self, space: Space, varied: Sequence[Vary], asked: Sequence[str]):
        self.space = space
        self.priced = space.base.cluster.price_per_hour is not None
        self.notes = space.notes
        self.varied = tuple(varied)
        if len({v.key for v in varied}) < len(varied):
            raise ExperimentError(f"--vary {varied[0].key}: given twice")
        for v, text in zip(varied, asked, strict=True):
            try:
                space.known(v.key, text.partition("=")[2].strip())
            except SettingError as problem:
                raise ExperimentError(f"--vary {text}: {problem}") from None
        corners = list(product(*((v.values[0], v.values[-1]) for v in varied)))
        ends = [self.setting(c) for c in corners]
        for end in ends:
            if wrong := problems(ScenarioFile(space.path, {space.variant: end.scenario})):
                raise ExperimentError(wrong[0])
        if len(varied) == 2:
            self._second(ends)

    def _second(self, ends: list[Setting]) -> None:
        """Bisect the key that costs (else the first); scan some values of the other."""
        first, second = self.varied
        if ends[0].cost == ends[2].cost and ends[0].cost != ends[1].cost:
            first, second = second, first
        count = len(second.values)
        if count > ROWS and abs(second.values[1] - second.values[0]) == 1:
            picks = sorted({round(i * (count - 1) / (ROWS - 1)) for i in range(ROWS)})
            second = replace(second, values=tuple(second.values[i] for i in picks))
        listed = ", ".join(map(str, second.values))
        self.notes.append(f"searched: {first.key} by bisection at {second.key} = {listed}")
        self.varied = (first, second)

    def setting(self, values: Sequence[int]) -> Setting:
        """The setting of these values, one of each varied key."""
        texts = {v.key: str(x) for v, x in zip(self.varied, values, strict=True)}
        try:
            made = self.space.scenario(texts)
        except SettingError as problem:
            sets = ", ".join(f"{k}={t}" for k, t in texts.items())
            raise ExperimentError(f"--vary {sets}: {problem}") from None
        name = ", ".join(f"{short(k)}={t}" for k, t in texts.items())
        price = made.cluster.price_per_hour
        cost = float(sum(made.cluster.cards_of(name) for name in made.cluster.pools))
        if price is not None:
            cost = price * made.horizon / 3600.0
        return Setting(name, tuple(values), cost, made)


# --- playing it -------------------------------------------------------------------------------


class _Work:
    """Judge settings by playing replications, all under the same callers."""

    def __init__(
        self, space: _Settings, limits: Sequence[Limit], rule: Rule, place: Backend, store: Store,
        progress: Show, say: Callable[[Judged], None],
    ):  # fmt: skip
        self.space, self.limits, self.rule = space, limits, rule
        self.place, self.store, self.progress, self.say = place, store, progress, say
        self.judged: dict[tuple[int, ...], Judged] = {}
        self.runs = self.reused = 0

    def search(self) -> Judged | None:
        """The cheapest that meets."""
        first, *more = self.space.varied
        if not more:
            at = search.bisect(0, len(first.values) - 1, lambda i: self._meets(first.values[i]))
            return None if at is None else self.judged[(first.values[at],)]
        rows = more[0].values
        found = search.scan(
            len(rows), len(first.values), lambda r, i: self._meets(first.values[i], rows[r])
        )
        return None if found is None else self.judged[first.values[found[1]], rows[found[0]]]

    def judge_next(self, answer: Judged) -> None:
        """Judge the cheapest settings that the search passed by, until NEXT others meet."""
        first, *more = self.space.varied
        at = first.values.index(answer.setting.values[0])
        near = [
            (i, *r) for i in range(at, min(at + NEXT + 1, len(first.values)))
            for r in product(*(range(len(v.values)) for v in more))
        ]  # fmt: skip
        waiting = [
            (self.space.setting(values).cost, place, values)
            for place in near
            if (values := tuple(v.values[i] for v, i in zip(self.space.varied, place, strict=True)))
            not in self.judged
        ]
        for cost, _, values in sorted(waiting)[: 2 * NEXT]:
            met = [j for j in self.judged.values() if j.node.verdict == MEETS]
            if sum(j.setting.cost <= cost for j in met) > NEXT:  # the answer is one of them
                return
            self._meets(*values)

    def _meets(self, *values: int) -> bool:
        setting = self.space.setting(values)
        jobs = jobs_of(setting.name, setting.scenario, self.rule.looks[-1])
        results: dict[int, dict[str, Any]] = {}

        def draw(n: int) -> dict[str, Sample]:
            self._have(setting, jobs[:n], results)
            runs = [results[r]["metrics"] for r in range(n)]
            return {x.metric: _sample(runs, x.metric) for x in self.limits}

        node = search.judge(self.limits, draw, self.rule)
        judged = Judged(setting, node, bottleneck([r["metrics"] for r in results.values()]))
        self.judged[tuple(values)] = judged
        self.say(judged)
        return node.verdict == MEETS

    def _have(self, setting: Setting, jobs: list[Job], results: dict[int, dict[str, Any]]) -> None:
        """Have the results of these jobs, from the folder or by playing them."""
        wanted = [job for job in jobs if job.replication not in results]
        found = 0
        for job, result, kept in self.store.have(wanted, self.place):
            results[job.replication] = result
            self.runs += 1
            self.reused += kept
            found += kept
            events = 0 if kept else result["events"]
            self.progress(setting.name, len(results), len(jobs), found, events, self.runs)

    def oddities(self) -> list[str]:
        """Signs that a limit is not met from some setting on: a later setting that is shown to be
        worse than an earlier one (bounds apart)."""
        order = self.space.varied[0].values
        rows: dict[tuple[int, ...], list[Judged]] = {}
        for j in self.judged.values():
            rows.setdefault(j.setting.values[1:], []).append(j)
        found = []
        for row in rows.values():
            row.sort(key=lambda j: order.index(j.setting.values[0]))
            for a, b in pairwise(row):
                for x, y in zip(a.node.readings, b.node.readings, strict=True):
                    if _worse(x, y):
                        found.append(
                            f"not monotone: {x.limit.metric} is worse at {b.setting.name} than at "
                            f"{a.setting.name}; the search takes it to get better"
                        )
        return found


def _worse(x: search.Reading, y: search.Reading) -> bool:
    if x.worst is None or y.best is None or y.met:
        return False
    return y.best < x.worst if x.limit.at_least else y.best > x.worst


def _sample(runs: Sequence[Mapping[str, Any]], metric: str) -> Sample:
    offered = [float(m["offered"]) for m in runs]
    if metric in SHARES:
        pairs = zip((m[metric] for m in runs), offered, strict=True)
        return Sample([x / n if n else None for x, n in pairs], offered)
    values = [value(m, metric) for m in runs]
    if metric == "clean_share":
        return Sample(values, offered)
    if metric == "stalled_share":  # of the accepted calls in which a stall can be measured
        return Sample(
            values, [max(m["offered"] - m["refused"] - m["not_measured"], 0.0) for m in runs]
        )
    return Sample(values)
