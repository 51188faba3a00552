"""The recogniser's rules, worked by hand; and a path of a queue, worked by Lindley's recursion."""

import numpy as np
import pytest

from tests.engine.asr_worlds import KernelRun, ReferenceRun
from voicesim.engine.asr import AsrPool
from voicesim.engine.asr_rules import chunks_until, frames_of_delay, inside
from voicesim.engine.asr_spec import OFFLINE, SLOTS, STREAMING, WINDOWS, AsrSpec

SIDES = pytest.mark.parametrize("side", [KernelRun, ReferenceRun])


def spec(kind: int, floor=0.0, per_row=0.0, per_audio=0.0, **more) -> AsrSpec:
    return AsrSpec(kind=kind, cost=np.array([floor, per_row, per_audio]), **more)


def play(side, spec, *asked, calls=4, warmup=0.0, horizon=100.0, end=50.0, connect=True):
    """Results and texts; every call is connected at 0 unless told otherwise."""
    run = side(spec, calls, 16, warmup, horizon)
    for k in range(calls if connect else 0):
        run.at(0.0, "connect", k)
    for what in asked:
        run.at(*what)
    return run.play(end), run.texts


@SIDES
def test_streaming(side):
    """Chunks end at 1, 2, ...; each is taken half a second later, or at the flush at 2.2."""
    s = spec(STREAMING, 0.25, chunk=1.0, right=0.5)
    r, texts = play(side, s, (0.0, "speech_begins", 0, 0), (2.2, "flush", 0))
    # 1.5 to 1.75: the first; then at 2.2 the second, padded, and the last fifth of a second
    assert texts == [(0, 2.7)]
    assert r["chunk_delay"] == pytest.approx(0.75 + 0.45 + 0.5)
    assert r["final_delay"] == pytest.approx(0.5)
    assert (r["batches"], r["jobs"], r["audio"]) == (3, 3, 4.5)
    assert r["busy"] == pytest.approx([0.75])
    assert r["backlog"] == 2.0  # a part counts as a chunk: its job costs as much


@SIDES
def test_streams_share_batches(side):
    """Two of three go at once when they come; the third has waited for them."""
    s = spec(STREAMING, 0.25, 0.125, 0.25, chunk=1.0, cap=2)
    asked = [(0.0, "speech_begins", k, k) for k in range(3)] + [(1.0, "flush", k) for k in range(3)]
    r, texts = play(side, s, *asked)
    two, one = 0.25 + 2 * 0.125 + 2 * 0.25, 0.25 + 0.125 + 0.25
    assert texts == [(0, 1 + two), (1, 1 + two), (2, 1 + two + one)]
    assert (r["batches"], r["jobs"]) == (2, 3)


@SIDES
def test_a_second_worker_takes_the_third_at_once(side):
    s = spec(STREAMING, 0.25, 0.125, 0.25, chunk=1.0, cap=2, workers=2)
    asked = [(0.0, "speech_begins", k, k) for k in range(3)] + [(1.0, "flush", k) for k in range(3)]
    _, texts = play(side, s, *asked)
    assert texts == [(2, 1.625), (0, 2.0), (1, 2.0)]


@SIDES
def test_windows(side):
    """Jobs begin at 1, 2, 3, 4.5 and 6, over 1, 2, 3, 3 and 3 seconds; the flush is at 5."""
    s = spec(WINDOWS, 0.0, 0.0, 0.5, chunk=1.0, window=3.0)
    r, texts = play(side, s, (0.0, "speech_begins", 0, 0), (5.0, "flush", 0))
    assert texts == [(0, 7.5)]
    assert r["audio"] == 12.0 and r["busy"] == pytest.approx([6.0])
    # due at 1, 2, 3, 4 and with the flush at 5; done at 1.5, 3, 4.5, 6 and 7.5
    assert r["chunk_delay"] == pytest.approx(0.5 + 1.0 + 1.5 + 2.0 + 2.5)
    assert r["final_delay"] == pytest.approx(2.5)
    assert r["backlog"] == 1.5


@SIDES
def test_windows_take_a_long_recording_window_by_window(side):
    s = spec(WINDOWS, 0.0, 0.0, 0.5, chunk=1.0, window=3.0)
    r, texts = play(side, s, (0.0, "transcribe", 0, 0, 7.0))
    assert texts == [(0, 4.5)] and r["jobs"] == 3 and r["audio"] == 9.0  # up to 3, 6, 7


@SIDES
def test_slots(side):
    """Frames of half a second, text two frames later; flushed at 1.2 while the second is done."""
    s = spec(SLOTS, chunk=0.5, right=1.0, slots=2, step=0.25)
    r, texts = play(side, s, (0.0, "speech_begins", 0, 0), (1.2, "flush", 0), calls=2)
    # steps begin at 0.5, 1.0, 1.25 (the part of a frame), 1.5, 1.75 (silence)
    assert texts == [(0, 2.0)]
    assert r["chunk_delay"] == pytest.approx((1.5 - 0.5) + (1.75 - 1.0) + (2.0 - 1.2))
    assert (r["batches"], r["audio"]) == (5, 2.5) and r["busy"] == pytest.approx([1.25])


@SIDES
def test_a_step_takes_one_frame_of_every_slot(side):
    """The second caller's frame comes during a step and waits for the next."""
    s = spec(SLOTS, chunk=0.5, slots=2, step=0.25)
    asked = [
        (0.0, "speech_begins", 0, 0), (0.1, "speech_begins", 1, 1),
        (0.5, "flush", 0), (0.6, "flush", 1),
    ]  # fmt: skip
    r, texts = play(side, s, *asked, calls=2)
    assert texts == [(0, 0.75), (1, 1.0)] and r["jobs"] == 2


@SIDES
def test_slots_refuse_when_all_are_taken(side):
    """Two replicas of one slot; a call that leaves makes room, silent or not."""
    s = spec(SLOTS, chunk=0.5, slots=1, step=0.25, engines=2)
    asked = [(0.0, "connect", 0), (1.0, "connect", 1), (2.0, "connect", 2)]
    asked += [(3.0, "disconnect", 0), (3.0, "connect", 3)]
    r, _ = play(side, s, *asked, connect=False, warmup=2.0, horizon=10.0)
    assert r["rejected"] == 1
    assert r["calls"] == pytest.approx([8.0, 8.0])  # call seconds from 2 to 10


@SIDES
def test_calls_go_to_the_replica_with_the_fewest(side):
    s = spec(OFFLINE, 1.0, engines=2, cap=1)
    asked = [(1.0, "disconnect", 1), (1.0, "connect", 1), (2.0, "transcribe", 0, 0, 1.0)]
    asked += [(2.0, "transcribe", r, r, 1.0) for r in (1, 2, 3)]
    r, texts = play(side, s, *asked)
    assert texts == [(0, 3.0), (1, 3.0), (2, 4.0), (3, 4.0)]  # 0 and 2; 1 and 3
    assert r["busy"] == pytest.approx([2.0, 2.0])


@SIDES
def test_offline(side):
    """Nothing before the end of speech; then all of it, with whoever waits."""
    s = spec(OFFLINE, 0.125, 0.25, 0.5)
    asked = [(0.0, "speech_begins", 0, 0), (1.0, "speech_begins", 1, 1)]
    asked += [(2.0, "flush", 0), (2.5, "flush", 1), (2.75, "transcribe", 2, 2, 1.0)]
    r, texts = play(side, s, *asked)
    first = 2.0 + 0.125 + 0.25 + 0.5 * 2.0
    assert texts == [(0, first), (1, first + 1.875), (2, first + 1.875)]
    assert r["batches"] == 2 and r["audio"] == 4.5


@SIDES
@pytest.mark.parametrize("kind", range(4))
def test_nothing_to_do_is_done_at_once(side, kind):
    s = spec(kind, 1.0, chunk=0.5, right=0.5, slots=4, step=1.0)
    asked = [(1.0, "transcribe", 0, 0, 0.0), (2.0, "speech_begins", 1, 1), (2.0, "flush", 1)]
    r, texts = play(side, s, *asked)
    assert texts == [(0, 1.0), (1, 2.0)]
    assert r["jobs"] == 0 and r["final_hist"].sum() == r["final_hist"][0] == 2


@SIDES
def test_dropped_before_and_while_it_runs(side):
    """The queued job is gone; the running one is paid for; neither gives a text."""
    s = spec(OFFLINE, 1.0, cap=1)
    asked = [(0.0, "transcribe", r, r, 1.0) for r in (0, 1, 2)]
    asked += [(0.5, "drop", 0), (0.5, "drop", 1), (0.75, "transcribe", 0, 0, 1.0)]
    r, texts = play(side, s, *asked)
    assert texts == [(2, 2.0), (0, 3.0)]
    assert r["jobs"] == 3 and r["busy"] == pytest.approx([3.0])
    assert r["final_hist"].sum() == 2


@SIDES
def test_a_text_can_be_dropped_before_it_is_taken(side):
    """Two texts at one instant: whoever takes the first drops the second, and asks anew."""
    run = side(spec(OFFLINE, 1.0), 2, 3, 0.0, 10.0)
    for k in (0, 1):
        run.at(0.0, "connect", k)
        run.at(0.0, "transcribe", k, k, 1.0)
    run.answer[0] = [("drop", (1,)), ("transcribe", (2, 1, 1.0))]
    run.play(10.0)
    assert run.texts == [(0, 1.0), (2, 2.0)]


@SIDES
def test_only_what_came_in_the_window_is_counted(side):
    s = spec(STREAMING, 0.25, chunk=1.0)
    asked = [(0.0, "speech_begins", 0, 0), (8.0, "flush", 0)]
    r, _ = play(side, s, *asked, warmup=2.5, horizon=5.125)
    assert r["chunk_hist"].sum() == 3 and r["chunk_delay"] == pytest.approx(0.75)  # 3, 4, 5
    assert r["busy"] == pytest.approx([0.25 + 0.25 + 0.125])
    assert r["jobs"] == 8 and r["final_hist"].sum() == 0


@SIDES
def test_a_single_worker_is_lindleys_queue(side):
    """Poisson turns of exponential length, one at a time: the wait of each from that before."""
    rng = np.random.default_rng(7)
    n = 400
    arrive = np.cumsum(rng.exponential(1.0, n))
    audio = rng.exponential(2.0, n)
    cost = 0.1 + 0.3 * audio
    run = side(spec(OFFLINE, 0.1, 0.0, 0.3, cap=1), 1, n, 0.0, 1e6)
    run.at(0.0, "connect", 0)
    for r in range(n):
        run.at(arrive[r], "transcribe", r, 0, audio[r])
    run.play(1e5)
    done, end = np.empty(n), 0.0
    for r in range(n):
        end = done[r] = max(arrive[r], end) + cost[r]
    assert [r for r, _ in run.texts] == list(range(n))
    assert [t for _, t in run.texts] == pytest.approx(done, abs=1e-9)


@SIDES
@pytest.mark.parametrize("kind", [STREAMING, WINDOWS, SLOTS])
def test_whole_chunks_leave_no_part(side, kind):
    """11 chunks of 0.48 s end before 5.28 s by a rounding error, which is not one more job."""
    assert 11 * 0.48 < 5.28
    s = spec(kind, chunk=0.48, window=0.48, slots=1, step=0.01)
    asked = [(0.0, "transcribe", 0, 0, 5.28), (10.0, "speech_begins", 1, 0), (15.28, "flush", 1)]
    r, texts = play(side, s, *asked, calls=1)
    assert len(texts) == 2 and r["jobs"] == 22


def test_rules_of_arithmetic():
    assert [chunks_until(0.0, a, 0.16, 0) for a in (0.0, 0.1, 0.16, 0.17, 1.12)] == [0, 1, 1, 2, 7]
    assert frames_of_delay(0.56, 0.08) == 7 and 0.56 / 0.08 > 7
    assert [frames_of_delay(r, 0.08) for r in (0.0, 0.05, 0.48, 2.56)] == [0, 1, 6, 32]
    assert [inside(a, b, 2.0, 5.0) for a, b in ((0, 1), (1, 3), (3, 4), (4, 9), (6, 7))] == [
        0.0, 1.0, 1.0, 1.0, 0.0,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [(STREAMING, {"cap": 0}), (WINDOWS, {"window": 0.0}), (SLOTS, {"slots": 0, "step": 0.1}),
     (SLOTS, {"slots": 4}), (OFFLINE, {"workers": 0}), (STREAMING, {"chunk": 0.0}),
     (STREAMING, {"engines": 0}), (STREAMING, {"cap": -1}), (WINDOWS, {"window": -15.0})],
)  # fmt: skip
def test_a_pool_that_could_never_work_is_refused(kind, wrong):
    with pytest.raises(ValueError, match=r"asr .* must be above 0"):
        AsrPool(spec(kind, **wrong), 1, 1, 0.0, 1.0)
