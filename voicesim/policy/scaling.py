"""Scaling: how many replicas a pool should have.  Plain functions, after Kubernetes.

HorizontalPodAutoscaler: desired = ceil(current x metric / target), no change within a tolerance of
10 %, looked at every 15 s; a pool shrinks to the highest recommendation of the last 300 s; it grows
by 4 or 100 % per 15 s, whichever is more
(https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/).  Replicas that are not
ready yet count as if they carried nothing, so that what is on its way is not ordered again.
"""

from collections.abc import Iterable
from math import ceil

STEP_UP = 4
"""Replicas that may always be added at once."""


def desired(ordered: int, ready: int, value: float, target: float, tolerance: float) -> int:
    """Replicas that the signal asks for.

    ordered: replicas that serve or are on their way; ready: of them those that serve; value: the
    signal's mean over these.
    """
    load = value * ready / target
    if ordered > 0 and abs(load / ordered - 1.0) <= tolerance:
        return ordered
    return ceil(load - 1e-9)


def bounded(wanted: int, ordered: int, least: int, most: int, step_up: int | None) -> int:
    """``wanted`` within the bounds; growing not faster than ``step_up`` at a time (None: as
    Kubernetes)."""
    grown = ordered + step_up if step_up is not None else max(ordered + STEP_UP, 2 * ordered)
    return max(min(wanted, most, max(grown, least)), least)


def stabilised(history: Iterable[tuple[float, int]], now: float, after: float) -> int:
    """The highest recommendation, of (time, replicas), of the last ``after`` seconds."""
    return max(n for t, n in history if t > now - after or t == now)


def planned(schedule: Iterable[tuple[float, int]], now: float) -> int:
    """Replicas that a schedule, of (from when on, replicas), asks for at least; 0 before it."""
    found = 0
    for at, replicas in schedule:
        if at <= now:
            found = replicas
    return found
