"""The autoscaler: looks at a signal every so often, orders replicas and gives them back."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from voicesim.cluster.operations import Operations
from voicesim.cluster.replicas import OPEN, Replicas, start_law
from voicesim.engine.quantiles import quantile_rows
from voicesim.engine.spec import INF, PoolSpec
from voicesim.policy.scaling import bounded, desired, planned, stabilised
from voicesim.scenario import Scenario
from voicesim.scenario.scaling import STAGES, Scaling

CORES = 8
"""Cores of a replica's host where nothing is said; an assumption."""
SCALED = "wants"
"""Noted when a pool is to have another number of replicas; value: how many."""


def stages_of(cold_start: Any) -> list[Any]:
    """The laws of a start's stages; none of a start in no time."""
    return [] if cold_start == "none" else [getattr(cold_start, stage) for stage in STAGES]


def scalers(scenario: Scenario, spec: PoolSpec, ops: Operations) -> list[Callable[[Any, Any], Any]]:
    """An autoscaler for each pool of policies.scaling."""
    rule = scenario.policies.scaling
    if rule is None:
        return []
    names = list(scenario.cluster.pools)
    return [
        scaler(rule, spec, ops, names.index(name), name) for name in rule.pools if name in names
    ]


def scaler(
    rule: Scaling, spec: PoolSpec, ops: Operations, number: int, name: str
) -> Callable[[Any, Any], Any]:
    """The autoscaler of one pool, as a control process."""
    of, own = rule.pools[name], spec.pools[number]
    numbers = np.flatnonzero(spec.pool_of == number)
    seconds = start_law(stages_of(rule.cold_start), spec.seed, number)
    grace = INF if rule.down.grace is None else rule.down.grace
    ready = of.min if of.start is None else of.start
    schedule = [(p.at, p.replicas) for p in rule.schedule]

    def process(env: Any, pool: Any) -> Iterator[Any]:
        replicas = Replicas(env, pool, ops, name, numbers, ready, seconds, spec.pinned)
        look = signal(rule, spec, own, pool, numbers)
        history: list[tuple[float, int]] = []
        while True:
            yield env.timeout(rule.every)
            now, ordered = float(env.now), replicas.ordered
            value = look(now, replicas.of(OPEN))
            least = max(of.min, planned(schedule, now))
            wanted = ordered
            if value is not None:
                carrying = max(ordered - rule.spare, 0)
                wanted = rule.spare + desired(
                    carrying, len(replicas.of(OPEN)), value, rule.signal.target, rule.tolerance
                )
            wanted = bounded(wanted, ordered, least, own.engines, rule.up.step)
            history = [(t, n) for t, n in history if t > now - rule.down.after] + [(now, wanted)]
            if wanted < ordered:
                wanted = min(ordered, stabilised(history, now, rule.down.after))
                wanted = max(wanted, ordered - (rule.down.step or ordered))
            if wanted != ordered:
                ops.log.note(now, SCALED, name, -1, wanted)
            if wanted > ordered:
                replicas.order(wanted - ordered)
            elif wanted < ordered:
                replicas.withdraw(ordered - wanted, grace)

    return process


def signal(
    rule: Scaling, spec: PoolSpec, own: PoolSpec, pool: Any, numbers: np.ndarray
) -> Callable[[float, list[int]], float | None]:
    """What the autoscaler looks at: its mean over the replicas that are ready, at some instant;
    None: nothing to see yet, or no replica is ready."""
    kind, every = rule.signal.kind, rule.every
    cores = rule.signal.cores or CORES
    before = np.zeros(spec.replicas)

    def look(now: float, ready: list[int]) -> float | None:
        nonlocal before
        seen = pool.readings()
        busy, since = seen.busy_gpu + seen.busy_host, before
        before = busy
        if not ready:
            return None
        if kind == "sessions":
            return float(np.mean([pool.calls_on(g) for g in ready]))
        if kind == "gap":
            return _gap(pool, spec, now, every)
        if kind == "kv":
            return float(np.mean(1.0 - seen.free_blocks[ready] / own.blocks))
        if kind == "cpu":
            span = min(now, spec.horizon) - max(now - every, spec.warmup)
            if span <= 0.0:
                return None
            return float(np.mean(np.minimum((busy - since)[ready] / span, 1.0))) / cores
        of = {"streams": seen.live, "running": seen.running, "waiting": seen.waiting}[kind]
        return float(np.mean(of[ready]))

    return look


def _gap(pool: Any, spec: PoolSpec, now: float, every: float) -> float | None:
    """p99 of gap / audio before it over the chunks that arrived since the last look."""
    first, last = (int(max(t, 0.0) / spec.resolution) for t in (now - every, now))
    found = float(quantile_rows(pool.gap_counts()[first:last].sum(axis=0)[None, :], 0.99)[0])
    return None if np.isnan(found) else found
