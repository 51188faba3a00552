"""Finished folders: what kind of study each holds, what it says first, and its replications.

A folder is known by a JSON file at its top whose ``schema`` is voicesim-KIND/VERSION.  A kind
needs no entry in KINDS to be listed; with one, it has a headline of its own.  Which versions can
be read, ``voicesim.schemas`` says.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import yaml

from voicesim import schemas
from voicesim.experiment.metrics import ExperimentError
from voicesim.report import words
from voicesim.scenario.errors import unknown

REPLICATIONS = "replications.parquet"
REPLICATED = ("run", "compare", "gate")
"""The commands whose folders hold that table."""


ROW = (
    "folder", "kind", "schema", "title", "written", "variants", "replications", "headline",
    "complete", "problem",
)  # fmt: skip
"""Fields of a row of a listing."""


@dataclass(frozen=True)
class Kind:
    """command: that writes it.  headline: in a few words."""

    command: str
    headline: Callable[[Mapping[str, Any]], str]


def _clean(data: Mapping[str, Any]) -> str:
    """The best variant's CLEAN share with its interval over replications."""
    summary = {v: of.get("metrics", of) for v, of in data["variants"].items()}
    best = words.best_variant(summary)
    if best is None:
        return f"CLEAN {words.NOT_MEASURED}"
    share = words.with_interval(words.metric(summary[best], "clean_share"), words.percent)
    return f"CLEAN {share}" + (f" ({best})" if len(summary) > 1 else "")


def _plan(data: Mapping[str, Any]) -> str:
    if data["answer"] is None:
        return "no setting meets"
    setting = data["answer"]["setting"].items()
    return ", ".join(f"{k.removeprefix('cluster.pools.')}={v}" for k, v in setting) + " meets"


def _ladder(data: Mapping[str, Any]) -> str:
    least = "at least " if data["ceiling_censored"] else ""
    return f"ceiling {least}{data['ceiling_p50']} (90 %: {data['ceiling_p90']})"


def _gate(data: Mapping[str, Any]) -> str:
    failed = [row["metric"] for row in data["metrics"] if row["failed"]]
    return "pass" if not failed else f"FAIL: {len(failed)} of {len(data['metrics'])} worse"


def _sweep(data: Mapping[str, Any]) -> str:
    shares = [words.metric(each["metrics"], "clean_share")["mean"] for each in data["settings"]]
    known = [share for share in shares if share is not None]
    if not known:
        return f"{len(shares)} settings"
    return (
        f"{len(shares)} settings, CLEAN {words.percent(min(known))} to {words.percent(max(known))}"
    )


def _tornado(data: Mapping[str, Any]) -> str:
    decided = data["decided_by"]
    return f"{data['metric']}: " + (f"decided by {decided}" if decided else "no input leads")


def _alarms(data: Mapping[str, Any]) -> str:
    first = {v: of["rules"][0]["rule"] for v, of in data["variants"].items() if of["rules"]}
    return "best rule " + ", ".join(f"{rule} ({v})" for v, rule in first.items())


KINDS = {
    "summary": Kind("run", _clean),
    "comparison": Kind("compare", _clean),
    "plan": Kind("plan", _plan),
    "ladder": Kind("ladder", _ladder),
    "gate": Kind("gate", _gate),
    "sweep": Kind("sweep", _sweep),
    "tornado": Kind("tornado", _tornado),
    "alarms": Kind("alarms", _alarms),
}
"""By the KIND of the schema."""


@dataclass(frozen=True)
class Study:
    """One study in a folder.  file: its JSON; written: when (seconds since 1970)."""

    folder: Path
    file: Path
    schema: str
    data: dict[str, Any] = field(repr=False)
    written: float

    @property
    def kind(self) -> str:
        """The command that wrote it, else the KIND of its schema."""
        name = self.schema.removeprefix("voicesim-").partition("/")[0]
        return KINDS[name].command if name in KINDS else name

    @property
    def headline(self) -> str:
        """What it says first; of an unknown kind, its own ``headline``, if any."""
        name = self.schema.removeprefix("voicesim-").partition("/")[0]
        if name in KINDS:
            return KINDS[name].headline(self.data)
        return str(self.data.get("headline", ""))

    @property
    def title(self) -> str:
        """The scenario's title, else what the study is about."""
        names = ("title", "scenario", "profile", "trace")
        return next((str(self.data[n]) for n in names if self.data.get(n)), "")

    @property
    def variants(self) -> list[str]:
        """Names of the variants; a study of one variant has that one."""
        found = self.data.get("variants")
        if isinstance(found, Mapping):
            return list(found)
        return [str(self.data["variant"])] if self.data.get("variant") else []

    @property
    def replications(self) -> int | None:
        """Replications (of a ladder: seeds) of each variant; None: it does not say."""
        found = self.data.get("replications", self.data.get("seeds"))
        return found if isinstance(found, int) else None

    @property
    def complete(self) -> bool:
        """False: of an interrupted command."""
        return bool(self.data.get("complete", self.data.get("ended") != "interrupted"))

    def row(self) -> dict[str, Any]:
        """For a listing, as plain data; raises ExperimentError where the data make no sense."""
        try:
            said = {name: getattr(self, name) for name in ROW[1:-1]}
            return {"folder": self.folder.name, **said, "problem": None}
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            text = f"lacks {error}" if isinstance(error, KeyError) else str(error)
            raise ExperimentError(f"{self.file.name}: is no {self.schema}: {text}") from None


def studies(folder: Path) -> list[Study]:
    """The studies in a folder; raises ExperimentError, with the reason, if there is none or one
    of its files cannot be read."""
    if not folder.is_dir():
        near = [p.name for p in folder.parent.glob("*") if p.is_dir()]
        hint = unknown(folder.name, near, "is no folder") if near else "is no folder"
        raise ExperimentError(f"{folder}: {hint}")
    try:
        files = sorted(p for p in folder.iterdir() if p.is_file())
    except OSError as error:
        raise ExperimentError(f"{folder}: {error.strerror}") from None
    found = [study for p in files if p.suffix == ".json" and (study := _study(p)) is not None]
    if not found:
        raise ExperimentError(f"{folder}: holds no JSON with a schema of voicesim")
    for path in files:
        if path.suffix == ".parquet":
            _parquet(path)
    return found


def _study(path: Path) -> Study | None:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ExperimentError(f"{path.name}: cannot be read as JSON: {error}") from None
    schema = data.get("schema") if isinstance(data, dict) else None
    if schemas.parsed(schema) is None:
        return None
    try:
        schemas.warn(f"{path.parent.name}/{path.name}", schemas.understood(schema))
    except schemas.SchemaError as error:
        raise ExperimentError(f"{path.name}: schema: {error}") from None
    return Study(path.parent, path, str(schema), data, path.stat().st_mtime)


def _parquet(path: Path) -> None:
    try:
        pq.read_schema(path)
    except (OSError, ValueError) as error:
        text = str(error).partition("\n")[0]
        raise ExperimentError(f"{path.name}: cannot be read as Parquet: {text}") from None


def listing(root: Path) -> list[dict[str, Any]]:
    """A row per study in the folders under ``root`` (itself, if it is one), the latest first, then
    the folders that cannot be read, each with its ``problem``.  Hidden folders are left out."""
    if not root.is_dir():
        raise ExperimentError(f"{root}: is no folder")
    inside = sorted(p for p in root.iterdir() if p.is_dir() and not p.name.startswith("."))
    own = any(root.glob("*.json"))
    good: list[dict[str, Any]] = []
    bad: list[dict[str, Any]] = []
    for folder in [root] if own else inside:
        try:
            good += [study.row() for study in studies(folder)]
        except ExperimentError as problem:
            text = str(problem).removeprefix(f"{folder}: ")
            bad.append({"folder": folder.name, "kind": "unreadable", "problem": text})
    return sorted(good, key=lambda row: -row["written"]) + bad


# --- replications -----------------------------------------------------------------------------


def replications(folder: Path) -> pd.DataFrame:
    """replications.parquet of a finished run, comparison or gate: a row per variant and
    replication (docs/reference/results.md).  Raises ExperimentError."""
    first = studies(folder)[0]
    if not first.complete:
        raise ExperimentError(f"{folder}: is of an interrupted {first.kind}; let it finish")
    path = folder / REPLICATIONS
    if not path.is_file():
        kinds = "voicesim run, compare or gate"
        raise ExperimentError(f"{folder}: lacks {REPLICATIONS}; {kinds} of this version writes it")
    table = pd.read_parquet(path)
    lacking = {"variant", "replication", "callers"} - set(table.columns)
    if lacking:
        raise ExperimentError(f"{path}: lacks the column {sorted(lacking)[0]}")
    return table


def resolved(folder: Path) -> dict[str, dict[str, Any]]:
    """scenario.yaml of a folder: each variant in full.  Raises ExperimentError."""
    path = folder / "scenario.yaml"
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        text = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        raise ExperimentError(f"{path}: cannot be read: {text}") from None
    if not isinstance(data, dict) or not all(isinstance(v, dict) for v in data.values()):
        raise ExperimentError(f"{path}: is no resolved scenario")
    return data
