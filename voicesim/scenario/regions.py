"""Places: where callers are and where cards stand, and how far they are from each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pydantic import Field

from .errors import Path, shown, unknown
from .part import Part
from .units import Duration


class Distance(Part):
    """The way between two places."""

    rtt: Duration = Field(description="Round trip (s).")
    jitter: Duration = Field(
        default=0.0,
        description="Mean extra delay one way, beyond the listener's own jitter (s); default 0.",
    )


class Region(Part):
    """A place with callers, cards, or both."""

    to: dict[str, Distance] = Field(
        default_factory=dict,
        description="Other regions and how far they are; it is enough to say it on one side; "
        "default none.",
    )
    near: Duration = Field(
        default=0.0,
        description="Round trip of its own callers beyond the listener's network (s); default 0.",
    )


def distance(regions: Mapping[str, Region], a: str, b: str) -> Distance:
    """From callers in ``a`` to cards in ``b``.  Raises KeyError where nobody said."""
    if a == b:
        return Distance(rtt=regions[a].near)
    found = regions[a].to.get(b) or regions[b].to.get(a)
    if found is None:
        raise KeyError((a, b))
    return found


def wrong_regions(regions: Mapping[str, Region]) -> Iterator[tuple[Path, str]]:
    """Names that are no region; distances that nobody or both sides gave."""
    names = list(regions)
    for name, region in regions.items():
        for other in region.to:
            at = (name, "to", other)
            if other == name:
                yield at, "is the region itself; its own callers' round trip is `near`"
            elif other not in regions:
                yield at, unknown(other, names, f"unknown region {shown(other)}")
            elif names.index(other) > names.index(name) and name in regions[other].to:
                yield (other, "to", name), f"said twice: {name} gives this distance too"
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            if b not in regions[a].to and a not in regions[b].to:
                yield (a, "to"), f"lacks the distance to {b}"
