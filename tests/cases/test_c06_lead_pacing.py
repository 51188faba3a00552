"""C6: who is served first decides who stalls, makes no capacity, and hides a queue well.

https://github.com/sgl-project/sglang-omni/pull/1903: streams ahead of their listeners paused, and
the queue was widened from 16 to 112 requests at the same time: 133 in flight, underruns fell to
0 %, first audio came after 24-27 s and success stayed at 43 %: nothing became audible in time to
underrun.  https://github.com/vllm-project/vllm-omni/pull/6599 picks the streams with the earliest
deadline instead.

Must show: at fixed admission EDF and pacing reduce stalls and make no more audio; in the wide queue
stalls vanish while the first sound takes more than 10 s and no more calls are CLEAN.

Here: the shipped H100 talker with 12 decode slots and a codec that takes a chunk at a time, callers
for a third more speech than both can make, and 24 places besides the 16 or 112 of the queue.
``pacing`` pauses who is 4 s ahead and picks by deadline in the codec: by itself it leaves the queue
behind the decoder as it is.

Must show: at the same admission an order by buffers stalls fewer listeners and makes no more audio;
with a wide queue nothing stalls because nothing has started: first audio after many seconds, and no
more served.
"""

import numpy as np
import pytest

from tests.cases.machine import Heard, play, steady
from tests.cases.shipped import profile
from voicesim.engine import layout as at
from voicesim.engine.spec import CODEC_QUEUES, CodecSpec, PoolSpec

HORIZON, SINCE, UNTIL = 300.0, 60.0, 280.0
NARROW, WIDE = 24 + 16, 24 + 112
EDF = {"queue": CODEC_QUEUES.index("edf_reserve"), "reserve": 0.05}
POLICIES = {
    "fifo": ({}, {}),
    "edf": (EDF, {}),
    "pacing": (EDF, {"pace": 4.0}),
    "pacing alone": ({}, {"pace": 4.0}),
    "reserved": (EDF, {"pace": 4.0, "starts": 2}),
}


@pytest.fixture(scope="module")
def runs():
    talker = profile("qwen3-tts-1.7b-h100")
    tape = steady(9.5, HORIZON, seconds=9.0)
    out = {}
    for name, (queue, more) in POLICIES.items():
        for limit in (NARROW, WIDE):
            spec = PoolSpec(
                engines=1, step=talker.step_cost(2048, None, None), schedule=(4, 8, 12),
                codec=CodecSpec(talker.codec_cost(None), **queue), token_audio=talker.token_audio_s,
                max_num_seqs=12, blocks=100_000, noise=talker.noise_table(),
                decode_slowdown=talker.sharing.decode_slowdown.value,
                codec_slowdown=talker.sharing.codec_slowdown.value, admission=1, limit=limit,
                horizon=HORIZON, end=1200.0, record_chunks=True, **more,
            )  # fmt: skip
            out[name, limit] = Heard(play(spec, tape), SINCE, UNTIL)
    return out


def stalled(h):
    """Share of the replies with a stall of more than 100 ms."""
    return 1.0 - h.continuity()


def clean(h, within=2.0):
    """Share of all who asked that was heard within so long, without a stall of more than 100 ms."""
    z = h.record.utterance_f[h.rows]
    soon = z[:, at.Z_START] - z[:, at.Z_REQUEST] <= within
    return (soon & (z[:, at.Z_STALL_MAX] <= 0.1)).sum() / h.asked.sum()


def audio_rate(h):
    sent = h.record.chunk_f[:, at.M_SENT]
    inside = (sent >= SINCE) & (sent < UNTIL)
    return h.record.chunk_f[inside, at.M_AUDIO].sum() / (UNTIL - SINCE)


def test_at_the_same_admission_the_order_saves_listeners(runs):
    assert stalled(runs["fifo", NARROW]) > 0.5
    assert stalled(runs["pacing alone", NARROW]) < 0.5 * stalled(runs["fifo", NARROW])
    assert stalled(runs["edf", NARROW]) < 0.01
    assert stalled(runs["pacing", NARROW]) < 0.01
    for name in ("edf", "pacing"):
        assert clean(runs[name, NARROW]) > 2 * clean(runs["fifo", NARROW])


def test_it_makes_no_capacity(runs):
    """The same audio per second (2 %), in the narrow queue and in the wide one."""
    for limit in (NARROW, WIDE):
        for name in ("edf", "pacing", "pacing alone"):
            assert audio_rate(runs[name, limit]) == pytest.approx(
                audio_rate(runs["fifo", limit]), rel=0.02
            )


def test_with_a_wide_queue_nothing_stalls_because_nothing_has_started(runs):
    for name in ("edf", "pacing"):
        wide, narrow = runs[name, WIDE], runs[name, NARROW]
        assert stalled(wide) < 0.01
        assert wide.p50() > 10.0 > 1.0 > narrow.p50()
        assert clean(wide) < 0.01 < clean(narrow)
        assert wide.refused > 0.9 * narrow.refused  # and as many are sent away


def test_pausing_does_not_shorten_a_queue_behind_the_decoder(runs):
    assert stalled(runs["pacing alone", WIDE]) > 0.9
    assert stalled(runs["fifo", WIDE]) > 0.9


def test_slots_for_starts_turn_the_trap_round(runs):
    """First audio comes at once, and those who play pay for it."""
    reserved = runs["reserved", WIDE]
    assert np.quantile(reserved.first_audio, 0.95) < 1.0
    assert stalled(reserved) > 0.5
    assert clean(reserved) < clean(runs["pacing", NARROW])
