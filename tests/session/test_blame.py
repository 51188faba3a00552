"""Why an answer stalled: dialogues with one planted cause, and what holds of every log."""

import dataclasses

import numpy as np
import pytest

from tests.engine.worlds import step_cost
from tests.session.test_equality import played
from tests.session.worlds import differences, random_dialogue
from voicesim.engine import blame as b
from voicesim.engine.spec import PoolSpec
from voicesim.session import record as rec
from voicesim.session.spec import DialogueSpec
from voicesim.session.tape import DialogueTape

UNITS = 5


def stage(seconds: float, **more) -> PoolSpec:
    """An engine whose step takes ``seconds`` whoever is in it."""
    step = step_cost(memory=seconds, base=0.0, per_token=0.0, per_kv=0.0)
    return PoolSpec(engines=1, step=step, stage=True, **{"schedule": (10,), **more})


def calls(n: int, unit_tokens: int, every: float = 60.0) -> DialogueTape:
    """n calls of a turn each, answered in five units of ten words and ``unit_tokens`` of speech."""
    ones, units = np.ones(n), n * UNITS
    return DialogueTape(
        arrival=np.arange(n) * every, first=np.arange(n + 1), tenant=np.zeros(n, np.int64),
        think=0 * ones, speech=ones, endpoint=0.2 * ones, cut_at=np.full(n, np.inf),
        cut_pause=0 * ones, cut_endpoint=0 * ones, patience=np.full(n, np.inf),
        barge=np.full(n, np.inf), false_barge=np.full(n, np.inf), answer=np.arange(n),
        cut=np.full(n, -1), prompt=np.full(n, 50), hit=np.zeros(n, np.int64),
        reply=np.full(n, 10 * UNITS), encode=0 * ones, llm=np.zeros(n, np.int64),
        tts=np.zeros(n, np.int64), omni=np.zeros(n, np.int64), omni_prompt=np.ones(n, np.int64),
        omni_tokens=np.ones(n, np.int64), unit=np.arange(n + 1) * UNITS,
        unit_end=np.tile(np.arange(1, UNITS + 1) * 10, n), unit_tokens=np.full(units, unit_tokens),
        unit_prompt=np.full(units, 10), unit_cached=np.zeros(units, np.int64),
    )  # fmt: skip


def world(llm: PoolSpec, tts: PoolSpec, **more) -> DialogueSpec:
    return DialogueSpec((llm,), (tts,), horizon=600.0, end=1200.0, blame=True, **more)


def text():
    """A word takes 0.3 s, ten of them 3 s, and last for 1.6 s of speech."""
    return world(stage(0.3), stage(0.02)), calls(6, 20)


def pacing():
    """A unit goes to the TTS engine 0.1 s before the speech ends; its first chunk takes 0.4 s."""
    return world(stage(0.01), stage(0.04), ahead=0.1), calls(6, 20)


def client():
    """The client's code works for 1.2 s on a second of audio."""
    return world(stage(0.01), stage(0.02), client_per_audio=1.2), calls(6, 20)


def queue():
    """One stream at a time at the TTS engine, asked a second ahead; six calls at once."""
    tts = stage(0.04, max_num_seqs=1, schedule=(20,))
    tape = calls(6, 20, every=0.3)
    return world(stage(0.01), tts, ahead=1.0), tape


PLANTED = (text, pacing, client, queue)


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_a_planted_cause_is_found(plant):
    spec, tape = plant()
    run = played(spec, tape)
    found = [b.CAUSES[c] for c in run.stall_i[:, b.L_CAUSE]]
    assert len(found) >= 10
    assert found.count(plant.__name__) >= 0.95 * len(found), found


def test_how_late_the_text_was():
    """Unit 1's words are there 3 s after unit 0's, whose speech had left after 20 steps of 20 ms:
    2.6 s later the rest is asked for, and after 0.2 s its first chunk is heard: 1.6 s of audio and
    0.2 s at the engine in 3 s make a silence of 1.4 s."""
    spec, tape = text()
    run = played(spec, tape)
    first = np.flatnonzero(run.stall_i[:, b.L_UNIT] == 1)
    assert run.stall_f[first, b.L_LENGTH] == pytest.approx([1.4] * 6)
    assert (run.stall_f[first, b.L_SHARES + b.TEXT] > 1.3).all()


def test_how_late_the_gate_was():
    """A gate 0.1 s before the end of the speech, a first chunk of ten steps of 40 ms: 0.3 s."""
    spec, tape = pacing()
    run = played(spec, tape)
    assert run.stall_f[:, b.L_LENGTH] == pytest.approx([0.3] * 24)
    assert run.stall_f[:, b.L_SHARES + b.PACING] == pytest.approx([0.3] * 24)


@pytest.mark.parametrize("seed", range(30))
def test_what_holds_of_every_log(seed):
    """Every audible stall is in it; its shares make it up; asking for causes changes nothing."""
    spec, tape = random_dialogue(seed, blame=True, audible=0.0, trace=None)
    run = played(spec, tape)
    silent = played(dataclasses.replace(spec, blame=False), tape)
    assert [x for x in differences(run, silent) if not x.startswith("stall")] == []
    assert len(silent.stall_i) == 0
    logged = np.bincount(run.stall_i[:, b.L_WHO], minlength=tape.answers)
    assert np.array_equal(logged, run.answer_i[:, rec.A_AUDIBLE])
    shares = run.stall_f[:, b.L_SHARES :]
    assert (shares >= 0).all()
    assert np.allclose(shares.sum(axis=1), run.stall_f[:, b.L_LENGTH], rtol=1e-9, atol=1e-12)
    if len(shares):
        assert np.array_equal(shares.argmax(axis=1), run.stall_i[:, b.L_CAUSE])
