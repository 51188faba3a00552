"""A shadow policy sees every request, writes down what it would do, and changes nothing."""

import dataclasses

import numpy as np
import pytest

from tests import small
from tests.engine.worlds import differences
from voicesim.metrics import fleet, summary, tables
from voicesim.metrics.shadow import otherwise
from voicesim.policy.admission import ADMIT, REFUSE
from voicesim.scenario import ScenarioErrors, load
from voicesim.simulation import simulate

SHADOWS = """\
  watched:
    policies.admission: {kind: cap, streams: 16}
    policies.shadow:
      same: {admission: {kind: cap, streams: 16}}
      half: {admission: {kind: cap, streams: 8}}
      none: {admission: {kind: admit_all}, routing: {kind: round_robin}}
      careful: {admission: {kind: slack, lead: 2s}}
"""
TEXT = small.SCENARIO.rstrip().replace("rate: 6/s", "rate: 30/s") + "\n" + SHADOWS


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    scenario = load(small.write(tmp_path_factory.mktemp("shadow"), TEXT)).variants["watched"]
    return scenario, simulate(scenario)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("admission", ["cap, streams: 8", "cap_queue, streams: 8, deadline: 1s",
                                       "slack, lead: 100ms"])  # fmt: skip
@pytest.mark.parametrize("routing", ["least_streams", "round_robin", "power_of_two"])
def test_the_run_is_the_same_to_the_bit_with_and_without(tmp_path, seed, admission, routing):
    text = TEXT.replace("cap, streams: 16}\n    policies.shadow", f"{admission}}}\n    ROUTE")
    text = text.replace("ROUTE", f"policies.routing: {{kind: {routing}}}\n    policies.shadow")
    text = text.replace("horizon: 60s", "horizon: 10s").replace("warmup: 5s", "warmup: 0s")
    scenario = load(small.write(tmp_path, text), seed=seed).variants["watched"]
    policies = scenario.policies.model_copy(update={"shadow": {}})
    alone = simulate(scenario.model_copy(update={"policies": policies}))
    run = simulate(scenario)
    assert differences(run.record, alone.record) == []
    assert alone.shadows == {}
    assert len(run.shadows) == 4


def test_kernel_and_reference_write_down_the_same(watched, tmp_path):
    text = TEXT.replace("horizon: 60s", "horizon: 8s").replace("warmup: 5s", "warmup: 0s")
    scenario = load(small.write(tmp_path, text)).variants["watched"]
    kernel, reference = (simulate(scenario, engine=e).shadows for e in ("kernel", "reference"))
    for name, table in kernel.items():
        assert table.equals(reference[name])
        assert len(table) > 100


def test_every_request_is_decided_once(watched):
    _, run = watched
    streams = tables.streams(run)
    for table in run.shadows.values():
        asked = table.groupby(["session", "utterance"]).size()
        assert len(asked) == len(streams)
        tries = streams.set_index(["session", "utterance"])["refusals"]
        tries = tries + streams["admitted_s"].notna().to_numpy()
        assert (asked == tries.loc[asked.index]).all()


def test_what_they_disagree_on(watched):
    """The same policy agrees always; half a cap refuses whoever met 8 to 15 streams; without a cap
    everybody refused is let in."""
    _, run = watched
    assert (otherwise(run.shadows["same"]) == -1).all()
    half, none = run.shadows["half"], run.shadows["none"]
    refused = (half["did"] == REFUSE).sum()
    assert (half["would"] == REFUSE).sum() > refused > 0
    assert not ((half["did"] == REFUSE) & (half["would"] == ADMIT)).any()
    assert (otherwise(none) == 1).sum() == refused
    assert (otherwise(none) == 3).sum() > 0


def test_the_numbers(watched):
    scenario, run = watched
    part = fleet.part_of(run)
    m = summary.run_metrics(run, part.calls, part.streams)["shadow"]
    light = part.light()
    assert summary.run_metrics(light.run, light.calls, light.streams)["shadow"] == m
    assert m["same"]["would_refuse"] == m["same"]["elsewhere"] == 0
    for each in m.values():
        assert each["refuse_well"] + each["refuse_badly"] == each["would_refuse"]
    late = part.calls.loc[part.calls["arrival_s"] >= scenario.warmup, "session"]
    mine = run.shadows["half"]
    mine = mine[mine["session"].isin(late)]
    kind = otherwise(mine)
    assert m["half"]["requests"] == len(mine)
    assert m["half"]["would_refuse"] == (kind == 0).sum() > 50
    assert m["none"]["would_admit"] > 50


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("same: {admission: {kind: cap, streams: 16}}", "same: {}", "decides nothing"),
        ("same:", "s.t:", "a name is made of letters, digits, - and _"),
        ("same: {admission: {kind: cap, streams: 16}}",
         "same: {endpointing: {kind: fixed, silence: 1s}}", "only a dialogue has an endpointing"),
        ("kind: round_robin", "kind: round_robbin", "round_robin"),
        ("kind: round_robin", "kind: least_streams, age: 2s", "a shadow sees the replicas as"),
        ("    policies.shadow:", "    policies.routing: {kind: least_streams, age: 2s}\n"
         "    policies.shadow:", "cannot decide by readings that are out of date"),
        ("    policies.shadow:", "    policies.routing: {kind: least_streams, pinned: true}\n"
         "    policies.shadow:", "cannot decide about calls that are pinned"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(tmp_path, old, new, said):
    assert old in TEXT
    with pytest.raises(ScenarioErrors) as errors:
        load(small.write(tmp_path, TEXT.replace(old, new)))
    assert said in str(errors.value)


def test_a_shadow_cannot_move_the_run_by_its_lead(watched):
    """A slack shadow looks with a lead of its own; the run's is as it was."""
    _, run = watched
    careful = run.shadows["careful"]
    assert (careful["would"] == REFUSE).sum() > 0
    assert dataclasses.asdict(run.spec)["lead"] == 0.0
    assert np.isfinite(run.record.now)
