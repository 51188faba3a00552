"""A scenario of calls becomes plain numbers (DialogueSpec) and callers (DialogueTape)."""

from dataclasses import replace
from typing import Any

import numpy as np

from voicesim.engine.asr_spec import ASR_KINDS, AsrSpec
from voicesim.engine.spec import INF, PoolSpec
from voicesim.scenario import Scenario
from voicesim.scenario.asr import AsrPool
from voicesim.scenario.cluster import Pool
from voicesim.scenario.dialogue import Dialogue
from voicesim.scenario.pipeline import Pipeline
from voicesim.session.spec import CANCELS, DialogueSpec
from voicesim.session.tape import DialogueTape
from voicesim.simulation import (
    jitter_table,
    policy_numbers,
    profile_of,
    signed,
    stage_numbers,
    token_audio,
)
from voicesim.workload import rng
from voicesim.workload.dialogue import Stages, draw_dialogue

NO_LIMIT = 1 << 40


def dialogue_spec(
    scenario: Scenario, replication: int = 0, record_chunks: bool = False, blame: bool = False,
    trace: tuple[float, float] | None = None,
) -> DialogueSpec:  # fmt: skip
    """The numbers of one replication of a scenario whose workload is a dialogue.

    Raises ModelError, ProfileError.
    """
    admit = scenario.policies.admission
    listener, pipe = scenario.listener, scenario.pipeline
    up = listener.uplink or listener.network
    player = listener.player
    pools = _pools(scenario, replication)
    omni = pools["omni"]
    return DialogueSpec(
        llm=pools["llm"],
        tts=pools["tts"],
        asr=None if scenario.cluster.asr is None else asr_spec(scenario.cluster.asr),
        omni=omni[0] if omni else None,
        limit=admit.streams if admit.kind == "cap" else NO_LIMIT,
        capture=listener.capture,
        delay=listener.network.delay,
        uplink=up.delay,
        jitter=jitter_table(listener.network.jitter),
        uplink_jitter=jitter_table(up.jitter),
        prebuffer=max(player.prebuffer, pipe.client.read_chunk),
        rebuffer=max(player.rebuffer, pipe.client.read_chunk),
        max_wait=INF if player.max_wait is None else player.max_wait,
        max_queue=INF if player.max_queue is None else player.max_queue,
        audible=listener.audible,
        **_conversation(pipe),
        connect_llm=handshake(pipe, pipe.core) + pipe.core + request_seconds(scenario, "llm"),
        connect_tts=handshake(pipe) + request_seconds(scenario, "tts"),
        horizon=scenario.horizon,
        warmup=scenario.warmup,
        end=scenario.horizon + scenario.drain,
        resolution=scenario.series.resolution,
        seed=signed(rng.run_seed(scenario.seed, replication)),
        record_chunks=record_chunks,
        blame=blame or trace is not None,
        trace=trace,
    )


def _conversation(pipe: Pipeline) -> dict[str, Any]:
    """The rules of conversation, by the names of DialogueSpec."""
    rules, client, filler = pipe.barge_in, pipe.client, pipe.filler
    found: dict[str, Any] = {
        "detect": rules.detect,
        "cancel": CANCELS.index(rules.cancel),
        "flush": rules.flush,
        "resume": INF if rules.resume is None else rules.resume,
        "prefetch": NO_LIMIT if pipe.prefetch is None else pipe.prefetch,
        "ahead": INF if pipe.ahead is None else pipe.ahead,
        "wait_all": client.consume == "wait",
        "client_per_audio": client.sleep,
        "client_per_chunk": client.resample,
    }
    if filler is not None:
        found |= {
            "filler_after": filler.after,
            "filler_audio": filler.audio,
            "filler_cut": filler.on_answer == "cut",
        }
    if pipe.omni is not None and pipe.omni.timeout is not None:
        found["omni_timeout"] = pipe.omni.timeout
    return found


def handshake(pipe: Pipeline, further: float = 0.0) -> float:
    """Seconds before a request is sent: a new connection's round trips, each ``further`` longer."""
    client = pipe.client
    if client.connection == "reused":
        return 0.0
    return client.round_trips * (client.round_trip + further)


def request_seconds(scenario: Scenario, role: str) -> float:
    """What a request takes outside the engines of a role, by their profiles (s): the longest."""
    profiles = [profile_of(pool) for pool in scenario.cluster.of(role).values()]
    return max(p.request_s.value if p.request_s else 0.0 for p in profiles)


def _system_prompt(scenario: Scenario) -> int:
    """Tokens that all prompts of the language models begin with: 0 if tenants' differ."""
    assert isinstance(scenario.workload, Dialogue)
    found = {talk.context.system for talk in scenario.workload.talks() if talk.context}
    return (found.pop() or 0) if len(found) == 1 else 0


def _pools(scenario: Scenario, replication: int) -> dict[str, tuple[PoolSpec, ...]]:
    """The pools of each role, in the order of the file."""
    found: dict[str, tuple[PoolSpec, ...]] = {}
    route = policy_numbers(scenario)["routing"]
    number = 0
    for role in ("llm", "tts", "omni"):
        specs = []
        for name, pool in scenario.cluster.of(role).items():
            spec = _stage(scenario, name, pool)
            specs.append(replace(spec, routing=route, seed=_seed(scenario, replication, number)))
            number += 1
        found[role] = tuple(specs)
    return found


def _seed(scenario: Scenario, replication: int, number: int) -> int:
    """Seed of what is drawn during the run in the pool of that number."""
    seed = rng.run_seed(scenario.seed, replication)
    return signed(rng.hash_key_py(seed, rng.Purpose.POOL, number, 1))


def _stage(scenario: Scenario, name: str, pool: Pool) -> PoolSpec:
    profile = profile_of(pool)
    prefix = scenario.pipeline.voice_prompt if pool.role == "tts" else _system_prompt(scenario)
    return PoolSpec(
        stage=True,
        **stage_numbers(scenario, name, profile),
        token_audio=1.0 if pool.role == "llm" else token_audio(profile, pool),
        prefix=prefix if pool.engine.prefix_caching else 0,
        horizon=scenario.horizon,
        warmup=scenario.warmup,
        end=scenario.horizon + scenario.drain,
        resolution=scenario.series.resolution,
    )


def asr_spec(pool: AsrPool) -> AsrSpec:
    """The recogniser's numbers; what its kind does not have keeps AsrSpec's default."""
    asr = pool.asr
    found: dict[str, Any] = {"kind": ASR_KINDS.index(asr.kind), "engines": pool.replicas}
    for name in ("chunk", "window", "cap", "workers", "slots", "step"):
        if hasattr(asr, name):
            found[name] = getattr(asr, name)
    if hasattr(asr, "right_context"):
        found["right"] = asr.right_context
    if hasattr(asr, "cost"):
        found["cost"] = np.array([asr.cost.floor, asr.cost.per_row, asr.cost.per_audio])
    return AsrSpec(**found)


def dialogue_tape(scenario: Scenario, replication: int = 0) -> DialogueTape:
    """The callers of one replication.  Raises ModelError, ProfileError."""
    workload = scenario.workload
    assert isinstance(workload, Dialogue)
    return draw_dialogue(
        workload,
        scenario.pipeline,
        stages_of(scenario),
        scenario.horizon,
        scenario.seed,
        replication,
    )


def stages_of(scenario: Scenario) -> Stages:
    """What the tape must know of the engines.  Raises ModelError, ProfileError."""
    cluster, cascade = scenario.cluster, scenario.pipeline.cascade
    llm, tts, omni = (cluster.of(role) for role in ("llm", "tts", "omni"))
    names = list(llm)
    speech = next(iter(omni.values()), None)
    return Stages(
        llm_tokens=tuple(pool.engine.max_tokens for pool in llm.values()),
        caching=tuple(pool.engine.prefix_caching for pool in llm.values()),
        block_size=tuple(pool.engine.block_size for pool in llm.values()),
        tts_tokens=tuple(pool.engine.max_tokens for pool in tts.values()),
        token_audio=tuple(token_audio(profile_of(pool), pool) for pool in tts.values()),
        voices=tuple(1.0 if pool.share is None else pool.share for pool in tts.values()),
        small=names.index(cascade.small) if cascade else 0,
        large=names.index(cascade.large) if cascade else 0,
        omni_audio=token_audio(profile_of(speech), speech) if speech else 0.0,
        omni_tokens=speech.engine.max_tokens if speech else 0,
    )
