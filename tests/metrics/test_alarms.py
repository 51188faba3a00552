"""Rules on a run: gauges watched the same by both engines, buckets true to the chunks."""

import numpy as np
import pytest

from tests import small
from voicesim.engine import layout as at
from voicesim.metrics import promql, tables
from voicesim.metrics.alarms import expression, metric, promtime, watch
from voicesim.metrics.observed import GAP_EDGES, WAIT_EDGES, Observed, observe
from voicesim.metrics.promql import Clock
from voicesim.metrics.summary import alarm_lead, alarms_fired
from voicesim.scenario import load
from voicesim.scenario.alarms import SIGNALS, Alarm
from voicesim.simulation import simulate


def rule(metric="waiting", **more):
    return Alarm(metric=metric, **({"above": 5} | more))


def seen(bins=40, engines=2, **columns):
    """A run in which nothing happens but for the columns given."""
    flat = {n: np.zeros((bins, engines), int) for n in ("running", "waiting", "kv")}
    waits = {n: np.zeros((bins, len(WAIT_EDGES)), int) for n in ("ttfa", "ttfp")}
    rest = {
        "preemptions": np.zeros(bins, int),
        "gaps": np.zeros((bins, len(GAP_EDGES)), int),
        "stalls": np.zeros(bins, int),
    }
    return Observed(1.0, 0.0, bins - 1.0, np.inf, 0, **(flat | waits | rest | columns))


@pytest.fixture(scope="module")
def busy(tmp_path_factory):
    folder = tmp_path_factory.mktemp("busy")
    surge = "{kind: surge, base: 5/s, peak: 50/s, at: 10s, rise: 20s, hold: 10s, fall: 5s}"
    sets = [f"workload.arrivals={surge}", "horizon=50s", "drain=20s", "warmup=0s",
            "cluster.pools.tts.engine.kv_blocks=900", "cluster.pools.tts.engine.max_num_seqs=256",
            "cluster.pools.tts.engine.max_num_batched_tokens=512"]  # fmt: skip
    scenario = load(small.write(folder), sets=sets).variants["admit_all"]
    return scenario, simulate(scenario, record_chunks=True)


def test_the_engines_agree_and_watching_changes_nothing(busy):
    scenario, kernel = busy
    reference = simulate(scenario, engine="reference", watch=True)
    for name in ("running", "waiting", "kv", "preemptions"):
        found = getattr(kernel.gauges, name)
        assert (found == getattr(reference.gauges, name)).all()
        assert found.max() > 0
    total = observe(kernel, tables.streams(kernel)).preemptions
    assert (np.diff(total) >= 0).all()
    assert total[-1] == kernel.record.counters["preemptions"] > 0
    unseen = simulate(scenario.model_copy(update={"alarms": []}))
    assert unseen.gauges is None
    assert (unseen.record.utterance_f == kernel.record.utterance_f).all()
    assert (unseen.record.series == kernel.record.series).all()


def test_gauges_are_the_series_of_the_run(busy):
    """The series is sampled just before the gauges: equal but where something happens then."""
    _, run = busy
    assert (run.gauges.running.sum(axis=1) == run.record.series[:, at.B_RUNNING]).mean() > 0.95
    assert 0 < observe(run, tables.streams(run)).kv.max() <= 1


def test_buckets_hold_the_exact_p99(busy):
    """histogram_quantile lands in the bucket in which the exact p99 of the same chunks lies."""
    _, run = busy
    chunks = tables.chunks(run)
    streams = chunks.groupby(["session", "utterance"])
    ratio = streams["arrived_s"].diff() / streams["audio_s"].shift()
    gap = ratio[ratio.notna()].to_numpy()
    when = chunks["arrived_s"][ratio.notna()].to_numpy()
    times = np.arange(15.5, 50.0, 1.0)
    got = metric(
        observe(run, tables.streams(run)),
        rule("chunk_gap_p99", over=10, above="1x_chunk"),
        Clock(1.0),
        times,
    )
    for t, value in zip(times, got, strict=True):
        inside = gap[(when >= t - 9.5) & (when < t - 0.5)]  # between the first and last scrape
        exact = np.quantile(inside, 0.99, method="inverted_cdf")
        bucket = np.searchsorted(GAP_EDGES, exact)
        assert GAP_EDGES[bucket - 1] <= value <= GAP_EDGES[bucket]
        assert abs(value / exact - 1) < 0.26
        assert (value > 1) == (exact > 1)  # an edge: there the rule is exact
    assert got.max() > 1 > got.min()


def test_edges_are_the_simulators_own():
    assert np.isin(GAP_EDGES[:-1], at.quantile_edges(at.COARSE_PER_OCTAVE)).all()
    assert (np.diff(GAP_EDGES) > 0).all()
    assert 1.0 in GAP_EDGES


def test_time_to_first_sound_is_counted_when_it_is_heard(busy):
    _, run = busy
    streams = tables.streams(run)
    wait = (streams["started_s"] - streams["requested_s"]).to_numpy()
    found = observe(run, tables.streams(run))
    for second in (10, 30):
        heard = wait[streams["started_s"] < second]
        assert found.ttfa[second, -1] == len(heard)
        assert found.ttfa[second, 7] == (heard <= WAIT_EDGES[7]).sum()
    assert (found.ttfp >= found.ttfa).all()  # the server's part of the same wait


def test_packed_and_unpacked(busy):
    found = observe(busy[1], tables.streams(busy[1]))
    again = Observed.unpacked(found.packed())
    for name, value in vars(found).items():
        assert np.array_equal(getattr(again, name), value), name
    assert isinstance(again.first_stall, float)


def test_a_gauge_must_be_beyond_at_every_sample_of_the_window():
    waiting = np.zeros((40, 2), int)
    waiting[10:20, 1] = 6
    waiting[15, 1] = 5
    found = watch(seen(waiting=waiting), rule(over=3), Clock(1.0))
    # samples 10, 11, 12 first fill (9.5, 12.5]; 15 is in the windows that end at 15.5 to 17.5
    assert found.spells(0.0).tolist() == [[12.5, 15.5], [18.5, 20.5]]
    now = watch(seen(waiting=waiting), rule(), Clock(1.0))
    assert now.spells(0.0).tolist() == [[10.5, 15.5], [16.5, 20.5]]
    held = watch(seen(waiting=waiting), rule(**{"for": 3}), Clock(1.0))
    assert held.spells(0.0).tolist() == [[13.5, 15.5], [19.5, 20.5]]
    slow = watch(seen(waiting=waiting), rule(), Clock(1.0, 5, 5))
    assert slow.spells(0.0).tolist() == [[12.5, 17.5]]  # it sees bins 10 and 15, 2.5 s later


def test_one_engine_is_enough_and_below_is_the_mirror():
    running = np.full((40, 2), 3)
    running[20:, 0] = 9
    found = seen(running=running)
    assert watch(found, rule("running"), Clock(1.0)).spells(0.0).tolist() == [[20.5, np.inf]]
    under = rule("running", above=None, below=4)
    assert watch(found, under, Clock(1.0)).spells(0.0).tolist() == [[1.5, np.inf]]
    both = rule("running", above=None, below=3.5, over=5)
    assert both.label == "running_over_5s_below_3.5"
    assert watch(found, both, Clock(1.0)).fires[-1]


def test_an_alarm_from_before_the_warm_up_counts_from_its_end():
    waiting = np.full((40, 2), 9)
    assert watch(seen(waiting=waiting), rule(), Clock(1.0)).spells(7.0)[0, 0] == 7.5


def test_preemptions_a_second():
    total = np.minimum(np.arange(40) * 2, 40)
    found = metric(seen(preemptions=total), rule("preemptions", over=10, above=1), Clock(1.0),
                   np.array([15.5, 39.5]))  # fmt: skip
    assert found == pytest.approx([2.0, 0.0])


def test_the_lead_of_a_planted_gap(busy):
    """Chunks of 1.5 x their predecessor's audio arrive in the bin from 20 to 21 s; the scrape at
    21 s sees them, the evaluation at 21.5 s fires."""
    scenario, run = busy
    run.record.gaps[:] = 0
    bucket = np.searchsorted(at.quantile_edges(at.COARSE_PER_OCTAVE), 1.4)
    run.record.gaps[20, bucket] = 5
    rules = [rule("chunk_gap_p99", over=10, above=f"{x}x_chunk") for x in (1.0, 2.0)]
    run.scenario = scenario.model_copy(update={"alarms": rules})
    fired = alarms_fired(run, tables.streams(run))
    assert list(fired.values()) == [21.5, None]
    run.record.first_stall = 30.0
    assert alarm_lead(run, fired) == 8.5


def test_expressions():
    """The PromQL of every kind of rule."""
    gap = rule("chunk_gap_p99", over=90, above="0.9x_chunk")
    assert expression(gap) == (
        "histogram_quantile(0.99, sum by (le) (rate(voicesim:chunk_gap_ratio_bucket[1m30s]))) > 0.9"
    )
    assert expression(rule()) == "max(vllm:num_requests_waiting) > 5.0"
    assert expression(rule("kv_cache", above=None, below=0.5, over=0.5)) == (
        "min(max_over_time(vllm:kv_cache_usage_perc[500ms])) < 0.5"
    )
    assert expression(rule("preemptions", over=60, above="6/min")) == (
        "sum(rate(vllm:num_preemptions_total[1m])) > 0.1"
    )
    assert promtime(0) == "0s"
    assert promtime(3723.5) == "1h2m3s500ms"


def test_every_signal_is_a_metric():
    names = Alarm.model_json_schema()["properties"]["metric"]["enum"]
    assert list(SIGNALS) == names
    assert promql.LOOKBACK_MS == 300_000
