"""The six questions of ``voicesim new --kind call``: a scenario of whole calls."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, get_args

from voicesim.report.asked import (
    Question,
    card,
    card_of,
    count,
    model,
    some_rate,
    some_time,
    streams,
    voice,
)
from voicesim.report.written import FIRST
from voicesim.report.written_call import SEMANTIC
from voicesim.scenario.dialogue import PresetName, preset
from voicesim.scenario.errors import unknown

LLM = "llama-3.1-8b-h100-nim-1.8.0"
"""What thinks unless told otherwise: a language model measured at most prompts at once."""
PRESETS = get_args(PresetName)
CALLS_A_STREAM = 2
"""Calls on the line for each stream that a voice was measured at: in a call the agent speaks less
than half of the time, and its engine is done before the listener is."""


def questions(path: Path) -> list[Question]:
    """The six, in order; path: of the new file."""
    return [
        Question("1. Which voice, and which language model? (profiles: files, or names of voicesim "
                 "profiles)", {"profile": partial(voice, path), "llm": partial(model, path)},
                 lambda known: {"profile": FIRST, "llm": LLM}),
        Question("2. On which cards, and how many for the voice and for the language model?",
                 {"gpu": card, "cards": count, "llm-cards": count},
                 lambda known: {"gpu": card_of(known), "cards": "2", "llm-cards": "1"}),
        Question("3. What kind of conversation? (service, task or companion)",
                 {"conversation": _conversation}, lambda known: {"conversation": PRESETS[0]}),
        Question("4. How many calls a second, and how many at the peak?",
                 {"calls": some_rate, "peak": some_rate}, _calls),
        Question("5. When is a turn over: after how much silence, or semantic (a model of turns)?",
                 {"end-of-turn": _end}, lambda known: {"end-of-turn": "500ms"}),
        Question("6. What is good: an answer within, and no stall over?",
                 {"start-within": some_time, "no-stall-over": some_time},
                 lambda known: {"start-within": "1s", "no-stall-over": "100ms"}),
    ]  # fmt: skip


def _conversation(text: str) -> str:
    if text not in PRESETS:
        raise ValueError(unknown(text, PRESETS, "no such kind of conversation"))
    return text


def _end(text: str) -> float | None:
    """Seconds of silence; None: semantic."""
    return None if text == SEMANTIC else some_time(text)


def _calls(known: dict[str, Any]) -> dict[str, str]:
    """So many that as many are on the line as the voices are taken to hold; no peak."""
    on_the_line = CALLS_A_STREAM * streams(known) * known["cards"]
    base = float(f"{known.get('calls', on_the_line / preset(known['conversation']).seconds()):.2g}")
    return {"calls": f"{base:g}/s", "peak": f"{base:g}/s"}
