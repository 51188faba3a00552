"""SimPy's environment with absolute times and a stated rule for ties.

Events at one instant happen in the order: codec batch ends, step ends, gather windows, timers of
sessions, arrivals, kicks of idle engines, then everything else in SimPy's queue; within a kind by
number.  ``fire`` is for consequences of the event at hand: they happen at once.
"""

from heapq import heappush
from typing import Any

import simpy
from simpy.events import NORMAL, URGENT

from voicesim.engine.card import lost


class Timeline(simpy.Environment):
    """Environment in which the pool's events are ordered by (time, kind, number)."""

    def at(self, t: float, kind: int, number: int) -> simpy.Event:
        """An event at the absolute time ``t`` (s)."""
        event = simpy.Event(self)
        event._ok = True
        event._value = None
        priority: Any = (kind - 16) * 2**50 + number
        heappush(self._queue, (t, priority, next(self._eid), event))
        return event

    def schedule(self, event: Any, priority: Any = NORMAL, delay: float = 0) -> None:
        """As SimPy's, but a new process starts before anything else of its instant."""
        if priority == URGENT:
            priority = -(2**60)
        heappush(self._queue, (self.now + delay, priority, next(self._eid), event))

    @staticmethod
    def fire(event: simpy.Event, value: object = None) -> None:
        """Trigger ``event`` here and now: a consequence of the event at hand."""
        event._ok = True
        event._value = value
        callbacks, event.callbacks = event.callbacks, None  # type: ignore[assignment]
        for callback in callbacks:
            callback(event)


class Work:
    """Seconds of work in flight on a GPU whose speed changes when others come and go."""

    def __init__(self, env: Timeline, seconds: float, kind: int, number: int):
        self.env, self.kind, self.number = env, kind, number
        self.started = env.now
        self.remaining = seconds
        self.since = env.now
        self.slowdown = 1.0
        self.others, self.lost, self.lost_to = 1.0, 0.0, env.now  # to other engines on the card
        self.end = env.now + seconds
        self.done = simpy.Event(env)
        self._expected: Any = None
        self._expect()

    def slow_to(self, slowdown: float, others: float = 1.0) -> None:
        """From now on every second of work takes ``slowdown`` seconds; others: how many times
        longer it takes because of other engines on the card."""
        self.lose(others)
        if slowdown != self.slowdown:
            now = self.env.now
            self.remaining = self.remaining - (now - self.since) / self.slowdown
            self.since = now
            self.slowdown = slowdown
            self.end = now + self.remaining * slowdown
            self._expect()

    def stop(self) -> None:
        """It never ends."""
        self._expected = None

    def lose(self, others: float) -> None:
        """Note what other engines took until now, before they take another part."""
        if others != self.others:
            if self.others != 1.0:
                self.lost += lost(self.env.now - self.lost_to, self.others)
            self.others, self.lost_to = others, self.env.now

    def _expect(self) -> None:
        expected = self.env.at(self.end, self.kind, self.number)
        self._expected = expected
        expected.callbacks.append(self._finish)

    def _finish(self, event: simpy.Event) -> None:
        if event is self._expected:  # not overtaken by a change of speed
            self.env.fire(self.done)
