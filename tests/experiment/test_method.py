"""The statistics against answers known from tables, from theory, or from another formula."""

import numpy as np
import pytest
from scipy import stats
from scipy.signal import lfilter

from voicesim.experiment import method


def test_t_interval_of_a_worked_example():
    """n = 4: mean +- 3.1824 s / 2 (t table, 3 degrees of freedom)."""
    found = method.t_interval([3, 4, 5, 8])
    x = np.array([3, 4, 5, 8.0])
    assert found.mean == x.mean()
    assert found.half == pytest.approx(3.182446 * x.std(ddof=1) / 2, rel=1e-6)
    assert (found.low, found.high) == (found.mean - found.half, found.mean + found.half)


def test_few_or_equal_values():
    assert method.t_interval([1.0]).half == np.inf
    assert method.t_interval([]).n == 0
    assert method.t_interval([0.1] * 7).half == 0.0  # 0.1 x 7 / 7 is not 0.1 in floating point
    assert method.t_p_value([0.1] * 7) == 0.0
    assert method.t_p_value([0.0] * 7) == 1.0
    assert method.t_p_value([3.0]) == 1.0


def test_paired_is_scipys_paired_test():
    rng = np.random.default_rng(1)
    a = rng.normal(size=12)
    b = a + rng.normal(0.2, 0.3, 12)
    reference = stats.ttest_rel(b, a)
    low, high = reference.confidence_interval(0.99)
    found = method.paired(a, b, 0.99)
    assert (found.low, found.high) == pytest.approx((low, high))
    assert method.t_p_value(b - a) == pytest.approx(reference.pvalue)
    assert method.correlation(a, b) == pytest.approx(np.corrcoef(a, b)[0, 1])
    saved = (a.var(ddof=1) + b.var(ddof=1)) / (b - a).var(ddof=1)
    assert method.variance_ratio(a, b) == pytest.approx(saved)


def test_correlation_of_what_does_not_vary_is_not_known():
    assert method.correlation([1, 1, 1], [1, 2, 3]) is None
    assert method.variance_ratio([1, 2, 3], [2, 3, 4]) is None


def test_holm_on_the_textbook_example():
    """.01 .04 .03 .005: x4 = .02 for the least, x3 = .03, x2 = .06, then .06 by monotony."""
    assert method.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert method.holm([]) == []
    assert method.holm([0.6, 0.7]) == [1.0, 1.0]


def test_quantile_ranks_are_those_of_the_binomial_law():
    assert method.quantile_ranks(2000, 0.99) == (1971, 1989)
    assert method.quantile_ranks(10_000, 0.99) == (9880, 9920)
    assert method.quantile_ranks(367, 0.99) is None
    assert method.quantile_ranks(368, 0.99) is not None
    assert method.quantile_ranks(3687, 0.999) is None
    assert method.quantile_ranks(3688, 0.999) is not None


def test_the_median_of_ten():
    """Ranks 2 and 9 cover the median of ten with 97.9 % (David and Nagaraja, table)."""
    assert method.quantile_interval(np.arange(1.0, 11.0)[::-1], 0.5) == (2.0, 9.0)


def test_mser5_finds_the_end_of_a_start_up():
    """A start 20 deviations too high for 300 observations: cut 300, or a batch or two later."""
    rng = np.random.default_rng(5)
    series = rng.normal(size=4000)
    series[:300] += 20.0
    found = method.mser5(series)
    assert 300 <= found.cut <= 350 and not found.at_edge
    assert abs(series[found.cut :].mean()) < 0.1


def test_mser5_cuts_nothing_of_a_steady_series_and_warns_of_a_trend():
    alternating = np.tile([1.0, -1.0], 500)
    assert method.mser5(alternating).cut == 0
    assert method.mser5(np.full(100, 3.0)) == method.Truncation(0, False)
    assert method.mser5(np.arange(1000.0)).at_edge


def test_mser5_is_the_definition():
    rng = np.random.default_rng(6)
    series = rng.exponential(size=503) + 5 * np.exp(-np.arange(503) / 30)
    means = series[:500].reshape(100, 5).mean(axis=1)
    marginal = [((m := means[d:]) - m.mean()).var() / len(m) for d in range(51)]
    assert method.mser5(series).cut == 5 * int(np.argmin(marginal))


def test_batch_means_are_the_interval_of_the_batches():
    x = np.arange(103.0)
    expected = method.t_interval(x[3:].reshape(20, 5).mean(axis=1))
    assert method.batch_means(x) == expected
    assert method.batch_means(x[:10]).half == np.inf


def test_batch_means_cover_the_mean_of_a_correlated_series():
    """AR(1) with 0.8: naive intervals cover about half, batches of 250 nearly 95 %."""
    rng = np.random.default_rng(7)
    naive = batches = 0
    for _ in range(400):
        x = lfilter([1.0], [1.0, -0.8], rng.normal(size=5200))
        naive += method.t_interval(x[200:]).covers(0)
        batches += method.batch_means(x[200:]).covers(0)
    assert naive / 400 < 0.65
    assert 0.92 <= batches / 400 <= 0.98


def test_a_control_variate_is_the_regression_line_at_the_known_mean():
    rng = np.random.default_rng(8)
    x = rng.normal(3.0, 1.0, 30)
    y = 2 * x + rng.normal(0, 0.5, 30)
    found = method.control_variate(y, x, 3.0)
    design = np.column_stack([np.ones(30), x - 3.0])
    beta, rest, *_ = np.linalg.lstsq(design, y, rcond=None)
    error = np.sqrt(rest[0] / 28 * np.linalg.inv(design.T @ design)[0, 0])
    assert found.interval.mean == pytest.approx(beta[0])
    assert found.slope == pytest.approx(beta[1])
    assert found.interval.half == pytest.approx(stats.t.ppf(0.975, 28) * error)
    assert found.ratio == pytest.approx(y.var(ddof=1) / (rest[0] / 28))


def test_a_control_that_knows_everything_leaves_no_error():
    x = np.arange(10.0)
    found = method.control_variate(3 * x + 1, x, 5.0)
    assert found.interval.mean == pytest.approx(16.0)
    assert found.interval.half == pytest.approx(0.0, abs=1e-12)
    assert method.control_variate(x, np.ones(10), 1.0).ratio == 1.0
