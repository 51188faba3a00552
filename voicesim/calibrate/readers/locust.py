"""Locust's CSVs: <p>_stats_history.csv, <p>_stats.csv and <p>_failures.csv.

Unix seconds and milliseconds; percentiles are N/A while nothing was asked; the rows named
Aggregated are over all requests.
Source: https://github.com/locustio/locust (stats.py)
"""

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from voicesim.calibrate.errors import CalibrationError
from voicesim.calibrate.readers import aggregates
from voicesim.calibrate.readers.measured import Measured
from voicesim.calibrate.readers.source import Head, csv_rows

NAME = "Locust statistics (CSV)"
HISTORY, STATS = {"Timestamp", "User Count", "Requests/s"}, {"Request Count", "Requests/s"}
FAILURES = {"Error", "Occurrences"}
TIMES = {
    "Average Response Time": "mean", "Min Response Time": "min", "Max Response Time": "max",
    "Median Response Time": "median",
    "50%": "p50", "66%": "p66", "75%": "p75", "80%": "p80", "90%": "p90", "95%": "p95",
    "98%": "p98", "99%": "p99", "99.9%": "p99.9", "99.99%": "p99.99", "100%": "max",
}  # fmt: skip
TEXTS = {"Type", "Name", "Method", "Error", "First Seen", "Last Seen"}
THOUSANDS = re.compile(r"-?\d{1,3}(,\d{3})+(\.\d*)?")
"""Locust writes none: a file with them went through other hands, cells that are not used too."""
NOW = {name: stat for name, stat in TIMES.items() if name.endswith("%")}
"""Of a history only these belong to the moment; its totals run from the beginning."""


def sniff(head: Head) -> bool:
    """The header of any of the three."""
    header = set(head.header)
    return any(names <= header for names in (HISTORY, STATS, FAILURES))


def read(path: Path) -> Measured:
    """Points: by the number of users (history), or of the whole run by request (stats)."""
    rows = csv_rows(path)
    first, names = next(rows)
    header = [name.strip() for name in names]
    points: list[dict[str, Any]] = []
    count = 0
    for line, row in rows:
        if len(row) != len(header):
            what = f"row has {len(row)} of {len(header)} fields"
            raise CalibrationError(path.name, line, what)
        count += 1
        points += _points(_Row(dict(zip(header, row, strict=True)), path.name, line), set(header))
    if not count:
        raise CalibrationError(path.name, first, "has a header but no rows")
    return aggregates.measured(path.name, NAME, count, points)


class _Row:
    def __init__(self, cells: dict[str, str], file: str, line: int):
        self.cells, self.file, self.line = cells, file, line
        for name, cell in cells.items():
            if name not in TEXTS and THOUSANDS.fullmatch(cell.strip()):
                what = f"{name}: {cell.strip()!r} has thousands commas; write plain numbers"
                raise CalibrationError(file, line, what)

    def number(self, name: str) -> float:
        """A number >= 0; NaN for N/A or an empty cell."""
        text = self.cells.get(name, "").strip()
        if text in ("", "N/A"):
            return math.nan
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not 0 <= value < math.inf:
            what = f"{name}: found {text!r}; must be a number >= 0 or N/A"
            raise CalibrationError(self.file, self.line, what)
        return value

    def known(self, name: str) -> float:
        """A number >= 0."""
        value = self.number(name)
        if math.isnan(value):
            raise CalibrationError(self.file, self.line, f"{name}: is empty; must be a number >= 0")
        return value


def _points(row: _Row, header: set[str]) -> Iterator[dict[str, Any]]:
    name = row.cells.get("Name", "")
    if header >= FAILURES:
        yield from aggregates.points(
            {"run": name}, "failures", {"total": row.number("Occurrences")}
        )
        return
    base: dict[str, Any] = {"run": name}
    history = header >= HISTORY
    if history:
        if name != "Aggregated":
            return
        base = {"run": str(int(row.known("Timestamp"))), "concurrency": row.number("User Count")}
    wanted = NOW if history else TIMES
    stats = {stat: row.number(column) * 1e-3 for column, stat in wanted.items()}
    known = {stat: value for stat, value in stats.items() if not math.isnan(value)}
    if known:
        yield from aggregates.points(base, "latency_s", known)
        rate = row.number("Requests/s")
        yield from aggregates.points(base, "throughput_requests", {"mean": rate})
