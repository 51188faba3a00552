"""Files that are either not there or whole."""

import os
import tempfile
from contextlib import suppress
from pathlib import Path


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
