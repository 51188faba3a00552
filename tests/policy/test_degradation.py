"""The rule that climbs the ladder, worked by hand."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from voicesim.policy.degradation import Ladder, Trigger, prompt_left, spoken

TWO = [[Trigger("streams", 40, 30)], [Trigger("streams", 50, 45), Trigger("lag", 2, 1)]]


def climbed(values, hold=(10, 10)):
    ladder = Ladder(TWO, hold)
    return [ladder.look(t, {"streams": v}) for t, v in values]


def test_one_rung_at_a_time_and_only_from_the_threshold_on():
    assert climbed([(0, 39), (1, 40), (2, 49), (3, 50), (4, 90)]) == [0, 1, 1, 2, 2]
    assert climbed([(0, 90), (1, 90), (2, 90)]) == [1, 2, 2]


def test_down_after_ten_calm_seconds_in_a_row():
    """Calm from 1 s on, disturbed at 9 s by 31 (between the thresholds: it stays), calm again from
    10 s: down at 20 s."""
    looks = [(0, 40), (1, 30), (9, 31), (10, 30), (19.9, 30), (20, 30)]
    assert climbed(looks) == [1, 1, 1, 1, 1, 0]


def test_each_rung_has_its_own_hold():
    looks = [(0, 50), (1, 50), (2, 0), (4, 0), (5, 0), (14, 0), (15, 0)]
    assert climbed(looks, hold=(10, 2)) == [1, 2, 2, 1, 1, 1, 0]


def test_all_signals_must_be_calm_and_one_is_enough_to_climb():
    ladder = Ladder(TWO, (0, 0))
    assert ladder.look(0, {"streams": 40}) == 1
    assert ladder.look(1, {"streams": 40, "lag": 2}) == 2
    assert ladder.look(2, {"streams": 40, "lag": 1.5}) == 2
    assert ladder.look(3, {"streams": 45, "lag": 1}) == 1


def test_what_is_left_of_reply_and_prompt():
    assert [spoken(10, s) for s in (1.0, 0.69, 0.01)] == [10, 6, 1]
    assert [prompt_left(100, n, 40) for n in (0, 30, 70)] == [100, 70, 41]


@given(st.lists(st.floats(0, 100), max_size=60))
def test_never_two_rungs_in_one_look(values):
    rungs = [0, *climbed(list(enumerate(values)), hold=(3, 3))]
    assert all(abs(a - b) <= 1 for a, b in pairwise(rungs))
    assert set(rungs) <= {0, 1, 2}


def test_down_at_the_first_look_after_the_hold_and_a_signal_that_is_missing_is_calm():
    """Calm from 0 s on and looked at every 4 s: down at 12 s, not at 10."""
    ladder = Ladder([[Trigger("lag", 2, 0.5)]], (10,))
    assert ladder.look(0, {"lag": 3}) == 1
    assert [ladder.look(t, {}) for t in (1, 5, 9, 13, 17)] == [1, 1, 1, 0, 0]
