"""Keeping c requests in flight, or sending at the instants of a Poisson process."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import numpy as np

from voicesim.experiment.method import t_interval
from voicesim.live.errors import EndpointError
from voicesim.live.exchange import Clock, Exchange

LONGEST_S = 600.0
"""A request that takes longer is given up."""
FAILURES = 5
"""So many failures in a row, and the endpoint has failed."""

Ask = Callable[[int, Exchange], Awaitable[None]]
"""The request of this number; raises EndpointError."""


@dataclass
class Steady:
    """When a level has been measured well enough.

    A request's figure is its seconds from send to last chunk per second of audio (or token).  The
    first request of each place is not counted.  Enough: ``least`` requests, two for each place,
    and a 95 % interval of the mean within +- precision of it.  Requests that share a batch are
    not independent, so the interval is a stopping rule, not a claim.
    """

    places: int
    precision: float
    least: int = 12
    seen: int = 0
    figures: list[float] = field(default_factory=list)

    def add(self, exchange: Exchange) -> None:
        self.seen += 1
        if self.seen > self.places:
            self.figures.append(exchange.per_unit)

    @property
    def width(self) -> float | None:
        """Half of the interval over the mean; None before the second figure."""
        found = t_interval(self.figures)
        return found.half / found.mean if found.n > 1 and found.mean > 0 else None

    def reached(self) -> bool:
        width = self.width
        enough = len(self.figures) >= max(self.least, 2 * self.places)
        return enough and width is not None and width <= self.precision


@dataclass
class Outcome:
    """What a run came to.  stopped: why no more requests were sent."""

    stopped: str = ""
    sent: int = 0
    failed: list[Exchange] = field(default_factory=list)
    in_a_row: int = 0

    def count(self, exchange: Exchange) -> None:
        """One more ended; FAILURES in a row stop the run."""
        if exchange.error is None:
            self.in_a_row = 0
            return
        self.failed.append(exchange)
        self.in_a_row += 1
        if self.in_a_row >= FAILURES:
            self.stopped = "failed"


async def one(number: int, exchange: Exchange, ask: Ask, done: Callable[[Exchange], None]) -> None:
    """One request, counted while it is in flight; ``done`` sees it whether it failed or not."""
    exchange.clock.live += 1
    try:
        async with asyncio.timeout(LONGEST_S):
            await ask(number, exchange)
    except EndpointError as error:
        exchange.error = str(error)
    except TimeoutError:
        exchange.error = f"not done after {LONGEST_S:g} s"
    finally:
        exchange.clock.live -= 1
    done(exchange)


async def closed_loop(
    places: int,
    seconds: float,
    clock: Clock,
    new: Callable[[int], Exchange],
    ask: Ask,
    done: Callable[[Exchange], None],
    steady: Steady,
    outcome: Outcome,
) -> None:
    """Each place sends its next request when its last one has ended, until steady, late or failed.
    Requests in flight then are heard to their end."""

    def ended(exchange: Exchange) -> None:
        outcome.count(exchange)
        if exchange.error is None and not outcome.stopped:
            steady.add(exchange)
        done(exchange)
        if not outcome.stopped and steady.reached():
            outcome.stopped = "steady"

    async def place() -> None:
        while not outcome.stopped:
            if clock.now() >= seconds:
                outcome.stopped = "time limit"
                return
            number, outcome.sent = outcome.sent, outcome.sent + 1
            await one(number, new(number), ask, ended)

    async with asyncio.TaskGroup() as group:
        for _ in range(places):
            group.create_task(place())


async def poisson(
    due: np.ndarray,
    most: int,
    clock: Clock,
    new: Callable[[int], Exchange],
    ask: Ask,
    done: Callable[[Exchange], None],
    outcome: Outcome,
) -> None:
    """A request at each instant (s since the run began), whatever has become of the others, unless
    ``most`` are in flight."""

    def ended(exchange: Exchange) -> None:
        outcome.count(exchange)
        done(exchange)

    async with asyncio.TaskGroup() as group:
        for number, t in enumerate(due.tolist()):
            await asyncio.sleep(max(0.0, t - clock.now()))
            if clock.live >= most:
                outcome.stopped = f"{most} requests in flight"
            if outcome.stopped:
                return
            exchange = new(number)
            exchange.due, outcome.sent = t, outcome.sent + 1
            group.create_task(one(number, exchange, ask, ended))
        outcome.stopped = "all sent"


def instants(rate: float, seconds: float, seed: int) -> np.ndarray:
    """Arrivals of a Poisson process in [0, seconds): float64[n], s."""
    rng = np.random.default_rng([seed, 0x9015])
    gaps = rng.exponential(1 / rate, int(rate * seconds + 10 * (rate * seconds) ** 0.5 + 20))
    t = np.cumsum(gaps)
    return t[t < seconds]
