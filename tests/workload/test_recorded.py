"""Recorded calls: the window, the clock and the copies, on schedules worked by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.workload.workload_standins import arrivals, law, workload
from voicesim.workload import draw_tape
from voicesim.workload.recorded import copies, recorded_calls, reflected

FIVE = """\
t_s,session,audio_s,prompt_tokens,think_s
1,0,0.8,10,2.5
5,0,1.6,11,0
2,1,2.4,20,0
4,2,0.16,30,1
4.5,2,0.24,31,unknown
9,2,0.32,unknown,0
6,3,4,40,0
8,4,8,50,0
"""
"""Five sessions at 1, 2, 4, 6 and 8 s, of 2, 1, 3, 1 and 1 utterances."""


def trace(tmp_path, text=FIVE, **fields):
    file = tmp_path / "calls.csv"
    file.write_text(text)
    return arrivals("trace", file=str(file), **fields)


def tape(a, horizon=100.0, replication=0, **changes):
    return draw_tape(workload(arrivals=a, **changes), horizon, 1, replication, 0.08, 2048)


def test_the_schedule_of_five_sessions(tmp_path):
    t = tape(trace(tmp_path), think=law("constant", value=7.0),
             prompt_tokens=law("constant", value=99.0))  # fmt: skip
    assert t.arrival.tolist() == [1, 2, 4, 6, 8]
    assert t.first.tolist() == [0, 2, 3, 6, 7, 8]
    assert t.tokens.tolist() == [10, 20, 30, 2, 3, 4, 50, 100]
    assert t.prompt.tolist() == [10, 11, 20, 30, 31, 99, 40, 50]
    assert t.think.tolist() == [2.5, 0, 0, 1, 7, 0, 0, 0]


def test_speed_moves_starts_and_nothing_else(tmp_path):
    slow, fast = tape(trace(tmp_path)), tape(trace(tmp_path, speed=2.0))
    assert fast.arrival.tolist() == [0.5, 1, 2, 3, 4]
    for column in ("first", "tokens", "prompt", "think", "patience"):
        np.testing.assert_array_equal(getattr(fast, column), getattr(slow, column))


def test_the_window_begins_at_0(tmp_path):
    t = tape(trace(tmp_path, after=2.0, until=8.0, speed=2.0))
    assert t.arrival.tolist() == [0, 1, 2]  # 2, 4 and 6 s
    assert t.first.tolist() == [0, 1, 4, 5]
    assert t.tokens.tolist() == [30, 2, 3, 4, 50]


def test_the_horizon_cuts(tmp_path):
    t = tape(trace(tmp_path), horizon=6.0)
    assert t.arrival.tolist() == [1, 2, 4]
    assert t.utterances == 6


def test_copies_keep_their_sessions_whole(tmp_path):
    t = tape(trace(tmp_path, scale=3.0, jitter=2.0), prompt_tokens=law("constant", value=99.0))
    assert t.sessions == 15
    assert t.utterances == 24
    sessions = [tuple(t.tokens[a:b]) for a, b in zip(t.first[:-1], t.first[1:], strict=True)]
    for each in {(10, 20), (30,), (2, 3, 4), (50,), (100,)}:
        assert sessions.count(each) == 3
    assert (np.diff(t.arrival) >= 0).all()
    assert t.arrival.min() >= 0
    assert t.arrival.max() <= 8
    for start, each in zip(
        [1, 2, 4, 6, 8], [(10, 20), (30,), (2, 3, 4), (50,), (100,)], strict=True
    ):
        near = t.arrival[[s == each for s in sessions]]
        assert start in near
        assert np.abs(near - start).max() <= 1


@given(
    n=st.integers(1, 200),
    scale=st.floats(0.01, 5),
    jitter=st.floats(0, 1000),
    seed=st.integers(0, 99),
)
@settings(max_examples=60, deadline=None)
def test_counts_are_exact(n, scale, jitter, seed):
    start = np.sort(np.random.default_rng(seed).uniform(0, 100, n))
    which, when = copies(start, 100.0, scale, jitter, seed, 0)
    whole = int(scale)
    assert len(which) == n * whole + int(n * (scale - whole) + 0.5)
    times = np.bincount(which, minlength=n)
    assert set(times) <= {whole, whole + 1}
    assert (when >= 0).all()
    assert (when <= 100).all()
    originals = when[:n] if whole else start[which]
    np.testing.assert_array_equal(originals, start if whole else when)


def test_a_larger_scale_keeps_the_copies_of_a_smaller_one():
    start = np.arange(50.0)
    small, large = copies(start, 50.0, 2.0, 9.0, 4, 1), copies(start, 50.0, 3.0, 9.0, 4, 1)
    np.testing.assert_array_equal(small[1], large[1][:100])
    other = copies(start, 50.0, 2.0, 9.0, 4, 2)
    assert not np.array_equal(small[1], other[1])


def test_shifts_are_uniform_and_reflected():
    start = np.full(20_000, 500.0)
    _, when = copies(start, 1000.0, 2.0, 60.0, 0, 0)
    shift = when[20_000:] - 500
    assert np.abs(shift).max() <= 30
    # standard errors of a uniform law of width 60: 17.32 / sqrt(n), and of its variance 300
    assert abs(shift.mean()) < 4 * 17.32 / np.sqrt(20_000)
    assert abs(shift.var() / 300 - 1) < 4 * np.sqrt(0.8 / 20_000)
    np.testing.assert_allclose(
        reflected(np.array([-3.0, 0, 4, 10, 12, 23]), 10.0), [3, 0, 4, 10, 8, 3], atol=1e-12
    )
    assert reflected(np.array([5.0]), 0.0).tolist() == [0.0]


def test_starts_and_sessions_without_lengths(tmp_path):
    t = tape(trace(tmp_path, "t_s,session\n1,5\n2,5\n3,7\n"), tokens=law("constant", value=9.0),
             audio=None)  # fmt: skip
    assert t.first.tolist() == [0, 2, 3]
    assert t.tokens.tolist() == [9, 9, 9]
    calls = recorded_calls(trace(tmp_path, "t_s\n1\n2\n"), 10.0, 0, 0)
    assert calls.given == {}
    assert calls.start.tolist() == [1, 2]


def test_unknown_lengths_are_drawn(tmp_path):
    text = "t_s,audio_s\n1,0.8\n2,unknown\n3,1.6\n"
    t = tape(trace(tmp_path, text), audio=law("constant", value=4.0))
    assert t.tokens.tolist() == [10, 50, 20]
    with pytest.raises(ValueError, match="t_s: expected a number"):
        tape(trace(tmp_path, text.replace("1,0.8", "unknown,0.8")))
