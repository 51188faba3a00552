"""What a monitoring system would read from the engines, noted by a process beside them."""

from collections.abc import Iterator, Sequence
from copy import copy
from typing import Any

import numpy as np
import simpy

from voicesim.engine.spec import PoolSpec


class Gauges:
    """Samples at the bins' edges, after everything else of that instant.

    running, waiting: int32[bins, engines]; waiting is vLLM's num_requests_waiting, set once a step
    after scheduling (callers who have just arrived are not in it).  kv: float64[bins, engines],
    share of the KV blocks in use.  preemptions: int64[bins], of the whole pool since the start.
    taken: how many samples there are (a run may end just before the last).
    running_only: the others are not noted, and take no memory.
    """

    def __init__(self, spec: PoolSpec, running_only: bool = False):
        self.spec = spec
        self.running_only = running_only
        shape = (spec.bins, spec.replicas)
        self.running, self.waiting = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
        self.kv = np.zeros(shape)
        self.preemptions = np.zeros(spec.bins, np.int64)
        self.taken = 0
        self._blocks = np.array([p.blocks for p in spec.pools])[spec.pool_of]

    def of(self, engines: np.ndarray) -> "Gauges":
        """The samples of some engines, bool[engines]."""
        found = copy(self)
        for name in ("running", "waiting", "kv"):
            setattr(found, name, getattr(self, name)[:, engines])
        return found

    def watch(self, env: simpy.Environment, pool: Any) -> Iterator[simpy.Event]:
        """The process; it only looks, so a run is the same to the bit with and without it."""
        for k in range(self.spec.bins):
            yield env.timeout(max(k * self.spec.resolution - env.now, 0.0))
            running, waiting, free, preempted = pool.gauges()
            self.running[k] = running
            self.taken = k + 1
            if self.running_only:
                continue
            self.waiting[k] = waiting
            self.kv[k] = (self._blocks - free) / self._blocks
            self.preemptions[k] = preempted

    @classmethod
    def beside(cls, pools: Sequence["Gauges"], spec: PoolSpec) -> "Gauges":
        """Pools of one run that were played apart; spec: of all their engines."""
        found = cls(spec)
        for name in ("running", "waiting", "kv"):
            setattr(found, name, np.hstack([getattr(pool, name) for pool in pools]))
        found.preemptions = np.sum([pool.preemptions for pool in pools], axis=0)
        found.taken = min(pool.taken for pool in pools)
        return found
