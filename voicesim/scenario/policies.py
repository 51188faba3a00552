"""What the operator decides: who may come in, and to which replica."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema, model_serializer

from .degradation import Degradation
from .errors import shown, wrong
from .health import Health
from .part import Part
from .pipeline import AnyEndpointing
from .rollout import AnyRollout
from .scaling import Scaling
from .units import Brief, Count, Duration, Fraction, Natural, PositiveBrief, Share


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
    deadline: PositiveBrief = Field(description="Wait after which a caller is refused (s).")
    max_waiting: Natural | None = Field(
        default=None, description="Callers waiting at most; default none: no bound."
    )


class Slack(Part):
    """Admit only while every live stream keeps its lead over its listener."""

    kind: Literal["slack"] = Field(default="slack", description="Keep every live stream ahead.")
    lead: Brief = Field(default=0.25, description="Audio ahead of the listener (s); default 250ms.")


PINNED: Any = Field(
    default=False,
    description="A call stays with the replica that its first utterance went to, also while that "
    "one drains; default false: every utterance is routed anew.",
)


class Informed(Part):
    """A router that reads from time to time how many streams each replica has."""

    age: Duration = Field(
        default=0.0,
        description="Time between two readings of the replicas' live streams (s), which routing "
        "and the cap go by; default 0: they always know.",
    )
    reserve: bool = Field(
        default=False,
        description="Whether what was sent since the last reading counts too; default false.",
    )

    @model_serializer(mode="wrap")
    def _only_used(self, handler: Any) -> dict[str, Any]:
        """What is never read is not written either."""
        data: dict[str, Any] = handler(self)
        if self.age == 0.0:
            for name in ("age", "reserve"):
                data.pop(name, None)
        return data


class RoundRobin(Informed):
    """Each replica in turn."""

    kind: Literal["round_robin"] = Field(default="round_robin", description="Each replica in turn.")
    pinned: bool = PINNED


class LeastStreams(Informed):
    """The replica with the fewest live streams."""

    kind: Literal["least_streams"] = Field(
        default="least_streams", description="Fewest live streams."
    )
    pinned: bool = PINNED


class PowerOfTwo(Informed):
    """The better of two replicas drawn at random."""

    kind: Literal["power_of_two"] = Field(
        default="power_of_two", description="Better of two at random."
    )
    pinned: bool = PINNED


class LeastCalls(Part):
    """The replica on which the fewest calls live; calls stay where they began."""

    kind: Literal["least_calls"] = Field(
        default="least_calls", description="Fewest calls; a call stays with its replica."
    )

    @property
    def pinned(self) -> bool:
        """Calls stay with their replica."""
        return True


class BoundedHash(Informed):
    """A call stays with one replica, chosen by its hash, unless that has more than its share."""

    kind: Literal["bounded_hash"] = Field(
        default="bounded_hash", description="A call's own replica, within bounds."
    )
    epsilon: Share = Field(
        default=0.25,
        description="How far above the mean its replica may be, 0 to 1; default 0.25 (Google's and "
        "HAProxy's value, https://arxiv.org/abs/1608.01350).",
    )


class InverseProb(Informed):
    """At random, with weight 1 / (1 + live streams)."""

    kind: Literal["inverse_prob"] = Field(
        default="inverse_prob", description="At random, emptier ones more often."
    )
    pinned: bool = PINNED


class Pack(Informed):
    """The fullest replica that has room, so that others stay empty."""

    kind: Literal["pack"] = Field(default="pack", description="Fullest with room under the cap.")
    pinned: bool = PINNED


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
    RoundRobin | LeastStreams | PowerOfTwo | LeastCalls | BoundedHash | InverseProb | Pack | Custom,
    Field(discriminator="kind"),
    BeforeValidator(_or_custom),
]


class Overflow(Part):
    """When a region sends callers on to the next, and when it takes them again."""

    at: Fraction = Field(
        description="Share of its places (open replicas times the cap) from which on callers go "
        "to the next region, 0 to 1."
    )
    back: Fraction = Field(
        description="Share of its places below which it takes callers again, 0 to 1."
    )


class Shadow(Part):
    """A second policy: it decides about the same calls, and changes nothing."""

    admission: AnyAdmission | None = Field(
        default=None, description="Who may come in; default as the policy in charge."
    )
    routing: AnyRouting | None = Field(
        default=None, description="To which replica; default as the policy in charge."
    )
    endpointing: AnyEndpointing | None = Field(
        default=None, description="Of a dialogue: when a turn is over; default none."
    )


class Policies(Part):
    """What the operator decides."""

    admission: AnyAdmission = Field(
        default=AdmitAll(), description="Who may come in; default admit_all."
    )
    routing: AnyRouting = Field(
        default=LeastStreams(), description="To which replica; default least_streams."
    )
    overflow: Overflow | None = Field(
        default=None,
        description="Callers of a full region go to the next nearest; default none: only when no "
        "replica of theirs is open.",
    )
    health: Health | None = Field(
        default=None, description="Who notices that a replica has failed; default none: nobody."
    )
    scaling: Scaling | None = Field(
        default=None,
        description="Replicas come and go; default none: all are there all the time.",
    )
    rollout: AnyRollout | None = Field(
        default=None, description="A new version comes in; default none."
    )
    degradation: Degradation | None = Field(
        default=None,
        description="What callers get instead of a refusal when a pool fills up; default none.",
    )

    shadow: dict[str, Shadow] = Field(
        default_factory=dict,
        description="Policies that decide beside those in charge and change nothing, by a name of "
        "your own; default none.",
    )

    @model_serializer(mode="wrap")
    def _only_used(self, handler: Any) -> dict[str, Any]:
        """What is never read is not written either."""
        data: dict[str, Any] = handler(self)
        for name in ("overflow", "health", "scaling", "rollout", "degradation", "shadow"):
            if not getattr(self, name):
                data.pop(name, None)
        return data
