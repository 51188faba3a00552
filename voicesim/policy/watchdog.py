"""A policy of the user's that does not come back is stopped: a thread watches the decisions.

One thread per process, started with the first policy in Python.  It looks once a second at which
decision each run is at; a decision that is the same for LIMIT looks is ended by an exception raised
inside it (between two of Python's instructions, so not inside a C function that never returns).
Looks are counted, not the clock: a machine that was paused owes nothing.  Nothing of a run depends
on it, unless it ends the run.
"""

import ctypes
import os
import threading
import time
import weakref

LIMIT = int(os.environ.get("VOICESIM_POLICY_LIMIT", "30"))
"""Seconds that one decision may take; VOICESIM_POLICY_LIMIT overrides it, 0 watches nothing."""


class TookTooLong(BaseException):
    """Raised inside a decision that does not come back; no ``except Exception`` stops it."""


class Decision:
    """What a run is deciding: ``begin`` and ``end`` around each decision."""

    def __init__(self) -> None:
        self.number = 0
        self.thread: int | None = None
        self._seen, self._looks = -1, 0
        if LIMIT > 0:
            _watch(self)

    def begin(self) -> None:
        self.number += 1
        self.thread = threading.get_ident()

    def end(self) -> None:
        self.thread = None

    def look(self) -> None:
        """One more second; the watching thread calls it."""
        if self.thread is None or self.number != self._seen:
            self._seen, self._looks = self.number, 0
            return
        self._looks += 1
        if self._looks >= LIMIT and (thread := self.thread) is not None:
            self._looks = 0
            target, what = ctypes.c_ulong(thread), ctypes.py_object(TookTooLong)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(target, what)


_watched: "weakref.WeakSet[Decision]" = weakref.WeakSet()
_lock = threading.Lock()
_thread: tuple[int, threading.Thread] | None = None


def _watch(decision: Decision) -> None:
    global _thread
    with _lock:
        _watched.add(decision)
        if _thread is None or _thread[0] != os.getpid():  # a forked child has no thread of ours
            thread = threading.Thread(target=_look, name="policy watchdog", daemon=True)
            _thread = os.getpid(), thread
            thread.start()


def _look() -> None:
    while True:
        time.sleep(1.0)
        with _lock:
            watched = list(_watched)
        for decision in watched:
            decision.look()
        del watched
