"""Several pools: each plays its share of the callers, and what they leave is put together."""

import json
from dataclasses import fields
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests import small
from voicesim.experiment.compare import compare
from voicesim.experiment.work import jobs_of, play
from voicesim.metrics import fleet
from voicesim.scenario import ScenarioErrors, load
from voicesim.simulation import simulate
from voicesim.study import job, outcome_of, run_study

POOL = """\
      replicas: {replicas}
      on: card
      engine: {{kind: vllm_v1, profile: small-profile.yaml, max_num_seqs: 64, kv_blocks: 2000}}
      codec:
        chunk: {{first: 4, ramp: [8], steady: 25}}
        batch: {{cap: 8}}
"""
HEAD, _, REST = small.SCENARIO.partition("    tts:\n")
TAIL = REST[REST.index("listener:") :]
SHARES = {"north": 0.5, "south": 0.3, "west": 0.2}
FLEET = (
    HEAD.replace("count: 2", "count: 4")
    + "".join(
        f"    {name}:\n      share: {share}\n" + POOL.format(replicas=2 if share > 0.4 else 1)
        for name, share in SHARES.items()
    )
    + TAIL
)


def test_every_caller_has_one_pool_and_shares_hold(tmp_path):
    whole = load(small.write(tmp_path, FLEET)).variants["admit_all"]
    numbers = [simulate(part, 0).tape.numbers for part in whole.apart()]
    every = np.concatenate(numbers)
    assert sorted(every) == list(range(len(every)))  # each once
    for found, share in zip(numbers, SHARES.values(), strict=True):
        n = len(every)
        assert abs(len(found) - share * n) < 4 * np.sqrt(n * share * (1 - share))
    alone = load(small.write(tmp_path), sets=["cluster.gpus.card.count=2"]).variants["admit_all"]
    assert len(every) == simulate(alone, 0).tape.sessions  # the same callers as one pool has


def test_a_pool_does_not_feel_the_others(tmp_path):
    """Nothing couples them: another south leaves north's run as it was, to the bit."""
    path = small.write(tmp_path, FLEET)
    before = load(path).variants["cap"].apart()[0]
    sets = [
        "cluster.pools.south.codec.chunk.first=12",
        "cluster.pools.south.share=0.1",
        "cluster.pools.west.share=0.4",
    ]
    after = load(path, sets=sets).variants["cap"].apart()[0]
    a, b = simulate(before, 1).record, simulate(after, 1).record
    for field in fields(a):
        x, y = getattr(a, field.name), getattr(b, field.name)
        if isinstance(x, dict):
            assert all(np.array_equal(x[k], y[k]) for k in x)
        else:
            assert np.array_equal(x, y, equal_nan=isinstance(x, np.ndarray) and x.dtype == float)


def test_numbers_of_the_whole_are_those_of_its_tables(tmp_path):
    file = load(small.write(tmp_path, FLEET))
    result = run_study(file, tmp_path / "out", workers=1)
    calls = pd.read_parquet(tmp_path / "out" / "sessions")
    streams = pd.read_parquet(tmp_path / "out" / "streams")
    assert set(calls["pool"]) == set(SHARES)
    for variant, metrics in result.summary.items():
        mine = calls[(calls["variant"] == variant) & (calls["arrival_s"] >= 5)]
        assert metrics["offered"]["mean"] == len(mine)
        assert metrics["clean_share"]["mean"] == pytest.approx(mine["clean"].mean(), abs=1e-12)
        said = streams[(streams["variant"] == variant) & streams["session"].isin(mine["session"])]
        wait = np.sort((said["started_s"] - said["requested_s"]).dropna().to_numpy())
        assert metrics["ttfa_p95_s"]["mean"] == wait[int(np.ceil(0.95 * len(wait))) - 1]
        each = result.pools[variant]
        assert list(each) == list(SHARES)
        assert metrics["offered"]["mean"] == sum(m["offered"]["mean"] for m in each.values())
        busy = [each[p]["busy_share"]["decode"]["mean"] for p in SHARES]
        weighted = np.dot(busy, [2, 1, 1]) / 4
        assert metrics["busy_share"]["decode"]["mean"] == pytest.approx(weighted, rel=1e-12)
        first = [m["first_stall_s"]["mean"] for m in each.values()]
        known = [t for t in first if t is not None]
        assert metrics["first_stall_s"]["mean"] == (min(known) if known else None)
    series = result.series
    one = series[series["variant"] == "admit_all"]
    assert one["calls"].sum() == len(calls[calls["variant"] == "admit_all"])


def test_same_answer_in_parallel_and_in_experiments(tmp_path):
    file = load(small.write(tmp_path, FLEET))
    one, two = (run_study(file, workers=n) for n in (1, 2))
    assert json.dumps(one.summary) == json.dumps(two.summary)
    assert json.dumps(one.pools) == json.dumps(two.pools)
    assert one.context == two.context  # the order of warnings too
    whole = file.variants["cap"]
    pieces = [job(part, "cap", 0, None, False, "kernel") for part in whole.apart()]
    there, back = outcome_of(pieces, whole), outcome_of(pieces[::-1], whole)
    assert there.metrics == back.metrics and there.warnings == back.warnings
    pd.testing.assert_frame_equal(one.series, two.series)
    alone = jobs_of("cap", file.variants["cap"], 1)[0]
    of_run = one.of("cap")[0].metrics
    for name in ("stall_causes", "stall_cause_seconds"):  # experiments do not ask for them
        of_run.pop(name)
    assert play(alone)["metrics"] == of_run


def test_cost_is_that_of_all_cards(tmp_path):
    sets = ["cluster.gpus.card.price=2.5/h"]
    whole = load(small.write(tmp_path, FLEET), sets=sets).variants["admit_all"]
    parts = [fleet.part_of(simulate(part, 0)) for part in whole.apart()]
    assert fleet.metrics_of(parts, whole)["gpu_cost"] == pytest.approx(4 * 2.5 * 60 / 3600)


@pytest.mark.parametrize(
    "sets, said",
    [
        (
            ["cluster.pools.north.share=0.4"],
            "cluster.pools: the shares must add up to 1; found 0.9",
        ),
        (["cluster.pools.north.share=null"], "cluster.pools.north: needs its share"),
        (
            ["cluster.pools.north.share=0", "cluster.pools.south.share=0.8"],
            "cluster.pools.north.share: must be more than 0",
        ),
        (["cluster.gpus.card.count=3"], "cluster.pools.west.replicas: 1 replicas need 1 cards"),
        (["policies.routing={policy: 'mine:Best'}"], "mine:Best would see all of them"),
        (["workload.arrivals={kind: closed, callers: 9}"], "callers of a closed loop"),
    ],
)
def test_what_would_couple_pools_is_refused(tmp_path, sets, said):
    text = FLEET.replace("  utterances_per_session: {geometric: {mean: 2}}\n", "")
    text = text.replace("  think: {exponential: {mean: 1s}}\n", "")
    with pytest.raises(ScenarioErrors, match="pools") as found:
        load(small.write(tmp_path, text), sets=sets)
    assert said in str(found.value)


def test_a_share_without_other_pools_is_refused(tmp_path):
    with pytest.raises(ScenarioErrors, match="never used: the only pool serves all callers"):
        load(small.write(tmp_path), sets=["cluster.pools.tts.share=0.5"])


def test_the_shipped_regions_are_compared(tmp_path):
    """Variants that move cards between regions: as many in all, and the same callers."""
    regions = Path(__file__).parents[1] / "scenarios" / "regions.yaml"
    sets = ["horizon=5s", "warmup=1s"]
    found = compare(load(regions, sets=sets), max_replications=2, first=2, workers=1)
    assert list(found.file.variants) == ["as_bought", "west_10", "west_12"]
    for scenario in found.file.variants.values():
        assert sum(pool.cards for pool in scenario.cluster.pools.values()) == 48
    assert found.replicated.groupby("replication")["callers"].nunique().eq(1).all()
