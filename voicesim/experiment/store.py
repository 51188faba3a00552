"""The folder of a study: one small file per finished run, believed only if nothing is amiss.

runs/VARIANT-REPLICATION-KEY.json holds the run's numbers, its key and a checksum.  The key is a
hash of the resolved scenario, the files it reads, the seed, the replication and the model; a file
of another key is another run.  Files appear whole (written beside, then renamed), so a killed
study leaves none half written, and the next one begins where it stopped.  A file that is damaged
is played anew.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from voicesim.experiment.backends import Backend
from voicesim.experiment.metrics import ExperimentError
from voicesim.experiment.work import Job
from voicesim.files import unwritable, write_whole
from voicesim.schemas import current

RUN_SCHEMA = current("experiment-run")


class Store:
    """Finished runs in a folder, or (None) nowhere.  The folder appears with the first file.

    Raises ExperimentError for a folder that cannot be written: before anything is played.
    """

    def __init__(self, folder: Path | None):
        if folder is not None and (why := unwritable(folder)):
            raise ExperimentError(f"--out {folder}: {why}")
        self.folder = folder
        self.damaged: list[Path] = []

    def read(self, job: Job) -> dict[str, Any] | None:
        """What ``work.play`` gave, None if it is not here or cannot be trusted."""
        if self.folder is None:
            return None
        path = self._path(job)
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            result = content["result"]
            whole = content["schema"] == RUN_SCHEMA and content["key"] == job.key
            if whole and content["sha256"] == _checksum(result):
                return dict(result)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError):
            pass
        self.damaged.append(path)
        return None

    def write(self, job: Job, result: dict[str, Any]) -> None:
        """Keep the result of a run."""
        if self.folder is None:
            return
        content = {
            "schema": RUN_SCHEMA,
            "key": job.key,
            "variant": job.variant,
            "replication": job.replication,
            "sha256": _checksum(result),
            "result": result,
        }
        write_whole(self._path(job), (json.dumps(content, allow_nan=False) + "\n").encode())

    def have(
        self, jobs: Iterable[Job], place: Backend
    ) -> Iterator[tuple[Job, dict[str, Any], bool]]:
        """The result of each job and whether it was found here: those first, then the others as
        they are played and kept."""
        missing = []
        for job in jobs:
            kept = self.read(job)
            if kept is None:
                missing.append(job)
            else:
                yield job, kept, True
        for job, result in place.run(missing):
            self.write(job, result)
            yield job, result, False

    def _path(self, job: Job) -> Path:
        assert self.folder is not None
        name = re.sub(r"[^\w.-]", "_", job.variant)[:60]
        return self.folder / "runs" / f"{name}-{job.replication}-{job.key[:16]}.json"


def _checksum(result: Any) -> str:
    text = json.dumps(result, allow_nan=False, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
