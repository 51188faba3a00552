"""From a YAML file to scenarios: read with line numbers, override, validate, list all problems.

A file is one scenario plus ``variants``, each a set of overrides by dotted path.  The reader
keeps the line of every key, so that each problem points at what the user wrote, be it in the
base, in a variant or on the command line.
"""

from __future__ import annotations

import copy
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path as FilePath
from typing import Any, get_origin

import yaml
from pydantic import ValidationError

from voicesim import schemas

from .alarms import Alarm, Rules
from .checks import contradictions, partial, unused
from .errors import (
    Path,
    Problem,
    ScenarioErrors,
    bare,
    branches,
    child,
    chosen,
    explain,
    is_model,
    shown,
    unknown,
)
from .schema import Scenario
from .units import Distribution, near_file

MOST_NODES = 200_000
MOST_BYTES = 5_000_000
DEEPEST = 60
MOST_VARIANTS = 1000
VARIANT = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"
"""Names of variants: they are names of files too."""
BASE = "base"
"""Name of the only variant of a file that has none."""
BESIDE = ("schema", "variants")
"""Keys at the top of a file that are of the file, not of the scenario."""


@dataclass(frozen=True)
class Mark:
    """Where a value was written, and the key above it when that was an override."""

    file: str
    line: int
    above: str = ""


@dataclass(frozen=True)
class ScenarioFile:
    """A scenario file as read: its variants in order, the first being the baseline."""

    path: FilePath
    variants: dict[str, Scenario] = field(default_factory=dict)

    @property
    def baseline(self) -> str:
        """Name of the variant that the others are compared with."""
        return next(iter(self.variants))

    def resolved(self) -> dict[str, Any]:
        """Each variant in full, all defaults written out, as plain data for YAML."""
        return {name: scenario.resolved() for name, scenario in self.variants.items()}

    def resolved_yaml(self) -> bytes:
        """``resolved`` as the scenario.yaml of a folder."""
        text = yaml.safe_dump(self.resolved(), sort_keys=False, allow_unicode=True)
        return str(text).encode()


def load(
    path: str | FilePath,
    sets: Sequence[str] = (),
    seed: int | None = None,
    replications: int | None = None,
    change: Callable[[Tree], None] | None = None,
) -> ScenarioFile:
    """Read a scenario file; ``sets`` are overrides ``a.b=value`` of the base, value in YAML.

    change: made to the file as read, before them.  Raises ScenarioErrors with everything that is
    wrong.
    """
    path = FilePath(path)
    return loads(_content(path), path, sets, seed, replications, change=change)


def load_rules(path: str | FilePath) -> list[Alarm]:
    """Read a file of alert rules: ``alarms:`` as in a scenario.  Raises ScenarioErrors."""
    path = FilePath(path)
    tree = read(_content(path), path.name)
    problems = list(tree.problems)
    try:
        rules = Rules.model_validate(tree.data, context={"base": path.parent})
    except ValidationError as error:
        found = explain(Rules, error.errors(include_url=False))
        problems += [tree.problem(where, message) for where, message in found]
    if problems:
        raise ScenarioErrors(problems)
    return rules.alarms


def _content(path: FilePath) -> bytes:
    try:
        mode = path.stat()
        if not (stat.S_ISREG(mode.st_mode) or stat.S_ISDIR(mode.st_mode)):
            raise ScenarioErrors([Problem(str(path), 0, "", "is no file (a device or a pipe)")])
        if mode.st_size > MOST_BYTES:
            raise ScenarioErrors([Problem(path.name, 0, "", f"is larger than {MOST_BYTES} bytes")])
        return path.read_bytes()
    except (OSError, ValueError) as error:
        words = getattr(error, "strerror", None) or str(error)
        if isinstance(error, FileNotFoundError):
            words += near_file(str(path), [FilePath()])
        raise ScenarioErrors([Problem(str(path), 0, "", f"cannot be read: {words}")]) from None


def loads(
    content: str | bytes,
    path: str | FilePath = "scenario.yaml",
    sets: Sequence[str] = (),
    seed: int | None = None,
    replications: int | None = None,
    beside: Sequence[Scenario] = (),
    change: Callable[[Tree], None] | None = None,
) -> ScenarioFile:
    """As ``load``, from text; ``path`` says where it belongs.

    beside: scenarios of the same study: what one of them uses is not refused as unused.
    """
    path = FilePath(path)
    base = read(content, path.name)
    problems = list(base.problems)
    newer = _schema(base)
    if change is not None:
        change(base)
    variants = _variants(base, problems)
    for text in sets:
        problems += _set(base, text)
    names = list(variants)
    above: dict[Path, dict[Path, Mark]] = {}
    for where, mark in base.marks.items():
        if where[:1] == ("variants",):
            above.setdefault(where[:3], {})[where[3:]] = mark
    plain = Tree(base.data, {k: v for k, v in base.marks.items() if k[:1] != ("variants",)}, [])
    trees = [_override(plain, variants[each], each, above, problems) for each in names]
    for key, value in (("seed", seed), ("replications", replications)):
        if value is not None:
            for tree in trees:
                tree.put((key,), value, {(): Mark(f"--{key}", 0)})
    context = {"base": path.parent}
    scenarios: list[Any] = []
    for tree in trees:
        scenario, found = _validate(tree, context)
        scenarios.append(scenario)
        problems += found
    problems += [trees[0].problem(where, text) for where, text in unused([*scenarios, *beside])]
    if problems:
        if newer is not None:  # explains what else is wrong
            problems.append(base.problem(("schema",), newer))
        raise ScenarioErrors(sorted(dict.fromkeys(problems), key=lambda p: (p.file, p.line)))
    schemas.warn(path.name, newer)
    return ScenarioFile(path, dict(zip(names, scenarios, strict=True)))


def _validate(tree: Tree, context: dict[str, Any]) -> tuple[Any, list[Problem]]:
    """The scenario, whole or partial, and the problems in it."""
    try:
        scenario = Scenario.model_validate(tree.data, context=context)
        found: list[tuple[Path, str]] = []
    except ValidationError as error:
        found = list(explain(Scenario, error.errors(include_url=False), BESIDE))
        scenario = partial(Scenario, tree.data, context)
    found += contradictions(scenario)
    return scenario, [tree.problem(where, message) for where, message in found]


# The tree of plain data with its marks.


@dataclass
class Tree:
    """Plain data, where each part of it was written, and what was wrong with the writing."""

    data: dict[str, Any]
    marks: dict[Path, Mark]
    problems: list[Problem]

    def problem(self, where: Path, message: str) -> Problem:
        """A problem at a path, on the line of the nearest thing written."""
        known = where
        while known and known not in self.marks:
            known = known[:-1]
        mark = self.marks.get(known, Mark("", 0))
        key = ".".join(map(str, where))
        return Problem(mark.file, mark.line, f"{mark.above}{key}", message)

    def copy(self) -> Tree:
        return Tree(copy.deepcopy(self.data), dict(self.marks), [])

    def put(self, path: Path, value: Any, marks: dict[Path, Mark]) -> None:
        """Replace the node at ``path``, making the mappings above it where there are none."""
        node: Any = self.data
        for i, step in enumerate(path[:-1]):
            if isinstance(node, dict) and node.get(step) is None:
                node[step] = {}
                self.marks.setdefault(path[: i + 1], marks[()])
            node = node[step]
        node[path[-1]] = value
        if path in self.marks:
            self.marks = {k: v for k, v in self.marks.items() if k[: len(path)] != path}
        self.marks |= {path + below: mark for below, mark in marks.items()}


def _schema(base: Tree) -> str | None:
    """Take the form of the file out of the base; a note if it is of a newer minor version.

    Of another major nothing else is read: what it says of every key would mislead.
    """
    if "schema" not in base.data:
        return None
    try:
        return schemas.understood(base.data.pop("schema"), "scenario")
    except schemas.SchemaError as error:
        raise ScenarioErrors([base.problem(("schema",), str(error))]) from None


def _variants(base: Tree, problems: list[Problem]) -> dict[str, dict[str, Any]]:
    """Take the variants out of the base."""
    found = base.data.pop("variants", None)
    if found is None:
        return {BASE: {}}
    if found == {}:
        text = "is empty; name at least one variant or leave the key out"
        problems.append(base.problem(("variants",), text))
        return {BASE: {}}
    if not isinstance(found, dict):
        text = f"expected a mapping (name: overrides); found {shown(found)}"
        problems.append(base.problem(("variants",), text))
        return {BASE: {}}
    if len(found) > MOST_VARIANTS:
        text = f"at most {MOST_VARIANTS} variants; found {len(found)}"
        raise ScenarioErrors([*problems, base.problem(("variants",), text)])
    variants = {}
    for name, overrides in found.items():
        if not re.fullmatch(VARIANT, name) or ".." in name:
            text = (
                f"the name {shown(name)} cannot name a file: use letters, digits, _, - and "
                "single dots, a letter or digit first, 64 at most"
            )
            problems.append(replace(base.problem(("variants", name), text), key="variants"))
        if overrides is not None and not isinstance(overrides, dict):
            text = f"expected a mapping (dotted.path: value); found {shown(overrides)}"
            problems.append(base.problem(("variants", name), text))
            overrides = None
        variants[name] = overrides or {}
    return variants


def _override(
    base: Tree,
    overrides: dict[str, Any],
    name: str,
    lines: dict[Path, dict[Path, Mark]],
    problems: list[Problem],
) -> Tree:
    """The base with the overrides of one variant; ``lines``: where each override is written."""
    tree = base.copy()
    for dotted, value in overrides.items():
        merged = lines.get(("variants", name)) or {(): base.marks[()]}
        written = lines.get(("variants", name, dotted)) or merged
        marks = {
            below: Mark(mark.file, mark.line, f"variants.{name}.")
            for below, mark in written.items()
        }
        message = _assign(tree, dotted, copy.deepcopy(value), marks)
        if message:
            key = f"variants.{name}.{dotted}"
            problems.append(Problem(marks[()].file, marks[()].line, key, message))
    return tree


def _set(base: Tree, text: str) -> Iterator[Problem]:
    """Apply one ``--set a.b=value`` to the base."""
    dotted, equals, written = text.partition("=")
    source = f"--set {text}" if len(text) <= 80 else f"--set {text[:77]}..."
    if not equals or not dotted.strip():
        yield Problem(source, 0, "", "expected dotted.path=value")
        return
    try:
        written_as = read(f"value: {written}", source)
    except ScenarioErrors as errors:
        for problem in errors.problems:
            words = problem.message.removeprefix("not YAML: ")
            yield Problem(source, 0, dotted, f"the value is not YAML: {words}")
        return
    if written_as.problems or set(written_as.data) != {"value"}:
        yield Problem(source, 0, dotted, "the value is not YAML")
        return
    marks = {key[1:]: Mark(source, 0) for key in written_as.marks if key[:1] == ("value",)}
    message = _assign(base, dotted.strip(), written_as.data["value"], marks)
    if message:
        yield Problem(source, 0, dotted.strip(), message)


def _assign(tree: Tree, dotted: str, value: Any, marks: dict[Path, Mark]) -> str | None:
    """Put a value at a dotted path; a sentence if there is no such place."""
    path: Path = ()
    kind: Any = Scenario
    node: Any = tree.data
    steps = dotted.split(".")
    for i, step in enumerate(steps):
        if isinstance(node, list) or (node is None and get_origin(bare(kind)) is list):
            node = node or []
            if not re.fullmatch(r"\d{1,6}", step, re.ASCII) or int(step) >= len(node):
                return unknown(step, range(len(node)), f"unknown position {shown(step)}")
            key: Any = int(step)
        else:
            if node is not None and not isinstance(node, dict):
                return f"{'.'.join(steps[:i])} is {shown(node)}, so it has no {shown(step)}"
            allowed = _names(kind, node)
            what = f"unknown key {shown(step)}"
            last = i == len(steps) - 1
            if allowed is not None and step not in allowed and not (last and _open(kind)):
                return unknown(step, _names(chosen(kind, node), node) or (), what)
            key = step
        path += (key,)
        node = node[key] if isinstance(node, list) else (node or {}).get(key)
        kind = child(kind, key)
    tree.put(path, value, marks)
    return None


def misplaced(scenario: Scenario, dotted: str) -> str | None:
    """Why a scenario has no such key, with the nearest that it has; None if it has."""
    return _assign(Tree(scenario.resolved(), {}, []), dotted, None, {(): Mark("", 0)})


def _names(kind: Any, node: Any) -> list[str] | None:
    """Keys that may stand in a mapping of this type; None: any."""
    kind = bare(kind)
    if is_model(kind):
        return list(kind.model_fields)
    models = branches(kind)
    if models:
        return list(dict.fromkeys(name for m in models.values() for name in m.model_fields))
    if kind is Distribution or get_origin(kind) is dict:
        return list(node or {})
    return None


def _open(kind: Any) -> bool:
    """Whether new names may be added to a mapping of this type."""
    kind = bare(kind)
    return not is_model(kind) and not branches(kind) and kind is not Distribution


# YAML.


def read(content: str | bytes, name: str) -> Tree:
    """Plain data of a YAML mapping, with the line of each key; raises when it is no YAML."""
    try:
        text = content.decode("utf-8-sig") if isinstance(content, bytes) else content
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        message = "the file is not UTF-8 text here; save it as UTF-8"
        raise ScenarioErrors([Problem(name, line, "", message)]) from None
    try:
        loader = _Loader(text)
        root = loader.get_single_node()
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, max(error.position, 0)) + 1
        message = f"the character {chr(error.character)!a} is not allowed in YAML"
        raise ScenarioErrors([Problem(name, line, "", message)]) from None
    except yaml.MarkedYAMLError as error:
        raise ScenarioErrors([_syntax(error, text, name)]) from None
    except (RecursionError, ValueError, IndexError, KeyError, AttributeError, TypeError):
        # slips of the YAML reader on broken input
        raise ScenarioErrors([Problem(name, 0, "", "this is not YAML")]) from None
    if root is None:
        raise ScenarioErrors([Problem(name, 1, "", "the file is empty")])
    if not isinstance(root, yaml.MappingNode):
        message = "expected a mapping (key: value) at the top"
        raise ScenarioErrors([Problem(name, root.start_mark.line + 1, "", message)])
    plain = _Plain(name)
    data = plain.value(root, ())
    return Tree(data, plain.marks, plain.problems)


class _Loader(yaml.SafeLoader):
    """Composes nodes only, and stops at a file too large or too deep to be a scenario."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.nodes = self.depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        self.nodes += 1
        self.depth += 1
        mark = self.peek_event().start_mark
        if self.nodes > MOST_NODES:
            raise yaml.MarkedYAMLError(problem="too many values", problem_mark=mark)
        if self.depth > DEEPEST:
            raise yaml.MarkedYAMLError(problem="nested too deep", problem_mark=mark)
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


def _syntax(error: yaml.MarkedYAMLError, text: str, name: str) -> Problem:
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark else 0
    message = error.problem or "this is not YAML"
    lines = text.splitlines()
    if "'\\t'" in message or (0 < line <= len(lines) and re.match(r" *\t", lines[line - 1])):
        message = "a tab; YAML is indented with spaces"
    elif "another document" in message or "single document" in (error.context or ""):
        message = "a second document begins here; a scenario is one document"
    elif error.problem:
        message = f"not YAML: {message}" + (f" ({error.context})" if error.context else "")
    return Problem(name, line, "", message)


class _Plain:
    """Turns nodes into plain data, noting lines and listing what cannot be taken."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.marks: dict[Path, Mark] = {(): Mark(name, 1)}
        self.problems: list[Problem] = []
        self.count = 0
        self.open: set[int] = set()

    def wrong(self, node: yaml.Node, path: Path, message: str) -> None:
        key = ".".join(map(str, path))
        self.problems.append(Problem(self.name, node.start_mark.line + 1, key, message))

    def value(self, node: yaml.Node, path: Path) -> Any:
        self.count += 1
        if self.count > MOST_NODES or len(path) > DEEPEST:
            self.wrong(node, path, "too many values; are aliases nested?")
            raise ScenarioErrors(self.problems)
        if isinstance(node, yaml.ScalarNode):
            return self.scalar(node, path)
        if id(node) in self.open:
            self.wrong(node, path, "an alias to the mapping that it stands in")
            return None
        self.open.add(id(node))
        try:
            if isinstance(node, yaml.MappingNode):
                return self.mapping(node, path)
            return [self.item(each, (*path, i)) for i, each in enumerate(node.value)]
        finally:
            self.open.discard(id(node))

    def item(self, node: yaml.Node, path: Path) -> Any:
        self.marks[path] = Mark(self.name, node.start_mark.line + 1)
        return self.value(node, path)

    def mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        if node.tag != "tag:yaml.org,2002:map":
            self.wrong(node, path, f"the tag {node.tag} is not supported")
        data: dict[str, Any] = {}
        first: dict[str, int] = {}
        merged: list[dict[str, Any]] = []
        for key, inner in node.value:
            line = key.start_mark.line + 1
            name = key.value if isinstance(key, yaml.ScalarNode) else None
            if not name:
                self.wrong(key, path, "a key must be plain text")
            elif name in first:
                self.wrong(key, (*path, name), f"given twice; first on line {first[name]}")
            elif key.tag == "tag:yaml.org,2002:merge":
                value = self.value(inner, path)
                for each in value if isinstance(value, list) else [value]:
                    if isinstance(each, dict):
                        merged.append(each)
                    else:
                        self.wrong(key, path, "<< takes a mapping or a list of them")
            else:
                first[name] = line
                self.marks[*path, name] = Mark(self.name, line)
                data[name] = self.value(inner, (*path, name))
        for each in merged:
            for name, value in each.items():
                data.setdefault(name, value)
        return data

    def scalar(self, node: yaml.ScalarNode, path: Path) -> Any:
        text, tag = node.value, node.tag.removeprefix("tag:yaml.org,2002:")
        if tag == "null":
            return None
        if tag == "bool":
            return text.lower() in ("yes", "true", "on")
        if tag in ("int", "float"):
            return _numeral(text)
        if tag not in ("str", "timestamp", "merge", "value"):
            self.wrong(node, path, f"the tag {node.tag} is not supported")
        return text


def _numeral(text: str) -> int | float | str:
    """A number, or the text itself for what only looks like one (12:30 is not 750)."""
    plain = text.replace("_", "")
    for kind in (int, float):
        try:
            return kind(plain)
        except ValueError:
            continue
    return {".inf": float("inf"), "-.inf": -float("inf"), ".nan": float("nan")}.get(
        plain.lower(), text
    )
