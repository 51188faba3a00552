"""Random small worlds for the tests: a PoolSpec and a Tape from a handful of drawn choices."""

import dataclasses

import numpy as np

from voicesim.engine import layout as at
from voicesim.engine.cost import StepCost
from voicesim.engine.kinds import DECODE_FIRST, MAX_UTILIZATION, NO_EVICT, SGLANG, VLLM
from voicesim.engine.record import RunRecord
from voicesim.engine.reference.codec import EDF_RESERVE, PRESSING, STARTUP_FIRST
from voicesim.engine.spec import CodecSpec, OnCard, PoolSpec, Routes, Rung
from voicesim.workload.tape import Tape


def tape_of(
    arrival, tokens, prompt=None, think=None, patience=None, first=None, closed=False
) -> Tape:
    """A tape from plain lists; by default one utterance a session and endless patience."""
    tokens = np.asarray(tokens, np.int64)
    n = len(tokens)
    return Tape(
        arrival=np.asarray(arrival, float),
        first=np.arange(n + 1) if first is None else np.asarray(first, np.int64),
        tokens=tokens,
        prompt=np.full(n, 16, np.int64) if prompt is None else np.asarray(prompt, np.int64),
        think=np.zeros(n) if think is None else np.asarray(think, float),
        patience=np.full(n, np.inf) if patience is None else np.asarray(patience, float),
        clipped=0,
        closed=closed,
        callers=len(arrival) if closed else 0,
        _recipe=None,  # type: ignore[arg-type]
    )


def step_cost(memory=0.004, per_kv=1e-8, base=0.002, per_token=1e-4, norm=0.0, **more) -> StepCost:
    """Bandwidth ``memory + per_kv * kv``, compute ``base + per_token * tokens`` (s)."""
    params = np.array(
        [memory, per_kv, more.get("attention", 0.0), norm, more.get("host", 0.0),
         more.get("host_per_stream", 0.0), more.get("host_per_chunk", 0.0), more.get("sync", 0.0),
         more.get("overlap", 0.0)]
    )  # fmt: skip
    return StepCost(params, base + per_token * np.arange(4097))


def random_world(seed: int, may_close: bool = True, **fixed) -> tuple[PoolSpec, Tape]:
    """A world drawn from ``seed``: few streams, many rules; ``fixed`` overrides spec fields.

    may_close: one in five is a closed loop.
    """
    rng = np.random.default_rng(seed)

    def one_of(*values):
        return values[int(rng.integers(len(values)))]

    sessions = int(rng.integers(5, 60))
    closed = rng.random() < 0.2 and may_close
    per = np.ones(sessions, np.int64) if closed else rng.integers(1, 4, sessions)
    utterances = int(per.sum())
    span = one_of(0.0, 2.0, 10.0)
    arrival = np.sort(np.round(rng.uniform(0, span, sessions), one_of(1, 6)))
    prompt = rng.integers(1, one_of(20, 200), utterances)
    tokens = rng.integers(1, one_of(30, 150), utterances)
    block_size = one_of(4, 16)
    prefix = int(one_of(0, 0, 10, 40))
    prompt = prompt + prefix
    most = int((prompt + tokens).max())
    tight = -(-most // block_size)
    blocks = one_of(1 << 30, max(tight // 2, 1), tight, tight + 3, 2 * tight, 4 * tight)
    max_num_seqs = int(one_of(2, 5, 16, 64))
    overlap = bool(one_of(0, 1))
    quantiles = np.sort(rng.lognormal(0, 0.2, 4096))
    codec = None
    if rng.random() < 0.8:
        codec = CodecSpec(
            cost=np.array([one_of(0.0, 0.004, 0.02), 0.001, 2e-4]),
            left_context=int(one_of(0, 8)),
            cap=int(one_of(1, 3, 8)),
            gather=one_of(0.0, 0.0, 0.002, 0.02),
            workers=int(one_of(1, 1, 2, 3)),
            queue=int(rng.integers(3)),
            window=int(one_of(1, 2, 6)),
            shared=bool(one_of(0, 1)),
        )
    spec = PoolSpec(
        engines=int(one_of(1, 1, 2, 5)),
        step=step_cost(
            memory=one_of(0.0, 0.004), per_kv=one_of(0.0, 1e-6), base=one_of(0.001, 0.02),
            per_token=one_of(0.0, 5e-4), norm=float(one_of(0, 1, 2, 4, 8)),
            attention=one_of(0.0, 1e-7), host=one_of(0.0, 0.003),
            host_per_stream=one_of(0.0, 2e-4), host_per_chunk=one_of(0.0, 1e-4),
            sync=0.0005 if overlap else 0.0, overlap=float(overlap),
        ),
        schedule=one_of((1, 25), (4, 8, 16), (10,), (1,), (200,), (3, 700)),
        codec=codec,
        token_audio=one_of(0.08, 0.04, 0.013),
        max_num_seqs=max_num_seqs,
        budget=int(max_num_seqs + one_of(0, 7, 100, 2000)),
        block_size=block_size,
        blocks=int(blocks),
        reserve=bool(one_of(0, 1)),
        prefix=prefix,
        overlap=overlap,
        noise=one_of(None, quantiles),
        jitter=one_of(np.zeros(4096), np.sort(rng.gamma(2, 0.01, 4096))),
        decode_slowdown=one_of(1.0, 1.5, 2.0),
        codec_slowdown=one_of(1.0, 1.4, 2.0),
        delay=one_of(0.0, 0.04),
        prebuffer=one_of(0.0, 0.0, 0.5),
        rebuffer=one_of(0.0, 0.0, 0.3),
        max_wait=one_of(np.inf, 0.4),
        max_queue=one_of(np.inf, np.inf, 3.0),
        audible=one_of(0.0, 0.1),
        horizon=float(max(span, 1.0)),
        warmup=one_of(0.0, 0.5),
        end=one_of(20.0, 400.0),
        seed=int(rng.integers(1 << 60)),
        admission=int(rng.integers(4)),
        limit=int(one_of(1, 3, 10)),
        max_queued=int(one_of(0, 2, 1 << 30)),
        deadline=one_of(np.inf, 0.5),
        lead=one_of(0.0, 0.1, 0.4),
        routing=int(rng.integers(3)),
        retries=int(one_of(0, 0, 2)),
        backoff=0.3,
        full_jitter=bool(one_of(0, 1)),
        standby=bool(one_of(0, 1)),
        record_chunks=True,
    )  # fmt: skip
    first = np.concatenate([[0], np.cumsum(per)])
    think = one_of(np.zeros(utterances), rng.exponential(1.0, utterances))
    patience = one_of(np.full(utterances, np.inf), rng.exponential(0.6, utterances))
    if closed:
        # a caller starts every 50 ms at most until the horizon: 20 times the utterances suffice
        arrival = arrival[: max(1, sessions // 10)]
        think = think + 0.05 + span / 5
        first = np.arange(20 * utterances + 1)
        tokens, prompt, think, patience = (
            np.tile(column, 20) for column in (tokens, prompt, think, patience)
        )
    tape = tape_of(arrival, tokens, prompt, think, patience, first, closed)
    asked = {"blame": seed % 2 == 1, "trace": (0.5, 3.0) if seed % 4 == 1 else None}
    spec = dataclasses.replace(spec, **(random_kind(seed, tape, tight) | asked | fixed))
    spec = dataclasses.replace(spec, **(random_order(seed, spec) | fixed))
    if spec.kind == SGLANG and spec.conservativeness == 0.05:  # as long as declared
        tape = dataclasses.replace(tape, tokens=np.full_like(tape.tokens, tape.tokens.max()))
    return spec, tape


def random_kind(seed: int, tape: Tape, tight: int) -> dict:
    """An engine kind with its knobs; tight: blocks of the longest stream.

    Half of the worlds are vLLM V1's; the KV cache of the others is more often scarce, and a pool
    that reserves what is declared gets room for it.
    """
    rng = np.random.default_rng((seed, 1))

    def one_of(*values):
        return values[int(rng.integers(len(values)))]

    kind = int(one_of(VLLM, VLLM, VLLM, VLLM, SGLANG, SGLANG, NO_EVICT, MAX_UTILIZATION,
                      DECODE_FIRST, DECODE_FIRST))  # fmt: skip
    knobs = dict(
        kind=kind,
        max_new=int(tape.tokens.max()) + int(one_of(0, 0, 10, 100)),
        max_engine_queue=int(one_of(1 << 40, 1 << 40, 1, 5)),
        mixed_chunk=bool(one_of(0, 0, 1)),
        conservativeness=one_of(1.0, 0.3, 2.0),
        interleave=int(one_of(0, 1, 6)),
        keep_hashes=kind != SGLANG and bool(one_of(0, 1)),
        left_open=one_of(0.0, 0.0, 0.3),
        idle_timeout=one_of(0.05, 1.0, np.inf),
        shared_ramp=bool(one_of(0, 0, 0, 1)),
        pad=int(one_of(0, 5)),
    )
    if kind != VLLM and rng.random() < 0.7:
        knobs["blocks"] = tight + int(one_of(2, tight // 2, 30)) + (100 if kind == NO_EVICT else 0)
    if kind == SGLANG and rng.random() < 0.5:  # reserves too little for what comes
        knobs |= {"conservativeness": 0.05, "max_new": int(tape.tokens.max())}
        knobs |= {"blocks": 2 * tight, "max_engine_queue": 1 << 40, "admission": 0}
    if rng.random() < 0.2:
        knobs["block_size"] = 1
        if "blocks" in knobs:
            knobs["blocks"] *= 8
    return knobs


def random_order(seed: int, spec: PoolSpec) -> dict:
    """Who is served first: another order of the codec's queue, and streams that pause when they are
    ahead, each in every second world that can have it."""
    rng = np.random.default_rng((seed, 3))

    def one_of(*values):
        return values[int(rng.integers(len(values)))]

    found: dict = {}
    if spec.codec is not None and rng.random() < 0.5:
        found["codec"] = dataclasses.replace(
            spec.codec,
            queue=int(one_of(PRESSING, PRESSING, STARTUP_FIRST, EDF_RESERVE)),
            lead=one_of(0.0, 0.2, 1.0),
            reserve=one_of(0.0, 0.05, 0.5),
        )
    if spec.kind == VLLM and rng.random() < 0.5:
        found["pace"] = one_of(0.0, 0.03, 0.3, 1.0)
        found["starts"] = int(one_of(0, 0, 1, spec.max_num_seqs - 1))
    return found


OF_A_POOL = (
    "engines", "step", "schedule", "codec", "token_audio", "max_num_seqs", "budget", "block_size",
    "blocks", "reserve", "prefix", "overlap", "kind", "max_new", "max_engine_queue", "mixed_chunk",
    "conservativeness", "interleave", "keep_hashes", "left_open", "idle_timeout", "noise",
    "decode_slowdown", "codec_slowdown", "delay", "limit", "pace", "starts",
)  # fmt: skip
"""What the pools of a fleet differ in."""


def random_fleet(seed: int, **fixed) -> tuple[PoolSpec, Tape]:
    """Two to four pools of unlike engines, callers of several kinds from several places."""
    spec, tape = random_world(seed, shared_ramp=False, **fixed)
    rng = np.random.default_rng((seed, 2))
    others = []
    for k in range(int(rng.integers(1, 4))):
        other, _ = random_world(seed + 1000 * (k + 1), engines=int(rng.integers(1, 4)))
        unlike = {name: getattr(other, name) for name in OF_A_POOL}
        unlike["max_new"] = max(other.max_new, int(tape.tokens.max()))
        others.append(dataclasses.replace(spec, **unlike))
    pools = [with_spill(p, rng) for p in (spec, *others)]
    rows, n = int(rng.integers(1, 5)), len(pools)
    prefs = np.full((rows, n), -1)
    for row in prefs:
        some = rng.permutation(n)[: rng.integers(1, n + 1)]
        row[: len(some)] = some
    most = int(tape.prompt.max()) + max(p.max_new for p in pools) + 1
    prefix = max(p.prefix for p in pools)
    tape = dataclasses.replace(
        tape, prompt=tape.prompt + prefix,
        row=np.repeat(rng.integers(0, rows, tape.sessions), np.diff(tape.first)),
    )  # fmt: skip
    ample = [
        dataclasses.replace(p, blocks=max(p.blocks, -(-(most + prefix) // p.block_size)))
        if rng.random() < 0.7
        else p
        for p in pools
    ]
    routes = Routes(
        prefs, np.sort(rng.integers(0, 3, (rows, n)), axis=1), rng.choice([0.0, 0.1], (rows, n)),
        rng.choice([1.0, 2.5], (rows, n)),
    )  # fmt: skip
    return dataclasses.replace(ample[0], others=tuple(ample[1:]), routes=routes), tape


def with_spill(pool: PoolSpec, rng: np.random.Generator) -> PoolSpec:
    """Perhaps a threshold at which its callers go elsewhere; a weight."""
    at = float(rng.choice([0.3, 0.8, np.inf]))
    back = at if at == np.inf else float(rng.choice([0.0, 0.2]))
    weight = float(rng.choice([0.0, 0.3, 1.0, 1.0]))
    aside = bool(rng.random() < 0.2)
    return dataclasses.replace(pool, weight=weight, spill_at=at, spill_back=back, aside=aside)


def random_cards(seed: int, **fixed) -> tuple[PoolSpec, Tape]:
    """Engines of one pool or of several that share cards, in either mode, codecs included."""
    rng = np.random.default_rng((seed, 3))
    if seed % 2:
        spec, tape = random_fleet(seed, **fixed)
    else:
        spec, tape = random_world(seed, engines=int(rng.integers(2, 7)), **fixed)
    groups = [
        (int(rng.integers(1, 3)), float(rng.choice([1.0, 1.05, 1.5]))) for _ in range(2)
    ]  # mode, switching
    pools = []
    for pool in spec.pools:
        group = int(rng.integers(2))
        mode, switching = groups[group]
        card = OnCard(
            group, mode, int(rng.integers(1, 4)), switching,
            float(rng.choice([0.3, 0.7, 1.0])), float(rng.choice([0.0, 0.6])),
            *rng.choice([(0.0, 1.0), (0.6, 0.4)]).tolist(), float(rng.choice([1.0, 1.5])),
        )  # fmt: skip
        codec = pool.codec and dataclasses.replace(pool.codec, shared=True)
        noise = rng.choice([0, 1]) and np.sort(rng.exponential(1.0, 4096))
        noise = None if isinstance(noise, np.integer) else noise
        own = rng.random() < 0.15
        pools.append(
            dataclasses.replace(pool, codec=codec, on_card=None if own else card, host_noise=noise)
        )
    return dataclasses.replace(pools[0], others=tuple(pools[1:]), routes=spec.routes), tape


def with_ladders(spec: PoolSpec, seed: int) -> PoolSpec:
    """Every pool has a ladder; callers may hear a filler."""
    rng = np.random.default_rng((seed, 4))

    def one_of(*values):
        return values[int(rng.integers(len(values)))]

    def ladder():
        return tuple(
            Rung(
                schedule=one_of(None, (8, 30), (20,), (2, 3, 600)), speech=one_of(1.0, 0.6, 0.01),
                prompt=int(one_of(0, 5, 1000)), codec=one_of(1.0, 0.7),
                then=int(one_of(0, 0, 0, 0, 1, 2)), filler=one_of(0.0, 1.5),
                to=int(rng.integers(-1, len(spec.pools))),
            )
            for _ in range(rng.integers(0, 4))
        )  # fmt: skip

    others = tuple(dataclasses.replace(p, rungs=ladder()) for p in spec.others)
    fill = {"fill_after": one_of(np.inf, 0.2, 1.0), "filler": one_of(0.0, 0.5)}
    return dataclasses.replace(spec, rungs=ladder(), others=others, **fill)


def climbing(spec: PoolSpec, seed: int):
    """A control process that sends a pool to another rung now and then."""

    def climb(env, pool):
        rng = np.random.default_rng((seed, 5))
        for _ in range(60):
            yield env.timeout(float(rng.exponential(0.3)))
            k = int(rng.integers(len(spec.pools)))
            pool.set_rung(k, int(rng.integers(len(spec.pools[k].ladder))))

    return climb


def differences(a: RunRecord, b: RunRecord) -> list[str]:
    """Names of the fields in which two runs differ, to the last bit (events are not compared:
    the kernel and SimPy count them differently)."""
    bad = []
    for f in dataclasses.fields(a):
        x, y = getattr(a, f.name), getattr(b, f.name)
        if f.name == "utterance_i":
            x, y = x[:, at.R_OUTCOME :], y[:, at.R_OUTCOME :]
        pairs = {f.name: (x, y)}
        if isinstance(x, dict):
            pairs = {f"{f.name}.{k}": (x[k], y[k]) for k in x if k != "events"}
        bad += [name for name, (p, q) in pairs.items() if not np.array_equal(p, q)]
    return bad
