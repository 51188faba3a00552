"""Plays settings in processes that stay warm: one question at a time, the newest wins."""

import multiprocessing
import os
import signal
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from voicesim.engine.kernel.jit import is_compiled
from voicesim.explore.worker import Superseded, begin, meet, play, warm
from voicesim.scenario import Scenario
from voicesim.study import Outcome, Piece, outcome_of

WORKERS = 4
"""Processes at most: two sides of the page with a pool or two each."""
KEPT = 256
"""Outcomes kept, so that going back to a setting plays nothing."""
ENDED = -1
Run = tuple[tuple[Any, ...], int]
"""Key of a side, and the replication."""


@dataclass(frozen=True)
class Side:
    """One side of the page.  key: what tells its setting and length from all others."""

    key: tuple[Any, ...]
    variant: str
    scenario: Scenario


class Player:
    """``warm``: a scenario that is over soon, played in every process before the first question.

    Used as a context; ``ready`` waits for the processes.
    """

    def __init__(self, warm: Scenario, workers: int | None = None):
        self._warm = warm.apart()
        self._count = workers or min(os.cpu_count() or 1, WORKERS)
        self._context = multiprocessing.get_context("spawn")
        self._newest = self._context.Value("q", 0, lock=False)
        self._asking, self._playing = threading.Lock(), threading.Lock()
        self._kept: OrderedDict[Run, Outcome] = OrderedDict()
        self._meeting = self._context.Barrier(self._count)
        self._pool = self._processes()

    def __enter__(self) -> "Player":
        return self

    def __exit__(self, *_: Any) -> None:
        self._newest.value = ENDED
        self._meeting.abort()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def ready(self) -> None:
        """Compile the kernel where need be, and start the processes."""
        if not is_compiled():  # once here, instead of once in each of them
            warm(self._warm)
        for meeting in [self._submit(meet) for _ in range(self._count)]:
            meeting.result()

    def knows(self, side: Side) -> bool:
        """Whether the first replication of a side is kept, so that it costs nothing."""
        return (side.key, 0) in self._kept

    def outcomes(self, sides: Sequence[Side], replications: int) -> list[list[Outcome]]:
        """The outcomes of each side, by replication.

        Ends every question that is still being answered.  Raises Superseded when the same happens
        to this one, and what ``simulate`` raises.
        """
        with self._asking:
            if self._newest.value == ENDED:
                raise Superseded
            self._newest.value += 1
            ticket = self._newest.value
        with self._playing:
            runs = {(side.key, r): side for side in sides for r in range(replications)}
            self._play(ticket, {run: side for run, side in runs.items() if run not in self._kept})
            found = [[self._kept[side.key, r] for r in range(replications)] for side in sides]
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return found

    def _play(self, ticket: int, runs: dict[Run, Side]) -> None:
        """Play runs and keep their outcomes."""
        waiting: dict[Run, list[Future[Piece]]] = {}
        try:
            for (key, r), side in runs.items():
                waiting[key, r] = [
                    self._submit(play, ticket, part, side.variant, r)
                    for part in side.scenario.apart()
                ]
            for run, pieces in waiting.items():
                found = [piece.result() for piece in pieces]
                self._kept[run] = outcome_of(found, runs[run].scenario)
        except BrokenProcessPool:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = self._processes()
            raise
        except BaseException:
            for future in (f for pieces in waiting.values() for f in pieces):
                future.cancel()
            raise
        if self._newest.value != ticket:
            raise Superseded

    def _submit(self, *call: Any) -> Future[Any]:
        with _deaf():
            return self._pool.submit(*call)

    def _processes(self) -> ProcessPoolExecutor:
        start = (self._newest, self._meeting, self._warm)
        return ProcessPoolExecutor(self._count, self._context, initializer=begin, initargs=start)


@contextmanager
def _deaf() -> Iterator[None]:
    """Processes started inside never hear Ctrl-C, which is their parent's to handle."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
