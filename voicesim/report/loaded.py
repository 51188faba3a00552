"""A finished folder as tables and a figure, whatever command wrote it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.image import imread
from rich.console import Console

from voicesim.experiment.folders import Study, studies
from voicesim.experiment.metrics import ExperimentError
from voicesim.metrics.summary import summary_table
from voicesim.report import figure as peak
from voicesim.report.runs import print_listing
from voicesim.report.study_figures import differences_figure, plan_figure

TABLES = {
    "run": "replications", "compare": "differences", "plan": "judged", "ladder": "levels",
    "gate": "gate", "sweep": "sweep", "tornado": "runs", "alarms": "alarms",
}  # fmt: skip
"""The main table of each kind; another kind's is the first in the folder."""
MEANS = {"sweep": "means", "tornado": "tornado"}
"""Kinds whose summary is a table of its own."""
SHORT = {
    "gate": ("metric", "verdict", "failed"),
    "alarms": ("variant", "rule", "verdict", "lead_s", "false_per_hour"),
}
"""Kinds whose summary is columns of the main table."""


@dataclass(frozen=True)
class Loaded:
    """A study with its main table, its summary and a figure."""

    study: Study
    table: pd.DataFrame
    summary: pd.DataFrame
    figure: Callable[[], Figure]

    def show(self, console: Console) -> None:
        """Its line in a listing."""
        print_listing(self.study.folder, [self.study.row()], console)


def open_study(folder: Path) -> Loaded:
    """The first study in a folder; raises ExperimentError where it cannot be read."""
    study = studies(folder)[0]
    study.row()
    name = TABLES.get(study.kind)
    found = [folder / f"{name}.parquet"] if name else sorted(folder.glob("*.parquet"))
    if not found or not found[0].is_file():
        raise ExperimentError(f"{folder}: lacks {name or 'a table'}.parquet")
    table = pd.read_parquet(found[0])
    try:
        summary = _summary(study, table)
    except OSError as error:
        raise ExperimentError(f"{error.filename}: cannot be read: {error.strerror}") from None
    except (LookupError, TypeError, AttributeError) as error:
        raise ExperimentError(f"{study.file}: is no {study.schema}: {error!r}") from None
    return Loaded(study, table, summary, lambda: _figure(study, table))


def _summary(study: Study, table: pd.DataFrame) -> pd.DataFrame:
    data = study.data
    if study.kind in ("run", "compare"):
        return summary_table({v: of.get("metrics", of) for v, of in data["variants"].items()})
    if study.kind == "plan":
        return plan_summary(table)
    if study.kind == "ladder":
        return ladder_summary(data)
    if study.kind in MEANS:
        return pd.read_parquet(study.folder / f"{MEANS[study.kind]}.parquet")
    return table[list(SHORT[study.kind])] if study.kind in SHORT else table


def _figure(study: Study, table: pd.DataFrame) -> Figure:
    data, folder = study.data, study.folder
    if study.kind == "run":
        return peak.draw(pd.read_parquet(folder / "series.parquet"), data["variants"], data)
    if study.kind == "plan":
        return plan_picture(table, data)
    if study.kind == "gate":
        return gate_figure(table, data["variant"])
    return _picture(folder)


def gate_figure(table: pd.DataFrame, variant: str) -> Figure:
    """The differences of a gate, a panel per metric."""
    return differences_figure(table.assign(variant=variant), list(table["metric"]), "the baseline")


def plan_picture(table: pd.DataFrame, data: Mapping[str, Any]) -> Figure:
    """The settings of a plan; data: its plan.json."""
    keys = [vary["key"] for vary in data["vary"]]
    return plan_figure(table, keys, pd.DataFrame(data["slo"]))


def plan_summary(table: pd.DataFrame) -> pd.DataFrame:
    """One row per setting, the cheapest first."""
    each = table.drop(columns=["metric", "mean", "worst", "best"]).drop_duplicates()
    return each.sort_values("cost", kind="stable").reset_index(drop=True)


def ladder_summary(data: Mapping[str, Any]) -> pd.DataFrame:
    """The figures of a ladder.json, one row each."""
    names = (
        "ceiling_p50", "ceiling_p90", "ceiling_p100", "naive", "naive_throughput", "knee", "peak",
        "measured_to",
    )  # fmt: skip
    rows = [{"figure": n, "value": data[n]} for n in names if n in data]  # naive_throughput: young
    return pd.DataFrame(rows).astype({"value": float})


def _picture(folder: Path) -> Figure:
    """The PNG that the command drew."""
    pictures = sorted(folder.glob("*.png"))
    if not pictures:
        raise ExperimentError(f"{folder}: holds no picture")
    image = imread(pictures[0])
    figure = Figure(figsize=(image.shape[1] / 120, image.shape[0] / 120))
    axis = figure.add_axes((0, 0, 1, 1))
    axis.imshow(image)
    axis.set_axis_off()
    return figure
