"""Who notices that a replica has failed: each rule is a small process over the readings."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from voicesim.cluster.operations import Operations
from voicesim.scenario.health import Breaker, Ejection, Health, Liveness, Progress

Process = Callable[[Any, Any], Any]


def health_checks(health: Health | None, ops: Operations) -> list[Process]:
    """The processes of those checks that the scenario has."""
    if health is None:
        return []
    found: list[Process] = []
    if health.liveness is not None:
        found.append(liveness(health.liveness, ops))
    if health.progress is not None:
        found.append(progress(health.progress, ops))
    if health.ejection is not None:
        found.append(ejection(health.ejection, ops))
    if health.breaker is not None:
        found += [breaker(health.breaker, name, ops) for name in ops.names]
    return found


def liveness(rule: Liveness, ops: Operations) -> Process:
    """Is the process there?  A gray replica answers; one that is gone is closed after so many
    probes."""

    def process(env: Any, world: Any) -> Iterator[Any]:
        failed = np.zeros(len(ops.reasons), np.int64)
        while True:
            yield env.timeout(rule.every)
            for g in range(len(failed)):
                failed[g] = failed[g] + 1 if g in ops.dead else 0
                if failed[g] == rule.failures and world.crash(g):
                    ops.note(env.now, "found dead", g)

    return process


def progress(rule: Progress, ops: Operations) -> Process:
    """Does it do anything?  A replica that holds streams and makes no step for so long is
    restarted: what it holds is lost, and callers go elsewhere until it is back."""

    def process(env: Any, world: Any) -> Iterator[Any]:
        seen = world.readings()
        steps, since = seen.steps, np.full(len(seen.steps), float(env.now))
        back: dict[int, float] = {}
        while True:
            yield env.timeout(rule.every)
            seen = world.readings()
            idle = (seen.live == 0) | (seen.up == 0)
            since = np.where((seen.steps != steps) | idle, env.now, since)
            steps = seen.steps
            for g in np.flatnonzero(env.now - since >= rule.after).tolist():
                world.crash(g)
                ops.note(env.now, "no progress", g)
                back[g] = env.now + rule.restart
            for g in [g for g, t in back.items() if t <= env.now]:
                del back[g]
                if g not in ops.dead:
                    ops.restore(world, g)
                    since[g] = env.now
                    ops.note(env.now, "restarted", g)

    return process


def ejection(rule: Ejection, ops: Operations) -> Process:
    """Envoy's outlier ejection: a replica that lost so many streams in a row is out for ``base``
    times how often it was out, never more than a share of its pool (but always one)."""

    def process(env: Any, world: Any) -> Iterator[Any]:
        n = len(ops.reasons)
        seen = world.readings()
        in_a_row, times = np.zeros(n, np.int64), np.zeros(n, np.int64)
        until = np.full(n, np.inf)
        while True:
            yield env.timeout(rule.every)
            now = world.readings()
            lost, served = now.failed - seen.failed, now.served - seen.served
            seen = now
            in_a_row = np.where(served > 0, 0, in_a_row) + lost
            for g in np.flatnonzero(until <= env.now).tolist():
                until[g], in_a_row[g] = np.inf, 0
                ops.put_back(world, g, "ejected")
                ops.note(env.now, "back", g)
            for g in np.flatnonzero((in_a_row >= rule.consecutive) & np.isinf(until)).tolist():
                own = list(ops.replicas(ops.pool_of(g)))
                if np.isfinite(until[own]).sum() >= max(1, int(rule.most * len(own))):
                    continue
                times[g] += 1
                until[g] = env.now + min(rule.base * times[g], rule.longest)
                ops.take_out(world, g, "ejected")
                ops.note(env.now, "ejected", g, until[g] - env.now)

    return process


def breaker(rule: Breaker, pool: str, ops: Operations) -> Process:
    """Hystrix's circuit breaker over a whole pool: too large a share of what ended in the window
    was lost; after the sleep the pool is tried again, from a count of nothing."""

    def process(env: Any, world: Any) -> Iterator[Any]:
        own = list(ops.replicas(pool))
        while True:
            before = world.readings()
            yield env.timeout(rule.window)
            now = world.readings()
            lost = int((now.failed - before.failed)[own].sum())
            ended = lost + int((now.served - before.served)[own].sum())
            if ended < rule.least or lost < rule.share * ended:
                continue
            ops.log.note(env.now, "circuit open", pool, -1, lost / ended)
            for g in own:
                ops.take_out(world, g, "circuit")
            yield env.timeout(rule.sleep)
            for g in own:
                ops.put_back(world, g, "circuit")
            ops.log.note(env.now, "circuit closed", pool)

    return process
