"""Laws against scipy.stats.

Statistical tests run on fixed seeds; each rejects a correct program once in 1,000 seeds.
"""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from workload_standins import law

from voicesim.scenario.units import Distribution, constant
from voicesim.workload import lengths
from voicesim.workload.rng import Purpose

ALPHA = 1e-3
Z99 = stats.norm.ppf(0.99)


def of_mean_and_sigma(mean, sigma):
    return stats.lognorm(s=sigma, scale=mean * math.exp(-(sigma**2) / 2))


CONTINUOUS = [
    (law("exponential", mean=4.0), stats.expon(scale=4.0)),
    (law("lognormal", median=1.9, sigma=0.75), stats.lognorm(s=0.75, scale=1.9)),
    (law("lognormal", mean=2.5, sigma=0.6), of_mean_and_sigma(2.5, 0.6)),
    (law("gamma", mean=3.0, cv=0.5), stats.gamma(4.0, scale=0.75)),
    (law("gamma", mean=3.0, cv=2.0), stats.gamma(0.25, scale=12.0)),
    (law("uniform", low=2.0, high=5.0), stats.uniform(2.0, 3.0)),
]
U = np.concatenate(([0.0], np.linspace(0.001, 0.999, 999), [1 - 2.0**-53]))


@pytest.mark.parametrize(("ours", "scipys"), CONTINUOUS)
def test_quantile_function_is_scipys(ours, scipys):
    np.testing.assert_allclose(lengths.quantile(ours, U), scipys.ppf(U), rtol=1e-9, atol=1e-300)
    assert lengths.mean(ours) == pytest.approx(scipys.mean(), rel=1e-12)


@pytest.mark.parametrize(("ours", "scipys"), CONTINUOUS)
def test_draws_follow_the_law(ours, scipys):
    n = 100_000
    x = lengths.draw(ours, n, 7, 0, Purpose.AUDIO)
    assert stats.kstest(x, scipys.cdf).pvalue > ALPHA
    assert abs(x.mean() - scipys.mean()) < stats.norm.isf(ALPHA / 2) * scipys.std() / n**0.5


def test_truncated_normal():
    ours = Distribution("normal", {"mean": 0.2, "sd": 0.35})
    scipys = stats.truncnorm(-0.2 / 0.35, np.inf, loc=0.2, scale=0.35)
    np.testing.assert_allclose(lengths.quantile(ours, U[1:-1]), scipys.ppf(U[1:-1]), atol=1e-9)
    assert lengths.mean(ours) == pytest.approx(scipys.mean(), rel=1e-9)


def test_one_and_poisson_or_negative_binomial():
    poisson = lengths.quantile(law("poisson", mean=2.0), U)
    expected = 1 + stats.poisson(1.0).ppf(U[1:-1])
    assert poisson[1:-1].tolist() == expected.tolist() and poisson[0] == 1.0
    wide = law("negative_binomial", mean=8.0, cv=0.6)
    x = lengths.draw(wide, 200_000, 3, 0, Purpose.COUNTS)
    assert x.min() == 1.0
    assert x.mean() == pytest.approx(8.0, abs=4 * 4.8 / len(x) ** 0.5)
    assert x.std() / x.mean() == pytest.approx(0.6, rel=0.01)
    assert set(lengths.quantile(law("poisson", mean=1.0), U)) == {1.0}
    for bad in (law("poisson", mean=0.5), law("negative_binomial", mean=8.0, cv=0.3)):
        with pytest.raises(ValueError):
            lengths.quantile(bad, U)


def test_a_mixture_draws_each_part_in_its_share():
    parts = [(0.8, constant(1.0)), (0.2, Distribution("exponential", {"mean": 5.0}))]
    mixed = Distribution("mixture", {"parts": parts})
    x = lengths.draw(mixed, 100_000, 3, 0, Purpose.THINK)
    assert np.mean(x == 1.0) == pytest.approx(0.8, abs=0.006)
    assert stats.kstest(x[x != 1.0], stats.expon(scale=5.0).cdf).pvalue > ALPHA
    assert mixed.mean() == pytest.approx(1.8) == lengths.mean(mixed)


@given(st.floats(0.01, 1e3), st.floats(1.0, 14.9))
def test_lognormal_of_mean_and_p99_has_both(mean, ratio):
    mu, sigma = lengths.lognormal_parameters({"mean": mean, "p99": mean * ratio})
    assert 0 <= sigma <= Z99
    assert math.exp(mu + sigma**2 / 2) == pytest.approx(mean, rel=1e-9)
    assert math.exp(mu + Z99 * sigma) == pytest.approx(mean * ratio, rel=1e-9)


def test_lognormal_of_the_holiday_peak():
    # By hand: ln(15/4.3) = 1.24944; sigma = 2.32635 - sqrt(5.41189 - 2.49887) = 0.61959.
    mu, sigma = lengths.lognormal_parameters({"mean": 4.3, "p99": 15.0})
    assert sigma == pytest.approx(0.61959, abs=1e-5)
    assert mu == pytest.approx(math.log(4.3) - 0.61959**2 / 2, abs=1e-5)


@pytest.mark.parametrize("ratio", [0.99, 15.0])
def test_lognormal_refuses_an_impossible_p99(ratio):
    with pytest.raises(ValueError, match=r"\[1, 14.97\]"):
        lengths.quantile(law("lognormal", mean=2.0, p99=2.0 * ratio), U)


@pytest.mark.parametrize("mean", [1.0, 1.2, 3.0, 40.0])
def test_geometric(mean):
    ours, scipys = law("geometric", mean=mean), stats.geom(1 / mean)
    x = lengths.draw_integers(ours, 50_000, 3, 0, Purpose.COUNTS)
    assert x.dtype == np.int64
    assert x.min() == 1
    assert lengths.mean(ours) == mean
    if mean == 1.0:
        assert x.max() == 1
        return
    top = int(scipys.ppf(0.999))
    expected = np.append(scipys.pmf(np.arange(1, top + 1)), scipys.sf(top)) * len(x)
    observed = np.bincount(np.minimum(x, top + 1), minlength=top + 2)[1:]
    assert stats.chisquare(observed, expected).pvalue > ALPHA


def test_empirical_takes_each_value_equally_often():
    ours = law("empirical", values=[5.0, 1.0, 1.0, 3.0])
    u = (np.arange(400) + 0.5) / 400
    x = lengths.quantile(ours, u)
    assert {v: int((x == v).sum()) for v in (1.0, 3.0, 5.0)} == {1.0: 200, 3.0: 100, 5.0: 100}
    assert lengths.mean(ours) == 2.5
    assert lengths.quantile(ours, np.array([0.0, 1 - 2.0**-53])).tolist() == [1.0, 5.0]


def test_laws_without_spread_are_constant():
    for ours in (
        law("constant", value=2.0),
        law("gamma", mean=2.0, cv=0.0),
        law("lognormal", mean=2.0, sigma=0.0),
        law("lognormal", mean=2.0, p99=2.0),
        law("uniform", low=2.0, high=2.0),
    ):
        np.testing.assert_allclose(lengths.quantile(ours, U), 2.0, rtol=1e-15)
        assert lengths.mean(ours) == pytest.approx(2.0, rel=1e-15)


@pytest.mark.parametrize(
    ("small", "large"),
    [
        (law("constant", value=1.0), law("constant", value=2.0)),
        (law("exponential", mean=3.0), law("exponential", mean=3.1)),
        (law("lognormal", mean=2.0, p99=9.0), law("lognormal", mean=2.2, p99=9.9)),
        (law("gamma", mean=2.0, cv=1.3), law("gamma", mean=2.2, cv=1.3)),
        (law("geometric", mean=3.0), law("geometric", mean=3.4)),
        (law("uniform", low=1.0, high=2.0), law("uniform", low=1.0, high=2.5)),
        (law("empirical", values=[1, 2, 3]), law("empirical", values=[1, 2, 4])),
    ],
)
def test_common_random_numbers_stay_monotone(small, large):
    u = np.sort(np.random.default_rng(0).random(20_000))
    a, b = lengths.quantile(small, u), lengths.quantile(large, u)
    assert np.all(np.diff(a) >= 0)
    assert np.all(b >= a)
    drawn = [lengths.draw(x, 5_000, 1, 0, Purpose.THINK) for x in (small, large)]
    assert np.all(drawn[1] >= drawn[0])


@pytest.mark.parametrize("ours", [c[0] for c in CONTINUOUS])
def test_a_longer_draw_begins_with_the_shorter(ours):
    short = lengths.draw(ours, 1_000, 1, 2, Purpose.PROMPT)
    assert np.array_equal(lengths.draw(ours, 3_001, 1, 2, Purpose.PROMPT)[:1_000], short)


@pytest.mark.parametrize(
    "ours",
    [
        law("constant", value=-1.0),
        law("exponential", mean=-1.0),
        law("geometric", mean=0.5),
        law("gamma", mean=1.0, cv=-0.1),
        law("uniform", low=-1.0, high=1.0),
        law("uniform", low=2.0, high=1.0),
        law("empirical", values=[]),
        law("empirical", values=[-1.0, 2.0]),
        law("lognormal", median=0.0, sigma=1.0),
        law("weibull", shape=2.0),
    ],
)
def test_parameters_of_no_law_are_refused(ours):
    with pytest.raises(ValueError):
        lengths.quantile(ours, U)
