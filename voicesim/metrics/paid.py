"""Which replicas were there, and which were paid for, from what their operators noted.

A replica is paid for from its order until it is gone; a pool that nobody scales has all of them all
the time.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from voicesim.cluster import replicas as of
from voicesim.cluster.rollout import BACK
from voicesim.simulation import Run

FOREVER = float("inf")


@dataclass
class Stay:
    """One replica from its order to its end (s); it takes new callers from ready to closed."""

    pool: str
    ordered: float = 0.0
    ready: float = 0.0
    closed: float = FOREVER
    gone: float = FOREVER


def stays(run: Run) -> list[Stay]:
    """Every stay of every replica of the run's pools."""
    found: list[Stay] = []
    here: dict[int, Stay] = {}
    operated = set()
    for t, what, pool, replica, _ in run.log.rows:
        if what == of.ORDERED:
            operated.add(pool)
            here[replica] = Stay(pool, t, FOREVER)
            found.append(here[replica])
        elif what == of.READY:
            here[replica].ready = t
        elif what == of.DRAINED:
            here[replica].closed = t
        elif what == of.GONE:
            here[replica].gone = t
            here[replica].closed = min(here[replica].closed, t)
    pools = run.scenario.cluster.of("tts")
    found = [stay for stay in found if stay.pool in pools]
    for name, each in pools.items():
        if name not in operated:
            found += [Stay(name) for _ in range(each.replicas)]
    return found


def replica_seconds(run: Run, start: float, end: float) -> dict[str, float]:
    """Seconds between ``start`` and ``end`` (s) that are paid for, of each pool's replicas."""
    found = dict.fromkeys(run.scenario.cluster.of("tts"), 0.0)
    for stay in stays(run):
        found[stay.pool] += max(0.0, min(stay.gone, end) - max(stay.ordered, start))
    return found


def counts(run: Run, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """int64[n] each: replicas that take callers, and that are paid for, at the instants ``t``."""
    all_stays = stays(run)
    came = [s for s in all_stays if s.ready < FOREVER]
    return (
        _at(t, [s.ready for s in came], [s.closed for s in came]),
        _at(t, [s.ordered for s in all_stays], [s.gone for s in all_stays]),
    )


def _at(t: np.ndarray, start: Sequence[float], end: Sequence[float]) -> np.ndarray:
    begun = np.searchsorted(np.sort(start), t, side="right")
    return begun - np.searchsorted(np.sort(end), t, side="right")


def rolled_back(run: Run) -> float | None:
    """When a guard gave all callers back to the old version (s); None: it did not."""
    rows = run.log.rows
    return next((t for t, what, *_ in rows if what.startswith(BACK)), None)


def first_order(run: Run) -> float | None:
    """When a replica was first ordered beyond those at the start (s); None: never."""
    times = [s.ordered for s in stays(run) if s.ordered > 0.0]
    return min(times, default=None)
