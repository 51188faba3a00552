"""A scenario whose pools serve the same callers becomes one run: its routes and its tape.

A *row* is a kind of caller: the load they belong to (``workload``, or one of ``beside``), what
they ask for, and where they are.  Rows are numbered load by load, then by name asked for, then by
place, in the order of the file.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from voicesim.engine.spec import INF, PoolSpec, Routes
from voicesim.scenario import Scenario
from voicesim.scenario.regions import distance
from voicesim.scenario.workload import Workload
from voicesim.workload import rng
from voicesim.workload.tape import Tape, draw_tape


@dataclass(frozen=True)
class Row:
    """A kind of caller.  load: "" for `workload`; share: of the callers of its load."""

    load: str
    asks: str
    origin: str
    share: float


def loads(scenario: Scenario) -> dict[str, Workload]:
    """All loads of a scenario of utterances; "" is `workload`."""
    return {"": scenario.tts, **scenario.beside}


def rows(scenario: Scenario) -> list[Row]:
    """The kinds of callers, by number."""
    return [
        Row(load, asks, origin, a * b)
        for load, of in loads(scenario).items()
        for asks, a in (of.asks or {load: 1.0}).items()
        for origin, b in (of.origins or {"": 1.0}).items()
    ]


def routes(scenario: Scenario, network_jitter: float) -> Routes:
    """Who may go where: the pools of a row by the round trip to them, nearest first.

    network_jitter: mean of the listener's own jitter (s), of which ``Routes.jitter`` is a multiple.
    """
    cluster = scenario.cluster
    pools = list(cluster.of("tts").values())
    kinds = rows(scenario)
    prefs = np.full((len(kinds), len(pools)), -1)
    tiers = np.zeros((len(kinds), len(pools)), np.int64)
    delay = np.zeros((len(kinds), len(pools)))
    jitter = np.ones((len(kinds), len(pools)))
    for i, row in enumerate(kinds):
        far = {}
        for p, pool in enumerate(pools):
            if row.origin and pool.region:
                way = distance(cluster.regions, row.origin, pool.region)
                delay[i, p] = way.rtt  # the request's way there and the sound's way back
                jitter[i, p] = (network_jitter + way.jitter) / (network_jitter or 1.0)
            if (not row.load) if pool.serves is None else (row.asks in pool.serves):
                far[p] = delay[i, p]
        near = sorted(far, key=lambda p: (far[p], p))
        levels = sorted(set(far.values()))
        prefs[i, : len(near)] = near
        tiers[i, : len(near)] = [levels.index(far[p]) for p in near]
    return Routes(prefs, tiers, delay, jitter)


def together(scenario: Scenario, specs: list[PoolSpec], network_jitter: float) -> PoolSpec:
    """One run of all pools, from the numbers of each."""
    overflow = scenario.policies.overflow
    pools = [
        replace(
            spec,
            weight=pool.weight,
            aside=bool(scenario.load_of(name)),
            spill_at=INF if overflow is None else overflow.at,
            spill_back=INF if overflow is None else overflow.back,
        )
        for (name, pool), spec in zip(scenario.cluster.of("tts").items(), specs, strict=True)
    ]
    return replace(pools[0], others=tuple(pools[1:]), routes=routes(scenario, network_jitter))


def tape(scenario: Scenario, spec: PoolSpec, replication: int) -> Tape:
    """The callers of all loads, by the time at which they come; a call's kind is drawn once."""
    found = []
    kinds = rows(scenario)
    for load, of in loads(scenario).items():
        serving = [
            (pool.engine.max_tokens, each.token_audio)
            for (name, pool), each in zip(
                scenario.cluster.of("tts").items(), spec.pools, strict=True
            )
            if scenario.load_of(name) == load
        ]
        seed = seed_of(scenario.seed, load)
        drawn = draw_tape(
            of, scenario.horizon, seed, replication, serving[0][1], min(n for n, _ in serving)
        )
        mine = [i for i, row in enumerate(kinds) if row.load == load]
        kind = kinds_of(of, len(mine), drawn.sessions, seed, replication) + mine[0]
        found.append(replace(drawn, row=np.repeat(kind, np.diff(drawn.first))))
    return found[0] if len(found) == 1 else merged(found)


def seed_of(seed: int, load: str) -> int:
    """The seed of a load's callers; `workload` has the scenario's own."""
    if not load:
        return seed
    h = rng.hash_key_py(seed, rng.Purpose.BESIDE, len(load), 0)
    return rng.hash_key_py(h, rng.Purpose.BESIDE, int.from_bytes(load.encode(), "little"), 1)


def kinds_of(load: Workload, n: int, sessions: int, seed: int, replication: int) -> np.ndarray:
    """int64[sessions]: what each caller asks for and where they are, as a number below n."""
    kind = np.zeros(sessions, np.int64)
    for shares, purpose in ((load.asks, rng.Purpose.ASKS), (load.origins, rng.Purpose.ORIGINS)):
        if shares:
            u = rng.generator(seed, replication, purpose).random(sessions)
            edges = np.cumsum(list(shares.values()))
            chosen = np.searchsorted(edges, u, side="right").clip(max=len(shares) - 1)
            kind = kind * len(shares) + chosen
    assert sessions == 0 or kind.max() < n
    return kind


def merged(tapes: list[Tape]) -> Tape:
    """Several open tapes as one, sessions in the order of their arrival."""
    arrival = np.concatenate([t.arrival for t in tapes])
    sizes = np.concatenate([np.diff(t.first) for t in tapes])
    order = np.argsort(arrival, kind="stable")
    offsets = np.concatenate([[0], np.cumsum([t.utterances for t in tapes])])
    first = np.concatenate([t.first[:-1] + offsets[i] for i, t in enumerate(tapes)])
    rows = np.concatenate([*_stretches(first[order], sizes[order])]) if len(order) else order

    def column(name: str) -> np.ndarray:
        return np.concatenate([getattr(t, name) for t in tapes])[rows]

    return Tape(
        arrival=arrival[order],
        first=np.concatenate(([0], np.cumsum(sizes[order]))),
        tokens=column("tokens"),
        prompt=column("prompt"),
        think=column("think"),
        patience=column("patience"),
        clipped=sum(t.clipped for t in tapes),
        closed=False,
        callers=0,
        row=column("row"),
    )


def _stretches(first: np.ndarray, size: np.ndarray) -> Iterator[np.ndarray]:
    """Row numbers of each session, in this order."""
    start = np.repeat(first - np.concatenate(([0], np.cumsum(size)[:-1])), size)
    yield start + np.arange(int(size.sum()))
