"""Prometheus semantics on series worked by hand (promql/functions.go, promql/quantile.go)."""

import numpy as np
import pytest

from voicesim.metrics import promql
from voicesim.metrics.promql import Clock

NAN = np.nan


def one(values):
    return np.array([values])


@pytest.mark.parametrize(
    ("times", "counts", "at", "window", "expected"),
    [
        # two of three samples in the window; 2.5 s to either end, less than 1.1 x 5 s: all of it
        ([1, 6, 11], [10, 20, 30], 13.5, 10, 2.0),
        # two scrapes failed: a mean interval of 12.5 s still reaches both ends (3 s and 2 s)
        ([1, 21, 26], [10, 30, 35], 28, 30, 1.0),
        # the last sample is 12 s old, more than 1.1 x 5 s: half an interval at that end
        ([10, 15, 20], [100, 110, 120], 32, 25, 20 * (10 + 3 + 2.5) / 10 / 25),
        # a young counter: it was 0 one second before its first sample, not 18
        ([10, 20], [1, 11], 22, 30, 10 * (10 + 1 + 2) / 10 / 30),
        ([10, 20], [5, 5], 22, 30, 0.0),
        ([10, 20], [5, 9], 22, 5, NAN),  # one sample
        ([10, 20], [5, 9], 90, 5, NAN),  # none
    ],
)
def test_rate(times, counts, at, window, expected):
    got = promql.rate(
        1000 * np.array(times), np.array(counts), np.array([1000 * at], int), 1000 * window
    )
    assert got == pytest.approx(one(expected), nan_ok=True)


@pytest.mark.parametrize(
    ("counts", "q", "expected"),
    [
        ([50, 90, 100, 100], 0.95, 3.0),  # rank 95, the fifth of ten in (2, 4]
        ([50, 90, 100, 100], 0.25, 0.5),  # half of the first bucket, which begins at 0
        ([50, 90, 100, 100], 0.9, 2.0),  # on an edge
        ([10, 20, 30, 100], 0.99, 4.0),  # beyond the last edge: the edge
        ([50, 89.9, 89.8, 100], 0.95, 4.0),  # made monotonic first
        ([0, 0, 0, 0], 0.5, NAN),
        ([NAN, NAN, NAN, NAN], 0.5, NAN),
    ],
)
def test_histogram_quantile(counts, q, expected):
    edges = np.array([1, 2, 4, np.inf])
    got = promql.histogram_quantile(q, edges, one(np.array(counts, float)))
    assert got == pytest.approx(one(expected), nan_ok=True)


def test_a_sample_counts_for_five_minutes():
    times, values = np.array([1000, 61_000]), np.array([3.0, 7.0])
    at = np.array([999, 1000, 60_999, 61_000, 360_999, 361_000])
    got = promql.instant(times, values, at)
    assert got == pytest.approx(np.array([NAN, 3, 3, 7, 7, NAN]), nan_ok=True)
    assert np.isnan(promql.instant(np.array([], int), np.array([]), at)).all()


def test_min_over_time_leaves_out_what_is_missing():
    times = np.array([5, 10, 25]) * 1000  # scrapes at 15 and 20 s failed
    values = np.array([[6, 1], [8, 2], [7, 9]])
    at = np.array([12, 18, 22, 27, 60]) * 1000
    got = promql.over_time(times, values, at, 10_000, np.min)
    expected = [[6, 1], [8, 2], [NAN, NAN], [7, 9], [NAN, NAN]]
    assert got == pytest.approx(np.array(expected), nan_ok=True)


@pytest.mark.parametrize(
    ("hold", "expected"),
    [
        (0, "011101111"),
        (5, "001100111"),
        (10, "000100011"),
        (7, "000100011"),  # due between two evaluations: at the next
        (60, "000000000"),
    ],
)
def test_pending_then_firing(hold, expected):
    """It must hold from the first evaluation at which it is true, and one failure begins anew."""
    true = [c == "1" for c in "011101111"]
    at = 2500 + 5000 * np.arange(9)
    got = promql.firing(at, np.array(true), 1000 * hold)
    assert "".join("01"[int(x)] for x in got) == expected


def test_no_data_ends_what_was_pending():
    """A gauge that is not scraped for more than its window: the condition fails there."""
    times = np.array([5, 10, 30, 35, 40]) * 1000
    at = np.array([7, 12, 17, 22, 27, 32, 37, 42]) * 1000
    value = promql.over_time(times, np.full(5, 9.0), at, 10_000, np.min)
    with np.errstate(invalid="ignore"):
        got = promql.firing(at, value > 5, 10_000)
    assert got.tolist() == [False, False, True, False, False, False, False, True]


@pytest.mark.parametrize(("scrape", "evaluate"), [(1, 1), (5, 5), (15, 10), (10, 5), (2, 3)])
def test_no_sample_at_the_edge_of_a_window(scrape, evaluate):
    """Whatever a window of whole bins: versions of Prometheus disagree about samples there."""
    clock = Clock(1.0, scrape, evaluate)
    half_bins = 2 * clock.evaluations(200.0)
    assert (half_bins % 2 == 1).all()
    assert clock.scrapes(50).tolist() == list(range(scrape, 50, scrape))
    assert abs(clock.phase_s - scrape / 2) <= 0.5
