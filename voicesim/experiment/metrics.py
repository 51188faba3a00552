"""What a metric is called, which way is better, how fine it is worth knowing, how it is shown."""

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from voicesim.metrics.dialogue_run import PARTS
from voicesim.metrics.summary import flat as flat
from voicesim.report import words


class ExperimentError(ValueError):
    """What was asked for cannot be compared; one line."""


@dataclass(frozen=True)
class Metric:
    """better: +1 the more the better, -1 the less, 0 neither.  fine: a half-width that is tight
    enough whatever the mean (its unit is the metric's).  show: a value as text; gap: a difference
    without its sign (of shares: in percentage points)."""

    title: str
    better: int
    fine: float
    show: Callable[..., str]
    points: bool = False

    def gap(self, size: float, of: float) -> str:
        """A difference as text, with the decimals of ``of``."""
        return _points(size, of) if self.points else self.show(size, of)


def _points(size: float, of: float) -> str:
    decimals = 1 if of >= 0.01 else 2
    return f"{100 * size:.{decimals}f} pt"


def _share(title: str, better: int) -> Metric:
    return Metric(title, better, 0.005, words.percent, points=True)


def _count(title: str, better: int) -> Metric:
    return Metric(title, better, 0.5, words.count)


def _seconds(title: str, better: int) -> Metric:
    return Metric(title, better, 0.005, lambda *v: words.milliseconds(*v) + " ms")


def _moment(title: str) -> Metric:
    return Metric(title, 0, 1.0, lambda seconds, of=None: words.duration(seconds))


METRICS: dict[str, Metric] = {
    "clean_share": _share("CLEAN share", 1),
    "stalled_share": _share("calls with an audible stall", -1),
    "c50": _share("streams without a stall over 50 ms", 1),
    "c100": _share("streams without a stall over 100 ms", 1),
    "c200": _share("streams without a stall over 200 ms", 1),
    "offered": _count("calls offered", 0),
    "refused": _count("calls refused", -1),
    "abandoned": _count("calls abandoned", -1),
    "stood_in": _count("calls with text or a filler instead", -1),
    "degraded_share": _share("degraded calls", -1),
    "clean_degraded_share": _share("degraded calls that are CLEAN", 0),
    "quality_cost.mos": Metric("mean opinion score lost", -1, 0.01, words.amount),
    "quality_cost.wer": _share("word error rate added", -1),
    "quality_cost.words": Metric("words left unsaid", -1, 0.1, words.amount),
    "failed": _count("calls failed", -1),
    "available_share": _share("available calls", 1),
    "completed": _count("calls completed", 1),
    "live_at_end": _count("calls live at the end", 0),
    "not_measured": _count("calls without a measurable stall", 0),
    "preemptions": _count("preemptions", -1),
    "ttfa_p50_s": _seconds("TTFA p50", -1),
    "ttfa_p95_s": _seconds("TTFA p95", -1),
    "ttfa_p99_s": _seconds("TTFA p99", -1),
    "stall_seconds_per_1000_audio_minutes": Metric(
        "stall s per 1,000 min of audio", -1, 0.5, words.amount
    ),
    "pace_p99": Metric("p99 pace", 1, 0.01, words.times),
    "waiting_at_first_stall": _count("waiting gauge at the first stall", 0),
    "first_stall_s": _moment("time of the first audible stall"),
    "alarm_lead_s": _moment("lead of the alarm"),
    "gpu_cost": Metric("GPU cost", -1, 0.0, words.amount),
    "cost_per_1000_clean_calls": Metric("GPU cost per 1,000 CLEAN calls", -1, 0.0, words.amount),
    "busy_share.decode": _share("decode busy", 0),
    "busy_share.host": _share("host busy", 0),
    "busy_share.codec": _share("codec busy", 0),
}

DIALOGUES: dict[str, Metric] = {
    "clean_turn_share": _share("CLEAN share of turns", 1),
    "stalled_turn_share": _share("turns with an audible stall", -1),
    "waste.audio_share": _share("speech never heard", -1),
    "waste.audio_s": _moment("speech never heard"),
    "waste.llm_tokens": _count("LLM tokens never heard", -1),
    "talk.cut_offs": _count("pauses taken for the end", -1),
    "talk.stop_p95_s": _seconds("silent after an interruption, p95", -1),
    "talk.overtalk_s": _moment("time in which both speak"),
    "cost.per_call": Metric("cost per call", -1, 0.0, words.money),
    "cost.per_clean_minute": Metric("cost per CLEAN minute", -1, 0.0, words.money),
    "cost.total": Metric("cost", -1, 0.0, words.money),
    "cost.waste": Metric("cost of what nobody heard", -1, 0.0, words.money),
    **{f"ledger.{part}_p95_s": _seconds(f"{part} p95", -1) for part in PARTS if part != "total"},
}
"""What a dialogue has besides."""
METRICS |= DIALOGUES

COSTS = ("refused", "ttfa_p95_s", "gpu_cost")
"""What a variant costs, always shown beside what was asked for."""


def value(metrics: Mapping[str, Any], name: str) -> float | None:
    """A metric of one run by its dotted name; None: not measured."""
    found: Any = metrics
    for key in name.split("."):
        found = None if found is None else found.get(key)
    return found


def chosen(name: str, allowed: Sequence[str], what: str) -> str:
    """The name if it is allowed, else an ExperimentError with the nearest that is."""
    if name in allowed:
        return name
    close = difflib.get_close_matches(name, allowed, n=1, cutoff=0.5)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise ExperimentError(f"{what} {name!r} is not known{hint} (allowed: {', '.join(allowed)})")


def bottleneck(runs: Sequence[Mapping[str, Any]]) -> tuple[str, float] | None:
    """The stage of the largest mean busy share, of dialogues the one nearest its knee, and how
    much that is; None: nothing was measured."""
    of_calls = [f"stages.{name}.knee" for name in (runs[0].get("stages") or {})] if runs else []
    means = {}
    for path in of_calls or [f"busy_share.{name}" for name in ("decode", "host", "codec")]:
        known = [x for m in runs if (x := value(m, path)) is not None]
        if known:
            means[path.split(".")[1]] = sum(known) / len(known)
    best = max(means, key=lambda name: means[name], default=None)
    return None if best is None else (best, means[best])
