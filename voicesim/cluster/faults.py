"""What breaks: one process per fault and replica that it befalls."""

from collections.abc import Callable, Iterator
from typing import Any

from voicesim.cluster.operations import Operations
from voicesim.scenario import Scenario
from voicesim.scenario.faults import Gray, NetworkLoss, OfReplica, RegionLoss, Slow
from voicesim.workload import rng

Process = Callable[[Any, Any], Any]


def faults(scenario: Scenario, ops: Operations, replication: int) -> list[Process]:
    """A process for each replica that a fault befalls, each with random numbers of its own."""
    found = []
    for i, fault in enumerate(scenario.faults):
        for g in befallen(scenario, fault, ops):
            seed = rng.hash_key_py(scenario.seed, rng.Purpose.FAULT, i, g)
            draw = rng.generator(seed, replication, rng.Purpose.FAULT)
            found.append(_process(scenario, fault, g, ops, draw))
    return found


def befallen(scenario: Scenario, fault: Any, ops: Operations) -> list[int]:
    """The engines, by number, that the fault befalls."""
    pools = scenario.cluster.of("tts")
    if not isinstance(fault, OfReplica):
        there = [n for n in ops.names if pools[n].region == fault.region]
        return [g for name in there for g in ops.replicas(name)]
    name = fault.pool or next(iter(pools))
    if name not in ops.first:  # of a pool that is played apart
        return []
    own = ops.replicas(name)
    found = list(own) if fault.replica is None else [own[fault.replica]]
    if fault.kind == "gpu_loss":  # type: ignore[attr-defined]
        found = sorted({mate for g in found for mate in ops.mates.get(g, [g])})
    return found


def _process(scenario: Scenario, fault: Any, g: int, ops: Operations, draw: Any) -> Process:
    """The fault of one replica: once, or again and again."""
    health = scenario.policies.health
    probed = health is not None and health.liveness is not None

    def process(env: Any, world: Any) -> Iterator[Any]:
        while True:
            wait = draw.exponential(fault.mtbf) if fault.mtbf else fault.at - env.now
            yield env.timeout(wait)
            ops.note(env.now, fault.kind, g)
            gone = _befall(fault, g, ops, world, probed)
            lasts = draw.exponential(fault.mttr) if fault.mttr else fault.lasts
            if isinstance(fault, RegionLoss) and fault.reroute > 0.0:
                until = fault.reroute if lasts is None else min(fault.reroute, lasts)
                yield env.timeout(until)
                if gone and g in ops.dead:
                    world.crash(g)
                    ops.note(env.now, "rerouted", g)
                lasts = None if lasts is None else lasts - until
            if lasts is None:
                return
            yield env.timeout(lasts)
            _end(fault, g, ops, world)
            ops.note(env.now, "restored", g)
            if not fault.mtbf:
                return

    return process


def _befall(fault: Any, g: int, ops: Operations, world: Any, probed: bool) -> bool:
    """The fault begins; whether the replica is gone."""
    if isinstance(fault, Slow):
        ops.faulty[g] = lambda w: w.set_slow(g, fault.factor)
    elif isinstance(fault, Gray | NetworkLoss):
        ops.faulty[g] = lambda w: w.set_gray(g, fault.drop_after)
    elif probed or (isinstance(fault, RegionLoss) and fault.reroute > 0.0):
        # callers are sent there until somebody notices, and are lost at once
        ops.dead.add(g)
        ops.faulty[g] = lambda w: w.set_gray(g, 0.0)
    else:
        ops.dead.add(g)
        ops.faulty[g] = lambda w: w.crash(g)
    ops.faulty[g](world)
    return g in ops.dead


def _end(fault: Any, g: int, ops: Operations, world: Any) -> None:
    """The fault is over."""
    ops.faulty.pop(g, None)
    ops.dead.discard(g)
    if isinstance(fault, Slow):
        world.set_slow(g, 1.0)
    else:
        ops.restore(world, g)
