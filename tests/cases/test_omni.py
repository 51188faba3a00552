"""A speech-to-speech model beside the three stages, and back to them when it is late.

Must show: every answer that is late goes through recognition, language model and synthesis and
starts no earlier than the time-out; none falls back while the model is fast; the model's cards are
paid by themselves, busy or not.
"""

import dataclasses

import numpy as np
import pytest

from tests.cases.calls import END, calls, delay, play, pool, stages
from tests.session.worlds import differences
from voicesim.engine.asr_spec import OFFLINE, AsrSpec
from voicesim.engine.layout import COMPLETED, R_OUTCOME
from voicesim.metrics.dialogue import Tables, run_metrics
from voicesim.metrics.dialogue_run import Played, Stage, Terms
from voicesim.session import record as rec
from voicesim.session.reference import run_dialogue_reference

LIMIT = 0.5  # s without a sound
THREE = 6 * 0.01 + 5 * 0.02  # LLM's first unit, TTS engine's first chunk
ASR = AsrSpec(kind=OFFLINE, cost=np.array([0.05, 0.0, 0.0]), cap=8)


def spoken(n: int, step: float, asr=None, apart: float = 0.0, **engine):
    """n calls that begin ``apart`` seconds after each other."""
    one = np.ones(n, np.int64)
    tape = calls([[(6, 20)]] * n, apart * np.arange(n), omni=one, omni_tokens=40 * one)
    spec = stages(0.01, pool(0.02, chunk=5), omni=pool(step, chunk=5, **engine), asr=asr,
                  omni_timeout=LIMIT)  # fmt: skip
    return spec, tape, play(spec, tape)


def test_none_falls_back_while_it_is_fast():
    """Five steps of 40 ms to the first sound; no recognition, no text, no synthesis."""
    _, _, run = spoken(3, 0.04, ASR)
    assert delay(run) == pytest.approx(np.full(3, 0.2), abs=1e-9)
    assert not run.answer_i[:, rec.A_FELL_BACK].any()
    assert [p.counters["steps"] for p in run.pools] == [0, 0, 40]
    assert float(run.asr["jobs"]) == 0
    assert (run.answer_f[:, rec.A_FIRST_UNIT] == run.answer_f[:, rec.A_DECIDED]).all()


@pytest.mark.parametrize("asr", [None, ASR])
def test_all_fall_back_when_it_is_slow(asr):
    """Five steps of 0.11 s are 50 ms too many: the time-out, recognition, and the three stages."""
    _, _, run = spoken(3, 0.11, asr, apart=10.0)
    recognition = 0.05 if asr else 0.0
    assert (run.answer_i[:, rec.A_FELL_BACK] == 1).all()
    assert delay(run) == pytest.approx(np.full(3, LIMIT + recognition + THREE), abs=1e-9)
    text = run.answer_f[:, rec.A_TEXT] - run.answer_f[:, rec.A_DECIDED]
    assert text == pytest.approx(np.full(3, LIMIT + recognition), abs=1e-9)  # it counts as asr
    assert all((p.utterance_i[:, R_OUTCOME] == COMPLETED).all() for p in run.pools[:2])
    assert run.pools[2].counters["stream_steps"] <= 3 * 5  # cancelled at the time-out
    if asr:
        assert float(run.asr["jobs"]) == 3


@pytest.mark.parametrize("n", [2, 3, 6])
def test_who_does_not_get_a_place_falls_back(n):
    """Two places: the first two are answered by it, the others wait for 0.5 s in vain."""
    _, _, run = spoken(n, 0.04, ASR, max_num_seqs=2)
    fell = run.answer_i[:, rec.A_FELL_BACK] == 1
    assert fell.sum() == n - 2
    late = delay(run)
    assert (late[fell] >= LIMIT).all() and (late[~fell] < LIMIT).all()
    assert float(run.asr["jobs"]) == n - 2
    assert run.pools[2].counters["stream_steps"] == 2 * 40


def test_who_is_refused_falls_back_at_once():
    """By an engine whose queue is full; without a way back the call is lost."""
    spec, tape, run = spoken(2, 0.04, ASR, apart=10.0, max_engine_queue=0)
    assert (run.answer_i[:, rec.A_FELL_BACK] == 1).all()
    assert delay(run) == pytest.approx(np.full(2, 0.05 + THREE), abs=1e-9)
    assert differences(run, run_dialogue_reference(spec, tape)) == []
    lost = play(dataclasses.replace(spec, omni_timeout=np.inf), tape)
    assert (lost.answer_i[:, rec.A_OUTCOME] == rec.NOT_SERVED).all()


@pytest.mark.parametrize("step", [0.04, 0.11])
def test_its_cards_are_paid_by_themselves(step):
    """Two cards at 3 an hour beside one at 2 and one at 4, whoever answers; made in vain or not."""
    spec, tape, run = spoken(3, step)
    terms = Terms(
        stages=[
            Stage("llm", "llm", 0, "small", 1, 2.0),
            Stage("tts", "tts", 1, "middle", 1, 4.0),
            Stage("omni", "omni", 2, "large", 2, 3.0),
        ]
    )
    cost = run_metrics(Tables(Played(terms, spec, tape, run)))["cost"]
    assert cost["total"] == pytest.approx((2.0 + 4.0 + 2 * 3.0) * END / 3600.0)
    assert cost["per_call"] == pytest.approx(cost["total"] / 3)
    # what it had made before the time-out nobody heard: all of its own price is waste
    assert cost["waste"] == pytest.approx(0.0 if step < 0.1 else 2 * 3.0 * END / 3600.0)
