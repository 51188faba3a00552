"""The text of a new scenario of whole calls (see voicesim.report.written)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from voicesim.report.written import (
    ASSUMED,
    USUAL,
    Lines,
    arrival_lines,
    chunk_lines,
    engine_lines,
    in_words,
    network_lines,
    slo_lines,
    top,
)
from voicesim.scenario.dialogue import preset
from voicesim.scenario.editor import modeline

SEMANTIC = "semantic"
HEARS = 500
"""Calls on the line that one recogniser of the assumed cost keeps up with, at the least."""
COST = {"floor": "12ms", "per_row": "0.2ms"}


@dataclass(frozen=True)
class CallAnswers:
    """The six answers; rates in calls per second, times in seconds.  profile, llm: each with its
    ``name`` as the file has it.  end_of_turn: silence, None: a model of turns.  origin: YOURS or
    DEFAULT by option."""

    profile: Any
    llm: Any
    gpu: str
    cards: int
    llm_cards: int
    conversation: str
    calls: float
    peak: float
    end_of_turn: float | None
    start_within: float
    no_stall_over: float
    origin: Mapping[str, str]

    @property
    def recognisers(self) -> int:
        """For the calls of the peak."""
        on_the_line = self.peak * preset(self.conversation).seconds()
        return max(1, math.ceil(on_the_line / HEARS))


def written_call(a: CallAnswers, schema: str | None) -> str:
    """The scenario as YAML; schema: the file of its JSON Schema, for editors."""
    out = Lines([] if schema is None else [modeline(f"./{schema}")])
    names = f"{a.llm.profile.name} and {a.profile.profile.name}"
    top(out, f"Calls with {names} on {a.gpu}", "20min" if a.peak == a.calls else "30min", "4min")
    out.part("workload")
    out.line("workload.kind", "dialogue", "whole calls: --kind call")
    out.line("workload.preset", a.conversation, a.origin["conversation"])
    arrival_lines(out, a)
    out.part("workload.budget")
    out.line("workload.budget.total", in_words(a.start_within), a.origin["start-within"])
    _cluster(out, a)
    _end_of_turn(out, a)
    out.part("listener")
    network_lines(out)
    out.line("listener.audible", in_words(a.no_stall_over), a.origin["no-stall-over"])
    slo_lines(out, a)
    _variants(out, a)
    return out.text()


def _cluster(out: Lines, a: CallAnswers) -> None:
    out.part("cluster")
    out.part("cluster.gpus")
    out.part("cluster.gpus.card")
    out.line("cluster.gpus.card.preset", a.gpu, a.origin["gpu"])
    every = a.cards + a.llm_cards + a.recognisers
    out.line("cluster.gpus.card.count", every, "the cards of the three stages below together")
    out.part("cluster.pools")
    asr = "cluster.pools.asr"
    out.part(asr)
    out.line(f"{asr}.role", "asr", USUAL, "asr")
    out.line(f"{asr}.replicas", a.recognisers, f"one for {HEARS} calls on the line", "asr")
    out.line(f"{asr}.on", "card", "the name above", "asr")
    out.part(f"{asr}.asr")
    out.line(f"{asr}.asr.kind", "streaming", USUAL)
    for key, value in (("chunk", "160ms"), ("right_context", "80ms"), ("cap", 128)):
        out.line(f"{asr}.asr.{key}", value, ASSUMED, "streaming")
    out.part(f"{asr}.asr.cost", "streaming")
    for key, value in COST.items():
        out.line(f"{asr}.asr.cost.{key}", value, ASSUMED, "streaming")
    for name, served, option, cards in (("llm", a.llm, "llm", a.llm_cards),
                                        ("tts", a.profile, "profile", a.cards)):  # fmt: skip
        pool = f"cluster.pools.{name}"
        out.part(pool)
        out.line(f"{pool}.role", name, USUAL)
        origin = a.origin["llm-cards" if name == "llm" else "cards"]
        out.line(f"{pool}.replicas", cards, origin)
        out.line(f"{pool}.on", "card", "the name above")
        engine_lines(out, pool, served, a.origin[option], 256)
    chunk_lines(out, "cluster.pools.tts", a.profile.profile)


def _end_of_turn(out: Lines, a: CallAnswers) -> None:
    out.part("pipeline")
    out.part("pipeline.endpointing")
    at, mine = "pipeline.endpointing", a.origin["end-of-turn"]
    if a.end_of_turn is not None:
        out.line(f"{at}.kind", "fixed", mine)
        out.line(f"{at}.silence", in_words(a.end_of_turn), mine, "fixed")
        return
    out.line(f"{at}.kind", SEMANTIC, mine)
    out.line(f"{at}.min", "300ms", USUAL, SEMANTIC)
    out.line(f"{at}.max", "1.5s", ASSUMED, SEMANTIC)


def _variants(out: Lines, a: CallAnswers) -> None:
    """The other way to find the end of a turn, under the same callers."""
    other = ("  semantic: {pipeline.endpointing: {kind: semantic, min: 300ms, max: 1.5s}}"
             if a.end_of_turn is not None
             else "  silence: {pipeline.endpointing: {kind: fixed, silence: 500ms}}")  # fmt: skip
    out.plain("")
    out.part("variants")
    out.plain(
        "  # Silence against a model of turns, under the same callers: voicesim compare THIS_FILE.",
        "  silence: {}" if a.end_of_turn is not None else "  semantic: {}",
        other,
    )
