"""What a scenario may say: one class per mapping of the file, and the rules between them.

All quantities are plain numbers once read: seconds, events per second, bytes, money per hour.
``contradictions`` lists what is wrong between fields that are each fine; it reads a scenario
that may be whole or have ``HOLE`` where a field could not be read.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path as FilePath
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
    field_serializer,
    field_validator,
    model_serializer,
    model_validator,
)
from pydantic_core.core_schema import ValidationInfo

from . import presets
from .errors import Path, bare, branches, choices, is_model, shown, unknown, wrong
from .units import (
    LAW_SCHEMA,
    LONGEST,
    WRITTEN,
    Count,
    Distribution,
    Duration,
    Factor,
    Fraction,
    Money,
    Natural,
    OverOne,
    Positive,
    PositiveDuration,
    PositiveRate,
    Rate,
    Seed,
    Size,
    above_zero,
    columns,
    constant,
    duration,
    find_file,
    law,
    number,
    real,
    whole,
)

HOUR = 3600.0
WINDOW = 10.0
"""Default window of a dispersion (s)."""

AudioLaw = Annotated[Distribution, law(above_zero(duration)), WRITTEN, LAW_SCHEMA]
TimeLaw = Annotated[Distribution, law(duration), WRITTEN, LAW_SCHEMA]
PatienceLaw = Annotated[Distribution, law(above_zero(duration)), WRITTEN, LAW_SCHEMA]
CountLaw = Annotated[Distribution, law(number, least=1, whole_numbers=True), WRITTEN, LAW_SCHEMA]


class Part(BaseModel):
    """A mapping of the file: unknown keys refused, nothing converted behind the user's back."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


# Who calls, and when.

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

    def kinks(self) -> list[float]:
        """Times (s) at which the rate jumps or bends."""
        return []

    def rate_at(self, t: float) -> float:
        """Sessions per second expected at time ``t`` (s)."""
        return 0.0

    def expected(self, horizon: float) -> float:
        """Sessions expected to start before ``horizon`` (s)."""
        cuts = sorted({0.0, horizon, *(t for t in self.kinks() if 0 < t < horizon)})
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

    def kinks(self) -> list[float]:
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

    def kinks(self) -> list[float]:
        first = (1 - self.start_hour % 1) * HOUR
        hours = [first + i * HOUR for i in range(int(LONGEST / HOUR) + 1)]
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
    size: Count = Field(description="Callers.")
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
    callers: Count = Field(description="Callers, who speak for ever.")
    stagger: Duration = Field(
        default=0.0,
        description="Time over which they enter, evenly spaced (s); default 0: together.",
    )

    def expected(self, horizon: float) -> float:
        return float(self.callers)


TRACE_COLUMNS = ("tokens", "prompt_tokens", "audio_s")


class Trace(Arrivals):
    """Sessions at the times of a CSV file."""

    kind: Literal["trace"] = Field(default="trace", description="Recorded arrivals.")
    file: str = Field(
        description="CSV with a column t_s (s, in order) and, if wanted, tokens or audio_s, and "
        "prompt_tokens; beside the scenario, or in the working directory or the repository."
    )
    speed: Positive = Field(
        default=1.0, description="How many times faster than recorded it is replayed; default 1."
    )
    _path: FilePath | None = PrivateAttr(None)

    @field_validator("file")
    @classmethod
    def _readable(cls, value: str, info: ValidationInfo) -> str:
        found = columns(_find(value, info), ("t_s",), TRACE_COLUMNS)
        times = found["t_s"]
        for i, (a, b) in enumerate(itertools.pairwise(times)):
            if b < a:
                raise wrong(f"line {i + 3} goes back in time: t_s {b:g} after {a:g}; sort the file")
        return value

    @model_validator(mode="after")
    def _remember(self, info: ValidationInfo) -> Trace:
        self._path = _find(self.file, info).resolve()
        return self

    @property
    def columns(self) -> dict[str, Any]:
        """The columns of the file by name, arrays of float; times as recorded."""
        return columns(self._path, ("t_s",), TRACE_COLUMNS) if self._path else {}

    def expected(self, horizon: float) -> float:
        times = self.columns.get("t_s", ())
        return float(sum(1 for t in times if t / self.speed < horizon))


def _find(name: str, info: ValidationInfo) -> FilePath:
    return find_file(name, (info.context or {}).get("base", FilePath()))


AnyArrivals = Annotated[
    Poisson | ConstantRate | Surge | Diurnal | Gamma | Burst | Closed | Trace,
    Field(discriminator="kind"),
]


class Utterance(Part):
    """What one request says, by the length of its audio or by its decode steps."""

    audio: AudioLaw | None = Field(
        default=None, description="Audio of one utterance (s); give this or `tokens`; default none."
    )
    tokens: CountLaw | None = Field(
        default=None,
        description="Decode steps of one utterance; give this or `audio`; default none.",
    )
    prompt_tokens: CountLaw = Field(
        default=constant(32), description="Prompt tokens of one utterance; default 32."
    )


class Retry(Part):
    """How a refused caller tries again."""

    attempts: Natural = Field(default=0, description="Further attempts after the first; default 0.")
    backoff: Duration = Field(
        default=1.0, description="Wait before the first of them (s); default 1s."
    )
    factor: Factor = Field(default=2.0, description="What each wait is multiplied by; default 2.")
    jitter: Literal["none", "full"] = Field(
        default="none",
        description="full: each wait is uniform between 0 and its value; default none.",
    )


class Refused(Part):
    """What a refused caller does."""

    retry: Retry = Field(default=Retry(), description="Trying again; default never.")
    then: Literal["leave", "standby_voice"] = Field(
        default="leave", description="In the end: leave, or hear the standby voice; default leave."
    )


class Workload(Part):
    """Who calls, what they say, how long they wait."""

    kind: Literal["tts"] = Field(default="tts", description="Text to speech, the only kind so far.")
    arrivals: AnyArrivals = Field(description="When sessions start.")
    utterance: Utterance = Field(
        default=Utterance(),
        description="What one utterance is; no default unless the trace gives tokens or audio_s.",
    )
    utterances_per_session: CountLaw = Field(
        default=constant(1), description="Utterances of one session; default 1."
    )
    think: TimeLaw = Field(
        default=constant(0),
        description="Pause between the end of one utterance and the next request (s); default 0.",
    )
    patience: PatienceLaw | None = Field(
        default=None,
        description="How long a caller waits for first audio before hanging up (s); "
        "default none: for ever.",
    )
    refused: Refused | None = Field(
        default=None, description="What a refused caller does; default none: leaves at once."
    )

    @model_serializer(mode="wrap")
    def _only_used(self, handler: Any) -> dict[str, Any]:
        """What is never read is not written either, so that the result can be read back."""
        data = handler(self)
        if isinstance(self.arrivals, Closed):
            data.pop("utterances_per_session", None)
        if isinstance(self.arrivals, Trace) and "prompt_tokens" in self.arrivals.columns:
            data["utterance"].pop("prompt_tokens", None)
        return data


# The machines and the engine on them.


def _preset(value: Any) -> Any:
    if value is not None and value not in list(presets.GPUS):
        raise wrong(unknown(value, presets.GPUS, f"unknown GPU preset {shown(value)}"))
    return value


class Gpu(Part):
    """A kind of card and how many of it there are."""

    preset: Annotated[
        str | None,
        BeforeValidator(_preset),
        WithJsonSchema({"enum": [*presets.GPUS, None]}),
    ] = Field(default=None, description="Card whose published figures are used; default none.")
    count: Count = Field(default=1, description="Cards; default 1.")
    price: Money | None = Field(
        default=None, description="Money per card and hour; default the preset's, else unknown."
    )
    memory: Size | None = Field(
        default=None, description="Device memory (bytes); default the preset's, else unknown."
    )

    @property
    def memory_bytes(self) -> int | None:
        """Device memory, given or the preset's."""
        if self.memory is not None or self.preset is None:
            return self.memory
        return presets.GPUS[self.preset].memory_bytes

    @property
    def price_per_hour(self) -> float | None:
        """Money per card and hour, given or the preset's."""
        if self.price is not None or self.preset is None:
            return self.price
        return presets.GPUS[self.preset].price


def _capture(value: Any) -> Any:
    names = ("vllm", "none", "profile")
    if isinstance(value, list) and value:
        sizes = [whole(1)(each) for each in value]
        if sizes != sorted(set(sizes)):
            raise wrong("sizes must rise")
        return sizes
    if value not in names:
        raise wrong(f"expected {', '.join(names)} or a list of sizes; found {shown(value)}")
    return value


class Engine(Part):
    """One continuous-batching engine."""

    kind: Literal["vllm_v1"] = Field(
        default="vllm_v1", description="Scheduler rules: those of vLLM V1."
    )
    profile: str = Field(
        description="Step cost file; beside the scenario, or in the working directory or the "
        "repository."
    )
    max_num_seqs: Count = Field(
        default=256, description="Streams in the batch at most; default 256."
    )
    max_num_batched_tokens: Count = Field(
        default=2048, description="Tokens in one step at most, at least max_num_seqs; default 2048."
    )
    block_size: Count = Field(default=16, description="Tokens in a KV block; default 16.")
    kv_blocks: Count | None = Field(
        default=None,
        description="KV blocks, given directly; default none: what `memory` leaves room for.",
    )
    memory: Fraction | None = Field(
        default_factory=lambda given: 0.9 if given.get("kv_blocks") is None else None,
        description="Share of the card's memory the engine takes, 0 to 1; default 0.9, "
        "or none when kv_blocks is given.",
    )
    reserve_full_prompt: bool = Field(
        default=True,
        description="Start a stream only when its whole prompt fits in KV; default true.",
    )
    scheduling: Literal["synchronous", "overlapped", "profile"] = Field(
        default="profile",
        description="Whether host work hides behind the GPU; default as the profile.",
    )
    capture_sizes: Annotated[
        Literal["vllm", "none", "profile"] | list[int],
        BeforeValidator(_capture),
        WithJsonSchema(
            {
                "anyOf": [
                    {"enum": ["vllm", "none", "profile"]},
                    {"type": "array", "items": {"type": "integer", "minimum": 1}},
                ]
            }
        ),
    ] = Field(
        default="profile",
        description="CUDA graph batch sizes: vllm's list, none, a list, or as the profile "
        "(default).",
    )
    noise: bool = Field(
        default=True, description="Step times vary as the profile says; default true."
    )
    max_tokens: Count = Field(
        default=4096, description="Decode steps of one stream at most; default 4096."
    )
    _path: FilePath | None = PrivateAttr(None)

    @field_validator("profile")
    @classmethod
    def _exists(cls, value: str, info: ValidationInfo) -> str:
        _find(value, info)
        return value

    @model_validator(mode="after")
    def _remember(self, info: ValidationInfo) -> Engine:
        self._path = _find(self.profile, info).resolve()
        return self

    @property
    def profile_path(self) -> FilePath:
        """Where the profile was found."""
        return self._path or FilePath(self.profile)


class Chunk(Part):
    """How many frames each piece of audio holds, in frames (decode steps)."""

    first: Count = Field(description="Frames of the first chunk.")
    ramp: list[Count] = Field(
        default_factory=list, description="Frames of the chunks after it, in order; default none."
    )
    steady: Count = Field(description="Frames of every later chunk.")


class CodecBatch(Part):
    """How chunks are gathered into one codec call."""

    cap: Count = Field(default=1, description="Chunks in one call at most; default 1.")
    window: Duration = Field(
        default=0.0, description="How long a call waits for more chunks (s); default 0."
    )


class Fifo(Part):
    """First come, first served."""

    kind: Literal["fifo"] = Field(default="fifo", description="First come, first served.")


class Window(Part):
    """Only so many streams in the codec at a time."""

    kind: Literal["window"] = Field(default="window", description="A bounded number of streams.")
    streams: Count = Field(description="Streams served at a time; the others wait.")


class Edf(Part):
    """The listener whose buffer runs out first is served first."""

    kind: Literal["edf"] = Field(default="edf", description="Earliest end of buffered audio first.")


AnyQueue = Annotated[Fifo | Window | Edf, Field(discriminator="kind")]


class CodecCost(Part):
    """Seconds of one codec call."""

    floor: Duration = Field(description="Seconds of any call.")
    per_row: Duration = Field(default=0.0, description="Seconds more per chunk in it; default 0.")
    per_frame: Duration = Field(default=0.0, description="Seconds more per frame in it; default 0.")


class Codec(Part):
    """The stage that turns decoded frames into audio."""

    chunk: Chunk = Field(description="Frames of each chunk of audio.")
    left_context: Natural = Field(
        default=0, description="Earlier frames computed again with each chunk; default 0."
    )
    batch: CodecBatch = Field(
        default=CodecBatch(), description="Batching; default one chunk at a time."
    )
    workers: Count = Field(
        default=1, description="Codec calls running at once per replica; default 1."
    )
    queue: AnyQueue = Field(default=Fifo(), description="Who is served next; default fifo.")
    on: Literal["same_gpu", "other_gpu"] = Field(
        default="same_gpu", description="Whether it shares the engine's card; default same_gpu."
    )
    cost: CodecCost | None = Field(
        default=None, description="Cost of a call, instead of the profile's; default none."
    )


class Pool(Part):
    """Equal replicas of one engine, each on its own card."""

    replicas: Count = Field(default=1, description="Engines; each takes one card; default 1.")
    on: str = Field(description="Name of the GPU kind, one of cluster.gpus.")
    engine: Engine = Field(description="The engine of each replica.")
    codec: Codec | None = Field(
        default=None,
        description="The codec stage; default none: audio leaves as soon as it is decoded.",
    )
    chunk: Chunk | None = Field(
        default_factory=lambda given: (
            Chunk(first=1, steady=1) if given.get("codec") is None else None
        ),
        description="Frames of each chunk when there is no codec; default one frame each.",
    )

    @property
    def chunks(self) -> Chunk:
        """The chunk sizes in force, the codec's or the pool's own."""
        found = self.codec.chunk if self.codec else self.chunk
        assert found is not None
        return found

    @property
    def cards(self) -> int:
        """Cards the pool occupies."""
        other = self.codec is not None and self.codec.on == "other_gpu"
        return self.replicas * (2 if other else 1)


class Cluster(Part):
    """The cards and what runs on them."""

    gpus: dict[str, Gpu] = Field(description="Kinds of card, by a name of your own.")
    pools: dict[str, Pool] = Field(description="Engines, by a name of your own; exactly one.")

    @property
    def pool(self) -> Pool:
        """The one pool."""
        return next(iter(self.pools.values()))

    @property
    def gpu(self) -> Gpu:
        """The cards of the one pool."""
        return self.gpus[self.pool.on]


# Who listens.


class Network(Part):
    """The way from the server to the listener."""

    delay: Duration = Field(default=0.0, description="One-way delay (s); default 0.")
    jitter: Duration = Field(
        default=0.0, description="Mean of the extra delay, a gamma law of shape 2 (s); default 0."
    )


class Player(Part):
    """The listener's playback buffer."""

    prebuffer: Duration = Field(
        default=0.0, description="Audio held before playing starts (s); default 0."
    )
    rebuffer: Duration = Field(
        default=0.0, description="Audio held before playing goes on after a stall (s); default 0."
    )
    max_wait: Duration | None = Field(
        default=None,
        description="Start anyway this long after the first chunk (s); default none: never.",
    )
    max_queue: PositiveDuration | None = Field(
        default=None,
        description="Audio held at most, beyond it is lost (s); default none: no bound.",
    )


class Listener(Part):
    """The network and the player at the caller's end."""

    network: Network = Field(default=Network(), description="Network; default perfect.")
    player: Player = Field(default=Player(), description="Player; default no buffering.")
    audible: Duration = Field(
        default=0.1, description="The shortest stall a listener notices (s); default 100ms."
    )


# What we choose.


def _policy_name(value: Any) -> Any:
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", value):
        raise wrong(f"expected package.module:ClassName; found {shown(value)}")
    return value


class Custom(Part):
    """A Python class of the user's own."""

    kind: Literal["custom"] = Field(
        default="custom", description="A class of your own; may be left out."
    )
    policy: Annotated[str, BeforeValidator(_policy_name), WithJsonSchema({"type": "string"})] = (
        Field(description="The class, as package.module:ClassName.")
    )
    options: dict[str, Any] = Field(
        default_factory=dict, description="Keyword arguments it is made with; default none."
    )


class AdmitAll(Part):
    """Nobody is refused."""

    kind: Literal["admit_all"] = Field(default="admit_all", description="Nobody is refused.")


class Cap(Part):
    """At most so many streams on an engine; the next caller is refused."""

    kind: Literal["cap"] = Field(default="cap", description="A bound on live streams.")
    streams: Count = Field(description="Live streams per replica at most.")


class CapQueue(Part):
    """At most so many streams on an engine; the next caller waits, for a time."""

    kind: Literal["cap_queue"] = Field(
        default="cap_queue", description="A bound, with a queue behind it."
    )
    streams: Count = Field(description="Live streams per replica at most.")
    deadline: PositiveDuration = Field(description="Wait after which a caller is refused (s).")
    max_waiting: Natural | None = Field(
        default=None, description="Callers waiting at most; default none: no bound."
    )


class Slack(Part):
    """Admit only while every live stream keeps its lead over its listener."""

    kind: Literal["slack"] = Field(default="slack", description="Keep every live stream ahead.")
    lead: Duration = Field(
        default=0.25, description="Audio ahead of the listener (s); default 250ms."
    )


class RoundRobin(Part):
    """Each replica in turn."""

    kind: Literal["round_robin"] = Field(default="round_robin", description="Each replica in turn.")


class LeastStreams(Part):
    """The replica with the fewest live streams."""

    kind: Literal["least_streams"] = Field(
        default="least_streams", description="Fewest live streams."
    )


class PowerOfTwo(Part):
    """The better of two replicas drawn at random."""

    kind: Literal["power_of_two"] = Field(
        default="power_of_two", description="Better of two at random."
    )


def _or_custom(value: Any) -> Any:
    """``{policy: ...}`` needs no kind."""
    if isinstance(value, dict) and "policy" in value and "kind" not in value:
        return {"kind": "custom", **value}
    return value


AnyAdmission = Annotated[
    AdmitAll | Cap | CapQueue | Slack | Custom,
    Field(discriminator="kind"),
    BeforeValidator(_or_custom),
]
AnyRouting = Annotated[
    RoundRobin | LeastStreams | PowerOfTwo | Custom,
    Field(discriminator="kind"),
    BeforeValidator(_or_custom),
]


class Policies(Part):
    """What the operator decides."""

    admission: AnyAdmission = Field(
        default=AdmitAll(), description="Who may come in; default admit_all."
    )
    routing: AnyRouting = Field(
        default=LeastStreams(), description="To which replica; default least_streams."
    )


# What is asked of it.


class Slo(Part):
    """When a call counts as clean."""

    start_within: PositiveDuration = Field(
        default=1.0, description="First audio at the latest (s); default 1s."
    )
    no_stall_over: Duration = Field(
        default=0.1, description="The longest stall forgiven (s); default 100ms."
    )


def _threshold(value: Any, info: ValidationInfo) -> float:
    metric = info.data.get("metric")
    ratio = re.fullmatch(r"(.+)x_chunk", value) if isinstance(value, str) else None
    if metric == "chunk_gap_p99" and not ratio:
        raise wrong(
            "expected a multiple of the chunk's audio such as 1.0x_chunk; found " + shown(value)
        )
    if metric == "waiting" and ratio:
        raise wrong(f"x_chunk is for chunk_gap_p99 only; found {shown(value)}")
    return real(0)(ratio[1] if ratio else value)


class Alarm(Part):
    """A signal that goes off when a metric stays above a threshold."""

    metric: Literal["chunk_gap_p99", "waiting"] = Field(
        description="99 % point of the gaps between chunks, or number of waiting callers."
    )
    over: PositiveDuration = Field(description="Window the metric is taken over (s).")
    above: Annotated[
        float, BeforeValidator(_threshold), WithJsonSchema({"type": ["number", "string"]})
    ] = Field(
        description="Threshold: for chunk_gap_p99 a multiple of the chunk's audio (1.0x_chunk), "
        "for waiting a number of callers."
    )

    @field_serializer("above")
    def _written(self, above: float) -> Any:
        return f"{above}x_chunk" if self.metric == "chunk_gap_p99" else above


class Series(Part):
    """Time series of the run."""

    resolution: PositiveDuration = Field(
        default=1.0, description="Spacing of the points (s); default 1s."
    )


class Scenario(Part):
    """One run: who calls, what serves them, what is asked."""

    title: str = Field(default="", description="Heading of the report; default none.")
    horizon: PositiveDuration = Field(description="Time for which sessions arrive (s).")
    warmup: Duration = Field(
        default=0.0,
        description="Time at the start that is not counted (s), under horizon; default 0.",
    )
    drain: Duration = Field(
        default=600.0,
        description="Longest time the run goes on after the horizon until empty (s); "
        "default 10min.",
    )
    seed: Seed = Field(default=0, description="Seed of all randomness; default 0.")
    replications: Count = Field(default=1, description="Independent runs; default 1.")
    workload: Workload = Field(description="Who calls, what they say, how long they wait.")
    cluster: Cluster = Field(description="The cards and what runs on them.")
    listener: Listener = Field(
        default=Listener(), description="The caller's end; default perfect, no buffering."
    )
    policies: Policies = Field(
        default=Policies(), description="Admission and routing; default admit_all, "
        "least_streams.",
    )  # fmt: skip
    slo: Slo = Field(default=Slo(), description="When a call is clean; default 1s and 100ms.")
    alarms: list[Alarm] = Field(default_factory=list, description="Signals to watch; default none.")
    series: Series = Field(default=Series(), description="Time series; default one point a second.")

    def resolved(self) -> dict[str, Any]:
        """Everything with its defaults, as plain data that reads back to the same scenario."""
        return self.model_dump(mode="python")


# What is wrong between fields.


class Hole:
    """Stands where a field could not be read: every question to it is answered with no."""

    def __getattr__(self, name: str) -> Hole:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *_: Any) -> Hole:
        return self

    def __bool__(self) -> bool:
        return False

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def _no(self, other: Any) -> bool:
        return False

    def _hole(self, other: Any) -> Hole:
        return self

    __lt__ = __le__ = __gt__ = __ge__ = _no
    __eq__ = __ne__ = _no
    __hash__ = None  # type: ignore[assignment]
    __add__ = __radd__ = __mul__ = __rmul__ = _hole


HOLE = Hole()


def partial(kind: Any, data: Any, context: dict[str, Any]) -> Any:
    """Read as much of ``data`` as can be read, with ``HOLE`` for the rest."""
    try:
        return TypeAdapter(kind).validate_python(data, context=context)
    except ValidationError:
        pass
    if not isinstance(data, dict):
        return HOLE
    kind = bare(kind)
    if get_origin(kind) is dict:
        return {name: partial(get_args(kind)[1], each, context) for name, each in data.items()}
    named = data.get("kind")
    model: Any = branches(kind).get(named, kind) if isinstance(named, str) else kind
    if not is_model(model):
        return HOLE
    values: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        if name in data:
            tag = Field(discriminator=field.discriminator)
            whole_type = Annotated[field.annotation, tag, *field.metadata]  # type: ignore
            values[name] = partial(whole_type, data[name], context)
        elif field.is_required():
            values[name] = HOLE
        else:
            values[name] = field.get_default(call_default_factory=True, validated_data=values)
    return model.model_construct(set(data) & set(values), **values)


def contradictions(s: Any) -> Iterator[tuple[Path, str]]:
    """(path, sentence) for everything wrong between the fields of one scenario."""
    if s.warmup >= s.horizon:
        yield ("warmup",), f"must be less than horizon ({s.horizon:g}s); found {s.warmup:g}s"
    yield from _workload(s.workload, s.horizon)
    yield from _cluster(s.cluster)
    player = s.listener.player
    need = max((x for x in (player.prebuffer, player.rebuffer) if x is not HOLE), default=0.0)
    if player.max_queue is not None and player.max_queue < need:
        text = f"must hold at least prebuffer and rebuffer ({need:g}s), or nothing ever plays"
        yield ("listener", "player", "max_queue"), text
    admission = s.policies.admission
    if isinstance(admission, Cap | CapQueue):
        for pool in _named(s.cluster.pools).values():
            if admission.streams > pool.engine.max_num_seqs:
                yield (
                    ("policies", "admission", "streams"),
                    f"{admission.streams} is more than the engine's max_num_seqs "
                    f"({pool.engine.max_num_seqs}), so the cap never bites",
                )


def _named(found: Any) -> dict[str, Any]:
    return found if isinstance(found, dict) else {}


def _given(part: Any, name: str) -> bool:
    return isinstance(part, BaseModel) and name in part.model_fields_set


def _workload(w: Any, horizon: Any) -> Iterator[tuple[Path, str]]:
    at: Path = ("workload",)
    arrivals, said = w.arrivals, w.utterance
    traced = arrivals.columns if isinstance(arrivals, Trace) else {}
    lengths = [name for name in ("tokens", "audio_s") if name in traced]
    lawful = ("audio", "tokens") if said is not HOLE else ()
    both = [name for name in lawful if getattr(said, name) is not None]
    unread = bool(lengths) or arrivals is HOLE or (isinstance(arrivals, Trace) and not traced)
    if len(lengths) == 2:
        yield (*at, "arrivals", "file"), "has both tokens and audio_s; keep one of them"
    if lengths and both:
        for name in both:
            yield (*at, "utterance", name), f"never used: the trace gives {lengths[0]}"
    elif not unread and len(both) != 1 and said is not HOLE:
        found = "both" if both else "neither"
        yield (*at, "utterance"), f"give exactly one of audio and tokens; found {found}"
    if "prompt_tokens" in traced and _given(said, "prompt_tokens"):
        yield (*at, "utterance", "prompt_tokens"), "never used: the trace gives prompt_tokens"
    if isinstance(arrivals, Closed):
        if _given(w, "utterances_per_session"):
            text = "never used: the callers of a closed loop speak for ever"
            yield (*at, "utterances_per_session"), text
    elif w.utterances_per_session == constant(1) and w.think not in (HOLE, constant(0)):
        text = "never used: utterances_per_session is 1, so nobody speaks twice"
        yield (*at, "think"), text
    if isinstance(arrivals, Surge) and arrivals.peak < arrivals.base:
        text = f"is less than base ({arrivals.base:g}/s); found {arrivals.peak:g}/s"
        yield (*at, "arrivals", "peak"), text
    if isinstance(arrivals, Burst) and arrivals.at >= horizon:
        yield (*at, "arrivals", "at"), f"comes after the horizon ({horizon:g}s): nobody would call"
    poisson = isinstance(arrivals, Surge | Diurnal) and arrivals.dispersion == 1
    if poisson and arrivals.dispersion_window not in (HOLE, WINDOW):
        yield (*at, "arrivals", "dispersion_window"), "never used: dispersion is 1"


def _cluster(c: Any) -> Iterator[tuple[Path, str]]:
    at: Path = ("cluster",)
    gpus, pools = _named(c.gpus), _named(c.pools)
    for group, names in (("gpus", gpus), ("pools", pools)):
        for name in names:
            if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
                text = "a name is made of letters, digits, - and _"
                yield (*at, group, name), text
    if isinstance(c.gpus, dict) and not gpus:
        yield (*at, "gpus"), "needs at least one kind of card"
    if isinstance(c.pools, dict) and len(pools) != 1:
        yield (*at, "pools"), f"exactly one pool for now; found {len(pools)}"
    for name, pool in pools.items():
        if pool is not HOLE:
            yield from _pool((*at, "pools", name), pool, gpus)


def _pool(at: Path, pool: Any, gpus: dict[str, Any]) -> Iterator[tuple[Path, str]]:
    engine, codec = pool.engine, pool.codec
    if isinstance(pool.on, str) and gpus:
        if pool.on not in gpus:
            yield (*at, "on"), unknown(pool.on, gpus, f"unknown GPU {shown(pool.on)}")
        else:
            yield from _card(at, pool, gpus[pool.on])
    if codec is not None and _given(pool, "chunk") and pool.chunk is not None:
        yield (*at, "chunk"), "never used: codec.chunk is given; keep one of them"
    share = _given(engine, "memory") and engine.memory is not None
    if share and engine.kv_blocks not in (HOLE, None):
        yield (*at, "engine", "memory"), "never used: kv_blocks is given; keep one of them"
    if engine.max_num_batched_tokens < engine.max_num_seqs:
        yield (
            (*at, "engine", "max_num_batched_tokens"),
            f"{engine.max_num_batched_tokens} is less than max_num_seqs ({engine.max_num_seqs})",
        )
    if codec is not None and codec.batch.cap == 1 and codec.batch.window > 0:
        yield (*at, "codec", "batch", "window"), "never used: batch.cap is 1"


def _card(at: Path, pool: Any, gpu: Any) -> Iterator[tuple[Path, str]]:
    other = pool.codec is not None and pool.codec.on == "other_gpu"
    cards = pool.replicas * (2 if other else 1)
    if cards > gpu.count:
        extra = " with a second card each for the codec" if other else ""
        text = f"{pool.replicas} replicas{extra} need {cards} cards; there are {gpu.count}"
        yield (*at, "replicas"), text
    known = gpu.preset is not HOLE and gpu.memory is not HOLE and isinstance(gpu, Gpu)
    if pool.engine.kv_blocks is None and known and gpu.memory_bytes is None:
        text = f"the memory of {pool.on!r} is not known; "
        yield (*at, "engine"), f"{text}give cluster.gpus.{pool.on}.memory or engine.kv_blocks"


REFUSING = (Cap, CapQueue, Slack, Custom)


def unused_refusal(scenarios: Sequence[Any]) -> bool:
    """Whether ``refused`` is described although no variant ever refuses anybody."""
    described = any(isinstance(s.workload.refused, Refused) for s in scenarios)
    sure = all(isinstance(s.policies.admission, AdmitAll) for s in scenarios)
    return described and sure
