"""Who talks with an agent: the callers of a dialogue, what they say, how they interrupt.

A ``Talk`` is how some callers converse; what it leaves out comes from a preset, and what a tenant
leaves out from the workload.
"""

from __future__ import annotations

import functools
from typing import Annotated, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from .arrivals import AnyArrivals
from .errors import wrong
from .part import Part
from .presets import CONVERSATIONS
from .units import (
    Count,
    Fraction,
    Natural,
    Positive,
    PositiveBrief,
    PositiveDuration,
    Rate,
    Share,
    Size,
    constant,
    real,
)
from .workload import AudioLaw, CountLaw, PatienceLaw, TimeLaw

PRESET = "default as the preset"


class Inheriting(Part):
    """A mapping whose missing keys come from another of its kind.

    EITHER: names that stand for each other: giving one leaves the others out.
    """

    EITHER: ClassVar[tuple[str, ...]] = ()

    @model_validator(mode="after")
    def _one_of(self) -> Self:
        given = [name for name in self.EITHER if getattr(self, name) is not None]
        if len(given) > 1:
            text = f"give {self.EITHER[0]} or {self.EITHER[1]}: each follows from the other"
            raise wrong(((given[1],), text))
        return self

    def over(self, base: Self | None) -> Self:
        """This, with what it leaves out from ``base``; what was given stays marked as given."""
        if base is None:
            return self
        values = {name: getattr(self, name) for name in type(self).model_fields}
        stated = any(values[name] is not None for name in self.EITHER)
        for name, value in values.items():
            below = getattr(base, name, None)
            if isinstance(value, Inheriting) and isinstance(below, Inheriting):
                values[name] = value.over(below)
            elif value is None and not (stated and name in self.EITHER):
                values[name] = below
        return type(self).model_construct(_fields_set=set(self.model_fields_set), **values)


class Pauses(Inheriting):
    """Silence within a caller's turn, which an endpointer may take for its end."""

    share: Share | None = Field(
        default=None, description=f"Share of turns with a pause, 0 to 1; {PRESET} (0.4, assumed)."
    )
    longest: TimeLaw | None = Field(
        default=None,
        description="The longest pause in such a turn (s), anywhere in it alike; "
        f"{PRESET} (lognormal of median 330ms, sigma 0.9, near the VAD baseline of eot-bench: "
        "56 % of pauses outlast 300ms, 22 % 600ms, 10 % 1s, 5 % 1.6s).",
    )


class Tail(Inheriting):
    """Replies that run long: their whole length is of a Pareto law."""

    share: Share | None = Field(
        default=None, description=f"Share of replies, 0 to 1; {PRESET} (0.03, assumed)."
    )
    least: PositiveDuration | None = Field(
        default=None, description=f"The shortest of them (s); {PRESET} (12s, assumed)."
    )
    alpha: Positive | None = Field(
        default=None, description=f"Exponent of the law; {PRESET} (2.2, assumed)."
    )
    most: PositiveDuration | None = Field(
        default=None, description=f"The longest of them (s); {PRESET} (60s, assumed)."
    )


class Reply(Inheriting):
    """What the agent says in one turn; its tokens follow from its seconds, or the reverse."""

    EITHER = ("sentence", "sentence_tokens")

    sentences: CountLaw | None = Field(
        default=None, description=f"Sentences of a reply; {PRESET} (1 + Poisson, service mean 2)."
    )
    sentence: AudioLaw | None = Field(
        default=None,
        description="Speech of one sentence (s); its tokens follow; "
        f"{PRESET} (service lognormal of median 3.2s, sigma 0.55).",
    )
    sentence_tokens: CountLaw | None = Field(
        default=None,
        description="Text tokens of one sentence, from which its seconds follow; give this or "
        "`sentence`; default none.",
    )
    tokens_per_second: Positive | None = Field(
        default=None,
        description="Text tokens of a second of speech; "
        f"{PRESET} (4: some 18 characters a second at 178 words a minute, 4 to a token).",
    )
    tail: Tail | None = Field(default=None, description=f"Replies that run long; {PRESET}.")


class Context(Inheriting):
    """The prompt of the language model."""

    system: Natural | None = Field(
        default=None, description=f"Tokens before any turn, the same in all calls; {PRESET} (1200)."
    )
    per_turn: Natural | None = Field(
        default=None,
        description=f"Tokens that each past turn adds, both sides; {PRESET} (service 70).",
    )
    speech_tokens_per_second: Positive | None = Field(
        default=None,
        description="Tokens of a second of the caller's speech; "
        f"{PRESET} (3.5: 160 words a minute, 4 tokens to 3 words).",
    )


class Backchannel(Inheriting):
    """Short sounds of a listener (uh-huh) that are no wish to speak."""

    hazard: Rate | None = Field(
        default=None,
        description=f"How often, per audible second of an answer; {PRESET} (0.02/s, assumed).",
    )
    length: TimeLaw | None = Field(
        default=None,
        description="How long one is (s); longer than pipeline.barge_in.detect it is taken for an "
        f"interruption; {PRESET} (lognormal of median 300ms, sigma 0.4, assumed).",
    )


class BargeIn(Inheriting):
    """How callers interrupt the agent."""

    EITHER = ("hazard", "share")

    hazard: Rate | None = Field(
        default=None,
        description="Interruptions per audible second of an answer; give this or `share`; "
        f"{PRESET} (companion 0.03/s).",
    )
    share: Share | None = Field(
        default=None,
        description="Share of calls with at least one interruption, from which the hazard "
        f"follows, 0 to 1; give this or `hazard`; {PRESET} (service and task 0.2).",
    )
    false: Rate | None = Field(
        default=None,
        description="Noises taken for an interruption, per audible second; "
        f"{PRESET} (0.001/s, assumed).",
    )
    backchannel: Backchannel | None = Field(
        default=None, description=f"Sounds of a listener; {PRESET}."
    )


class ImageCache(Part):
    """A cache of encoded images: an image is hidden size x tokens x 2 bytes."""

    memory: Size = Field(description="Memory for it (bytes).")
    hidden: Count = Field(
        default=4096, description="Hidden size of the language model; default 4096."
    )
    repeats: Share = Field(description="Share of images that were shown before, 0 to 1.")
    distinct: Count = Field(
        description="Distinct images that are shown again: what the cache must hold to have all."
    )

    def hit_rate(self, tokens: int) -> float:
        """Share of images found: those shown before, as far as the cache holds them."""
        places = self.memory // (self.hidden * tokens * 2)
        return self.repeats * min(1.0, places / self.distinct)


class Images(Part):
    """Pictures that callers show; they are encoded on the language model's card."""

    share: Share = Field(description="Share of turns with images, 0 to 1.")
    count: CountLaw = Field(default=constant(1), description="Images of such a turn; default 1.")
    limit: Count | None = Field(
        default=None,
        description="Images of one prompt at most, the others are dropped; default none.",
    )
    tokens: Count = Field(default=1280, description="Prompt tokens of an image; default 1280.")
    encode: PositiveBrief = Field(description="Encoding one image on the card (s).")
    cache: ImageCache | None = Field(
        default=None, description="Encoded images that are kept; default none."
    )


class Segment(Part):
    """One segment's part of a latency budget."""

    within: PositiveBrief = Field(description="What it may take (s).")
    owner: str = Field(default="", description="Who answers for it; default nobody.")


SEGMENTS = (
    "capture", "uplink", "endpointing", "asr", "llm", "tts", "downlink", "playback",
)  # fmt: skip
_PART = "Its part and owner; default none."


class Budget(Part):
    """How long a caller may wait for an answer, and who may spend how much of it."""

    total: PositiveBrief = Field(description="From the end of speech to the first sound (s).")
    capture: Segment | None = Field(default=None, description=_PART)
    uplink: Segment | None = Field(default=None, description=_PART)
    endpointing: Segment | None = Field(default=None, description=_PART)
    asr: Segment | None = Field(default=None, description=_PART)
    llm: Segment | None = Field(default=None, description=_PART)
    tts: Segment | None = Field(default=None, description=_PART)
    downlink: Segment | None = Field(default=None, description=_PART)
    playback: Segment | None = Field(default=None, description=_PART)

    @property
    def segments(self) -> dict[str, Segment]:
        """The segments that have a part, in the order of a turn."""
        found = {name: getattr(self, name) for name in SEGMENTS}
        return {name: part for name, part in found.items() if part is not None}


class Talk(Inheriting):
    """How callers converse."""

    turns: CountLaw | None = Field(
        default=None,
        description="Turns of a call; "
        f"{PRESET} (1 + negative binomial, mean 8, 18, 38 of service, task, companion).",
    )
    speech: AudioLaw | None = Field(
        default=None,
        description="The caller's speech in one turn (s); "
        f"{PRESET} (service lognormal of median 1.9s, sigma 0.75).",
    )
    think: TimeLaw | None = Field(
        default=None,
        description="Pause between hearing and speaking (s); "
        f"{PRESET} (mostly 200ms, a fifth of median 1.5s).",
    )
    pauses: Pauses | None = Field(default=None, description=f"Pauses within a turn; {PRESET}.")
    reply: Reply | None = Field(default=None, description=f"What the agent says; {PRESET}.")
    context: Context | None = Field(
        default=None, description=f"Prompt of the language model; {PRESET}."
    )
    patience: PatienceLaw | None = Field(
        default=None,
        description="Silence after which the caller hangs up (s); "
        f"{PRESET} (service lognormal of median 12s, sigma 0.6, assumed).",
    )
    barge_in: BargeIn | None = Field(default=None, description=f"Interruptions; {PRESET}.")
    images: Images | None = Field(default=None, description="Pictures shown; default none.")

    def seconds(self) -> float:
        """Mean seconds of a call, nothing left out: both speak, and the caller thinks; long
        replies (``tail``) and waiting are not counted."""
        assert self.turns and self.speech and self.think and self.reply and self.reply.sentences
        said = self.reply.sentence
        if said is None:
            assert self.reply.sentence_tokens and self.reply.tokens_per_second
            each = self.reply.sentence_tokens.mean() / self.reply.tokens_per_second
        else:
            each = said.mean()
        turn = self.speech.mean() + self.think.mean() + self.reply.sentences.mean() * each
        return self.turns.mean() * turn


PresetName = Literal["service", "task", "companion"]


@functools.cache
def preset(name: str) -> Talk:
    """A kind of conversation by name (``presets.CONVERSATIONS``)."""
    return Talk.model_validate(CONVERSATIONS[name])


class Tenant(Talk):
    """Some of the callers, with a budget of their own; what is left out is as the workload's."""

    name: str = Field(description="Name in tables and reports.")
    share: Fraction = Field(description="Share of the calls, 0 to 1; all together make 1.")
    preset: PresetName | None = Field(
        default=None, description="Another kind of conversation; default none: as the workload's."
    )
    budget: Budget | None = Field(default=None, description="Its latency budget; default none.")


class Reprompt(Part):
    """When a caller asks "hello?"; counted, it changes nothing in the run."""

    median: PositiveDuration = Field(
        default=4.0, description="Median silence before it (s), lognormal; default 4s, assumed."
    )
    sigma: Annotated[float, BeforeValidator(real(0, 10)), WithJsonSchema({"type": "number"})] = (
        Field(default=0.5, description="Sigma of that law; default 0.5, assumed.")
    )


class Dialogue(Talk):
    """Calls with an agent: turns, answers, interruptions."""

    kind: Literal["dialogue"] = Field(description="Whole calls: speech, recognition, reply.")
    arrivals: AnyArrivals = Field(description="When calls start; all kinds but closed.")
    preset: PresetName = Field(
        default="service",
        description="Kind of conversation that gives what is left out: service, task or "
        "companion (docs/howto/dialogue.md has the numbers and their sources); default service.",
    )
    budget: Budget | None = Field(
        default=None, description="Latency budget of the callers of no tenant; default none."
    )
    reprompt: Reprompt = Field(
        default=Reprompt(), description='Silence after which callers ask "hello?"; default 4s.'
    )
    tenants: list[Tenant] = Field(
        default_factory=list,
        description="Groups of callers, each with its share and budget; default one, all.",
    )

    @model_validator(mode="after")
    def _from_preset(self) -> Dialogue:
        whole = self.over(preset(self.preset))  # type: ignore[arg-type]
        for name in Talk.model_fields:
            self.__dict__[name] = getattr(whole, name)  # frozen, and not marked as given
        return self

    def talks(self) -> list[Talk]:
        """How the callers of each tenant converse, nothing left out; of none: all callers'."""
        if not self.tenants:
            return [self]
        return [each.over(preset(each.preset) if each.preset else self) for each in self.tenants]  # type: ignore[arg-type]

    def budgets(self) -> list[Budget | None]:
        """The budget of each tenant; of none: that of all callers."""
        return [each.budget for each in self.tenants] if self.tenants else [self.budget]
