"""Continuous batching is processor sharing whose speed depends on the batch.

Every resident gains one token per step of T(n) seconds, so n -> n - 1 happens at rate
n / (m T(n)) and p_n ~ prod_{k <= n} lambda m T(k) / k.  A symmetric queue (Kelly 1979, ch. 3): the
law of n depends on the token law through its mean m only.

An engine moves in whole steps and a stream joins at the next boundary, so a stream of m tokens
lasts between m and m + 1 steps: the bias bound is the closed form at m + 1 tokens, and a coupled
run in finer steps shows that the bias goes away in proportion to the step.
"""

import numpy as np
import pytest

from tests.engine.worlds import tape_of
from tests.oracles.runs import (
    LAWS,
    REPLICATIONS,
    birth_death,
    interval,
    meets,
    play,
    poisson_tape,
    refused_share,
    sojourns,
    spec_of,
    step_of,
)  # fmt: skip
from voicesim.engine import layout as at
from voicesim.policy.admission import CAP

M = 100
SINCE = 60.0
N = np.arange(5000)


def flat_then_linear(n):
    """10 ms while the weights are the bottleneck (n <= 8), then in proportion to the batch."""
    return 0.010 * max(1.0, n / 8)


def stationary(rate, m, step, most):
    return birth_death([rate * m * step(n + 1) / (n + 1) for n in range(most)])


def mean_n(p):
    return float((N[: len(p)] * p).sum())


def simulate(step, rate, law, horizon, m=M, fine=1, **more):
    """(mean n at the samples of a 0.25 s clock, mean sojourn, share refused) by replication."""
    rows = []
    for seed in range(REPLICATIONS):
        spec = spec_of(
            step_of(lambda n: step(n) / fine), resolution=0.25, end=horizon, horizon=horizon, **more
        )
        r = play(spec, poisson_tape(seed, rate, 1.1 * horizon, law, m, fine))
        live = r.series[int(SINCE / 0.25) : int(horizon / 0.25), at.B_LIVE]
        rows.append((live.mean(), sojourns(r, SINCE).mean(), refused_share(r, SINCE)))
    return np.array(rows).T


def test_worked_values():
    """lambda = 6/s, m = 100: E[n] = 7.0709, sojourn 1.17849 s, P(n > 8) = 0.26774."""
    p = stationary(6, M, flat_then_linear, 400)
    assert mean_n(p) == pytest.approx(7.0709, abs=5e-5)
    assert mean_n(p) / 6 == pytest.approx(1.17849, abs=1e-5)
    assert p[9:].sum() == pytest.approx(0.26774, abs=5e-6)


@pytest.mark.parametrize("law", LAWS)
def test_below_capacity_whatever_the_law(law):
    n, w, _ = simulate(flat_then_linear, 6.0, law, 1500.0)
    low, high = (mean_n(stationary(6, m, flat_then_linear, 400)) for m in (M, M + 1))
    assert meets(n, low, high), interval(n)
    assert meets(w, low / 6, high / 6), interval(w)


@pytest.mark.parametrize(
    ("cap", "block", "live", "sojourn"),
    [(12, 0.18049, 8.9908, 1.2190), (24, 0.12258, 18.0629, 2.2874)],
)
def test_overload_under_a_cap(cap, block, live, sojourn):
    """lambda = 9/s > 8/s: a cap twice as wide doubles the sojourn for six points of refusals."""
    n, w, b = simulate(flat_then_linear, 9.0, "geometric", 1500.0, admission=CAP, limit=cap)
    (n0, b0, w0), (n1, b1, w1) = (
        (mean_n(p), p[-1], mean_n(p) / 9 / (1 - p[-1]))
        for p in (stationary(9, m, flat_then_linear, cap) for m in (M, M + 1))
    )
    assert (n0, b0) == (pytest.approx(live, abs=1e-4), pytest.approx(block, abs=1e-5))
    assert w0 == pytest.approx(sojourn, abs=1e-4)
    assert meets(n, n0, n1), interval(n)
    assert meets(b, b0, b1), interval(b)
    assert meets(w, w0, w1), interval(w)


def test_the_bias_shrinks_with_the_step():
    """The same callers in steps of T, T/4 and T/16: W(1) - W(1/4) is four times W(1/4) - W(1/16)
    up to the next order, which is one part in m."""
    w = [simulate(flat_then_linear, 6.0, "geometric", 400.0, fine=f)[1] for f in (1, 4, 16)]
    first, second = w[0] - w[1], w[1] - w[2]
    assert interval(second)[0] > 0  # a bias that is there, and positive
    assert meets(first - 4 * second, -first.mean() / M, first.mean() / M), (first, second)


def affine(n):
    """t0 + t1 n: 12 ms of weights and launches, 0.5 ms a stream."""
    return 0.012 + 0.0005 * n


@pytest.mark.parametrize("law", LAWS)
def test_affine_step_is_negative_binomial(law):
    """N ~ NegBin(1 + t0/t1, q = lambda m t1), E[T] = m (t0 + t1) / (1 - q).

    lambda = 10/s, m = 60: E[N] = 10.714286, Var N = 15.306, E[T] = 1.0714286 s.
    """
    m, rate, q = 60, 10.0, 0.3
    p = stationary(rate, m, affine, 400)
    assert mean_n(p) == pytest.approx(10.714286, abs=1e-6)
    assert mean_n(p) == pytest.approx((1 + 24) * q / (1 - q), rel=1e-9)
    n, w, _ = simulate(affine, rate, law, 1000.0, m)
    q1 = rate * (m + 1) * 0.0005
    assert meets(n, 10.714286, 25 * q1 / (1 - q1)), interval(n)
    assert meets(w, 1.0714286, (m + 1) * 0.0125 / (1 - q1)), interval(w)


@pytest.mark.parametrize("step", [flat_then_linear, affine])
def test_throughput_never_exceeds_the_best_batch(step):
    """Tokens per second <= max_B B / T(B), approached when 40 streams are always there."""
    best = max(n / step(n) for n in range(1, 41))
    tape = tape_of(np.zeros(1200), np.full(1200, 500), np.ones(1200))
    r = play(spec_of(step_of(step), max_num_seqs=40), tape)
    served = tape.tokens.sum() / r.utterance_f[:, at.Z_DONE].max()
    assert served <= best * (1 + 1e-12)
    assert served > 0.95 * best
