"""The scenario file behind the page: its variants as written, and as the sliders move them.

A moved setting is a variant like any other, overrides by dotted path that the scenario loader
reads; so what is played is what the copied YAML says.
"""

import copy
import re
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from voicesim.scenario import Scenario, ScenarioFile, load, loads
from voicesim.scenario.loader import BASE, VARIANT, Tree, read
from voicesim.simulation import checked

Overrides = Mapping[str, Any]
"""Values by dotted path, as a scenario file would have them, in the order they are made."""


class Source:
    """A file as it was read at the start, under ``--set`` and ``--seed``.

    Raises ScenarioErrors or ModelError with everything that is wrong with it.
    """

    def __init__(self, path: Path, sets: Sequence[str] = (), seed: int | None = None):
        written: dict[str, Any] = {}

        def keep(tree: Tree) -> None:
            written.update(copy.deepcopy(tree.data.get("variants") or {}))

        self.file: ScenarioFile = checked(load(path, sets, seed, change=keep))
        self.path, self.sets, self.seed = path, tuple(sets), seed
        self._text = path.read_bytes()
        self._written = {name: dict(written.get(name) or {}) for name in self.variants}

    @property
    def variants(self) -> dict[str, Scenario]:
        """Every variant as written, by name."""
        return self.file.variants

    def moved(self, variant: str, *moves: Overrides) -> Scenario:
        """A variant with overrides on top, later ones over earlier.  Raises ScenarioErrors."""
        name = self.name_of(variant)
        overrides = _joined(self._written[variant], *moves)

        def put(tree: Tree) -> None:
            tree.data["variants"] = {name: overrides}

        beside = list(self.variants.values())
        file = loads(self._text, self.path, self.sets, self.seed, beside=beside, change=put)
        return file.variants[name]

    def name_of(self, variant: str) -> str:
        """What a variant is called once it is moved: a name that the file has not."""
        stem = ("" if variant == BASE else f"{variant}_")[:50] + "explored"
        assert re.fullmatch(VARIANT, stem)
        names = [stem, *(f"{stem}_{i}" for i in range(2, len(self.variants) + 3))]
        return next(name for name in names if name not in self.variants)

    def block(self, variant: str, moves: Overrides) -> str:
        """The moved variant as a ``variants:`` block (YAML) for this file.

        ``--set`` and ``--seed`` are in it, so the file alone gives the same setting.
        """
        given = {key: read(f"value: {text}", "--set").data["value"] for key, text in self._sets()}
        seed = {} if self.seed is None else {"seed": self.seed}
        found = _joined(given, self._written[variant], moves, seed)
        head = f"variants:\n  {self.name_of(variant)}:"
        if not found:
            return f"{head} {{}}\n"
        return f"{head}\n" + "".join(_line(key, value) for key, value in found.items())

    def _sets(self) -> list[tuple[str, str]]:
        pairs = [text.partition("=") for text in self.sets]
        return [(key.strip(), value) for key, _, value in pairs]


def _line(key: str, value: Any) -> str:
    """An override on a line of its own, a mapping or list of plain values in braces."""
    inner = isinstance(value, dict | list)
    text = yaml.safe_dump(
        {key: value}, sort_keys=False, default_flow_style=None if inner else False,
        allow_unicode=True, width=1000,
    )  # fmt: skip
    return textwrap.indent(text, "    ")


def _joined(*all_overrides: Overrides) -> dict[str, Any]:
    """Overrides one after the other; a key that comes again moves to the end, and one within a
    mapping that is already there goes into it."""
    found: dict[str, Any] = {}
    for overrides in all_overrides:
        for key, value in overrides.items():
            found.pop(key, None)
            above, _, last = key.rpartition(".")
            if isinstance(found.get(above), dict):
                found[above][last] = copy.deepcopy(value)
            else:
                found[key] = copy.deepcopy(value)
    return found
