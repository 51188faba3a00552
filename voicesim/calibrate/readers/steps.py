"""Step CSV: one measured duration per row.

Columns: batch, seconds (required); stage (default decode), context_tokens, prefill_tokens,
frames (codec: frames computed over all rows of the batch), run_id, source, url, note.
"""

import difflib
from pathlib import Path

import numpy as np
import pandas as pd

from voicesim.calibrate.errors import CalibrationError
from voicesim.calibrate.readers.csv_file import header_of_file, parse_file
from voicesim.calibrate.readers.measured import Measured
from voicesim.calibrate.readers.source import Head
from voicesim.calibrate.samples import (
    AVERAGED_STAGES,
    CODEC_STAGES,
    LONGEST_S,
    SHORTEST_S,
    STAGES,
    from_columns,
)
from voicesim.calibrate.table import numeric, require
from voicesim.engine.profile import step_load

NAME = "step CSV"
NUMERIC = ["batch", "context_tokens", "prefill_tokens", "frames", "seconds"]
TEXT = ["stage", "run_id", "source", "url", "note"]


def sniff(head: Head) -> bool:
    """A CSV with a batch or seconds."""
    return bool({"seconds", "batch"} & set(head.header))


def read(path: Path) -> Measured:
    """Step samples as they stand."""
    samples = read_steps(path)
    stages = set(samples["stage"])
    codec = bool(stages & set(CODEC_STAGES))
    return Measured(
        path.name,
        NAME,
        len(samples),
        tells=[f"time of a step, by its load ({', '.join(s for s in STAGES if s in stages)})"],
        cannot=[] if codec else ["the codec: no codec rows"],
        samples=samples,
    )


def read_steps(path: Path) -> pd.DataFrame:
    """Sample table of a step CSV."""
    header, file = header_of_file(path), path.name
    require(header, ["batch", "seconds"], file)
    for name in header:
        if name not in NUMERIC + TEXT:
            allowed = ", ".join(NUMERIC + TEXT)
            raise CalibrationError(file, 1, f"unknown column {name!r}; allowed: {allowed}")
    table = _fill(parse_file(path, ["batch", "seconds"], TEXT), header, file)
    codec = table["stage"].isin(CODEC_STAGES).to_numpy()
    load = step_load_arrays(table)
    nan = np.nan
    return from_columns(
        {
            "stage": table["stage"],
            "run": table["run_id"],
            "batch": table["batch"],
            "context": table["context_tokens"],
            "prefill_tokens": table["prefill_tokens"],
            **{name: np.where(codec, nan, values) for name, values in load.items()},
            "frames": table["frames"],
            "seconds": table["seconds"],
            "file": file,
            "line": table["line"],
            "where": table["url"] if "url" in header else None,
        }
    )


def step_load_arrays(table: pd.DataFrame) -> dict[str, np.ndarray]:
    """Load columns of rows that each hold a batch at a mean context and one fresh prompt."""
    rows = zip(table["batch"], table["context_tokens"], table["prefill_tokens"], strict=True)
    loads = [step_load(*row) for row in rows]
    names = ("tokens", "kv_read", "pairs", "streams")
    return {name: np.array([getattr(load, name) for load in loads]) for name in names}


def _fill(table: pd.DataFrame, header: list[str], file: str) -> pd.DataFrame:
    """Optional columns: empty cells take their default; stages and zeros are checked."""
    stage = table["stage"] if "stage" in header else pd.Series("decode", table.index)
    table["stage"] = stage.fillna("decode").astype(str).str.strip()
    unknown = ~table["stage"].isin(STAGES)
    if unknown.any():
        near = difflib.get_close_matches(table["stage"][unknown].iloc[0], STAGES, 1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        _refuse(table, unknown, file, "stage", f"{hint}allowed: {', '.join(STAGES)}")
    for name in ("context_tokens", "prefill_tokens", "frames"):
        raw = table[name] if name in header else pd.Series(0.0, table.index)
        cell = numeric(raw)
        broken = raw.notna() & (cell.isna() | ~np.isfinite(cell.fillna(0.0)) | (cell < 0))
        _refuse(table, broken, file, name, "not a finite number >= 0")
        table[name] = cell.fillna(0.0)
    codec, prefill = table["stage"].isin(CODEC_STAGES), table["stage"] == "prefill"
    if codec.any():
        require(header, ["frames"], file)
    batch, seconds = table["batch"], table["seconds"]
    parts = (batch % 1 != 0) & ~table["stage"].isin(AVERAGED_STAGES)
    averages = " and ".join(AVERAGED_STAGES)
    _refuse(table, seconds < SHORTEST_S, file, "seconds", f"must be at least {SHORTEST_S:g} s")
    _refuse(table, seconds > LONGEST_S, file, "seconds", "is longer than an hour (seconds?)")
    _refuse(table, parts, file, "batch", f"not a whole number; averages go in {averages} rows")
    _refuse(table, ~prefill & (batch <= 0), file, "batch", "only a prefill row goes without one")
    _refuse(
        table, prefill & (table["prefill_tokens"] <= 0), file, "prefill_tokens", "needed in prefill"
    )
    _refuse(table, codec & (table["frames"] <= 0), file, "frames", "a codec row needs frames")
    if "run_id" in header:
        table["run_id"] = table["run_id"].astype(str)
    else:
        table["run_id"] = [f"{file}:{line}" for line in table["line"]]
    return table


def _refuse(table: pd.DataFrame, bad: pd.Series, file: str, column: str, message: str) -> None:
    """Refuse the first bad row: its line, the column, what it holds and what is wrong with it."""
    if bad.any():
        value = table[column][bad].iloc[0]
        # a whole number of hundreds of digits is an int that no float holds
        found = repr(value) if isinstance(value, str | int) else f"{value:g}"
        line = int(table["line"][bad].iloc[0])
        raise CalibrationError(file, line, f"{column}: found {found[:40]}; {message}")
