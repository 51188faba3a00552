"""Intervals of the fitted parameters: resampled data, at every norm that the data allow.

At one norm alone an interval says what noise does to the parameters, not what the choice of the
norm does to them, and that may be more: host time trades against the sharpness of the bend.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from voicesim.calibrate.decode import DecodeFit, refit, steps_of
from voicesim.calibrate.norms import Norms

RESAMPLES = 50
SEED = 20261129
FEW = 6
"""Runs from which on the run is what is drawn."""
LONG = 20
"""Steps of a run at one batch, at least, to draw blocks of them."""
APART = 2.0
"""Ends of an interval of host time, one over the other, up to which it counts as told."""

Draws = dict[int, list[DecodeFit]]
"""Fits to resampled data, by norm."""


def resample(steps: pd.DataFrame, norms: Norms) -> tuple[Draws, list[str]]:
    """The allowed norms fitted to resampled steps, and what their spread leaves out.

    Six runs or more: runs are drawn.  Where every run is one row, leaving rows out would lose
    whole batches; there the rows stay and their residuals change sign at random (wild bootstrap,
    Wu, Annals of Statistics 1986).  Fewer: blocks of steps within runs, if these are long.
    """
    runs, cannot = steps["run"].nunique(), []
    if runs == len(steps) >= FEW:
        return {norm: _wild(steps, norms.fits[norm]) for norm in norms.alike}, []
    if runs >= FEW:
        unit = steps["run"].to_numpy(dtype=str)
        within = np.zeros(len(steps), dtype=int)
    elif (blocks := _blocks(steps)) is not None:
        unit, within = blocks
        cannot.append(
            f"how runs differ: {runs} run(s), fewer than {FEW}; intervals are from blocks of "
            "steps drawn within runs and leave it out, so they are too narrow"
        )
    else:
        return {}, [
            f"intervals of the step's parameters: {runs} run(s); {FEW} would give them, or {LONG} "
            "steps of a run at each of its batches"
        ]
    several = steps["tokens"].nunique() > 1
    draws: Draws = {}
    for norm in norms.alike:
        draws[norm] = []
        for times in _times(unit, within):
            if not several or steps.loc[times > 0, "tokens"].nunique() > 1:
                draws[norm].append(refit(norms.fits[norm], steps, times=times))
    return draws, cannot


def _wild(steps: pd.DataFrame, fitted: DecodeFit) -> list[DecodeFit]:
    rng = np.random.default_rng(SEED)
    predicted = fitted.predict(steps_of(steps))
    rest = np.log(steps["seconds"].to_numpy() / predicted)
    rest *= np.sqrt(len(rest) / max(len(rest) - len(fitted.free), 1))
    signs = rng.choice([-1.0, 1.0], (RESAMPLES, len(rest)))
    return [refit(fitted, steps.assign(seconds=predicted * np.exp(s * rest))) for s in signs]


def _blocks(steps: pd.DataFrame) -> tuple[np.ndarray, np.ndarray] | None:
    """Each row's block and the group it is drawn in; None if most decode rows stand in few.

    A block: of n steps of a run, stage and batch, about n to the 1/3 in a row (Hall, Horowitz and
    Jing, Biometrika 1995), since steps that follow each other are alike.
    """
    groups = steps.groupby(["run", "stage", "batch"])
    size = groups["seconds"].transform("size").to_numpy()
    decode = (steps["stage"] == "decode").to_numpy()
    if (size[decode] >= LONG).mean() < 0.5:
        return None
    within = groups.ngroup().to_numpy()
    rank = groups.cumcount().to_numpy()
    return within * (len(steps) + 1) + rank // np.ceil(np.cbrt(size)).astype(int), within


def _times(unit: np.ndarray, within: np.ndarray) -> Iterator[np.ndarray]:
    """float64[rows] per resample: how often each row counts; units are drawn in their group."""
    rng = np.random.default_rng(SEED)
    first, code = np.unique(unit, return_index=True, return_inverse=True)[1:]
    members = [np.flatnonzero(within[first] == g) for g in np.unique(within)]
    for _ in range(RESAMPLES):
        count = np.zeros(len(first))
        for mine in members:
            drawn = rng.integers(len(mine), size=len(mine))
            count[mine] = np.bincount(drawn, minlength=len(mine))
        yield count[code]


def intervals(best: DecodeFit, draws: Draws) -> dict[str, tuple[float, float]]:
    """The least 5 % and the greatest 95 % over the norms, of each free parameter."""
    out = {}
    for name in best.free:
        ends = [
            np.quantile([fitted.values[name] for fitted in of], [0.05, 0.95])
            for of in draws.values()
            if of
        ]
        if ends:
            out[name] = (float(min(e[0] for e in ends)), float(max(e[1] for e in ends)))
    return out


def host_in_doubt(norms: Norms, ends: dict[str, tuple[float, float]]) -> str | None:
    """Why host time cannot be told from the GPU's; None where it can.

    It can where resamples and norms that predict alike put it within a factor of APART.
    """
    if "host_s" not in norms.best.free:
        return None
    known = [norms.fits[norm].values["host_s"] for norm in norms.alike]
    low, high = ends.get("host_s", (min(known), max(known)))
    if high <= APART * low:
        return None
    names = [f"norm {norm or 'inf'}" for norm in norms.alike]
    many = f"{' and '.join(names)} predict held-out batches alike: " if len(names) > 1 else ""
    return (
        f"host_s: {many}it may be {low * 1e3:.3g} to {high * 1e3:.3g} ms; only its sum with the "
        "GPU's time is told"
    )
