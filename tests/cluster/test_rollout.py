"""Rollouts: a new version behind a guard, and replicas exchanged batch after batch."""

from itertools import pairwise

import numpy as np
import pytest

from tests import small
from tests.engine.worlds import differences
from voicesim.metrics.paid import counts, rolled_back
from voicesim.policy.guard import fewer, level, longer
from voicesim.scenario import ScenarioErrors, load
from voicesim.simulation import simulate

# --- the test ---------------------------------------------------------------------------------


def test_the_levels_of_all_looks_add_up_to_the_error():
    assert sum(level(k, 0.05) for k in range(1, 10_000)) == pytest.approx(0.05, rel=1e-3)


def test_fishers_exact_test_by_hand():
    """1 good of 2 beside 2 good of 2: of the 6 ways to place 3 good among 4, 2 of 4 choose one."""
    assert fewer(1, 2, 2, 2) == pytest.approx(0.5)
    assert fewer(2, 2, 1, 2) == pytest.approx(1.0)
    assert fewer(0, 3, 3, 3) == pytest.approx(1 / 20)


def test_longer_looks_one_way():
    slow, fast = np.linspace(0.2, 0.4, 40), np.linspace(0.1, 0.3, 40)
    assert longer(slow, fast) < 1e-6
    assert longer(fast, slow) > 0.999
    assert longer([], fast) == 1.0


def looked_at(rng, p_new, p_old, looks=40, calls=25):
    """Does the guard stop the new version at one of its looks?"""
    good = before = n = 0
    for k in range(1, looks + 1):
        good += rng.binomial(calls, p_new)
        before += rng.binomial(calls, p_old)
        n += calls
        if fewer(good, n, before, n) < level(k, 0.05):
            return True
    return False


def test_a_version_as_good_is_stopped_no_more_often_than_said():
    rng = np.random.default_rng(1)
    stopped = sum(looked_at(rng, 0.9, 0.9) for _ in range(400))
    assert stopped <= 0.05 * 400 + 2 * np.sqrt(0.05 * 0.95 * 400)


def test_a_much_worse_version_is_stopped():
    rng = np.random.default_rng(2)
    assert sum(looked_at(rng, 0.75, 0.9) for _ in range(50)) >= 48


# --- in a run ---------------------------------------------------------------------------------

POOL = small.SCENARIO[small.SCENARIO.index("      replicas: 2") : small.SCENARIO.index("listener:")]
CANARY = (
    small.SCENARIO.replace("    tts:\n", "    old:\n")
    .replace("count: 2", "count: 4")
    .replace("listener:\n", "    new:\n" + POOL + "listener:\n")
    .replace("horizon: 60s", "horizon: 4min")
    .replace("alarms:\n  - {metric: chunk_gap_p99, over: 10s, above: 1.0x_chunk}\n", "")
    + """\
policies:
  routing: {kind: least_calls}
  rollout:
    kind: canary
    old: old
    new: new
    at: 20s
    stages: [{share: 0.2, hold: 1min}, {share: 0.6, hold: 30s}, {share: 1, hold: 30s}]
    guard: {every: 10s, calls: 30}
    cold_start: {image: 5s}
    grace: 10s
"""
)


def canary(folder, *sets):
    text = CANARY.replace("variants:\n  admit_all: {}\n  cap:", "variants:\n  plain: {}\n  cap:")
    return load(small.write(folder, text), sets=list(sets)).variants["plain"]


def said(run, what):
    return [(t, value) for t, word, _, _, value in run.log.rows if word.startswith(what)]


def versions(run):
    """Of each call that an engine took: when it came, and its pool at each utterance."""
    engine = run.record.utterance_i[:, 7]
    pool = np.where(engine >= 0, run.spec.pool_of[engine], -1)
    first = run.tape.first
    return run.tape.arrival, [set(pool[a:b].tolist()) - {-1} for a, b in pairwise(first)]


def test_a_good_version_gets_its_shares_and_then_all(tmp_path):
    run = simulate(canary(tmp_path))
    assert said(run, "share") == [(0.0, 0.0), (25.0, 0.2), (85.0, 0.6), (115.0, 1.0)]
    assert said(run, "rolled out")[0][0] <= 155.0 + 1.0
    assert not said(run, "rolled back")
    arrival, pools = versions(run)
    assert all(len(of) <= 1 for of in pools)  # a call stays with its version
    for start, end, share in ((0, 25, 0.0), (25, 85, 0.2), (85, 115, 0.6), (115, 240, 1.0)):
        new = [1 in of for t, of in zip(arrival, pools, strict=True) if start < t < end and of]
        assert abs(np.mean(new) - share) <= 4 * np.sqrt(share * (1 - share) / len(new))
    open_, paid = counts(run, np.array([10.0, 24.0, 30.0, 200.0]))
    assert open_.tolist() == [2, 2, 4, 2]
    assert paid.tolist() == [2, 4, 4, 2]


@pytest.mark.parametrize("watch", ["clean", "ttfa"])
def test_a_worse_version_is_taken_back(tmp_path, watch):
    slow = "cluster.pools.new.codec.chunk.first=14"  # a second of audio before anything is sent
    if watch == "clean":
        slow = "cluster.pools.new.engine.max_num_seqs=1"
    run = simulate(canary(tmp_path, slow, f"policies.rollout.guard.watch=[{watch}]"))
    ((back, _),) = said(run, f"rolled back: {watch}")
    assert back < 115.0  # before all callers had it
    assert rolled_back(run) == back
    arrival, pools = versions(run)
    assert not any(1 in of for t, of in zip(arrival, pools, strict=True) if t > back)
    assert counts(run, np.array([back + 12.0]))[1].tolist() == [2]


def test_without_a_guard_nothing_is_taken_back(tmp_path):
    worse = "cluster.pools.new.engine.max_num_seqs=1"
    run = simulate(canary(tmp_path, worse, "policies.rollout.guard=null"))
    assert not said(run, "rolled back")
    assert said(run, "share")[-1] == (115.0, 1.0)


@pytest.mark.parametrize("first", [4, 14])
def test_kernel_and_reference_roll_out_alike(tmp_path, first):
    scenario = canary(tmp_path, f"cluster.pools.new.codec.chunk.first={first}", "horizon=2min")
    kernel, reference = simulate(scenario), simulate(scenario, engine="reference")
    assert differences(kernel.record, reference.record) == []
    assert kernel.log.rows == reference.log.rows


# --- replica after replica --------------------------------------------------------------------

ROLLING = (
    small.SCENARIO.replace("horizon: 60s", "horizon: 3min")
    + """\
policies:
  routing: {kind: least_calls}
  rollout: {kind: rolling, pool: tts, serving: 4, at: 30s, cold_start: {image: 5s}, grace: 2s}
"""
)


def rolling(folder, surge, replicas, *sets):
    given = [f"policies.rollout.surge={surge}", f"cluster.pools.tts.replicas={replicas}",
             f"cluster.gpus.card.count={replicas}"]  # fmt: skip
    return load(small.write(folder, ROLLING), sets=[*given, *sets]).variants["admit_all"]


@pytest.mark.parametrize(
    ("surge", "replicas", "least_open", "most_paid"), [(0, 4, 3, 4), (0.25, 5, 4, 5), (1, 8, 4, 8)]
)
def test_a_surge_is_paid_for_and_without_one_the_batch_is_missing(
    tmp_path, surge, replicas, least_open, most_paid
):
    run = simulate(rolling(tmp_path, surge, replicas))
    ((done, _),) = said(run, "rolled out")
    open_, paid = counts(run, np.arange(31.0, done, 0.25))
    assert (open_.min(), paid.max()) == (least_open, most_paid)
    assert [x.tolist() for x in counts(run, np.array([done + 1.0]))] == [[4], [4]]
    assert len(said(run, "ready")) == 4 + 4


def test_kernel_and_reference_exchange_alike(tmp_path):
    scenario = rolling(tmp_path, 0, 4, "horizon=60s")
    kernel, reference = simulate(scenario), simulate(scenario, engine="reference")
    assert differences(kernel.record, reference.record) == []
    assert kernel.log.rows == reference.log.rows


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ("rollout.surge=0.5", "needs 6 replicas (4 that serve and the surge)"),
        ("rollout.batch=0.5", "never used: with a surge"),
        ("rollout.pool=tss", "did you mean 'tts'"),
        ("rollout.at=1h", "never used: the horizon is 180s"),
        ("rollout.cold_start={node: 0s}", "takes no time to start"),
        ("routing={kind: round_robin}", "needs policies.routing.pinned: true"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path, change, text):
    with pytest.raises(ScenarioErrors) as found:
        rolling(tmp_path, 0.25, 5, f"policies.{change}")
    assert text in str(found.value)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ("policies.rollout.new=old", "is the old version"),
        ("policies.rollout.stages=[]", "needs a stage"),
        ("policies.rollout.stages=[{share: 0.5, hold: 9s}, {share: 0.1, hold: 9s}]", "must grow"),
        ("cluster.pools.new.weight=0.5", "policies.rollout sets it"),
        ("policies.rollout.guard.watch=[]", "needs clean, ttfa or both"),
    ],
)
def test_what_makes_no_sense_of_a_canary_is_refused(tmp_path, change, text):
    with pytest.raises(ScenarioErrors) as found:
        canary(tmp_path, change)
    assert text in str(found.value)
