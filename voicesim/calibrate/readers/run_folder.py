"""A folder that ``voicesim run`` wrote: its tables ``sessions/`` and ``streams/``.

One run of it is read at a time: a variant and a replication, of all its pools.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import yaml

from voicesim import schemas
from voicesim.calibrate.errors import CalibrationError
from voicesim.calibrate.readers.measured import REQUESTS, Measured, table
from voicesim.calibrate.readers.source import Head

NAME = "run folder of voicesim (sessions/ and streams/)"


def sniff(head: Head) -> bool:
    """A folder with both tables."""
    return {"sessions", "streams"} <= head.names


def read(path: Path, run: str | None = None) -> Measured:
    """Requests of a run, by default the baseline's first; arrival_s is when each was requested.
    Several pools are put together: their sessions are numbered through.

    run: VARIANT-REPLICATION.  audio_s, prompt_tokens (without the shared prefix) and think_s are
    what the caller brought, to the bit.  A session without a stream (it still waited when the run
    ended) is not there.
    """
    runs = _runs(path)
    names = list(runs)
    if run is not None and run not in runs:
        known = ", ".join(names)
        raise CalibrationError(path.name, None, f"holds no run {run!r}; it holds: {known}")
    chosen = run or names[0]
    streams = _parquet(runs[chosen])
    sessions = _parquet([path / "sessions" / file.name for file in runs[chosen]])
    streams = streams.sort_values(["session", "utterance"], kind="stable", ignore_index=True)
    arrival = sessions.set_index("session")["arrival_s"]
    if sessions["session"].duplicated().any():
        raise CalibrationError(f"{path.name}/sessions", None, f"run {chosen} has a session twice")
    first = streams["utterance"] == 0
    at = streams["requested_s"].where(~first, streams["session"].map(arrival))
    nan = pd.Series(np.nan, streams.index)
    rows = {
        "run": chosen,
        "request": np.arange(len(streams)),
        "session": streams["session"].astype(str),
        "arrival_s": at,
        "ttfa_s": streams["started_s"] - streams["requested_s"],
        "latency_s": streams["settled_s"] - streams["requested_s"],
        "audio_s": streams["audio_s"],
        "prompt_tokens": streams["prompt_tokens"] - _prefix(path, str(streams["variant"].iloc[0])),
        "think_s": streams.get("think_s", nan),
        "ok": streams["outcome"].astype(str) == "completed",
        "cancelled": streams["outcome"].astype(str) == "abandoned",
    }
    requests = table(REQUESTS, rows)
    if requests is None:
        raise CalibrationError(f"{path.name}/streams", None, f"run {chosen} holds no stream")
    others = [name for name in names if name != chosen]
    return Measured(
        path.name,
        f"{NAME}, run {chosen}",
        len(requests),
        tells=["who called when, what each utterance was, and the pauses"],
        cannot=[f"the runs {', '.join(others)}: one is read at a time"] if others else [],
        requests=requests,
    )


def _runs(path: Path) -> dict[str, list[Path]]:
    """The runs by name, VARIANT-REPLICATION, with the files of their streams, a pool each; the
    baseline's first.  Files without a row are left out."""
    files = sorted((path / "streams").glob("*.parquet"))
    if not files:
        raise CalibrationError(path.name, None, "streams/ holds no Parquet file")
    order = _order(path)
    found: dict[tuple[int, str, int], list[Path]] = {}
    for file in files:
        first = _columns(file, ["variant", "replication"]).head(1)
        for variant, replication in first.itertuples(index=False):
            rank = order.index(variant) if variant in order else len(order)
            found.setdefault((rank, str(variant), int(replication)), []).append(file)
    if not found:
        raise CalibrationError(f"{path.name}/streams", None, "holds no stream")
    return {f"{v}-{r}": found[rank, v, r] for rank, v, r in sorted(found)}


def _order(path: Path) -> list[str]:
    """The variants as summary.json has them; none if it cannot tell: the tables are enough."""
    try:
        summary = json.loads((path / "summary.json").read_text(encoding="utf-8"))
        order = list(summary["variants"])
        schema = summary["schema"]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    try:
        schemas.warn(f"{path.name}/summary.json", schemas.understood(schema, "summary"))
    except schemas.SchemaError as error:
        raise CalibrationError(f"{path.name}/summary.json", None, f"schema: {error}") from None
    return order


def _prefix(path: Path, variant: str) -> int:
    """The tokens that the scenario put before every prompt (its utterance.shared_prefix)."""
    file = path / "scenario.yaml"
    if not file.is_file():
        return 0
    try:
        resolved = yaml.safe_load(file.read_text(encoding="utf-8"))
        return int(resolved[variant]["workload"]["utterance"].get("shared_prefix", 0))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, yaml.YAMLError) as error:
        name = f"{path.name}/scenario.yaml"
        raise CalibrationError(name, None, f"does not describe {variant!r}: {error!r}") from error


COLUMNS = {
    "streams": ["session", "utterance", "outcome", "requested_s", "started_s", "settled_s",
                "audio_s", "prompt_tokens"],
    "sessions": ["session", "arrival_s"],
}  # fmt: skip


def _parquet(files: Sequence[Path]) -> pd.DataFrame:
    """The rows of all files of one table."""
    parts = [_columns(file, None) for file in files]
    for file, part in zip(files, parts, strict=True):
        for column in COLUMNS[file.parent.name]:
            if column not in part:
                raise CalibrationError(_name(file), None, f"column {column!r} is missing")
    return pd.concat(parts, ignore_index=True)


def _columns(file: Path, names: list[str] | None) -> pd.DataFrame:
    """Some columns of a Parquet file (None: all)."""
    try:
        if names is not None:
            for name in names:
                if name not in pq.read_schema(file).names:
                    raise CalibrationError(_name(file), None, f"column {name!r} is missing")
        return pd.read_parquet(file, columns=names)
    except CalibrationError:
        raise
    except (OSError, ValueError) as error:
        raise CalibrationError(_name(file), None, f"cannot be read as Parquet: {error}") from error


def _name(file: Path) -> str:
    return f"{file.parent.name}/{file.name}"
