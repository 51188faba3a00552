"""The ``new`` command: a commented scenario from six answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from voicesim.experiment.metrics import ExperimentError, chosen
from voicesim.files import unwritable, write_whole
from voicesim.report.asked import (
    Question,
    answered,
    card,
    card_of,
    count,
    limit,
    some_rate,
    some_time,
    streams,
    voice,
)
from voicesim.report.new_call import questions as questions_of_a_call
from voicesim.report.studies import DONE, attempt, hand_over
from voicesim.report.written import FIRST, Answers, written
from voicesim.report.written_call import CallAnswers, written_call
from voicesim.scenario import loads
from voicesim.scenario.editor import FILE, json_schema
from voicesim.simulation import checked

UTTERANCES = 3
CARDS = 8
REPLY_S = 4.3


def new_command(
    path: Path, kind: str, given: Mapping[str, str | None], yes: bool, force: bool, schema: bool,
    as_json: bool, quiet: bool,
) -> int:  # fmt: skip
    """Ask what is not given, and write the file; the exit code: 0, 2 wrong or missing answers.

    kind: of KINDS.  given: the options as text, None where not given.  yes: the defaults stand for
    them.
    """

    def work() -> str:
        _refuse(path, force, schema)
        text = KINDS[chosen(kind, list(KINDS), "--kind")](path, given, yes, schema)
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


def questions(path: Path) -> list[Question]:
    """The six, in order; path: of the new file."""
    return [
        Question("1. What is served? (a profile: a file, or a name of voicesim profiles)",
                 {"profile": partial(voice, path)}, lambda known: {"profile": FIRST}),
        Question("2. On which cards, and how many?", {"gpu": card, "cards": count}, _cards),
        Question("3. How many calls a second, and how many at the peak?",
                 {"calls": some_rate, "peak": some_rate}, _calls),
        Question("4. How long is a reply, on average?", {"reply": some_time},
                 lambda known: {"reply": f"{REPLY_S:g}s"}),
        Question("5. How many calls may a card hold at once? (none: admit everybody)",
                 {"limit": limit}, lambda known: {"limit": str(streams(known))}),
        Question("6. What is good: sound within, and no stall over?",
                 {"start-within": some_time, "no-stall-over": some_time},
                 lambda known: {"start-within": "1s", "no-stall-over": "100ms"}),
    ]  # fmt: skip


def _cards(known: dict[str, Any]) -> dict[str, str]:
    return {"gpu": card_of(known), "cards": str(CARDS)}


def _calls(known: dict[str, Any]) -> dict[str, str]:
    """So many that as much audio is asked for as that many streams play; at the peak twice that."""
    audio = streams(known) * known["cards"] / (UTTERANCES * REPLY_S)
    base = float(f"{known.get('calls', audio):.2g}")
    return {"calls": f"{base:g}/s", "peak": f"{2 * base:g}/s"}


def _utterances(path: Path, given: Mapping[str, str | None], yes: bool, schema: bool) -> str:
    known, origin = answered(path, questions(path), given, yes)
    values = {name.replace("-", "_"): value for name, value in known.items()}
    return written(Answers(**values, origin=origin), FILE if schema else None)


def _whole_calls(path: Path, given: Mapping[str, str | None], yes: bool, schema: bool) -> str:
    known, origin = answered(path, questions_of_a_call(path), given, yes)
    values = {name.replace("-", "_"): value for name, value in known.items()}
    return written_call(CallAnswers(**values, origin=origin), FILE if schema else None)


KINDS = {"tts": _utterances, "call": _whole_calls}
"""What a new scenario can be of, by ``--kind``."""
