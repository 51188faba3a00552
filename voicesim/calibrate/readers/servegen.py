"""ServeGen: a client's arrivals as laws of ten-minute windows, and its lengths.

chunk-<i>-trace.csv, no header: window_start_s, rate (requests/s), cv of the gaps, family (Weibull,
Gamma, or empty: idle) and its two fitted arguments, which rate and cv already say.
chunk-<i>-dataset.json beside it: {"<window_s>": {"input_tokens": "{length: share, ...}", ...}}.
Source: https://github.com/alibaba/ServeGen
"""

import ast
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaln

from voicesim.calibrate.errors import CalibrationError
from voicesim.calibrate.readers import demand
from voicesim.calibrate.readers.measured import Measured
from voicesim.calibrate.readers.record import Record
from voicesim.calibrate.readers.source import Head, load_json, text_lines

NAME = "ServeGen client (chunk-<i>-trace.csv, chunk-<i>-dataset.json)"
WINDOW_S = 600.0
FIELDS = ("window_start_s", "rate", "cv", "family", "arg1", "arg2")
ROW = re.compile(r"[\d.eE+-]+,[\d.eE+-]+,[\d.eE+-]+,(Weibull|Gamma)?,")
Window = tuple[float, float, float, str, int]  # start, rate, cv, family, line


def sniff(head: Head) -> bool:
    """A first row of ServeGen's form."""
    return ROW.match(head.text) is not None


def read(path: Path) -> Measured:
    """Requests drawn from the windows' laws by a generator seeded with the file's name."""
    clock, dice = np.random.default_rng(zlib.crc32(path.name.encode())).spawn(2)
    windows = _windows(path)
    lengths = _lengths(path)
    parts = []
    for i, window in enumerate(windows):
        end = windows[i + 1][0] if i + 1 < len(windows) else window[0] + WINDOW_S
        times = _arrivals(window, end, clock)
        law = _law_at(lengths, window[0])
        part: dict[str, Any] = {"arrival_s": times, "line": np.full(len(times), window[4])}
        for name, key in (("prompt_tokens", "input_tokens"), ("tokens", "output_tokens")):
            if key in law:
                part[name] = dice.choice(law[key][0], len(times), p=law[key][1])
            else:
                part[name] = np.full(len(times), np.nan)
        parts.append(demand.arrays(part))
    cannot = [
        demand.TEXT_TOKENS,
        demand.NO_SESSIONS,
        "single requests: times and lengths are drawn from each window's laws",
    ]
    if not lengths:
        cannot.append(f"lengths: {_dataset(path).name} is not beside the trace")
    return demand.measured(
        path, NAME, demand.joined(parts), cannot, tells=["rate and burstiness by window"],
        rows_are=f"requests drawn from the laws of {len(windows):,} windows",
    )  # fmt: skip


def _windows(path: Path) -> list[Window]:
    """(start_s, rate, cv, family, line) of each window, in order."""
    found: list[Window] = []
    for line, text in text_lines(path):
        cells = [cell.strip() for cell in text.split(",")]
        if len(cells) != len(FIELDS):
            what = f"row has {len(cells)} of {len(FIELDS)} fields"
            raise CalibrationError(path.name, line, what)
        start, rate, cv = (
            _number(cell, f, path.name, line) for cell, f in zip(cells[:3], FIELDS[:3], strict=True)
        )
        family = cells[3]
        if family not in ("Weibull", "Gamma", ""):
            what = f"family: found {family!r}; allowed: Weibull, Gamma, or nothing"
            raise CalibrationError(path.name, line, what)
        if family and not (rate > 0 and cv > 0):
            raise CalibrationError(path.name, line, f"a {family} window needs a rate and a cv")
        if found and start <= found[-1][0]:
            what = f"window_start_s: goes back in time: {start:g} after {found[-1][0]:g}"
            raise CalibrationError(path.name, line, what)
        found.append((start, rate, cv, family, line))
    return found


def _number(cell: str, name: str, file: str, line: int) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = np.nan
    if not 0 <= value < np.inf:
        what = f"{name}: found {cell!r}; must be a finite number >= 0"
        raise CalibrationError(file, line, what)
    return value


def _arrivals(window: Window, end: float, gen: np.random.Generator) -> np.ndarray:
    """Start times in [start, end): gaps of the family with the window's mean and cv."""
    start, rate, cv, family, _ = window
    times = np.empty(0)
    if not family:
        return times
    last, size = start, int((end - start) * rate * 1.5) + 16
    while last < end:
        if family == "Gamma":
            gaps = gen.gamma(cv**-2, cv**2 / rate, size)
        else:
            shape = weibull_shape(cv)
            gaps = gen.weibull(shape, size) / (rate * np.exp(gammaln(1 + 1 / shape)))
        more = last + np.cumsum(gaps)
        times, last = np.concatenate([times, more]), float(more[-1])
    return times[times < end]


def weibull_shape(cv: float) -> float:
    """Shape of the Weibull law with this coefficient of variation, in [0.05, 100]."""

    def excess(log_shape: float) -> float:
        k = np.exp(log_shape)
        return float(gammaln(1 + 2 / k) - 2 * gammaln(1 + 1 / k) - np.log1p(cv**2))

    low, high = np.log(0.05), np.log(100.0)
    if excess(low) <= 0:
        return 0.05
    if excess(high) >= 0:
        return 100.0
    return float(np.exp(brentq(excess, low, high)))


def _dataset(path: Path) -> Path:
    name = path.name.removesuffix(".gz").removesuffix(".csv").removesuffix("-trace")
    return path.with_name(f"{name}-dataset.json")


Lengths = dict[float, dict[str, tuple[np.ndarray, np.ndarray]]]


def _lengths(path: Path) -> Lengths:
    """Window -> field -> (lengths, shares); windows with an empty law are left out."""
    file = _dataset(path)
    if not file.is_file():
        return {}
    data, text = load_json(file)
    if not isinstance(data, dict):
        raise CalibrationError(file.name, 1, "must be a JSON object of windows")
    found: Lengths = {}
    for window in data:
        record = Record(data, file.name, text=text).sub(window)
        laws = {
            key: _law(record, key)
            for key in ("input_tokens", "output_tokens")
            if record.has(key) and record.data[key] not in ("{}", {})
        }
        if laws:
            found[_number(window, "window", file.name, 1)] = laws
    return dict(sorted(found.items()))


def _law(record: Record, key: str) -> tuple[np.ndarray, np.ndarray]:
    try:
        pairs = ast.literal_eval(record.text_of(key))
        values = np.array([float(v) for v in pairs])
        shares = np.array([float(p) for p in pairs.values()])
        good = (shares >= 0).all() and (values >= 0).all() and 0.999 < shares.sum() < 1.001
    except (ValueError, SyntaxError, TypeError, AttributeError, RecursionError):
        good = False
    if not good:
        raise record.refuse(key, "must be text such as '{12: 0.25, 40: 0.75}', shares adding to 1")
    return values, shares / shares.sum()


def _law_at(lengths: Lengths, start: float) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """The laws of the latest window at or before ``start``, else of the first."""
    before = [at for at in lengths if at <= start]
    if before:
        return lengths[before[-1]]
    return next(iter(lengths.values()), {})
