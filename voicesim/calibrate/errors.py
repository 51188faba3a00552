"""The one error of this package: a measurement file that must not be used."""

from typing import Any


class CalibrationError(ValueError):
    """Bad measurements: file, line (1 = the header; None: the whole file) and what is wrong.

    Always one line, whatever the file holds.  exit_code is what a command line should leave with.
    """

    exit_code = 2

    def __init__(self, file: str, line: int | None, message: str):
        self.file, self.line, self.message = file, line, " ".join(message.splitlines())
        where = file if line is None else f"{file}:{line}"
        super().__init__(f"{where}: {self.message}")

    def __reduce__(self) -> Any:
        """Survive the way back from a worker process."""
        return type(self), (self.file, self.line, self.message)
