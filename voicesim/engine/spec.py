"""Everything that defines a run of one pool, in plain numbers: what kernel and reference read.

A scenario becomes a PoolSpec (``voicesim.simulation``); nothing below this line knows YAML.
Times are seconds, lengths tokens (decode steps), memory KV blocks.
"""

from dataclasses import dataclass, field

import numpy as np

from voicesim.engine.cost import StepCost

INF = float("inf")
NEVER = 1e301

CODEC_QUEUES = ("fifo", "window", "edf", "pressing", "startup_first", "edf_reserve")
"""Queue policies of the codec stage by number; kernel and reference unpack the same order."""

MOST_AT_ONCE = 2_000_000
"""Requests at one instant beyond which the run is declared stuck."""


class NoProgressError(RuntimeError):
    """Simulated time stands still while events go on.  Its one argument is that time (s)."""

    def __str__(self) -> str:
        return (
            f"no progress: more than {MOST_AT_ONCE:,} requests at t = {self.args[0]:g} s; callers "
            "who are refused ask again at once (give workload.think or refused.retry.backoff)"
        )


@dataclass(frozen=True)
class CodecSpec:
    """The codec stage of each replica.

    cost: float64[3], floor, per row, per frame (s).  queue: index into CODEC_QUEUES.
    window: streams that may be active (queue 1).  shared: on the decoder's GPU.
    lead: how long before its listener needs it a chunk is pressing (s; queues 3 and 5).  reserve:
    how long before that it is urgent (s; queue 5).
    """

    cost: np.ndarray
    left_context: int = 0
    cap: int = 1
    gather: float = 0.0
    workers: int = 1
    queue: int = 0
    window: int = 0
    shared: bool = True
    lead: float = 1.0
    reserve: float = 0.0


@dataclass(frozen=True)
class OnCard:
    """Engines of a pool on cards that they share, with each other or with another pool's.

    card: number of the group of cards; of every pool in it ``per_card`` engines stand on each.
    mode: engine.card.TIME_SLICED or MPS, the same for all in a group.  switching: (quantum +
    switch) / quantum.  sm, bandwidth: shares of the card that the engine's work uses alone (MPS).
    A step spends host_share of its GPU time, as its cost has it, in the host, and gpu_share on the
    GPU.  host_stretch: how many times longer the host phase takes because processes lack cores.
    """

    card: int
    mode: int
    per_card: int = 1
    switching: float = 1.0
    sm: float = 1.0
    bandwidth: float = 0.0
    host_share: float = 0.0
    gpu_share: float = 1.0
    host_stretch: float = 1.0


@dataclass(frozen=True)
class Routes:
    """Which pools of a fleet serve whom.  A *row* is a kind of caller: what they ask for, and from
    where.

    prefs: int64[rows, pools], the pools that serve the row in order of preference, then -1.
    tiers: int64[rows, pools], how far each of these is; within a tier callers are divided by the
    pools' weights.  delay: float64[rows, pools], network delay beyond the pool's own (s), by the
    number of the pool; jitter: float64[rows, pools], what the listener's jitter is multiplied by.
    """

    prefs: np.ndarray
    tiers: np.ndarray
    delay: np.ndarray
    jitter: np.ndarray


@dataclass(frozen=True)
class Rung:
    """How a stream is served while its pool is at this rung of its ladder.

    schedule: tokens per chunk, None: those of the pool that serves.  speech: share of its tokens
    that is spoken.  prompt: tokens that its prompt is shorter by (no reference voice).  codec:
    codec seconds per frame, as a factor.  then: of voicesim.policy.degradation, what becomes of
    who asks now.
    filler: seconds of sound for those who are not served.  to: the pool of the fleet that serves
    instead (a smaller model), where it is one of the caller's and takes callers; -1: none.
    """

    schedule: tuple[int, ...] | None = None
    speech: float = 1.0
    prompt: int = 0
    codec: float = 1.0
    then: int = 0
    filler: float = 0.0
    to: int = -1


@dataclass(frozen=True)
class PoolSpec:
    """One pool of equal replicas, its listeners and its policies; or the first pool of a fleet.

    others: the other pools of a fleet: their engines, codec, schedule, memory, limit, weight and
    spill; everything else (listener, policies, seed, times) is read here.  routes: who goes where;
    needed with others.  weight: share of the callers of a tier, in proportion; spill_at: share of
    the pool's places at which it sends callers to the next tier, until only spill_back are taken.
    aside: it serves a load beside, whose gaps and stalls are not counted with the run's.
    rungs: the pool's ladder above rung 0, which is the pool as it is.  fill_after: silence after
    which a caller hears a filler (s), of ``filler`` seconds; patience then counts from its end.

    on_card: how its engines share cards; None: each has its own.  On a shared one a step has a host
    phase, which nobody disturbs, and then a GPU phase; host_noise: float64[4096] inverse CDF of the
    noise of the former, None: that of the step.

    schedule: tokens per chunk (first, ramp..., steady; the last one repeats).
    shared_ramp: the place in the schedule belongs to the replica instead of the stream and is never
    reset; pad: tokens more in the first chunk of each stream then.
    blocks: usable KV blocks per engine.  prefix: tokens that all prompts begin with and whose KV
    blocks are kept for the next stream (whole blocks only; every prompt is longer); 0: none.
    kind: index into kinds.ENGINES.  max_new: tokens that every request declares to take at most.
    max_engine_queue: waiting streams beyond which the engine refuses.  mixed_chunk,
    conservativeness: SGLang's.  interleave: decode steps after which decode_first lets prompts in
    (0: only when nobody decodes).  keep_hashes: a preempted stream finds again what nobody has
    overwritten of its blocks.  left_open: share of the streams whose KV stays after their end,
    until idle_timeout (s).
    pace: how far a stream may be ahead of its listener before it pauses (s; INF: it never does;
    vLLM V1 only).  starts: slots that streams which go on after a pause leave to others.
    noise: float64[4096] inverse CDF of the step noise, or None.  jitter: float64[4096] inverse
    CDF of the extra one-way delay (s).
    decode_slowdown, codec_slowdown: how many times longer each takes while the other runs.
    admission, routing: kinds of voicesim.policy; limit, max_queued, deadline, lead: their knobs.
    retries, backoff, factor, full_jitter, standby: what the refused do.  retry_budget, retry_burst:
    retries that each request earns for all, and how many are saved up at most (inf: no budget).
    reconnect: callers who were lost go on within so many seconds (None: they hang up).
    epsilon: how far above the mean of live streams a call's own replica may be (bounded_hash).
    stale: routing and admission know the live streams of the last refresh; reserves: and count
    what they have sent since.
    pinned: the first utterance of a call chooses a replica, the later ones go there.
    stage: a stage of a dialogue: chunks are handed to the dialogue instead of a listener.
    blame: log every audible stall with its causes (voicesim.engine.blame).
    trace: log what happens between these instants (s; voicesim.engine.trace); needs blame.
    """

    engines: int
    step: StepCost
    schedule: tuple[int, ...]
    codec: CodecSpec | None = None
    shared_ramp: bool = False
    pad: int = 0
    token_audio: float = 0.08
    max_num_seqs: int = 256
    budget: int = 2048
    block_size: int = 16
    blocks: int = 1 << 40
    reserve: bool = True
    prefix: int = 0
    overlap: bool = False
    kind: int = 0
    max_new: int = 4096
    max_engine_queue: int = 1 << 40
    mixed_chunk: bool = False
    conservativeness: float = 1.0
    interleave: int = 0
    keep_hashes: bool = False
    left_open: float = 0.0
    idle_timeout: float = INF
    pace: float = INF
    starts: int = 0
    noise: np.ndarray | None = None
    jitter: np.ndarray = field(default_factory=lambda: np.zeros(4096))
    decode_slowdown: float = 1.0
    codec_slowdown: float = 1.0
    delay: float = 0.0
    prebuffer: float = 0.0
    rebuffer: float = 0.0
    max_wait: float = INF
    max_queue: float = INF
    audible: float = 0.1
    horizon: float = 600.0
    warmup: float = 0.0
    end: float = 1200.0
    resolution: float = 1.0
    seed: int = 0
    admission: int = 0
    limit: int = 1 << 40
    max_queued: int = 1 << 40
    deadline: float = INF
    lead: float = 0.0
    routing: int = 1
    pinned: bool = False
    retries: int = 0
    backoff: float = 1.0
    factor: float = 2.0
    full_jitter: bool = False
    standby: bool = False
    retry_budget: float = 0.0
    retry_burst: float = INF
    reconnect: float | None = None
    epsilon: float = 0.25
    stale: bool = False
    reserves: bool = False
    record_chunks: bool = False
    stage: bool = False
    blame: bool = False
    trace: tuple[float, float] | None = None
    others: tuple["PoolSpec", ...] = ()
    routes: Routes | None = None
    weight: float = 1.0
    spill_at: float = INF
    spill_back: float = INF
    aside: bool = False
    on_card: OnCard | None = None
    host_noise: np.ndarray | None = None
    rungs: tuple[Rung, ...] = ()
    fill_after: float = INF
    filler: float = 0.0

    @property
    def pools(self) -> tuple["PoolSpec", ...]:
        """All pools of the run, this one first."""
        return (self, *self.others)

    @property
    def replicas(self) -> int:
        """Engines of all pools."""
        return sum(p.engines for p in self.pools)

    @property
    def pool_of(self) -> np.ndarray:
        """int64[replicas]: the pool of each engine, by number."""
        return np.repeat(np.arange(len(self.pools)), [p.engines for p in self.pools])

    def cards(self) -> list[list[int]]:
        """The engines of each shared card, by number."""
        found: dict[tuple[int, int], list[int]] = {}
        first = 0
        for pool in self.pools:
            if pool.on_card is not None:
                for i in range(pool.engines):
                    card = pool.on_card.card, i // pool.on_card.per_card
                    found.setdefault(card, []).append(first + i)
            first += pool.engines
        return list(found.values())

    @property
    def ladder(self) -> tuple[Rung, ...]:
        """All rungs, rung 0 first."""
        return (Rung(), *self.rungs)

    @property
    def rung_rows(self) -> list[tuple[int, int, Rung]]:
        """(pool, rung of its ladder, Rung) of all pools' rungs, by the number in the results."""
        return [(k, i, r) for k, p in enumerate(self.pools) for i, r in enumerate(p.ladder)]

    @property
    def bins(self) -> int:
        """Rows of the time series: one per resolution up to the end of the run."""
        return int(self.end / self.resolution) + 1
