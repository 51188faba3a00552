"""What is wrong between pools that serve the callers of one run together.

As in ``checks``, parts that could not be read are no instance of anything here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .arrivals import Closed, Trace
from .cluster import Pool
from .errors import Path, shown, unknown
from .policies import Custom, Overflow
from .regions import Region, wrong_regions
from .workload import Workload


def fleet(s: Any) -> Iterator[tuple[Path, str]]:
    """(path, sentence) for everything wrong in a scenario of utterances with pools that couple."""
    regions = s.cluster.regions
    pools = s.cluster.pools if isinstance(s.cluster.pools, dict) else {}
    beside = s.beside if isinstance(s.beside, dict) else {}
    if not all(isinstance(p, Pool) for p in pools.values()):
        return
    if not all(isinstance(w, Workload) for w in (s.workload, *beside.values())):
        return
    if isinstance(regions, dict) and all(isinstance(r, Region) for r in regions.values()):
        for path, text in wrong_regions(regions):
            yield ("cluster", "regions", *path), text
        yield from _places(s, regions, pools, beside)
    yield from _served(s, pools, beside)
    if s.policies.admission.kind not in ("cap", "cap_queue"):
        for name, pool in pools.items():
            if pool.streams is not None:
                text = "never used: the admission policy has no cap"
                yield ("cluster", "pools", name, "streams"), text
    if any(pool.share is not None for pool in pools.values()):
        yield from _apart(s, pools, beside)
    elif len(pools) > 1:
        yield from _together(s)
    if isinstance(s.policies.overflow, Overflow):
        yield from _overflow(s, regions)


def _places(
    s: Any, regions: dict[str, Region], pools: dict[str, Pool], beside: dict[str, Workload]
) -> Iterator[tuple[Path, str]]:
    for name, pool in pools.items():
        at: Path = ("cluster", "pools", name)
        if pool.region is None and regions:
            yield at, "needs its region: cluster.regions is given"
        elif pool.region is not None and pool.region not in regions:
            text = unknown(pool.region, regions, f"unknown region {shown(pool.region)}")
            yield (*at, "region"), text
    for where, load in (
        (("workload",), s.workload),
        *((("beside", n), w) for n, w in beside.items()),
    ):
        for place in load.origins:
            if place not in regions:
                text = unknown(place, regions, f"unknown region {shown(place)}")
                yield (*where, "origins", place), text
        if regions and not load.origins:
            yield (*where, "origins"), "needs the share of callers from each place"
        yield from _sum(where, "origins", load.origins)
        yield from _sum(where, "asks", load.asks)


def _sum(at: Path, name: str, shares: dict[str, float]) -> Iterator[tuple[Path, str]]:
    if shares and abs(sum(shares.values()) - 1.0) > 1e-9:
        yield (*at, name), f"the shares must add up to 1; found {sum(shares.values()):g}"


def _served(
    s: Any, pools: dict[str, Pool], beside: dict[str, Workload]
) -> Iterator[tuple[Path, str]]:
    """Whatever is asked for is served, and nothing is served that nobody asks for."""
    asked = {**s.workload.asks, **dict.fromkeys(beside)}
    for name, load in beside.items():
        if load.asks:
            yield ("beside", name, "asks"), f"never used: a load beside asks for {name!r} alone"
        if name in s.workload.asks:
            yield ("beside", name), "workload.asks has that name too; give it another"
    for name, pool in pools.items():
        for each in pool.serves or ():
            if each not in asked:
                text = unknown(each, asked, f"nobody asks for {shown(each)}")
                yield ("cluster", "pools", name, "serves"), text
        loads = {each if each in beside else "" for each in pool.serves or ("",)}
        if len(loads) > 1:
            text = "an engine serves one load; give what stands beside a pool of its own"
            yield ("cluster", "pools", name, "serves"), text
    open_to_all = any(pool.serves is None for pool in pools.values())
    for each in asked:
        named = any(each in (pool.serves or ()) for pool in pools.values())
        if not named and (each in beside or not open_to_all):
            at: Path = ("beside", each) if each in beside else ("workload", "asks", each)
            yield at, "no pool serves it (cluster.pools.NAME.serves)"


def _apart(
    s: Any, pools: dict[str, Pool], beside: dict[str, Workload]
) -> Iterator[tuple[Path, str]]:
    """Pools with shares are played one by one."""
    text = "pools with a `share` serve callers of their own and never meet"
    if s.cluster.regions:
        yield ("cluster", "regions"), f"never used: {text}; leave out share"
    if beside:
        yield ("beside",), f"never used: {text}; leave out share"
    if s.workload.asks:
        yield ("workload", "asks"), f"never used: {text}; leave out share"
    for name, pool in pools.items():
        for knob in ("serves", "weight"):
            if knob in pool.model_fields_set:
                yield ("cluster", "pools", name, knob), f"never used: {text}"


def _together(s: Any) -> Iterator[tuple[Path, str]]:
    for name in ("admission", "routing"):
        policy = getattr(s.policies, name)
        if isinstance(policy, Custom):
            text = "several pools that serve the same callers take built-in policies only"
            yield ("policies", name), text
    loads = [("workload",), *(("beside", n) for n in s.beside)]
    for where, load in zip(loads, (s.workload, *s.beside.values()), strict=True):
        if isinstance(load.arrivals, Closed):
            text = "a closed loop goes to one pool; give open arrivals"
            yield (*where, "arrivals", "kind"), text
        elif isinstance(load.arrivals, Trace) and where != ("workload",):
            yield (*where, "arrivals", "kind"), "a load beside is drawn, not read from a trace"


def _overflow(s: Any, regions: Any) -> Iterator[tuple[Path, str]]:
    at: Path = ("policies", "overflow")
    if not regions:
        yield at, "never used: without cluster.regions there is nowhere to go"
    if s.policies.admission.kind not in ("cap", "cap_queue"):
        yield at, "needs admission cap or cap_queue: it counts places"
    if s.policies.overflow.back > s.policies.overflow.at:
        text = f"is more than at ({s.policies.overflow.at:g}); found {s.policies.overflow.back:g}"
        yield (*at, "back"), text
