"""What joins the stages of a dialogue: end of turn, units of speech, interruptions, client, caches.

Defaults are those of LiveKit Agents (https://github.com/livekit/agents, voice/turn.py) where it
has them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, Discriminator, Field, Tag, WithJsonSchema, model_serializer

from .errors import shown, tag_of, wrong
from .part import Part
from .units import (
    Brief,
    Count,
    Duration,
    Natural,
    Positive,
    PositiveBrief,
    PositiveDuration,
    Share,
    duration,
    real,
)


class FixedEndpointing(Part):
    """The turn is over after so much silence."""

    kind: Literal["fixed"] = Field(
        default="fixed", description="After so much silence; may be left out."
    )
    silence: PositiveBrief = Field(
        default=0.5,
        description="Silence that ends a turn (s); a longer pause within is taken for the end; "
        "default 500ms (LiveKit min_delay).",
    )


class DynamicEndpointing(Part):
    """The silence waited for follows the caller's own pauses, as LiveKit's DynamicEndpointing."""

    kind: Literal["dynamic"] = Field(default="dynamic", description="After the caller's pauses.")
    min: PositiveBrief = Field(
        default=0.3, description="Silence waited for at least, and at first (s); default 300ms."
    )
    max: PositiveBrief = Field(
        default=2.5, description="Silence waited for at most (s); default 2.5s."
    )
    weight: Share = Field(
        default=0.9,
        description="Weight of what was learned in the moving average of pauses; default 0.9.",
    )


def _rates(value: Any) -> list[tuple[float, float]]:
    if not isinstance(value, list | tuple):
        return [(0.0, real(0, 1)(value))]
    found = []
    for pair in value:
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise wrong(f"expected a share or a list of [wait, share]; found {shown(pair)}")
        found.append((duration(pair[0]), real(0, 1)(pair[1])))
    if not found or [w for w, _ in found] != sorted({w for w, _ in found}):
        raise wrong("expected [wait, share] pairs with rising waits")
    return found


Rates = Annotated[
    list[tuple[float, float]],
    BeforeValidator(_rates),
    WithJsonSchema({"anyOf": [{"type": "number"}, {"type": "array"}]}),
]


class SemanticEndpointing(Part):
    """A model reads or hears whether the caller has finished: then a short wait, else a long one.

    The default of ``false_cut_offs`` is LiveKit's Turn Detector v1 on eot-bench: it cuts 9.9 % of
    the pauses at 300 ms and 4.5 % at 600 ms, of which silence alone would cut those that last
    longer, 55.6 % and 21.7 % (https://github.com/livekit/eot-bench).
    """

    kind: Literal["semantic"] = Field(default="semantic", description="By a model of turns.")
    min: PositiveBrief = Field(
        default=0.3, description="Silence waited for where the turn seems over (s); default 300ms."
    )
    max: PositiveBrief = Field(
        default=2.5, description="Silence waited for where it does not (s); default 2.5s."
    )
    false_cut_offs: Rates = Field(
        default=[(0.3, 0.18), (0.6, 0.21)],
        description="Share of pauses longer than `min` that are taken for the end: one number, "
        "or [wait, share] pairs read at `min`; default 18 % at 300ms, 21 % at 600ms (LiveKit v1).",
    )
    late: Share = Field(
        default=0.1,
        description="Share of ends that are not recognised and wait for `max`; default 0.1, "
        "assumed.",
    )

    @property
    def false_rate(self) -> float:
        """The share of pauses taken for the end at this ``min``; flat beyond the pairs."""
        waits, shares = np.array(self.false_cut_offs).T
        return float(np.interp(self.min, waits, shares))


AnyEndpointing = Annotated[
    Annotated[FixedEndpointing, Tag("fixed")]
    | Annotated[DynamicEndpointing, Tag("dynamic")]
    | Annotated[SemanticEndpointing, Tag("semantic")],
    Discriminator(tag_of("kind", "fixed")),
]


class Segmenter(Part):
    """How the reply's text is cut into units for the TTS engine."""

    unit: Literal["phrase", "sentence", "two_sentences", "reply"] = Field(
        default="sentence", description="What one unit is; default sentence."
    )
    phrase: PositiveDuration = Field(
        default=1.2,
        description="Speech of a phrase (s): a sentence is cut evenly into pieces of about that; "
        "default 1.2s (4 words), assumed.",
    )
    first: PositiveDuration | None = Field(
        default=None,
        description="Speech of the first unit at most, cut wherever that is (s); default none.",
    )
    later: PositiveDuration | None = Field(
        default=None,
        description="Speech of a later unit at least, units are joined until there (s); "
        "default none.",
    )
    min_chars: Natural = Field(
        default=20,
        description="Characters of a unit at least, 4 to a token; default 20 (LiveKit).",
    )
    lookahead: Natural = Field(
        default=1, description="Tokens beyond a unit's end that show it has ended; default 1."
    )

    @model_serializer(mode="wrap")
    def _only_used(self, handler: Any) -> dict[str, Any]:
        """What is never read is not written either, so that the result can be read back."""
        unread = {"reply": ("phrase", "first", "later", "min_chars", "lookahead"), "phrase": ()}
        return _without(handler(self), unread.get(self.unit, ("phrase",)))


class Filler(Part):
    """A sound that fills the silence before a late answer."""

    after: PositiveBrief = Field(
        description="Silence after the end of turn was decided until it plays (s)."
    )
    audio: PositiveDuration = Field(description="Its length (s).")
    on_answer: Literal["wait", "cut"] = Field(
        default="wait",
        description="An answer that comes meanwhile waits for its end, or cuts it; default wait.",
    )


class BargeInRules(Part):
    """What the agent does when it is interrupted."""

    detect: Brief = Field(
        default=0.5,
        description="Voice that must last before it counts (s); default 500ms (LiveKit).",
    )
    cancel: Literal["none", "queued_only", "next_chunk", "immediate"] = Field(
        default="immediate",
        description="What stops: nothing, what has not started, all at their next chunk, all at "
        "the next step; default immediate.",
    )
    flush: bool = Field(
        default=True, description="The client drops what it has buffered; default true."
    )
    resume: PositiveDuration | None = Field(
        default=2.0,
        description="A false interruption silences the agent for that long (s); default 2s "
        "(LiveKit); none: the answer is lost.",
    )


class Client(Part):
    """The code between the engines and the caller's network."""

    consume: Literal["stream", "wait"] = Field(
        default="stream", description="Play audio as it comes, or once a unit is all there; "
        "default stream.",
    )  # fmt: skip
    stages: Literal["overlapped", "serial"] = Field(
        default="overlapped",
        description="serial: the reply's text is whole before the TTS engine is asked, in one "
        "piece; default overlapped.",
    )
    connection: Literal["reused", "new"] = Field(
        default="reused", description="new: a handshake before each request; default reused."
    )
    round_trips: Count = Field(
        default=2,
        description="Round trips of a handshake; default 2 (TCP, then TLS 1.3, RFC 8446).",
    )
    round_trip: PositiveBrief = Field(
        default=0.001, description="One round trip to an engine (s); default 1ms (one zone)."
    )
    read_chunk: Brief = Field(
        default=0.0, description="Audio read at a time (s); default 0: whatever is there."
    )
    sleep: Brief = Field(default=0.0, description="Slept for each second of audio (s); default 0.")
    resample: Brief = Field(
        default=0.0, description="Conversion of a chunk's sample rate (s); default 0."
    )

    @model_serializer(mode="wrap")
    def _only_used(self, handler: Any) -> dict[str, Any]:
        """What is never read is not written either, so that the result can be read back."""
        unread = ("round_trips", "round_trip") if self.connection == "reused" else ()
        return _without(handler(self), unread)


class Caches(Part):
    """Work that is not done twice."""

    phrases: Share = Field(
        default=0.0,
        description="Share of units whose audio is in the phrase cache, 0 to 1; default 0.",
    )
    history: Share = Field(
        default=1.0,
        description="Share of answers whose past turns are still in the language model's prefix "
        "cache, 0 to 1; default 1. (The system prompt is, if engine.prefix_caching.)",
    )


class Cascade(Part):
    """A small language model for small talk, a large one for the rest."""

    small: str = Field(description="Pool of the small model.")
    large: str = Field(description="Pool of the large model.")
    small_share: Share | None = Field(
        default=None,
        description="Share of answers by the small one; give this or `first_turns`; default none.",
    )
    first_turns: Count | None = Field(
        default=None,
        description="Turns at the start of a call that the small one answers; give this or "
        "`small_share`; default none.",
    )


class OmniRoute(Part):
    """Answers by the speech-to-speech pool."""

    share: Share = Field(default=1.0, description="Share of answers by it, 0 to 1; default 1.")
    timeout: PositiveDuration | None = Field(
        default=None,
        description="Silence after which (or, if it refuses, at once) the three stages answer "
        "instead (s); default none: never.",
    )
    speech_tokens_per_second: Positive = Field(
        default=12.5,
        description="Its prompt tokens of a second of the caller's speech; default 12.5.",
    )


def _without(data: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if name not in names}


class Pipeline(Part):
    """What joins the stages."""

    endpointing: AnyEndpointing = Field(
        default=FixedEndpointing(), description="When a turn is over; default fixed, 500ms."
    )
    segmenter: Segmenter = Field(
        default=Segmenter(), description="Units of speech; default sentences."
    )
    prefetch: Count | None = Field(
        default=None,
        description="Units at the TTS engine or unplayed beside the one playing, at most; "
        "default none: no bound.",
    )
    ahead: Duration | None = Field(
        default=None,
        description="A unit goes to the TTS engine no earlier than that before the audio sent so "
        "far ends (s); default none: at once.",
    )
    voice_prompt: Natural = Field(
        default=0,
        description="Tokens before each unit's text at the TTS engine (voice, instructions); "
        "default 0.",
    )
    core: Brief = Field(
        default=0.0,
        description="Round trip from the recogniser and the voice, at the edge, to the language "
        "model, in the core (s); default 0: side by side.",
    )
    filler: Filler | None = Field(default=None, description="Filler sound; default none.")
    barge_in: BargeInRules = Field(
        default=BargeInRules(), description="When interrupted; default as LiveKit."
    )
    client: Client = Field(default=Client(), description="Client code; default ideal.")
    caches: Caches = Field(default=Caches(), description="Caches; default past turns only.")
    cascade: Cascade | None = Field(
        default=None, description="Two language models; default none: one pool."
    )
    omni: OmniRoute | None = Field(
        default=None, description="Speech-to-speech answers; default none."
    )

    @model_serializer(mode="wrap")
    def _only_used(self, handler: Any) -> dict[str, Any]:
        """What is never read is not written either, so that the result can be read back."""
        return _without(handler(self), ("segmenter",) if self.client.stages == "serial" else ())
