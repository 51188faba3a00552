"""A scenario becomes a pool's plain numbers, and runs: on the kernel or on the reference."""

import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import gamma

from voicesim import fleet
from voicesim.cards import shared
from voicesim.cluster import degradation
from voicesim.cluster.controllers import controllers
from voicesim.cluster.log import Log
from voicesim.engine import layout as at
from voicesim.engine.cost import OVERLAP
from voicesim.engine.gauges import Gauges
from voicesim.engine.kinds import ENGINES
from voicesim.engine.little import Stays, check_little, stays
from voicesim.engine.profile import Profile, ProfileError, load_profile
from voicesim.engine.record import RunRecord
from voicesim.engine.spec import CODEC_QUEUES, INF, CodecSpec, PoolSpec
from voicesim.engine.transform import transformed
from voicesim.kv import ModelError, blocks_of
from voicesim.policy import admission, python, routing
from voicesim.policy.python import PolicyError
from voicesim.policy.shadow import Shadows
from voicesim.scenario import Scenario, ScenarioFile
from voicesim.scenario.cluster import KEEPS_OWN, Pool
from voicesim.workload import rng
from voicesim.workload.pieces import cut, draw_in_pieces
from voicesim.workload.tape import Tape, draw_tape

AT_ONCE = 1 << 16
"""Utterances that are drawn and handed over at a time where no rows are kept: 50 MB or so."""
RETRY_RESERVE = 10.0
"""Retries that a budget has saved up at most."""


@dataclass
class Run:
    """One finished run: what was simulated, and what it left; gauges: None if nobody watched; log:
    what its controllers did."""

    scenario: Scenario
    profile: Profile
    spec: PoolSpec
    tape: Tape
    record: RunRecord
    gauges: Gauges | None = None
    log: Log = field(default_factory=Log)
    profiles: Sequence[Profile] = ()  # of the pools of a fleet, in order
    # what each shadow policy would have done (voicesim.policy.shadow)
    shadows: Mapping[str, pd.DataFrame] = field(default_factory=dict)

    def home(self, rows: np.ndarray) -> np.ndarray:
        """int64[n]: the pool that each utterance ``rows`` (int64[n]) would rather go to."""
        routes, kind = self.spec.routes, self.tape.row
        if routes is None or kind is None:
            return np.zeros(len(rows), np.int64)
        return np.asarray(routes.prefs[kind[rows], 0])

    def audio_seconds(self, rows: np.ndarray) -> np.ndarray:
        """float64[n]: seconds of audio in each utterance."""
        each = np.array([pool.token_audio for pool in self.spec.pools])
        return np.asarray(self.spoken(rows) * each[self.home(rows)])

    def spoken(self, rows: np.ndarray) -> np.ndarray:
        """int64[n]: tokens of each utterance that are spoken, fewer at some rungs of a ladder."""
        tokens = self.tape.tokens[rows]
        share = np.array([rung.speech for _, _, rung in self.spec.rung_rows])
        if (share == 1.0).all():
            return np.asarray(tokens)
        results = self.record.utterance_i[rows]
        mine = np.where(results[:, at.R_ENGINE] >= 0, share[results[:, at.R_RUNG]], 1.0)
        return np.maximum((tokens * mine).astype(np.int64), 1)


def simulate(
    scenario: Scenario,
    replication: int = 0,
    engine: str = "kernel",
    processes: Sequence[Callable[[Any, Any], Any]] = (),
    record_chunks: bool = False,
    watch: bool = False,
    blame: bool = False,
    trace: tuple[float, float] | None = None,
    leave: Callable[[Run], None] | None = None,
) -> Run:
    """Play one replication of a scenario with one pool (``Scenario.apart`` makes them).

    engine: "kernel" (compiled) or "reference" (plain SimPy); the results are equal to the bit.
    processes: generator functions of (env, pool), SimPy processes beside the pool.
    watch: note the engines' gauges in every bin, as is done for a scenario that has alarms.
    blame: log every audible stall with its causes (voicesim.metrics.stalls).
    trace: log what happens between these instants (s; voicesim.metrics.trace), causes too.
    leave: keep in memory only what is needed, and give it the calls that are over, piece by piece:
    a Run with a tape, utterances, stalls and chunks of those calls alone (``Tape.numbers``: which;
    the rest of its record is as it is so far).  The run returned has no rows then; of gauges only
    the running streams are watched, unless the scenario has alarms.
    Raises ModelError, ProfileError, PolicyError; LittleError if the run contradicts itself.
    """
    profiles = [profile_of(part.cluster.pool) for part in scenario.each_pool()]
    spec = run_spec(scenario, profiles, replication, record_chunks, blame, trace)
    shadowed = shadows(scenario, spec)
    decide = shadowed or python_policies(scenario, spec)
    log = Log()
    processes = (*processes, *controllers(scenario, spec, log, replication))
    gauges = None
    if watch or scenario.alarms:
        gauges = Gauges(spec, running_only=leave is not None and not scenario.alarms)
        processes = (*processes, gauges.watch)

    def run_of(tape: Tape, record: RunRecord, gauges: Gauges | None = gauges) -> Run:
        beside = shadowed.tables(tape.first) if shadowed else {}
        return Run(scenario, profiles[0], spec, tape, record, gauges, log, profiles, beside)

    if leave is not None and engine == "kernel" and not guarded(scenario):
        pieces = pieces_of(scenario, spec, replication)
        taken = leave  # it is not None
        seen: list[Stays] = []

        def over(tape: Tape, record: RunRecord) -> None:
            seen[:] = [sum(seen, stays(spec, record))]
            taken(run_of(tape, record, None))

        record, tape = _in_window(spec, pieces, over, decide, processes)
        check_little(spec, record, not processes, seen[0] if seen else None)
        return run_of(tape, record)
    tape = tape_of(scenario, spec, replication)
    if engine == "reference":
        from voicesim.engine.reference import run_reference

        record = run_reference(spec, tape, decide, processes)
        while tape.utterances < len(record.utterance_i):
            tape = tape.extend()  # closed loop: as many callers as the run went through
    else:
        from voicesim.engine.pool import Pool
        from voicesim.engine.pool import record as record_of

        pool = Pool(spec, tape, decide)
        _play(pool, processes)
        record, tape = record_of(pool), pool.tape
    check_little(spec, record, undisturbed=not processes)
    run = run_of(tape, record)
    if leave is None:
        return run
    leave(run)
    return without_rows(run)


def guarded(scenario: Scenario) -> bool:
    """Does a guard read calls that are over?  Then their rows stay until the end."""
    return getattr(scenario.policies.rollout, "guard", None) is not None


def _play(pool: Any, processes: Sequence[Callable[[Any, Any], Any]]) -> None:
    from voicesim.engine.pool import PoolEnvironment

    env = PoolEnvironment(pool)
    for process in processes:
        env.process(process(env, pool))
    env.run(until=env.at(pool.spec.end))


def _in_window(
    spec: PoolSpec, pieces: Iterator[Tape], over: Callable[[Tape, RunRecord], None], decide: Any,
    processes: Sequence[Callable[[Any, Any], Any]],
) -> tuple[RunRecord, Tape]:  # fmt: skip
    """Play with the rows that are needed; record and tape have none left."""
    from voicesim.engine.pool import Pool
    from voicesim.engine.pool import record as record_of
    from voicesim.engine.window import Window

    window = Window(pieces, over)
    pool = Pool(spec, window.first, decide, window)
    _play(pool, processes)
    window.close(pool)
    return record_of(pool), window.first.emptied(window.clipped)


def without_rows(run: Run) -> Run:
    """The same without its callers' rows of utterances, chunks and stalls."""
    none, record = slice(0), run.record
    record = replace(
        record,
        utterance_i=record.utterance_i[none], utterance_f=record.utterance_f[none],
        chunk_i=record.chunk_i[none], chunk_f=record.chunk_f[none],
        stall_i=record.stall_i[none], stall_f=record.stall_f[none],
    )  # fmt: skip
    return replace(run, tape=run.tape.emptied(run.tape.clipped), record=record)


def tape_of(scenario: Scenario, spec: PoolSpec, replication: int) -> Tape:
    """The callers of one replication of a scenario of one pool, or of a fleet."""
    if scenario.fleet:
        return fleet.tape(scenario, spec, replication)
    tape = draw_tape(*_drawn(scenario, spec, replication))
    if scenario.slice != (0.0, 1.0):
        tape = tape.only(callers_of(scenario, replication, tape.sessions))
    return tape


def pieces_of(scenario: Scenario, spec: PoolSpec, replication: int) -> Iterator[Tape]:
    """``tape_of`` in pieces; that of a fleet is drawn whole and cut."""
    if scenario.fleet:
        return cut(fleet.tape(scenario, spec, replication), AT_ONCE)
    pieces = draw_in_pieces(AT_ONCE, *_drawn(scenario, spec, replication))
    return _shared(pieces, scenario, replication)


def _drawn(scenario: Scenario, spec: PoolSpec, replication: int) -> tuple[Any, ...]:
    """What ``draw_tape`` asks for."""
    return (
        scenario.workload, scenario.horizon, scenario.seed, replication, spec.token_audio,
        scenario.cluster.pool.engine.max_tokens,
    )  # fmt: skip


def callers_of(scenario: Scenario, replication: int, sessions: int) -> np.ndarray:
    """bool[sessions]: the callers of a pool that serves a share of them.

    Each caller has a uniform number of its own, so a pool keeps its callers whatever the others
    are made of.
    """
    u = rng.generator(scenario.seed, replication, rng.Purpose.POOL).random(sessions)
    return _serves(scenario, u)


def _serves(scenario: Scenario, u: np.ndarray) -> np.ndarray:
    low, high = scenario.slice
    return np.asarray((low <= u) & (u < high))


def _shared(pieces: Iterator[Tape], scenario: Scenario, replication: int) -> Iterator[Tape]:
    """Of each piece the callers of a pool that serves a share of them."""
    if scenario.slice == (0.0, 1.0):
        yield from pieces
        return
    generator, before = rng.generator(scenario.seed, replication, rng.Purpose.POOL), 0
    for piece in pieces:
        kept = piece.only(_serves(scenario, generator.random(piece.sessions)))
        assert kept.numbers is not None
        yield replace(kept, numbers=kept.numbers + before)
        before += piece.sessions


def checked(file: ScenarioFile) -> ScenarioFile:
    """The file, if it can be simulated; else raises ModelError with all that ``problems`` finds."""
    if wrong := problems(file):
        raise ModelError("\n".join(wrong))
    return file


def problems(file: ScenarioFile) -> list[str]:
    """What a well-written file still lacks to be simulated: profiles, memory, codec cost, policies.

    One line each, with the file, the line of the profile's or policy's name, and the variant.
    """
    found: dict[str, None] = {}
    for scenario in [part for whole in file.variants.values() for part in whole.each_pool()]:
        if scenario.dialogue is not None:
            found |= {
                f"{file.path}:{line_of(file.path, n)}: {p}": None
                for n, p in _stages(scenario, profile_of)
            }
            continue
        name = scenario.cluster.pool.engine.profile
        try:
            spec = pool_spec(scenario, profile_of(scenario.cluster.pool))
            name = ""
            python_policies(scenario, spec)
            shadows(scenario, spec)
        except (ModelError, ProfileError, PolicyError) as problem:
            name = name or next(n for n in policy_names(scenario) if n in str(problem))
            found[f"{file.path}:{line_of(file.path, name)}: {problem}"] = None
    return list(found)


def playable(scenario: Scenario, profile_for: Callable[[Pool], Profile] | None = None) -> None:
    """Raise ModelError, ProfileError or PolicyError for the first thing that keeps it from being
    simulated; profile_for: the profile of a pool, its own under its transform by default."""
    find = profile_for or profile_of
    for part in scenario.each_pool():
        if part.dialogue is None:
            spec = pool_spec(part, find(part.cluster.pool))
            python_policies(part, spec)
            shadows(part, spec)
            continue
        for _, problem in _stages(part, find):
            raise problem


def _stages(scenario: Scenario, find: Callable[[Pool], Profile]) -> Iterator[tuple[str, Exception]]:
    """What the stages of a dialogue lack: the name to look for in the file, and the problem."""
    for name, pool in scenario.cluster.pools.items():
        if not isinstance(pool, Pool):
            continue
        try:
            profile = find(pool)
            stage_numbers(scenario, name, profile, find)
            if pool.role != "llm":
                token_audio(profile, pool)
        except (ModelError, ProfileError) as problem:
            yield pool.engine.profile, problem


def policy_names(scenario: Scenario) -> list[str]:
    """The user's own policies in a scenario, as named in the YAML."""
    chosen: list[Any] = [scenario.policies, *scenario.policies.shadow.values()]
    found = [p for each in chosen for p in (each.admission, each.routing) if p is not None]
    return [p.policy for p in found if p.kind == "custom"]


def line_of(path: Path, name: str) -> int:
    """The first line of the file that has the name; 1 if it came from elsewhere (--set)."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return next((i for i, line in enumerate(lines, 1) if name in line), 1)


# --- scenario to numbers ----------------------------------------------------------------------


def run_spec(
    scenario: Scenario, profiles: Sequence[Profile], replication: int = 0,
    record_chunks: bool = False, blame: bool = False, trace: tuple[float, float] | None = None,
) -> PoolSpec:  # fmt: skip
    """The parameters of a run: of its pool, or of all pools of a fleet.

    profiles: of each pool.  Raises ModelError.
    """
    specs = [
        pool_spec(part, profile, replication, record_chunks, blame, trace)
        for part, profile in zip(scenario.each_pool(), profiles, strict=True)
    ]
    names = list(scenario.cluster.pools)
    given = scenario.policies.degradation
    if given is not None:
        specs = [
            s
            if scenario.load_of(n)
            else replace(s, **degradation.numbers(given, pool.chunks, names, n))
            for (n, pool), s in zip(scenario.cluster.of("tts").items(), specs, strict=True)
        ]
    if not scenario.fleet:
        return specs[0]
    for load in ("", *scenario.beside):
        mine = [
            (n, s.token_audio)
            for n, s in zip(names, specs, strict=True)
            if scenario.load_of(n) == load
        ]
        unlike = next((n for n, audio in mine if audio != mine[0][1]), None)
        if unlike is not None:
            raise ModelError(
                f"pool {unlike!r} makes {dict(mine)[unlike]:g} s of audio in a decode step and "
                f"{mine[0][0]!r} {mine[0][1]:g} s: pools that serve the same callers must agree"
            )
    jitter = scenario.listener.network.jitter
    table = jitter_table(jitter or 1.0) if scenario.cluster.regions else specs[0].jitter
    whole = fleet.together(scenario, specs, jitter)
    return replace(whole, jitter=table)


def pool_spec(
    scenario: Scenario, profile: Profile, replication: int = 0, record_chunks: bool = False,
    blame: bool = False, trace: tuple[float, float] | None = None,
) -> PoolSpec:  # fmt: skip
    """The pool's parameters (voicesim.engine.spec) of one replication."""
    pool, listener = scenario.cluster.pool, scenario.listener
    prefix = scenario.tts.utterance.shared_prefix if pool.engine.prefix_caching else 0
    refused = scenario.tts.refused
    numbers = policy_numbers(scenario)
    if pool.streams is not None:
        numbers["limit"] = pool.streams
    player = listener.player
    return PoolSpec(
        **stage_numbers(scenario, next(iter(scenario.cluster.pools)), profile),
        token_audio=token_audio(profile, pool),
        prefix=prefix,
        left_open=scenario.tts.left_open,
        jitter=jitter_table(listener.network.jitter),
        delay=listener.network.delay + (profile.request_s.value if profile.request_s else 0.0),
        prebuffer=player.prebuffer,
        rebuffer=player.rebuffer,
        max_wait=INF if player.max_wait is None else player.max_wait,
        max_queue=INF if player.max_queue is None else player.max_queue,
        audible=listener.audible,
        horizon=scenario.horizon,
        warmup=scenario.warmup,
        end=scenario.horizon + scenario.drain,
        resolution=scenario.series.resolution,
        seed=signed(run_seed(scenario, replication)),
        retries=refused.retry.attempts if refused else 0,
        backoff=refused.retry.backoff if refused else 1.0,
        factor=refused.retry.factor if refused else 2.0,
        full_jitter=bool(refused and refused.retry.jitter == "full"),
        **lost_numbers(scenario),
        standby=bool(refused and refused.then == "standby_voice"),
        record_chunks=record_chunks,
        blame=blame or trace is not None,
        trace=trace,
        **numbers,
    )


def stage_numbers(
    scenario: Scenario,
    name: str,
    profile: Profile,
    find: Callable[[Pool], Profile] | None = None,
) -> dict[str, Any]:
    """What a pool's engines are, by the names of PoolSpec: cost, batching, memory, codec.

    find: profiles of what stands on the same cards.  Raises ModelError, ProfileError.
    """
    pool = scenario.cluster.pools[name]
    assert isinstance(pool, Pool)
    engine, codec = pool.engine, pool.codec
    scheduling = None if engine.scheduling == "profile" else engine.scheduling
    longest = max(engine.max_num_batched_tokens, engine.max_num_seqs)
    step = profile.step_cost(longest, capture_sizes(engine), scheduling)
    chunk = pool.chunks
    blocks = blocks_of(scenario, name, profile, find or profile_of)
    if engine.kind == "trtllm_no_evict" and blocks * engine.block_size <= engine.max_tokens:
        raise ModelError(
            f"engine.max_tokens: every request reserves {engine.max_tokens} tokens and its prompt "
            f"(trtllm_no_evict), but the KV cache holds {blocks * engine.block_size}"
        )
    numbers = {
        "engines": pool.replicas,
        "step": step,
        "schedule": (chunk.first, *chunk.ramp, chunk.steady),
        "shared_ramp": chunk.shared_state,
        "pad": chunk.pad,
        "codec": None if codec is None else codec_spec(codec, profile),
        "max_num_seqs": engine.max_num_seqs,
        "budget": engine.max_num_batched_tokens,
        "block_size": engine.block_size,
        "blocks": blocks,
        "reserve": engine.reserve_full_prompt,
        "kind": ENGINES.index(engine.kind),
        "max_new": engine.max_tokens,
        "max_engine_queue": 1 << 40 if engine.max_queued is None else engine.max_queued,
        "mixed_chunk": engine.mixed_chunk,
        "conservativeness": engine.conservativeness,
        "interleave": engine.interleave or 0,
        "keep_hashes": engine.prefix_caching and engine.kind in KEEPS_OWN,
        "pace": INF if engine.pacing is None else engine.pacing.lead,
        "starts": 0 if engine.pacing is None else engine.pacing.reserve_slots,
        "idle_timeout": INF if engine.idle_timeout is None else engine.idle_timeout,
        "overlap": bool(step.params[OVERLAP]),
        "noise": profile.noise_table() if engine.noise and profile.noise else None,
        "decode_slowdown": profile.sharing.decode_slowdown.value,
        "codec_slowdown": profile.sharing.codec_slowdown.value,
    }
    return shared(scenario, name, numbers)


def token_audio(profile: Profile, pool: Pool | None = None) -> float:
    """Seconds of audio of one decode step, as the pool or else the profile says.

    Raises ModelError if neither does.
    """
    if pool is not None and pool.token_audio is not None:
        return pool.token_audio
    if profile.token_audio_s is not None:
        return profile.token_audio_s
    raise ModelError(
        f"profile {profile.name!r} lacks token_audio_s, the seconds of audio of one decode "
        "step: give it there (voicesim calibrate --token-audio 80ms), or token_audio in the pool"
    )


def profile_of(pool: Pool) -> Profile:
    """A pool's profile, under its engine's transform.  Raises ProfileError."""
    return transformed(load_profile(pool.engine.profile_path), pool.engine.transform)


def signed(seed: int) -> int:
    """A seed of 64 bits as the kernel's int64."""
    return seed - (1 << 64) if seed >= 1 << 63 else seed


def run_seed(scenario: Scenario, replication: int) -> int:
    """Seed of what is drawn during the run; a pool beside others has its own, by its name."""
    seed = rng.run_seed(scenario.seed, replication)
    if scenario.slice == (0.0, 1.0):
        return seed
    (name,) = scenario.cluster.pools
    return rng.hash_key_py(seed, rng.Purpose.POOL, zlib.crc32(name.encode()), 0)


def codec_spec(codec: Any, profile: Profile) -> CodecSpec:
    """The codec stage's numbers; its cost from the scenario or else from the profile."""
    override = None
    if codec.cost is not None:
        override = {
            "floor_s": codec.cost.floor,
            "per_row_s": codec.cost.per_row,
            "per_frame_s": codec.cost.per_frame,
        }
    if override is None and profile.codec is None:
        raise ModelError(
            f"profile {profile.name!r} has no codec cost: give codec.cost "
            "{floor, per_row, per_frame} in the pool"
        )
    cost = profile.codec_cost(override)
    if codec.on == "other_gpu":
        cost = cost + np.array([0.0, codec.handoff, 0.0])
    reserve = getattr(codec.queue, "reserve", None)
    return CodecSpec(
        cost=cost,
        left_context=codec.left_context,
        cap=codec.batch.cap,
        gather=codec.batch.window,
        workers=codec.workers,
        queue=CODEC_QUEUES.index(codec.queue.kind + "_reserve" * (reserve is not None)),
        window=getattr(codec.queue, "streams", 0),
        lead=getattr(codec.queue, "lead", 1.0),
        reserve=reserve or 0.0,
        shared=codec.on == "same_gpu",
    )


def capture_sizes(engine: Any) -> list[int] | None:
    """CUDA graph sizes: None = the profile's own, [] = none; "vllm" its default list.

    vLLM: [1, 2, 4], then steps of 8, then of 16 from 256 on, up to
    min(2 * max_num_seqs, 512, max_num_batched_tokens).
    """
    if engine.capture_sizes == "profile":
        return None
    if engine.capture_sizes == "none":
        return []
    if engine.capture_sizes == "vllm":
        most = min(2 * engine.max_num_seqs, 512, engine.max_num_batched_tokens)
        return [b for b in (1, 2, 4, *range(8, 256, 8), *range(256, 513, 16)) if b <= most]
    return list(engine.capture_sizes)


def jitter_table(mean: float) -> np.ndarray:
    """float64[4096] inverse CDF of the extra one-way delay (s): gamma of shape 2, an assumption."""
    if mean == 0.0:
        return np.zeros(4096)
    return gamma.ppf((np.arange(4096) + 0.5) / 4096, 2.0, scale=mean / 2.0)


def lost_numbers(scenario: Scenario) -> dict[str, Any]:
    """What callers do whose replica failed, and the budget of all retries."""
    refused, lost = scenario.tts.refused, scenario.tts.lost
    found: dict[str, Any] = {}
    if refused is not None and refused.retry.budget is not None:
        found |= {"retry_budget": refused.retry.budget, "retry_burst": RETRY_RESERVE}
    if lost is not None and lost.then == "reconnect":
        found["reconnect"] = lost.within
    return found


def policy_numbers(scenario: Scenario) -> dict[str, Any]:
    """Kinds and knobs of the built-in policies."""
    admit, route = scenario.policies.admission, scenario.policies.routing
    custom = route.kind == "custom"
    numbers: dict[str, Any] = {
        "routing": routing.LEAST_STREAMS if custom else routing.KINDS.index(route.kind),
        "epsilon": getattr(route, "epsilon", 0.25),
        "stale": getattr(route, "age", 0.0) > 0.0,
        "reserves": getattr(route, "reserve", False),
        "pinned": getattr(route, "pinned", False),
    }
    if admit.kind == "cap":
        numbers |= {"admission": admission.CAP, "limit": admit.streams}
    elif admit.kind == "cap_queue":
        numbers |= {
            "admission": admission.CAP_QUEUE,
            "limit": admit.streams,
            "deadline": admit.deadline,
            "max_queued": 1 << 40 if admit.max_waiting is None else admit.max_waiting,
        }
    elif admit.kind == "slack":
        numbers |= {"admission": admission.SLACK, "lead": admit.lead}
    return numbers


def python_policies(scenario: Scenario, spec: PoolSpec, always: bool = False) -> Any:
    """The decision in Python if a policy is the user's own (or ``always``), else None.

    A policy's module is looked for beside the scenario, then in the working folder.
    """
    given = scenario.policies
    custom = [p for p in (given.admission, given.routing) if p.kind == "custom"]
    return decision(scenario, spec, given.admission, given.routing) if custom or always else None


def shadows(scenario: Scenario, spec: PoolSpec) -> Shadows | None:
    """The policy in charge with the shadows of a scenario of utterances; None without any."""
    given = scenario.policies
    if not given.shadow:
        return None
    in_charge = decision(scenario, spec, given.admission, given.routing)
    others = {
        name: decision(
            scenario,
            spec,
            each.admission or given.admission,
            each.routing or given.routing,
            each.admission is None,
        )
        for name, each in given.shadow.items()
    }
    return Shadows(in_charge, others)


def decision(
    scenario: Scenario, spec: PoolSpec, admit: Any, route: Any, in_charge: bool = True
) -> Any:
    """An admission and a routing policy, built in or the user's own, as one decision in Python.

    in_charge: the run's own admission policy, whose cap may be the pool's.
    """
    custom = [p for p in (admit, route) if p.kind == "custom"]
    for folder in (str(Path.cwd()), str(scenario.home)):
        if folder not in sys.path:
            sys.path.insert(0, folder)
    routes = {
        "round_robin": python.RoundRobin,
        "least_streams": python.LeastStreams,
        "power_of_two": python.PowerOfTwo,
        "bounded_hash": lambda: python.BoundedHash(getattr(route, "epsilon", spec.epsilon)),
        "inverse_prob": python.InverseProb,
        "pack": lambda: python.Pack(spec.limit),
    }
    if route.kind == "custom":
        chosen = python.load_policy(route.policy, route.options, "choose")
    else:
        chosen = routes[route.kind]()
    if admit.kind == "custom":
        admitted = python.load_policy(admit.policy, admit.options, "admit")
    else:
        limit = spec.limit if in_charge else getattr(admit, "streams", 0)
        queue = getattr(admit, "max_waiting", None)
        admitted = {
            "admit_all": python.AdmitAll,
            "cap": lambda: python.Cap(limit),
            "cap_queue": lambda: python.CapQueue(limit, 1 << 40 if queue is None else queue),
            "slack": lambda: python.Slack(getattr(admit, "lead", None)),
        }[admit.kind]()
    decide = python.decider(chosen, admitted)
    if not custom:
        return decide
    names = " and ".join(p.policy for p in custom)
    return python.checked(decide, spec.engines, names, may_queue=admit.kind == "cap_queue")
