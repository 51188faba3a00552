"""Pools that serve the same callers: who goes where, what a run of them counts."""

import numpy as np
import pandas as pd
import pytest

from tests import small
from voicesim import fleet
from voicesim.engine import layout as at
from voicesim.metrics.fleet import metrics_of, parts_of
from voicesim.scenario import ScenarioErrors, load
from voicesim.simulation import profile_of, run_spec, simulate
from voicesim.study import run_study

POOL = """\
    {name}:
      {more}
      replicas: {replicas}
      on: card
      engine: {{kind: vllm_v1, profile: small-profile.yaml, max_num_seqs: 64, kv_blocks: 2000}}
      codec: {{chunk: {{first: 4, ramp: [8], steady: 25}}, batch: {{cap: 8}}}}
"""
HEAD, _, REST = small.SCENARIO.partition("    tts:\n")
TAIL = REST[REST.index("listener:") :].partition("alarms:")[0]
REGIONS = """\
  regions:
    eu: {near: 20ms, to: {us: {rtt: 90ms, jitter: 10ms}, asia: {rtt: 160ms}}}
    us: {to: {asia: {rtt: 140ms}}}
    asia: {}
"""


SLACK = "policies:\n  admission: {kind: slack}\n"
WIDE = "policies:\n  admission: {kind: cap, streams: 60}\n"


def scenario(folder, pools, regions="", workload="", policies=WIDE, top=""):
    """A fleet of pools {name: (replicas, what else is said of it)}."""
    text = HEAD.replace("count: 2", "count: 20").replace("workload:\n", f"workload:\n{workload}")
    for name, (replicas, more) in pools.items():
        text += POOL.format(name=name, replicas=replicas, more=more or "role: tts")
    text += regions + TAIL + policies + top
    return load(small.write(folder, text))


THREE = {"eu": (1, "region: eu"), "us": (2, "region: us"), "asia": (1, "region: asia")}
ORIGINS = "  origins: {eu: 0.5, asia: 0.2, us: 0.3}\n"
CAP = "policies:\n  admission: {kind: cap, streams: 3}\n"


def regional(folder, overflow="", sets=()):
    found = scenario(folder, THREE, REGIONS, ORIGINS, CAP + overflow)
    return found.variants[found.baseline]


def test_rows_and_routes_by_hand(tmp_path):
    """Callers in the EU: their own pool, then the US (90 ms), then Asia (160 ms); the mean jitter
    of the listener is 10 ms, so a way with 10 ms more has twice of it."""
    whole = regional(tmp_path)
    assert [(r.origin, r.share) for r in fleet.rows(whole)] == [
        ("eu", 0.5), ("asia", 0.2), ("us", 0.3),
    ]  # fmt: skip
    routes = fleet.routes(whole, 0.01)
    assert routes.prefs.tolist() == [[0, 1, 2], [2, 1, 0], [1, 0, 2]]
    assert routes.tiers.tolist() == [[0, 1, 2]] * 3
    assert routes.delay.tolist() == [[0.02, 0.09, 0.16], [0.16, 0.14, 0.0], [0.09, 0.0, 0.14]]
    assert routes.jitter.tolist() == [[1, 2, 1], [1, 1, 1], [2, 1, 1]]


def test_callers_stay_at_home_unless_nothing_is_open(tmp_path):
    whole = regional(tmp_path)

    def close_asia(env, pool):
        yield env.timeout(20.0)
        pool.set_open(3, False)

    run = simulate(whole, processes=[close_asia])
    ints, floats = run.record.utterance_i, run.record.utterance_f
    taken = np.flatnonzero(ints[:, at.R_ENGINE] >= 0)
    pool, home = run.spec.pool_of[ints[taken, at.R_ENGINE]], run.home(taken)
    abroad = pool != home
    asked = floats[taken, at.Z_REQUEST]
    assert set(home[abroad]) == {2}  # callers of asia
    assert set(pool[abroad]) == {1}  # the US is nearer than the EU
    retried = ints[taken, at.R_ATTEMPTS] > 0
    assert (asked[abroad & ~retried] >= 20.0).all()
    assert (~abroad)[(home == 2) & (asked > 20.0)].sum() == 0


def test_overflow_goes_abroad_before_it_refuses(tmp_path):
    """The EU has one replica of six places and half of the callers: at home it refuses many; with
    overflow they go on, and start later by the 90 ms of the way."""
    stays = regional(tmp_path)
    goes = regional(tmp_path, "  overflow: {at: 0.8, back: 0.5}\n")
    refused, home, abroad = [], [], []
    for whole in (stays, goes):
        run = simulate(whole)
        refused.append(int((run.record.utterance_i[:, at.R_OUTCOME] == at.REFUSED).sum()))
        ints, floats = run.record.utterance_i, run.record.utterance_f
        heard = np.flatnonzero((floats[:, at.Z_START] >= 0) & (run.home(np.arange(len(ints))) == 0))
        wait = floats[heard, at.Z_START] - floats[heard, at.Z_REQUEST]
        on = run.spec.pool_of[ints[heard, at.R_ENGINE]]
        home.append(wait[on == 0].min())
        abroad.append(wait[on == 1].min() if (on == 1).any() else np.inf)
    assert refused[0] > 20
    assert refused[1] < refused[0] / 4
    assert abroad[0] == np.inf
    assert 0.05 < abroad[1] - home[1] < 0.12


def test_weights_divide_those_who_are_as_near(tmp_path):
    """Two pools of one place, weights 0.25 and 0.75; a call stays with its pool."""
    found = scenario(tmp_path, {"old": (2, "weight: 0.25"), "new": (4, "weight: 0.75")})
    run = simulate(found.variants[found.baseline])
    engine = run.record.utterance_i[:, at.R_ENGINE]
    session = np.repeat(np.arange(run.tape.sessions), np.diff(run.tape.first))
    pools = pd.Series(run.spec.pool_of[engine[engine >= 0]]).groupby(session[engine >= 0])
    assert (pools.nunique() == 1).all()
    n, share = len(pools), pools.first().mean()
    assert abs(share - 0.75) < 4 * np.sqrt(0.75 * 0.25 / n)


def still(file):
    """Without network jitter, which belongs to the number of an utterance in the whole."""
    return load(file.path, sets=["listener.network.jitter=0s"])


def test_a_load_beside_is_counted_apart(tmp_path):
    beside = """\
beside:
  chat:
    arrivals: {kind: poisson, rate: 3/s}
    utterance: {tokens: 50, prompt_tokens: 100}
"""
    pools = {"tts": (2, ""), "chat": (1, "serves: [chat]")}
    found = still(scenario(tmp_path, pools, top=beside))
    whole = found.variants[found.baseline]
    run = simulate(whole)
    counted, by_pool = parts_of(run)
    alone = still(scenario(tmp_path, {"tts": (2, "")}))
    as_before = simulate(alone.variants[alone.baseline])
    mine = run.tape.row == 0
    for name in ("tokens", "prompt", "think"):  # the same callers, and they feel nothing
        assert np.array_equal(getattr(run.tape, name)[mine], getattr(as_before.tape, name))
    assert np.array_equal(
        run.record.utterance_f[mine], as_before.record.utterance_f[: as_before.tape.utterances]
    )
    assert metrics_of([counted], whole)["offered"] == as_before.tape.sessions - np.sum(
        as_before.tape.arrival < whole.warmup
    )
    chats = by_pool["chat"].streams
    assert set(chats["pool"]) == {"chat"}
    assert len(chats) == (~mine).sum()
    assert (chats["audio_s"] == 50 * 0.08).all()


def test_kernel_and_reference_agree_on_a_scenario(tmp_path):
    whole = regional(tmp_path, "  overflow: {at: 0.8, back: 0.5}\n")
    kernel, reference = simulate(whole), simulate(whole, engine="reference")
    assert np.array_equal(kernel.record.utterance_f, reference.record.utterance_f)
    assert np.array_equal(kernel.record.series, reference.record.series)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"regions": REGIONS.replace("us: {to: {asia", "us: {to: {aisa")}, "'asia'"),
        ({"workload": "  origins: {eu: 0.5, mars: 0.5}\n"}, "unknown region 'mars'"),
        ({"workload": "  origins: {eu: 0.5, us: 0.4}\n"}, "must add up to 1; found 0.9"),
        ({"workload": ""}, "needs the share of callers from each place"),
        ({"regions": ""}, "unknown region 'eu'"),
        ({"policies": CAP + "  overflow: {at: 0.5, back: 0.9}\n"}, "is more than at (0.5)"),
        ({"policies": "policies:\n  overflow: {at: 1, back: 0.5}\n"}, "needs admission cap"),
        ({"workload": ORIGINS + "  asks: {en: 1}\n", "more": "serves: [fr]"}, "nobody asks for"),
        ({"more": "share: 0.5"}, "needs its share of the callers: other pools have one"),
        (
            {"more": "streams: 3", "policies": "policies:\n  admission: {kind: slack}\n"},
            "the admission policy has no cap",
        ),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path, change, said):
    pools = dict(THREE)
    if more := change.pop("more", ""):
        pools["eu"] = (1, f"region: eu\n      {more}")
    given = {"regions": REGIONS, "workload": ORIGINS, "policies": CAP, **change}
    with pytest.raises(ScenarioErrors) as error:
        scenario(tmp_path, pools, **given)
    assert said in str(error.value)


def test_pools_that_serve_the_same_must_agree_on_a_token(tmp_path):
    found = scenario(tmp_path, {"a": (1, ""), "b": (1, "")})
    whole = found.variants[found.baseline]
    profiles = [profile_of(part.cluster.pool) for part in whole.each_pool()]
    profiles[1] = profiles[1].model_copy(update={"token_audio_s": 0.04})
    with pytest.raises(ValueError, match=r"'b' makes 0.04 s .* 'a' 0.08 s"):
        run_spec(whole, profiles)


def test_without_rows_only_quantiles_come_from_a_histogram(tmp_path):
    found = scenario(tmp_path, THREE, REGIONS, ORIGINS, CAP + "  overflow: {at: 0.8, back: 0.5}\n")
    kept, counted = run_study(found, workers=1), run_study(found, workers=1, rows=False)
    for name in kept.summary:
        tables = [(s.summary[name], *s.pools[name].values()) for s in (kept, counted)]
        for a, b in zip(*tables, strict=True):
            assert a.keys() == b.keys()
            for metric in a:
                if metric.startswith("ttfa"):
                    assert b[metric]["mean"] == pytest.approx(a[metric]["mean"], rel=2.5e-3)
                else:
                    assert a[metric] == b[metric], metric


def test_a_replica_that_is_not_ordered_stays_closed_when_its_fault_is_over(tmp_path):
    """Scaling keeps one of two replicas; the other breaks and is mended: nobody goes there."""
    scaling = """\
  scaling:
    pools: {tts: {min: 1}}
    signal: {kind: cpu, target: 1}
    cold_start: none
faults:
  - {kind: crash, replica: 1, at: 10s, for: 5s}
"""
    found = scenario(tmp_path, {"tts": (2, "")}, policies=WIDE + scaling)
    whole = found.variants[found.baseline]
    run = simulate(whole)
    engine = run.record.utterance_i[:, at.R_ENGINE]
    assert set(engine[engine >= 0]) == {0}
    assert [row[1] for row in run.log.rows].count("restored") == 1
