"""What ``voicesim new`` asks: questions, options that answer them, and how answers are read."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from voicesim.catalogue import GPUS
from voicesim.catalogue.profiles import SHIPPED, profile_file, shipped_profile
from voicesim.engine.profile import Profile, ProfileError, load_profile
from voicesim.experiment.metrics import ExperimentError
from voicesim.report.written import DEFAULT, YOURS
from voicesim.scenario.errors import unknown
from voicesim.scenario.units import rate, stated_duration, whole

UNMEASURED = 16
"""Streams a card, for a profile that does not say at how many it was measured."""


@dataclass(frozen=True)
class Question:
    """options: name on the command line -> reader of its text (raises ValueError).  default: from
    what is known so far, as text by option."""

    text: str
    options: Mapping[str, Callable[[str], Any]]
    default: Callable[[dict[str, Any]], dict[str, str]]


def answered(
    path: Path, questions: Sequence[Question], given: Mapping[str, str | None], yes: bool
) -> tuple[dict[str, Any], dict[str, str]]:
    """All answers by option, and where each is from (YOURS, DEFAULT): those given, else asked at a
    terminal, else the defaults if ``yes``.

    Raises ExperimentError for what cannot be read, is missing, or answers no question.
    """
    known_names = [name for q in questions for name in q.options]
    for name, text in given.items():
        if text is not None and name not in known_names:
            mine = ", ".join(f"--{each}" for each in known_names)
            raise ExperimentError(f"--{name}: answers nothing that is asked here ({mine})")
    asking = sys.stdin.isatty() and not yes
    open_ = [name for name in known_names if given.get(name) is None]
    if open_ and not asking and not yes:
        names = ", ".join(f"--{name}" for name in open_)
        raise ExperimentError(
            f"{path}: answers are missing and there is no terminal to ask: give {names}, or --yes "
            "for the defaults"
        )
    known: dict[str, Any] = {}
    from_: dict[str, str] = {}
    for question in questions:
        default = question.default(known)
        wanted = {n: t for n in question.options if (t := given.get(n)) is not None}
        for name, text in wanted.items():
            known[name] = read(question, name, text)
            from_[name] = YOURS
        rest = {n: default[n] for n in question.options if n not in wanted}
        if rest and asking:
            known |= _ask(question, rest)
            from_ |= dict.fromkeys(rest, YOURS)
        else:
            known |= {name: read(question, name, text) for name, text in rest.items()}
            from_ |= dict.fromkeys(rest, DEFAULT)
    return known, from_


def read(question: Question, name: str, text: str) -> Any:
    try:
        return question.options[name](text)
    except ValueError as problem:
        raise ExperimentError(f"--{name} {text}: {problem}") from None


def _ask(question: Question, default: Mapping[str, str]) -> dict[str, Any]:
    """The answers to one question, asked again until they can be read."""
    import typer

    names = list(default)
    while True:
        text = typer.prompt(question.text, default=" ".join(default.values()), err=True)
        parts = str(text).replace(",", " ").split()
        try:
            if len(parts) != len(names):
                raise ExperimentError(f"give {len(names)}: {', '.join(names)}")
            return {n: read(question, n, t) for n, t in zip(names, parts, strict=True)}
        except ExperimentError as problem:
            typer.echo(f"  {problem}", err=True)


@dataclass(frozen=True)
class Served:
    """A profile, and how the new file names it."""

    profile: Profile = field(repr=False)
    name: str = ""


def served(path: Path, text: str) -> Served:
    """A profile: a file, or what ships; path: of the new file, which names it."""
    file = profile_file(Path(text))
    try:
        found = load_profile(file)
    except ProfileError as problem:
        if not Path(text).exists():
            try:
                shipped_profile(text)
            except KeyError as unknown_:
                raise ValueError(f"no such file, and {unknown_.args[0]}") from None
        raise ValueError(str(problem)) from None
    if not Path(text).exists():
        return Served(found, f"{SHIPPED}{file.stem}")
    return Served(found, os.path.relpath(file.resolve(), path.parent.resolve()))


def voice(path: Path, text: str) -> Served:
    """A profile that speaks."""
    found = served(path, text)
    if found.profile.token_audio_s is None:
        raise ValueError("its tokens are text, which nobody hears (it has no token_audio_s)")
    return found


def model(path: Path, text: str) -> Served:
    """A profile of a language model."""
    found = served(path, text)
    if found.profile.token_audio_s is not None:
        raise ValueError("it speaks (it has token_audio_s); a language model makes text")
    return found


def card(text: str) -> str:
    """A card of the catalogue."""
    if text not in GPUS:
        raise ValueError(unknown(text, GPUS, "no such card"))
    return text


def count(text: str) -> int:
    """How many."""
    return whole(1, 10_000)(text)


def some_rate(text: str) -> float:
    """A rate above 0 (1/s)."""
    found = rate(text)
    if found <= 0:
        raise ValueError("must be more than 0")
    return found


def some_time(text: str) -> float:
    """A time above 0 (s)."""
    found = stated_duration(text)
    if found <= 0:
        raise ValueError("must be more than 0")
    return found


def limit(text: str) -> int | None:
    """A bound; None for ``none``."""
    return None if text == "none" else whole(1)(text)


def card_of(known: Mapping[str, Any]) -> str:
    """The card that a profile was measured on, where the catalogue has it."""
    about = known["profile"].profile.about
    return about.gpu if about is not None and about.gpu in GPUS else "h100-sxm"


def streams(known: Mapping[str, Any]) -> int:
    """Streams a card that the profile was measured at."""
    measured = known["profile"].profile.range
    return UNMEASURED if measured is None else max(1, int(measured.batch[1]))
