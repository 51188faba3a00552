"""Leads, misses and false alarms on series made by hand, and their intervals."""

import math

import numpy as np
import pytest

from voicesim.experiment import backtest as bt
from voicesim.experiment.method import bootstrap_ratio, poisson_interval, wilson

INF = math.inf


def tally(spells, stalls, horizon=60.0, since=0.0, until=3600.0):
    return bt.tally(np.array(spells, float).reshape(-1, 2), np.array(stalls, float), horizon,
                    since, until)  # fmt: skip


@pytest.mark.parametrize(
    ("spells", "outcome", "lead"),
    [
        ([[84, 200]], bt.WARNED, 16),
        ([[84, 90]], bt.WARNED, 16),  # it had gone off again, but it was there
        ([[50, 60], [90, 95]], bt.WARNED, 50),  # the first within the horizon
        ([[40, 41]], bt.WARNED, 60),  # the horizon itself counts
        ([[100, 200]], bt.WARNED, 0),
        ([[39, 200]], bt.EARLY, -INF),
        ([[39, 99]], bt.MISSED, -INF),
        ([[112, 130]], bt.LATE, -12),
        ([[170, 180]], bt.LATE, -70),  # within the horizon of the last stall, at 120
        ([[181, 190]], bt.MISSED, -INF),
        ([], bt.MISSED, -INF),
    ],
)
def test_one_episode(spells, outcome, lead):
    found = tally(spells, [100, 110, 120])
    assert found.outcomes == (outcome,)
    assert found.leads == (lead,)


def test_episodes_are_apart_by_the_horizon():
    stalls = np.array([10, 20, 79, 139, 500.0])
    assert bt.episodes(stalls, 60.0).tolist() == [[10, 79], [139, 139], [500, 500]]
    assert bt.episodes(np.array([]), 60.0).shape == (0, 2)


def test_false_alarms_and_hours():
    """Raised at 100 (a stall 50 s later), 1000 (none), 2061 (one 61 s before), 3700 (after)."""
    spells = [[100, 110], [1000, 1400], [2061, 2070], [3700, 3710]]
    found = tally(spells, [150, 2000], since=120.0, until=3600.0)
    assert (found.raised, found.false) == (3, 2)
    assert found.outcomes == (bt.WARNED, bt.MISSED)
    assert found.hours == pytest.approx(3480 / 3600)
    assert tally([[5, 9]], []).false == 1


def test_episodes_after_the_end_are_not_counted_but_excuse_an_alarm():
    found = tally([[3590, 3700]], [3620])
    assert (found.outcomes, found.raised, found.false) == ((), 1, 0)


def test_two_rules_over_ten_runs():
    """The gap rule warns 10, 11, ... 19 s before; the gauge is 30 s late in 7 runs, silent in 3;
    it also has one false alarm in ten hours."""
    gap = bt.finding("v", "gap", [tally([[90 - r, 200]], [100]) for r in range(10)])
    assert gap.verdict == "warns"
    assert gap.lead == 14.5
    assert gap.lead_range == (11.0, 18.0)  # ranks 2 and 9 of 10
    assert gap.warned_range == pytest.approx((0.7225, 1.0), abs=1e-4)
    assert gap.unwarned == 0
    assert gap.missed_range == pytest.approx((0.0, 0.2775), abs=1e-4)
    assert gap.false_range == pytest.approx((0.0, 0.3689), abs=1e-4)

    late = [tally([[130, 200], [2000, 2001]] if r == 0 else [[130, 200]], [100]) for r in range(7)]
    gauge = bt.finding("v", "waiting", late + [tally([], [100])] * 3)
    assert gauge.verdict == "late, with false alarms"
    assert gauge.first == {bt.LATE: 7, bt.MISSED: 3}
    assert gauge.lead == -30
    assert (gauge.unwarned, gauge.false, gauge.hours) == (10, 1, 10)
    assert gauge.false_per_hour == 0.1
    low, high = gauge.false_range
    assert low < 0.1
    assert high == pytest.approx(0.5572, abs=1e-4)  # Garwood of 1 is 5.572
    assert sorted([gauge, gap], key=lambda f: f.rank) == [gap, gauge]


def test_half_without_an_alarm_has_no_lead():
    found = bt.finding("v", "r", [tally([[90, 99]], [100]), tally([], [100])])
    assert found.lead == -INF
    assert found.verdict == "warns at times"
    assert found.lead_range is None


def test_without_stalls():
    quiet = bt.finding("v", "r", [tally([], [])] * 3)
    assert (quiet.verdict, quiet.lead, quiet.stalled) == ("quiet", None, 0)
    loud = bt.finding("v", "r", [tally([[5, 6]], [])] * 3)
    assert loud.verdict == "false alarms only"
    early = bt.finding("v", "r", [tally([[5, 900]], [800])])
    assert early.verdict == "on too early, with false alarms"


def test_missed_episodes_draw_runs_again():
    """Runs of 4 episodes, all missed or none: twenty answers, but only five independent ones."""
    stalls = [100, 700, 1300, 1900]
    good = tally([[s - 10, s] for s in stalls], stalls)
    found = bt.finding("v", "r", [good, good, good, tally([], stalls), tally([], stalls)])
    low, high = found.missed_range
    assert found.unwarned == 8
    assert low == 0.0
    assert high == pytest.approx(0.8)


def test_intervals():
    """Wilson 8 of 10: .4902 to .9433 (Newcombe 1998 method 3); Garwood 3: .6187 to 8.7673."""
    assert wilson(8, 10) == pytest.approx((0.4902, 0.9433), abs=1e-4)
    assert wilson(0, 0) == (0.0, 1.0)
    assert poisson_interval(3) == pytest.approx((0.6187, 8.7673), abs=1e-4)
    assert bootstrap_ratio([1, 1, 1], [2, 2, 2]) is None
    low, high = bootstrap_ratio([0, 1] * 50, [1] * 100)
    assert low == pytest.approx(0.4, abs=0.03)
    assert high == pytest.approx(0.6, abs=0.03)
