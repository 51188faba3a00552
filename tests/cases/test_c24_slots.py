"""C24: a slot server (Kyutai): capacity is a batch size.

https://github.com/kyutai-labs/delayed-streams-modeling/issues/151 (64 streams on an L40S at three
times real time), https://github.com/kyutai-labs/moshi/issues/374 (a step longer than the frame).
Every step computes the whole batch; who is in it makes no difference until it is full, then the
next call is turned away.

Must show: the delay is flat up to the last slot, then calls are turned away as Erlang B says, by
the time of the session and not of the talk.
"""

import numpy as np
import pytest

from tests.cases.speakers import listen
from tests.engine.asr_worlds import KernelRun
from tests.oracles.runs import REPLICATIONS, interval, meets
from tests.oracles.test_erlang import erlang_b
from voicesim.engine.asr_spec import SLOTS, AsrSpec

FRAME, STEP, DELAY = 0.08, 0.027, 6
STT = AsrSpec(kind=SLOTS, chunk=FRAME, right=DELAY * FRAME, slots=64, step=STEP)


@pytest.mark.parametrize("n", [1, 16, 64])
def test_the_delay_is_flat_up_to_the_last_slot(n):
    """Words come with the frame six later: its step begins when it is there."""
    together = listen(STT, [0.0] * n, 60.0)
    assert together.delay == pytest.approx(DELAY * FRAME + STEP, abs=1e-9)
    assert together.busy == pytest.approx(STEP / FRAME, rel=0.01)


@pytest.mark.parametrize("n", [2, 16, 64])
def test_staggered_callers_wait_for_a_step_at_most(n):
    begins = np.random.default_rng(n).uniform(0.0, 5.0, n)
    spread = listen(STT, begins, 60.0, since=6.0)
    alone = DELAY * FRAME + STEP
    assert alone <= spread.delay <= alone + STEP


@pytest.mark.parametrize("n", [1, 64])
def test_a_step_longer_than_the_frame_loses_for_everyone(n):
    """Of each second (1 - frame / step) is left over, in every slot alike."""
    slow = AsrSpec(kind=SLOTS, chunk=FRAME, right=DELAY * FRAME, slots=64, step=0.1)
    for end in (100.0, 400.0):
        waits = listen(slow, [0.0] * n, end).backlog
        assert waits == pytest.approx((1 - FRAME / 0.1) * end, abs=2 * FRAME)
    # seen from the audio: frame j + 6 is done at 0.08 + 0.1 (j + 6), frame j was there at 0.08 j
    at = 160.0
    delay = listen(slow, [0.0] * n, 400.0, at - 1e-6, at + 1e-6).delay
    assert delay == pytest.approx(FRAME + 0.1 * (at / FRAME + DELAY) - at, abs=1e-6)


def test_the_flush_takes_steps_not_the_delay():
    """What a pause costs: the six silent frames go in at once, 6 steps and not 0.48 s."""
    run = KernelRun(STT, 1, 1, 0.0, 10.0)
    for t, name, *args in ((0.0, "connect", 0), (0.0, "speech_begins", 0, 0), (2.0, "flush", 0)):
        run.at(t, name, *args)
    run.play(10.0)
    frames = 1 + DELAY  # the one that ends with the flush, and the silence
    assert run.texts == [(0, pytest.approx(2.0 + frames * STEP, abs=1e-9))]


SLOT_COUNT, MEAN, RATE = 8, 20.0, 0.4  # offered load 8 on 8 slots


def crowd(duty: float, law: str, end: float, seed: int = 0):
    """Poisson calls who speak ``duty`` of the time; whether each got a slot, and the texts."""
    rng = np.random.default_rng(seed)
    n = int(RATE * end)
    arrive = np.cumsum(rng.exponential(1 / RATE, n))
    stay = rng.exponential(MEAN, n) if law == "exponential" else np.full(n, MEAN)
    spec = AsrSpec(kind=SLOTS, chunk=FRAME, right=DELAY * FRAME, slots=SLOT_COUNT, step=STEP)
    run = KernelRun(spec, n, n, 0.0, end)
    for k in range(n):
        run.at(arrive[k], "connect", k)
        if duty > 0.0:
            run.at(arrive[k], "speech_begins", k, k)
            run.at(arrive[k] + duty * stay[k], "drop", k)
        run.at(arrive[k] + stay[k], "disconnect", k)
    return run.play(end)


@pytest.mark.parametrize("law", ["exponential", "constant"])
def test_a_full_batch_turns_callers_away_as_erlang_b_says(law):
    """With the time of sessions, whose law does not matter."""
    end = 20_000.0
    runs = [crowd(0.0, law, end, seed) for seed in range(REPLICATIONS)]
    share = np.array([r["rejected"] / (RATE * end) for r in runs])
    low, high = interval(share)
    assert low <= erlang_b(RATE * MEAN, SLOT_COUNT) <= high
    assert high - low < 0.02  # of 0.236
    # those who are let in hold a slot for as long as they stay: Little's law
    held = [r["calls"].sum() / end for r in runs]
    assert meets(held - RATE * MEAN * (1 - share), 0.0)


def test_how_much_they_talk_changes_nothing():
    """A slot is held by silence too: the same calls are turned away, whatever the duty."""
    runs = [crowd(duty, "exponential", 3000.0) for duty in (0.0, 0.4, 0.6, 1.0)]
    rejected = [int(r["rejected"]) for r in runs]
    assert rejected == rejected[:1] * 4 and rejected[0] > 200
    delays = [r["chunk_delay"] / r["chunk_hist"].sum() for r in runs[1:]]
    assert max(delays) - min(delays) < STEP / 2
