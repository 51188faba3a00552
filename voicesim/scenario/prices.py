"""What the cards, the bought stages and the network cost, each with the date of its price."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema, model_serializer

from .errors import shown, unknown, wrong
from .part import Part
from .units import Money, Positive, UpTo1M, real

TENURES = ("owned", "reserved", "on_demand")
BY_KIND = {
    "asr": ("per_minute",),
    "llm": ("per_million_input", "per_million_cached", "per_million_output"),
    "tts": ("per_minute", "per_million_characters", "per_million_output"),
    "omni": ("per_minute", "per_million_input", "per_million_output"),
}
"""What a stage of each kind can be billed by."""


def _day(value: Any) -> str:
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return value.isoformat()
    try:
        if isinstance(value, str):
            return datetime.date.fromisoformat(value).isoformat()
    except ValueError:
        pass
    raise wrong(f"expected a date such as 2026-11-01; found {shown(value)}")


Day = Annotated[str, BeforeValidator(_day), WithJsonSchema({"type": "string", "format": "date"})]
Price = Annotated[
    float, BeforeValidator(real(0, 1e9)), WithJsonSchema({"type": "number", "minimum": 0})
]


class CardPrice(Part):
    """Cards of one kind under one contract."""

    card: str = Field(description="Kind of card, one of cluster.gpus.")
    tenure: Literal["owned", "reserved", "on_demand"] = Field(
        description="owned (what it costs to run, written off over its life), reserved, on_demand."
    )
    per_hour: Money = Field(description="Money per card and hour.")
    cards: UpTo1M | None = Field(
        default=None, description="How many cards it covers; default none: all that are left."
    )
    date: Day = Field(description="When the price was valid.")


class Bought(Part):
    """A stage paid by use: its cards are somebody else's."""

    per_minute: Price | None = Field(
        default=None, description="Money per minute of audio in (asr) or out; default none."
    )
    billed: Literal["call", "speech"] = Field(
        default="call",
        description="asr: minutes of the whole call, or of the caller's speech; default call.",
    )
    per_million_input: Price | None = Field(
        default=None, description="Money per million prompt tokens; default none."
    )
    per_million_cached: Price | None = Field(
        default=None,
        description="Money per million prompt tokens found in the cache; default as the others.",
    )
    per_million_output: Price | None = Field(
        default=None, description="Money per million tokens made; default none."
    )
    per_million_characters: Price | None = Field(
        default=None, description="Money per million characters spoken; default none."
    )
    characters_per_second: Positive = Field(
        default=15.0,
        description="Characters, blanks included, of a second of speech; default 15 (an "
        "assumption: 14 at 140 words a minute, 18 at 178).",
    )
    date: Day = Field(description="When the price was valid.")

    @model_serializer(mode="wrap")
    def _only_used(self, handler: Any) -> dict[str, Any]:
        """What is never read is not written either, so that the result can be read back; nor is
        the default of what only a recogniser has."""
        unread = set() if self.per_million_characters else {"characters_per_second"}
        unread |= {"billed"} if self.billed == "call" else set()
        return {name: value for name, value in handler(self).items() if name not in unread}


class NetworkPrice(Part):
    """What carries the sound."""

    per_minute: Price | None = Field(
        default=None, description="Money per minute of a call (telephony); default none."
    )
    per_gb: Price | None = Field(
        default=None, description="Money per 1e9 bytes, both ways together; default none."
    )
    kbit_per_second: Positive = Field(
        default=64.0,
        description="Bits on the wire each way, in thousands a second; default 64 (G.711 without "
        "headers).",
    )
    date: Day = Field(description="When the price was valid.")

    @model_serializer(mode="wrap")
    def _only_used(self, handler: Any) -> dict[str, Any]:
        """What is never read is not written either, so that the result can be read back."""
        unread = () if self.per_gb is not None else ("kbit_per_second",)
        return {name: value for name, value in handler(self).items() if name not in unread}


class Prices(Part):
    """Money.  Where a kind of card is not listed, cluster.gpus says its price."""

    currency: str = Field(default="", description="Its name, for the report; default none.")
    cards: list[CardPrice] = Field(
        default_factory=list,
        description="Contracts, in the order in which they are used up; default none.",
    )
    bought: dict[str, Bought] = Field(
        default_factory=dict, description="Stages paid by use, by name; default none."
    )
    network: NetworkPrice | None = Field(
        default=None, description="The network; default none: free."
    )

    def hour(self, card: str, cards: float, default: float | None) -> float | None:
        """Money for an hour of ``cards`` cards of a kind; None if some of them have no price."""
        total, left = 0.0, float(cards)
        for each in self.cards:
            if each.card == card:
                taken = left if each.cards is None else min(each.cards, left)
                total, left = total + taken * each.per_hour, left - taken
        if not left:
            return total
        return None if default is None else total + left * default

    @property
    def days(self) -> list[str]:
        """Dates of the prices, each once, in order."""
        found = {x.date for x in self.cards} | {x.date for x in self.bought.values()}
        return sorted(found | ({self.network.date} if self.network else set()))


def wrong_prices(
    prices: Prices, cards: Mapping[str, Any], stages: Mapping[str, str]
) -> Iterator[tuple[tuple[Any, ...], str]]:
    """(path below ``prices``, sentence) for what does not fit the cluster.

    cards: its kinds of card by name.  stages: the kind (asr, llm, tts, omni) of each stage by name.
    """
    full: set[str] = set()
    for i, row in enumerate(prices.cards):
        if row.card not in cards:
            yield ("cards", i, "card"), unknown(row.card, list(cards), "unknown kind of card")
        elif row.card in full:
            yield ("cards", i), f"never used: an earlier row covers all cards of {row.card!r}"
        if row.cards is None:
            full.add(row.card)
    for name, each in prices.bought.items():
        at = ("bought", name)
        if name not in stages:
            yield at, unknown(name, list(stages), "unknown stage")
            continue
        allowed = BY_KIND[stages[name]]
        given = [n for n in each.model_fields_set if n.startswith("per_") and
                 getattr(each, n) is not None]  # fmt: skip
        for key in given:
            if key not in allowed:
                text = f"a stage of kind {stages[name]} is billed by {', '.join(allowed)}"
                yield (*at, key), text
        if not set(given) - {"per_million_cached"}:
            yield at, f"has no price; give one of {', '.join(allowed)}"
        if "characters_per_second" in each.model_fields_set and not each.per_million_characters:
            yield (*at, "characters_per_second"), "never used without per_million_characters"
        if "billed" in each.model_fields_set and stages[name] != "asr":
            yield (*at, "billed"), "never used: only a recogniser is billed by the call or speech"
    network = prices.network
    if network is not None and network.per_minute is None and network.per_gb is None:
        yield ("network",), "has no price; give per_minute or per_gb"
    alone = network is not None and network.per_gb is None
    if network is not None and alone and "kbit_per_second" in network.model_fields_set:
        yield ("network", "kbit_per_second"), "never used without per_gb"
