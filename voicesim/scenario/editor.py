"""The JSON Schema of a scenario file, for editors and for ``voicesim explain``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel

from voicesim import schemas

from .errors import bare, branches, is_model
from .loader import VARIANT
from .schema import Scenario

DIALECT = "https://json-schema.org/draft/2020-12/schema"
FILE = "voicesim.schema.json"
"""Name under which ``voicesim new`` puts the schema beside a scenario."""


def modeline(schema: str) -> str:
    """The first line of a scenario by which VS Code's YAML extension finds the schema.

    https://github.com/redhat-developer/yaml-language-server#using-inlined-schema
    """
    return f"# yaml-language-server: $schema={schema}"


def json_schema() -> dict[str, Any]:
    """JSON Schema of a scenario file, variants included.

    A quantity that may have a unit has the keyword ``unit`` too: what a bare number is in.
    """
    schema = Scenario.model_json_schema()
    models = {model.__name__: model for model in _models(Scenario)}
    for name, part in [("", schema), *schema.get("$defs", {}).items()]:
        model = Scenario if not name else models.get(name)
        for field, of in part.get("properties", {}).items() if model else ():
            # pydantic drops the description beside a bare reference
            about = model.model_fields[field].description if model else None
            part["properties"][field] = {"description": about, **of} if about else of
            part["properties"][field].pop("title", None)
            _write_law(part["properties"][field])
    schema["properties"]["variants"] = {
        "type": "object",
        "description": "Overrides of the base by dotted path, under a name each; the first is "
        "the baseline; default one variant, base.",
        "propertyNames": {"pattern": f"^{VARIANT}$"},
        "additionalProperties": {"type": ["object", "null"]},
    }
    major, _ = schemas.VERSIONS["scenario"]
    schema["properties"] = {
        "schema": {
            "type": "string",
            "pattern": rf"^voicesim-scenario/{major}(\.\d{{1,6}})?$",
            "description": f"The form of the file: {schemas.current('scenario')}; default that of "
            "the voicesim that reads it.",
        },
        **schema["properties"],
    }
    return {"$schema": DIALECT, **schema, "title": "voicesim scenario"}


def _write_law(of: dict[str, Any]) -> None:
    """The default of a law as a file writes it."""
    default = of.get("default")
    if isinstance(default, dict) and set(default) == {"kind", "params"}:
        params = default["params"]
        of["default"] = params["value"] if default["kind"] == "constant" else {
            default["kind"]: params
        }  # fmt: skip


def _models(kind: Any, seen: set[Any] | None = None) -> Iterator[type[BaseModel]]:
    """A mapping and all mappings below it."""
    seen = set() if seen is None else seen
    kind = bare(kind)
    if is_model(kind):
        if kind in seen:
            return
        seen.add(kind)
        yield kind
        for field in kind.model_fields.values():
            yield from _models(field.annotation, seen)
        return
    for each in [*branches(kind).values(), *_inner(kind)]:
        yield from _models(each, seen)


def _inner(kind: Any) -> list[Any]:
    return [each for each in get_args(kind) if each is not type(None)]
