"""How a new version comes in: beside the old one behind a guard, or replica after replica."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import Annotated, Any, Literal

from pydantic import Field

from .cluster import Pool
from .errors import Path, shown, unknown
from .part import Part
from .scaling import AnyColdStart, cold
from .units import Count, Duration, Fraction, PositiveDuration, Share


class Guard(Part):
    """What stops a new version."""

    watch: list[Literal["clean", "ttfa"]] = Field(
        default=["clean", "ttfa"],
        description="What must not be worse than of the old version, clean (a first utterance "
        "that is) or ttfa (time to first audio); default both.",
    )
    error: Fraction = Field(
        default=0.05,
        description="Chance at most that a version as good as the old one is stopped, over all "
        "looks together; default 0.05.",
    )
    every: PositiveDuration = Field(default=30.0, description="Between looks (s); default 30s.")
    calls: Count = Field(
        default=50, description="Calls of each version before the first look; default 50."
    )


class Stage(Part):
    """A share of the callers for a time."""

    share: Fraction = Field(description="Share of new callers for the new version, 0 to 1.")
    hold: Duration = Field(description="How long (s).")


class Canary(Part):
    """A growing share of the callers goes to a second pool, the new version."""

    kind: Literal["canary"] = Field(description="Two versions side by side.")
    old: str = Field(description="The pool of the old version.")
    new: str = Field(description="The pool of the new version; ordered when the rollout begins.")
    at: Duration = Field(description="When it begins (s).")
    stages: list[Stage] = Field(description="Shares in order; after the last the old pool goes.")
    guard: Guard | None = Field(
        default=None, description="Goes back to the old version by itself; default none."
    )
    cold_start: AnyColdStart = Field(
        description="Seconds from order to ready, by stage; `none` for a start in no time."
    )
    grace: Duration = Field(
        description="A replica that goes takes no new calls; those still on it after this time "
        "are cut (s)."
    )


class Rolling(Part):
    """The replicas of a pool are exchanged, a batch at a time."""

    kind: Literal["rolling"] = Field(description="Batch after batch in one pool.")
    pool: str = Field(description="The pool, by name.")
    serving: Count = Field(
        description="Replicas that serve; cluster.pools.NAME.replicas has room for the surge too."
    )
    at: Duration = Field(description="When it begins (s).")
    surge: Share = Field(
        default=0.25,
        description="Replicas more while it lasts, as a share of those that serve: the new ones "
        "are ready before old ones go; 0: a batch goes first; default 0.25.",
    )
    batch: Fraction | None = Field(
        default=None,
        description="Of surge 0: share of the replicas exchanged at a time; default 0.25.",
    )
    cold_start: AnyColdStart = Field(
        description="Seconds from order to ready, by stage; `none` for a start in no time."
    )
    grace: Duration = Field(
        description="A replica that goes takes no new calls; those still on it after this time "
        "are cut (s); Kubernetes' own is 30s."
    )

    @property
    def at_once(self) -> int:
        """Replicas exchanged at a time."""
        return max(1, ceil((self.surge or self.batch or 0.25) * self.serving - 1e-9))


AnyRollout = Annotated[Canary | Rolling, Field(discriminator="kind")]


def rollout(s: Any) -> Iterator[tuple[Path, str]]:
    """(path, sentence) for everything wrong between policies.rollout and the rest."""
    found = s.policies.rollout
    if not isinstance(found, Canary | Rolling):
        return
    at: Path = ("policies", "rollout")
    if not hasattr(s.workload, "utterance"):
        yield at, "never used: a dialogue's pools keep their replicas"
        return
    if not getattr(s.policies.routing, "pinned", False):
        yield at, "needs policies.routing.pinned: true (a call stays with its version)"
    if found.at >= s.horizon:
        yield (*at, "at"), f"never used: the horizon is {s.horizon:g}s; found {found.at:g}s"
    yield from cold((*at, "cold_start"), found.cold_start)
    pools = {n: p for n, p in s.cluster.pools.items() if isinstance(p, Pool)}
    keys = ("old", "new") if isinstance(found, Canary) else ("pool",)
    scaled = getattr(s.policies.scaling, "pools", None) or {}
    for key in keys:
        name = getattr(found, key)
        if name not in pools:
            yield (*at, key), unknown(name, pools, f"no pool is named {shown(name)}")
        elif name in scaled:
            text = f"policies.scaling has {name!r} too; a pool has one who orders its replicas"
            yield (*at, key), text
    if isinstance(found, Canary):
        yield from _canary(at, found, pools)
    elif found.pool in pools:
        yield from _rolling(at, found, pools[found.pool])


def _canary(at: Path, found: Canary, pools: dict[str, Pool]) -> Iterator[tuple[Path, str]]:
    if found.old == found.new:
        yield (*at, "new"), f"is the old version; found {shown(found.new)}"
    if not found.stages:
        yield (*at, "stages"), "needs a stage {share: 0.05, hold: 10min} at least"
    shares = [stage.share for stage in found.stages]
    if shares != sorted(shares):
        yield (*at, "stages"), f"shares must grow; found {', '.join(f'{x:g}' for x in shares)}"
    both = [pools[n] for n in (found.old, found.new) if n in pools]
    if any(pool.share is not None for pool in both):
        yield at, "the two pools serve the same callers: leave out share"
    for name, pool in zip((found.old, found.new), both, strict=False):
        if "weight" in pool.model_fields_set:
            yield ("cluster", "pools", name, "weight"), "never used: policies.rollout sets it"
    if found.guard is not None and not found.guard.watch:
        yield (*at, "guard", "watch"), "needs clean, ttfa or both; or leave out guard"


def _rolling(at: Path, found: Rolling, pool: Pool) -> Iterator[tuple[Path, str]]:
    if found.surge > 0.0 and found.batch is not None:
        yield (*at, "batch"), "never used: with a surge as many go as have come"
    room = found.serving + (found.at_once if found.surge > 0.0 else 0)
    if pool.replicas != room:
        text = f"needs {room} replicas ({found.serving} that serve and the surge)"
        yield ("cluster", "pools", found.pool, "replicas"), f"{text}; found {pool.replicas}"
