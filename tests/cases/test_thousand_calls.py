"""scenarios/thousand_calls.yaml: few of a thousand calls need a card at any moment.

Must show: at any moment about a quarter of the callers speak and a fifth are being answered; a few
cards serve them and a few less do not.
"""

from pathlib import Path

import pytest

from voicesim.scenario import load
from voicesim.session import record as at
from voicesim.session.play import simulate_dialogue

FILE = Path(__file__).resolve().parents[2] / "scenarios" / "thousand_calls.yaml"
BUNDLE = 6.1 + 2.5 + 5.3  # GB: https://github.com/kyutai-labs/unmute
CARD = 0.8 * 24


@pytest.fixture(scope="module")
def runs():
    """A short piece of it: calls come faster, so that a thousand are live before 100 s."""
    short = ("horizon=100s", "warmup=60s", "drain=0s", "workload.arrivals.rate=15/s")
    variants = load(FILE, short).variants
    return {name: simulate_dialogue(variants[name]) for name in ("cards_15", "cards_13")}


def test_a_bundle_for_each_call_takes_a_card_for_each_call():
    assert CARD // BUNDLE == 1


def test_a_quarter_of_the_callers_speaks_and_a_fifth_is_being_answered(runs):
    """So seven parts in ten of the memory of a thousand bundles would wait for their turn."""
    series = runs["cards_15"].record.series[70:100]
    live = series[:, at.D_LIVE].mean()
    assert 900 < live < 1200
    assert series[:, at.D_SPEAKING].mean() / live == pytest.approx(0.25, abs=0.03)
    assert series[:, at.D_ANSWERING].mean() / live == pytest.approx(0.21, abs=0.05)


def test_a_few_cards_serve_them_and_a_few_less_do_not(runs):
    stalled = {n: (run.record.answer_i[:, at.A_AUDIBLE] > 0).mean() for n, run in runs.items()}
    assert stalled["cards_15"] < 0.01 and stalled["cards_13"] > 0.1


def test_the_cards_are_those_that_the_names_say():
    for name, scenario in load(FILE).variants.items():
        assert sum(pool.cards for pool in scenario.cluster.pools.values()) == int(name[6:])
