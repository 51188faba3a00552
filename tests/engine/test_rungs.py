"""What a rung changes, by hand: a step takes 10 ms, a token is 80 ms of audio, no codec."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.test_equality import both
from tests.engine.test_faults import callers, operator
from tests.engine.worlds import (
    climbing,
    differences,
    random_fleet,
    random_world,
    step_cost,
    tape_of,
    with_ladders,
)
from voicesim.engine import layout as at
from voicesim.engine.pool import Pool
from voicesim.engine.spec import CodecSpec, PoolSpec, Routes, Rung
from voicesim.policy.degradation import REFUSE, STAND_IN

SPEC = PoolSpec(
    engines=1, step=step_cost(memory=0.0, base=0.01, per_token=0.0), schedule=(4, 20),
    record_chunks=True, end=60.0, horizon=30.0,
)  # fmt: skip


def at_rung(rung, tape, spec=SPEC, when=0.5, **more):
    """The run with one rung, climbed at ``when``."""

    def climb(env, pool):
        yield env.timeout(when)
        pool.set_rung(0, 1)

    kernel, reference = both(dataclasses.replace(spec, rungs=(rung,), **more), tape, [climb])
    assert differences(kernel, reference) == []
    return kernel


def test_a_larger_first_chunk_for_those_who_come_later():
    run = at_rung(Rung(schedule=(10, 20)), tape_of([0.0, 1.0], [40, 40]))
    assert run.chunk_f[run.chunk_i[:, at.L_INDEX] == 0, at.M_SENT] == pytest.approx([0.04, 1.10])
    assert run.utterance_i[:, at.R_RUNG].tolist() == [0, 1]


def test_who_was_admitted_before_keeps_what_they_had():
    """It asks at 0.45 s and has its fourth token at 0.49 s, the 24th at 0.69 s."""
    run = at_rung(Rung(schedule=(10, 30)), tape_of([0.45], [40]))
    assert run.chunk_f[:, at.M_SENT] == pytest.approx([0.49, 0.69, 0.85])


def test_shorter_replies():
    run = at_rung(Rung(speech=0.6), tape_of([0.0, 1.0, 2.0], [41, 41, 1]))
    assert run.utterance_i[:, at.R_GENERATED].tolist() == [41, 24, 1]
    assert run.utterance_f[:, at.Z_PLAY_END] - run.utterance_f[:, at.Z_START] == pytest.approx(
        [41 * 0.08, 24 * 0.08, 0.08]
    )


def test_a_shorter_prompt_is_computed_for_less():
    tape = tape_of([0.0, 1.0], [4, 4], prompt=[160, 160])
    assert at_rung(Rung(prompt=100), tape).counters["prefill_tokens"] == 160 + 60


def test_less_codec_work_per_frame():
    """100 ms and 10 ms a frame: 4 frames take 140 ms, at half the work 120 ms."""
    codec = CodecSpec(cost=np.array([0.1, 0.0, 0.01]))
    spec = dataclasses.replace(SPEC, codec=codec)
    run = at_rung(Rung(codec=0.5), tape_of([0.0, 1.0], [4, 4]), spec)
    assert run.chunk_f[:, at.M_SENT] == pytest.approx([0.18, 1.16])


def test_text_or_a_filler_needs_no_gpu_and_the_call_goes_on():
    """The second utterance of the call is asked for 2 s (filler) and 3 s (thinking) later."""
    tape = tape_of([1.0], [40, 40], think=[3.0, 0.0], first=[0, 2])
    run = at_rung(Rung(then=STAND_IN, filler=2.0), tape)
    assert run.utterance_i[:, at.R_OUTCOME].tolist() == [at.STOOD_IN] * 2
    assert run.utterance_f[:, at.Z_REQUEST] == pytest.approx([1.0, 6.0])
    assert run.counters["steps"] == 0
    assert run.series[:, at.B_DEGRADED].sum() == 2


def test_refusal_is_the_last_rung():
    run = at_rung(Rung(then=REFUSE), tape_of([0.0, 1.0], [4, 4]))
    assert run.utterance_i[:, at.R_OUTCOME].tolist() == [at.COMPLETED, at.REFUSED]


def test_a_filler_in_the_silence_keeps_the_caller():
    """A step takes a second.  The first sound would come at 5 s; patience is 3 s.  A filler of 1 s
    at 1.5 s: patience counts from 2.5 s, so they hear the speech; one of 0.2 s does not do."""
    spec = dataclasses.replace(
        SPEC, step=step_cost(memory=0.0, base=1.0, per_token=0.0), schedule=(5,), fill_after=1.5
    )
    tape = tape_of([0.0], [5], patience=[3.0])
    long, short = (at_rung(Rung(), tape, spec, filler=f) for f in (1.0, 0.2))
    assert long.utterance_i[0, [at.R_OUTCOME, at.R_FILLED]].tolist() == [at.COMPLETED, 1]
    assert long.utterance_f[0, at.Z_START] == pytest.approx(5.0)
    assert short.utterance_i[0, at.R_OUTCOME] == at.ABANDONED
    assert short.utterance_f[0, at.Z_DONE] == pytest.approx(4.7)


def test_a_smaller_model_serves_where_the_callers_may_go_there():
    """Pool 1 has no weight: nobody goes there by themselves; it takes half the time a step."""
    small = dataclasses.replace(
        SPEC, step=step_cost(memory=0.0, base=0.005, per_token=0.0), weight=0.0
    )
    for allowed, engine, first in ((1, 1, 1.02), (-1, 0, 1.04)):
        routes = Routes(
            np.array([[0, allowed]]), np.zeros((1, 2), np.int64), np.zeros((1, 2)), np.ones((1, 2))
        )
        spec = dataclasses.replace(SPEC, others=(small,), routes=routes)
        tape = dataclasses.replace(tape_of([0.0, 1.0], [4, 4]), row=np.zeros(2, np.int64))
        run = at_rung(Rung(to=1), tape, spec)
        assert run.utterance_i[:, at.R_ENGINE].tolist() == [0, engine]
        assert run.utterance_i[:, at.R_RUNG].tolist() == [0, 1]
        assert run.chunk_f[:, at.M_SENT] == pytest.approx([0.04, first])


def test_a_rung_that_is_not_there():
    pool = Pool(SPEC, tape_of([0.0], [4]))
    with pytest.raises(IndexError):
        pool.set_rung(0, 1)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32))
def test_ladders_and_faults_together_are_equal_to_the_last_bit(seed):
    spec, tape = (random_fleet if seed % 3 else random_world)(
        seed, may_close=False, **callers(seed)
    )
    spec = with_ladders(spec, seed)
    kernel, reference = both(spec, tape, [climbing(spec, seed), operator(seed, spec)])
    assert differences(kernel, reference) == []
