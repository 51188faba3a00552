"""What is wrong between the fields of cards that several engines share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .asr import AsrPool
from .cluster import Pool
from .dialogue import Dialogue
from .errors import Path, shown, unknown
from .share import AT_START, EIGHTHS, KNOBS_OF, KNOBS_OF_MEMBER, Member, Share


def shared(cluster: Any) -> Iterator[tuple[Path, str]]:
    """(path, sentence) for everything wrong in ``cluster.share``."""
    shares = cluster.share if isinstance(cluster.share, list) else []
    pools = cluster.pools if isinstance(cluster.pools, dict) else {}
    seen: dict[str, int] = {}
    for i, share in enumerate(shares):
        at: Path = ("cluster", "share", i)
        if not isinstance(share, Share) or not isinstance(share.pools, dict):
            continue
        yield from _mode(at, share)
        members = {n: m for n, m in share.pools.items() if isinstance(m, Member)}
        for name in members:
            where = (*at, "pools", name)
            if name not in pools:
                yield where, unknown(name, pools, f"unknown pool {shown(name)}")
            elif name in seen:
                yield where, f"is on the cards of cluster.share.{seen[name]} already"
            seen.setdefault(name, i)
        here = {n: pools[n] for n in members if isinstance(pools.get(n), Pool | AsrPool)}
        if len(here) == len(share.pools):
            yield from _together(at, share, here)


def coupled(s: Any) -> Iterator[tuple[Path, str]]:
    """Pools that meet on a GPU but are not played in one run."""
    shares = s.cluster.share if isinstance(s.cluster.share, list) else []
    pools = s.cluster.pools if isinstance(s.cluster.pools, dict) else {}
    for i, share in enumerate(shares):
        if not isinstance(share, Share) or share.mode == "mig" or len(share.pools) < 2:
            continue
        at: Path = ("cluster", "share", i, "pools")
        if isinstance(s.workload, Dialogue):
            text = "the stages of a dialogue do not slow each other on a shared card; give mode mig"
            yield at, f"{text}, an entry for each, or cards of their own"
        elif any(isinstance(getattr(pools.get(n), "share", None), float) for n in share.pools):
            text = "pools with a share of the callers are played apart; leave share out"
            yield at, f"{text} (serves and beside say who goes where) or give mode mig"


def _mode(at: Path, share: Share) -> Iterator[tuple[Path, str]]:
    """Knobs of other modes, and slices that are no card."""
    if not isinstance(share.mode, str):
        return
    for knob, modes in KNOBS_OF.items():
        if knob in share.model_fields_set and share.mode not in modes:
            yield (
                (*at, knob),
                f"never used: only {' and '.join(modes)} have it; mode is {share.mode}",
            )
    if "quantum" in share.model_fields_set and share.mode == "time_sliced" and share.switch == 0:
        yield (*at, "quantum"), "never used: switch is 0, so it matters to nobody"
    members = {n: m for n, m in share.pools.items() if isinstance(m, Member)}
    if not share.pools:
        yield (*at, "pools"), "needs at least one pool"
    for name, member in members.items():
        for knob, modes in KNOBS_OF_MEMBER.items():
            if getattr(member, knob) is not None and share.mode not in modes:
                text = f"never used: only {' and '.join(modes)} has it; mode is {share.mode}"
                yield (*at, "pools", name, knob), text
        if share.mode == "mig" and member.slices is None:
            yield (*at, "pools", name), "needs slices, the sevenths of the card of each replica"
    if len(members) == len(share.pools) and members and _whole(members, "per_card"):
        engines = share.engines
        if engines == 1:
            yield (*at, "pools"), "never used: one engine has the card to itself; leave it out"
        if share.cores is not None and isinstance(share.cores, int) and share.cores >= engines:
            text = f"never used: {engines} processes have a core each with {share.cores}"
            yield (*at, "cores"), text
        if share.mode == "mig" and all(m.slices is not None for m in members.values()):
            yield from _slices(at, members)


def _slices(at: Path, members: dict[str, Member]) -> Iterator[tuple[Path, str]]:
    sevenths = sum(m.per_card * (m.slices or 0) for m in members.values())
    eighths = sum(m.per_card * EIGHTHS[m.slices or 1] for m in members.values())
    if sevenths > 7:
        yield (*at, "pools"), f"take {sevenths} sevenths of a card"
    elif eighths > 8:
        yield (*at, "pools"), f"take {eighths} eighths of a card's memory (3 slices come with 4)"


def _together(at: Path, share: Share, here: dict[str, Any]) -> Iterator[tuple[Path, str]]:
    """What the pools of one card must have in common."""
    for name, pool in here.items():
        where = (*at, "pools", name)
        if isinstance(pool, AsrPool):
            yield (
                where,
                "is a recogniser: its memory and its work on a shared card are not modelled",
            )
        elif pool.codec is not None and pool.codec.on == "other_gpu":
            text = "its codec has a card of its own (codec.on: other_gpu); give same_gpu"
            yield where, f"{text}, or leave it out"
    engines = {n: p.engine for n, p in here.items() if isinstance(p, Pool)}
    if len(engines) < len(here) or not _whole(here, "on") or not _whole(here, "replicas"):
        return
    if len(kinds := {pool.on for pool in here.values()}) > 1:
        yield (*at, "pools"), f"are on several kinds of card: {', '.join(sorted(kinds))}"
    cards: dict[str, float] = {}
    for name, pool in here.items():
        per = share.pools[name].per_card
        if not isinstance(per, int):
            return
        cards[name] = pool.replicas / per
        if pool.replicas % per:
            text = f"{pool.replicas} replicas do not fill cards of {per}"
            yield (*at, "pools", name, "per_card"), text
    if len(set(cards.values())) > 1 and all(c == int(c) for c in cards.values()):
        found = ", ".join(f"{n} {c:g}" for n, c in cards.items())
        yield (*at, "pools"), f"must stand on as many cards as each other; found {found}"
    given = [n for n, engine in engines.items() if getattr(engine, "kv_blocks", None) is not None]
    if given and len(given) < len(engines):
        text = f"{', '.join(given)} has kv_blocks, so what it leaves of the card is not known"
        yield (*at, "pools"), f"{text}; give all of them or none"
    elif given:
        yield from _memoryless(at, share)


def _memoryless(at: Path, share: Share) -> Iterator[tuple[Path, str]]:
    """Knobs of the start when every engine's KV cache is given."""
    for knob in ("start", "legacy_profile"):
        if knob in share.model_fields_set:
            yield (*at, knob), "never used: every engine has kv_blocks"
    for name, member in share.pools.items():
        for knob in AT_START:
            if knob in member.model_fields_set:
                yield (*at, "pools", name, knob), "never used: every engine has kv_blocks"


def _whole(parts: dict[str, Any], name: str) -> bool:
    """Whether all of them have a readable value there."""
    return all(isinstance(getattr(part, name), int | str) for part in parts.values())
