"""One server, first come first served: an engine with one place and a queue at the gateway.

An idle engine starts at once and a busy one goes on at the boundary at which a stream ends, so the
service of m tokens takes m steps exactly: there is no bias of half a step here.  What remains is
that a geometric number of tokens is not exponential: c^2 = 1 - 1/m.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize, stats

from tests.engine.worlds import tape_of
from tests.oracles.runs import REPLICATIONS, interval, meets, play, spec_of, step_of
from voicesim.engine import layout as at
from voicesim.policy.admission import CAP_QUEUE

M = 100
SINCE = 200.0


def waits(seed: int, gaps: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """Seconds before service of those who come after SINCE; E[S] = 1 s is M tokens."""
    arrival = np.cumsum(gaps)
    r = play(
        spec_of(step_of(lambda n: 1 / M), admission=CAP_QUEUE, limit=1),
        tape_of(arrival, tokens, np.ones(len(gaps))),
    )
    assert (r.utterance_i[:, at.R_OUTCOME] == at.COMPLETED).all()
    return (r.utterance_f[:, at.Z_ADMIT] - r.utterance_f[:, at.Z_REQUEST])[arrival > SINCE]


def geometric(rng, n):
    return rng.geometric(1 / M, n)


def hyperexponential(rng, n):
    """Two exponentials of balanced means with c^2 = 2.25 in whole tokens of mean M, and the share
    of the first."""
    p = (1 + np.sqrt(1.25 / 3.25)) / 2
    first = rng.random(n) < p
    mean = np.where(first, 0.5 / p, 0.5 / (1 - p))
    return np.ceil(rng.exponential(mean) * M).astype(np.int64), p


def test_mm1():
    """rho = 0.8, in units of E[S]: Wq = 4, the sojourn is exponential with mean 5, and a wait of
    21.9101331734 is exceeded by one in a hundred."""
    assert 0.8 * np.exp(-0.2 * 21.9101331734) == pytest.approx(0.01, abs=1e-12)
    mean, zero, tail = [], [], []
    for seed in range(REPLICATIONS):
        rng = np.random.default_rng(seed)
        w = waits(seed, rng.exponential(1 / 0.8, 24_000), geometric(rng, 24_000))
        mean.append(w.mean())
        zero.append((w > 0).mean())
        tail.append((w > 21.9101331734).mean())
    exact = 0.8 * (2 - 1 / M) / 2 / 0.2  # Pollaczek-Khinchine with the variance as drawn
    assert exact == pytest.approx(4, rel=1 / M)
    assert meets(mean, exact, 4.0), interval(mean)
    assert meets(zero, 0.8), interval(zero)
    assert meets(tail, 0.01 * (1 - 5 / M), 0.01), interval(tail)


@pytest.mark.parametrize(
    ("law", "value"), [("constant", 1.16666666667), ("c2 = 2.25", 3.79166666667)]
)
def test_mg1(law, value):
    """Wq = rho (1 + c^2) / (2 (1 - rho)) at rho = 0.7: 1.1667 for one length, 3.7917 at
    c^2 = 2.25 (with the moments of the whole numbers as drawn)."""
    means, exact = [], []
    for seed in range(REPLICATIONS):
        rng = np.random.default_rng(seed)
        n = 24_000
        if law == "constant":
            tokens, first, second = np.full(n, M), 1.0, 1.0
        else:
            tokens, p = hyperexponential(rng, n)
            first, second = moments(p)
        gaps = rng.exponential(1 / 0.7, n)
        means.append(waits(seed, gaps, tokens).mean())
        exact.append(0.7 * second / 2 / (1 - 0.7 * first))
    assert exact[0] == pytest.approx(value, rel=0.04)
    assert meets(means, exact[0]), (interval(means), exact[0])


def moments(p: float) -> tuple[float, float]:
    """E[S], E[S^2] of ceil(hyperexponential x M) / M: each branch is geometric."""
    first = second = 0.0
    for share, mean in ((p, 0.5 / p), (1 - p, 0.5 / (1 - p))):
        q = 1 - np.exp(-1 / (mean * M))  # P(ends in a given token)
        first += share / q / M
        second += share * (2 - q) / q**2 / M**2
    return first, second


def test_gi_m1():
    """Calls in bursts (gamma gaps of shape 0.5), rho = 0.8: sigma = A*(mu (1 - sigma)) =
    0.863324958071, P(wait) = sigma, Wq = sigma / (mu (1 - sigma)) = 6.31662479036.

    A geometric number of tokens is smoother than an exponential length by 1/M in c^2, and Wq
    grows at most in proportion to it.
    """
    rate = 0.5 * 0.8  # of the gamma: shape / mean
    sigma = optimize.brentq(lambda s: (rate / (rate + 1 - s)) ** 0.5 - s, 0.1, 0.99)
    assert sigma == pytest.approx(0.863324958071, abs=1e-11)
    value = sigma / (1 - sigma)
    assert value == pytest.approx(6.31662479036, abs=1e-9)
    mean, waited = [], []
    for seed in range(REPLICATIONS):
        rng = np.random.default_rng(seed)
        n = 40_000
        w = waits(seed, rng.gamma(0.5, 1 / rate, n), geometric(rng, n))
        mean.append(w.mean())
        waited.append((w > 0).mean())
    assert meets(mean, value * (1 - 1 / M), value), interval(mean)
    assert meets(waited, sigma * (1 - 1 / M), sigma), interval(waited)


def test_bulk_service():
    """An engine of 6 places whose streams are one token long: whoever waits at the boundary, six at
    most, joins a step, whose noise makes it exponential with mean 1 whoever is in it.

    M/M[1,6]/1 without joining a running batch, lambda = 4: r0 = 0.8851280726212 is the root of
    z^7 - 5 z + 4 in (0, 1), P(idle) = 0.0279162825, Lq = 7.49024245425, Wq = 1.87256061356.  The
    noise is a table of 4,096 equally likely values: c^2 = 1 up to 1 / 4,096.
    """
    r0 = optimize.brentq(lambda z: z**7 - 5 * z + 4, 0.5, 0.99)
    assert r0 == pytest.approx(0.8851280726212, abs=1e-12)
    c = 1 / (1 / (1 - r0) + 1 / 4)
    assert c / 4 == pytest.approx(0.0279162825, abs=1e-10)
    wq = c * r0 / (1 - r0) ** 2 / 4
    assert wq == pytest.approx(1.87256061356, abs=1e-10)
    noise = stats.expon.ppf((np.arange(4096) + 0.5) / 4096)
    noise /= noise.mean()
    assert noise.var() == pytest.approx(1.0, abs=2e-3)
    stay, idle = [], []
    for seed in range(REPLICATIONS):
        rng = np.random.default_rng(seed)
        n, end = 44_000, 10_000.0
        tape = tape_of(np.cumsum(rng.exponential(1 / 4, n)), np.ones(n), np.ones(n))
        spec = spec_of(step_of(lambda n: 1.0), max_num_seqs=6, noise=noise, seed=seed)
        spec = replace(spec, horizon=end, end=end, resolution=0.25)
        r = play(spec, tape)
        done = r.utterance_i[:, at.R_OUTCOME] == at.COMPLETED
        done &= r.utterance_f[:, at.Z_REQUEST] > SINCE
        z = r.utterance_f[done]
        stay.append((z[:, at.Z_DONE] - z[:, at.Z_REQUEST]).mean())
        idle.append((r.series[800:-1, at.B_LIVE] == 0).mean())
    assert meets(stay, wq + 1), interval(stay)  # every batch takes 1 s on average
    assert meets(idle, c / 4), interval(idle)


def test_two_choices_of_many():
    """Each call to the less loaded of two random replicas, rho = 0.9: sum_i rho^(2^i - 1) = 2.35265
    calls at a replica when there are many (9 with one choice; Mitzenmacher 1996, Vvedenskaya et al.
    1996).  With N replicas the mean is off by c/N, so 2 E(2N) - E(N) has no such term."""
    value = sum(0.9 ** (2**i - 1) for i in range(1, 12))
    assert value == pytest.approx(2.35265, abs=5e-6)
    m, end = 40, 400.0
    found = {}
    for servers in (60, 120):
        found[servers] = []
        for seed in range(REPLICATIONS):
            rng = np.random.default_rng((seed, servers))
            n = int(0.9 * servers * end)
            tape = tape_of(
                np.cumsum(rng.exponential(1 / (0.9 * servers), n)), rng.geometric(1 / m, n),
                np.ones(n),
            )  # fmt: skip
            spec = spec_of(step_of(lambda n: 1 / m), max_num_seqs=1, routing=2, seed=seed)
            spec = replace(spec, engines=servers, horizon=end, end=end, resolution=0.5)
            found[servers].append(play(spec, tape).series[200:-1, at.B_LIVE].mean() / servers)
    many = 2 * np.array(found[120]) - np.array(found[60])
    # geometric lengths: c^2 = 1 - 1/m
    assert meets(many, value * (1 - 1 / m), value), (interval(many), value)
    assert not meets(many, 9.0)
