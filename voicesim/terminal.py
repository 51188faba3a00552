"""What every command shares: its console, and a stop that keeps what is finished."""

import signal
import sys
from typing import Any

from rich.console import Console

_stopped = False


def console(quiet: bool = False) -> Console:
    """Standard output; 120 columns wide where it is not a terminal."""
    return Console(quiet=quiet, width=None if sys.stdout.isatty() else 120)


def heed_signals() -> None:
    """SIGTERM ends a command as Ctrl-C does, and neither is lost."""
    global _stopped
    _stopped = False
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, _stop)


def stop_if_told() -> None:
    """Raise the KeyboardInterrupt that was told before, in case it was lost.

    Python drops one that is raised where nothing can be: in a finaliser, in a callback of the
    garbage collector.  What plays many runs asks between two of them.
    """
    if _stopped:
        raise KeyboardInterrupt


def _stop(*_: Any) -> None:
    global _stopped
    _stopped = True
    raise KeyboardInterrupt
