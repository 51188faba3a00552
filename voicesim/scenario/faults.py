"""What breaks while a scenario is played."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, create_model, model_serializer, model_validator

from .errors import Path, shown, unknown, wrong
from .part import Part
from .units import Duration, Natural, Positive, PositiveDuration


class _When(Part):
    """At a stated time, or again and again at random."""

    at: Duration | None = Field(
        default=None, description="When it begins (s); give this or mtbf; no default."
    )
    mtbf: PositiveDuration | None = Field(
        default=None,
        description="Mean time until it begins, anew after each end (s), exponential, of each "
        "replica for itself; give this or `at`; no default.",
    )
    mttr: PositiveDuration | None = Field(
        default=None,
        description="Mean time until its end (s), exponential; goes with mtbf; no default.",
    )

    @model_validator(mode="after")
    def _one(self) -> _When:
        found: list[tuple[Path, str]] = []
        if (self.at is None) == (self.mtbf is None):
            what = "neither" if self.at is None else "both"
            found.append((("at",), f"give exactly one of at and mtbf; found {what}"))
        elif self.mtbf is None and self.mttr is not None:
            found.append((("mttr",), "never used: `at` is given; its end is `for` later"))
        elif self.mtbf is not None and self.mttr is None:
            found.append((("mttr",), "missing; mtbf goes with it"))
        elif self.mtbf is not None and self.lasts is not None:
            found.append((("for",), "never used: mtbf is given; its end is after mttr"))
        if found:
            raise wrong(*found)
        return self

    @model_serializer(mode="wrap")
    def _only_used(self, handler: Any) -> dict[str, Any]:
        """What is never read is not written either."""
        return {name: each for name, each in handler(self).items() if each is not None}

    @property
    def lasts(self) -> float | None:
        """``for``: how long it lasts (s); None: to the end."""
        found = getattr(self, "for", None)
        return None if found is None else float(found)


if TYPE_CHECKING:
    When = _When
else:  # ``for`` is a word of Python
    When = create_model(
        "When",
        __base__=_When,
        __doc__=_When.__doc__,
        __module__=__name__,
        **{
            "for": (
                PositiveDuration | None,
                Field(default=None, description="How long it lasts (s); default: to the end."),
            )
        },
    )


class OfReplica(When):
    """Something that befalls a replica."""

    pool: str | None = Field(
        default=None, description="Its pool; default the only one, no default where there are more."
    )
    replica: Natural | None = Field(
        default=None, description="Its number in the pool, from 0; default: every one for itself."
    )


class Crash(OfReplica):
    """A replica is gone, with all it holds."""

    kind: Literal["crash"] = Field(description="A replica is gone.")


class GpuLoss(OfReplica):
    """A card is gone, with every engine on it."""

    kind: Literal["gpu_loss"] = Field(description="A card is gone, with every engine on it.")


class Gray(OfReplica):
    """A replica that is healthy to the probe and silent to its callers."""

    kind: Literal["gray"] = Field(description="Healthy to the probe, silent to the caller.")
    drop_after: Duration | None = Field(
        default=None,
        description="How long it keeps a stream before it drops it (s); default none: until its "
        "caller hangs up.",
    )


class Slow(OfReplica):
    """A replica whose steps and codec calls take longer."""

    kind: Literal["slow"] = Field(description="Steps and codec calls take longer.")
    factor: Positive = Field(description="How many times longer.")


class RegionLoss(When):
    """A region is gone; until its callers are sent elsewhere they find nobody."""

    kind: Literal["region_loss"] = Field(description="All replicas of a region are gone.")
    region: str = Field(description="Which, one of cluster.regions.")
    reroute: Duration = Field(
        default=0.0,
        description="How long callers are still sent there (s), and lost at once; default 0.",
    )


class NetworkLoss(When):
    """A region cannot be reached: its callers are silent until they give up."""

    kind: Literal["network_loss"] = Field(description="A region cannot be reached.")
    region: str = Field(description="Which, one of cluster.regions.")
    drop_after: Duration = Field(
        default=10.0,
        description="When a caller's connection times out (s); default 10s (LiveKit's client).",
    )


Fault = Annotated[
    Crash | GpuLoss | Gray | Slow | RegionLoss | NetworkLoss, Field(discriminator="kind")
]


def wrong_faults(s: Any) -> Iterator[tuple[Path, str]]:
    """(path, sentence) for everything wrong between the faults and the rest of the scenario."""
    pools = s.cluster.pools if isinstance(s.cluster.pools, dict) else {}
    regions = s.cluster.regions if isinstance(s.cluster.regions, dict) else {}
    for i, fault in enumerate(s.faults if isinstance(s.faults, list) else ()):
        if not isinstance(fault, _When):
            continue
        at: Path = ("faults", i)
        if s.dialogue is not None:
            yield at, "faults befall pools of utterances; this workload is a dialogue"
            return
        if fault.at is not None and fault.at >= s.horizon + s.drain:
            text = f"comes after the run ({s.horizon + s.drain:g}s); found {fault.at:g}s"
            yield (*at, "at"), text
        if isinstance(fault, OfReplica):
            yield from _replica(at, fault, pools)
        elif fault.region not in regions:  # type: ignore[attr-defined]
            name = fault.region  # type: ignore[attr-defined]
            yield (*at, "region"), unknown(name, regions, f"unknown region {shown(name)}")


def _replica(at: Path, fault: OfReplica, pools: dict[str, Any]) -> Iterator[tuple[Path, str]]:
    if fault.pool is None and len(pools) > 1:
        yield (*at, "pool"), f"missing; one of {', '.join(pools)}"
        return
    if fault.pool is not None and fault.pool not in pools:
        yield (*at, "pool"), unknown(fault.pool, pools, f"unknown pool {shown(fault.pool)}")
        return
    replicas = pools[fault.pool or next(iter(pools))].replicas if pools else None
    if fault.replica is not None and isinstance(replicas, int) and fault.replica >= replicas:
        text = f"there are {replicas} replicas, from 0; found {fault.replica}"
        yield (*at, "replica"), text


def unused_routing(s: Any) -> Iterator[tuple[Path, str]]:
    """Knobs of the router that nothing reads."""
    routing, at = s.policies.routing, ("policies", "routing")
    if getattr(routing, "reserve", False) is True and routing.age == 0.0:
        yield (*at, "reserve"), "never used: age is 0, so the router always knows"
    if routing.kind == "pack" and s.policies.admission.kind not in ("cap", "cap_queue"):
        yield (*at, "kind"), "pack needs admission cap or cap_queue: it fills places"
