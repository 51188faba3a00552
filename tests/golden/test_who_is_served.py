"""Who is served first, in the codec and in the batch, against traces worked by hand.

Every token takes 10 ms, whoever decodes beside it, and is 80 ms of audio; every prompt has one
token.  A1 is A's first token or chunk.
"""

import numpy as np
import pytest

from tests.engine.worlds import differences, tape_of
from tests.golden.traces import played, step_ms, token_ms
from voicesim.engine import layout as at
from voicesim.engine.pool import Pool, record
from voicesim.engine.reference import run_reference
from voicesim.engine.spec import CODEC_QUEUES, CodecSpec, PoolSpec

EVEN = step_ms(lambda n: 10)

# --- lead pacing ------------------------------------------------------------------------------


def test_a_stream_that_is_ahead_pauses():
    """Lead 200 ms.  A1 10, A2 20, A3 30: 240 ms of audio, 20 of them played: ahead until 50.
    50-60: A4, ahead until 130; from then on a token every 80 ms, as it is played."""
    r = played(EVEN, [(0, 1, 7)], pace=0.2)
    assert token_ms(r) == [[10, 20, 30, 60, 140, 220, 300]]
    assert r.counters["steps"] == 7


def test_its_slot_is_free_for_another():
    """One slot.  A pauses at 30, so B starts: 40, 50, 60.  A is needed from 50 on, but B goes on
    until it is ahead too, at 60: A4 70 (ahead until 130).  B4: needed from 80 on, 90."""
    r = played(EVEN, [(0, 1, 6), (0, 1, 6)], pace=0.2, max_num_seqs=1)
    assert token_ms(r) == [[10, 20, 30, 70, 140, 220], [40, 50, 60, 90, 170, 250]]
    assert r.counters["max_batch"] == 1
    unpaced = played(EVEN, [(0, 1, 6), (0, 1, 6)], max_num_seqs=1)
    assert token_ms(unpaced) == [[10, 20, 30, 40, 50, 60], [70, 80, 90, 100, 110, 120]]


def test_who_goes_on_leaves_slots_to_starts():
    """Two slots, one of them for starts.  A and B start and pause together; at 50 both are needed,
    one may go on: A4 60, B4 70.  C, there since 55, starts at 60 beside B: 70, 80, 90."""
    three = [(0, 1, 5), (0, 1, 5), (55, 1, 5)]
    r = played(EVEN, three, pace=0.2, max_num_seqs=2, starts=1)
    assert token_ms(r) == [[10, 20, 30, 60, 140], [10, 20, 30, 70, 150], [70, 80, 90, 120, 200]]


def test_the_kv_cache_of_a_stream_that_pauses_stays():
    """Blocks of one token, 8 of them.  A holds 3 when it pauses at 30.  B (at 15, prompt of 6) does
    not fit beside it, and finds room when A has ended."""
    r = played(EVEN, [(0, 1, 4), (15, 6, 1)], pace=0.2, block_size=1, blocks=8)
    assert token_ms(r) == [[10, 20, 30, 60], [70]]
    assert r.counters["preemptions"] == 0


# --- the codec's queue ------------------------------------------------------------------------


def sent(callers, cost, cap=1, **queue):
    """[(caller, chunk, ms)] in the order in which chunks of two tokens leave the codec."""
    arrival, tokens = zip(*callers, strict=True)
    stage = CodecSpec(np.array([cost, 0.0, 0.0]), cap=cap, shared=False, **queue)
    spec = PoolSpec(
        engines=1, step=EVEN, schedule=(2,), codec=stage, token_audio=0.08, end=60.0, horizon=60.0,
        resolution=60.0, record_chunks=True,
    )  # fmt: skip
    tape = tape_of(np.array(arrival) / 1000, tokens, np.ones(len(tokens)))
    pool = Pool(spec, tape)
    pool.advance(spec.end)
    kernel = record(pool)
    assert differences(kernel, run_reference(spec, tape)) == []
    who, when = kernel.chunk_i[:, : at.L_INDEX + 1].tolist(), kernel.chunk_f[:, at.M_SENT]
    return [(u, i, round(1000 * t, 3)) for (u, i), t in zip(who, when.tolist(), strict=True)]


def test_a_call_starts_for_the_sake_of_a_pressing_stream():
    """Lead 100 ms, calls of 10 ms.  A1 is full at 20 and out at 30, to be played until 190; A2,
    full at 40, is pressing since A1 was sent.  Out at 50: played until 350.  A3, full at 60, is
    pressing from 350 - 160 - 100 = 90 on: out at 100, until 510; A4 from 250 on."""
    queue = {"queue": CODEC_QUEUES.index("pressing"), "lead": 0.1}
    alone = sent([(0, 8)], 0.01, **queue)
    assert alone == [(0, 0, 30), (0, 1, 50), (0, 2, 100), (0, 3, 260)]
    # B's first chunk, full at 80, is pressing at once, and takes A3 along if the call has room
    assert sent([(0, 8), (60, 2)], 0.01, cap=2, **queue)[2:4] == [(1, 0, 90), (0, 2, 90)]
    assert sent([(0, 8), (60, 2)], 0.01, cap=1, **queue)[2:4] == [(1, 0, 90), (0, 2, 100)]


@pytest.mark.parametrize(
    ("queue", "more", "order"),
    [
        ("fifo", {}, "A1 B1 A2 C1"),
        ("edf", {}, "A1 B1 C1 A2"),
        ("pressing", {}, "A1 B1 A2 C1"),
        ("startup_first", {}, "A1 B1 C1 A2"),
        ("edf_reserve", {"reserve": 0.03, "lead": 1.0}, "A1 B1 C1 A2"),
        ("edf_reserve", {"reserve": 0.2}, "A1 A2 B1 A3"),
    ],
)
def test_the_order_of_each_queue(queue, more, order):
    """Calls of 100 ms.  A1 20-120, then played until 280.  B1 is full at 80, A2 queues at 120, C1
    at 170.  At 120 B1 came first, and nobody waits longer for the first sound; but A2 is urgent if
    it has to be begun 200 ms before it is due, at 280.  At 220 A2 is before C1 by arrival; C1 is
    due at 170, when it was full, and a first chunk; A2 is not urgent yet at 30 ms before it is due.
    With 200 ms A3, due at 440, is not urgent at 220, so B1 is next; at 320 it is, before C1."""
    found = sent([(0, 6), (60, 2), (150, 2)], 0.1, queue=CODEC_QUEUES.index(queue), **more)
    names = [f"{'ABC'[u]}{i + 1}" for u, i, _ in found]
    assert " ".join(names[:4]) == order
