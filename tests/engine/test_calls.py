"""Calls that stay with a replica, are cut there, and are moved to another pool by its weight."""

import dataclasses

import numpy as np
import pytest

from tests.engine.test_equality import both
from tests.engine.worlds import differences, random_fleet, random_world, step_cost, tape_of
from voicesim.engine import layout as at
from voicesim.engine.pool import Pool, PoolEnvironment, record
from voicesim.engine.spec import PoolSpec
from voicesim.policy import routing


@pytest.mark.parametrize("fleet", [False, True])
@pytest.mark.parametrize("seed", range(60))
def test_pinned_worlds_are_equal_to_the_last_bit(seed, fleet):
    """Under a process that closes and opens replicas, cuts calls and moves weights."""
    draw = np.random.default_rng((seed, 7))
    make = random_fleet if fleet else random_world
    spec, tape = make(
        seed, engines=int(draw.integers(1, 4)), pinned=seed % 4 != 3,
        routing=int(draw.integers(4 if seed % 4 != 3 else 3)),
    )  # fmt: skip
    actions = draw.integers(0, 5, 60)
    replicas = draw.integers(0, spec.replicas, 60)
    waits = np.round(draw.exponential(0.4, 60), int(draw.choice([1, 6])))
    seen = []

    def operate(env, pool):
        for action, g, wait in zip(actions, replicas, waits, strict=True):
            yield env.timeout(wait)
            calls = [pool.calls_on(r) for r in range(spec.replicas)]
            if action == 0:
                seen.append((pool.cut_calls(int(g)), *calls))
            elif action == 1:
                pool.set_weight(int(g) % len(spec.pools), float(g) / 2)
            else:
                pool.set_open(int(g), bool(action > 2))
            seen.append((env.now, *calls))

    kernel, reference = both(spec, tape, [operate])
    assert differences(kernel, reference) == []
    assert seen[: len(seen) // 2] == seen[len(seen) // 2 :]


def test_calls_are_cut_in_the_worlds_above():
    """They would prove nothing if nobody was cut between and within utterances."""
    within = between = 0
    for seed in range(30):
        spec, tape = random_world(seed, engines=2, pinned=True)

        def operate(env, pool):
            for i in range(8):
                yield env.timeout(0.9)
                pool.cut_calls(i % 2)

        found = played(spec, tape, operate)
        cut = found.utterance_i[:, at.R_OUTCOME] == at.CUT
        admitted = found.utterance_f[:, at.Z_ADMIT] >= 0
        within += int((cut & admitted).sum())
        between += int((cut & ~admitted).sum())
    assert within > 50
    assert between > 20


def played(spec, tape, *processes):
    pool = Pool(spec, tape)
    env = PoolEnvironment(pool)
    for process in processes:
        env.process(process(env, pool))
    env.run(until=env.at(spec.end))
    return record(pool)


def three_calls(**more):
    """Three calls of three utterances of 1 s with pauses of 1 s; steps of 10 ms for 80 ms of audio,
    so an utterance of 13 tokens is sent in about 0.13 s and heard for 1.04 s."""
    tape = tape_of([0.0, 0.1, 0.2], [13] * 9, think=np.ones(9), first=[0, 3, 6, 9], prompt=[16] * 9)
    spec = PoolSpec(
        engines=2, step=step_cost(memory=0.0, per_kv=0.0, base=0.01, per_token=0.0), schedule=(1,),
        pinned=True, end=60.0, **more,
    )  # fmt: skip
    return spec, tape


def test_a_call_stays_where_its_first_utterance_went():
    spec, tape = three_calls(routing=routing.LEAST_CALLS)
    counts = []

    def look(env, pool):
        yield env.timeout(1.0)
        counts.append([pool.calls_on(0), pool.calls_on(1)])
        pool.set_open(0, False)
        yield env.timeout(58.0)
        counts.append([pool.calls_on(0), pool.calls_on(1)])

    found = played(spec, tape, look)
    assert found.utterance_i[:, at.R_ENGINE].tolist() == [0, 0, 0, 1, 1, 1, 0, 0, 0]
    assert (found.utterance_i[:, at.R_OUTCOME] == at.COMPLETED).all()
    assert counts == [[2, 1], [0, 0]]


def test_without_pinning_a_closed_replica_gets_no_further_utterance():
    spec, tape = three_calls()

    def close(env, pool):
        yield env.timeout(1.0)
        pool.set_open(0, False)

    found = played(dataclasses.replace(spec, pinned=False), tape, close)
    late = found.utterance_f[:, at.Z_REQUEST] > 1.0
    assert set(found.utterance_i[late, at.R_ENGINE].tolist()) == {1}


def test_a_cut_call_ends_there_and_then():
    """At 1.0 s all three are being listened to, their next utterances still to come."""
    spec, tape = three_calls(routing=routing.LEAST_CALLS)
    cut = []

    def operate(env, pool):
        yield env.timeout(1.0)
        cut.append(pool.cut_calls(0))
        cut.append(pool.calls_on(0))

    found = played(spec, tape, operate)
    outcome = found.utterance_i[:, at.R_OUTCOME].tolist()
    whole, gone, never = at.COMPLETED, at.CUT, at.PENDING
    assert outcome == [whole, gone, never, whole, whole, whole, whole, gone, never]
    assert cut == [2, 0]
    assert found.utterance_f[1, at.Z_DONE] == 1.0
    assert found.counters["live_calls"] == 0


def test_what_a_cut_call_is_being_sent_is_lost():
    """0.05 s after its request a call has had some of its 13 chunks, and gets no more."""
    spec, tape = three_calls(routing=routing.LEAST_CALLS)

    def operate(env, pool):
        yield env.timeout(0.05)
        pool.cut_calls(0)

    found = played(spec, tape, operate)
    assert found.utterance_i[0, at.R_OUTCOME] == at.CUT
    assert 0 < found.utterance_i[0, at.R_CHUNKS] < 6
    assert found.utterance_f[0, at.Z_DONE] == 0.05
    assert (found.utterance_i[3:, at.R_OUTCOME] == at.COMPLETED).all()
