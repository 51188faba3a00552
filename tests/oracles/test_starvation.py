"""A player fed by Poisson chunks: does it ever starve, and when?

The buffer falls by a second a second and rises with every chunk: the surplus of an insurer, run
backwards.  Its closed forms are exact; the count of starved replies is binomial (99.9 %).
"""

import numpy as np
import pytest
from scipy import optimize
from scipy.stats import binomtest

from tests.oracles.runs import interval, meets
from voicesim.listener.player import SILENT, deliver

REPLIES = 4000
ENOUGH = 8.0
"""s of buffer from which nobody starves any more: e^(-theta 8) = 3e-7."""


def first_underrun(rng, rate: float, chunk, level: float, until: float = ENOUGH) -> float:
    """Seconds of playback until the buffer is empty; inf once it holds ``until``."""
    state = SILENT, 0.0, 0.0, 0.0
    t, size = 0.0, level
    while True:
        *state, stall, _, _ = deliver(*state, t, size, False, 0.0, 0.0, np.inf, np.inf)
        if stall > 0.0:
            return t - stall
        if state[1] - t > until:  # state: mode, end of what is buffered, ...
            return np.inf
        t += rng.exponential(1 / rate)
        size = chunk(rng)


@pytest.mark.parametrize(("level", "value"), [(0.5, 0.390200334663), (1.0, 0.152256301171)])
def test_an_endless_reply_starves(level, value):
    """6 chunks/s of 0.2 s: P(ever) = e^(-theta b) with 6 (1 - e^(-0.2 theta)) = theta,
    theta = 1.88218998625."""
    theta = optimize.brentq(lambda x: 6 * (1 - np.exp(-0.2 * x)) - x, 0.5, 5)
    assert theta == pytest.approx(1.88218998625, abs=1e-10)
    assert np.exp(-theta * level) == pytest.approx(value, abs=1e-11)
    assert np.exp(-theta * ENOUGH) < 1e-6
    rng = np.random.default_rng(1)
    starved = sum(first_underrun(rng, 6.0, lambda _: 0.2, level) < np.inf for _ in range(REPLIES))
    assert binomtest(starved, REPLIES, value).pvalue > 0.001


def test_chunks_of_random_length():
    """6/s, exponential of mean 0.2 s: theta = 6 - 1 / 0.2 = 1, P(ever from 0.5 s) = 0.606531."""
    rng = np.random.default_rng(2)
    starved = sum(
        first_underrun(rng, 6.0, lambda r: r.exponential(0.2), 0.5, 12.0) < np.inf
        for _ in range(REPLIES)
    )
    assert binomtest(starved, REPLIES, np.exp(-0.5)).pvalue > 0.001


def test_slower_than_speech():
    """4.5/s of 0.2 s: the buffer loses 0.1 s a second, so 0.5 s last b / (1 - lambda d) = 5 s."""
    rng = np.random.default_rng(3)
    lasts = [first_underrun(rng, 4.5, lambda _: 0.2, 0.5, np.inf) for _ in range(REPLIES)]
    assert meets(lasts, 5.0), interval(lasts)


@pytest.mark.parametrize(("rate", "value"), [(5.0, 0.628948875257), (4.5, 0.805445861302)])
def test_ballot_at_other_rates(rate, value):
    """40 chunks of 0.2 s, 3 prefetched (Takacs; Xu, Altman et al., arXiv 1108.0187)."""
    from scipy.stats import poisson

    k = np.arange(3, 40)
    assert (3 / k * poisson.pmf(k - 3, rate * k * 0.2)).sum() == pytest.approx(value, abs=1e-10)
    rng, starved = np.random.default_rng(4), 0
    for _ in range(REPLIES):
        late = np.cumsum(rng.exponential(1 / rate, 37))
        state, stalled = (SILENT, 0.0, 0.0, 0.0), False
        for i, t in enumerate([0.0] * 3 + late.tolist()):
            *state, stall, _, _ = deliver(*state, t, 0.2, i == 39, 0.0, 0.0, np.inf, np.inf)
            stalled |= stall > 0.0
        starved += stalled
    assert binomtest(starved, REPLIES, value).pvalue > 0.001
