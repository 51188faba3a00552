"""The advice on the warm-up, on start-ups with a known shape."""

from types import SimpleNamespace

import numpy as np
import pytest

from voicesim.metrics import warmup


def scenario(warm, kind="poisson", horizon=4000.0):
    arrivals = SimpleNamespace(kind=kind)
    return SimpleNamespace(
        workload=SimpleNamespace(arrivals=arrivals), horizon=horizon, warmup=warm
    )


def runs(scale, n=10, points=400, seed=1):
    """Occupancy of M/G/inf from empty with exponential service: 50 (1 - e^-t/scale), Poisson."""
    t = np.arange(points) * 10.0
    rng = np.random.default_rng(seed)
    return [rng.poisson(50 * (1 - np.exp(-t / scale))).astype(float) for _ in range(n)]


def test_a_short_warm_up_is_told_and_a_long_one_is_not():
    """After 5 x scale the mean lacks 0.7 % of its level; MSER-5 stops near there."""
    said = warmup.advice(scenario(20.0), runs(100.0))
    assert said is not None
    cut = float(said.split("first ")[1].split(" s")[0])
    assert 200 <= cut <= 800
    assert warmup.advice(scenario(cut), runs(100.0)) is None


def test_streams_that_pile_up_never_settle():
    growing = [np.arange(400.0) + run for run in runs(1.0)]
    assert "do not settle" in (warmup.advice(scenario(100.0), growing) or "")


@pytest.mark.parametrize("kind", ["surge", "diurnal", "burst", "trace"])
def test_a_run_with_an_end_of_its_own_has_no_start_up(kind):
    assert warmup.advice(scenario(0.0, kind), runs(100.0)) is None


def test_thinned_keeps_means_and_drops_the_drain():
    live = np.arange(1200.0)
    found = warmup.thinned(live, 1.0, 1000.0)
    assert len(found) == 333  # stretches of 3 s; the last second fills none
    assert found[:2] == [1.0, 4.0]


def test_stretches_of_independent_values_are_a_plain_interval():
    """20 batches of 50 values of variance 1: the half-width is near t(19) / sqrt(1000) = 0.0662."""
    rng = np.random.default_rng(2)
    halves = [warmup.stretches(rng.standard_normal(1000))[1] for _ in range(200)]
    assert np.mean(halves) == pytest.approx(2.093 / np.sqrt(1000), rel=0.03)
    assert warmup.stretches(np.ones(100)) == (1.0, 0.0)
    assert warmup.stretches(np.ones(19)) is None
