"""The ten studies show what they say, on shorter runs: one claim of the field each."""

from functools import cache
from pathlib import Path

import pytest

from voicesim.metrics.fleet import metrics_of, part_of
from voicesim.scenario import load
from voicesim.simulation import simulate

STUDIES = Path(__file__).parents[2] / "scenarios" / "studies"


@cache
def runs(name, horizon="150s", seed=0):
    """Variant -> metrics of one shorter run."""
    file = load(STUDIES / f"{name}.yaml", sets=[f"horizon={horizon}", "replications=1"])
    return {
        variant: metrics_of([part_of(simulate(scenario, seed))], scenario)
        for variant, scenario in file.variants.items()
    }


def column(name, metric, **more):
    return [m[metric] for m in runs(name, **more).values()]


def test_refuse_or_spread_the_pain():
    """Nobody refused: nobody clean.  Some refused: nobody who is let in hears a break."""
    r = runs("refuse_or_spread")
    assert r["admit_all"]["clean_share"] < 0.05 and r["admit_all"]["refused"] == 0
    assert r["cap_64"]["clean_share"] > 0.3 and r["cap_64"]["stalled_share"] == 0
    assert r["slack"]["clean_share"] > r["cap_48"]["clean_share"]  # a fixed cap is a guess


def test_the_ceiling_lies_below_the_throughput():
    done, clean = column("ceiling", "completed"), column("ceiling", "clean_share")
    last = max(i for i, share in enumerate(clean) if share == 1.0)
    assert last < len(done) - 1 and clean[-1] < 0.01
    assert done[last] < 0.8 * max(done)
    pace = column("ceiling", "pace_p99")
    assert pace == sorted(pace, reverse=True) and pace[-1] < 1.0


def test_a_half_used_card_is_the_price_of_no_stalls():
    """Bursts break at 12 calls per second what evenly spread calls do not; at half of that hardly
    a call breaks; and the busy share falls as the load rises."""
    r = runs("half_used_gpu", horizon="5min")
    assert r["evenly_12"]["clean_share"] > 0.99 > 0.9 > r["bursts_12"]["clean_share"]
    assert r["bursts_6"]["clean_share"] > 0.97
    assert r["bursts_12"]["busy_share"]["decode"] < r["bursts_4"]["busy_share"]["decode"]


def test_one_long_prompt_stops_everybody():
    r = runs("long_prompt", horizon="10min")
    assert r["no_long_prompt"]["stalled_share"] == 0
    assert r["whole"]["stalled_share"] > 0.04
    seeds = [runs("long_prompt", horizon="10min", seed=seed) for seed in range(8)]
    silence = "stall_seconds_per_1000_audio_minutes"
    whole, pieces = ([s[v][silence] for s in seeds] for v in ("whole", "chunks_of_64"))
    assert all(b < a for a, b in zip(whole, pieces, strict=True))
    assert 0.35 < sum(pieces) / sum(whole) < 0.6  # about half; one run may be far from it
    assert r["chunks_of_64"]["stalled_share"] > 0  # the work does not go away


def test_chunk_size_against_first_audio():
    ttfa = runs("chunk_size")
    sizes = [8, 12, 25, 50]
    waits = [ttfa[f"chunk_{n}"]["ttfa_p50_s"] for n in sizes]
    assert waits == sorted(waits) and waits[-1] > 2 * waits[0]
    codec = [ttfa[f"chunk_{n}"]["busy_share"]["codec"] for n in [4, *sizes]]
    assert codec == sorted(codec, reverse=True) and codec[0] > 0.95


def test_first_chunk_size():
    """At the card's limit a larger first chunk starts later and breaks less."""
    r = runs("first_chunk")
    assert r["first_2"]["stalled_share"] > r["first_16"]["stalled_share"]
    assert r["first_16"]["ttfa_p50_s"] > r["first_4"]["ttfa_p50_s"]


def test_a_window_in_the_vocoder():
    r = runs("vocoder_window", horizon="5min")
    assert r["fifo"]["c100"] < 0.1 and r["window_2"]["c100"] > 0.95
    assert r["window_2"]["ttfa_p50_s"] > 2 * r["fifo"]["ttfa_p50_s"]
    shares = [r[f"window_{k}"]["c100"] for k in (2, 4, 8)]
    assert shares == sorted(shares, reverse=True)


def test_peaks_are_made_of_concurrency():
    """The same calls per second are clean or not by the length of the replies; half the calls of
    twice the length are the same crowd."""
    r = runs("concurrency_not_qps", horizon="5min")
    assert r["qps_8_reply_4s"]["clean_share"] > 0.99
    assert r["qps_8_reply_17s"]["clean_share"] < 0.2
    assert r["qps_4_reply_17s"]["clean_share"] > 0.99


def test_a_third_of_the_callers_talk():
    """4.3 s of speech for 9 s of thought: a third; so four cards of 64 streams, not ten."""
    r = runs("talkers")
    assert r["cards_4"]["clean_share"] > 0.99
    assert r["cards_1"]["clean_share"] < 0.9
    file = load(STUDIES / "talkers.yaml", sets=["horizon=150s"])
    run = simulate(file.variants["cards_4"], 0)
    live = run.record.live_area.sum() / run.record.now
    assert live < 0.33 * 600  # live streams: those in the engine, fewer than those heard


@pytest.mark.parametrize("variant", ["not_shared", "not_shared_twice_the_memory"])
def test_cache_hits_are_capacity(variant):
    r = runs("cache_hits")
    assert r["shared"]["clean_share"] > 0.99
    assert r[variant]["clean_share"] < 0.1
