"""Why a stall was heard: worlds with one planted cause, and what holds of every log."""

import dataclasses

import numpy as np
import pytest

from tests.engine.worlds import differences, random_world, step_cost, tape_of
from voicesim.engine import blame as b
from voicesim.engine import layout as at
from voicesim.engine.card import TIME_SLICED
from voicesim.engine.pool import Pool, record
from voicesim.engine.spec import CodecSpec, OnCard, PoolSpec

SPIKES = np.where(np.arange(4096) < 4055, 1.0, 60.0)
"""Inverse CDF of a noise that makes one step in a hundred sixty times as long."""
RARE_DELAY = np.where(np.arange(4096) < 3900, 0.0, 1.5)


def played(spec: PoolSpec, tape):
    pool = Pool(spec, tape)
    pool.advance(spec.end)
    return record(pool)


def causes(run) -> list[str]:
    return [b.CAUSES[c] for c in run.stall_i[:, b.L_CAUSE]]


def talkers(n: int, tokens: int = 400, every: float = 0.05, prompt: int = 8):
    """n streams, one after another."""
    return tape_of(np.arange(n) * every, [tokens] * n, [prompt] * n)


def batch():
    """Forty streams at 2.5 ms each beyond the first's 20 ms: 120 ms a step, 80 ms of audio."""
    step = step_cost(memory=0.0, base=0.0175, per_token=0.0025, per_kv=0.0)
    return PoolSpec(engines=1, step=step, schedule=(10,)), talkers(40)


def prefill():
    """Two talkers; every 12 s somebody's prompt of 2,000 tokens takes two seconds."""
    step = step_cost(memory=0.0, base=0.03, per_token=0.001, per_kv=0.0)
    spec = PoolSpec(engines=1, step=step, schedule=(10,), max_queue=1.0, budget=4000)
    late = np.arange(1, 6) * 12.0
    return spec, tape_of([0.0, 0.1, *late], [900, 900, *[1] * 5], [8, 8, *[2000] * 5])


def codec():
    """Steps stay at 20 ms; each chunk of 0.8 s of audio takes the one worker 0.1 s, and twenty
    streams want it."""
    spec = PoolSpec(
        engines=1, step=step_cost(memory=0.02, base=0.0, per_token=0.0, per_kv=0.0),
        schedule=(10,), codec=CodecSpec(np.array([0.1, 0.0, 0.0]), shared=False),
    )  # fmt: skip
    return spec, talkers(20)


def preemption():
    """Twenty streams in a KV cache for six: who is thrown out waits for another's end."""
    step = step_cost(memory=0.02, base=0.0, per_token=0.0, per_kv=0.0)
    spec = PoolSpec(engines=1, step=step, schedule=(10,), blocks=150, max_queue=2.0)
    return spec, talkers(20, tokens=380)


def sharing():
    """Alone a step takes 60 ms; beside the codec, at work for 0.29 s a chunk, 240 ms."""
    spec = PoolSpec(
        engines=1, step=step_cost(memory=0.06, base=0.0, per_token=0.0, per_kv=0.0),
        schedule=(5,), codec=CodecSpec(np.array([0.29, 0.0, 0.0]), workers=4, cap=4),
        decode_slowdown=4.0,
    )  # fmt: skip
    return spec, talkers(1)


def neighbours():
    """A step takes 30 ms alone; three replicas on one card make it 90 ms, for 80 ms of audio."""
    spec = PoolSpec(
        engines=3, step=step_cost(memory=0.03, base=0.0, per_token=0.0, per_kv=0.0),
        schedule=(10,), on_card=OnCard(0, TIME_SLICED, 3), routing=0,
    )  # fmt: skip
    return spec, talkers(3)


def network():
    """One chunk in twenty comes 1.5 s late; little is kept in the buffer."""
    spec = PoolSpec(
        engines=1, step=step_cost(memory=0.02, base=0.0, per_token=0.0, per_kv=0.0),
        schedule=(10,), jitter=RARE_DELAY, max_queue=1.0,
    )  # fmt: skip
    return spec, talkers(10)


def pause():
    """One step in a hundred takes 1.8 s instead of 30 ms; little is kept in the buffer."""
    spec = PoolSpec(
        engines=1, step=step_cost(memory=0.03, base=0.0, per_token=0.0, per_kv=0.0),
        schedule=(10,), noise=SPIKES, max_queue=1.0,
    )  # fmt: skip
    return spec, talkers(10)


def schedule():
    """1 frame, then 25 of them: the first seam of a stream alone."""
    spec = PoolSpec(
        engines=1, step=step_cost(memory=0.0448, base=0.0, per_token=0.0, per_kv=0.0),
        schedule=(1, 25),
    )  # fmt: skip
    return spec, talkers(8, every=40.0)


PLANTED = (batch, prefill, codec, preemption, sharing, neighbours, network, pause, schedule)


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_a_planted_cause_is_found(plant):
    spec, tape = plant()
    run = played(dataclasses.replace(spec, blame=True), tape)
    found = causes(run)
    assert len(found) >= 4
    assert found.count(plant.__name__) >= 0.95 * len(found), found


def test_the_first_seam_of_one_then_25_frames():
    """25 steps of 44.8 ms are 1.12 s; one frame of audio covers 0.08 s: 1.04 s of silence."""
    spec, tape = schedule()
    run = played(dataclasses.replace(spec, blame=True), tape)
    assert run.stall_f[:, b.L_LENGTH] == pytest.approx([1.04] * 8)
    assert run.stall_f[:, b.L_SHARES + b.SCHEDULE] == pytest.approx([1.04] * 8)
    assert list(run.stall_i[:, b.L_CHUNK]) == [1] * 8


def test_what_is_said_of_a_prompt():
    """Two streams decode at 32 ms; a prompt of 2,000 tokens takes 2.031 s in one step with them."""
    spec, tape = prefill()
    run = played(dataclasses.replace(spec, blame=True), tape)
    first = run.stall_i[0]
    assert (first[b.L_TOKENS], first[b.L_LONGEST]) == (2000, 2000)
    assert (first[b.L_BATCH_THEN], first[b.L_BATCH_MOST]) == (2, 3)
    assert 12.0 <= run.stall_f[0, b.L_LONGEST_AT] < 12.04
    assert run.stall_f[0, b.L_BEGAN] - run.stall_f[0, b.L_SINCE] < 2.0


def test_growth_is_what_is_unusual():
    """A steady prompt load beside a batch that doubles: the batch is to blame, not the prompts."""
    step = step_cost(memory=0.0, base=0.018, per_token=0.002, per_kv=0.0)
    spec = PoolSpec(engines=1, step=step, schedule=(10,), blame=True, max_queue=1.0)
    early, late = np.zeros(20), np.full(30, 40.0)
    prompts = np.arange(0.5, 80.0, 0.5)
    tape = tape_of(
        np.concatenate([early, prompts[prompts <= 40], late, prompts[prompts > 40]]),
        [1200] * 20 + [1] * 80 + [600] * 30 + [1] * 79,
        [1] * 20 + [20] * 80 + [1] * 30 + [20] * 79,
    )
    found = causes(played(spec, tape))
    assert len(found) > 20
    assert found.count("batch") >= 0.95 * len(found)


@pytest.mark.parametrize("seed", range(40))
def test_what_holds_of_every_log(seed):
    """Every audible stall is in it; its shares make it up; asking for causes changes nothing."""
    spec, tape = random_world(seed, blame=True, audible=0.0, trace=None)
    run = played(spec, tape)
    silent = played(dataclasses.replace(spec, blame=False), tape)
    assert [x for x in differences(run, silent) if not x.startswith("stall")] == []
    assert len(silent.stall_i) == 0
    settled = run.utterance_i[:, at.R_OUTCOME] != at.PENDING
    logged = np.bincount(run.stall_i[:, b.L_WHO], minlength=len(settled))
    assert np.array_equal(logged[settled], run.utterance_i[settled, at.R_AUDIBLE])
    shares = run.stall_f[:, b.L_SHARES :]
    assert (shares >= 0).all()
    assert np.allclose(shares.sum(axis=1), run.stall_f[:, b.L_LENGTH], rtol=1e-9, atol=1e-12)
    assert np.array_equal(shares.argmax(axis=1), run.stall_i[:, b.L_CAUSE]) or not len(shares)


def test_equal_shares_go_to_the_first():
    out = np.zeros(b.NC)
    parts = np.zeros(2 * b.N_CHARGED)
    parts[[b.PREFILL, b.BATCH]] = 0.3
    assert b.split(parts, 0, out, 0, 0.2, 0.2, b.SCHEDULE) == b.PREFILL
    assert out[[b.PREFILL, b.BATCH]] == pytest.approx([0.1, 0.1])


def test_the_usual_is_charged_last():
    """0.5 s were lost: 0.3 s unusual at the codec, then 0.2 s of what the batch always costs."""
    out = np.zeros(b.NC)
    parts = np.zeros(2 * b.N_CHARGED)
    parts[b.CODEC] = 0.3
    parts[[b.BATCH, b.N_CHARGED + b.BATCH]] = 0.9
    assert b.split(parts, 0, out, 0, 0.25, 0.5, b.SCHEDULE) == b.CODEC
    assert out[[b.CODEC, b.BATCH]] == pytest.approx([0.15, 0.1])


def test_the_largest_since():
    rows = np.zeros(b.NEB)
    for step, size in enumerate([5, 9, 7, 7, 3], 1):
        b.remember(rows, 0, b.N_WIDEST, b.WIDEST, 2, step, size, 0.0)
    found = [b.largest_since(rows, 0, b.N_WIDEST, b.WIDEST, 2, s) for s in range(6)]
    assert [int(rows[i + 1]) if i >= 0 else None for i in found] == [9, 9, 7, 7, 3, None]


def test_only_so_many_are_remembered():
    rows = np.zeros(b.NEB)
    for step in range(1, 100):
        b.remember(rows, 0, b.N_WIDEST, b.WIDEST, 2, step, 1000 - step, 0.0)
    assert rows[b.N_WIDEST] == b.MOST_KEPT
    oldest = b.largest_since(rows, 0, b.N_WIDEST, b.WIDEST, 2, 0)
    assert rows[oldest] == 100 - b.MOST_KEPT
