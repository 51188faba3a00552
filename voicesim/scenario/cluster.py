"""The machines and what runs on them: cards, engines, codec stages."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    PrivateAttr,
    Tag,
    WithJsonSchema,
    field_validator,
    model_serializer,
    model_validator,
)
from pydantic_core.core_schema import ValidationInfo

from voicesim.catalogue import GPUS, WITH_MEMORY

from .asr import AsrPool
from .errors import shown, tag_of, unknown, wrong
from .part import Part, named_file
from .regions import Region
from .share import Share as CardShare
from .units import (
    Brief,
    Count,
    Duration,
    Fraction,
    Money,
    Natural,
    Positive,
    PositiveDuration,
    Share,
    Size,
    UpTo1Mi,
    UpTo10K,
    UpTo64Ki,
    UpTo100K,
    whole,
)


def _preset(value: Any) -> Any:
    if value is not None and value not in list(GPUS):
        raise wrong(unknown(value, GPUS, f"unknown GPU preset {shown(value)}"))
    return value


class Gpu(Part):
    """A kind of card and how many of it there are."""

    preset: Annotated[
        str | None,
        BeforeValidator(_preset),
        WithJsonSchema({"enum": [*GPUS, None]}),
    ] = Field(default=None, description="Card whose published figures are used; default none.")
    count: UpTo10K = Field(default=1, description="Cards; default 1.")
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
        return GPUS[self.preset].memory_bytes

    @property
    def price_per_hour(self) -> float | None:
        """Money per card and hour, given or the preset's."""
        if self.price is not None or self.preset is None:
            return self.price
        return GPUS[self.preset].price


def _model(value: Any) -> Any:
    if value is not None and value not in WITH_MEMORY:
        raise wrong(unknown(value, WITH_MEMORY, f"unknown model preset {shown(value)}"))
    return value


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


class Offload(Part):
    """Weights (experts of a mixture) kept in the host's memory."""

    share: Fraction = Field(description="Share of the weights kept there, 0 to 1.")
    touched: Share = Field(
        default=1.0, description="Share of them that a step reads, 0 to 1; default 1: all."
    )
    bytes_per_s: Size = Field(description="How fast they come to the card (bytes per second).")


class Quality(Part):
    """What the change costs the listener, as measured by the user; for the report only."""

    mos: float | None = Field(default=None, description="Change of MOS; default none: unknown.")
    wer: float | None = Field(
        default=None, description="Change of word error rate, as a share; default none: unknown."
    )


class Transform(Part):
    """Quantization and offload: what they change of the profile, as factors on its numbers."""

    weights: Positive = Field(default=1.0, description="Bytes of the weights, times; default 1.")
    kv: Positive = Field(default=1.0, description="Bytes of the KV cache, times; default 1.")
    compute: Positive = Field(
        default=1.0, description="Time of arithmetic per token, times; default 1."
    )
    offload: Offload | None = Field(
        default=None, description="Weights in host memory; default none."
    )
    quality: Quality | None = Field(
        default=None, description="What it costs in quality; default none: unknown."
    )


BLOCKS = {"sglang": 1, "trtllm_no_evict": 32, "trtllm_max_utilization": 32}
"""Tokens in a KV block where it is not vLLM's 16."""

KNOBS_OF = {
    "reserve_full_prompt": ("vllm_v1", "decode_first"),
    "mixed_chunk": ("sglang",),
    "conservativeness": ("sglang",),
    "max_queued": ("sglang",),
    "interleave": ("decode_first",),
    "pacing": ("vllm_v1",),
}
"""Knobs that only some kinds of engine have."""

KEEPS_OWN = ("vllm_v1", "trtllm_max_utilization", "decode_first")
"""Kinds whose preempted streams may find blocks of their own again."""


class Pacing(Part):
    """A stream that is ahead of its listener pauses: it takes no token until it is needed again;
    its KV cache stays, its slot is free for others."""

    lead: Duration = Field(
        default=1.0,
        description="How far ahead: audio in the listener's hands that is not played yet (s); "
        "default 1s.",
    )
    reserve_slots: Natural = Field(
        default=0,
        description="Slots of max_num_seqs that streams which go on leave to those that start; "
        "default 0.",
    )


class Engine(Part):
    """One continuous-batching engine."""

    kind: Literal[
        "vllm_v1", "sglang", "trtllm_no_evict", "trtllm_max_utilization", "decode_first"
    ] = Field(
        default="vllm_v1",
        description="Scheduler rules: vLLM V1's, SGLang's, TensorRT-LLM's GUARANTEED_NO_EVICT or "
        "MAX_UTILIZATION, or vLLM-Omni's decode first; default vllm_v1.",
    )
    profile: str = Field(
        description="Step cost file; beside the scenario, or in the working directory or the "
        "repository."
    )
    model: Annotated[
        str | None, BeforeValidator(_model), WithJsonSchema({"enum": [*WITH_MEMORY, None]})
    ] = Field(
        default=None,
        description="Model whose published memory is used where the profile states none; "
        "default none.",
    )
    max_num_seqs: UpTo64Ki = Field(
        default=256, description="Streams in the batch at most; default 256."
    )
    max_num_batched_tokens: UpTo1Mi = Field(
        default=2048,
        description="Tokens in one step at most (SGLang: chunked_prefill_size, prompt tokens), at "
        "least max_num_seqs where steps mix prompts and decodes; default 2048.",
    )
    block_size: UpTo10K = Field(
        default_factory=lambda given: BLOCKS.get(str(given.get("kind")), 16),
        description="Tokens in a KV block; default 16, sglang 1, TensorRT-LLM 32.",
    )
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
    prefix_caching: bool = Field(
        default=True,
        description="KV blocks of workload.utterance.shared_prefix are kept and shared, and a "
        "preempted stream finds what is left of its own (not in SGLang); default true.",
    )
    mixed_chunk: bool = Field(
        default=False,
        description="SGLang: decodes go on beside prompt chunks (enable_mixed_chunk); default "
        "false.",
    )
    conservativeness: Positive = Field(
        default=1.0,
        description="SGLang: how much of the declared future is reserved "
        "(schedule_conservativeness); default 1.",
    )
    max_queued: Count | None = Field(
        default=None,
        description="SGLang: requests that wait in the engine at most, beyond them it refuses "
        "(max_queued_requests); default none: no bound.",
    )
    interleave: Count | None = Field(
        default=None,
        description="decode_first: decode steps after which waiting prompts get a step; default "
        "none: only when nobody decodes.",
    )
    pacing: Pacing | None = Field(
        default=None,
        description="vllm_v1: streams ahead of their listeners pause; default none: every stream "
        "decodes to its end.",
    )
    idle_timeout: PositiveDuration | None = Field(
        default=None,
        description="How long the KV cache of a session that its caller left open is kept (s); "
        "default none: for ever.",
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
    transform: Transform | None = Field(
        default=None, description="Quantization, offload; default none: the profile as it is."
    )
    noise: bool = Field(
        default=True, description="Step times vary as the profile says; default true."
    )
    max_tokens: UpTo1Mi = Field(
        default=4096,
        description="Decode steps of one stream at most, and what each request declares; default "
        "4096.",
    )
    _path: Path | None = PrivateAttr(None)

    @field_validator("profile")
    @classmethod
    def _exists(cls, value: str, info: ValidationInfo) -> str:
        named_file(value, info)
        return value

    @model_validator(mode="after")
    def _remember(self, info: ValidationInfo) -> Engine:
        self._path = named_file(self.profile, info).resolve()
        return self

    @model_serializer(mode="wrap")
    def _only_used(self, handler: Any) -> dict[str, Any]:
        """What the kind does not have is not written either."""
        data = handler(self)
        for name, kinds in KNOBS_OF.items():
            if self.kind not in kinds:
                data.pop(name, None)
        for name in ("idle_timeout", "pacing"):
            if getattr(self, name) is None:
                data.pop(name, None)
        return data

    @property
    def profile_path(self) -> Path:
        """Where the profile was found."""
        return self._path or Path(self.profile)


class Chunk(Part):
    """How many frames each piece of audio holds, in frames (decode steps)."""

    first: UpTo100K = Field(description="Frames of the first chunk.")
    ramp: list[UpTo100K] = Field(
        default_factory=list, description="Frames of the chunks after it, in order; default none."
    )
    steady: UpTo100K = Field(description="Frames of every later chunk.")
    shared_state: bool = Field(
        default=False,
        description="The place in the ramp is the replica's and never reset, as in CosyVoice2's "
        "server, instead of each stream's; default false.",
    )
    pad: Natural = Field(
        default=0,
        description="With shared_state: frames more in the first chunk of each stream (CosyVoice2 "
        "fills the prompt up to whole hops); default 0.",
    )

    @model_serializer(mode="wrap")
    def _only_used(self, handler: Any) -> dict[str, Any]:
        """What is never read is not written either."""
        data = handler(self)
        if not self.shared_state:
            data.pop("pad", None)
        return data


class CodecBatch(Part):
    """How chunks are gathered into one codec call."""

    cap: UpTo64Ki = Field(default=1, description="Chunks in one call at most; default 1.")
    window: Brief = Field(
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
    reserve: Duration | None = Field(
        default=None,
        description="Four classes: chunks due within so long (s; the time of a codec call), then "
        "first chunks, then those due within `lead`, then the others in order of arrival; default "
        "none: one class.",
    )
    lead: Duration = Field(
        default=1.0, description="With reserve: how early a chunk is pressing (s); default 1s."
    )

    @model_serializer(mode="wrap")
    def _only_used(self, handler: Any) -> dict[str, Any]:
        """What is never read is not written either."""
        return handler(self) if self.reserve is not None else {"kind": self.kind}


class Pressing(Part):
    """A call starts only for a listener who needs it soon, and takes others along."""

    kind: Literal["pressing"] = Field(
        default="pressing", description="Listeners who need it soon, and others beside them."
    )
    lead: Duration = Field(
        default=1.0,
        description="How long before the chunk sent last begins to play the next is pressing (s); "
        "default 1s.",
    )


class StartupFirst(Part):
    """First chunks before all others."""

    kind: Literal["startup_first"] = Field(
        default="startup_first", description="First chunks of streams before all others."
    )


AnyQueue = Annotated[Fifo | Window | Edf | Pressing | StartupFirst, Field(discriminator="kind")]


class CodecCost(Part):
    """Seconds of one codec call."""

    floor: Brief = Field(description="Seconds of any call.")
    per_row: Brief = Field(default=0.0, description="Seconds more per chunk in it; default 0.")
    per_frame: Brief = Field(default=0.0, description="Seconds more per frame in it; default 0.")


class Codec(Part):
    """The stage that turns decoded frames into audio."""

    chunk: Chunk = Field(description="Frames of each chunk of audio.")
    left_context: Natural = Field(
        default=0, description="Earlier frames computed again with each chunk; default 0."
    )
    batch: CodecBatch = Field(
        default=CodecBatch(), description="Batching; default one chunk at a time."
    )
    workers: UpTo10K = Field(
        default=1, description="Codec calls running at once per replica; default 1."
    )
    queue: AnyQueue = Field(default=Fifo(), description="Who is served next; default fifo.")
    on: Literal["same_gpu", "other_gpu"] = Field(
        default="same_gpu", description="Whether it shares the engine's card; default same_gpu."
    )
    handoff: Duration = Field(
        default=0.0,
        description="With other_gpu: what each chunk takes the codec's worker more, to fetch its "
        "frames from the other card (s); default 0.",
    )
    cost: CodecCost | None = Field(
        default=None, description="Cost of a call, instead of the profile's; default none."
    )

    @model_serializer(mode="wrap")
    def _only_used(self, handler: Any) -> dict[str, Any]:
        """What is never read is not written either."""
        data: dict[str, Any] = handler(self)
        if self.on == "same_gpu":
            data.pop("handoff", None)
        return data


class Pool(Part):
    """Equal replicas of one engine, each on its own card."""

    role: Literal["tts", "llm", "omni"] = Field(
        default="tts",
        description="Speech synthesis, language model, or speech to speech (of a dialogue); "
        "default tts.",
    )
    replicas: UpTo10K = Field(default=1, description="Engines; each takes one card; default 1.")
    share: Fraction | None = Field(
        default=None,
        description="Share of the callers that it serves, 0 to 1, where there are several pools; "
        "default none: the only pool serves all.",
    )
    region: str | None = Field(
        default=None, description="Where its cards stand, one of cluster.regions; default none."
    )
    serves: list[str] | None = Field(
        default=None,
        description="What it serves, of workload.asks and `beside`; default none: everything that "
        "the callers of `workload` ask for.",
    )
    weight: Share = Field(
        default=1.0,
        description="Its part of the callers among pools that are as near, in proportion; default "
        "1.",
    )
    streams: Count | None = Field(
        default=None,
        description="Live streams per replica at most, instead of policies.admission.streams; "
        "default none.",
    )
    token_audio: PositiveDuration | None = Field(
        default=None,
        description="Seconds of speech in a decode step, or that a reader takes over a token (a "
        "chat that is read); default the profile's.",
    )
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

    @model_serializer(mode="wrap")
    def _only_used(self, handler: Any) -> dict[str, Any]:
        """What is never read is not written either, so that the result can be read back."""
        data: dict[str, Any] = handler(self)
        for name in ("region", "serves", "weight", "streams", "token_audio"):
            if name not in self.model_fields_set:
                data.pop(name, None)
        if self.role == "llm":
            data.pop("codec", None)
            data.pop("chunk", None)
        return data

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


AnyPool = Annotated[
    Annotated[Pool, Tag("tts")]
    | Annotated[Pool, Tag("llm")]
    | Annotated[Pool, Tag("omni")]
    | Annotated[AsrPool, Tag("asr")],
    Discriminator(tag_of("role", "tts")),
]


class Cluster(Part):
    """The cards and what runs on them."""

    gpus: dict[str, Gpu] = Field(description="Kinds of card, by a name of your own.")
    pools: dict[str, AnyPool] = Field(
        description="Engines, by a name of your own; several, each with its `share` of the "
        "callers, share nothing; several without are a fleet; of a dialogue, its stages."
    )
    regions: dict[str, Region] = Field(
        default_factory=dict,
        description="Places with callers or cards, by a name of your own; default none.",
    )
    share: list[CardShare] = Field(
        default_factory=list,
        description="Cards that several engines share; default none: each has its own.",
    )

    @model_serializer(mode="wrap")
    def _only_used(self, handler: Any) -> dict[str, Any]:
        """What is never read is not written either."""
        data: dict[str, Any] = handler(self)
        if not self.regions:
            data.pop("regions", None)
        if not self.share:
            data.pop("share", None)
        return data

    @property
    def pool(self) -> Pool:
        """The pool of a cluster that has one; ValueError if there are several."""
        (found,) = self.pools.values()
        assert isinstance(found, Pool)
        return found

    def of(self, role: str) -> dict[str, Pool]:
        """The pools of engines (not recognisers) with a role, by name."""
        pools = self.pools.items()
        return {n: p for n, p in pools if isinstance(p, Pool) and p.role == role}

    @property
    def asr(self) -> AsrPool | None:
        """The speech recognisers; None if there are none."""
        return next((p for p in self.pools.values() if isinstance(p, AsrPool)), None)

    @property
    def gpu(self) -> Gpu:
        """The cards of the only pool."""
        return self.gpus[self.pool.on]

    def share_of(self, name: str) -> CardShare | None:
        """The shared cards that a pool is on; None if its engines have cards of their own."""
        return next((each for each in self.share if name in each.pools), None)

    def cards_of(self, name: str) -> float:
        """Cards that a pool occupies; of shared ones an equal part for each pool on them."""
        share, pool = self.share_of(name), self.pools[name]
        if share is None:
            return pool.cards
        return pool.replicas / share.pools[name].per_card / len(share.pools)

    def cards_needed(self, replicas: dict[str, int]) -> dict[str, int]:
        """Cards of each kind that so many replicas of the pools need (all others as they are)."""
        need = dict.fromkeys(self.gpus, 0)
        count = {name: replicas.get(name, pool.replicas) for name, pool in self.pools.items()}
        for each in self.share:
            need[self.pools[next(iter(each.pools))].on] += each.cards(count)
        for name, pool in self.pools.items():
            if self.share_of(name) is None:
                need[pool.on] += count[name] * (pool.cards // pool.replicas)
        return need

    @property
    def price_per_hour(self) -> float | None:
        """Money for the cards of all pools per hour; None if one of them has no price."""
        prices = [self.gpus[pool.on].price_per_hour for pool in self.pools.values()]
        cards = [self.cards_of(name) for name in self.pools]
        known = [p * n for p, n in zip(prices, cards, strict=True) if p is not None]
        return sum(known) if len(known) == len(prices) else None
