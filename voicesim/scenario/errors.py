"""Everything wrong with a scenario, said at once and in plain words, each with its place.

A ``Problem`` is one line of that list.  Validators raise ``wrong(...)``; ``explain`` turns what
pydantic found, ours and its own, into (key path, sentence) pairs.
"""

from __future__ import annotations

import difflib
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import PydanticCustomError

Path = tuple[Any, ...]
"""Where a value sits in the file: mapping keys and list positions from the top."""


@dataclass(frozen=True)
class Problem:
    """One thing wrong: the file (or ``--set`` text), its line (0: none), the key, a sentence."""

    file: str
    line: int
    key: str
    message: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.key}: {self.message}" if self.key else f"{place}: {self.message}"


class ScenarioErrors(Exception):
    """A scenario that cannot be run, with the list of all its ``problems``."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = list(dict.fromkeys(problems))
        super().__init__(self.problems)

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)


def wrong(*found: tuple[Path, str] | str) -> PydanticCustomError:
    """The error a validator raises: sentences, each alone or with its path below the field."""
    pairs = [((), each) if isinstance(each, str) else each for each in found]
    text = "; ".join(message for _, message in pairs)
    return PydanticCustomError("voicesim", "{text}", {"text": text, "found": pairs})


def shown(value: Any) -> str:
    """A value as the reader wrote it, cut short."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    text = repr(value) if isinstance(value, str) else _digits(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _digits(value: Any) -> str:
    try:
        return str(value)
    except ValueError:  # an integer too long to print
        return "a very long number"


def choices(allowed: Iterable[Any]) -> str:
    """The allowed names as a list, in order."""
    return ", ".join(str(each) for each in allowed) or "none"


def unknown(name: Any, allowed: Iterable[Any], what: str = "unknown key") -> str:
    """``unknown key; did you mean 'x'? allowed: ...`` for a name that is not among ``allowed``."""
    options = [str(each) for each in allowed]
    close = difflib.get_close_matches(str(name)[:100], options, n=1, cutoff=0.6)
    hint = f"; did you mean {close[0]!r}?" if close else ";"
    return f"{what}{hint} allowed: {choices(options)}"


def meant(given: Any, names: Iterable[str]) -> set[str]:
    """The ``names`` left out of a mapping that its unknown keys come near to: slips of the pen."""
    names = list(names)
    unknowns = [str(key)[:100] for key in given if key not in names]
    close = [difflib.get_close_matches(key, names, n=1, cutoff=0.6) for key in unknowns]
    return {name for found in close for name in found if name not in given}


def bare(kind: Any) -> Any:
    """A type without its annotations and without ``| None``."""
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) in (Union, types.UnionType):
        rest = [each for each in get_args(kind) if each is not type(None)]
        if len(rest) == 1:
            return bare(rest[0])
    return kind


def branches(kind: Any) -> dict[str, type[BaseModel]]:
    """The models of a union by the name that tells them apart; empty for any other type."""
    kind = bare(kind)
    key = tag_key(kind)
    found: dict[str, type[BaseModel]] = {}
    for each in map(bare, get_args(kind)) if key else ():
        found.update(dict.fromkeys(_literal(each, key), each))
    return found


def tag_key(kind: Any) -> str:
    """The field that tells the models of a union apart: ``kind`` or ``role``; empty for others."""
    kind = bare(kind)
    if get_origin(kind) not in (Union, types.UnionType):
        return ""
    models = [bare(each) for each in get_args(kind)]
    for key in ("kind", "role"):
        if all(is_model(each) and _literal(each, key) for each in models):
            return key
    return ""


def _literal(model: Any, key: str) -> tuple[Any, ...]:
    """The names that a model's tag may have."""
    field = model.model_fields.get(key) if is_model(model) else None
    literal = bare(field.annotation) if field else None
    return get_args(literal) if get_origin(literal) is Literal else ()


UNSAID = ("tts", "fixed")
"""Names of a union that need not be said."""


def tag_of(key: str, unsaid: str) -> Callable[[Any], Any]:
    """What tells the models of a union apart where ``key`` may be left out: one of ``UNSAID``."""
    return lambda value: (
        value.get(key, unsaid) if isinstance(value, Mapping) else getattr(value, key, None)
    )


def chosen(kind: Any, node: Any) -> Any:
    """The model of a union that a mapping is read as, where it is clear; else the type itself."""
    models = branches(kind)
    if not models or not isinstance(node, Mapping):
        return kind
    unsaid = next((name for name in UNSAID if name in models), None)
    named = node.get(tag_key(kind), "custom" if "policy" in node else unsaid)
    return models.get(named, kind) if isinstance(named, str) else kind


def is_model(kind: Any) -> bool:
    """Whether a type is one of our mappings with named keys."""
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def child(kind: Any, step: Any) -> Any:
    """The type one step below, None where it is not known."""
    kind = bare(kind)
    if is_model(kind):
        field = kind.model_fields.get(step)
        return field.annotation if field else None
    if get_origin(kind) is dict:
        return get_args(kind)[1]
    if get_origin(kind) is list:
        return get_args(kind)[0]
    for model in branches(kind).values():
        if step in model.model_fields:
            return model.model_fields[step].annotation
    return None


def locate(model: type[BaseModel], loc: Path) -> tuple[Path, Any, Any]:
    """(path in the file, type there, type of the mapping above) of a pydantic location.

    Pydantic puts the chosen ``kind`` of a union in its locations; the file has no such level.
    """
    path: Path = ()
    here: Any = model
    above: Any = None
    for step in loc:
        tags = branches(here)
        if step in tags:
            here = tags[step]
            continue
        path += (step,)
        above, here = here, child(here, step)
    return path, here, above


def explain(
    model: type[BaseModel], errors: Iterable[Any], beside: Iterable[str] = ()
) -> Iterator[tuple[Path, str]]:
    """(path, sentence) for everything pydantic found when reading ``model``.

    beside: keys that may stand at the top of the file and are no fields of the model.
    """
    for error in errors:
        if error["type"] == "default_factory_not_called":
            continue  # a consequence of another error in the same mapping
        path, here, above = locate(model, error["loc"])
        above = bare(above)
        known = list(above.model_fields) if is_model(above) else []
        if error["type"] == "voicesim":
            for below, message in error["ctx"]["found"]:
                yield path + tuple(below), message
        elif error["type"] in ("union_tag_not_found", "union_tag_invalid"):
            if isinstance(error["input"], Mapping):
                key = tag_key(here)
                yield (*path, key), _which(error, key, branches(here))
            else:
                yield path, f"expected a mapping (key: value); found {shown(error['input'])}"
        elif error["type"] == "extra_forbidden":
            yield path, unknown(path[-1], [*known, *(beside if above is model else ())])
        elif error["type"] == "missing" and path[-1] in meant(error["input"], known):
            continue  # the unknown key says so
        else:
            yield path, _sentence(error, path, here, above)


def _which(error: Any, key: str, tags: Mapping[str, Any]) -> str:
    value = error["input"]
    if key in value:
        return unknown(value[key], tags, f"unknown {key} {shown(value[key])}")
    return f"missing; allowed: {choices(tags)}"


def _sentence(error: Any, path: Path, here: Any, above: Any) -> str:
    kind, value = error["type"], error["input"]
    if kind == "missing":
        field = above.model_fields.get(path[-1]) if is_model(above) else None
        return f"missing; it is needed: {field.description}" if field else "missing"
    if kind == "literal_error":
        return unknown(value, _literals(here), f"unknown name {shown(value)}")
    if kind in _EXPECTED:
        return f"expected {_EXPECTED[kind]}; found {shown(value)}"
    return f"{error['msg']}; found {shown(value)}"


def _literals(kind: Any) -> list[Any]:
    kind = bare(kind)
    if get_origin(kind) is Literal:
        return list(get_args(kind))
    return [each for part in get_args(kind) for each in _literals(part)]


_EXPECTED = {
    "model_type": "a mapping (key: value)",
    "model_attributes_type": "a mapping with a `kind`",
    "dict_type": "a mapping (name: ...)",
    "list_type": "a list",
    "string_type": "text",
    "bool_type": "true or false",
}
