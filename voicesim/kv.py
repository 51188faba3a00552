"""KV blocks of the engines of a scenario: what their start leaves of a card's memory."""

from collections.abc import Callable

from voicesim import cards
from voicesim.catalogue import MODELS, WITH_MEMORY
from voicesim.cluster import memory
from voicesim.cluster.memory import GIB, DoesNotStartError
from voicesim.engine.profile import Profile
from voicesim.scenario import Scenario
from voicesim.scenario.cluster import Cluster, Gpu, Pool
from voicesim.scenario.share import EIGHTHS, Share
from voicesim.workload import rng

FRACTION = 0.9
"""Share of a card's memory that an engine takes if it is not told otherwise."""


HOW = {
    "sequential": "one after the other",
    "parallel": "all at once",
    "racing": "at instants that overlap, drawn once for all cards and replications",
}


class ModelError(ValueError):
    """A scenario that is well written but cannot be simulated (memory, missing codec cost)."""


def kv_blocks(pool: Pool, gpu: Gpu, profile: Profile) -> int:
    """Usable KV blocks of an engine that has a card to itself.  Raises ModelError."""
    given = _given(pool, profile)
    if given is not None:
        return given
    weights, rest, per_token = _bytes(pool, profile)
    total = _memory(pool, gpu)
    share = FRACTION if pool.engine.memory is None else pool.engine.memory
    block = per_token * pool.engine.block_size
    null = _null(pool)
    blocks = int((total * share - (weights + rest)) // block) - null
    if blocks < 1:
        short = (weights + rest + (1 + null) * block - total * share) / GIB
        raise ModelError(
            f"engine.memory: {share:g} of {total / GIB:.1f} GiB leaves no room "
            f"for the KV cache beside {(weights + rest) / GIB:.1f} GiB of weights and overhead "
            f"({short:.1f} GiB short)"
        )
    return blocks


def blocks_of(
    scenario: Scenario, name: str, profile: Profile, find: Callable[[Pool], Profile]
) -> int:
    """Usable KV blocks of each engine of a pool of the scenario, on a card of its own or a shared
    one.  profile: the pool's; find: those of its neighbours.  Raises ModelError, ProfileError."""
    cluster = scenario.whole
    pool, share = cluster.pools[name], cluster.share_of(name)
    assert isinstance(pool, Pool)
    if share is None or pool.engine.kv_blocks is not None:
        return kv_blocks(pool, cluster.gpus[pool.on], profile)
    pools = {n: cluster.pools[n] for n in share.pools}
    profiles = {n: profile if n == name else find(p) for n, p in pools.items()}  # type: ignore
    least = min(each.kv for each in started(scenario, share, profiles)[name])
    block = _bytes(pool, profile)[2] * pool.engine.block_size
    blocks = int(least // block) - _null(pool)
    if blocks < 1:
        short = ((1 + _null(pool)) * block - least) / GIB
        text = f"{name} has {least / GIB:.3f} GiB of KV cache, less than a block of {block:g} bytes"
        raise ModelError(f"{text} ({short:.3f} GiB short)")
    return blocks


def started(
    scenario: Scenario, share: Share, profiles: dict[str, Profile]
) -> dict[str, list[memory.Started]]:
    """The engines of one shared card as they run, by pool, those of one pool in their order.

    Raises ModelError if one of them does not start.
    """
    cluster = scenario.whole
    names = [n for n, member in share.pools.items() for _ in range(member.per_card)]
    engines = [_engine(cluster, share, n, profiles[n]) for n in names]
    first = cluster.pools[names[0]]
    total = float(_memory(first, cluster.gpus[first.on]))  # type: ignore[arg-type]
    try:
        if share.mode == "mig":
            parts = [EIGHTHS[share.pools[n].slices or 7] / 8.0 for n in names]
            found = [memory.start(total * p, [e])[0] for p, e in zip(parts, engines, strict=True)]
        else:
            instants = rng.generator(scenario.seed, 0, rng.Purpose.START).random(len(engines))
            found = memory.start(
                total, engines, share.start, share.legacy_profile, instants.tolist()
            )
    except DoesNotStartError as error:
        raise ModelError(f"on a card of {', '.join(names)}: {error}") from None
    return {n: [f for f, at in zip(found, names, strict=True) if at == n] for n in share.pools}


def _engine(cluster: Cluster, share: Share, name: str, profile: Profile) -> memory.Engine:
    pool, member = cluster.pools[name], share.pools[name]
    assert isinstance(pool, Pool)
    _given(pool, profile)
    weights, rest, per_token = _bytes(pool, profile)
    fraction = FRACTION if pool.engine.memory is None else pool.engine.memory
    return memory.Engine(
        name, fraction, weights, rest, float(member.overshoot), per_token,
        member.max_model_len or 0, pool.engine.kind == "sglang",
    )  # fmt: skip


def _given(pool: Pool, profile: Profile) -> int | None:
    """Blocks stated in the scenario.  Raises ModelError."""
    engine = pool.engine
    if engine.model is not None and (engine.kv_blocks is not None or profile.memory is not None):
        why = "kv_blocks is given" if engine.kv_blocks else f"profile {profile.name!r} has memory"
        raise ModelError(f"engine.model {engine.model!r} is never used: {why}")
    if engine.kv_blocks is None:
        return None
    if engine.kv_blocks <= _null(pool):
        raise ModelError("engine.kv_blocks: one is the null block; give at least 2")
    return engine.kv_blocks - _null(pool)


def _null(pool: Pool) -> int:
    """Blocks that are never used: vLLM's null block."""
    return 1 if pool.engine.kind in ("vllm_v1", "decode_first") else 0


def _bytes(pool: Pool, profile: Profile) -> tuple[float, float, float]:
    """Bytes of weights, of what else it needs, and of a token of KV cache.  Raises ModelError."""
    engine = pool.engine
    if profile.memory is not None:
        m = profile.memory
        return m.weight_bytes.value, m.overhead_bytes.value, m.kv_bytes_per_token.value
    if engine.model is not None:
        model = MODELS[engine.model]
        per_token = float(model.kv_bytes_per_token or 0)
        return float(model.weights_bytes or 0), float(model.overhead_bytes), per_token
    raise ModelError(
        f"profile {profile.name!r} says nothing about memory: give engine.kv_blocks or "
        f"engine.model ({', '.join(WITH_MEMORY)})"
    )


def _memory(pool: Pool, gpu: Gpu) -> int:
    """Bytes of the card.  Raises ModelError."""
    if gpu.memory_bytes is None:
        raise ModelError(f"the memory of {pool.on!r} is not known: give engine.kv_blocks")
    return gpu.memory_bytes


def starts_said(scenario: Scenario, find: Callable[[Pool], Profile]) -> list[str]:
    """For the report: what the engines of every shared card have found, a sentence a card.

    Raises ModelError, ProfileError.
    """
    said = []
    for share in scenario.whole.share:
        pools = {n: scenario.whole.pools[n] for n in share.pools}
        said.append(f"engines on one card share its GPU, {cards.said(share)}")
        if any(p.engine.kv_blocks is not None for p in pools.values()):  # type: ignore[union-attr]
            continue
        profiles = {n: find(p) for n, p in pools.items()}  # type: ignore[arg-type]
        found = started(scenario, share, profiles)
        parts = []
        for name, each in found.items():
            room = " and ".join(f"{e.kv / GIB:.2f}" for e in each)
            pool = pools[name]
            assert isinstance(pool, Pool)
            blocks = blocks_of(scenario, name, profiles[name], find)
            parts.append(f"{name} {room} GiB, {blocks:,} blocks of {pool.engine.block_size} tokens")
        how = "in slices of their own" if share.mode == "mig" else f"started {HOW[share.start]}"
        said.append(f"KV caches on a shared card, {how}: {'; '.join(parts)}")
        if any(len({e.kv for e in each}) > 1 for each in found.values()):
            said.append("replicas of a pool on one card all have the smallest of their KV caches")
    return said
