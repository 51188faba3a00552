"""C22 and C24 within a conversation: a recogniser that falls behind, and one with places.

https://github.com/ufal/whisper_streaming/issues/138, https://github.com/ufal/whisper_streaming/issues/42,
https://github.com/QuentinFuxa/WhisperLiveKit/issues/388: beyond full load the lag grows.
https://github.com/kyutai-labs/delayed-streams-modeling/issues/151: a slot server's delay is flat
until it is full, then callers are turned away.

Must show: with rho > 1 the asr segment grows as (rho - 1) t, flat below; a caller who waits for an
answer says nothing, so the load that counts over a call is rho x the share of time that is speech;
with slots nobody is late and the one too many is refused at once.
"""

import numpy as np
import pytest

from tests.cases.calls import ENDPOINT, calls, play, pool, stages
from voicesim.engine.asr_spec import SLOTS, STREAMING, AsrSpec
from voicesim.engine.layout import REFUSED
from voicesim.session import record as rec

CHUNK, COST = 1.0, 0.11  # s: each second of speech is decoded with the nine before it
SERIAL = AsrSpec(kind=STREAMING, chunk=CHUNK, cost=np.array([COST, 0.0, 0.0]), cap=1)
FAST = pool(0.02, chunk=5)


def lag(run) -> np.ndarray:
    """The asr segment of each answer (s)."""
    return run.answer_f[:, rec.A_TEXT] - run.answer_f[:, rec.A_DECIDED]


def speak(n: int, seconds: float, spec=SERIAL):
    tape = calls([[(5, 10)]] * n, speech=np.full(n, seconds))
    return play(stages(0.01, FAST, asr=spec), tape)


@pytest.mark.parametrize("n", [1, 8, 9])
def test_below_full_load_the_asr_segment_does_not_know_how_long_the_caller_spoke(n):
    short, long, longer = (lag(speak(n, t)) for t in (10.0, 40.0, 160.0))
    assert long == pytest.approx(short, abs=1e-9)
    assert longer == pytest.approx(short, abs=1e-9)
    assert short.max() <= (2 * n + 1) * COST  # the chunks of that second and the flush


@pytest.mark.parametrize("n", [10, 12, 16])
def test_beyond_it_the_asr_segment_grows_with_the_speech(n):
    rho = n * COST / CHUNK
    seconds = np.array([40.0, 80.0, 160.0])
    late = np.array([lag(speak(n, t)).mean() for t in seconds])
    assert np.diff(late) == pytest.approx((rho - 1) * np.diff(seconds), abs=1e-9)
    assert late.min() > (rho - 1) * 40.0 - ENDPOINT


def test_in_a_conversation_the_answers_let_it_catch_up():
    """Twelve callers who speak for 10 s and listen for 16: rho = 1.32 while they all speak and 0.5
    over the call, so every turn is as late as the first, none later."""
    n, turns = 12, 6
    first = np.arange(n + 1) * turns
    replies = [[(5, 200)]] * (n * turns)
    tape = calls(
        replies, arrival=np.zeros(n), first=first, tenant=np.zeros(n, np.int64),
        speech=np.full(n * turns, 10.0),
    )  # fmt: skip
    late = lag(play(stages(0.01, FAST, asr=SERIAL), tape)).reshape(n, turns)
    # ten chunks and the end of each caller, one after the other, from the first chunk on
    assert late[:, 0].max() == pytest.approx(CHUNK + n * 11 * COST - (10.0 + ENDPOINT), abs=1e-9)
    assert late[:, 1:].max() < late[:, 0].max()
    assert late.mean(axis=0)[1:].max() <= late.mean(axis=0)[0]


FRAME, STEP, PLACES = 0.08, 0.027, 4
STT = AsrSpec(kind=SLOTS, chunk=FRAME, right=0.48, slots=PLACES, step=STEP)


@pytest.mark.parametrize("n", [1, 2, 4, 5, 7])
def test_a_slot_server_is_flat_until_it_is_full_and_then_refuses_at_once(n):
    """With four calls as with one, but for the step that is on its way when a turn ends; the fifth
    hears nothing at all."""
    tape = calls([[(5, 10)]] * n, 0.505 * np.arange(n), speech=np.full(n, 10.0))
    run = play(stages(0.01, FAST, asr=STT), tape)
    refused = run.call_i[:, rec.Q_OUTCOME] == REFUSED
    assert refused.sum() == max(0, n - PLACES) and not refused[:PLACES].any()
    assert (run.call_f[refused, rec.Q_END] == run.call_f[refused, rec.Q_START]).all()
    assert (run.call_i[refused, rec.Q_TURNS] == 0).all()
    alone = lag(speak(1, 10.0, STT))[0]
    assert alone == pytest.approx(7 * STEP, abs=1e-9)  # the delay's six frames and the last one
    assert (lag(run)[~refused] >= alone - 1e-9).all()
    assert (lag(run)[~refused] <= alone + STEP + 1e-9).all()


def test_a_place_is_held_for_the_whole_call():
    """Also while the caller listens: who comes in the middle of an answer is refused, who comes
    after the end of a call is not."""
    n = PLACES
    arrival = np.array([0.0] * n + [6.0, 40.0])
    tape = calls([[(5, 200)]] * (n + 2), arrival, speech=np.full(n + 2, 5.0))
    run = play(stages(0.01, FAST, asr=STT), tape)
    refused = run.call_i[:, rec.Q_OUTCOME] == REFUSED
    assert refused.tolist() == [False] * n + [True, False]
