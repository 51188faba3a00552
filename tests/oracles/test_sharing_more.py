"""Processor sharing at other loads: one length's sojourn, caps, queues, and several replicas.

The bracket is that of test_processor_sharing: a stream of m tokens lasts between m and m + 1 steps.
"""

from dataclasses import replace

import numpy as np
import pytest

from tests.engine.worlds import step_cost, tape_of
from tests.oracles.runs import (
    LAWS,
    REPLICATIONS,
    birth_death,
    interval,
    meets,
    play,
    poisson_tape,
    settled,
    sojourns,
    spec_of,
    step_of,
)  # fmt: skip
from tests.oracles.test_processor_sharing import SINCE, affine, mean_n, simulate, stationary
from voicesim.engine import layout as at
from voicesim.engine.pool import Pool, record
from voicesim.policy.admission import ADMIT, CAP, CAP_QUEUE

TOKENS = 60  # of a stream on average, with the affine step of 12 ms + 0.5 ms a stream
PS = 200  # of a stream on average, with a step in proportion to the batch


def shared(rho: float):
    """A step in proportion to the streams in it: each gets 1/n of a server of load rho at 1/s."""
    return lambda n: rho / PS * max(n, 1)


@pytest.mark.parametrize("law", LAWS)
def test_mg1_ps(law):
    """rho = 0.7: mean sojourn E[S] / (1 - rho) = 3.33333 E[S], whatever the law."""
    n, w, _ = simulate(shared(0.7), 1.0, law, 2500.0, PS)
    rho1 = 0.7 * (1 + 1 / PS)
    assert meets(w, 0.7 / 0.3, rho1 / (1 - rho1)), interval(w)
    assert meets(n, 0.7 / 0.3, rho1 / (1 - rho1)), interval(n)


@pytest.mark.parametrize(
    ("step", "rate", "m", "slow"),
    [
        (shared(0.7), 1.0, PS, lambda m, x: x * 0.7 / PS / (1 - 0.7 * m / PS)),
        (affine, 10.0, TOKENS, lambda m, x: x * 0.0125 / (1 - 10 * m * 0.0005)),
    ],
)
def test_a_length_pays_in_proportion(step, rate, m, slow):
    """E[T | x] = x T(1) / (1 - q): a stream of three times the tokens stays three times as long,
    T(3) / T(1) = 3 (https://en.wikipedia.org/wiki/Processor_sharing)."""
    short, long = [], []
    for seed in range(REPLICATIONS):
        rng = np.random.default_rng(seed)
        n = int(rate * 2000)
        tokens = rng.choice([m // 2, 3 * m // 2], n)
        tape = tape_of(np.cumsum(rng.exponential(1 / rate, n)), tokens, np.ones(n))
        r = play(spec_of(step_of(step)), tape)
        rows = settled(r, SINCE)
        stay = sojourns(r, SINCE)
        short.append(stay[tokens[rows] == m // 2].mean())
        long.append(stay[tokens[rows] > m].mean())
    for stays, x in ((short, m // 2), (long, 3 * m // 2)):
        assert meets(stays, slow(m, x), slow(m + 1, x + 1)), (interval(stays), slow(m, x))


@pytest.mark.parametrize(("rho", "value"), [(0.7, 0.00864520134825), (1.2, 0.192586495127)])
def test_ps_under_a_cap(rho, value):
    """At most K = 10: (1 - rho) rho^K / (1 - rho^(K+1)) are refused."""

    def block(rho, most=10):
        return (1 - rho) * rho**most / (1 - rho ** (most + 1))

    assert block(rho) == pytest.approx(value, abs=1e-12)
    _, _, b = simulate(shared(rho), 1.0, "lognormal", 4000.0, PS, admission=CAP, limit=10)
    assert meets(b, block(rho), block(rho * (1 + 1 / PS))), interval(b)


@pytest.mark.parametrize(
    ("rate", "live", "stay"), [(2.5, 2.027027, 0.810810811), (20.0, 37.5, 1.875)]
)
def test_affine_step_at_other_loads(rate, live, stay):
    """r = 25, q = lambda m t1: E[N] = r q / (1 - q), E[T] = m (t0 + t1) / (1 - q)."""
    q, q1 = (rate * m * 0.0005 for m in (TOKENS, TOKENS + 1))
    assert 25 * q / (1 - q) == pytest.approx(live, abs=1e-6)
    n, w, _ = simulate(affine, rate, "lognormal", 1500.0, TOKENS)
    assert meets(n, live, 25 * q1 / (1 - q1)), interval(n)
    assert meets(w, stay, (TOKENS + 1) * 0.0125 / (1 - q1)), interval(w)


def test_affine_step_when_idle():
    """lambda = 2.5/s: nobody is there for (1 - q)^25 = 0.142410928660 of the time."""
    assert pytest.approx(0.142410928660, abs=1e-12) == (1 - 0.075) ** 25
    idle = []
    for seed in range(REPLICATIONS):
        spec = spec_of(step_of(affine), horizon=2000.0, end=2000.0, resolution=0.1)
        r = play(spec, poisson_tape(seed, 2.5, 2100.0, "geometric", TOKENS))
        idle.append((r.series[600:-1, at.B_LIVE] == 0).mean())
    assert meets(idle, (1 - 2.5 * (TOKENS + 1) * 0.0005) ** 25, (1 - 0.075) ** 25), interval(idle)


def test_affine_step_under_a_cap():
    """lambda = 20/s, at most 48: refused 0.0231059845373, E[N] 34.9698946932, E[T] 1.789851 s."""
    p, p1 = (stationary(20, m, affine, 48) for m in (TOKENS, TOKENS + 1))
    assert p[-1] == pytest.approx(0.0231059845373, abs=1e-12)
    assert mean_n(p) == pytest.approx(34.9698946932, abs=1e-9)
    assert mean_n(p) / 20 / (1 - p[-1]) == pytest.approx(1.78985100429, abs=1e-10)
    n, w, b = simulate(affine, 20.0, "lognormal", 1500.0, TOKENS, admission=CAP, limit=48)
    assert meets(n, mean_n(p), mean_n(p1)), interval(n)
    assert meets(b, p[-1], p1[-1]), interval(b)
    low, high = (mean_n(x) / 20 / (1 - x[-1]) for x in (p, p1))
    assert meets(w, low, high), interval(w)


def test_affine_step_with_a_queue():
    """lambda = 20/s, at most 48, the others wait (exponential lengths): P(wait) 0.191282012388,
    Wq 0.0860769055747, E[T] 1.94673075465."""

    def law(m):
        rate = [20 * m * affine(min(n + 1, 48)) / min(n + 1, 48) for n in range(2500)]
        p = birth_death(rate)
        n = np.arange(len(p))
        return p[48:].sum(), (np.maximum(n - 48, 0) * p).sum() / 20, (n * p).sum() / 20

    assert law(TOKENS) == pytest.approx((0.191282012388, 0.0860769055747, 1.94673075465), abs=1e-10)
    waited, wait, stay = [], [], []
    for seed in range(REPLICATIONS):
        spec = spec_of(step_of(affine), admission=CAP_QUEUE, limit=48)
        r = play(spec, poisson_tape(seed, 20.0, 2500.0, "geometric", TOKENS))
        rows = settled(r, SINCE)
        w = r.utterance_f[rows, at.Z_ADMIT] - r.utterance_f[rows, at.Z_REQUEST]
        waited.append((w > 0).mean())
        wait.append(w.mean())
        stay.append(sojourns(r, SINCE).mean())
    for found, low, high in zip((waited, wait, stay), law(TOKENS), law(TOKENS + 1), strict=True):
        assert meets(found, low, high), (interval(found), low, high)


@pytest.mark.parametrize(("replicas", "stay"), [(2, 1.0714286), (4, 0.8823529)])
def test_replicas_of_a_random_split(replicas, stay):
    """lambda = 20/s split at random over k replicas: each is the affine queue at lambda / k, and
    whoever joins the shorter of the queues does better."""
    q, q1 = (20 / replicas * m * 0.0005 for m in (TOKENS, TOKENS + 1))
    assert TOKENS * 0.0125 / (1 - q) == pytest.approx(stay, abs=1e-7)
    split, shortest = [], []
    for seed in range(REPLICATIONS):
        tape = poisson_tape(seed, 20.0, 1000.0, "lognormal", TOKENS)
        spec = replace(spec_of(step_of(affine), seed=seed), engines=replicas)
        pool = Pool(spec, tape, lambda view: (ADMIT, int(view.uniform(0) * replicas)))
        pool.advance(spec.end)
        split.append(sojourns(record(pool), SINCE).mean())
        shortest.append(sojourns(play(spec, tape), SINCE).mean())
    assert meets(split, stay, (TOKENS + 1) * 0.0125 / (1 - q1)), interval(split)
    assert interval(np.array(split) - shortest)[0] > 0


def test_roofline_limits():
    """T(B) = max(10 ms, B x 0.5 ms): B / 10 ms up to B = 20, then 2,000 tokens/s however many
    there are: neither roof is ever exceeded."""
    step = step_cost(memory=0.010, per_kv=0.0, base=0.0, per_token=5e-4)
    for batch in (1, 10, 19, 20, 21, 40, 200):
        tape = tape_of(np.zeros(batch), np.full(batch, 500), np.ones(batch))
        r = play(spec_of(step), tape)
        took = r.utterance_f[:, at.Z_DONE].max()
        assert batch * 500 / took == pytest.approx(min(batch / 0.010, 2000.0), rel=1e-9)
