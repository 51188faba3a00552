"""The controllers of a scenario: SimPy processes that act on a running pool or fleet.

Each is a generator function of (env, pool); kernel and reference offer the same methods, so a
controller sees one world in both.
"""

from collections.abc import Callable
from typing import Any

from voicesim.cluster import degradation
from voicesim.cluster.log import Log
from voicesim.cluster.rollout import rollouts
from voicesim.cluster.scaling import scalers
from voicesim.engine.spec import PoolSpec
from voicesim.scenario import Scenario

Process = Callable[[Any, Any], Any]


def controllers(scenario: Scenario, spec: PoolSpec, log: Log) -> list[Process]:
    """What acts on the run beside the engines, in the order in which they act at one instant.

    They note in ``log`` what they do.
    """
    found: list[Process] = [*scalers(scenario, spec, log), *rollouts(scenario, spec, log)]
    given = scenario.policies.degradation
    if given is not None and given.ladder:
        found.append(degradation.climbing(given, spec, list(scenario.cluster.pools), log))
    return found
