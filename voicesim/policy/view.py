"""What a policy may look at: a small view of the pool, never the kernel's arrays."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from voicesim.policy.admission import ADMIT, QUEUE, REFUSE


@dataclass
class Request:
    """A stream that asks for a place.  now: s; audio_s: seconds it will speak; attempt from 0."""

    now: float
    session: int
    utterance: int
    prompt_tokens: int
    audio_s: float
    attempt: int


class View(Protocol):
    """State of the pool at a decision.

    live, open, running, waiting, queued, free_blocks: int64[replicas]; lag: float64[replicas],
    moving average of the codec's queue and service time (s); gateway: callers queued there.
    """

    now: float

    @property
    def live(self) -> np.ndarray: ...
    @property
    def open(self) -> np.ndarray: ...
    @property
    def running(self) -> np.ndarray: ...
    @property
    def waiting(self) -> np.ndarray: ...
    @property
    def queued(self) -> np.ndarray: ...
    @property
    def free_blocks(self) -> np.ndarray: ...
    @property
    def lag(self) -> np.ndarray: ...
    @property
    def gateway(self) -> int: ...

    def request(self) -> Request: ...
    def has_slack(self, replica: int) -> bool: ...
    def uniform(self, draw: int) -> float: ...


Decide = Callable[[Any], tuple[int, int]]
"""A decision: view -> (ADMIT, REFUSE or QUEUE; replica)."""


class PoolView:
    """The View of a kernel pool: windows into its arenas."""

    def __init__(self, pool: Any):
        self._pool = pool
        self.refresh()

    def refresh(self) -> None:
        """Look again: the arenas have moved."""
        from voicesim.engine import layout as at

        self._at = at
        pool = self._pool
        engines, floats = pool.section(at.O_ENGINE), pool.section(at.OF_ENGINE)
        self.live = _read_only(pool.section(at.O_LIVE)[:, 0])
        self.open = _read_only(pool.section(at.O_OPEN)[:, 0])
        self.running = _read_only(engines[:, at.E_RUNNING])
        self.waiting = _read_only(engines[:, at.E_WAITING])
        self.queued = _read_only(engines[:, at.E_QUEUED])
        self.free_blocks = _read_only(engines[:, at.E_FREE])
        self.lag = _read_only(floats[:, at.G_LAG])

    @property
    def now(self) -> float:
        """Simulated time (s)."""
        return float(self._pool.F[self._at.K_NOW])

    @property
    def gateway(self) -> int:
        """Callers that queue at the gateway."""
        return int(self._pool.I[self._at.H_GQ])

    def request(self) -> Request:
        """The stream that asks."""
        at, pool = self._at, self._pool
        row = pool.section(at.O_STREAM)[pool.I[at.H_DECISION]]
        u = int(row[at.S_UTT])
        return Request(
            self.now,
            int(pool.section(at.O_UTT)[u, at.U_SESSION]),
            u,
            int(row[at.S_PROMPT]),
            int(row[at.S_TOKENS]) * pool.spec.token_audio,
            int(row[at.S_ATTEMPTS]),
        )

    def has_slack(self, replica: int) -> bool:
        """Does every playing stream of the replica keep ``lead`` with this stream in its batch?"""
        from voicesim.engine.kernel.session import replica_has_slack

        pool = self._pool
        s = pool.I[self._at.H_DECISION]
        return bool(replica_has_slack(pool.F, pool.I, s, replica, self.now))

    def uniform(self, draw: int) -> float:
        """A uniform in [0, 1) that belongs to this request and attempt, draw 0 or 1."""
        from voicesim.workload.rng import hash_key_py, to_unit_py

        request = self.request()
        key = hash_key_py(
            self._pool.spec.seed, self._at.P_ROUTE, request.utterance, 2 * request.attempt + draw
        )
        return to_unit_py(key)


def _read_only(array: np.ndarray) -> np.ndarray:
    array = array.view()
    array.flags.writeable = False
    return array


__all__ = ["ADMIT", "QUEUE", "REFUSE", "Decide", "PoolView", "Request", "View"]
