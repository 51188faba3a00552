"""How far a long command is, on stderr: the one way in which every command shows it.

What plays runs calls a ``Show`` for each run that is finished and knows nothing of terminals.
"""

import time
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, TextColumn
from rich.progress import Progress as Bar
from rich.text import Text

LINES = 40  # of one task at most, where there is no terminal
SURE = 2  # runs that must be played before a time left is told


class Show(Protocol):
    """Told of each finished run, and of a task that begins."""

    def __call__(
        self, what: str, done: int, wanted: int, kept: int = 0, events: int = 0, runs: int = 0
    ) -> None:
        """what: the task, or the run just finished.  done: of the ``wanted`` runs of the task.
        kept: how many of those done were found in the folder.  events: that the run simulated.
        runs: finished in all, where the task is a part (0: ``done``)."""


def silent(
    what: str, done: int, wanted: int, kept: int = 0, events: int = 0, runs: int = 0
) -> None:
    """A ``Show`` that shows nothing."""


class Progress:
    """A bar on a terminal; elsewhere a line now and then; nothing if quiet.

    With it: simulated events a second and the time left, both over the runs played here.
    """

    def __init__(self, quiet: bool = False, console: Console | None = None):
        self.runs = 0
        self._quiet = quiet
        self._console = console or Console(stderr=True)
        self._live = self._console.is_terminal and not quiet
        self._bar = Bar(
            TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(),
            TextColumn("runs"), _Tail(self), console=self._console, transient=True,
            disable=not self._live,
        )  # fmt: skip
        self._task = self._bar.add_task("starting", total=None)
        self._began = self._wrote = time.monotonic()
        self._events = 0
        self._of = (0, 0, self._began)  # of the task: wanted, done before it began here, and when
        self._done = self._lines = 0

    def __enter__(self) -> "Progress":
        self._bar.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._bar.stop()

    def show(
        self, what: str, done: int, wanted: int, kept: int = 0, events: int = 0, runs: int = 0
    ) -> None:
        """See ``Show``."""
        now = time.monotonic()
        if wanted != self._of[0] or done < self._done:
            begun = kept if done > kept else done
            self._of, self._lines = (wanted, begun, now if done == begun else self._wrote), -1
        elif done <= kept:
            self._of = (wanted, done, now)
        if done <= kept and not self._events:
            self._began = now
        self._events += events
        self._done, self.runs, self._wrote = done, runs or done, now
        found = f", {kept} found in the folder" if kept else ""
        self._bar.update(self._task, description=what + found, completed=done, total=wanted)
        line = done * LINES // max(wanted, LINES)
        if not self._live and not self._quiet and (line > self._lines or done == wanted):
            self.say(f"[{done}/{wanted}] {what}{found}{self.tail()}")
            self._lines = line

    def say(self, line: str) -> None:
        """A line that stays."""
        if not self._quiet:
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def now(self, text: str, over: bool = False) -> None:
        """What goes on in a task whose runs nobody counted; over: it ended, worth a line of a log
        where there is no terminal."""
        self._bar.update(self._task, description=text)
        if over and not self._live:
            self.say(text)

    def tail(self) -> str:
        """, 1.3 M events/s, 2 min left"""
        now = time.monotonic()
        rate = self._events / max(now - self._began, 1e-9)
        found = f", {_count(rate)} events/s" if self._events else ""
        wanted, before, began = self._of
        left = left_s(self._wrote - began, self._done - before, wanted - self._done)
        if left is not None and self._done < wanted:
            found += f", {clock(max(left - (now - self._wrote), 0.0))} left"
        return found


class _Tail(ProgressColumn):
    """Rate and time left, counting down between two runs."""

    def __init__(self, of: Progress):
        super().__init__()
        self._of = of

    def render(self, task: Any) -> Text:
        return Text(self._of.tail().removeprefix(", "))


def left_s(passed: float, played: int, waiting: int) -> float | None:
    """Seconds until ``waiting`` runs are played, at the mean pace of those played in ``passed`` s;
    None while too few were."""
    return None if played < SURE else passed / played * waiting


def clock(seconds: float) -> str:
    """45 s, 3 min, 2 h 05 min"""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def _count(rate: float) -> str:
    for size, unit in ((1e6, " M"), (1e3, " k")):
        if rate >= size:
            return f"{rate / size:.3g}{unit}"
    return f"{rate:.3g}"
