"""What ``validate`` shows of a kind of file: its metrics, their names, how they are written."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from voicesim.experiment import reenact, validate
from voicesim.report import words

Shown = dict[str, tuple[str, Callable[[float], str]]]
Brief = tuple[tuple[str, str, float, int], ...]


def _ms(seconds: float) -> str:
    """52.5 ms"""
    return f"{1000 * seconds:.1f} ms"


SHOWN: Shown = {
    "gap_p50_s": ("token gap p50 (ITL)", _ms),
    "gap_p90_s": ("token gap p90 (ITL)", _ms),
    "gap_p99_s": ("token gap p99 (ITL)", _ms),
    "pace_p50": ("pace p50", words.times),
    "pace_p99": ("pace, slowest 1 %", words.times),
    "ttft_p50_s": ("TTFT p50", _ms),
    "ttft_p95_s": ("TTFT p95", _ms),
    "stalled_share": ("streams that stall", words.percent),
    "stall_total_s": ("stalls, all streams", lambda v: f"{v:.2f} s"),
    "tokens_per_s": ("tokens per second", lambda v: f"{v:.1f}"),
}
BRIEF: Brief = (
    ("gap p50, ms", "gap_p50_s", 1000.0, 1),
    ("gap p99, ms", "gap_p99_s", 1000.0, 0),
    ("tokens per s", "tokens_per_s", 1.0, 0),
)
"""Columns where a file has many settings: title, metric, scale, decimals."""
REPLIES: Shown = {
    "ttfa_p50_s": ("TTFA p50", _ms),
    "ttfa_p95_s": ("TTFA p95", _ms),
    "ttft_p50_s": ("TTFT p50", _ms),
    "ttft_p95_s": ("TTFT p95", _ms),
    "gap_p50_s": ("gap between chunks p50", _ms),
    "gap_p99_s": ("gap between chunks p99", _ms),
    "pace_p50": ("pace p50", words.times),
    "pace_p99": ("pace, slowest 1 %", words.times),
    "rtf": ("RTF, mean of the replies", lambda v: f"{v:.3f}"),
    "latency_p50_s": ("latency p50", lambda v: f"{v:.2f} s"),
    "latency_p95_s": ("latency p95", lambda v: f"{v:.2f} s"),
    "stalled_share": ("streams that stall", words.percent),
    "stall_total_s": ("stalls, all streams", lambda v: f"{v:.2f} s"),
}
BRIEF_REPLIES: Brief = (
    ("TTFA p50, ms", "ttfa_p50_s", 1000.0, 0),
    ("gap p99, ms", "gap_p99_s", 1000.0, 0),
    ("RTF", "rtf", 1.0, 3),
)


@dataclass(frozen=True)
class Sheet:
    """What is shown of a kind of file: all metrics of a setting, and those of a row.

    unsent: what is said where send times are not known.  notes: what the replay assumes.  whole:
    so many settings get a table of every metric each; more, a row each.
    """

    shown: Shown
    brief: Brief
    unsent: str
    notes: Sequence[str] = ()
    whole: int = 4


TOKENS = Sheet(
    SHOWN,
    BRIEF,
    "send times are not known (--sessions): first token minus the predicted first step; "
    "TTFT is not compared",
)


def of_replies(notes: Sequence[str]) -> Sheet:
    """The sheet of chunks and requests, replayed under these assumptions."""
    unsent = (
        "send times are not known: moved until first chunks come when they came; TTFA, latency "
        "and RTF are not compared"
    )
    return Sheet(REPLIES, BRIEF_REPLIES, unsent, notes, whole=12)


assert list(SHOWN) == list(validate.METRICS) and list(REPLIES) == list(reenact.METRICS)
