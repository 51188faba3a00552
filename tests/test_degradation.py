"""Worse speech against refusals against nothing, at equal load: directions over seeds."""

import numpy as np
import pytest

from tests import small
from voicesim.metrics import summary, tables
from voicesim.scenario import load
from voicesim.simulation import simulate

RUNGS = """\
  nothing: {}
  rejection: {policies.admission: {kind: cap, streams: 24}}
  ladder:
    policies.degradation:
      hold: 3s
      ladder:
        - {name: larger chunks, when: {streams: {above: 14, below: 10}},
           chunk: {first: 8, steady: 50}}
        - {name: fewer codebooks, when: {streams: {above: 18, below: 12}}, codec_work: 0.6,
           cost: {mos: 0.2}}
        - {name: shorter replies, when: {streams: {above: 20, below: 14}}, speech: 0.5,
           cost: {mos: 0.2, words: 4}}
        - {name: text, when: {streams: {above: 24, below: 22}}, then: text, hold: 1s,
           cost: {mos: 3}}
"""
TEXT = small.SCENARIO.split("variants:")[0] + "variants:\n" + RUNGS
SEEDS = (3, 4, 5, 6)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    path = small.write(
        tmp_path_factory.mktemp("degradation"), TEXT.replace("rate: 6/s", "rate: 32/s")
    )
    found = {}
    for seed in SEEDS:
        for name, scenario in load(path, seed=seed).variants.items():
            run = simulate(scenario)
            streams = tables.streams(run)
            calls = tables.sessions(run, streams)
            found[name, seed] = run, streams, calls, summary.run_metrics(run, calls, streams)
    return found


def of(runs, variant, metric):
    return np.array([runs[variant, seed][3][metric] for seed in SEEDS])


def test_nothing_breaks_calls_rejection_refuses_and_the_ladder_does_less_of_both(runs):
    assert (of(runs, "nothing", "stalled_share") > 0.2).all()
    assert (of(runs, "nothing", "refused") == 0).all()
    assert (of(runs, "rejection", "refused") > 0.05 * of(runs, "rejection", "offered")).all()
    assert (of(runs, "ladder", "refused") == 0).all()
    for other in ("nothing", "rejection"):
        assert (of(runs, "ladder", "clean_share") > of(runs, other, "clean_share")).all()
    assert (of(runs, "ladder", "stalled_share") < of(runs, "nothing", "stalled_share") / 2).all()


def test_what_the_ladder_costs_is_said(runs):
    for variant in ("nothing", "rejection"):
        assert (of(runs, variant, "degraded_share") == 0).all()
    assert (of(runs, "ladder", "degraded_share") > 0.2).all()
    for seed in SEEDS:
        run, streams, _, m = runs["ladder", seed]
        counted = streams  # the warm-up's calls are left out of the metrics
        assert sum(m["rung_share"].values()) == pytest.approx(1.0)
        mos = 0.2 * (m["rung_share"]["fewer codebooks"] + m["rung_share"]["shorter replies"])
        assert m["quality_cost"]["mos"] == pytest.approx(mos + 3 * m["rung_share"]["text"])
        at_text = counted["outcome"] == "stood_in"
        assert set(counted["rung"][at_text]) <= {4}
        climbs = [row for row in run.log.rows if row[1].startswith("rung: ")]
        assert len(climbs) > 3


def test_every_call_is_accounted_for(runs):
    parts = ("completed", "refused", "abandoned", "failed", "stood_in", "live_at_end")
    for _, _, calls, m in runs.values():
        assert m["offered"] == sum(m[p] for p in parts)
        assert not calls["clean"][calls["outcome"] == "stood_in"].any()
    assert of(runs, "ladder", "stood_in").sum() > 0


def test_shorter_replies_are_shorter_in_the_tables(runs):
    run, streams, _, _ = runs["ladder", 3]
    first = run.tape.first[streams["session"].to_numpy()] + streams["utterance"].to_numpy()
    whole = run.tape.tokens[first] * 0.08
    short = (streams["rung"] == 3).to_numpy()
    assert short.sum() > 20
    assert (streams["audio_s"][short] <= whole[short] / 2 + 1e-9).mean() > 0.95
    assert streams["audio_s"][(streams["rung"] < 3).to_numpy()].to_numpy() == pytest.approx(
        whole[(streams["rung"] < 3).to_numpy()]
    )


def test_kernel_and_reference_climb_alike(runs, tmp_path):
    text = TEXT.replace("rate: 6/s", "rate: 32/s").replace("horizon: 60s", "horizon: 12s")
    scenario = load(small.write(tmp_path, text.replace("warmup: 5s", "warmup: 0s"))).variants[
        "ladder"
    ]
    logs = [simulate(scenario, engine=engine).log.rows for engine in ("kernel", "reference")]
    assert logs[0] == logs[1]
    assert len(logs[0]) >= 3
