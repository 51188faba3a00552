"""What every command shares: its console, and a stop that keeps what is finished."""

import signal
import sys
from typing import Any

from rich.console import Console


def console(quiet: bool = False) -> Console:
    """Standard output; 120 columns wide where it is not a terminal."""
    return Console(quiet=quiet, width=None if sys.stdout.isatty() else 120)


def stop_on_sigterm() -> None:
    """SIGTERM ends a command as Ctrl-C does."""
    signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(*_: Any) -> None:
    raise KeyboardInterrupt
