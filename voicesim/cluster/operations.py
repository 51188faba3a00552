"""Replicas by pool, and why each of them is closed: what the controllers of one run share."""

from typing import Any

from voicesim.cluster.log import Log
from voicesim.engine.spec import PoolSpec


class Operations:
    """The fleet as its operators see it.

    A replica may be taken out for several reasons at once and takes streams again when none is
    left.  ``faulty``: what is wrong with a replica now: a function that makes it so again after a
    restart.  ``dead``: replicas whose process is gone although callers are still sent there.
    """

    def __init__(self, spec: PoolSpec, names: list[str], log: Log):
        self.log, self.names = log, names
        self.first: dict[str, int] = {}
        self.size: dict[str, int] = {}
        first = 0
        for name, pool in zip(names, spec.pools, strict=True):
            self.first[name], self.size[name] = first, pool.engines
            first += pool.engines
        self.mates = {g: card for card in spec.cards() for g in card}
        self.reasons: list[set[str]] = [set() for _ in range(first)]
        self.faulty: dict[int, Any] = {}
        self.dead: set[int] = set()

    def replicas(self, pool: str) -> range:
        """The engines of a pool, by number."""
        return range(self.first[pool], self.first[pool] + self.size[pool])

    def pool_of(self, g: int) -> str:
        """Name of the pool that engine ``g`` is in."""
        return next(n for n in self.names if g in self.replicas(n))

    def note(self, t: float, what: str, g: int, value: float = 0.0) -> None:
        """Note something about engine ``g``."""
        pool = self.pool_of(g)
        self.log.note(t, what, pool, g - self.first[pool], value)

    def take_out(self, world: Any, g: int, why: str) -> None:
        """No more streams for replica ``g``; those it has go on."""
        self.reasons[g].add(why)
        world.set_open(g, False)

    def put_back(self, world: Any, g: int, why: str) -> None:
        """This reason is gone."""
        if why in self.reasons[g]:
            self.reasons[g].discard(why)
            if not self.reasons[g]:
                world.set_open(g, True)

    def restore(self, world: Any, g: int) -> None:
        """The replica starts anew; what is wrong with it for longer is so again."""
        world.restore(g)
        if g in self.faulty:
            self.faulty[g](world)
        if self.reasons[g]:
            world.set_open(g, False)
