"""Files that are either not there or whole."""

import json
import math
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any


def unwritable(folder: Path) -> str:
    """Why no file can be put into a folder that is there or not; empty: one can be.

    It is tried: what is made on the way is removed again.
    """
    made: list[Path] = []
    try:
        if folder.exists() and not folder.is_dir():
            return "is a file"
        for each in (*reversed(folder.parents), folder):
            if not each.exists():
                each.mkdir()
                made.append(each)
        with tempfile.TemporaryFile(dir=folder):
            return ""
    except OSError as problem:
        return f"cannot be written: {problem.strerror}"
    finally:
        for each in reversed(made):
            with suppress(OSError):  # somebody has put something there meanwhile
                each.rmdir()


def write_whole(path: Path, content: bytes) -> None:
    """Write beside the target and rename; the folder is made if need be.  Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:80]}-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """A JSON file, whole; its folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(content, indent=2, allow_nan=False)
    write_whole(path, (text + "\n").encode())


def write_tables(folder: Path, tables: Mapping[str, Any]) -> None:
    """DataFrames as Parquet files NAME.parquet, each whole."""
    for name, table in tables.items():
        content = table.to_parquet(index=False, compression="zstd")
        write_whole(folder / f"{name}.parquet", content)


def finite(x: float) -> float | None:
    """A number as JSON has it: None where it is not finite."""
    return x if math.isfinite(x) else None
