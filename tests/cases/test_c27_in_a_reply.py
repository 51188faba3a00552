"""C27 across units: what a playback buffer does to a reply that comes in several pieces.

https://github.com/Open-LLM-VTuber/Open-LLM-VTuber-Web/pull/32 waits for 0.6 s of audio, the end of
the stream or 1.5 s; https://github.com/tc-mb/llama.cpp-omni/issues/123: waiting longer starts later
and stalls less.

Must show: a short reply does not wait for a prebuffer that it can never fill; a larger prebuffer
starts no earlier and stalls no more; and holding units back until the one before has played does
not deadlock with a player that waits for more than one.
"""

import numpy as np
import pytest

from tests.cases.calls import AUDIO, calls, delay, play, pool, stages
from voicesim.session import record as rec

WORD, STEP, CHUNK = 0.01, 0.02, 5  # chunks of 0.4 s every 0.1 s


def replied(units, **knobs):
    return play(stages(WORD, pool(STEP, chunk=CHUNK), **knobs), calls([units]))


@pytest.mark.parametrize("steps", [1, 5, 12, 60])
@pytest.mark.parametrize("prebuffer", [0.3, 0.6, 1.5, 30.0])
def test_a_short_reply_does_not_wait_for_what_cannot_come(steps, prebuffer):
    """It starts with the chunk that fills the buffer, the last one at the latest."""
    run = replied([(4, steps)], prebuffer=prebuffer)
    chunks = np.minimum(CHUNK * np.arange(1, 100), steps)
    enough = chunks[(chunks * AUDIO >= prebuffer - 1e-9) | (chunks == steps)][0]
    assert delay(run) == pytest.approx([4 * WORD + enough * STEP], abs=1e-9)
    assert run.answer_i[0, rec.A_OUTCOME] == rec.PLAYED


@pytest.mark.parametrize("prefetch", [0, 1, 1 << 40])
def test_units_that_wait_for_playback_do_not_wait_for_a_player_that_waits_for_them(prefetch):
    """Units of 0.8 s and a buffer of 2 s: nothing plays after the first, so the second is asked
    for, and the third; the fourth may have to wait until they have been heard."""
    run = replied([(4, 10)] * 4, prefetch=prefetch, prebuffer=2.0)
    assert run.answer_i[0, rec.A_OUTCOME] == rec.PLAYED
    assert run.answer_f[0, rec.A_RECEIVED] == pytest.approx(4 * 10 * AUDIO)
    ready, audio = run.chunk_f[:, [rec.K_HEARD, rec.K_AUDIO]].T
    filled = np.flatnonzero(np.cumsum(audio) >= 2.0 - 1e-9)[0]
    assert run.answer_f[0, rec.A_START] == ready[filled] < 3.0


def test_the_last_unit_starts_the_player():
    """Two units of 0.8 s and a buffer of 5 s: at the end of the second."""
    run = replied([(4, 10), (4, 10)], prefetch=0, prebuffer=5.0)
    assert delay(run) == pytest.approx([4 * WORD + 10 * STEP + 10 * STEP], abs=1e-9)


def test_a_larger_prebuffer_starts_later_and_stalls_less():
    """An LLM of four tokens a second: a second sentence that comes late."""
    units = [(4, 12), (12, 38), (12, 38), (4, 12)]
    starts, stalls = [], []
    for prebuffer in (0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 8.0):
        run = play(stages(0.25, pool(STEP, chunk=CHUNK), prebuffer=prebuffer), calls([units]))
        starts.append(delay(run)[0])
        stalls.append(run.answer_f[0, rec.A_STALL])
    assert starts == sorted(starts) and stalls == sorted(stalls, reverse=True)
    assert stalls[0] > 2.0 and stalls[-1] == 0.0
    # and the reply ends no sooner
    ends = np.array(starts) + stalls
    assert (np.diff(ends) >= -1e-9).all()


@pytest.mark.parametrize("max_wait", [0.05, 0.25, 1.5])
def test_a_wall_clock_ends_the_wait_across_units(max_wait):
    """First chunk at 0.14 s; the buffer of 4 s would fill much later."""
    run = play(
        stages(WORD, pool(STEP, chunk=CHUNK), prebuffer=4.0, max_wait=max_wait),
        calls([[(4, 10), (200, 100)]]),
    )
    assert delay(run) == pytest.approx([4 * WORD + CHUNK * STEP + max_wait], abs=1e-9)
