"""Where a result is written: refused before the work if it cannot be, then all of it or nothing."""

import os
import stat
import tempfile
from pathlib import Path

from voicesim.calibrate.errors import CalibrationError
from voicesim.files import write_whole


def check_target(path: Path, inputs: list[Path]) -> None:
    """Refuse a file that could not be written, or whose writing would destroy an input.

    Folders are not made: a typing error must not leave one behind.
    """
    folder = path.parent
    if path.is_dir():
        raise CalibrationError(str(path), None, "is a folder; give the name of a file")
    if not folder.exists():
        raise CalibrationError(str(path), None, f"the folder {str(folder)!r} does not exist")
    if not folder.is_dir():
        raise CalibrationError(str(path), None, f"{str(folder)!r} is a file, not a folder")
    if path.exists() and not stat.S_ISREG(path.stat().st_mode):
        raise CalibrationError(str(path), None, "is a device or pipe; give the name of a file")
    if any(path.resolve() == each.resolve() for each in inputs):
        raise CalibrationError(str(path), None, "is both read and written; give it another name")
    try:
        handle, temporary = _beside(path)
        os.close(handle)
        Path(temporary).unlink()
    except OSError as error:
        raise _cannot(path, error) from error


def write_atomically(path: Path, content: bytes) -> None:
    """Write next to the target and rename, so a reader never sees half a file."""
    try:
        write_whole(path, content)
    except OSError as error:
        raise _cannot(path, error) from error


def _beside(path: Path) -> tuple[int, str]:
    return tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".tmp")


def _cannot(path: Path, error: OSError) -> CalibrationError:
    return CalibrationError(str(path), None, f"cannot be written: {error.strerror or error}")
