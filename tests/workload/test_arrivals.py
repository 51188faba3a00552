"""Rates and start times.

Statistical tests run on fixed seeds; each rejects a correct program once in 1,000 seeds.
"""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats
from workload_standins import POISSON, SURGE, arrivals

from voicesim.workload.arrivals import (
    Curve,
    draw_arrivals,
    expected_sessions,
    nominal,
    rate_at,
)

ALPHA = 1e-3
Z = stats.norm.isf(ALPHA / 2)
DAY = 86_400.0


def diurnal(**changes):
    fields = {"rate": 2.0, "profile": "servegen_m_small", "start_hour": 0.0, "surge": None}
    return arrivals("diurnal", **(fields | changes))


def surge_by_hand(t):
    """SURGE of the stand-ins, written out."""
    if t < 100 or t >= 290:
        return 4.0
    if t < 150:
        return 4.0 + 16.0 * (t - 100) / 50
    if t < 250:
        return 20.0
    return 20.0 - 16.0 * (t - 250) / 40


def test_rate_of_a_surge():
    t = np.array([0.0, 99.9, 100.0, 125.0, 150.0, 200.0, 250.0, 270.0, 290.0, 1e4])
    np.testing.assert_allclose(
        rate_at(arrivals("surge", **SURGE), t), [surge_by_hand(x) for x in t]
    )


def test_a_surge_without_rise_or_fall_jumps():
    s = arrivals("surge", **(SURGE | {"rise": 0.0, "fall": 0.0}))
    t = np.array([0.0, 99.999, 100.0, 199.999, 200.0])
    assert rate_at(s, t).tolist() == [4.0, 4.0, 20.0, 20.0, 4.0]
    assert expected_sessions(s, 300.0) == pytest.approx(4 * 200 + 20 * 100)


def test_a_surge_from_the_first_second():
    s = arrivals("surge", **(SURGE | {"at": 0.0, "rise": 0.0}))
    assert rate_at(s, np.array([0.0])).tolist() == [20.0]
    s.rise = 10.0
    assert rate_at(s, np.array([0.0, 5.0])).tolist() == [4.0, 12.0]


def test_servegen_profile():
    profile = rate_at(diurnal(rate=1.0), np.arange(24) * 3600.0)
    assert profile.mean() == pytest.approx(1.0, abs=1e-12)
    assert profile[3] == pytest.approx(0.68, rel=1e-3)
    assert profile.max() == profile[20] == pytest.approx(1.46, rel=1e-3)


def test_diurnal_rate_follows_the_clock():
    a = diurnal(start_hour=18.5)
    t = np.array([0.0, 1799.0, 1800.0, 5399.0, 5400.0, 5.5 * 3600, DAY])
    want = 2.0 * np.array([1.01, 1.01, 1.23, 1.23, 1.46, 0.84, 1.01])
    np.testing.assert_allclose(rate_at(a, t), want * 24 / 23.99, rtol=1e-12)
    hours = [float(h) for h in range(24)]
    np.testing.assert_allclose(
        rate_at(diurnal(profile=hours), np.arange(24) * 3600 + 1.0), 2.0 * np.arange(24)
    )
    assert expected_sessions(a, DAY) == pytest.approx(2.0 * DAY, rel=1e-9)
    assert expected_sessions(a, 1800.0 + 3600.0) == pytest.approx(
        2.0 * (1800 * 1.01 + 3600 * 1.23) * 24 / 23.99
    )


def test_diurnal_surge_multiplies():
    extra = arrivals("_", times=3.0, at=3000.0, rise=1200.0, hold=600.0, fall=0.0)
    a = diurnal(surge=extra)
    # 3,600 s is half-way up, as hour 0 (.84) gives way to hour 1 (.71).
    t = np.array([2999.0, 3600.0 - 1e-6, 3600.0, 4200.0, 4799.0, 4800.0])
    want = 2.0 * np.array([0.84, 0.84 * 2, 0.71 * 2, 0.71 * 3, 0.71 * 3, 0.71])
    np.testing.assert_allclose(rate_at(a, t), want * 24 / 23.99, rtol=1e-6)


@pytest.mark.parametrize(
    ("a", "horizon"),
    [
        (POISSON, 77.0),
        (arrivals("surge", **SURGE), 60.0),
        (arrivals("surge", **SURGE), 262.0),
        (arrivals("surge", **SURGE), 1000.0),
        (diurnal(start_hour=7.25), 20_000.0),
    ],
)
def test_rates_integrate_to_expected_counts(a, horizon):
    # Points of the quadrature are the kinks; the rate itself comes from rate_at.
    kinks = [x for x in np.concatenate((nominal(a, horizon).begin, [0])) if 0 < x < horizon]
    edges = [0.0, *sorted(set(kinks)), horizon]
    total = sum(
        integrate.quad(lambda t: float(rate_at(a, np.array([t]))[0]), lo, np.nextafter(hi, lo))[0]
        for lo, hi in itertools.pairwise(edges)
    )
    assert expected_sessions(a, horizon) == pytest.approx(total, rel=1e-9)
    counts = [len(draw_arrivals(a, horizon, 1, r)) for r in range(50)]
    assert abs(np.sum(counts) - 50 * total) < Z * math.sqrt(50 * total)


RATE = st.just(0.0) | st.floats(1e-6, 40.0)
PIECES = st.lists(
    st.tuples(st.floats(0.01, 50.0), RATE, RATE),
    min_size=1,
    max_size=8,
)


@given(PIECES, st.integers(0, 2**32))
@settings(max_examples=200)
def test_inverse_undoes_the_cumulative(pieces, seed):
    width, left, right = map(np.array, zip(*pieces, strict=True))
    curve = Curve(np.concatenate(([0.0], np.cumsum(width)[:-1])), left, (right - left) / width)
    end = float(np.sum(width))
    total = float(curve.cumulative(np.array([np.nextafter(end, 0.0)]))[0])
    assert total == pytest.approx(float(np.sum((left + right) / 2 * width)), abs=1e-6)
    mass = np.sort(np.random.default_rng(seed).random(200)) * total * (1 - 1e-9)
    t = curve.inverse_cumulative(mass)
    assert np.all(np.diff(t) >= 0)
    assert np.all((t >= 0) & (t <= end * (1 + 1e-12)))
    np.testing.assert_allclose(curve.cumulative(t), mass, rtol=1e-7, atol=1e-7 * max(1.0, total))


def test_no_call_starts_while_the_rate_is_zero():
    a = arrivals("surge", base=0.0, peak=30.0, at=50.0, rise=0.0, hold=20.0, fall=0.0)
    t = draw_arrivals(a, 500.0, 4, 0)
    assert len(t) > 400
    assert t.min() >= 50.0
    assert t.max() <= 70.0
    assert len(draw_arrivals(arrivals("poisson", rate=0.0), 500.0, 4, 0)) == 0


def test_two_slopes_cannot_be_multiplied():
    ramp = Curve.through([0.0, 1.0], [0.0, 1.0])
    with pytest.raises(ValueError, match="piecewise linear"):
        ramp * ramp


def test_poisson_gaps_are_exponential():
    t = draw_arrivals(POISSON, 5_000.0, 2, 0)
    assert stats.kstest(np.diff(t), stats.expon(scale=1 / 20).cdf).pvalue > ALPHA
    counts = np.bincount(t.astype(int), minlength=5_000)
    fano = counts.var(ddof=1) / counts.mean()
    # Dispersion test: (n - 1) fano ~ chi square with n - 1 degrees of freedom.
    low, high = stats.chi2(4_999).ppf([ALPHA / 2, 1 - ALPHA / 2]) / 4_999
    assert low < fano < high


def test_surge_arrivals_follow_its_rate():
    a = arrivals("surge", **SURGE)
    t = np.concatenate([draw_arrivals(a, 400.0, 9, r) for r in range(20)])
    edges = np.arange(0.0, 401.0, 10.0)
    mean = [20 * integrate.quad(surge_by_hand, x, x + 10.0)[0] for x in edges[:-1]]
    observed = np.histogram(t, edges)[0]
    chi2 = float(np.sum((observed - np.array(mean)) ** 2 / np.array(mean)))
    assert stats.chi2(len(mean)).sf(chi2) > ALPHA


@pytest.mark.parametrize(("rate", "window", "dispersion"), [(5, 10, 4.0), (30, 1, 1.3), (2, 5, 16)])
def test_counts_in_the_window_are_dispersed_as_asked(rate, window, dispersion):
    windows = 20_000
    a = arrivals("gamma", rate=rate, dispersion=dispersion, dispersion_window=window)
    t = draw_arrivals(a, float(windows * window), 11, 0)
    counts = np.bincount((t // window).astype(int), minlength=windows)
    m = rate * window
    law = stats.nbinom(m / (dispersion - 1), 1 / dispersion)
    assert law.mean() == pytest.approx(m)
    assert law.var() / law.mean() == pytest.approx(dispersion)
    # Variance of a sample variance: var^2 (excess kurtosis + 2) / n.
    half = Z * dispersion * math.sqrt((float(law.stats("k")) + 2) / windows)
    assert abs(counts.var(ddof=1) / m - dispersion) < half
    assert abs(counts.mean() - m) < Z * math.sqrt(m * dispersion / windows)
    cuts = np.unique(law.ppf(np.linspace(0.02, 0.98, 25)))
    observed = np.bincount(np.searchsorted(cuts, counts), minlength=len(cuts) + 1)
    expected = np.diff(np.concatenate(([0.0], law.cdf(cuts), [1.0]))) * windows
    assert stats.chisquare(observed, expected).pvalue > ALPHA


def test_dispersion_holds_while_the_rate_moves():
    fields = SURGE | {"dispersion": 3.0, "dispersion_window": 20.0}
    a = arrivals("surge", **fields)
    edges = np.arange(0.0, 401.0, 20.0)
    counts = np.array([np.histogram(draw_arrivals(a, 400.0, 3, r), edges)[0] for r in range(2_000)])
    mean = np.array([integrate.quad(surge_by_hand, x, x + 20.0)[0] for x in edges[:-1]])
    z = (counts.mean(axis=0) - mean) / np.sqrt(3.0 * mean / 2_000)
    assert np.max(np.abs(z)) < stats.norm.isf(ALPHA / 2 / 20)  # 20 windows: Bonferroni
    kurtosis = stats.nbinom(mean / 2.0, 1 / 3.0).stats("k")
    z = (counts.var(axis=0, ddof=1) / mean - 3.0) / (3.0 * np.sqrt((kurtosis + 2) / 2_000))
    assert np.max(np.abs(z)) < stats.norm.isf(ALPHA / 2 / 20)


def test_dispersion_of_one_is_poisson_to_the_bit():
    plain = draw_arrivals(arrivals("poisson", rate=7.0), 300.0, 5, 1)
    one = arrivals("gamma", rate=7.0, dispersion=1.0, dispersion_window=10.0)
    assert np.array_equal(draw_arrivals(one, 300.0, 5, 1), plain)


def test_dispersion_that_cannot_be_is_refused():
    with pytest.raises(ValueError, match="below 1"):
        draw_arrivals(arrivals("gamma", rate=1.0, dispersion=0.5, dispersion_window=1.0), 9.0, 0, 0)
    with pytest.raises(ValueError, match="dispersion_window"):
        draw_arrivals(
            arrivals("gamma", rate=1.0, dispersion=2.0, dispersion_window=None), 9.0, 0, 0
        )


def test_a_higher_rate_moves_every_call_earlier():
    low = draw_arrivals(arrivals("surge", **SURGE), 400.0, 6, 0)
    high = draw_arrivals(arrivals("surge", **(SURGE | {"base": 5.0, "peak": 22.0})), 400.0, 6, 0)
    assert len(high) > len(low)
    assert np.all(high[: len(low)] < low)
    quick = draw_arrivals(arrivals("poisson", rate=40.0), 200.0, 6, 0)
    slow = draw_arrivals(arrivals("poisson", rate=20.0), 400.0, 6, 0)
    np.testing.assert_allclose(quick, slow / 2, rtol=1e-12)


@pytest.mark.parametrize(
    "a",
    [
        POISSON,
        arrivals("constant", rate=3.0),
        arrivals("surge", **SURGE, dispersion=2.5, dispersion_window=30.0),
        diurnal(dispersion=2.0, dispersion_window=45.0),
    ],
)
def test_a_longer_horizon_begins_with_the_shorter(a):
    short, long = (draw_arrivals(a, h, 8, 2) for h in (170.0, 2_000.0))
    assert len(short) > 100
    assert np.array_equal(long[long < 170.0], short)


def test_constant_arrivals_are_exact():
    a = arrivals("constant", rate=10.0)
    assert draw_arrivals(a, 1.0, 1, 0).tolist() == [k / 10 for k in range(10)]
    assert draw_arrivals(a, 1.05, 1, 0).tolist() == [k / 10 for k in range(11)]
    assert np.array_equal(draw_arrivals(a, 50.0, 1, 0), draw_arrivals(a, 50.0, 2, 9))
    assert expected_sessions(a, 1.05) == 11
    assert rate_at(a, np.array([0.0, 9.0])).tolist() == [10.0, 10.0]


def test_burst():
    at_once = arrivals("burst", size=500, at=3.0, spread=0.0)
    assert draw_arrivals(at_once, 10.0, 1, 0).tolist() == [3.0] * 500
    assert len(draw_arrivals(at_once, 3.0, 1, 0)) == 0
    assert expected_sessions(at_once, 10.0) == 500
    assert expected_sessions(at_once, 3.0) == 0
    spread = arrivals("burst", size=5_000, at=3.0, spread=4.0)
    t = draw_arrivals(spread, 10.0, 1, 0)
    assert len(t) == 5_000
    assert np.all(np.diff(t) >= 0)
    assert stats.kstest(t, stats.uniform(3.0, 4.0).cdf).pvalue > ALPHA
    assert expected_sessions(spread, 4.0) == 1_250
    assert expected_sessions(spread, 1.0) == 0
    cut = len(draw_arrivals(spread, 4.0, 1, 0))
    assert abs(cut - 1_250) < Z * math.sqrt(5_000 * 0.25 * 0.75)


def test_closed():
    a = arrivals("closed", callers=4, stagger=2.0)
    assert draw_arrivals(a, 60.0, 1, 0).tolist() == [0.0, 0.5, 1.0, 1.5]
    assert draw_arrivals(arrivals("closed", callers=3, stagger=0.0), 60.0, 1, 0).tolist() == [0] * 3
    assert math.isnan(expected_sessions(a, 60.0))
    with pytest.raises(ValueError, match="after the end"):
        draw_arrivals(a, 1.5, 1, 0)


def test_kinds_without_a_rate():
    t = np.array([0.0, 1.0])
    for a in (arrivals("burst"), arrivals("closed"), arrivals("trace")):
        assert np.all(np.isnan(rate_at(a, t)))


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="weekly"):
        rate_at(diurnal(profile="weekly"), np.array([0.0]))
    with pytest.raises(ValueError, match="24"):
        rate_at(diurnal(profile=[1.0] * 23), np.array([0.0]))
    with pytest.raises(ValueError, match="hawkes"):
        rate_at(arrivals("hawkes"), np.array([0.0]))


def test_trace(tmp_path):
    file = tmp_path / "calls.csv"
    file.write_text("t_s,other\n4.0,a\n0.5,b\n9.0,c\n")
    a = arrivals("trace", file=str(file), speed=2.0)
    assert draw_arrivals(a, 4.0, 1, 0).tolist() == [0.25, 2.0]
    assert expected_sessions(a, 10.0) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("time\n1.0\n", "t_s"),
        ("t_s\n1.0\n-2.0\n", "calls.csv:3: t_s"),
        ("t_s,tokens\n1.0,5\n2.0,\n", "calls.csv:3: tokens"),
    ],
)
def test_a_broken_trace_is_refused(tmp_path, text, message):
    file = tmp_path / "calls.csv"
    file.write_text(text)
    with pytest.raises(ValueError, match=message):
        draw_arrivals(arrivals("trace", file=file, speed=1.0), 10.0, 1, 0)
