"""The autoscaler: its rule, what it does to a pool, and what is paid for."""

import dataclasses

import numpy as np
import pytest

from tests import small
from tests.engine.worlds import differences
from voicesim.cluster.log import Log
from voicesim.cluster.replicas import start_law
from voicesim.metrics.fleet import metrics_of, part_of
from voicesim.metrics.paid import counts, replica_seconds
from voicesim.policy.scaling import bounded, desired, planned, stabilised
from voicesim.scenario import ScenarioErrors, load
from voicesim.scenario.units import Distribution, constant
from voicesim.simulation import simulate

# --- the rule ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ordered", "ready", "value", "replicas"),
    [
        (2, 2, 100.0, 4),  # ceil(2 x 100 / 50)
        (2, 2, 51.0, 2),  # 2 % over: within the tolerance of 10 %
        (4, 2, 100.0, 4),  # two more are on their way and carry nothing yet
        (4, 4, 20.0, 2),
        (4, 4, 0.0, 0),
        (3, 3, 55.1, 4),  # 10.2 % over
    ],
)
def test_kubernetes_rule(ordered, ready, value, replicas):
    assert desired(ordered, ready, value, 50.0, 0.1) == replicas


def test_bounds_and_limits_of_growth():
    assert bounded(9, 1, 1, 20, None) == 5  # 4 more or twice as many
    assert bounded(30, 10, 1, 40, None) == 20
    assert bounded(30, 10, 1, 15, None) == 15
    assert bounded(30, 10, 1, 40, 2) == 12
    assert bounded(0, 3, 2, 20, None) == 2
    assert bounded(3, 2, 12, 20, 1) == 12  # a schedule is not slowed down


def test_it_shrinks_to_the_most_that_was_wanted_lately():
    history = [(0.0, 9), (15.0, 4), (30.0, 6), (45.0, 3)]
    assert stabilised(history, 45.0, 300.0) == 9
    assert stabilised(history, 45.0, 30.0) == 6
    assert stabilised(history, 45.0, 0.0) == 3


def test_a_schedule_holds_until_its_next_entry():
    schedule = [(60.0, 8), (120.0, 3)]
    assert [planned(schedule, t) for t in (0, 60, 119, 120, 999)] == [0, 8, 8, 3, 3]


def test_a_start_is_the_sum_of_its_stages_and_the_same_whoever_asks():
    law = Distribution("exponential", {"mean": 30.0})
    seconds = start_law([constant(45.0), constant(20.0), law], 7, 0)
    drawn = [seconds(n) for n in range(2000)]
    assert min(drawn) > 65.0
    assert np.mean(drawn) == pytest.approx(95.0, rel=0.03)
    assert [start_law([constant(45.0), constant(20.0), law], 7, 0)(n) for n in (3, 1)] == [
        drawn[3],
        drawn[1],
    ]
    assert start_law([], 7, 0)(0) == 0


# --- in a run ---------------------------------------------------------------------------------

SCALED = """\
policies:
  routing: {kind: least_calls}
  scaling:
    pools: {tts: {min: 1}}
    signal: {kind: sessions, target: 8}
    every: 5s
    cold_start: {node: 3s, warm_up: {exponential: {mean: 2s}}}
    down: {after: 10s, grace: 2s}
listener:
"""


def scaled(folder, *sets, variant="admit_all"):
    text = small.SCENARIO.replace("listener:\n", SCALED)
    text = text.replace("replicas: 2", "replicas: 6").replace("count: 2", "count: 6")
    text = text.replace(
        "{kind: poisson, rate: 6/s}",
        "{kind: surge, base: 2/s, peak: 9/s, at: 10s, rise: 10s, hold: 10s, fall: 5s}",
    )
    text = text.replace("h100-sxm", "h100-sxm, price: 3600/h")
    return load(small.write(folder, text), sets=list(sets)).variants[variant]


SIGNALS = {
    "sessions": 8, "streams": 4, "running": 4, "waiting": 1, "gap": 0.2, "kv": 0.005, "cpu": 0.05,
}  # fmt: skip


@pytest.mark.parametrize("kind", SIGNALS)
def test_kernel_and_reference_scale_alike(tmp_path, kind):
    given = [
        f"policies.scaling.signal.kind={kind}",
        f"policies.scaling.signal.target={SIGNALS[kind]}",
    ]
    scenario = scaled(tmp_path, *given, "policies.routing={kind: least_streams, pinned: true}")
    kernel, reference = simulate(scenario), simulate(scenario, engine="reference")
    assert differences(kernel.record, reference.record) == []
    assert kernel.log.rows == reference.log.rows
    if kind not in ("waiting", "cpu"):
        assert any(what == "ready" and t > 0 for t, what, *_ in kernel.log.rows)


def test_the_story_of_a_peak(tmp_path):
    run = simulate(scaled(tmp_path))
    rows = run.log.rows
    first = {}
    for t, what, *_ in rows:
        if t > 0:
            first.setdefault(what, t)
    assert first["wants"] < first["ordered"] + 1e-9 < first["ready"] < first["drains"]
    assert first["ready"] >= first["ordered"] + 3.0
    replicas = {g for _, what, _, g, _ in rows if what == "ready"}
    served = run.record.utterance_i[:, 7]
    assert set(served[served >= 0].tolist()) == replicas
    # nobody new on a replica from its drain on: all that comes is of calls that live there
    start, drained = next((t, g) for t, what, _, g, _ in rows if what == "drains")
    later = run.record.utterance_f[:, 1] > start
    there = (served == drained) & later
    back = next(
        (t for t, what, _, g, _ in rows if what == "ready" and g == drained and t > start), 1e9
    )
    u = np.flatnonzero(there & (run.record.utterance_f[:, 1] < back))
    session = np.searchsorted(run.tape.first, u, side="right") - 1
    assert (u > run.tape.first[session]).all()


def test_what_is_paid_for_is_counted_from_order_to_end(tmp_path):
    run = simulate(scaled(tmp_path))
    open_, paid = counts(run, np.arange(0.0, 60.0))
    assert open_[0] == paid[0] == 1
    assert (open_ <= paid).all() and paid.max() > 2
    t, change = zip(
        *(
            (t, {"ordered": 1, "gone": -1}[w])
            for t, w, *_ in run.log.rows
            if w in ("ordered", "gone")
        ),
        strict=True,
    )
    by_hand = sum(c * (60.0 - min(x, 60.0)) for x, c in zip(t, change, strict=True))
    assert replica_seconds(run, 0.0, 60.0)["tts"] == pytest.approx(by_hand)
    found = metrics_of([part_of(run)], run.scenario)
    assert found["gpu_cost"] == pytest.approx(by_hand)  # one a second and card
    assert found["replica_hours"] == pytest.approx(by_hand / 3600)
    everything = dataclasses.replace(run, log=Log())
    assert replica_seconds(everything, 0.0, 60.0)["tts"] == 360.0


def test_calls_are_cut_when_the_grace_is_over_and_counted(tmp_path):
    run = simulate(scaled(tmp_path, "policies.scaling.down.grace=0s"))
    cut = sum(n for _, what, _, _, n in run.log.rows if what == "calls cut")
    part = part_of(run)
    assert cut == (part.calls["outcome"] == "cut").sum() > 0
    assert metrics_of([part], run.scenario)["cut"] <= cut
    assert not part.calls["clean"][part.calls["outcome"] == "cut"].any()
    waits = simulate(scaled(tmp_path, "policies.scaling.down={after: 10s}"))
    assert not any(what == "calls cut" for _, what, *_ in waits.log.rows)


def test_a_schedule_and_spare_replicas_are_there_before_they_are_needed(tmp_path):
    run = simulate(scaled(tmp_path, "policies.scaling.schedule=[{at: 5s, replicas: 5}]"))
    assert counts(run, np.array([4.0, 6.0]))[1].tolist() == [1, 5]
    spare = simulate(scaled(tmp_path, "policies.scaling.spare=2"))
    assert counts(spare, np.array([6.0]))[1].tolist() == [3]


# --- what is refused --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("cold_start={node: 0s}", "takes no time to start"),
        ("pools={tts: {min: 7}}", "cluster.pools.tts.replicas is the maximum"),
        ("pools={tss: {min: 1}}", "did you mean 'tts'"),
        ("signal={kind: kv, target: 1.5}", "is a share, at most 1"),
        ("signal={kind: kv, target: 0.5, cores: 4}", "never used: only the signal cpu"),
        ("schedule=[{at: 9s, replicas: 2}, {at: 8s, replicas: 3}]", "must be later than 9s"),
        ("schedule=[{at: 9s, replicas: 9}]", "more than cluster.pools.NAME.replicas (6)"),
        ("schedule=[{at: 9min, replicas: 2}]", "never used: the horizon is 60s"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path, change, said):
    with pytest.raises(ScenarioErrors) as found:
        scaled(tmp_path, f"policies.scaling.{change}")
    assert said in str(found.value)


def test_calls_stay_where_the_router_decides_and_nowhere_else(tmp_path):
    with pytest.raises(ScenarioErrors, match="calls cannot stay"):
        scaled(tmp_path, "policies.admission={policy: a.b:C}")


def test_sessions_need_calls_that_stay(tmp_path):
    with pytest.raises(ScenarioErrors, match=r"needs policies\.routing\.pinned: true"):
        scaled(tmp_path, "policies.routing={kind: round_robin}")
    scaled(tmp_path, "policies.scaling.cold_start=none")  # a start in no time that is meant
