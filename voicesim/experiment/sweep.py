"""Settings of a scenario, each played in the same replications, and what comes of each."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

import voicesim
from voicesim.experiment.backends import refuse
from voicesim.experiment.design import Design, Setting, design
from voicesim.experiment.metrics import METRICS, chosen, flat
from voicesim.experiment.playing import (
    Run,
    measured,
    play_all,
    warnings_of,
)
from voicesim.experiment.space import SettingError, Space
from voicesim.experiment.vary import short
from voicesim.experiment.work import jobs_of, model_version
from voicesim.files import write_json, write_tables, write_whole
from voicesim.metrics.summary import aggregate
from voicesim.progress import Show, silent
from voicesim.scenario import Scenario, ScenarioFile, load
from voicesim.scenario.units import BYTES, SECONDS
from voicesim.schemas import current

SWEEP_SCHEMA = current("sweep")
REPLICATIONS = 5
Cell = str | float | bool | None


@dataclass
class Played:
    """One setting: its values in the scenario's plain units, and its runs in order."""

    setting: Setting
    cells: dict[str, Cell]
    runs: list[Run]

    @cached_property
    def means(self) -> dict[str, Mapping[str, float | None]]:
        """Metric -> {mean, low, high} over replications, 95 %: those that the runs have."""
        found = flat(aggregate([run["metrics"] for run in self.runs]))
        return {name: found[name] for name in METRICS if name in found}


@dataclass
class Sweep:
    """All settings of a sweep.  reused: runs that were found in the folder."""

    file: ScenarioFile
    variant: str
    design: Design
    metrics: tuple[str, ...]
    played: list[Played]
    notes: list[str]
    reused: int = field(default=0, compare=False)

    @property
    def replications(self) -> int:
        """Runs of each setting."""
        return len(self.played[0].runs)

    @property
    def runs(self) -> pd.DataFrame:
        """One row per setting and replication: setting (its number from 0), the varied keys,
        replication, every metric (NaN: not measured)."""
        return pd.DataFrame(
            [
                {"setting": i, **each.cells, "replication": r, **measured(run)}
                for i, each in enumerate(self.played)
                for r, run in enumerate(each.runs)
            ]
        )

    @property
    def means(self) -> pd.DataFrame:
        """One row per setting and metric: mean, low, high (95 %) over replications."""
        return pd.DataFrame(
            [
                {"setting": i, **each.cells, "metric": name, **of}
                for i, each in enumerate(self.played)
                for name, of in each.means.items()
            ]
        ).astype({"mean": float, "low": float, "high": float})

    @property
    def varied(self) -> list[str]:
        """Keys that take more than one value."""
        return [k for k in self.design.keys if len({p.cells[k] for p in self.played}) > 1]

    def label(self, key: str) -> str:
        """A key as it is shown, with the unit of its values where they were written with one."""
        for each in self.played:
            unit = re.fullmatch(r"[-+.\deE]+\s*([A-Za-z/]+)", each.setting.values[key])
            if unit and isinstance(each.cells[key], float):
                plain = "bytes" if unit[1] in BYTES else "s" if unit[1] in SECONDS else "per s"
                return f"{short(key)} ({'per h' if key.endswith('.price') else plain})"
        return short(key)

    @property
    def other_callers(self) -> int:
        """Settings that met other callers than the first one did, in some replication."""
        first = [run["callers"] for run in self.played[0].runs]
        return sum([run["callers"] for run in p.runs] != first for p in self.played)

    @property
    def warnings(self) -> list[str]:
        """What a reader must know before trusting these numbers, and of how many settings."""
        return warnings_of([(p.setting.name, p.runs) for p in self.played])

    def as_dict(self) -> dict[str, Any]:
        """sweep.json: the same whatever the backend, the workers or interruptions on the way."""
        base = self.file.variants[self.variant]
        return {
            "schema": SWEEP_SCHEMA,
            "voicesim": voicesim.__version__,
            "model": model_version(),
            "title": base.title,
            "scenario": self.file.path.name,
            "variant": self.variant,
            "design": self.design.kind,
            "keys": list(self.design.keys),
            "metrics": list(self.metrics),
            "replications": self.replications,
            "seed": base.seed,
            "horizon": base.horizon,
            "warmup": base.warmup,
            "settings": [
                {"values": each.cells, "written": dict(each.setting.values), "metrics": each.means}
                for each in self.played
            ],
            "other_callers": self.other_callers,
            "notes": self.notes,
            "warnings": self.warnings,
        }

    def write(self, folder: Path) -> None:
        """sweep.json, sweep.parquet (runs), means.parquet and the resolved scenario."""
        write_tables(folder, {"sweep": self.runs, "means": self.means})
        write_whole(folder / "scenario.yaml", self.file.resolved_yaml())
        write_json(folder / "sweep.json", self.as_dict())


def sweep(
    file: ScenarioFile | str | Path,
    vary: Sequence[str] = (),
    points: int | None = None,
    settings: Path | str | None = None,
    metrics: Sequence[str] = ("clean_share",),
    variant: str | None = None,
    replications: int = REPLICATIONS,
    workers: int | None = None,
    backend: str = "processes",
    address: str | None = None,
    out: Path | str | None = None,
    progress: Show = silent,
) -> Sweep:
    """Play every setting of a design in the same replications.

    vary, points, settings: see ``design``.  metrics: those to show; all are kept.  out: folder in
    which finished runs are kept and found again; None: nowhere.

    Raises ExperimentError (what was asked for, before anything runs), ScenarioErrors,
    ProfileError, WorkerDied; KeyboardInterrupt passes through, finished runs are kept.
    """
    if not isinstance(file, ScenarioFile):
        file = load(file)
    refuse(backend, workers, address)
    shown = tuple(dict.fromkeys(chosen(m, list(METRICS), "metric") for m in metrics))
    space = Space(file, variant)
    listed = None if settings is None else Path(settings)
    plan = design(space, vary, points, listed, space.base.seed)
    if points is not None and len(plan.settings) < points:
        space.notes.append(f"{len(plan.settings)} of the {points} points are distinct")
    scenarios = [_scenario(space, setting) for setting in plan.settings]
    jobs = [
        job
        for setting, scenario in zip(plan.settings, scenarios, strict=True)
        for job in jobs_of(setting.name, scenario, replications)
    ]
    results, reused = play_all(jobs, out, backend, workers, address, progress)
    played = [
        Played(setting, cells, [results[setting.name, r] for r in range(replications)])
        for setting, cells in zip(plan.settings, _cells(plan, scenarios), strict=True)
    ]
    found = Sweep(file, space.variant, plan, shown, played, space.notes, reused)
    if out is not None:
        found.write(Path(out))
    return found


def _scenario(space: Space, setting: Setting) -> Scenario:
    """The scenario of a setting, refused here if it cannot be played."""
    try:
        made = space.scenario(setting.values)
        space.playable(made)
    except SettingError as problem:
        raise setting.refused(problem) from None
    return made


def _cells(plan: Design, scenarios: Sequence[Scenario]) -> list[dict[str, Cell]]:
    """The values of each setting in plain units (s, bytes, per s); for a key that has other than
    plain values of one kind, as they were written."""
    resolved = [scenario.resolved() for scenario in scenarios]
    columns: dict[str, list[Cell]] = {}
    for key in plan.keys:
        cells = [_cell(data, key) for data in resolved]
        plain = len({type(cell) for cell in cells}) == 1 and cells[0] is not None
        columns[key] = cells if plain else [s.values[key] for s in plan.settings]
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _cell(resolved: Any, key: str) -> Cell:
    """The plain value at a key, a constant law's too; None: it is something else."""
    for step in key.split("."):
        found = resolved[int(step)] if isinstance(resolved, list) else resolved.get(step)
        resolved = {} if found is None else found
    if isinstance(resolved, dict) and list(resolved) == ["constant"]:
        resolved = resolved["constant"]
    if isinstance(resolved, int | float) and not isinstance(resolved, bool):
        return float(resolved)
    return resolved if isinstance(resolved, bool | str) else None
