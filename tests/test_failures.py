"""Scenarios with faults: what they do, what they count, what is wrong with them."""

from pathlib import Path

import pytest

from tests.engine.worlds import differences
from voicesim.engine import layout as at
from voicesim.metrics.fleet import part_of
from voicesim.metrics.summary import run_metrics
from voicesim.scenario import ScenarioErrors, load
from voicesim.scenario.loader import loads
from voicesim.simulation import simulate

ROOT = Path(__file__).resolve().parents[1]
PROFILE = ROOT / "calibration" / "profiles" / "qwen3-tts-1.7b-h100.yaml"
BASE = f"""
horizon: 20min
drain: 2min
workload:
  arrivals: {{kind: poisson, rate: 4/s}}
  utterance: {{audio: 3s}}
cluster:
  gpus: {{h100: {{preset: h100-sxm, count: 4}}}}
  pools:
    tts:
      replicas: 1
      on: h100
      engine: {{profile: {PROFILE}, kv_blocks: 100000}}
      codec: {{chunk: {{first: 4, steady: 25}}, batch: {{cap: 8}}}}
"""


def scenario(more: str = "", sets=()):
    return loads(BASE + more, Path("made.yaml"), sets).variants["base"]


def metrics(run):
    part = part_of(run)
    return run_metrics(run, part.calls, part.streams)


def test_one_replica_is_available_for_mtbf_of_mtbf_and_mttr():
    """It is down for mttr / (mtbf + mttr) = 1/6 of the time, and what it holds when it fails is
    lost (about one stream each time, of 100 calls between failures)."""
    fault = "faults: [{kind: crash, mtbf: 100s, mttr: 20s}]"
    made = scenario(fault, ["horizon=4h", "workload.arrivals.rate=1/s"])
    run = simulate(made)
    down = [t for t, what, *_ in run.log.rows if what == "crash"]
    up = [t for t, what, *_ in run.log.rows if what == "restored"]
    assert len(down) > 80
    lasted = sum(min(b, 14400.0) - a for a, b in zip(down, up, strict=False) if a < 14400.0)
    share = lasted / 14400.0
    assert share == pytest.approx(1 / 6, abs=4 / 6 / len(down) ** 0.5)
    found = metrics(run)
    lost = found["failed"] / found["offered"]
    assert found["refused"] / found["offered"] == pytest.approx(share, abs=0.012)
    assert found["available_share"] == pytest.approx(1.0 - share - lost, abs=0.012)


FAULTS = """
policies:
  admission: {kind: cap, streams: 24}
  routing: {kind: least_streams, age: 500ms, reserve: true}
  health: {liveness: {every: 3s}, progress: {}, ejection: {}, breaker: {}}
faults:
  - {kind: gray, replica: 1, at: 20s, for: 60s, drop_after: 1s}
  - {kind: slow, replica: 0, at: 10s, for: 30s, factor: 4}
  - {kind: gpu_loss, replica: 2, at: 40s, for: 30s}
  - {kind: crash, mtbf: 40s, mttr: 10s}
"""


def test_a_scenario_with_everything_is_equal_in_kernel_and_reference():
    sets = ["horizon=90s", "drain=30s", "cluster.pools.tts.replicas=4", "workload.patience=3s"]
    more = "workload.refused={retry: {attempts: 2, backoff: 300ms, jitter: full, budget: 0.1}}"
    made = scenario(FAULTS, [*sets, more, "workload.lost={then: reconnect, within: 10s}"])
    kernel, reference = simulate(made), simulate(made, engine="reference")
    assert differences(kernel.record, reference.record) == []
    assert kernel.log.rows == reference.log.rows
    assert {what for _, what, *_ in kernel.log.rows} >= {"gray", "slow", "gpu_loss", "restored"}
    assert kernel.record.counters["lost"] > 20


def test_replications_fail_at_other_times():
    made = scenario("faults: [{kind: crash, mtbf: 100s, mttr: 20s}]", ["replications=2"])
    first, second = (simulate(made, k).log.rows[0][0] for k in (0, 1))
    assert first != second


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ("faults: [{kind: crash, replica: 0}]", "give exactly one of at and mtbf; found neither"),
        ("faults: [{kind: crash, mtbf: 1h}]", "mttr: missing; mtbf goes with it"),
        ("faults: [{kind: crash, at: 1min, mttr: 1min}]", "mttr: never used: `at` is given"),
        ("faults: [{kind: crash, replica: 7, at: 1min}]", "there are 1 replicas, from 0; found 7"),
        ("faults: [{kind: crash, pool: tta, at: 1min}]", "unknown pool 'tta'"),
        ("faults: [{kind: crash, at: 3h}]", "comes after the run"),
        ("faults: [{kind: region_loss, region: eu, at: 1min}]", "unknown region 'eu'"),
        ("policies: {routing: {kind: least_streams, reserve: true}}", "never used: age is 0"),
        ("policies: {routing: {kind: pack}}", "needs admission cap"),
    ],
)
def test_what_is_wrong_with_a_fault(more, line):
    with pytest.raises(ScenarioErrors) as found:
        scenario(more)
    assert line in str(found.value)


@pytest.fixture(scope="module")
def gray():
    """Available share by variant of the shipped scenario, cut short."""
    sets = ["horizon=6min", "warmup=3min", "drain=1min"]
    file = load(ROOT / "scenarios" / "gray_failure.yaml", sets)
    return {name: metrics(simulate(s))["available_share"] for name, s in file.variants.items()}


def test_the_shipped_gray_node(gray):
    assert gray["nobody"] == gray["liveness"] < gray["in_turn"] < 0.8
    assert gray["nobody"] < gray["retries"]
    assert 0.85 < gray["ejection"] < gray["progress"] < gray["retries_progress"]


def test_the_shipped_failover():
    file = load(ROOT / "scenarios" / "failover.yaml", ["drain=1min"])
    run = {name: simulate(file.variants[name]) for name in ("as_sized", "spare", "no_fault")}
    refused = {n: metrics(r)["refused"] / metrics(r)["offered"] for n, r in run.items()}
    assert refused["no_fault"] < 0.01 > refused["spare"]
    assert refused["as_sized"] > 0.1
    failed = run["spare"].record.utterance_i[:, at.R_OUTCOME] == at.FAILED_OUTCOME
    when = run["spare"].record.utterance_f[failed, at.Z_DONE]
    assert when.min() == 240.0
    assert when.max() < 300.0 + 1.0  # rerouted after a minute
