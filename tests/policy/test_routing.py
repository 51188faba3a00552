"""The routing rules one by one, told otherwise: kernel and reference share them, so that these
tests alone would notice a wrong one."""

import itertools

import numpy as np
import pytest

from voicesim.policy.routing import (
    bounded_hash,
    inverse_prob,
    least_streams,
    pack,
    pool_for,
    power_of_two,
    round_robin,
    still_takes,
)

# pools by preference; three are near (tier 0), one is far, and the list ends before the last
PREFS = [2, 0, 3, 1, -1]
TIERS = [0, 0, 0, 1, 9]
WEIGHTS = [1.0, 5.0, 2.0, 1.0, 7.0]


def pool(u, takes=(1, 1, 1, 1, 1), opened=(1, 1, 1, 1, 1), weights=WEIGHTS):
    return pool_for(
        np.array(PREFS), np.array(TIERS), np.array(weights), np.array(takes), np.array(opened), u
    )


@pytest.mark.parametrize(
    ("u", "chosen"),
    [(0.0, 2), (0.49, 2), (0.5, 0), (0.74, 0), (0.75, 3), (0.999999, 3), (1.0, 3)],
)
def test_a_caller_goes_to_the_nearest_pools_by_weight(u, chosen):
    """Weights 2, 1 and 1 of the near pools 2, 0 and 3: a half, a quarter and a quarter."""
    assert pool(u) == chosen


def test_a_pool_that_takes_nobody_has_no_share():
    assert [pool(u, takes=(1, 1, 0, 1, 1)) for u in (0.0, 0.49, 0.5, 0.99)] == [0, 0, 3, 3]
    assert [pool(u, opened=(0, 2, 3, 4, 5)) for u in (0.0, 0.66, 0.67, 0.99)] == [2, 2, 3, 3]
    light = [1.0, 5.0, 0.0, 1.0, 7.0]
    assert [pool(u, weights=light) for u in (0.0, 0.49, 0.5, 0.99)] == [0, 0, 3, 3]


def test_a_pool_without_weight_is_not_the_last_resort():
    assert pool(1.0, weights=[1.0, 5.0, 2.0, 0.0, 7.0]) == 0


def test_who_finds_no_near_pool_goes_far():
    assert pool(0.3, takes=(0, 1, 0, 0, 1)) == 1
    assert pool(0.3, opened=(0, 1, 0, 0, 1)) == 1


def test_if_no_pool_takes_callers_the_nearest_open_one_decides():
    nobody = (0, 0, 0, 0, 0)
    assert pool(0.9, takes=nobody) == 2
    assert pool(0.9, takes=nobody, opened=(1, 1, 0, 1, 1)) == 0
    assert pool(0.9, takes=nobody, opened=(0, 1, 0, 0, 1)) == 1
    assert pool(0.9, takes=nobody, weights=[1.0, 5.0, 0.0, 1.0, 7.0]) == 0
    assert pool(0.9, takes=nobody, opened=nobody) == -1
    assert pool(0.9, takes=nobody, opened=(0, 0, 0, 0, 1)) == -1  # it does not serve the caller


@pytest.mark.parametrize(
    ("takes", "live", "then"),
    [(1, 0, 1), (1, 8, 1), (1, 9, 0), (1, 12, 0), (0, 9, 0), (0, 8, 0), (0, 7, 1), (0, 0, 1)],
)
def test_a_pool_is_full_at_nine_of_ten_and_takes_again_at_seven(takes, live, then):
    assert still_takes(takes, live, 10, 0.9, 0.7) == then


def test_round_robin_begins_behind_the_last():
    open_ = np.array([1, 1, 0, 1])
    assert [round_robin(np.zeros(4), open_, turn) for turn in range(9)] == [
        0, 1, 3, 3, 0, 1, 3, 3, 0,
    ]  # fmt: skip


def test_a_call_keeps_its_replica_until_that_is_over_its_share():
    """Three open replicas; the mean of 6 live streams and the one to come is 7/3."""
    live, open_ = np.array([3, 9, 2, 1]), np.array([1, 0, 1, 1])
    at = (0.0, 0.26, 0.51, 0.76)  # replicas 0, 1 (closed), 2 and 3
    assert [bounded_hash(live, open_, u, 0.0) for u in at] == [2, 2, 2, 3]
    assert [bounded_hash(live, open_, u, 0.25) for u in at] == [2, 2, 2, 3]  # at most 2.9
    assert [bounded_hash(live, open_, u, 0.5) for u in at] == [0, 2, 2, 3]  # at most 3.5
    assert bounded_hash(np.array([2, 2, 9]), np.array([1, 1, 0]), 0.99, 0.0) == 0  # most is 2.5
    assert bounded_hash(np.array([4, 2]), np.array([1, 0]), 0.0, 0.0) == 0  # 4 of at most 5
    assert bounded_hash(live, np.zeros(4, int), 0.5, 1.0) == -1


def test_weights_that_fall_with_the_load():
    """1/1, 1/4 and 1/2 of the open replicas 0, 1 and 3: shares of 4/7, 1/7 and 2/7."""
    live, open_ = np.array([0, 3, 0, 1]), np.array([1, 1, 0, 1])
    u = (np.arange(7000) + 0.5) / 7000
    chosen = np.array([inverse_prob(live, open_, each) for each in u])
    assert np.bincount(chosen, minlength=4).tolist() == [4000, 1000, 0, 2000]
    assert (np.diff(chosen) >= 0).all()
    assert inverse_prob(live, open_, 1.0) == 3
    assert inverse_prob(live, np.zeros(4, int), 0.5) == -1


def test_pack_fills_what_is_fullest():
    live = np.array([3, 5, 5, 8, 7])
    assert pack(live, np.ones(5), 8) == 4
    assert pack(live, np.ones(5), 7) == 1  # the first of equals
    assert pack(live, np.array([1, 0, 0, 1, 0]), 8) == 0
    assert pack(live, np.array([0, 1, 1, 1, 1]), 5) == 1  # all full: the emptiest
    assert pack(live, np.zeros(5), 8) == -1


def test_two_choices_in_every_case():
    for n in (1, 2, 3):
        cases = itertools.product(
            itertools.product((0, 1), repeat=n), range(n), range(max(n - 1, 1))
        )
        for open_, first, step in cases:
            for live in itertools.permutations((4, 6, 4)[:n]):
                u1, u2 = (first + 0.5) / n, (step + 0.5) / max(n - 1, 1)
                second = (first + 1 + step) % n if n > 1 else first
                both = [g for g in (first, second) if open_[g]]
                expected = min(both, key=lambda g: live[g]) if both else -1
                if n > 1 and not both:
                    expected = next((g for g in range(n) if open_[g]), -1)
                got = power_of_two(np.array(live), np.array(open_), u1, u2)
                assert got == expected, (live, open_, first, second)


def test_round_robin_skips_the_closed():
    live, open_ = np.zeros(3, int), np.array([1, 0, 1])
    assert [round_robin(live, open_, turn) for turn in range(4)] == [0, 2, 2, 0]
    assert round_robin(live, np.zeros(3, int), 0) == -1


def test_least_streams_takes_the_first_of_equals():
    assert least_streams(np.array([2, 1, 1]), np.ones(3, int)) == 1
    assert least_streams(np.array([2, 1, 1]), np.array([1, 0, 1])) == 2
    assert least_streams(np.array([2, 1, 1]), np.zeros(3, int)) == -1


def test_power_of_two_compares_two_distinct_replicas():
    """u1 = 0.3 of 4 is replica 1; u2 = 0.5 of the 3 others is the second after it, replica 3."""
    live = np.array([0, 5, 0, 4])
    assert power_of_two(live, np.ones(4, int), 0.3, 0.5) == 3
    assert power_of_two(np.array([0, 4, 0, 4]), np.ones(4, int), 0.3, 0.5) == 1
    assert power_of_two(live, np.array([1, 1, 1, 0]), 0.3, 0.5) == 1
    assert power_of_two(live, np.array([1, 0, 1, 0]), 0.3, 0.5) == 2
    assert power_of_two(np.array([7]), np.array([1]), 0.9, 0.9) == 0
    pairs = {
        (int(u * 4), (int(u * 4) + 1 + int(v * 3)) % 4)
        for u in np.arange(0.1, 1, 0.25) for v in np.arange(0.1, 1, 0.33)
    }  # fmt: skip
    assert len(pairs) == 12  # every ordered pair, none with itself
    assert all(i != j for i, j in pairs)
