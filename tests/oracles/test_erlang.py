"""Loss and delay systems: Erlang B, its insensitivity, Erlang C and M/M/c/K.

A stream that decodes at a speed that does not depend on the batch is a server of its own, so a
cap on live streams is a group of c servers.  The engine moves in steps: a stream that comes
between two boundaries waits for the next one, so a stream of m tokens takes between m and m + 1
steps, m + 1/2 on average.  That is the bias bound: offered load between a and a (1 + 1/m).
"""

import numpy as np
import pytest

from tests.oracles.runs import (
    LAWS,
    REPLICATIONS,
    birth_death,
    interval,
    meets,
    play,
    poisson_tape,
    refused_share,
    settled,
    sojourns,
    spec_of,
    step_of,
)  # fmt: skip
from voicesim.engine import layout as at
from voicesim.policy.admission import CAP, CAP_QUEUE

M = 200  # tokens of a stream on average
STEP = 0.005  # s, so that E[S] = 1 s and a = the arrival rate
SINCE = 20.0


def erlang_b(a: float, c: int) -> float:
    """B(0) = 1; B(k) = a B(k-1) / (k + a B(k-1)) (A. K. Erlang 1917; any length law)."""
    b = 1.0
    for k in range(1, c + 1):
        b = a * b / (k + a * b)
    return b


def erlang_c(a: float, c: int) -> float:
    b = erlang_b(a, c)
    return b / (1 - (a / c) * (1 - b))


def runs(rate, law, horizon=1000.0, fine=1, **spec):
    spec = spec_of(step_of(lambda n: STEP / fine), **spec)
    for seed in range(REPLICATIONS):
        yield play(spec, poisson_tape(seed, rate, horizon, law, M, fine))


def test_worked_values():
    assert erlang_b(16, 20) == pytest.approx(0.064411, abs=5e-7)
    assert erlang_b(100, 117) == pytest.approx(0.009790, abs=5e-7)
    assert erlang_c(16, 20) == pytest.approx(0.256078, abs=5e-7)


@pytest.mark.parametrize("law", LAWS)
def test_erlang_b_and_insensitivity(law):
    """a = 16, c = 20 blocks 0.064411 whatever the law of the lengths."""
    blocked = [refused_share(r, SINCE) for r in runs(16.0, law, 3000.0, admission=CAP, limit=20)]
    assert meets(blocked, erlang_b(16, 20), erlang_b(16 * (1 + 1 / M), 20))
    assert not meets(blocked, 1.1 * erlang_b(16, 20))  # narrow enough to tell


def test_the_bias_is_half_a_step_per_stream():
    """Sojourn - tokens x step is uniform on one step: mean 1/2, independent of the length."""
    spec = spec_of(step_of(lambda n: STEP), admission=CAP, limit=20)
    excess = []
    for seed in range(REPLICATIONS):
        tape = poisson_tape(seed, 16.0, 500.0, "geometric", M)
        r = play(spec, tape)
        rows = settled(r, SINCE) & (r.utterance_i[:, at.R_OUTCOME] == at.COMPLETED)
        excess.append((sojourns(r, SINCE) / STEP - tape.tokens[rows]).mean())
    assert meets(excess, 0.5)


def test_the_bias_shrinks_as_one_over_m():
    """The same streams in steps 4 and 16 times finer (coupled: same callers, same seconds).

    W(h) = W + h/2 gives W(1) - W(1/4) = 3/8 h and W(1/4) - W(1/16) = 3/32 h, a ratio of 4.
    """
    w = {}
    for fine in (1, 4, 16):
        w[fine] = [
            sojourns(r, SINCE).mean()
            for r in runs(16.0, "geometric", 200.0, fine, admission=CAP, limit=10**6)
        ]
    w = {fine: np.array(values) for fine, values in w.items()}
    assert meets((w[1] - w[4]) / STEP, 3 / 8)
    assert meets((w[4] - w[16]) / STEP, 3 / 32)


def test_erlang_c():
    """a = 16, c = 20, exponential lengths: C = 0.256078, Wq = 0.064019 E[S],
    P(Wq > E[S]) = C e^-(c-a) = 0.004690."""
    waits = []
    for r in runs(16.0, "geometric", 4000.0, admission=CAP_QUEUE, limit=20):
        rows = settled(r, SINCE)
        assert not (r.utterance_i[rows, at.R_OUTCOME] == at.REFUSED).any()
        waits.append(r.utterance_f[rows, at.Z_ADMIT] - r.utterance_f[rows, at.Z_REQUEST])
    a1 = 16 * (1 + 1 / M)
    c, c1 = erlang_c(16, 20), erlang_c(a1, 20)
    assert meets([(w > 0).mean() for w in waits], c, c1)
    assert meets([w.mean() for w in waits], c / 4, c1 * (1 + 1 / M) / (20 - a1))
    assert meets([(w > 1).mean() for w in waits], 0.004690, c1 * np.exp(-(20 - a1) / (1 + 1 / M)))


def test_mmck():
    """M/M/16/24, a = 18: p_n ~ a^n/n! (n <= c), then x a/c; block 0.139940,
    Lq = 3.926951, so Wq = Lq / (18 (1 - block)) = 0.253661."""

    def law(a):
        return birth_death([a / min(n + 1, 16) for n in range(24)])

    p, p1 = law(18), law(18 * (1 + 1 / M))
    wq = (np.arange(9) * p[16:]).sum() / (18 * (1 - p[-1]))
    wq1 = (1 + 1 / M) * (np.arange(9) * p1[16:]).sum() / (18 * (1 + 1 / M) * (1 - p1[-1]))
    assert p[-1] == pytest.approx(0.139940, abs=5e-7)
    assert wq == pytest.approx(0.253661, abs=5e-7)
    blocked, waits = [], []
    for r in runs(18.0, "geometric", 2000.0, admission=CAP_QUEUE, limit=16, max_queued=8):
        blocked.append(refused_share(r, SINCE))
        rows = settled(r, SINCE) & (r.utterance_i[:, at.R_OUTCOME] == at.COMPLETED)
        waits.append((r.utterance_f[rows, at.Z_ADMIT] - r.utterance_f[rows, at.Z_REQUEST]).mean())
    assert meets(blocked, p[-1], p1[-1]), interval(blocked)
    assert meets(waits, wq, (1 + 1 / M) * wq1), interval(waits)
