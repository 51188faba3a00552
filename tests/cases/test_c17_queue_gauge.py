"""C17: num_requests_waiting shows 0 while first audio explodes.

https://github.com/vllm-project/vllm-omni/issues/4561,
https://github.com/vllm-project/vllm-omni/pull/4608: one item per stage and loop; what is finished
waits in a side queue that no scheduler gauge counts.  The loop here is the stage behind the
decoder: 40 ms a round whatever it carries; draining 16 ready items a round cures it.

Must show: the gauge at 0 while first audio grows with time; draining 16 at a
time restores it.
"""

import numpy as np
import pytest

from tests.cases.machine import Heard, card, play, steady
from voicesim.engine import layout as at
from voicesim.engine.spec import CodecSpec

HORIZON = 100.0


@pytest.fixture(scope="module")
def runs():
    """8 calls/s of 6 s make about 33 chunks a second; one a round is 25."""
    out = {}
    for drain in (1, 16):
        loop = CodecSpec(np.array([0.040, 0.0, 0.0]), cap=drain, shared=False)
        out[drain] = play(card((4, 25), codec=loop, horizon=HORIZON), steady(8.0, HORIZON))
    return out


def by_time(r):
    h = Heard(r)
    return [np.median(h.first_audio[np.abs(h.requested - t) < 5]) for t in (10, 30, 50, 70, 90)]


def test_first_audio_grows_and_the_gauge_does_not(runs):
    r = runs[1]
    p50 = by_time(r)
    assert p50 == sorted(p50)
    assert p50[-1] > 5.0
    waiting = r.series[: int(HORIZON), at.B_WAITING]
    assert np.median(waiting) == 0
    assert waiting.max() <= 3  # who came during the step in flight
    assert r.first_stall_waiting == 0
    assert r.counters["max_batch"] < 64
    assert r.series[int(HORIZON) - 1, at.B_QUEUED] > 100  # where they really are


def test_draining_sixteen_cures_it(runs):
    p50 = by_time(runs[16])
    assert max(p50) < 0.2
    assert runs[16].series[: int(HORIZON), at.B_QUEUED].max() < 16
