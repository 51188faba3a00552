"""Worker processes of this machine that leave Ctrl-C to their parent.

A terminal sends Ctrl-C to every process of the command.  A worker that took it would die with a
traceback of its own, and its parent, which sees dead workers, would start others and go on.
"""

import os
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from joblib import Parallel
from joblib.externals.loky.backend import resource_tracker


def started(pool: Parallel, calls: Iterable[Any]) -> Iterator[Any]:
    """The results of a pool that gives a generator; calls: joblib's ``delayed``.

    Its workers, which are started here, are born deaf to SIGINT: they inherit the mask of the
    thread that starts them.  That is lifted where a worker starts a helper process of its own,
    and one that is started later has none: so each job makes its worker ignore it, too.
    """
    here = os.getpid()
    with _masked():
        return iter(pool((_deaf, (here, call, *given), more) for call, given, more in calls))


def _deaf(parent: int, call: Callable[..., Any], *given: Any, **more: Any) -> Any:
    if os.getpid() != parent:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    return call(*given, **more)


@contextmanager
def _masked() -> Iterator[None]:
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    resource_tracker.ensure_running()  # loky lifts the mask when it starts it
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
