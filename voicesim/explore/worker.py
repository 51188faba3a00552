"""What runs in a process of its own: one run of one pool, given up when its question is old."""

import os
import threading
from collections.abc import Callable, Iterator
from multiprocessing import parent_process
from typing import Any

from voicesim.scenario import Scenario
from voicesim.study import Piece, job

LOOKS = 200
"""How often a run looks whether it is still wanted, over its horizon."""

_newest: Any = None
_meeting: Any = None


class Superseded(Exception):
    """A newer question was asked meanwhile."""


def begin(newest: Any, meeting: Any, parts: list[Scenario]) -> None:
    """Make a process ready.

    newest: shared number of the newest question.  meeting: barrier of all processes.  parts: see
    ``warm``.
    """
    global _newest, _meeting
    _newest, _meeting = newest, meeting
    parent = parent_process()
    if parent is not None:  # it may be killed, and would leave this process waiting for ever
        threading.Thread(target=_leave_with, args=[parent], daemon=True).start()
    warm(parts)


def _leave_with(parent: Any) -> None:
    parent.join()
    os._exit(1)


def warm(parts: list[Scenario]) -> None:
    """Play the pools of a scenario that is over soon, so that the kernel is loaded."""
    for part in parts:
        job(part, "warm", 0, None, False, "kernel")


def meet() -> None:
    """Wait for the other processes: each process takes one of these, so all are ready after."""
    _meeting.wait()


def play(ticket: int, scenario: Scenario, variant: str, replication: int) -> Piece:
    """A run as ``voicesim run`` plays it.  Raises Superseded, and what ``simulate`` raises."""
    wanted = _wanted(ticket, scenario.horizon / LOOKS)
    return job(scenario, variant, replication, None, False, "kernel", processes=[wanted])


def _wanted(ticket: int, every: float) -> Callable[[Any, Any], Iterator[Any]]:
    """A process beside the pool that ends the run when its ticket is not the newest."""

    def look(env: Any, _pool: Any) -> Iterator[Any]:
        while True:
            if _newest.value != ticket:
                raise Superseded
            yield env.timeout(every)

    return look
