"""Alert rules: a metric over a window, a threshold, and how long it must hold.

``SIGNALS`` says of each metric how a monitoring system gets it: its series, and the unit of its
threshold.  Names of vLLM: vllm/v1/metrics/loggers.py; of vLLM-Omni: its metric definitions
(audio_ttfp_s).  What neither exports has the prefix ``voicesim:``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    WithJsonSchema,
    create_model,
    field_serializer,
    model_validator,
)
from pydantic_core.core_schema import ValidationInfo

from .errors import Path, shown, wrong
from .part import Part
from .units import Duration, duration, rate, real

GAUGE, RATE, QUANTILE = "gauge", "rate", "quantile"


def _chunks(value: Any) -> float:
    ratio = re.fullmatch(r"(.+)x_chunk", value) if isinstance(value, str) else None
    if not ratio:
        raise wrong(
            "expected a multiple of the chunk's audio such as 1.0x_chunk; found " + shown(value)
        )
    return real(0)(ratio[1])


@dataclass(frozen=True)
class Signal:
    """kind: a gauge of every engine, the rate of a counter, or a quantile of a histogram.

    family: the metric's name in Prometheus (without _total or _bucket).  read: the threshold.
    """

    kind: str
    family: str
    title: str
    read: Callable[[Any], float]
    quantile: float = 0.0


SIGNALS: dict[str, Signal] = {
    "chunk_gap_p99": Signal(
        QUANTILE, "voicesim:chunk_gap_ratio", "p99 chunk gap", _chunks, 0.99
    ),
    "waiting": Signal(GAUGE, "vllm:num_requests_waiting", "waiting gauge", real(0)),
    "running": Signal(GAUGE, "vllm:num_requests_running", "running streams", real(0)),
    "kv_cache": Signal(GAUGE, "vllm:kv_cache_usage_perc", "KV cache usage", real(0, 1)),
    "preemptions": Signal(RATE, "vllm:num_preemptions", "preemption rate", rate),
    "ttfp_p95": Signal(QUANTILE, "vllm_omni:audio_ttfp_s", "TTFP p95", duration, 0.95),
    "ttfp_p99": Signal(QUANTILE, "vllm_omni:audio_ttfp_s", "TTFP p99", duration, 0.99),
    "ttfa_p95": Signal(QUANTILE, "voicesim:ttfa_seconds", "TTFA p95", duration, 0.95),
    "ttfa_p99": Signal(QUANTILE, "voicesim:ttfa_seconds", "TTFA p99", duration, 0.99),
}  # fmt: skip


def _threshold(value: Any, info: ValidationInfo) -> float | None:
    metric = info.data.get("metric")
    if value is None or metric is None:
        return None
    if metric != "chunk_gap_p99" and isinstance(value, str) and value.endswith("x_chunk"):
        raise wrong(f"x_chunk is for chunk_gap_p99 only; found {shown(value)}")
    return SIGNALS[metric].read(value)


def _name(value: Any) -> str | None:
    if value is not None and not (
        isinstance(value, str) and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,63}", value)
    ):
        raise wrong(f"expected letters, digits and _, a letter first; found {shown(value)}")
    return value


Threshold = Annotated[
    float | None, BeforeValidator(_threshold), WithJsonSchema({"type": ["number", "string"]})
]


class _Alarm(Part):
    """A signal that goes off when a metric stays beyond a threshold."""

    metric: Literal[
        "chunk_gap_p99", "waiting", "running", "kv_cache", "preemptions",
        "ttfp_p95", "ttfp_p99", "ttfa_p95", "ttfa_p99",
    ] = Field(
        description="99 % point of the gaps between chunks, num_requests_waiting, running streams "
        "and KV cache usage of the worst engine, preemptions a second, time to the first packet "
        "(from admission, at the server) or to the first sound (from the request, at the listener)."
    )  # fmt: skip
    over: Duration = Field(
        default=0.0,
        description="Window the metric is taken over (s); a gauge must be beyond at every sample "
        "of it.  Default 0: the latest sample, for gauges only.",
    )
    above: Threshold = Field(
        default=None,
        description="Threshold, no default: for chunk_gap_p99 a multiple of the chunk's audio "
        "(1.0x_chunk), for waiting and running a number of streams, for kv_cache a share, for "
        "preemptions a rate, for ttfp and ttfa a duration.",
    )
    below: Threshold = Field(
        default=None,
        description="Instead of above: goes off when the metric is under it; no default.",
    )
    name: Annotated[str | None, BeforeValidator(_name), WithJsonSchema({"type": "string"})] = Field(
        default=None, description="Name of the alert; default made of metric and numbers."
    )

    @model_validator(mode="after")
    def _whole(self) -> _Alarm:
        found: list[tuple[Path, str]] = []
        if (self.above is None) == (self.below is None):
            what = "neither" if self.above is None else "both"
            found.append((("above",), f"give exactly one of above and below; found {what}"))
        if self.signal.kind != GAUGE and self.over == 0:
            found.append((("over",), f"missing; {self.metric} is taken over a window such as 10s"))
        if found:
            raise wrong(*found)
        return self

    @field_serializer("above", "below")
    def _written(self, threshold: float | None) -> Any:
        ratio = self.metric == "chunk_gap_p99" and threshold is not None
        return f"{threshold}x_chunk" if ratio else threshold

    @property
    def signal(self) -> Signal:
        """How the metric is got."""
        return SIGNALS[self.metric]

    @property
    def hold(self) -> float:
        """``for``: how long the condition must hold (s)."""
        return float(getattr(self, "for"))

    @property
    def threshold(self) -> float:
        """The one of above and below that is given."""
        return float(self.above if self.above is not None else self.below)  # type: ignore[arg-type]

    @property
    def label(self) -> str:
        """The name, or one made of metric and numbers: waiting_over_10s_above_5."""
        if self.name:
            return self.name
        over = f"_over_{self.over:g}s" if self.over else ""
        side = "below" if self.above is None else "above"
        hold = f"_for_{self.hold:g}s" if self.hold else ""
        return f"{self.metric}{over}_{side}_{self.threshold:g}{hold}"


if TYPE_CHECKING:
    Alarm = _Alarm
else:  # ``for`` is the field's name in Prometheus, and a word of Python
    Alarm = create_model(
        "Alarm",
        __base__=_Alarm,
        __doc__=_Alarm.__doc__,
        __module__=__name__,
        **{
            "for": (
                Duration,
                Field(default=0.0, description="How long it must hold (s); default 0."),
            )
        },
    )


class Rules(Part):
    """A file of rules for ``voicesim alarms --rules``."""

    alarms: list[Alarm] = Field(min_length=1, description="Signals to watch.")


def narrow(alarm: Alarm, spacing: float) -> str:
    """What is wrong with the rule's window where samples are ``spacing`` s apart; '' if nothing."""
    need = spacing if alarm.signal.kind == GAUGE else 2 * spacing
    if alarm.over == 0 or alarm.over >= need:
        return ""
    why = "one sample" if alarm.signal.kind == GAUGE else "the two samples that rate() needs"
    return f"{alarm.over:g}s does not hold {why} every {spacing:g}s; {need:g}s at least"


def clashes(alarms: Iterable[Any]) -> Iterator[tuple[int, str]]:
    """(position, name) of rules whose name an earlier one has."""
    seen: set[str] = set()
    for i, alarm in enumerate(alarms):
        if isinstance(alarm, _Alarm):
            if alarm.label in seen:
                yield i, alarm.label
            seen.add(alarm.label)
