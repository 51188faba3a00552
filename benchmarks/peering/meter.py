"""What a run takes: CPU seconds of all threads, and the most memory its process ever held."""

import re
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median


def measure(play: Callable[[], object], runs: int) -> dict[str, float | None]:
    """CPU seconds of the best and the median of ``runs`` after a warm-up; peak resident MB.

    The peak is that of the process up to the end of the warm-up, interpreter and imports included:
    call this in a process of its own.
    """
    play()
    peak = peak_mb()
    seconds = []
    for _ in range(runs):
        start = time.process_time()
        play()
        seconds.append(time.process_time() - start)
    return {"cpu_s": min(seconds), "cpu_median_s": median(seconds), "peak_mb": peak}


def peak_mb() -> float | None:
    """Resident MB that this program reached; None where there is no /proc.

    Not getrusage: its figure begins with that of the process that started this one.
    """
    status = Path("/proc/self/status")
    if not status.exists():
        return None
    found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text())
    return int(found[1]) / 1024.0 if found else None
