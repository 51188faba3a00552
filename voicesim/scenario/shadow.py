"""What is wrong with shadow policies: those that could not decide, or about nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from .dialogue import Dialogue
from .errors import Path
from .policies import Shadow


def shadow(s: Any) -> Iterator[tuple[Path, str]]:
    """(path, sentence) for what is wrong with the shadows of a scenario."""
    given, at = s.policies.shadow, ("policies", "shadow")
    if not isinstance(given, dict) or not given:
        return
    calls = isinstance(s.workload, Dialogue)
    for name, each in given.items():
        where: Path = (*at, name)
        if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
            yield where, "a name is made of letters, digits, - and _"
        if not isinstance(each, Shadow):
            continue
        if not each.model_fields_set:
            yield where, "decides nothing; give admission, routing or endpointing"
        for knob in ("admission", "routing"):
            if calls and knob in each.model_fields_set:
                yield (*where, knob), "never used: of a dialogue only endpointing has a shadow"
        if not calls and "endpointing" in each.model_fields_set:
            yield (*where, "endpointing"), "never used: only a dialogue has an endpointing"
        if each.routing is not None and each.routing.kind == "least_calls":
            yield (*where, "routing"), "calls are not pinned for a shadow; give another kind"
        for knob in ("pinned", "age"):
            if getattr(each.routing, knob, 0):
                text = "never used: a shadow sees the replicas as they are"
                yield (*where, "routing", knob), text
    if calls:
        return
    if len(s.cluster.pools) > 1 or s.cluster.regions:
        yield at, "a shadow watches one pool without regions; the scenario has more"
    if getattr(s.policies.routing, "pinned", False):
        yield at, "cannot decide about calls that are pinned (policies.routing.pinned)"
    if getattr(s.policies.routing, "age", 0) > 0:
        yield at, "cannot decide by readings that are out of date (policies.routing.age)"
