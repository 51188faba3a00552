"""Batch levels: what was measured at each batch, and how well a fit predicts a level it never saw.

A level is a batch size with at least MIN_ROWS decode rows in some run, or any batch of a file whose
rows are their own runs.  Its seconds are the mean over runs of the run's median.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd
from scipy.optimize import isotonic_regression

from voicesim.engine.profile import HeldOut, interpolate_table

Predict = Callable[[pd.DataFrame], np.ndarray]
MIN_ROWS = 20
MISSES = 0.05
"""Error at a measured level that is let pass whatever its noise."""


def decode_levels(samples: pd.DataFrame) -> list[float]:
    """Batch sizes that count as levels, ascending."""
    decode = samples[samples["stage"] == "decode"]
    sizes = decode.groupby(["run", "batch"])["seconds"].size()
    single = decode.groupby("run")["seconds"].size().max() == 1 if len(decode) else False
    enough = sizes if single else sizes[sizes >= MIN_ROWS]
    return sorted(float(b) for b in set(enough.index.get_level_values("batch")))


def by_level(samples: pd.DataFrame) -> dict[float, pd.DataFrame]:
    """Rows of each level (``level_rows``), ascending."""
    return {batch: level_rows(samples, batch) for batch in decode_levels(samples)}


def level_rows(samples: pd.DataFrame, batch: float) -> pd.DataFrame:
    """Decode rows of one level, of the runs that hold enough of them."""
    rows = samples[(samples["stage"] == "decode") & (samples["batch"] == batch)]
    sizes = rows.groupby("run")["seconds"].transform("size")
    return rows[sizes >= min(MIN_ROWS, int(sizes.max()))]


def level_value(rows: pd.DataFrame, values: np.ndarray) -> float:
    """Mean over runs of the run's median."""
    return float(rows.assign(value=values).groupby("run")["value"].median().mean())


def level_seconds(rows: pd.DataFrame, kv_s: float) -> float:
    """Measured seconds of a level, without ``kv_s`` for each KV token read."""
    return level_value(rows, rows["seconds"].to_numpy() - kv_s * rows["kv_read"].to_numpy())


def compare(rows: pd.DataFrame, batch: float, predict: Predict) -> HeldOut:
    """Measured and predicted seconds of the rows of a level."""
    measured = level_value(rows, rows["seconds"].to_numpy())
    predicted = level_value(rows, predict(rows))
    return HeldOut(
        level=f"batch {batch:g}",
        measured_s=measured,
        predicted_s=predicted,
        error=predicted / measured - 1.0,
    )


def leave_out(
    samples: pd.DataFrame,
    levels: dict[float, pd.DataFrame],
    refit: Callable[[pd.DataFrame], Predict],
) -> list[HeldOut]:
    """Each level predicted by a fit without any row at that batch (needs three levels).

    samples: what to fit.  levels: the rows of each level, to compare with.
    """
    if len(levels) < 3:
        return []
    out = []
    decode = (samples["stage"] == "decode").to_numpy()
    for batch, rows in levels.items():
        rest = samples[~(decode & (samples["batch"] == batch).to_numpy())]
        out.append(compare(rows, batch, refit(rest)))
    return out


def leave_out_of_table(levels: dict[float, pd.DataFrame], kv_s: float) -> list[HeldOut]:
    """Each level predicted by a table of the others."""
    out = []
    for batch, rows in levels.items():
        others = {b: of for b, of in levels.items() if b != batch}
        out.append(compare(rows, batch, table_predict(make_table(others, kv_s), kv_s)))
    return out


def misfit(levels: dict[float, pd.DataFrame], predict: Predict) -> float | None:
    """The largest relative error at a measured level, if the levels' own noise cannot explain it.

    Noise: the standard error of a level over its runs (three or more), the typical one of all
    levels.  None if the root mean square of the errors is within three times it, or no error is
    above MISSES, or fewer than three levels were measured so often.
    """
    errors, noise = [], []
    for rows in levels.values():
        logs = np.log(rows["seconds"].to_numpy() / predict(rows))
        runs = pd.Series(logs).groupby(rows["run"].to_numpy()).median()
        if len(runs) >= 3:
            errors.append(abs(float(runs.mean())))
            noise.append(float(runs.std(ddof=1)) / np.sqrt(len(runs)))
    if len(errors) < 3 or max(errors) <= MISSES:
        return None
    typical = float(np.sqrt(np.mean(np.square(noise))))
    return max(errors) if np.sqrt(np.mean(np.square(errors))) > 3 * typical else None


def never_repeated(levels: dict[float, pd.DataFrame]) -> bool:
    """Is every level one row, so that no noise can be estimated?"""
    return all(len(rows) == 1 for rows in levels.values())


def single_misfit(levels: dict[float, pd.DataFrame], predict: Predict) -> float | None:
    """The largest relative error where every level is one row, None if within MISSES."""
    if not never_repeated(levels):
        return None
    worst = max(abs(compare(rows, b, predict).error) for b, rows in levels.items())
    return worst if worst > MISSES else None


def mean_error(held: list[HeldOut]) -> float:
    """Mean absolute relative error, infinite if nothing was held out."""
    return float(np.mean([abs(h.error) for h in held])) if held else float("inf")


def make_table(levels: dict[float, pd.DataFrame], kv_s: float) -> list[tuple[float, float]]:
    """[tokens, seconds] of the levels, KV time taken off, made never to fall."""
    seconds, weight = [], []
    for rows in levels.values():
        seconds.append(max(level_seconds(rows, kv_s), 1e-9))
        weight.append(rows["run"].nunique())
    risen = isotonic_regression(seconds, weights=weight).x
    return [(b, float(s)) for b, s in zip(levels, risen, strict=True)]


def table_predict(table: list[tuple[float, float]], kv_s: float) -> Predict:
    """Predict decode rows with a table."""

    def predict(rows: pd.DataFrame) -> np.ndarray:
        tokens = rows["tokens"].to_numpy(dtype=float)
        return interpolate_table(table, tokens) + kv_s * rows["kv_read"].to_numpy(dtype=float)

    return predict
