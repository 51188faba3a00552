"""The replicas of one pool as an operator has them: ordered, started, drained, given back.

A replica is paid for from its order to the instant it is gone, start-up and draining included.
Draining: it is closed to new streams (pinned calls go on), and goes when the last has left or
when the grace is over; then what is still there is cut.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from voicesim.cluster.operations import Operations
from voicesim.engine.layout import P_COLD_START
from voicesim.workload.lengths import quantile
from voicesim.workload.rng import hash_key_py, to_unit_py

OFF, STARTING, OPEN, DRAINING = range(4)
NOT_ORDERED = "not ordered"
"""Why a replica is closed that is starting, draining or not there (cluster.operations)."""
CHECK = 1.0
"""Seconds between two looks at whether a draining replica is empty."""
ORDERED, READY, DRAINED, CUT, GONE = "ordered", "ready", "drains", "calls cut", "gone"
"""What is noted in the log; value: seconds of the start (ready), calls (calls cut)."""


def start_law(stages: Iterable[Any], seed: int, pool: int) -> Callable[[int], float]:
    """Seconds that the n-th start of a pool takes: a draw from each stage's law, by counter hash,
    so that the n-th start of a pool is as long whatever was decided before."""

    laws = list(stages)

    def seconds(n: int) -> float:
        key = (pool << 32) | n
        u = (to_unit_py(hash_key_py(seed, P_COLD_START, key, i)) for i in range(len(laws)))
        return sum(float(quantile(law, np.array([x]))[0]) for law, x in zip(laws, u, strict=True))

    return seconds


class Replicas:
    """numbers: of the pool's replicas in the run; ready: how many serve from the start on; seconds:
    how long the n-th start takes."""

    def __init__(
        self, env: Any, pool: Any, ops: Operations, name: str, numbers: Iterable[int], ready: int,
        seconds: Callable[[int], float], pinned: bool,
    ):  # fmt: skip
        self.env, self.pool, self.ops, self.name = env, pool, ops, name
        self.seconds, self.pinned, self.starts = seconds, pinned, 0
        self.state: dict[int, int] = {}
        for i, g in enumerate(numbers):
            self.state[g] = OPEN if i < ready else OFF
            if i < ready:
                self._note(ORDERED, g)
                self._note(READY, g)
            else:
                ops.take_out(pool, g, NOT_ORDERED)

    def of(self, *states: int) -> list[int]:
        """Replicas in one of these states."""
        return [g for g, s in self.state.items() if s in states]

    @property
    def ordered(self) -> int:
        """How many serve or are on their way."""
        return len(self.of(OPEN, STARTING))

    def load(self, replica: int) -> int:
        """Calls that live on a replica, or streams where calls are not pinned."""
        if self.pinned:
            return int(self.pool.calls_on(replica))
        return int(self.pool.readings().live[replica])

    def order(self, n: int) -> list[Any]:
        """Start up to ``n`` more, for which there is room; processes that end as each is ready."""
        started = []
        for g in self.of(OFF)[:n]:
            self.state[g] = STARTING
            self._note(ORDERED, g)
            started.append(self.env.process(self._start(g, self.starts)))
            self.starts += 1
        return started

    def _start(self, g: int, n: int) -> Iterator[Any]:
        seconds = self.seconds(n)
        yield self.env.timeout(seconds)
        if self.state[g] == STARTING:
            self.state[g] = OPEN
            self.ops.put_back(self.pool, g, NOT_ORDERED)
            self._note(READY, g, seconds)

    def withdraw(self, n: int, grace: float) -> None:
        """Give ``n`` back: those that are starting first, then those with the least on them."""
        starting = self.of(STARTING)[::-1]
        serving = sorted(self.of(OPEN), key=lambda g: (self.load(g), -g))
        chosen = [*starting, *serving][:n]
        for g in chosen:
            self.drain(g, grace)

    def drain(self, g: int, grace: float) -> Any:
        """Close a replica and let it go when it is empty, after ``grace`` seconds at the latest.

        A process that ends when it is gone.
        """
        return self.env.process(self._drain(g, grace))

    def _drain(self, g: int, grace: float) -> Iterator[Any]:
        if self.state[g] == OPEN:
            self.state[g] = DRAINING
            self.ops.take_out(self.pool, g, NOT_ORDERED)
            self._note(DRAINED, g, self.load(g))
            until = self.env.now + grace
            while self.load(g) > 0 and self.env.now < until:
                yield self.env.timeout(min(CHECK, until - self.env.now))
            if self.load(g) > 0:
                self._note(CUT, g, self.pool.cut_calls(g))
        self.state[g] = OFF
        self._note(GONE, g)

    def _note(self, what: str, g: int, value: float = 0.0) -> None:
        self.ops.log.note(self.env.now, what, self.name, g, value)
