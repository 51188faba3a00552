"""The numbers of a profile, where each may move, and the profile with one of them moved."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from voicesim.engine.profile import Profile, Quantity
from voicesim.experiment.metrics import ExperimentError

GIVEN, INTERVAL = "given", "interval"


@dataclass(frozen=True)
class Move:
    """A number of a profile, the two values it is moved to, and why these."""

    key: str
    value: float
    low: float
    high: float
    why: str


@dataclass(frozen=True)
class Still:
    """A number of a profile that is not moved: it carries no interval."""

    key: str
    value: float
    origin: str


def quantities(part: BaseModel, above: str = "") -> Iterator[tuple[str, Quantity]]:
    """Every number with an origin in a profile, by its dotted name: decode.memory_s, ..."""
    for name in type(part).model_fields:
        inner = getattr(part, name)
        if isinstance(inner, Quantity):
            yield above + name, inner
        elif isinstance(inner, BaseModel):
            yield from quantities(inner, f"{above}{name}.")


def moves(
    profile: Profile, assume: float | None, given: Mapping[str, tuple[float, float]]
) -> tuple[list[Move], list[Still]]:
    """Where each number moves, and those that stay.

    To the ends that are ``given``, else of its own interval; else, where ``assume`` is a share,
    by that share of its value, unless it is zero or was read off the data (measured).
    """
    moved: list[Move] = []
    still: list[Still] = []
    for key, q in quantities(profile):
        if key in given:
            moved.append(Move(key, q.value, *given[key], GIVEN))
        elif q.low is not None and q.high is not None and q.low != q.high:
            if q.low > q.high:
                raise ExperimentError(
                    f"profile {profile.name}: {key}: low ({q.low:g}) is above high ({q.high:g})"
                )
            moved.append(Move(key, q.value, _possible(key, q.low), q.high, INTERVAL))
        elif assume is not None and q.value != 0.0 and q.origin != "measured":
            low, high = q.value * (1.0 - assume), q.value * (1.0 + assume)
            moved.append(
                Move(key, q.value, _possible(key, low), high, f"±{100 * assume:g} % assumed")
            )
        else:
            still.append(Still(key, q.value, q.origin))
    return moved, still


def _possible(key: str, low: float) -> float:
    """An end that a profile may have: a slowdown is 1 or more, the others 0 or more."""
    return max(low, 1.0 if key.startswith("sharing.") else 0.0)


def perturbed(profile: Profile, key: str, value: float) -> Profile:
    """The profile with one number moved.  Raises ExperimentError for a value it cannot have."""
    data = profile.model_dump(by_alias=True)
    part: Any = data
    *above, name = key.split(".")
    for step in above:
        part = part[step]
    part[name]["value"] = value
    try:
        return Profile.model_validate(data)
    except ValueError as problem:
        words = str(problem).splitlines()[-2].strip().partition(" [type")[0]
        raise ExperimentError(f"profile {profile.name}: {key} = {value:g}: {words}") from None
