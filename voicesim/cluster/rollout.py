"""Rollouts: a new version beside the old one behind a guard, or batch after batch in one pool."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from voicesim.cluster.operations import Operations
from voicesim.cluster.replicas import OPEN, Replicas, start_law
from voicesim.cluster.scaling import stages_of
from voicesim.engine import layout as at
from voicesim.engine.spec import PoolSpec
from voicesim.policy import guard as rule
from voicesim.scenario import Scenario
from voicesim.scenario.rollout import Canary, Guard, Rolling

SHARE, DONE, BACK = "share", "rolled out", "rolled back"
"""Noted in the log; value: the new version's share of the callers; what was worse is in its name:
"rolled back: clean"."""


def rollouts(
    scenario: Scenario, spec: PoolSpec, ops: Operations
) -> list[Callable[[Any, Any], Any]]:
    """The rollout of a scenario, if it has one."""
    found, names = scenario.policies.rollout, list(scenario.cluster.pools)
    if isinstance(found, Canary):
        return [canary(found, scenario, spec, ops)]
    if isinstance(found, Rolling) and found.pool in names:
        return [rolling(found, spec, ops, names.index(found.pool))]
    return []


def rolling(
    given: Rolling, spec: PoolSpec, ops: Operations, number: int
) -> Callable[[Any, Any], Any]:
    """Exchange the replicas of a pool, a batch at a time, as a control process."""
    seconds = start_law(stages_of(given.cold_start), spec.seed, number)
    numbers = np.flatnonzero(spec.pool_of == number)

    def process(env: Any, pool: Any) -> Iterator[Any]:
        replicas = Replicas(env, pool, ops, given.pool, numbers, given.serving, seconds, True)
        yield env.timeout(given.at)
        old = replicas.of(OPEN)
        for i in range(0, len(old), given.at_once):
            batch = old[i : i + given.at_once]
            if given.surge > 0.0:
                yield env.all_of(replicas.order(len(batch)))
            yield env.all_of([replicas.drain(g, given.grace) for g in batch])
            if given.surge == 0.0:
                yield env.all_of(replicas.order(len(batch)))
        ops.log.note(env.now, DONE, given.pool)

    return process


def canary(
    given: Canary, scenario: Scenario, spec: PoolSpec, ops: Operations
) -> Callable[[Any, Any], Any]:
    """Give the new version more and more of the callers, or all back to the old one."""
    names = list(scenario.cluster.pools)
    old, new = names.index(given.old), names.index(given.new)
    seconds = start_law(stages_of(given.cold_start), spec.seed, new)

    def process(env: Any, pool: Any) -> Iterator[Any]:
        def replicas(name: str, number: int, ready: int) -> Replicas:
            numbers = np.flatnonzero(spec.pool_of == number)
            return Replicas(env, pool, ops, name, numbers, ready, seconds, True)

        def give(share: float) -> None:
            pool.set_weight(old, 1.0 - share)
            pool.set_weight(new, share)
            ops.log.note(env.now, SHARE, given.new, -1, share)

        def withdraw(from_: Replicas) -> Any:
            return env.all_of([from_.drain(g, given.grace) for g in from_.of(OPEN)])

        before = replicas(given.old, old, spec.pools[old].engines)
        after = replicas(given.new, new, 0)
        give(0.0)
        yield env.timeout(given.at)
        yield env.all_of(after.order(spec.pools[new].engines))
        watch = Watch(given.guard, scenario, spec, pool, (old, new), float(env.now))
        for stage in given.stages:
            give(stage.share)
            until = env.now + stage.hold
            while env.now < until:
                yield env.timeout(min(watch.every, until - env.now))
                if worse := watch.worse():
                    give(0.0)
                    ops.log.note(env.now, f"{BACK}: {worse}", given.new)
                    yield withdraw(after)
                    return
        if given.stages[-1].share == 1.0:
            yield withdraw(before)
        ops.log.note(env.now, DONE, given.new, -1, given.stages[-1].share)

    return process


class Watch:
    """A guard's looks at the calls so far that began after ``since`` (s); pools: old and new.

    A call is known by its first utterance, and its version by the replica that served it; one that
    no replica took is not counted, nor is speech of one chunk, which cannot stall.
    """

    def __init__(
        self, given: Guard | None, scenario: Scenario, spec: PoolSpec, pool: Any,
        pools: tuple[int, int], since: float,
    ):  # fmt: skip
        self.given, self.slo, self.spec = given, scenario.slo, spec
        self.pool, self.pools, self.since, self.looks = pool, pools, since, 0

    @property
    def every(self) -> float:
        """Seconds between looks."""
        return float("inf") if self.given is None else self.given.every

    def worse(self) -> str:
        """What is significantly worse of the new version; "" if nothing is."""
        if self.given is None:
            return ""
        (good, before, n, m), ttfa = self.seen()
        if min(n, m) < self.given.calls:
            return ""
        self.looks += 1
        most = rule.level(self.looks, self.given.error) / len(self.given.watch)
        if "clean" in self.given.watch and rule.fewer(good, n, before, m) < most:
            return "clean"
        if "ttfa" in self.given.watch and rule.longer(ttfa[1], ttfa[0]) < most:
            return "ttfa"
        return ""

    def seen(self) -> tuple[tuple[int, int, int, int], list[np.ndarray]]:
        """(good calls of the new version, of the old one, calls of each), TTFA of old and new."""
        ints, floats = self.pool.results()
        u = self.pool.tape.first[:-1]
        i, f = ints[u], floats[u]
        wait = f[:, at.Z_START] - f[:, at.Z_REQUEST]
        heard = f[:, at.Z_START] >= 0.0
        settled = (i[:, at.R_OUTCOME] != at.PENDING) & (i[:, at.R_ENGINE] >= 0)
        settled &= f[:, at.Z_REQUEST] >= self.since
        judged = settled & ~((i[:, at.R_OUTCOME] == at.COMPLETED) & (i[:, at.R_CHUNKS] < 2))
        good = (i[:, at.R_OUTCOME] == at.COMPLETED) & (wait <= self.slo.start_within)
        good &= (f[:, at.Z_STALL_MAX] <= self.slo.no_stall_over) & (f[:, at.Z_LOST] == 0.0)
        of = self.spec.pool_of[i[:, at.R_ENGINE]]
        old, new = (judged & (of == p) for p in self.pools)
        counts = [int(x.sum()) for x in (good & new, good & old, new, old)]
        ttfa = [wait[settled & heard & (of == p)] for p in self.pools]
        return (counts[0], counts[1], counts[2], counts[3]), ttfa
