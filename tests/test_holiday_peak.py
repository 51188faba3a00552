"""The shipped holiday peak shows what the field saw: the numbers its README promises.

One full run of the shipped scenario (40 minutes, 8 replicas) per variant, on the kernel.
"""

from pathlib import Path

import pytest

from voicesim.metrics import summary, tables
from voicesim.scenario import load
from voicesim.simulation import simulate

SCENARIO = Path(__file__).parents[1] / "scenarios" / "holiday_peak.yaml"


@pytest.fixture(scope="module")
def metrics():
    found = {}
    for name, scenario in load(SCENARIO).variants.items():
        run = simulate(scenario)
        streams = tables.streams(run)
        found[name] = summary.run_metrics(run, tables.sessions(run, streams), streams)
    return found


def test_admit_all_breaks_and_the_waiting_gauge_does_not_see_it(metrics):
    m = metrics["admit_all"]
    assert m["waiting_at_first_stall"] <= 1
    assert m["stalled_share"] > 0.10
    assert m["refused"] == 0


def test_the_chunk_gap_alarm_comes_before_the_first_stall(metrics):
    assert metrics["admit_all"]["alarm_lead_s"] > 0


@pytest.mark.parametrize("policy", ["cap", "slack"])
def test_refusing_some_keeps_more_calls_clean(metrics, policy):
    m = metrics[policy]
    assert m["stalled_share"] < 0.005
    assert m["refused"] > 0
    assert m["clean_share"] > metrics["admit_all"]["clean_share"]


def test_all_variants_see_the_same_callers(metrics):
    assert len({m["offered"] for m in metrics.values()}) == 1


def test_every_call_is_accounted_for(metrics):
    for m in metrics.values():
        parts = ("completed", "refused", "abandoned", "failed", "live_at_end")
        assert m["offered"] == sum(m[p] for p in parts)


def test_a_larger_first_chunk_starts_later(metrics):
    """First audio waits for eight frames in place of four (C3 of the field: TTFA rises)."""
    assert metrics["bigger_first_chunk"]["ttfa_p50_s"] > metrics["cap"]["ttfa_p50_s"]
