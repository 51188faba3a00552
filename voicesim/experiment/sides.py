"""The two sides of a gate: a finished folder, or a scenario that is played now."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

import voicesim
from voicesim.experiment import folders
from voicesim.experiment.backends import Backend
from voicesim.experiment.judge import LEAST, Asked, asked_of
from voicesim.experiment.metrics import METRICS, ExperimentError, chosen
from voicesim.experiment.store import Store
from voicesim.experiment.work import jobs_of
from voicesim.files import finite
from voicesim.progress import Show
from voicesim.scenario import Scenario, ScenarioFile, load
from voicesim.simulation import checked
from voicesim.study import replication_table

USUAL = 10
"""Replications of two scenarios, where neither file asks for more."""
ALIKE = {
    "horizon": ("horizon",),
    "warm-up": ("warmup",),
    "slo.start_within": ("slo", "start_within"),
    "slo.no_stall_over": ("slo", "no_stall_over"),
    "listener.audible": ("listener", "audible"),
}
"""What both sides must have in common for their metrics to mean the same."""


@dataclass(frozen=True)
class Side:
    """name: folder or file.  table: its replications (rows of replications.parquet).  scenario:
    the variant in full.  voicesim: version that played it."""

    name: str
    variant: str
    table: pd.DataFrame
    scenario: dict[str, Any]
    voicesim: str

    @property
    def title(self) -> str:
        """The scenario's title."""
        return str(self.scenario.get("title") or "")

    @property
    def seed(self) -> Any:
        """The scenario's seed."""
        return self.scenario.get("seed")

    @property
    def model(self) -> str:
        """Model version: the scenario's engine.model, else the name of its profile's file."""
        engines = [pool["engine"] for pool in self.scenario["cluster"]["pools"].values()]
        names = {str(e.get("model") or Path(e["profile"]).stem) for e in engines}
        if len(names) > 1:
            listed = ", ".join(sorted(names))
            text = "pools of several model versions; name one by --model or --baseline-model"
            raise ExperimentError(f"{self.name}: {text} (found {listed})")
        return names.pop()

    def as_dict(self) -> dict[str, Any]:
        """For gate.json."""
        return {
            "from": self.name, "variant": self.variant, "replications": len(self.table),
            "seed": self.seed, "voicesim": self.voicesim,
        }  # fmt: skip


def kept(folder: Path, variant: str) -> Side:
    """A variant of a finished folder; raises ExperimentError."""
    table = folders.replications(folder)
    mine = table[table["variant"] == variant].reset_index(drop=True)
    version = str(folders.studies(folder)[0].data.get("voicesim"))
    return Side(str(folder), variant, mine, _plain(folder, variant), version)


def same_callers(a: Side, b: Side) -> bool:
    """Did both sides meet the same callers in every replication that they share?"""
    both = a.table.merge(b.table, on="replication", suffixes=("_a", "_b"))
    same = both["callers_a"] == both["callers_b"]
    return len(both) >= LEAST and bool(same.all())


def notes(a: Side, b: Side, paired: bool) -> list[str]:
    """What a reader must know of the two sides."""
    found = []
    if not paired:
        why = ""
        if a.seed != b.seed:
            why = f" (seed {a.seed} and {b.seed}: the same seed would pair them)"
        found.append(f"the sides met other callers{why}: compared as independent samples")
    shared = len(set(a.table["replication"]) & set(b.table["replication"]))
    if paired and max(len(a.table), len(b.table)) > shared:
        found.append(f"compared over the {shared} replications that both have")
    if a.voicesim != b.voicesim:
        found.append(f"played by different versions of voicesim: {a.voicesim}, {b.voicesim}")
    return found


class Finder:
    """Finds the sides, playing what is not there; finished runs go to the store."""

    def __init__(
        self, replications: int | None, store: Store, place: Callable[[], Backend],
        progress: Show,
    ):  # fmt: skip
        self.replications, self.store = replications, store
        self.place, self.progress = place, progress

    def both(
        self, baseline: Path, candidate: ScenarioFile | Path | str, baseline_variant: str | None,
        variant: str | None, sets: Sequence[str], seed: int | None,
    ) -> tuple[Side, Side]:  # fmt: skip
        """Everything is read and checked before anything is played."""
        new = candidate if isinstance(candidate, ScenarioFile) else _open(candidate, sets, seed)
        old = _open(baseline, (), seed)
        name = _variant(new, variant, None)
        base = _variant(old, baseline_variant, name)
        count = self._count(old, base, new, name)
        _comparable(_plain(old, base), _plain(new, name))
        return self._side(old, base, count, "baseline"), self._side(new, name, count, "candidate")

    def _count(
        self, old: ScenarioFile | Path, base: str, new: ScenarioFile | Path, name: str
    ) -> int:
        """Replications to play of a scenario; refuses too few."""
        known = []
        for of, variant in ((old, base), (new, name)):
            if isinstance(of, ScenarioFile):
                continue
            table = folders.replications(of)
            known.append(int((table["variant"] == variant).sum()))
            if known[-1] < LEAST:
                raise ExperimentError(_too_few(f"{of}, {variant}", known[-1]))
        files = [of.variants[v].replications for of, v in ((old, base), (new, name))
                 if isinstance(of, ScenarioFile)]  # fmt: skip
        count = self.replications or (known[0] if known else max(USUAL, *files))
        if count < LEAST:
            raise ExperimentError(_too_few("--replications", count))
        return count

    def _side(self, of: ScenarioFile | Path, variant: str, count: int, what: str) -> Side:
        if isinstance(of, ScenarioFile):
            table = self._play(variant, of.variants[variant], count, what)
            version = voicesim.__version__
            return Side(str(of.path), variant, table, _plain(of, variant), version)
        return kept(of, variant)

    def _play(self, variant: str, scenario: Scenario, count: int, what: str) -> pd.DataFrame:
        results, missing = {}, []
        for job in jobs_of(variant, scenario, count):
            kept = self.store.read(job)
            if kept is None:
                missing.append(job)
            else:
                results[job.replication] = kept
        found = len(results)
        self.progress(what, found, count, found)
        with self.place() as place:
            for job, result in place.run(missing):
                self.store.write(job, result)
                results[job.replication] = result
                self.progress(what, len(results), count, found, result["events"])
        return replication_table(
            (variant, r, results[r]["callers"], results[r]["metrics"]) for r in range(count)
        )


def _too_few(what: str, n: int) -> str:
    count = f"{n} replication" + ("" if n == 1 else "s")
    return (
        f"{what}: {count}; at least {LEAST} are needed to tell a worsening from chance: "
        f"--replications {USUAL}"
    )


def is_folder(path: Path) -> bool:
    """Whether a finished folder is meant, there or not; else a scenario file."""
    return path.is_dir() or (not path.exists() and path.suffix not in (".yaml", ".yml"))


def _open(path: Path | str, sets: Sequence[str], seed: int | None) -> ScenarioFile | Path:
    """A scenario file is read and checked; a folder is left as it is."""
    path = Path(path)
    if is_folder(path):
        kinds = [study.kind for study in folders.studies(path)]
        if not any(kind in folders.REPLICATED for kind in kinds):
            article = "an" if kinds[0][0] in "aeiou" else "a"
            allowed = ", ".join(folders.REPLICATED)
            raise ExperimentError(f"{path}: is {article} {kinds[0]} folder; allowed: {allowed}")
        return path
    return checked(load(path, sets=sets, seed=seed))


def _variant(of: ScenarioFile | Path, asked: str | None, other: str | None) -> str:
    """The variant asked for, else the other side's if it is here, else the first."""
    names = list(of.variants) if isinstance(of, ScenarioFile) else list(folders.resolved(of))
    if asked is not None:
        return chosen(asked, names, "variant")
    return other if other in names else names[0]


def _plain(of: ScenarioFile | Path, variant: str) -> dict[str, Any]:
    found = of.resolved() if isinstance(of, ScenarioFile) else folders.resolved(of)
    return found[variant]


def _comparable(a: dict[str, Any], b: dict[str, Any]) -> None:
    for name, path in ALIKE.items():
        x, y = _at(a, path), _at(b, path)
        if x != y:
            raise ExperimentError(
                f"not comparable: {name} is {x} of the baseline and {y} of the candidate"
            )


def _at(data: Any, path: Sequence[str]) -> Any:
    for key in path:
        data = data.get(key) if isinstance(data, dict) else None
    return data


# --- two folders side by side -----------------------------------------------------------------


@dataclass(frozen=True)
class SideBySide:
    """Variant -> every metric that either folder measured."""

    names: tuple[str, str]
    asked: dict[str, list[Asked]]
    notes: list[str]

    def as_dict(self) -> dict[str, Any]:
        """Plain data, a row per variant and metric."""
        return {"a": self.names[0], "b": self.names[1], "metrics": self.rows(), "notes": self.notes}

    def rows(self) -> list[dict[str, Any]]:
        """A row per variant and metric; null: not measured, or no interval."""
        return [
            {
                "variant": v, "metric": each.metric, "a": finite(each.baseline),
                "b": finite(each.candidate), "difference": finite(each.difference.mean),
                "low": finite(each.difference.interval().low),
                "high": finite(each.difference.interval().high), "how": each.how,
            }
            for v, of in self.asked.items() for each in of
        ]  # fmt: skip


def side_by_side(a: Path, b: Path, variant: str | None = None) -> SideBySide:
    """All metrics of two finished folders: of the variants that both have, else of the first of
    each; ``variant``: of that one.  Raises ExperimentError."""
    for folder in (a, b):
        folders.replications(folder)  # says best why it is none
    mine, other = folders.resolved(a), folders.resolved(b)
    if variant is not None:
        for path, of in ((a, mine), (b, other)):
            chosen(variant, list(of), f"{path}: variant")
        pairs = [(variant, variant)]
    else:
        pairs = [(v, v) for v in mine if v in other] or [(next(iter(mine)), next(iter(other)))]
    found, said = {}, []
    for first, second in pairs:
        x, y = kept(a, first), kept(b, second)
        paired = same_callers(x, y)
        every = [
            asked_of(m, of.better, x.table, y.table, paired, least=1) for m, of in METRICS.items()
        ]
        name = first if first == second else f"{first}, {second}"
        found[name] = [each for each in every if max(each.runs) > 0]
        how = "paired t over replications of the same callers" if paired else "Welch's t"
        said.append(f"{name}: {len(x.table)} and {len(y.table)} replications, {how}")
        said += [f"{name}: {text}" for text in notes(x, y, paired)]
    said.append("each interval is on its own: among many, some leave out 0 by chance")
    return SideBySide((str(a), str(b)), found, said)
