"""Codec cost and what sharing a GPU costs.

Codec rows, alone and beside decoding, are fitted together: floor + per row + per frame, times one
slowdown where decoding runs.  Decoding beside the codec is compared with decoding alone.
"""

import numpy as np
import pandas as pd
from scipy.optimize import least_squares

from voicesim.calibrate.noise import median_share
from voicesim.engine.profile import CodecCost, Profile, Quantity, Sharing


def fit_codec(samples: pd.DataFrame) -> tuple[CodecCost | None, Quantity, list[str]]:
    """Codec cost, codec slowdown, and what the rows cannot tell."""
    alone = (samples["stage"] == "codec").to_numpy()
    beside = (samples["stage"] == "codec_with_decode").to_numpy()
    slowdown = Quantity(value=1.0)
    if not (alone | beside).any():
        return None, slowdown, ["codec: no rows; give its cost in the scenario"]
    cannot: list[str] = []
    rows = samples[alone | beside]
    design = np.column_stack((np.ones(len(rows)), rows["batch"], rows["frames"])).astype(float)
    seconds = rows["seconds"].to_numpy(dtype=float)
    shared = beside[alone | beside]
    keep = [0, 1, 2]
    if np.linalg.matrix_rank(design / design.max(axis=0)) < 3:
        keep = [0, 2]
        cannot.append("codec per_row_s: frames rise with rows; all of it is per frame")
    if np.linalg.matrix_rank(design[:, keep] / design[:, keep].max(axis=0)) < len(keep):
        keep = [2]
        cannot.append("codec floor_s: one batch only; all of it is per frame")
    fit_slow = bool(alone.any() and beside.any())
    if beside.any() and not alone.any():
        cannot.append("codec_slowdown: no codec rows alone; assumed 1, contention is inside")
    values, slow = _solve(design[:, keep], seconds, shared, fit_slow)
    coded = np.zeros(3)
    coded[keep] = values
    low, high = _jackknife(design[:, keep], seconds, shared, fit_slow, keep)
    names = ("floor_s", "per_row_s", "per_frame_s")
    cost = CodecCost(
        **{
            name: Quantity(
                value=float(coded[i]),
                low=None if low is None or i not in keep else float(low[i]),
                high=None if high is None or i not in keep else float(high[i]),
                origin="fitted" if i in keep else "assumed",
            )
            for i, name in enumerate(names)
        }
    )
    if fit_slow:
        slowdown = Quantity(
            value=max(1.0, slow),
            low=None if low is None else max(1.0, float(low[3])),
            high=None if high is None else max(1.0, float(high[3])),
            origin="fitted",
        )
    return cost, slowdown, cannot


def _solve(
    design: np.ndarray, seconds: np.ndarray, shared: np.ndarray, fit_slow: bool
) -> tuple[np.ndarray, float]:
    """Relative least squares of design @ x (times the slowdown where shared), x >= 0."""
    scale = np.median(seconds) / design.max(axis=0)
    n = design.shape[1]

    def residual(x: np.ndarray) -> np.ndarray:
        slow = x[n] if fit_slow else 1.0
        return np.asarray(design @ (x[:n] * scale) * np.where(shared, slow, 1.0) / seconds - 1.0)

    start = np.concatenate((np.full(n, 0.5), [1.5] if fit_slow else []))
    lower = np.concatenate((np.zeros(n), [1.0] if fit_slow else []))
    found = least_squares(residual, start, bounds=(lower, np.inf), xtol=1e-14, ftol=1e-14)
    return found.x[:n] * scale, float(found.x[n]) if fit_slow else 1.0


def _jackknife(
    design: np.ndarray, seconds: np.ndarray, shared: np.ndarray, fit_slow: bool, keep: list[int]
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Smallest and largest of each parameter when any one row is left out (few rows: honest)."""
    if len(seconds) < design.shape[1] + 3:
        return None, None
    every = []
    for i in range(len(seconds)):
        rest = np.arange(len(seconds)) != i
        if fit_slow and (shared[rest].all() or not shared[rest].any()):
            continue
        values, slow = _solve(design[rest], seconds[rest], shared[rest], fit_slow)
        row = np.zeros(4)
        row[keep], row[3] = values, slow
        every.append(row)
    return np.min(every, axis=0), np.max(every, axis=0)


def fit_decode_slowdown(samples: pd.DataFrame, profile: Profile) -> Quantity:
    """Decoding beside the codec over the profile's decoding alone: median of the rows."""
    rows = samples[samples["stage"] == "decode_with_codec"]
    if rows.empty:
        return Quantity(value=1.0)
    loads = (rows[n].to_numpy(dtype=float) for n in ("tokens", "kv_read", "pairs", "streams"))
    usual = profile.predict_loads(*loads) * median_share(profile, rows)
    ratio = rows["seconds"].to_numpy(dtype=float) / usual
    several = len(ratio) > 1
    return Quantity(
        value=max(1.0, float(np.median(ratio))),
        low=max(1.0, float(ratio.min())) if several else None,
        high=max(1.0, float(ratio.max())) if several else None,
        origin="fitted",
    )


def with_sharing(profile: Profile, decode: Quantity, codec: Quantity) -> Profile:
    sharing = Sharing(decode_slowdown=decode, codec_slowdown=codec)
    return profile.model_copy(update={"sharing": sharing})
