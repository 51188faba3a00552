"""What a policy sees of a kernel pool: the View of voicesim.policy.view over its arenas."""

from typing import Any

import numpy as np

from voicesim.engine import layout as at
from voicesim.engine.kernel.loop import has_slack
from voicesim.policy.view import Request
from voicesim.workload.rng import hash_key_py, to_unit_py


class PoolView:
    """The View of a kernel pool: windows into its arenas."""

    def __init__(self, pool: Any):
        self._pool = pool
        self.refresh()

    def refresh(self) -> None:
        """Look again: the arenas have moved."""
        pool = self._pool
        engines, floats = pool.section(at.O_ENGINE), pool.section(at.OF_ENGINE)
        live = at.O_SEEN if pool.spec.stale else at.O_LIVE
        self.live = _read_only(pool.section(live)[:, 0])
        self.open = _read_only(pool.section(at.O_OPEN)[:, 0])
        self.running = _read_only(engines[:, at.E_RUNNING])
        self.waiting = _read_only(engines[:, at.E_WAITING])
        self.queued = _read_only(engines[:, at.E_QUEUED])
        self.free_blocks = _read_only(engines[:, at.E_FREE])
        self.lag = _read_only(floats[:, at.G_LAG])

    @property
    def now(self) -> float:
        """Simulated time (s)."""
        return float(self._pool.F[at.K_NOW])

    @property
    def gateway(self) -> int:
        """Callers that queue at the gateway."""
        return int(self._pool.I[at.H_GQ])

    def request(self) -> Request:
        """The stream that asks."""
        pool = self._pool
        row = pool.section(at.O_STREAM)[pool.I[at.H_DECISION]]
        u = int(row[at.S_UTT])
        return Request(
            self.now,
            int(pool.I[pool.I[at.O_UTT] + u * at.NUI + at.U_SESSION]),
            u,
            int(row[at.S_PROMPT]),
            int(row[at.S_TOKENS]) * pool.spec.token_audio,
            int(row[at.S_ATTEMPTS]),
        )

    def has_slack(self, replica: int, lead: float | None = None) -> bool:
        """Does every playing stream of the replica keep ``lead`` with this stream in its batch?"""
        given = float(self._pool.F[at.K_LEAD])
        self._pool.F[at.K_LEAD] = given if lead is None else lead
        found = bool(has_slack(*self._pool.arenas, replica))
        self._pool.F[at.K_LEAD] = given
        return found

    def uniform(self, draw: int) -> float:
        """A uniform in [0, 1) that belongs to this request and attempt, draw 0 or 1."""
        request = self.request()
        key = hash_key_py(
            self._pool.spec.seed, at.P_ROUTE, request.utterance, 2 * request.attempt + draw
        )
        return to_unit_py(key)

    def affinity(self) -> float:
        """A uniform in [0, 1) that belongs to the call, the same for all its requests."""
        seed = self._pool.spec.seed
        return to_unit_py(hash_key_py(seed, at.P_AFFINITY, self.request().session, 0))


def _read_only(array: np.ndarray) -> np.ndarray:
    array = array.view()
    array.flags.writeable = False
    return array
