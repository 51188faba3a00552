"""Every key that a JSON Schema knows, by dotted path, with what may stand there.

What is told of a key (``voicesim explain``, the comments of ``voicesim new``, completion) is read
off the schema that the reader itself is made of, so the two cannot disagree.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

NAME = "NAME"
"""Stands for a name of the user's own, or a place in a list."""


@dataclass(frozen=True)
class Key:
    """One key.  kind: of the mapping it stands in, where there are several kinds.  about: what it
    does.  type: in words.  allowed: names or bounds.  unit: of a bare number.  default: as JSON,
    None also where there is none (then about says).  required: it must be given."""

    path: str
    about: str
    type: str
    kind: str = ""
    allowed: str = ""
    unit: str = ""
    default: Any = None
    required: bool = False
    example: Any = None
    leaf: bool = True

    def as_dict(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


@cache
def scenario_keys() -> tuple[Key, ...]:
    """The keys of a scenario file, in the order of the schema."""
    from .editor import json_schema

    return keys_of(json_schema())


def keys_of(schema: Mapping[str, Any]) -> tuple[Key, ...]:
    """All keys of a JSON Schema."""
    return tuple(_below(schema, schema.get("$defs", {}), (), ""))


def _below(
    node: Mapping[str, Any], defs: Mapping[str, Any], path: tuple[str, ...], kind: str
) -> Iterator[Key]:
    """The keys under a node: of a mapping its fields, of a union those of each kind."""
    node = _plain(node, defs)
    options = [each for each in _options(node, defs) if "properties" in each or "$ref" in each]
    if "properties" in node and not _is_law(node):
        for name, of in node["properties"].items():
            here = (*path, name)
            need = name in node.get("required", ())
            yield _key(here, of, defs, kind, need)
            yield from _below(of, defs, here, kind)
        return
    if options and not any(map(_is_law, options)):
        for each in options:
            yield from _below(each, defs, path, _tag(each)[1] or kind)
        return
        return
    for inner in (node.get("additionalProperties"), node.get("items")):
        if isinstance(inner, Mapping) and _is_mapping(inner, defs):
            yield _key((*path, NAME), inner, defs, kind, False)
            yield from _below(inner, defs, (*path, NAME), kind)


def _key(
    path: tuple[str, ...], of: Mapping[str, Any], defs: Mapping[str, Any], kind: str, need: bool
) -> Key:
    node = {**_plain(of, defs), **{k: of[k] for k in ("description", "default") if k in of}}
    options = _options(node, defs) or [node]
    first = next((each for each in options if "unit" in each or "examples" in each), options[0])
    leaf = not any("properties" in each and not _is_law(each) for each in options) and not any(
        isinstance(each.get(k), Mapping) and _is_mapping(each[k], defs)
        for each in options for k in ("additionalProperties", "items")
    )  # fmt: skip
    about = node.get("description") or first.get("description", "")
    examples = node.get("examples") or first.get("examples") or [None]
    return Key(
        ".".join(path), " ".join(about.split()), _type(node, options), kind, _allowed(options),
        first.get("unit", ""), node.get("default"), need,
        examples[0] if examples[0] is not None else _example(options, node.get("default")), leaf,
    )  # fmt: skip


def _plain(node: Mapping[str, Any], defs: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a reference stands for, and the only option beside null."""
    while True:
        if "$ref" in node:
            target = defs[node["$ref"].rsplit("/", 1)[-1]]
            node = {**target, **{k: v for k, v in node.items() if k != "$ref"}}
            continue
        real = [each for each in node.get("anyOf", ()) if each.get("type") != "null"]
        if len(real) == 1:
            rest = {k: v for k, v in node.items() if k != "anyOf"}
            node = {**real[0], **rest}
            continue
        return node


def _options(node: Mapping[str, Any], defs: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = [*node.get("anyOf", ()), *node.get("oneOf", ())]
    return [_plain(each, defs) for each in found if each.get("type") != "null"]


def _is_mapping(node: Mapping[str, Any], defs: Mapping[str, Any]) -> bool:
    """Whether it is a mapping with keys of ours, or a union of such."""
    node = _plain(node, defs)
    options = _options(node, defs) or [node]
    return all("properties" in each and not _is_law(each) for each in options)


def _tag(node: Mapping[str, Any]) -> tuple[str, str]:
    """The key that tells a mapping of a union from the others, and its value; empty: none."""
    for key in ("kind", "role"):
        of = node.get("properties", {}).get(key, {})
        names = [of["const"]] if "const" in of else of.get("enum", [])
        if names:
            return key, ", ".join(map(str, names))
    return "", ""


def _is_law(node: Mapping[str, Any]) -> bool:
    return "lognormal" in node.get("properties", {})


WORDS = {
    "string": "text", "integer": "a whole number", "number": "a number", "boolean": "true or false",
    "array": "a list", "object": "a mapping", "null": "nothing",
}  # fmt: skip


def _type(node: Mapping[str, Any], options: Iterable[Mapping[str, Any]]) -> str:
    found = []
    for each in options:
        kinds = each.get("type", "object" if "properties" in each else "")
        if _is_law(each):
            found.append("a law: " + ", ".join(each["properties"]))
        elif "unit" in each:
            found.append("a number, or text with a unit")
        elif isinstance(kinds, list):
            found.append(" or ".join(WORDS[k] for k in kinds if k != "null"))
        elif "enum" in each or "const" in each:
            found.append("a name")
        elif kinds:
            found.append(WORDS[kinds])
    return " or ".join(dict.fromkeys(filter(None, found))) or "anything"


def _allowed(options: Iterable[Mapping[str, Any]]) -> str:
    found: list[str] = []
    for each in options:
        if "const" in each:
            found.append(str(each["const"]))
        elif "enum" in each:
            found += [str(e) for e in each["enum"] if e is not None]
        elif _tag(each)[1]:
            found.append(": ".join(_tag(each)))
        bounds = _bounds(each)
        if bounds and "examples" not in each.get("items", {}):
            found.append(bounds)
    return ", ".join(dict.fromkeys(found))


def _bounds(of: Mapping[str, Any]) -> str:
    low, above, high = (of.get(k) for k in ("minimum", "exclusiveMinimum", "maximum"))
    least = f"more than {above:,g}" if above is not None else ""
    if low is not None:
        least = f"{low:,}" if high is not None else f"{low:,} or more"
    if high is None:
        return least
    return f"{least} to {high:,}" if low is not None else f"{least}, at most {high:,g}"


def _example(options: Iterable[Mapping[str, Any]], default: Any) -> Any:
    """A value that may stand there: the default, a name of those allowed, a bound."""
    if default not in (None, "", {}, []):
        return default
    for each in options:
        if "const" in each:
            return each["const"]
        if "enum" in each:
            return each["enum"][0]
        if each.get("type") == "integer":
            return max(int(each.get("minimum", 1)), 1)
        if each.get("type") == "boolean":
            return True
        if each.get("type") == "number":
            return (
                each.get("maximum", 2 * each.get("minimum", each.get("exclusiveMinimum", 1)) + 2)
                / 2
            )
    return None


# --- finding one --------------------------------------------------------------------------------


def found(asked: str, keys: Iterable[Key]) -> list[Key]:
    """The keys that a dotted path names: NAME stands for any step; whole, or the end of one."""
    steps = asked.split(".")
    keys = list(keys)
    whole = [k for k in keys if _fits(steps, k.path.split("."))]
    if whole:
        return whole
    ends = [(k, k.path.split(".")[-len(steps) :]) for k in keys if steps != [NAME]]
    return [k for k, end in ends if _fits(steps, end) and end[-1] != NAME]


def _fits(steps: list[str], path: list[str]) -> bool:
    return len(steps) == len(path) and all(
        a == b or b == NAME for a, b in zip(steps, path, strict=True)
    )


def nearest(asked: str, names: Iterable[str], count: int = 3) -> list[str]:
    """The names that come nearest: by the whole path, by its last step, or that hold the word."""
    names = list(dict.fromkeys(names))
    plain = re.sub(r"\s+", "", asked)[:200]
    last: dict[str, str] = {}
    for name in names:
        last.setdefault(name.rsplit(".", 1)[-1], name)
    close = difflib.get_close_matches(plain, names, n=count, cutoff=0.6)
    ends = difflib.get_close_matches(plain.rsplit(".", 1)[-1], last, n=count, cutoff=0.7)
    holds = [name for name in names if len(plain) > 2 and plain in name.rsplit(".", 1)[-1]]
    return list(dict.fromkeys([*close, *(last[each] for each in ends), *holds]))[:count]
