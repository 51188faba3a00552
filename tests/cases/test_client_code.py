"""The models are fast and the client's code gives it all back.

One habit at a time, in one call: a handshake before each request (TCP and TLS 1.3,
https://www.rfc-editor.org/rfc/rfc8446), audio read half a second at a time, a pacing sleep
(https://github.com/pipecat-ai/pipecat/issues/3315), conversion of the sample rate, waiting for the
whole unit, one stage after the other.

Must show: each adds exactly its own time to the first sound, in its own segment of the ledger; all
together they exceed what the models take.
"""

import numpy as np
import pytest

from tests.cases.calls import AUDIO, calls, delay, play, pool, silences, stages
from voicesim.session import record as rec

WORD, STEP, CHUNK = 0.01, 0.02, 5  # s a token, s a decode step, steps of a chunk
TEXT, SOUND = 6, 20  # tokens and decode steps of a unit
MODELS = TEXT * WORD + CHUNK * STEP  # 160 ms
SERIAL = [(2 * TEXT, 2 * SOUND)]


def asked(units=((TEXT, SOUND),) * 2, **knobs):
    return play(stages(WORD, pool(STEP, chunk=CHUNK), **knobs), calls([list(units)]))


def segments(run) -> dict[str, float]:
    """llm, tts, playback of the one turn (s)."""
    columns = [rec.A_TEXT, rec.A_FIRST_UNIT, rec.A_FIRST_SENT, rec.A_ARRIVED, rec.A_START]
    llm, tts, _, playback = np.diff(run.answer_f[0, columns])
    return {"llm": llm, "tts": tts, "playback": playback}


def test_without_habits_it_is_the_models():
    run = asked()
    assert delay(run) == pytest.approx(MODELS, abs=1e-9)
    assert segments(run) == pytest.approx(
        {"llm": TEXT * WORD, "tts": CHUNK * STEP, "playback": 0.0}, abs=1e-9
    )


@pytest.mark.parametrize(
    ("knobs", "segment", "cost"),
    [
        ({"connect_llm": 0.12}, "llm", 0.12),
        ({"connect_tts": 0.12}, "tts", 0.12),
        # chunks of 0.4 s come every 0.1 s: half a second is two of them, a whole one three
        ({"prebuffer": 0.5}, "playback", 0.1),
        ({"prebuffer": 1.0}, "playback", 0.2),
        ({"client_per_audio": 0.2}, "playback", 0.2 * CHUNK * AUDIO),
        ({"client_per_chunk": 0.015}, "playback", 0.015),
        ({"wait_all": True}, "tts", (SOUND - CHUNK) * STEP),
        ({"units": SERIAL}, "llm", TEXT * WORD),
    ],
)
def test_each_habit_costs_its_own_time_in_its_own_segment(knobs, segment, cost):
    run = asked(**knobs)
    assert delay(run) == pytest.approx(MODELS + cost, abs=1e-9)
    found, ideal = segments(run), segments(asked())
    ideal[segment] += cost
    assert found == pytest.approx(ideal, abs=1e-9)


def test_habits_add_up():
    """Those that do not touch each other."""
    run = asked(connect_llm=0.12, connect_tts=0.12, client_per_audio=0.2, client_per_chunk=0.015)
    assert delay(run) == pytest.approx(MODELS + 0.24 + 0.08 + 0.015, abs=1e-9)


def test_together_they_exceed_the_models():
    """The whole reply, 3.2 s of speech, passes every stage before a word is heard: also the sleep
    is for all of it."""
    run = asked(units=SERIAL, wait_all=True, connect_llm=0.12, connect_tts=0.12, prebuffer=0.5,
                client_per_audio=0.2, client_per_chunk=0.015)  # fmt: skip
    work = 2 * TEXT * WORD + 2 * SOUND * STEP
    client = 0.24 + 0.2 * 2 * SOUND * AUDIO + 0.015
    assert delay(run) == pytest.approx(work + client, abs=1e-9)
    assert delay(run)[0] - MODELS > 10 * MODELS
    assert client > 5 * MODELS


@pytest.mark.parametrize(("sleep", "gap"), [(0.5, 0.0), (1.0, 0.0), (1.2, 0.08), (1.5, 0.2)])
def test_a_sleep_longer_than_the_audio_makes_holes_that_no_server_sees(sleep, gap):
    """Chunks of 0.4 s leave every 0.1 s; the client needs 0.4 x sleep for each."""
    run = asked([(TEXT, 2 * SOUND)], client_per_audio=sleep)
    assert silences(run) == pytest.approx(np.full(7, gap), abs=1e-9)
    sends = run.chunk_f[:, rec.K_SENT]
    assert (np.diff(sends) <= CHUNK * STEP + 1e-9).all()


def test_work_for_each_chunk_hurts_small_chunks_most():
    """85 ms each: with chunks of one step, 80 ms of audio, the client never keeps up; with chunks
    of five it is a fifth busy."""
    large = asked([(TEXT, 2 * SOUND)], client_per_chunk=0.085)
    assert silences(large) == pytest.approx(np.zeros(7), abs=1e-9)
    small = stages(WORD, pool(STEP, chunk=1), client_per_chunk=0.085)
    run = play(small, calls([[(TEXT, 2 * SOUND)]]))
    assert silences(run) == pytest.approx(np.full(2 * SOUND - 1, 0.085 - AUDIO), abs=1e-9)
