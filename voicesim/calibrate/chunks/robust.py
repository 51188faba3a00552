"""Robust regression over groups of unequal scatter, and intervals by resampling."""

from collections.abc import Callable

import numpy as np

from voicesim.engine.profile import Origin, Quantity

HUBER = 1.345
"""Residual, in units of its group's scatter, beyond which it counts less (Huber's constant)."""
RESAMPLES = 100
MOST = 5000
"""Rows of a regression: of more, every so many are used."""
SEED = 20261129


def robust_fit(
    design: np.ndarray,
    y: np.ndarray,
    group: np.ndarray,
    times: np.ndarray | None = None,
    own: np.ndarray | None = None,
) -> np.ndarray:
    """float64[columns]: Huber regression; each group's rows weigh by its own scatter.

    group: int[n], whose residuals have one scatter.  times: how often each row counts.
    own: float64[n], one more column, with a coefficient of each group's own (not returned).
    """
    counts = np.ones(len(y)) if times is None else times
    used = counts > 0
    group, counts = codes(group[used]), counts[used].astype(float)
    both = np.column_stack((design, y))[used]
    smallest = max(float(np.median(np.abs(y[used]))) * 1e-5, 1e-12)
    members = np.split(np.argsort(group, kind="stable"), np.cumsum(np.bincount(group))[:-1])
    weight = counts.copy()
    found = np.zeros(design.shape[1])
    for _ in range(10):
        part = both if own is None else _without(both, own[used], group, weight)
        size = np.maximum(np.abs(part[:, :-1]).max(axis=0), 1e-300)
        x = part[:, :-1] / size
        weighed = x * weight[:, None]
        found = np.linalg.lstsq(weighed.T @ x, weighed.T @ part[:, -1], rcond=1e-12)[0]
        off = np.abs(part[:, -1] - x @ found)
        scatter = np.empty(len(off))
        for mine in members:
            scatter[mine] = max(1.4826 * float(np.median(off[mine])), smallest)
        weight = counts / scatter**2 / np.maximum(1.0, off / (HUBER * scatter))
        weight /= weight.max()
        found = found / size
    return np.asarray(found)


def _without(
    columns: np.ndarray, own: np.ndarray, group: np.ndarray, weight: np.ndarray
) -> np.ndarray:
    """Columns less their best multiple of ``own`` in each group (weighted least squares)."""
    norm = np.maximum(np.bincount(group, weight * own * own), 1e-300)
    out = np.empty_like(columns)
    for i, column in enumerate(columns.T):
        share = np.bincount(group, weight * own * column) / norm
        out[:, i] = column - share[group] * own
    return out


def some(n: int) -> slice:
    """Of n rows every so many, so that about MOST remain at most."""
    return slice(None, None, max(1, -(-n // MOST)))


def resampled(
    estimate: Callable[[np.ndarray], np.ndarray], unit: np.ndarray, group: np.ndarray
) -> np.ndarray:
    """Estimates over resampled units, float64[RESAMPLES, parameters].

    estimate(times): with each row counted so often.  unit: int[n], what is drawn together (a
    stream).  group: int[n], drawn within (a run), so every run keeps its number of units.
    """
    rng = np.random.default_rng(SEED)
    first = np.unique(unit, return_index=True)[1]
    of_group = group[first]
    out = []
    for _ in range(RESAMPLES):
        times = np.zeros(len(first))
        for g in np.unique(of_group):
            mine = np.flatnonzero(of_group == g)
            times[mine] = np.bincount(rng.integers(len(mine), size=len(mine)), minlength=len(mine))
        out.append(estimate(times[unit]))
    return np.array(out)


def quantity(value: float, draws: np.ndarray, origin: Origin = "fitted") -> Quantity:
    """Seconds with the 5 % and 95 % of their resampled estimates; none is below 0."""
    value, low, high = (max(float(v), 0.0) for v in (value, *np.quantile(draws, [0.05, 0.95])))
    return Quantity(value=value, low=low, high=high, origin=origin)


def codes(values: np.ndarray) -> np.ndarray:
    """int[n]: 0, 1, ... for equal values."""
    return np.asarray(np.unique(values, return_inverse=True)[1])


def less(q: Quantity, seconds: float = 0.0) -> Quantity:
    """A quantity less some seconds, never below 0, whatever the noise made of it."""
    ends = {name: getattr(q, name) for name in ("value", "low", "high")}
    return q.model_copy(
        update={n: None if v is None else max(v - seconds, 0.0) for n, v in ends.items()}
    )
