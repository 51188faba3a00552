"""C22: streaming recognition falls behind and never catches up.

https://github.com/ufal/whisper_streaming/issues/138, https://github.com/QuentinFuxa/WhisperLiveKit/issues/388:
about eight live clients on one card are well, one or two more and the delay grows to a minute.
https://github.com/ufal/whisper_streaming/issues/42: as long as the card is not busy all the time
the lag stays bounded.  Each second of speech is decoded again with the nine seconds before it.

Must show: the lag is bounded if and only if the load is below 1, else it is (rho - 1) t and the
same for every client; batching moves the break far up.
"""

import numpy as np
import pytest

from tests.cases.speakers import listen
from voicesim.engine.asr_spec import STREAMING, WINDOWS, AsrSpec
from voicesim.engine.layout import FINE_PER_OCTAVE, quantile_edges

CHUNK, COST = 1.0, 0.11  # s; a window of 10 s on a large card
END = 900.0


def serial(kind: int = STREAMING) -> AsrSpec:
    return AsrSpec(kind=kind, chunk=CHUNK, cost=np.array([COST, 0.0, 0.0]), cap=1)


def lag(spec: AsrSpec, n: int, at: float) -> float:
    """Mean delay of the chunks that the n clients, who began together, end at one instant."""
    return listen(spec, [0.0] * n, END, at, at).delay


@pytest.mark.parametrize("n", [1, 8, 9])
def test_below_full_load_the_lag_is_bounded(n):
    """Client i of n waits for the i before it: (n + 1) / 2 jobs on average, at any time."""
    for at in (10.0, 300.0, 800.0):
        assert lag(serial(), n, at) == pytest.approx(COST * (n + 1) / 2, abs=1e-9)


@pytest.mark.parametrize("n", [10, 11, 16])
def test_beyond_it_grows_with_the_excess(n):
    """Chunk j of client i is the (n (j - 1) + i)-th job of a server that is never idle."""
    rho = n * COST / CHUNK
    for at in (10.0, 200.0, 400.0):
        expected = (rho - 1) * (at - CHUNK) + COST * (n + 1) / 2
        assert lag(serial(), n, at) == pytest.approx(expected, abs=1e-9)
        assert abs(expected - (rho - 1) * at) <= n * COST  # (rho - 1) t, up to one round of jobs


def test_all_clients_fall_behind_alike():
    """First come first served: at one instant the first and the last are n - 1 jobs apart."""
    n = 16
    late = listen(serial(), [0.0] * n, END, 20.0, 20.0)
    delays = quantile_edges(FINE_PER_OCTAVE)[np.flatnonzero(late.hist)]
    assert late.n == n and 14.0 < delays[0] < 16.0
    assert delays[-1] - delays[0] == pytest.approx((n - 1) * COST, abs=1 / 16)  # a bucket


def test_a_batch_holds_far_more():
    """The same audio with most of a job's time shared by its batch: 45 clients, not 9."""
    shared = AsrSpec(chunk=CHUNK, cost=np.array([0.09, 0.02, 0.0]), cap=64)
    steady = [listen(shared, [0.0] * 45, END, at, at).delay for at in (10.0, 800.0)]
    assert steady == pytest.approx([0.99, 0.99], abs=1e-9)
    assert listen(shared, [0.0] * 46, END, 800.0, 800.0).delay > 5.0  # 800 (1.01 - 1) and more
    assert lag(serial(), 10, 800.0) > 80.0


def windows(per_second: float) -> AsrSpec:
    cost = np.array([0.1, 0.0, per_second])
    return AsrSpec(kind=WINDOWS, chunk=CHUNK, window=10.0, cost=cost, cap=1)


def test_a_window_that_takes_what_is_there_throttles_itself():
    """LocalAgreement: a late job takes all that has come, so the load that counts is that of full
    windows, n c(W) / W; below it a client's jobs come every n c(W) seconds, not every second."""
    n, full = 8, 1.1  # s: a job over 10 s; chunk by chunk the card would be 8.8 times overloaded
    runs = [listen(windows(0.1), [0.0] * n, END, since, since + 88.0) for since in (300.0, 700.0)]
    # after a job has begun a client's next chunk is there in a second, and done with the next job
    expected = n * full - CHUNK + full
    assert [r.delay for r in runs] == pytest.approx([expected] * 2, abs=1e-9)
    assert all(r.busy == pytest.approx(1.0, abs=1e-9) for r in runs)


def test_beyond_full_windows_it_falls_behind_too():
    """No audio is left out: the card gets through W seconds of each client a round, n c(W)."""
    n, spec = 12, windows(0.1)
    early, late = (listen(spec, [0.0] * n, END, t, t + 60.0).delay for t in (200.0, 500.0))
    assert (late - early) / 300.0 == pytest.approx(n * 1.1 / 10.0 - 1, rel=0.02)
