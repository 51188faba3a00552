"""C29: draining long calls at a deploy.

A worker's drain of 30 minutes and a platform's of an hour; the first call that ended took the
others with it (https://github.com/livekit/agents/issues/4268,
https://github.com/livekit/agents/pull/6286); a host that allows five minutes cut meetings that
lasted longer (https://github.com/fastrepl/anarlog/pull/7116).

Must show: calls cut are those live times the probability that their remaining time (residual life,
not call length) is longer than the grace; old and new replicas beside each other cost cards, and
without a surge the batch is missing for as long as the grace (tests/cluster/test_rollout.py).
"""

import numpy as np
import pytest
from scipy.stats import norm

from tests.engine.worlds import step_cost, tape_of
from voicesim.cluster.log import Log
from voicesim.cluster.operations import Operations
from voicesim.cluster.replicas import CUT, DRAINED, Replicas
from voicesim.engine.pool import Pool, PoolEnvironment
from voicesim.engine.spec import PoolSpec
from voicesim.policy import routing
from voicesim.scenario.units import Distribution
from voicesim.workload.lengths import quantile

GRACE = np.array([30.0, 300.0, 600.0, 1800.0, 3600.0])
MEAN, P99 = 360.0, 2700.0
LAW = Distribution("lognormal", {"mean": MEAN, "p99": P99})
MU, SIGMA = LAW.log_scale()
DEPLOY = 5 * 3600.0


def longer(t):
    """P(call longer than t)."""
    return norm.sf((np.log(t) - MU) / SIGMA)


def residual(t):
    """P(remaining time of a call that is met > t) = E[(L - t)+] / E[L]."""
    beyond = MEAN * norm.sf((np.log(t) - MU) / SIGMA - SIGMA) - t * longer(t)
    return beyond / MEAN


@pytest.fixture(scope="module")
def drained():
    """(calls on it, calls cut) of five replicas that drain at one instant, each with its grace.

    A call is two utterances of a token, one at its beginning and one at its end.
    """
    rng = np.random.default_rng(29)
    calls = rng.poisson(8.0 * DEPLOY)
    length = quantile(LAW, rng.random(calls))
    think = np.zeros(2 * calls)
    think[::2] = length
    tape = tape_of(
        np.sort(rng.uniform(0.0, DEPLOY, calls)), np.ones(2 * calls), think=think,
        first=np.arange(0, 2 * calls + 1, 2),
    )  # fmt: skip
    spec = PoolSpec(
        engines=len(GRACE), step=step_cost(memory=0.0, per_kv=0.0, base=1e-3, per_token=0.0),
        schedule=(1,), token_audio=1e-3, routing=routing.LEAST_CALLS, pinned=True,
        horizon=DEPLOY, end=DEPLOY + 4000.0, resolution=600.0,
    )  # fmt: skip
    log = Log()

    def deploy(env, pool):
        replicas = Replicas(
            env, pool, Operations(spec, ["tts"], log), "tts", range(5), 5, lambda n: 0.0, True
        )
        yield env.timeout(DEPLOY)
        for g, grace in enumerate(GRACE):
            replicas.drain(g, grace)

    pool = Pool(spec, tape)
    env = PoolEnvironment(pool)
    env.process(deploy(env, pool))
    env.run(until=env.at(spec.end))
    met, cut = np.zeros(5), np.zeros(5)
    for _, what, _, g, n in log.rows:
        if what == DRAINED:
            met[g] = n
        elif what == CUT:
            cut[g] = n
    return met, cut


def test_calls_cut_are_those_whose_residual_life_is_longer_than_the_grace(drained):
    met, cut = drained
    assert (met > 500).all()  # about 8/s x 360 s / 5
    expected = met * residual(GRACE)
    error = np.sqrt(met * residual(GRACE) * (1 - residual(GRACE)))
    assert (np.abs(cut - expected) < 4 * error).all()


def test_the_law_of_call_lengths_would_promise_too_little(drained):
    """Of calls, 15 % are longer than 10 minutes; of those that a deploy meets, 30 % go on for more
    than 10 minutes."""
    met, cut = drained
    assert longer(600.0) == pytest.approx(0.154, abs=0.001)
    assert residual(600.0) == pytest.approx(0.2956, abs=0.001)
    wrong = met * longer(GRACE)
    error = np.sqrt(met * longer(GRACE) * (1 - longer(GRACE)))
    assert (cut - wrong > 4 * error)[1:4].all()


def test_the_residual_law_is_that_of_the_lengths_drawn():
    """By numbers: the mean of what is beyond t over the mean."""
    length = quantile(LAW, (np.arange(200_000) + 0.5) / 200_000)
    for t in GRACE:
        beyond = np.maximum(length - t, 0.0).mean() / length.mean()
        assert residual(t) == pytest.approx(beyond, rel=0.01)
