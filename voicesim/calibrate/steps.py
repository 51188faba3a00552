"""Step CSV: one measured duration per row.

Columns: batch, seconds (required); stage (default decode), context_tokens, prefill_tokens,
frames (codec: frames computed over all rows of the batch), run_id, source, url, note.
"""

import numpy as np
import pandas as pd

from voicesim.calibrate.errors import CalibrationError
from voicesim.calibrate.samples import CODEC_STAGES, STAGES, from_columns
from voicesim.calibrate.table import header_of, parse, require
from voicesim.engine.profile import step_load

NUMERIC = ["batch", "context_tokens", "prefill_tokens", "frames", "seconds"]
TEXT = ["stage", "run_id", "source", "url", "note"]


def read_steps(text: str, file: str) -> pd.DataFrame:
    """Sample table of a step CSV."""
    header = header_of(text, file)
    require(header, ["batch", "seconds"], file)
    for name in header:
        if name not in NUMERIC + TEXT:
            allowed = ", ".join(NUMERIC + TEXT)
            raise CalibrationError(file, 1, f"unknown column {name!r}; allowed: {allowed}")
    if "stage" in header and "codec" in text:
        require(header, ["frames"], file)
    table = _fill(parse(text, file, ["batch", "seconds"]), header, file)
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
    _refuse(table, ~table["stage"].isin(STAGES), file, "stage: allowed are " + ", ".join(STAGES))
    for name in ("context_tokens", "prefill_tokens", "frames"):
        raw = table[name] if name in header else pd.Series(0.0, table.index)
        cell = pd.to_numeric(raw, errors="coerce").astype(float)
        broken = raw.notna() & (cell.isna() | ~np.isfinite(cell.fillna(0.0)) | (cell < 0))
        _refuse(table, broken, file, f"{name}: not a finite number >= 0")
        table[name] = cell.fillna(0.0)
    codec = table["stage"].isin(CODEC_STAGES)
    empty = (table["batch"] + table["prefill_tokens"]) <= 0
    _refuse(table, table["seconds"] <= 0, file, "seconds: must be above 0")
    _refuse(table, empty, file, "a step needs a batch or prefill tokens")
    _refuse(table, codec & (table["frames"] <= 0), file, "frames: a codec row needs frames")
    if "run_id" in header:
        table["run_id"] = table["run_id"].astype(str)
    else:
        table["run_id"] = [f"{file}:{line}" for line in table["line"]]
    return table


def _refuse(table: pd.DataFrame, bad: pd.Series, file: str, message: str) -> None:
    if bad.any():
        raise CalibrationError(file, int(table["line"][bad].iloc[0]), message)
