"""The ``explain`` and ``schema`` commands: what a key, a metric or a field of a profile means."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from voicesim.calibrate.fields import CLOSED, FIELDS, QUANTITY
from voicesim.engine.profile import Profile
from voicesim.experiment.metrics import ExperimentError
from voicesim.files import write_json
from voicesim.metrics.dialogue_glossary import named
from voicesim.metrics.glossary import ANY, METRICS, Meaning
from voicesim.report.studies import DONE, attempt, hand_over, print_json
from voicesim.scenario.editor import json_schema
from voicesim.scenario.keys import NAME, Key, found, keys_of, nearest, scenario_keys
from voicesim.scenario.sources import source_of

PROFILE = "profile."
WIDTH = 100


@dataclass(frozen=True)
class Told:
    """One thing explained.  what: scenario, profile or metric."""

    what: str
    key: Key
    source: str

    def as_dict(self) -> dict[str, Any]:
        """As JSON; ``allowed`` and ``unit`` are words."""
        data = self.key.as_dict()
        data.pop("leaf")
        return {"what": self.what, **data, "source": self.source}


def explain_command(key: str | None, as_json: bool, quiet: bool) -> int:
    """Explain a key, or list all; the exit code: 0, 2 for a name that nothing has."""
    told = attempt(lambda: everything() if key is None else lookup(key))
    if isinstance(told, int):
        return told

    def show(console: Console) -> None:
        if key is None:
            _tree(told, console)
        else:
            for i, each in enumerate(told):
                console.print(Text(("\n" if i else "") + _card(each)), soft_wrap=True)

    hand_over(show, lambda: [each.as_dict() for each in told], "", None, as_json, quiet)
    return DONE


def schema_command(out: Path | None) -> int:
    """Print the JSON Schema, or write it."""
    if out is None:
        print_json(json_schema())
        return DONE
    code = attempt(lambda: write_json(out, json_schema()))
    return code if isinstance(code, int) else DONE


# --- what there is to explain -----------------------------------------------------------------


@cache
def profile_keys() -> tuple[Key, ...]:
    """The fields of a profile, under ``profile.``; what lies in its fit and sources is left out."""
    told = []
    for each in keys_of(Profile.model_json_schema()):
        if each.path not in FIELDS:
            continue
        of_number = f"{each.path}.origin" in _all_paths() and each.path not in CLOSED
        told.append(
            Key(
                PROFILE + each.path, FIELDS[each.path], QUANTITY if of_number else each.type, "",
                each.allowed, _unit(each.path), each.default, each.required, None,
                each.leaf or of_number,
            )
        )  # fmt: skip
    return tuple(told)


@cache
def _all_paths() -> frozenset[str]:
    return frozenset(each.path for each in keys_of(Profile.model_json_schema()))


def _unit(path: str) -> str:
    last = path.rsplit(".", 1)[-1]
    return "s" if last.endswith("_s") else "bytes" if "bytes" in last else ""


def _metric(name: str, of: Meaning) -> Told:
    path = ".".join(NAME if each in ANY else each for each in name.split("."))
    example = f"summary.json: variants.<name>.{path}.mean"
    key = Key(path, of.text, "mean and 95 % interval, null: not measured", unit=of.unit,
              example=example)  # fmt: skip
    return Told("metric", key, "summary.json of a run (docs/reference/results.md)")


def everything() -> list[Told]:
    """All keys of a scenario, the fields of a profile, the metrics."""
    told = [Told("scenario", k, source_of(k.path, k.default is not None)) for k in scenario_keys()]
    told += [Told("profile", k, "the profile; `origin` says how each was got")
             for k in profile_keys()]  # fmt: skip
    return told + [_metric(name, of) for name, of in (METRICS | named()).items()]


def lookup(asked: str) -> list[Told]:
    """What a name means; raises ExperimentError with the nearest names if nothing has it."""
    told = everything()
    keys = {id(each.key): each for each in told}
    hits = [keys[id(k)] for k in found(asked, (each.key for each in told))]
    for end in ("_share", "_s"):  # short names, as --slo takes them
        hits = hits or [e for e in told if e.what == "metric" and e.key.path == asked + end]
    if hits:
        return _together(hits)
    close = nearest(asked, [each.key.path for each in told])
    hint = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
    raise ExperimentError(
        f"{asked}: no such key, metric or field of a profile{hint} (voicesim explain lists all)"
    )


def _together(told: Sequence[Told]) -> list[Told]:
    """Keys of several kinds that say the same, once."""
    first: dict[str, Told] = {}
    kinds: dict[str, list[str]] = {}
    for each in told:
        plain = repr(replace(each, key=replace(each.key, kind="")))
        first.setdefault(plain, each)
        kinds.setdefault(plain, []).append(each.key.kind)
    return [
        replace(
            each, key=replace(each.key, kind=", ".join(filter(None, dict.fromkeys(kinds[plain]))))
        )
        for plain, each in first.items()
    ]


# --- in words ---------------------------------------------------------------------------------


def _card(told: Told) -> str:
    """A key in full."""
    key = told.key
    where = {"scenario": "", "profile": " (of a profile)", "metric": " (a metric)"}[told.what]
    rows = [
        ("kind", key.kind),
        ("value", key.type),
        ("unit", key.unit),
        ("allowed", key.allowed),
        ("default", "none, it is needed" if key.required else _shown(key.default)),
        ("source", told.source),
        ("example", _example(told)),
    ]
    lines = [f"{key.path}{where}", *_wrapped(key.about, "  ")]
    lines += [
        line
        for name, text in rows
        if text
        for line in _wrapped(f"{name:<8} {text}", "  ", "           ")
    ]
    return "\n".join(lines)


def _wrapped(text: str, first: str, rest: str | None = None) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=rest or first,
                         break_long_words=False, break_on_hyphens=False)  # fmt: skip


def _shown(value: Any) -> str:
    if value is None:
        return ""
    return json.dumps(value) if not isinstance(value, str) else value


def _example(told: Told) -> str:
    key = told.key
    if told.what != "scenario":
        return _shown(key.example)
    if key.example is None:
        return ""
    value = key.example
    shown = value if isinstance(value, str) else json.dumps(value).replace('"', "")
    return f"{key.path.replace(NAME, 'mine')}: {shown}"


def _tree(told: Sequence[Told], console: Console) -> None:
    titles = {"scenario": "Scenario", "profile": "Profile", "metric": "Metrics of summary.json"}
    last = ""
    kinds: dict[str, list[str]] = {}
    for each in told:
        kinds.setdefault(f"{each.what} {each.key.path}", []).append(each.key.kind)
    seen: set[str] = set()
    for each in told:
        if each.what != last:
            console.print(Text(("\n" if last else "") + titles[each.what], "bold"))
            last = each.what
        steps = each.key.path.split(".") if each.what != "metric" else [each.key.path]
        place = f"{each.what} {each.key.path}"
        if place in seen:
            continue
        seen.add(place)
        name = "  " * len(steps) + steps[-1]
        about = each.key.about.split(";")[0].split(". ")[0].rstrip(".")
        of = ", ".join(filter(None, dict.fromkeys(kinds[place])))
        if steps[-1] == "kind" and of:
            about = "One of"
        console.print(Text(f"{name:<34} {about}{f' ({of})' if of else ''}"), soft_wrap=True)
