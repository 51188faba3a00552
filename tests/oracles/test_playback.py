"""Playback: the first seam, ramps, prebuffers, the reflection identity.  One caller, no queue."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.worlds import tape_of
from tests.oracles.runs import play, spec_of, step_of
from voicesim.engine import layout as at
from voicesim.listener.definitions import underruns
from voicesim.listener.player import SILENT, deliver

INF = math.inf
AUDIO = 0.08  # s of audio a token


def one_stream(schedule, tokens, step, **more):
    """A single call on an idle engine, ``step`` seconds a token; its record."""
    more = {"token_audio": AUDIO, "audible": 0.0, **more}
    return play(spec_of(step_of(lambda n: step), schedule=schedule, **more), tape_of([0], [tokens]))


def listen(arrivals, audio, prebuffer=0.0, rebuffer=0.0, max_wait=INF, max_queue=INF):
    """(time of the first sound, stalls, end of playback, audio lost) of a chunk trace."""
    state = SILENT, 0.0, 0.0, 0.0
    first, stalls, lost = -1.0, [], 0.0
    for i, (t, d) in enumerate(zip(arrivals, audio, strict=True)):
        *state, stall, started, gone = deliver(
            *state, t, d, i == len(audio) - 1, prebuffer, rebuffer, max_wait, max_queue
        )
        first = started if started >= 0 else first
        lost += gone
        stalls += [stall] if stall > 0 else []
    return first, stalls, state[1], lost


def test_first_seam():
    """stall = max(0, r d1 - d0): r = 0.56, chunks of 1 and 25 frames of 80 ms: 1.12 - 0.08 = 1.04 s
    (https://github.com/vllm-project/vllm-omni/issues/4913).  The later seams are covered."""
    r = one_stream((1, 25), 101, 0.56 * AUDIO)
    assert r.utterance_f[0, at.Z_STALL_MAX] == pytest.approx(1.04, abs=1e-9)
    assert r.utterance_i[0, at.R_STALLS] == 1


@given(
    st.lists(st.integers(1, 40), min_size=2, max_size=7),
    st.integers(5, 140),
)
def test_ramp_rule(ramp, tau):
    """Chunks n_k of audio a, wall time tau per frame: no gap iff for every k
    sum_{i<=k} n_i a >= sum_{i=2..k+1} n_i tau; else the total stall is the largest deficit."""
    a = 80  # ms, as tau: whole numbers, so that the rule is decided exactly
    deficits = [sum(ramp[1 : k + 1]) * tau - sum(ramp[:k]) * a for k in range(1, len(ramp))]
    r = one_stream(tuple(ramp), sum(ramp), tau / 1000)
    assert r.utterance_f[0, at.Z_STALL] == pytest.approx(max(0, *deficits) / 1000, abs=1e-9)


@pytest.mark.parametrize("chunk", [25, 5, 1])
def test_buffer_fluid_limit(chunk):
    """L = 10 s at RTF s = 1.25: the earliest gap-free start is at L (s - 1) = 2.5 s, within a
    chunk (https://github.com/vllm-project/vllm-omni/issues/2562).
    In audio: b0 = L (1 - 1/s) = 2.0 s."""
    tokens, s = 125, 1.25

    def stalls(prebuffer):
        r = one_stream((chunk,), tokens, s * AUDIO, prebuffer=prebuffer)
        return r.utterance_i[0, at.R_STALLS], r.utterance_f[0, at.Z_START]

    size = chunk * AUDIO
    sizes = [k * size for k in range(1, tokens // chunk + 1)]
    least = next(b for b in sizes if stalls(b - 1e-9)[0] == 0)
    assert abs(stalls(least - 1e-9)[1] - 2.5) <= s * size + 1e-9
    assert abs(least - 2.0) <= size + 1e-9


@pytest.mark.parametrize(
    ("rebuffer", "count", "total", "end"), [(0.2, 8, 2.0, 12.625), (0.0, None, 1.875, 12.5)]
)
def test_fluid_with_rebuffering(rebuffer, count, total, end):
    """Reply A = 10 s at rate r = 0.8, prebuffer b0 = 0.5 s: first sound b0/r = 0.625 s, underrun
    b0/(1-r) = 2.5 s later, n = ceil((A(1-r) - b0)/b1) stalls, total
    [(n-1) b1 + min(b1, A - p_n)]/r with p_n = (b0 + (n-1) b1)/(1-r).

    A chunk of c seconds can shift each stall by at most c/r.
    """
    c = 0.0005
    n = round(10 / c)
    arrivals = [(i + 1) * c / 0.8 for i in range(n)]
    first, stalls, played, _ = listen(arrivals, [c] * n, prebuffer=0.5, rebuffer=rebuffer)
    per_stall = c / 0.8
    assert first == pytest.approx(0.625, abs=per_stall)
    if count is not None:
        assert len(stalls) == count
    assert sum(stalls) == pytest.approx(total, abs=(count or 1) * 2 * per_stall)
    assert played == pytest.approx(end, abs=(count or 1) * 2 * per_stall)


def test_chunk_recursion():
    """s_i = max(a_i, s_(i-1) + d_(i-1)): starts .3 .7 1.3 1.8 2.9, stall .6, end 3.7."""
    a, d = (0.30, 0.55, 1.30, 1.45, 2.9), (0.4, 0.6, 0.5, 0.5, 0.8)
    first, stalls, end, _ = listen(a, d)
    assert (first, sum(stalls), end) == (0.3, pytest.approx(0.6), pytest.approx(3.7))
    assert max(stalls) == pytest.approx(0.6)  # the chunk at 1.3 = 0.7 + 0.6 is in time to rounding


TRACES = st.lists(
    st.tuples(st.floats(0.0, 3.0), st.floats(0.01, 2.0)), min_size=2, max_size=30
).map(lambda rows: (np.cumsum([r[0] for r in rows]).tolist(), [r[1] for r in rows]))


@given(TRACES)
def test_reflection_identity(trace):
    """The fixed clock's worst lateness is the pausing player's total stall: the idle time of a
    single-server queue.  It is also the least extra start delay for no stall."""
    u = underruns(*trace)
    assert u.a_worst == pytest.approx(u.d_total, abs=1e-9)
    assert u.b_largest <= u.d_total + 1e-9
    assert u.c_worst <= u.a_worst
    a, d = trace
    ahead = np.concatenate(([0.0], np.cumsum(d)[:-1]))
    assert u.d_total == pytest.approx(max(np.array(a) - ahead) - a[0], abs=1e-9)


@given(TRACES, st.integers(0, 29), st.floats(0.0, 2.0))
def test_a_later_chunk_never_helps(trace, i, delay):
    a, d = trace
    late = [t + delay if j >= i % len(a) and j > 0 else t for j, t in enumerate(a)]
    assert underruns(late, d).d_total >= underruns(a, d).d_total - 1e-9


@given(TRACES, st.floats(0.0, 3.0))
def test_delaying_the_start_cuts_the_stall(trace, x):
    """Chunks after the first keep their times: a start x later cuts the total by min(x, total)."""
    a, d = trace
    x = min(x, a[1] - a[0])  # order is kept
    later = [a[0] + x, *a[1:]]
    total = underruns(a, d).d_total
    assert underruns(later, d).d_total == pytest.approx(total - min(x, total), abs=1e-9)


def test_ballot_starvation():
    """N = 40 Poisson chunks, 6/s, 0.2 s each, x prefetched (Takacs; Xu, Altman et al.,
    arXiv 1108.0187): P(starve) = sum_{k=x}^{N-1} (x/k) Poisson(k - x; 6 k d); x = 3: 0.292747,
    x = 5: 0.120985.  The count of starved replies is binomial: 99.9 % interval."""
    from scipy.stats import binomtest, poisson

    runs, rng = 4000, np.random.default_rng(7)
    for x, value in ((3, 0.292747111968), (5, 0.120985473138)):
        k = np.arange(x, 40)
        assert (x / k * poisson.pmf(k - x, 6 * k * 0.2)).sum() == pytest.approx(value, abs=1e-9)
        starved = 0
        for _ in range(runs):
            t = np.cumsum(rng.exponential(1 / 6, 40 - x))
            stalls = listen([0.0] * x + t.tolist(), [0.2] * 40)[1]
            starved += bool(stalls)
        assert binomtest(starved, runs, value).pvalue > 0.001


def test_pool_agrees_with_the_definitions():
    """The kernel's A, C, total and largest equal those from its own chunk timeline."""
    from tests.engine.worlds import random_world

    seen = 0
    for seed in range(60):
        spec, tape = random_world(seed, prebuffer=0.0, rebuffer=0.0, max_queue=INF)
        r = play(spec, tape)
        for u in np.flatnonzero(r.utterance_i[:, at.R_OUTCOME] == at.COMPLETED):
            rows = r.chunk_i[:, at.L_UTT] == u
            if rows.sum() < 2:
                continue
            x = underruns(r.chunk_f[rows, at.M_ARRIVE].tolist(), r.chunk_f[rows, at.M_AUDIO])
            z = r.utterance_f[u]
            assert (z[at.Z_A], z[at.Z_C]) == (pytest.approx(x.a_worst), pytest.approx(x.c_worst))
            assert z[at.Z_STALL] == pytest.approx(x.d_total)
            assert z[at.Z_STALL_MAX] == pytest.approx(x.b_largest)
            assert r.utterance_i[u, at.R_STALLS] == x.d_count
            seen += 1
    assert seen > 300
