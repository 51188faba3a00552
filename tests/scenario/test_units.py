"""Quantities become the number a reader expects, or are refused."""

import math

import numpy as np
import pytest
from pydantic_core import PydanticCustomError
from scipy import stats

from voicesim.scenario import units
from voicesim.scenario.units import Distribution, constant


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (units.duration, "250ms", 0.25),
        (units.duration, "4.3s", 4.3),
        (units.duration, "40min", 2400),
        (units.duration, "1h", 3600),
        (units.duration, "1h 30min", 5400),
        (units.duration, "15us", 15e-6),
        (units.duration, 3, 3),
        (units.duration, "1e3", 1000),
        (units.rate, "2.5/s", 2.5),
        (units.rate, "45/min", 0.75),
        (units.rate, "2/h", 2 / 3600),
        (units.rate, 7, 7),
        (units.size, "80GB", 80e9),
        (units.size, "10GiB", 10 * 2**30),
        (units.size, 512, 512),
        (units.money, "2.65/h", 2.65),
        (units.money, 3, 3),
    ],
)
def test_reads(read, text, value):
    assert read(text) == pytest.approx(value, rel=1e-15)


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (units.duration, "-3s"),
        (units.duration, -1),
        (units.duration, "4 secs"),
        (units.duration, "4m"),
        (units.duration, "12:30"),
        (units.duration, True),
        (units.duration, None),
        (units.duration, float("nan")),
        (units.duration, float("inf")),
        (units.duration, 10**400),
        (units.duration, "1e9s"),
        (units.duration, []),
        (units.rate, "2.5"[:0]),
        (units.rate, "-2/s"),
        (units.rate, "2/day"),
        (units.size, "80 gigs"),
        (units.size, 0),
        (units.money, "2/s"),
        (units.whole(1), 0),
        (units.whole(1), 1.5),
        (units.whole(1), True),
    ],
)
def test_refuses(read, text):
    with pytest.raises(PydanticCustomError):
        read(text)


@pytest.mark.parametrize(
    ("text", "seconds"), [("5s", 5), ("1h30min", 5400), ("0", 0), (" 0.0 ", 0)]
)
def test_an_option_states_its_unit(text, seconds):
    assert units.stated_duration(text) == seconds


@pytest.mark.parametrize("text", ["5", "0.5", "-1", "1e3", " 5 "])
def test_an_option_without_a_unit_is_refused(text):
    with pytest.raises(ValueError, match=f"{text.strip()} needs a unit: ms, s, min or h"):
        units.stated_duration(text)
    with pytest.raises(ValueError, match="a duration such as"):
        units.stated_duration("soon")


@pytest.mark.parametrize(
    ("text", "seconds"), [(0.5, 0.5), ("0.5", 0.5), (5, 5.0), ("500ms", 0.5), ("500s", 500.0)]
)
def test_a_brief_time(text, seconds):
    assert units.brief(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", [500, "500", 20.5, "5.1", 6])
def test_a_brief_time_of_many_bare_seconds_is_a_slip(text):
    """Nobody waits 500 s for the end of a turn; what is meant is said with a unit."""
    with pytest.raises(PydanticCustomError) as problem:
        units.brief(text)
    said = f"{float(text):g}"
    assert f"write {said}ms, or {said}s if seconds are meant" in problem.value.message()


def test_lognormal_by_mean_and_p99_has_them():
    law = Distribution("lognormal", {"mean": 4.3, "p99": 15.0})
    mu, sigma = law.log_scale()
    shape = stats.lognorm(sigma, scale=math.exp(mu))
    assert shape.mean() == pytest.approx(4.3)
    assert shape.ppf(0.99) == pytest.approx(15.0)


@pytest.mark.parametrize(
    ("law", "mean"),
    [
        (constant(3), 3),
        (Distribution("exponential", {"mean": 2.0}), 2),
        (Distribution("lognormal", {"median": 2.0, "sigma": 0.5}), 2 * math.exp(0.125)),
        (Distribution("lognormal", {"mean": 2.0, "sigma": 0.5}), 2),
        (Distribution("geometric", {"mean": 3.0}), 3),
        (Distribution("gamma", {"mean": 3.0, "cv": 2.0}), 3),
        (Distribution("uniform", {"low": 1.0, "high": 4.0}), 2.5),
        (Distribution("empirical", {"values": [1.0, 2.0, 6.0]}), 3),
    ],
)
def test_means(law, mean):
    assert law.mean() == pytest.approx(mean)
    if law.kind == "lognormal":
        mu, sigma = law.log_scale()
        assert np.exp(mu + sigma**2 / 2) == pytest.approx(mean)
