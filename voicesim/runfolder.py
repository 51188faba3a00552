"""The folder a run is written to: under a temporary name first, renamed when all is there."""

import json
import os
import shutil
import tempfile
from pathlib import Path

import pyarrow.parquet as pq

import voicesim
from voicesim.schemas import current
from voicesim.study import StudyResult

SUMMARY_SCHEMA = current("summary")
TABLES = ("sessions", "streams", "stalls", "operations", "chunks", "units")
FILES = (
    "summary.json", "scenario.yaml", "series.parquet", "replications.parquet", "peak.png",
    "waterfall.png", "turns.parquet", "report.html", "trace.json",
)  # fmt: skip


class FolderError(ValueError):
    """The folder cannot be written, or holds what is not ours to replace."""


class RunFolder:
    """A folder that appears under its name only when it is complete.

    files, tables: names that a run of this kind writes; the first file marks a finished one.
    Raises FolderError for a target that is a file, holds anything but an earlier run, or cannot be
    written; nothing is touched then.
    """

    def __init__(
        self, target: Path, files: tuple[str, ...] = FILES, tables: tuple[str, ...] = TABLES
    ):
        self.target, self.files, self.tables = target.resolve(), files, tables
        self.replaces = self.target.is_dir() and any(self.target.iterdir())
        foreign = self._foreign()
        if foreign:
            raise FolderError(
                f"--out {target}: {foreign}; give a new or empty folder, or an earlier run's"
            )
        try:
            self.target.parent.mkdir(parents=True, exist_ok=True)
            prefix = f".{self.target.name}-"
            self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=self.target.parent))
        except OSError as error:
            raise FolderError(f"--out {target}: cannot be written: {error.strerror}") from error

    def _foreign(self) -> str:
        """Why the target must not be replaced; empty if it may be."""
        if self.target == Path.cwd() or self.target in Path.cwd().parents:
            return "is the working folder or holds it"
        if not self.target.exists():
            return ""
        if not self.target.is_dir():
            return "is a file"
        if self.replaces and not (self.target / self.files[0]).is_file():
            return "is not empty and not a run"
        for entry in sorted(self.target.iterdir()):
            if entry.name in self.files and entry.is_file():
                continue
            if entry.name in self.tables and entry.is_dir() and not entry.is_symlink():
                strange = [p.name for p in entry.iterdir() if p.suffix != ".parquet"]
                if strange:
                    return f"holds {entry.name}/{strange[0]}, which no run wrote"
                continue
            return f"holds {entry.name}, which no run wrote"
        return ""

    def publish(self) -> Path:
        """Rename to the target; an earlier run there is replaced."""
        os.chmod(self.path, 0o755)
        old = self.path.with_name(self.path.name + "-old")
        if self.target.exists():
            self.target.rename(old)
        self.path.rename(self.target)
        shutil.rmtree(old, ignore_errors=True)
        return self.target

    def discard(self) -> None:
        """Remove what was written."""
        shutil.rmtree(self.path, ignore_errors=True)


def in_one_file(folder: Path, name: str) -> None:
    """The parts of a table, NAME/*.parquet, as one file NAME.parquet; nothing if there are none."""
    parts = sorted((folder / name).glob("*.parquet"))
    if not parts:
        return
    schema = pq.read_schema(parts[0])
    with pq.ParquetWriter(folder / f"{name}.parquet", schema, compression="zstd") as file:
        for part in parts:
            file.write_table(pq.read_table(part).cast(schema))
    shutil.rmtree(folder / name)


def write_results(result: StudyResult, folder: Path) -> None:
    """summary.json, the resolved scenario and the series; the tables are there already."""
    summary = {
        "schema": SUMMARY_SCHEMA,
        "voicesim": voicesim.__version__,
        "complete": result.complete,
        **result.context,
        "variants": result.summary,
        **({"pools": result.pools} if result.pools else {}),
    }
    text = json.dumps(summary, indent=2, allow_nan=False)
    (folder / "summary.json").write_text(text + "\n", encoding="utf-8")
    (folder / "scenario.yaml").write_bytes(result.file.resolved_yaml())
    in_one_file(folder, "turns")
    for name, table in (("series", result.series), ("replications", result.replications)):
        table.to_parquet(folder / f"{name}.parquet", index=False, compression="zstd")
