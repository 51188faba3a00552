"""The controllers of a scenario: SimPy processes that act on a running pool or fleet.

Each is a generator function of (env, pool); kernel and reference offer the same methods, so a
controller sees one world in both.
"""

from collections.abc import Callable, Iterator
from typing import Any

from voicesim.cluster import degradation
from voicesim.cluster.faults import faults
from voicesim.cluster.health import health_checks
from voicesim.cluster.log import Log
from voicesim.cluster.operations import Operations
from voicesim.cluster.rollout import rollouts
from voicesim.cluster.scaling import scalers
from voicesim.engine.spec import PoolSpec
from voicesim.scenario import Scenario

Process = Callable[[Any, Any], Any]


def controllers(
    scenario: Scenario, spec: PoolSpec, log: Log, replication: int = 0
) -> list[Process]:
    """What acts on the run beside the engines, in the order in which they act at one instant.

    They note in ``log`` what they do.
    """
    ops = Operations(spec, list(scenario.cluster.of("tts")), log)
    found: list[Process] = [
        *router_reads(scenario.policies.routing),
        *faults(scenario, ops, replication),
        *health_checks(scenario.policies.health, ops),
        *scalers(scenario, spec, ops),
        *rollouts(scenario, spec, ops),
    ]
    given = scenario.policies.degradation
    if given is not None and given.ladder:
        found.append(degradation.climbing(given, spec, list(scenario.cluster.pools), log))
    return found


def router_reads(routing: Any) -> list[Process]:
    """The router learns from time to time how many streams each replica has."""
    age = getattr(routing, "age", 0.0)

    def process(env: Any, world: Any) -> Iterator[Any]:
        while True:
            world.refresh_readings()
            yield env.timeout(age)

    return [process] if age > 0.0 else []
