"""When sessions start: one class per kind of arrivals."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    PrivateAttr,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic_core.core_schema import ValidationInfo

from . import presets
from .errors import choices, shown, unknown, wrong
from .part import Part, named_file
from .units import (
    Duration,
    Factor,
    OverOne,
    Positive,
    PositiveDuration,
    PositiveRate,
    Rate,
    UpTo1M,
    columns,
    real,
)

HOUR = 3600.0
WINDOW = 10.0
"""Default window of a dispersion (s)."""

DispersionField = Annotated[
    Factor,
    Field(
        description="Variance over mean of the arrival counts in the window; default 1: Poisson."
    ),
]
WindowField = Annotated[
    PositiveDuration, Field(description="Window in which `dispersion` holds (s); default 10s.")
]


class Arrivals(Part):
    """When sessions start."""

    def kinks(self, horizon: float) -> list[float]:
        """Times (s) at which the rate jumps or bends, all those before ``horizon``."""
        return []

    def rate_at(self, t: float) -> float:
        """Sessions per second expected at time ``t`` (s)."""
        return 0.0

    def expected(self, horizon: float) -> float:
        """Sessions expected to start before ``horizon`` (s)."""
        cuts = sorted({0.0, horizon, *(t for t in self.kinks(horizon) if 0 < t < horizon)})
        pairs = itertools.pairwise(cuts)
        return math.fsum((b - a) * self.rate_at((a + b) / 2) for a, b in pairs)


def _ramp(t: float, at: float, rise: float, hold: float, fall: float) -> float:
    """Height of a surge at time t: 0 outside, 1 on the plateau, straight in between."""
    if t < at or t >= at + rise + hold + fall:
        return 0.0
    if t < at + rise:
        return (t - at) / rise
    if t < at + rise + hold:
        return 1.0
    return (at + rise + hold + fall - t) / fall


class Poisson(Arrivals):
    """Independent callers at a steady rate."""

    kind: Literal["poisson"] = Field(default="poisson", description="Independent callers.")
    rate: PositiveRate = Field(description="Sessions per second.")

    def rate_at(self, t: float) -> float:
        return self.rate


class ConstantRate(Arrivals):
    """One session every 1/rate seconds."""

    kind: Literal["constant"] = Field(default="constant", description="Evenly spaced callers.")
    rate: PositiveRate = Field(description="Sessions per second.")

    def rate_at(self, t: float) -> float:
        return self.rate


class Surge(Arrivals):
    """A base rate with one trapezoid on it: up, plateau, down."""

    kind: Literal["surge"] = Field(default="surge", description="A base rate and one surge.")
    base: Rate = Field(description="Sessions per second outside the surge.")
    peak: PositiveRate = Field(description="Sessions per second on the plateau.")
    at: Duration = Field(description="Time at which the rise begins (s).")
    rise: Duration = Field(description="Length of the rise (s).")
    hold: Duration = Field(description="Length of the plateau (s).")
    fall: Duration = Field(description="Length of the fall (s).")
    dispersion: DispersionField = 1.0
    dispersion_window: WindowField = WINDOW

    def kinks(self, horizon: float) -> list[float]:
        up = self.at + self.rise
        return [self.at, up, up + self.hold, up + self.hold + self.fall]

    def rate_at(self, t: float) -> float:
        height = _ramp(t, self.at, self.rise, self.hold, self.fall)
        return self.base + (self.peak - self.base) * height


class SurgeOnDay(Part):
    """A surge on top of a daily profile."""

    times: Factor = Field(description="Multiplier on the plateau, at least 1.")
    at: Duration = Field(description="Time from the start of the run at which the rise begins (s).")
    rise: Duration = Field(description="Length of the rise (s).")
    hold: Duration = Field(description="Length of the plateau (s).")
    fall: Duration = Field(description="Length of the fall (s).")


def _profile(value: Any) -> list[float]:
    if isinstance(value, str):
        if value not in presets.PROFILES:
            raise wrong(unknown(value, presets.PROFILES, f"unknown profile {shown(value)}"))
        value = list(presets.PROFILES[value])
    if not isinstance(value, list | tuple) or len(value) != 24:
        raise wrong(f"expected 24 hourly multipliers or one of {choices(presets.PROFILES)}")
    hours = [real(0)(each) for each in value]
    mean = math.fsum(hours) / 24
    if mean <= 0:
        raise wrong("at least one hour must be more than 0")
    return [each / mean for each in hours]


Profile = Annotated[
    list[float],
    BeforeValidator(_profile),
    WithJsonSchema(
        {
            "anyOf": [
                {"enum": list(presets.PROFILES)},
                {"type": "array", "items": {"type": "number"}, "minItems": 24, "maxItems": 24},
            ]
        }
    ),
]


class Diurnal(Arrivals):
    """A mean rate shaped by the hour of the day."""

    kind: Literal["diurnal"] = Field(
        default="diurnal", description="A rate that follows the clock."
    )
    rate: PositiveRate = Field(description="Sessions per second, mean over the day.")
    profile: Profile = Field(
        description="24 hourly multipliers (scaled to a mean of 1), or servegen_m_small, measured."
    )
    start_hour: Annotated[
        float, BeforeValidator(real(0, 24)), WithJsonSchema({"type": "number"})
    ] = Field(
        default=0.0, description="Hour of the day at which the run begins, 0 to 24; default 0."
    )
    dispersion: DispersionField = 1.0
    dispersion_window: WindowField = WINDOW
    surge: SurgeOnDay | None = Field(default=None, description="A surge on top; default none.")

    def kinks(self, horizon: float) -> list[float]:
        first = (1 - self.start_hour % 1) * HOUR
        hours = [first + i * HOUR for i in range(int(horizon / HOUR) + 1)]
        if self.surge:
            up = self.surge.at + self.surge.rise
            down = up + self.surge.hold
            hours += [self.surge.at, up, down, down + self.surge.fall]
        return hours

    def rate_at(self, t: float) -> float:
        rate = self.rate * self.profile[int(self.start_hour + t / HOUR) % 24]
        if self.surge:
            s = self.surge
            rate *= 1 + (s.times - 1) * _ramp(t, s.at, s.rise, s.hold, s.fall)
        return rate


class Gamma(Arrivals):
    """A steady mean rate, more bunched than Poisson: the rate of each window is a gamma draw."""

    kind: Literal["gamma"] = Field(default="gamma", description="Over-dispersed callers.")
    rate: PositiveRate = Field(description="Sessions per second, mean.")
    dispersion: OverOne = Field(
        description="Variance over mean of the arrival counts in the window, more than 1."
    )
    dispersion_window: WindowField = WINDOW

    def rate_at(self, t: float) -> float:
        return self.rate


class Burst(Arrivals):
    """A number of callers at once."""

    kind: Literal["burst"] = Field(default="burst", description="Many callers at once.")
    size: UpTo1M = Field(description="Callers.")
    at: Duration = Field(default=0.0, description="Time of the burst (s); default 0.")
    spread: Duration = Field(
        default=0.0,
        description="Time over which the callers come, uniformly (s); default 0: together.",
    )

    def expected(self, horizon: float) -> float:
        left = horizon - self.at
        if left <= 0:
            return 0.0
        return self.size * (min(1.0, left / self.spread) if self.spread else 1.0)


class Closed(Arrivals):
    """A fixed number of callers, each speaking again as soon as it has thought."""

    kind: Literal["closed"] = Field(default="closed", description="A closed loop of callers.")
    callers: UpTo1M = Field(description="Callers, who speak for ever.")
    stagger: Duration = Field(
        default=0.0,
        description="Time over which they enter, evenly spaced (s); default 0: together.",
    )

    def expected(self, horizon: float) -> float:
        return float(self.callers)


TRACE_COLUMNS = ("session", "tokens", "prompt_tokens", "audio_s", "think_s")


class Trace(Arrivals):
    """Sessions at the times of a CSV file, which may say what each of them is."""

    kind: Literal["trace"] = Field(default="trace", description="Recorded arrivals.")
    file: str = Field(
        description="CSV with a column t_s (s, in order) and, if wanted, session, tokens or "
        "audio_s, prompt_tokens, think_s (docs/howto/replay.md); beside the scenario, or in the "
        "working directory or the repository."
    )
    speed: Positive = Field(
        default=1.0,
        description="How many times faster than recorded sessions start; what happens within one "
        "keeps its pace; default 1.",
    )
    scale: Positive = Field(
        default=1.0,
        description="Sessions for each recorded one, copies at jittered times; default 1.",
    )
    jitter: Duration = Field(
        default=60.0,
        description="Width of the uniform law by which a copy is moved, of the replayed time (s); "
        "default 60s.",
    )
    after: Duration = Field(
        default=0.0,
        description="Sessions of the trace that start before this are left out, and it becomes "
        "time 0 (s, as recorded); default 0.",
    )
    until: PositiveDuration | None = Field(
        default=None,
        description="Sessions of the trace that start then or later are left out (s, as "
        "recorded); default none.",
    )
    _path: Path | None = PrivateAttr(None)

    @field_validator("file")
    @classmethod
    def _readable(cls, value: str, info: ValidationInfo) -> str:
        found = columns(named_file(value, info), ("t_s",), TRACE_COLUMNS)
        times, sessions = found["t_s"], found.get("session")
        ended: set[float] = set()
        start = 0.0
        for i, t in enumerate(times):
            same = sessions is not None and i > 0 and sessions[i] == sessions[i - 1]
            earlier = times[i - 1] if same else start
            if t < earlier:
                text = f"line {i + 2} goes back in time: t_s {t:g} after {earlier:g}; sort the file"
                raise wrong(text)
            if sessions is not None and not same:
                if sessions[i] in ended:
                    raise wrong(
                        f"line {i + 2}: session {sessions[i]:g} again; keep its rows together"
                    )
                ended.add(sessions[i])
            start = start if same else t
        return value

    @model_validator(mode="after")
    def _remember(self, info: ValidationInfo) -> Trace:
        self._path = named_file(self.file, info).resolve()
        if self.until is not None and self.until <= self.after:
            raise wrong((("until",), f"must be more than after ({self.after:g}s)"))
        if self.scale == 1 and "jitter" in self.model_fields_set:
            raise wrong((("jitter",), "never used: scale is 1, so there are no copies"))
        return self

    @property
    def columns(self) -> dict[str, Any]:
        """The columns of the file by name, arrays of float (NaN: unknown); times as recorded."""
        return columns(self._path, ("t_s",), TRACE_COLUMNS) if self._path else {}

    @property
    def known(self) -> set[str]:
        """The columns that say it for every row."""
        return {name for name, column in self.columns.items() if not any(map(math.isnan, column))}

    @property
    def by_utterance(self) -> bool:
        """Whether the rows are utterances; else they are sessions, of as many as the law gives."""
        return len(self.columns) > 1

    def starts(self) -> list[float]:
        """When the recorded sessions within the window start, as replayed without copies (s)."""
        found = self.columns
        times = found.get("t_s", ())
        ids = found.get("session", range(len(times)))
        rows = [i for i in range(len(times)) if i == 0 or ids[i] != ids[i - 1]]
        end = math.inf if self.until is None else self.until
        return [(times[i] - self.after) / self.speed for i in rows if self.after <= times[i] < end]

    def expected(self, horizon: float) -> float:
        return self.scale * sum(1 for t in self.starts() if t < horizon)


AnyArrivals = Annotated[
    Poisson | ConstantRate | Surge | Diurnal | Gamma | Burst | Closed | Trace,
    Field(discriminator="kind"),
]
