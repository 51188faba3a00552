"""One trace, four "underruns": T1-T3 by hand for the definitions A-D.

A: vllm-omni benchmarks/audio_continuity.py (https://github.com/vllm-project/vllm-omni/pull/3618);
B: sglang-omni metrics (https://github.com/sgl-project/sglang-omni/issues/1234); C: the client of
https://github.com/vllm-project/vllm-omni/issues/3535; D: Nari tts-bench.

T1, 1 s chunks at 0.2 2.3 2.4 2.6.  Fixed clock from 0.2: late 2.1 - 1 = 1.1, 2.2 - 2 = 0.2,
  2.4 - 3 < 0: A 1.1, two events.  With the arriving chunk counted: 2.1 - 2 = 0.1, 2.2 - 3 < 0:
  C 0.1, one.  Pausing: ends 1.2, next at 2.3: one stall of 1.1, ends 3.3, 4.3: no more.
T2, 0.5 s chunks at 0 0.9 1.8 2.7.  A: 0.4, 0.8, 1.2, three.  C: -0.1, 0.3, 0.7, two.
  Pausing: ends 0.5, 1.4, 2.3: three stalls of 0.4.
T3, 1 s chunks at 0.2 1.0 1.8 2.6: never late.
"""

import pytest

from voicesim.listener.definitions import underruns

T1 = [0.2, 2.3, 2.4, 2.6], [1.0] * 4
T2 = [0.0, 0.9, 1.8, 2.7], [0.5] * 4
T3 = [0.2, 1.0, 1.8, 2.6], [1.0] * 4


@pytest.mark.parametrize(
    ("trace", "a", "b", "c", "d"),
    [
        (T1, (1.1, 2), 1.1, (0.1, 1), (1.1, 1)),
        (T2, (1.2, 3), 0.4, (0.7, 2), (1.2, 3)),
        (T3, (0.0, 0), 0.0, (0.0, 0), (0.0, 0)),
    ],
    ids=["T1", "T2", "T3"],
)
def test_by_hand(trace, a, b, c, d):
    u = underruns(*trace)
    assert (u.a_worst, u.a_events) == (pytest.approx(a[0]), a[1])
    assert u.b_largest == pytest.approx(b)
    assert (u.c_worst, u.c_events) == (pytest.approx(c[0]), c[1])
    assert (u.d_total, u.d_count) == (pytest.approx(d[0]), d[1])


def test_two_numbers_called_c100():
    """Five seams of 60 ms: the pausing player's largest is 60 ms, a pass at 100 ms; the fixed
    clock has lost 300 ms, a fail."""
    arrivals = [i * 0.56 for i in range(6)]
    u = underruns(arrivals, [0.5] * 6)
    assert u.ok(0.1) is True
    assert u.b_largest == pytest.approx(0.06)
    assert u.a_worst == pytest.approx(0.30)


def test_the_threshold_is_inclusive():
    assert underruns([0.0, 1.5], [1.0, 1.0]).ok(0.5) is True


def test_one_chunk_is_not_measured():
    """N/A, not a pass (https://github.com/sgl-project/sglang-omni/issues/1234)."""
    u = underruns([0.4], [2.0])
    assert u.b_largest is None
    assert u.ok(0.1) is None


@pytest.mark.parametrize(("arrivals", "audio"), [([], []), ([0.0, 1.0], [1.0])])
def test_nothing_or_nonsense_is_an_error(arrivals, audio):
    with pytest.raises(ValueError, match="one duration"):
        underruns(arrivals, audio)
