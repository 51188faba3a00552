"""The ``new`` command: a commented scenario from six answers."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from voicesim.catalogue import GPUS
from voicesim.catalogue.profiles import SHIPPED, profile_file, shipped_profile
from voicesim.engine.profile import Profile, ProfileError, load_profile
from voicesim.experiment.metrics import ExperimentError
from voicesim.files import unwritable, write_whole
from voicesim.report.studies import DONE, attempt, hand_over
from voicesim.report.written import DEFAULT, YOURS, Answers, written
from voicesim.scenario import loads
from voicesim.scenario.editor import FILE, json_schema
from voicesim.scenario.errors import unknown
from voicesim.scenario.units import rate, stated_duration, whole
from voicesim.simulation import checked

FIRST = "qwen3-tts-1.7b-h100"
"""What is served unless told otherwise: the profile measured at the most streams of a card."""
UNMEASURED = 16
"""Streams a card, for a profile that does not say at how many it was measured."""
UTTERANCES = 3
CARDS = 8
REPLY_S = 4.3


@dataclass(frozen=True)
class Question:
    """options: name on the command line -> reader of its text (raises ValueError).  default: from
    what is known so far, as text by option."""

    text: str
    options: Mapping[str, Callable[[str], Any]]
    default: Callable[[dict[str, Any]], dict[str, str]]


def new_command(
    path: Path, given: Mapping[str, str | None], yes: bool, force: bool, schema: bool,
    as_json: bool, quiet: bool,
) -> int:  # fmt: skip
    """Ask what is not given, and write the file; the exit code: 0, 2 wrong or missing answers.

    given: the options as text, None where not given.  yes: the defaults stand for them.
    """

    def work() -> str:
        _refuse(path, force, schema)
        answers = _answered(path, given, yes)
        text = written(answers, FILE if schema else None)
        checked(loads(text, path))
        if schema:
            write_whole(path.parent / FILE, (json.dumps(json_schema(), indent=2) + "\n").encode())
        write_whole(path, text.encode())
        return text

    found = attempt(work, path)
    if isinstance(found, int):
        return found
    beside = f" and {path.parent / FILE}" if schema else ""
    wrote = f"wrote {path}{beside}\nnext: voicesim run {path}"
    hand_over(lambda console: None, lambda: {"file": str(path)}, wrote, path, as_json, quiet)
    return DONE


def _refuse(path: Path, force: bool, schema: bool) -> None:
    """Refuse a file that is there, or could not be written, before anything is asked."""
    if path.is_dir():
        raise ExperimentError(f"{path}: is a folder; give the name of a file")
    if path.exists() and not force:
        raise ExperimentError(f"{path}: exists; --force writes over it")
    if not path.parent.is_dir():  # a slip of the pen must not leave a folder behind
        raise ExperimentError(f"{path}: the folder {str(path.parent)!r} does not exist")
    if why := unwritable(path.parent):
        raise ExperimentError(f"{path}: {path.parent} {why}")
    beside = path.parent / FILE
    if schema and beside.exists() and not _ours(beside):
        raise ExperimentError(f"{beside}: is no schema of voicesim; give --no-schema")


def _ours(schema: Path) -> bool:
    try:
        return bool(json.loads(schema.read_bytes())["title"] == json_schema()["title"])
    except (OSError, ValueError, KeyError, TypeError):
        return False


# --- the questions ----------------------------------------------------------------------------


def _answered(path: Path, given: Mapping[str, str | None], yes: bool) -> Answers:
    """All answers: those given, else asked at a terminal, else the defaults if ``yes``."""
    asking = sys.stdin.isatty() and not yes
    open_ = [name for q in questions(path) for name in q.options if given.get(name) is None]
    if open_ and not asking and not yes:
        names = ", ".join(f"--{name}" for name in open_)
        raise ExperimentError(
            f"{path}: answers are missing and there is no terminal to ask: give {names}, or --yes "
            "for the defaults"
        )
    known: dict[str, Any] = {}
    from_: dict[str, str] = {}
    for question in questions(path):
        default = question.default(known)
        wanted = {n: t for n in question.options if (t := given.get(n)) is not None}
        for name, text in wanted.items():
            known[name] = _read(question, name, text)
            from_[name] = YOURS
        rest = {n: default[n] for n in question.options if n not in wanted}
        if rest and asking:
            known |= _ask(question, rest)
            from_ |= dict.fromkeys(rest, YOURS)
        else:
            known |= {name: _read(question, name, text) for name, text in rest.items()}
            from_ |= dict.fromkeys(rest, DEFAULT)
    return Answers(**{name.replace("-", "_"): value for name, value in known.items()}, origin=from_)


def _read(question: Question, name: str, text: str) -> Any:
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
            return {n: _read(question, n, t) for n, t in zip(names, parts, strict=True)}
        except ExperimentError as problem:
            typer.echo(f"  {problem}", err=True)


def questions(path: Path) -> list[Question]:
    """The six, in order; path: of the new file."""
    return [
        Question("1. What is served? (a profile: a file, or a name of voicesim profiles)",
                 {"profile": partial(_profile, path)}, lambda known: {"profile": FIRST}),
        Question("2. On which cards, and how many?", {"gpu": _gpu, "cards": _count}, _cards),
        Question("3. How many calls a second, and how many at the peak?",
                 {"calls": _rate, "peak": _rate}, _calls),
        Question("4. How long is a reply, on average?", {"reply": _time},
                 lambda known: {"reply": f"{REPLY_S:g}s"}),
        Question("5. How many calls may a card hold at once? (none: admit everybody)",
                 {"limit": _limit}, lambda known: {"limit": str(_streams(known))}),
        Question("6. What is good: sound within, and no stall over?",
                 {"start-within": _time, "no-stall-over": _time},
                 lambda known: {"start-within": "1s", "no-stall-over": "100ms"}),
    ]  # fmt: skip


@dataclass(frozen=True)
class Served:
    """A profile, and how the new file names it."""

    profile: Profile = field(repr=False)
    name: str = ""


def _profile(path: Path, text: str) -> Served:
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
    if found.token_audio_s is None:
        raise ValueError("its tokens are text, which nobody hears (it has no token_audio_s)")
    if not Path(text).exists():
        return Served(found, f"{SHIPPED}{file.stem}")
    return Served(found, os.path.relpath(file.resolve(), path.parent.resolve()))


def _gpu(text: str) -> str:
    if text not in GPUS:
        raise ValueError(unknown(text, GPUS, "no such card"))
    return text


def _count(text: str) -> int:
    return whole(1, 10_000)(text)


def _rate(text: str) -> float:
    found = rate(text)
    if found <= 0:
        raise ValueError("must be more than 0")
    return found


def _time(text: str) -> float:
    found = stated_duration(text)
    if found <= 0:
        raise ValueError("must be more than 0")
    return found


def _limit(text: str) -> int | None:
    return None if text == "none" else whole(1)(text)


def _cards(known: dict[str, Any]) -> dict[str, str]:
    about = known["profile"].profile.about
    named = about is not None and about.gpu in GPUS
    return {"gpu": about.gpu if named else "h100-sxm", "cards": str(CARDS)}


def _streams(known: dict[str, Any]) -> int:
    """Streams a card that the profile was measured at."""
    measured = known["profile"].profile.range
    return UNMEASURED if measured is None else max(1, int(measured.batch[1]))


def _calls(known: dict[str, Any]) -> dict[str, str]:
    """So many that as much audio is asked for as that many streams play; at the peak twice that."""
    audio = _streams(known) * known["cards"] / (UTTERANCES * REPLY_S)
    base = float(f"{known.get('calls', audio):.2g}")
    return {"calls": f"{base:g}/s", "peak": f"{2 * base:g}/s"}
