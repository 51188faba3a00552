"""A page of every key of a scenario, from its JSON Schema: for the site (docs/hooks.py)."""

import re
from typing import Any

UNITS = {
    "250ms": "s", "40min": "s", "2.5/s": "per s", "45/min": "per s", "2.65/h": "money per h",
    "80GB": "bytes",
}  # fmt: skip
"""The unit of a quantity, by the example that its type gives in the schema."""


def scenario_keys(schema: dict[str, Any]) -> str:
    """A section per mapping of the file, in its order, with a table of its keys."""
    lines: list[str] = []
    seen: set[str] = set()

    def section(path: str, part: dict[str, Any], note: str = "") -> None:
        if (mark := f"{part.get('title')} {note}") in seen:
            return
        seen.add(mark)
        title = f"`{path}{note}`" if path else "The file"
        anchor = re.sub(r"[^a-z0-9_.]+", "-", f"{path or 'file'}{note}".lower()).strip("-")
        lines.extend([f"## {title} {{#{anchor}}}", "", part.get("description", ""), ""])
        lines.extend(["| key | type | unit | default | what |", "|---|---|---|---|---|"])
        below: list[tuple[str, str]] = []
        for key, found in part.get("properties", {}).items():
            lines.append(_row(key, found, key in part.get("required", ()), part))
            inner = f"{path}.{key}".strip(".")
            inner += ".NAME" if _names(found) else "[]" if found.get("type") == "array" else ""
            below += [(inner, name) for name in _references(found)]
        lines.append("")
        for inner, name in below:
            beside = [schema["$defs"][each] for at, each in below if at == inner]
            section(inner, schema["$defs"][name], _which(schema["$defs"][name], beside))

    section("", schema)
    return "\n".join(lines)


def _which(part: dict[str, Any], beside: list[dict[str, Any]]) -> str:
    """What tells a mapping from the others that may stand in its place: its kind, else the keys
    that only it needs."""
    if len(beside) == 1:
        return ""
    if kind := part.get("properties", {}).get("kind", {}).get("const"):
        return f": {{kind: {kind}}}"
    common = set.intersection(*(set(each.get("required", ())) for each in beside))
    own = [key for key in part.get("required", ()) if key not in common]
    return f" with {', '.join(own)}" if own else ""


def _references(found: dict[str, Any]) -> list[str]:
    """The parts that a key may hold, in the order of the schema."""
    names = re.findall(r"'\$ref': '#/\$defs/(\w+)'", str({**found, "discriminator": None}))
    return list(dict.fromkeys(names))


def _names(found: dict[str, Any]) -> bool:
    """Whether the key holds a mapping by names of the user's own."""
    return isinstance(found.get("additionalProperties"), dict)


def _row(key: str, found: dict[str, Any], required: bool, part: dict[str, Any]) -> str:
    text = found.get("description", "")
    told = re.search(r"[;.,] +[Dd]efault:? (.+?)\.?$", text)
    default = "required" if required else ""
    if told and not required:
        default, text = told[1], text[: told.start()] + "."
    elif not required and "const" in found:
        default = f"`{found['const']}`"
    kind = _type(found)
    cells = [f"`{key}`", kind, _unit(found, text), default, re.sub(r" \(s\)", "", text)]
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def _unit(found: dict[str, Any], text: str) -> str:
    example = re.search(r"'examples': \['([^']+)'", str(found))
    if example:
        return UNITS[example[1]]
    return "s" if found.get("type") != "string" and re.search(r"\(s[,)]", text) else ""


def _type(found: dict[str, Any]) -> str:
    options = found.get("anyOf") or found.get("oneOf") or [found]
    if any(_law(option) for option in options):
        return "number or law"
    words = [_one(option) for option in options if option.get("type") != "null"]
    return " or ".join(dict.fromkeys(word for word in words if word)) or "mapping"


def _one(found: dict[str, Any]) -> str:
    if "const" in found:
        return f"`{found['const']}`"
    if "enum" in found:
        names = [f"`{name}`" for name in found["enum"] if name is not None]
        shown = names if len(names) <= 9 else [*names[:3], "… (`voicesim profiles`)"]
        return ", ".join(shown)
    if "anyOf" in found:
        return _type(found)
    if found.get("examples"):
        return f"quantity, as `{found['examples'][0]}`"
    limits = _limits(found)
    kind = found.get("type")
    if kind == "array":
        return f"list of {_one(found.get('items', {})) or 'mappings'}"
    names = {"integer": "whole number", "number": "number", "boolean": "true or false",
             "string": "text", "object": "mapping"}  # fmt: skip
    if isinstance(kind, list):
        return "quantity" if "number" in kind else "mapping"
    return (names.get(kind, "") if kind else "") + limits


def _law(found: dict[str, Any]) -> bool:
    return found.get("maxProperties") == 1 and found.get("type") == "object"


def _limits(found: dict[str, Any]) -> str:
    low, high = found.get("minimum", found.get("exclusiveMinimum")), found.get("maximum")
    if low is None or "properties" in found:
        return ""
    over = "over" if "exclusiveMinimum" in found else "from"
    return f", {over} {low:,}" + (f" to {high:,}" if high is not None else "")
