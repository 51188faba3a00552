"""The codec's batches, seen from outside: chunks that come together, and batches back to back.

Chunks of one batch leave together, so at the client they come a jitter apart, and batches at
least the time of a batch apart.  Where the two kinds of distance separate, the batches are known.

A codec with work waiting starts the next batch when one ends: the time between the two is then
that batch's cost, floor + per row + per frame, and the gather window if it waits for company.
Such pairs lie on a plane, which no pair of batches can undercut (one worker) and on which many
lie exactly; other pairs lie anywhere above.  A full batch does not wait: where the full ones lie
below the plane of the others, by so much is the window.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.optimize import linprog
from scipy.sparse import csr_array, eye_array, hstack

from voicesim.calibrate.chunks.load import one_clock
from voicesim.calibrate.chunks.robust import codes, less, quantity, resampled, robust_fit
from voicesim.engine.profile import Quantity

NARROWEST, WIDEST = 2e-5, 2e-2
"""Distances (s) at which chunks of one batch and of two may part: a clock's, a batch's."""
VALLEY = 0.1
"""Distances near the parting, at most, as a share of those below it."""
NEAR = 0.05
"""Share of a batch's time within which a pair counts as back to back."""
ENOUGH, FEW = 30, 10
ALIKE = 0.05
"""Standard deviation over mean below which batches have one size."""
MOST = 3000
"""Pairs of batches used at most; evenly chosen."""


@dataclass(frozen=True)
class Batches:
    """What is known of the codec's batches.

    apart_s: distance below which chunks count as one batch.  rows: share of the chunks by the
    rows of their batch (index 0: one row).  spacing_s: the smallest 5 % of the times between
    batches of one row: floor, gather window and per-row cost are together no more.
    cost: floor, per row, per frame, None where no batches stand back to back.  window: the gather
    window; None where no full batches show it, and then it is inside the floor.  pairs: back to
    back.  merged: costs that cannot be told apart, in words.  busy: share of the time that the
    codec is busy in the middle of each run.
    """

    apart_s: float
    rows: np.ndarray
    spacing_s: float | None
    cost: tuple[Quantity, Quantity, Quantity] | None
    window: Quantity | None
    pairs: int
    merged: list[str]
    busy: dict[str, float]


def find_batches(chunks: pd.DataFrame) -> Batches | None:
    """Batches of a file (columns run, t_s, frames), None where they cannot be told apart."""
    shared = [rows for _, rows in chunks.groupby("run", sort=False) if one_clock(rows)]
    if not shared:
        return None
    ordered = [rows.sort_values("t_s", kind="stable") for rows in shared]
    apart = parting([np.diff(rows["t_s"].to_numpy()) for rows in ordered])
    if apart is None:
        return None
    tables = [batch_table(rows, apart, i) for i, rows in enumerate(ordered)]
    batches = pd.concat(tables, ignore_index=True)
    share = np.bincount(batches["rows"], weights=batches["rows"])[1:]
    alone = batches.loc[(batches["rows"] == 1) & batches["since"].notna(), "since"]
    spacing = float(alone.quantile(0.05)) if len(alone) >= ENOUGH else None
    known = batches.dropna()
    full = len(share)
    several = full > 2 and share[-1] / full >= max(share[-2] / (full - 1), FEW)
    partial = known[known["rows"] < full] if several else known
    cost, pairs, merged = back_to_back(partial)
    window = None
    if cost is None:
        cost, pairs, merged = back_to_back(known)
    elif several:
        window = gather_window(known[known["rows"] == full], cost)
    if window is not None and window.value < apart:  # less than chunks of a batch lie apart
        window = Quantity(value=0.0, low=0.0, high=apart, origin="fitted")
    if cost is not None and window is not None:
        cost = (less(cost[0], window.value), cost[1], cost[2])
    busy = {} if cost is None else {
        str(rows["run"].iloc[0]): busy_share(table, cost)
        for rows, table in zip(ordered, tables, strict=True)
    }  # fmt: skip
    return Batches(apart, share / share.sum(), spacing, cost, window, pairs, merged, busy)


def parting(distances: list[np.ndarray]) -> float | None:
    """The distance (s) that parts chunks of one batch from those of two: the emptiest valley.

    None if no chunks come together, or if the two kinds of distance run into each other.
    """
    d = np.sort(np.concatenate(distances))
    if len(d) < ENOUGH:
        return None
    best, where = VALLEY, None
    for cut in np.geomspace(NARROWEST, WIDEST, 61):
        below = np.searchsorted(d, cut / 2)
        near = np.searchsorted(d, cut * 2) - below
        if below >= max(0.02 * len(d), 10) and near / below < best:
            best, where = near / below, float(cut)
    return where


def batch_table(rows: pd.DataFrame, apart: float, run: int) -> pd.DataFrame:
    """Batches of a run in order: rows, frames, at (s), since (s after the batch before; NaN)."""
    t = rows["t_s"].to_numpy(dtype=float)
    new = np.concatenate(([True], np.diff(t) > apart))
    of = np.cumsum(new) - 1
    at = np.bincount(of, weights=t) / np.bincount(of)  # the mean: no earlier for many rows
    return pd.DataFrame(
        {
            "run": run,
            "rows": np.bincount(of),
            "frames": np.bincount(of, weights=rows["frames"].to_numpy(dtype=float)),
            "at": at,
            "since": np.concatenate(([np.nan], np.diff(at))),
        }
    )


def back_to_back(
    batches: pd.DataFrame,
) -> tuple[tuple[Quantity, Quantity, Quantity] | None, int, list[str]]:
    """Cost of a batch from those back to back, how many these are, and what cannot be told."""
    if len(batches) > MOST:
        batches = batches.iloc[np.linspace(0, len(batches) - 1, MOST).astype(int)]
    since = batches["since"].to_numpy()
    design = np.column_stack((np.ones(len(batches)), batches["rows"], batches["frames"]))
    if len(batches) < ENOUGH:
        return None, 0, []
    plane = design @ _lower_plane(design, since)
    near = np.abs(since - plane) <= NEAR * plane
    above = (since > plane * (1 + NEAR)) & (since <= plane * (1 + 3 * NEAR))
    if near.sum() < ENOUGH or near.sum() < 3 * above.sum():
        return None, int(near.sum()), []
    keep, merged = _identified(design[near])
    used, y = design[near][:, keep], since[near]

    run = np.zeros(len(y), dtype=int)
    values = robust_fit(used, y, run)
    draws = resampled(
        lambda times: robust_fit(used, y, run, times),
        np.arange(len(y)),
        codes(batches["run"].to_numpy()[near]),
    )
    out = [Quantity(value=0.0)] * 3
    for column, i in enumerate(keep):
        told = quantity(values[column], draws[:, column])
        out[i] = told if told.value > 0 else Quantity(value=0.0)
    return (out[0], out[1], out[2]), int(near.sum()), merged


def gather_window(full: pd.DataFrame, cost: tuple[Quantity, Quantity, Quantity]) -> Quantity | None:
    """How far full batches undercut the others' plane (s): the window that they do not wait."""
    floor, row, frame = (q.value for q in cost)
    plane = floor + row * full["rows"] + frame * full["frames"]
    under = (plane - full["since"]).to_numpy()
    deepest = np.quantile(under, 0.95)
    near = np.abs(under - deepest) <= NEAR * plane.median()
    if near.sum() < FEW:
        return None

    def middle(times: np.ndarray) -> np.ndarray:
        return np.array([np.median(np.repeat(under[near], times.astype(int)))])

    n = int(near.sum())
    found = quantity(
        float(np.median(under[near])), resampled(middle, np.arange(n), np.zeros(n, dtype=int))[:, 0]
    )
    return less(found)


def _lower_plane(design: np.ndarray, since: np.ndarray) -> np.ndarray:
    """Regression to the lowest 5 %: coefficients >= 0 (linear programme of Koenker, Bassett)."""
    n, k = design.shape
    size = design.max(axis=0)
    below = 0.05
    cost = np.concatenate((np.zeros(k), np.full(n, below), np.full(n, 1.0 - below)))
    equal = hstack((csr_array(design / size), eye_array(n), -eye_array(n)))
    found = linprog(cost, A_eq=equal, b_eq=since, bounds=(0, None), method="highs")
    return np.asarray(found.x[:k] / size)


def _identified(design: np.ndarray) -> tuple[list[int], list[str]]:
    """Columns of (1, rows, frames) that the batches tell apart, and sentences for the others."""
    rows, frames = design[:, 1], design[:, 2]
    if frames.std() <= ALIKE * frames.mean():
        return [2], ["codec floor_s, per_row_s: batches of one size only; all of it is per frame"]
    if rows.std() <= ALIKE * rows.mean():
        return [0, 2], ["codec per_row_s: every batch has as many rows; it is inside the floor"]
    if abs(float(np.corrcoef(rows, frames)[0, 1])) > 0.98:
        return [0, 2], ["codec per_row_s: frames rise with rows; all of it is per frame"]
    return [0, 1, 2], []


def busy_share(table: pd.DataFrame, cost: tuple[Quantity, Quantity, Quantity]) -> float:
    """Share of the middle half of a run that its codec batches take."""
    floor, row, frame = (q.value for q in cost)
    start, end = np.quantile(table["at"], [0.25, 0.75])
    inside = table[(table["at"] > start) & (table["at"] <= end)]
    seconds = floor * len(inside) + row * inside["rows"].sum() + frame * inside["frames"].sum()
    return float(seconds / max(end - start, 1e-9))
