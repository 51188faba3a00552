"""Who calls, what they say, how long they wait."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_serializer

from .arrivals import AnyArrivals, Closed, Trace
from .part import Part
from .units import (
    LAW_SCHEMA,
    WRITTEN,
    Attempts,
    Distribution,
    Duration,
    Factor,
    Fraction,
    Natural,
    Share,
    above_zero,
    constant,
    duration,
    law,
    number,
)

AudioLaw = Annotated[Distribution, law(above_zero(duration)), WRITTEN, LAW_SCHEMA]
TimeLaw = Annotated[Distribution, law(duration), WRITTEN, LAW_SCHEMA]
PatienceLaw = Annotated[Distribution, law(above_zero(duration)), WRITTEN, LAW_SCHEMA]
CountLaw = Annotated[Distribution, law(number, least=1, whole_numbers=True), WRITTEN, LAW_SCHEMA]


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
    shared_prefix: Natural = Field(
        default=0,
        description="Tokens that every prompt begins with, before `prompt_tokens` (system prompt, "
        "reference voice); default 0.",
    )


class Retry(Part):
    """How a refused caller tries again."""

    attempts: Attempts = Field(
        default=0, description="Further attempts after the first; default 0."
    )
    backoff: Duration = Field(
        default=1.0, description="Wait before the first of them (s); default 1s."
    )
    factor: Factor = Field(default=2.0, description="What each wait is multiplied by; default 2.")
    jitter: Literal["none", "full"] = Field(
        default="none",
        description="full: each wait is uniform between 0 and its value; default none.",
    )
    budget: Fraction | None = Field(
        default=None,
        description="Retries as a share of all requests, of all callers together, with a reserve "
        "of 10 (as Finagle's RetryBudget); beyond it nobody tries again; default none: no budget.",
    )

    @model_serializer(mode="wrap")
    def _only_used(self, handler: Any) -> dict[str, Any]:
        """What is never read is not written either."""
        data: dict[str, Any] = handler(self)
        if self.budget is None:
            data.pop("budget", None)
        return data


class Refused(Part):
    """What a refused caller does."""

    retry: Retry = Field(default=Retry(), description="Trying again; default never.")
    then: Literal["leave", "standby_voice"] = Field(
        default="leave", description="In the end: leave, or hear the standby voice; default leave."
    )


class Lost(Part):
    """What callers do whose replica failed under them.  Before the first audio they ask again as
    the refused do (`refused.retry`); after it never: the utterance has failed."""

    then: Literal["hang_up", "reconnect"] = Field(
        default="hang_up",
        description="In the end: hang up, or call again and go on with the next utterance; "
        "default hang_up.",
    )
    within: Duration = Field(
        default=60.0,
        description="They call again within this time (s), uniform; default 1min (as clients did "
        "in LiveKit's incident of June 2026, https://status.livekit.io/incidents/pg8h9qtm88mw).",
    )


class Workload(Part):
    """Who calls, what they say, how long they wait."""

    kind: Literal["tts"] = Field(default="tts", description="Text to speech; may be left out.")
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
    lost: Lost | None = Field(
        default=None,
        description="What callers do whose replica failed; default none: they hang up.",
    )
    left_open: Share = Field(
        default=0.0,
        description="Share of the utterances whose session stays open in the engine after the "
        "caller has gone silent, its KV cache with it, 0 to 1; default 0.",
    )

    asks: dict[str, Fraction] = Field(
        default_factory=dict,
        description="What callers ask for (a language, a voice) and the share of them, by names "
        "that pools serve; default none: all ask for the same.",
    )
    origins: dict[str, Fraction] = Field(
        default_factory=dict,
        description="Where callers are: regions and the share of callers from each; default none.",
    )

    @model_serializer(mode="wrap")
    def _only_used(self, handler: Any) -> dict[str, Any]:
        """What is never read is not written either, so that the result can be read back."""
        data = handler(self)
        if self.lost is None:
            data.pop("lost", None)
        for name in ("asks", "origins"):
            if not data.get(name):
                data.pop(name, None)
        if isinstance(self.arrivals, Closed):
            data.pop("utterances_per_session", None)
        if isinstance(self.arrivals, Trace):
            if self.arrivals.scale == 1:
                data.get("arrivals", {}).pop("jitter", None)
            if "prompt_tokens" in self.arrivals.known:
                data.get("utterance", {}).pop("prompt_tokens", None)
            if "think_s" in self.arrivals.known:
                data.pop("think", None)
            if self.arrivals.by_utterance:
                data.pop("utterances_per_session", None)
        return data
