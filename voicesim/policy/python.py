"""Policies in Python: the built-in ones as classes, and a user's own named in the YAML.

A routing policy is a class with ``choose(view) -> replica`` (-1: none); an admission policy a
class with ``admit(view, replica) -> ADMIT | REFUSE`` (True and False will do).  Each is
made anew for every run with the options of the YAML as keyword arguments.  What they may look at
is ``voicesim.policy.view.View``.
"""

import importlib
from collections.abc import Callable
from typing import Any

from voicesim.policy import admission, routing, watchdog
from voicesim.policy.admission import ADMIT, QUEUE, REFUSE
from voicesim.policy.view import View


class PolicyError(RuntimeError):
    """A user's policy cannot be loaded, failed, or answered nonsense."""


class LeastStreams:
    """The open replica with the fewest live streams."""

    def choose(self, view: View) -> int:
        if view.open.all():
            return int(view.live.argmin())
        return routing.least_streams(view.live, view.open)


class RoundRobin:
    """Each open replica in turn."""

    def __init__(self) -> None:
        self.turn = -1

    def choose(self, view: View) -> int:
        self.turn += 1
        return routing.round_robin(view.live, view.open, self.turn)


class PowerOfTwo:
    """The less loaded of two random replicas."""

    def choose(self, view: View) -> int:
        return routing.power_of_two(view.live, view.open, view.uniform(0), view.uniform(1))


class BoundedHash:
    """A call's own replica, unless that has more than (1 + epsilon) times the mean."""

    def __init__(self, epsilon: float):
        self.epsilon = epsilon

    def choose(self, view: View) -> int:
        return routing.bounded_hash(view.live, view.open, view.affinity(), self.epsilon)


class InverseProb:
    """At random, those with fewer streams more often."""

    def choose(self, view: View) -> int:
        return routing.inverse_prob(view.live, view.open, view.uniform(0))


class Pack:
    """The fullest replica that has room."""

    def __init__(self, limit: int):
        self.limit = limit

    def choose(self, view: View) -> int:
        return routing.pack(view.live, view.open, self.limit)


class AdmitAll:
    """Everybody."""

    def admit(self, view: View, replica: int) -> int:
        return ADMIT


class Cap:
    """At most ``streams`` live streams on a replica."""

    def __init__(self, streams: int):
        self.streams = streams

    def admit(self, view: View, replica: int) -> int:
        return ADMIT if view.live[replica] < self.streams else REFUSE


class CapQueue:
    """As Cap, with a queue of at most ``max_waiting`` at the gateway."""

    def __init__(self, streams: int, max_waiting: int):
        self.streams, self.max_waiting = streams, max_waiting

    def nowhere(self, view: View) -> int:
        """No replica is open: wait for one."""
        return QUEUE if view.gateway < self.max_waiting else REFUSE

    def redirect(self, view: View, replica: int) -> int:
        """Where a stream goes whose replica is full."""
        return admission.place_with_room(view.live, view.open, replica, self.streams)

    def admit(self, view: View, replica: int) -> int:
        live = int(view.live[replica])
        return admission.cap_queue(live, self.streams, view.gateway, self.max_waiting)


class Slack:
    """Only if every live stream keeps its lead (s; None: the run's own)."""

    def __init__(self, lead: float | None = None):
        self.lead = lead

    def admit(self, view: View, replica: int) -> int:
        return ADMIT if view.has_slack(replica, self.lead) else REFUSE


def decider(route: Any, admit: Any) -> Callable[[View], tuple[int, int]]:
    """One decision from a routing and an admission policy (which may name another replica)."""
    choose, may_enter = route.choose, admit.admit
    redirect = getattr(admit, "redirect", None)
    nowhere = getattr(admit, "nowhere", lambda view: REFUSE)

    def decide(view: View) -> tuple[int, int]:
        g = choose(view)
        if g < 0:
            return nowhere(view), 0
        if redirect is not None:
            g = redirect(view, g)
        return may_enter(view, g), g

    return decide


def checked(
    decide: Callable[[View], tuple[int, int]], replicas: int, names: str, may_queue: bool
) -> Any:
    """The same decision, but a failure, a nonsense answer or none at all names the policy and the
    time.

    may_queue: only the built-in cap_queue fills places from the gateway's queue.
    """
    allowed = (ADMIT, REFUSE, QUEUE) if may_queue else (ADMIT, REFUSE)
    watched = watchdog.Decision()

    def guarded(view: View) -> tuple[int, int]:
        watched.begin()
        try:
            action, g = decide(view)
            action, g = int(action), int(g)
        except watchdog.TookTooLong:
            text = f"{names} did not answer within {watchdog.LIMIT} s at t = {view.now:.3f} s"
            raise PolicyError(text) from None
        except (Exception, SystemExit) as error:
            why = " ".join(f"{type(error).__name__}: {error}".split())
            raise PolicyError(f"{names} failed at t = {view.now:.3f} s: {why}") from error
        finally:
            watched.end()
        if action not in allowed or not 0 <= g < replicas:
            raise PolicyError(
                f"{names} answered ({action}, replica {g}) at t = {view.now:.3f} s; allowed: "
                f"ADMIT (1) or REFUSE (0), and a replica from 0 to {replicas - 1}"
            )
        return action, g

    return guarded


def load_policy(name: str, options: dict[str, Any], method: str) -> Any:
    """An instance of the user's class ``package.module:Class``, which must have the method.

    Nothing else is called, so a scenario cannot name any function it likes.  Raises PolicyError.
    """
    module, _, attribute = name.partition(":")
    try:
        chosen = getattr(importlib.import_module(module), attribute)
        if not isinstance(chosen, type) or not callable(getattr(chosen, method, None)):
            raise TypeError(f"must be a class with a method {method}")
        return chosen(**options)
    except (Exception, SystemExit) as error:
        why = " ".join(f"{type(error).__name__}: {error}".split())
        raise PolicyError(f"policy {name!r}: {why}") from error
