"""C9: an unbounded waiting queue turns overload into first audio after many seconds.

https://github.com/sgl-project/sglang-omni/pull/1449: everything above max_running_requests waited
in an unlimited FIFO; the fix caps the queue (16) and answers 503.  Open loop, 40 calls/s on a card
that serves about 24, at most 32 streams at a time.

Must show: without a bound first audio grows with the time of day; with 16 it is bounded and lambda
- mu are refused; the throughput is the same.
"""

import numpy as np
import pytest

from tests.cases.machine import Heard, card, codec, play, steady
from tests.oracles.runs import interval
from voicesim.engine import layout as at
from voicesim.policy.admission import CAP_QUEUE

RATE, HORIZON, SINCE, UNTIL = 40.0, 100.0, 20.0, 90.0
QUEUES = (1 << 40, 16, 0)
SEEDS = range(32)


@pytest.fixture(scope="module")
def runs():
    out = {}
    for queue in QUEUES:
        spec = card(
            (4, 25), codec=codec(left_context=25, cap=8), admission=CAP_QUEUE, limit=32,
            max_queued=queue, horizon=HORIZON, record_chunks=False,
        )  # fmt: skip
        out[queue] = [play(spec, steady(RATE, HORIZON, seed)) for seed in SEEDS]
    return out


def window(r, outcome, column=at.Z_DONE):
    t = r.utterance_f[r.utterance_i[:, at.R_OUTCOME] == outcome, column]
    return int(((t >= SINCE) & (t < UNTIL)).sum())


def served(r):
    """Completions per second."""
    return window(r, at.COMPLETED) / (UNTIL - SINCE)


def test_without_a_bound_first_audio_grows_with_time(runs):
    """Who asks at t waits about t (1 - mu / lambda): the queue is a straight line."""
    for r in runs[QUEUES[0]]:
        h, mu = Heard(r), served(r)
        assert h.refused == 0
        for t in (20.0, 40.0, 60.0, 80.0):
            near = np.abs(h.requested - t) < 2.0
            # callers before t: lambda t; served mu a second
            before = (r.utterance_f[:, at.Z_REQUEST] < t).sum()
            assert np.median(h.first_audio[near]) == pytest.approx(before / mu - t, abs=3.0)
        assert h.first_audio.max() > 20.0


def test_a_bound_keeps_first_audio_and_sheds_the_rest(runs):
    """16 waiting ahead of you: 17 departures at mu, about 0.7 s; refused = lambda - mu."""
    for r in runs[16]:
        h, mu = Heard(r, SINCE, UNTIL), served(r)
        assert h.first_audio.max() < 3 * 17 / mu
        thirds = np.array_split(h.first_audio[np.argsort(h.requested)], 3)
        assert np.median(thirds[2]) == pytest.approx(np.median(thirds[0]), rel=0.25)
        offered = window(r, at.COMPLETED, at.Z_REQUEST) + window(r, at.REFUSED, at.Z_REQUEST)
        # what came in the window and was neither served nor refused in it: the seats and the queue
        assert abs(offered - window(r, at.REFUSED) - window(r, at.COMPLETED)) <= 32 + 16


def test_no_queue_starts_at_once(runs):
    for r in runs[0]:
        assert Heard(r, SINCE, UNTIL).first_audio.max() < 0.5


def test_throughput_is_the_same_with_and_without_a_bound(runs):
    """Paired by seed: the 99.9 % interval of the difference is within 2 % of the throughput."""
    free, bound = ([served(r) for r in runs[q]] for q in QUEUES[:2])
    low, high = interval(np.array(free) - np.array(bound))
    assert max(abs(low), abs(high)) < 0.02 * np.mean(free)
    empty = np.mean([served(r) for r in runs[0]])
    assert 0.9 * np.mean(free) < empty <= 1.01 * np.mean(free)
