"""Is the client itself late?  A timer beside the requests says how late its loop wakes up."""

import asyncio
import time
from collections.abc import Sequence

import numpy as np

TICK_S = 0.01
LATE_S = 0.005
LATE_SHARE = 0.1
BUSY = 0.8
BUNCHED = 0.1
"""More than this share of bunched tokens, and the run says little about the engine's steps."""


class Lag:
    """Lateness of a 10 ms timer in the same event loop, and the share of a core in use."""

    def __init__(self) -> None:
        self.late: list[float] = []
        self._cpu, self._wall = time.process_time(), time.perf_counter()

    async def watch(self) -> None:
        """Until cancelled."""
        while True:
            due = time.perf_counter() + TICK_S
            await asyncio.sleep(TICK_S)
            self.late.append(max(0.0, time.perf_counter() - due))

    def busy(self) -> float:
        """Share of one core that this process has used."""
        wall = time.perf_counter() - self._wall
        return (time.process_time() - self._cpu) / wall if wall > 0 else 0.0

    def quantile(self, q: float) -> float:
        """Seconds late (0 before the first tick)."""
        return float(np.quantile(self.late, q)) if self.late else 0.0


def bunched(gaps: Sequence[float]) -> float:
    """Share of tokens that came less than a tenth of the mean gap after the one before.

    An engine makes one token a step, so tokens that come together waited somewhere: in a server's
    front end or a client that got no processor.  Their gaps are not step times.
    """
    found = np.asarray(gaps, float)
    return float((found < 0.1 * found.mean()).mean()) if len(found) else 0.0


def bottleneck(late_p99: float, busy: float, gaps: Sequence[float]) -> str | None:
    """A sentence if the client may have made the times itself: its loop woke up late by more than
    5 ms and a tenth of the median gap at 1 % of the ticks, or it filled a core."""
    if busy > BUSY:
        return f"the client itself used {busy:.0%} of a core: arrival times may be its own"
    limit = max(LATE_S, LATE_SHARE * float(np.median(gaps))) if len(gaps) else LATE_S
    if late_p99 > limit:
        return (
            f"the client itself woke up {1000 * late_p99:.1f} ms late at 1 % of the time "
            f"(limit {1000 * limit:.1f} ms): arrival times may be its own"
        )
    return None
