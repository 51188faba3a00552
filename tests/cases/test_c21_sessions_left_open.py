"""C21: realtime sessions that hold memory while nobody speaks.

https://github.com/vllm-project/vllm/issues/46815, https://github.com/vllm-project/vllm/pull/44461,
https://github.com/vllm-project/vllm/issues/38233: a websocket left open without a final commit
keeps its KV cache for ever; usage creeps to 100 % and those who speak stop silently.  5 callers/s,
5 % of them leave their session open; 160 + 80 tokens each, 15 blocks (the last token is not
computed).

Must show: without a time-out memory is used up in a straight line; with one, lambda p T sessions
more are held (Little); refused and stalled callers are counted apart.
"""

import dataclasses

import numpy as np
import pytest

from tests.engine.worlds import step_cost, tape_of
from voicesim.engine import layout as at
from voicesim.engine.pool import Pool, record
from voicesim.engine.spec import INF, PoolSpec
from voicesim.policy.admission import CAP

RATE, SHARE, BLOCKS, EACH, HORIZON = 5.0, 0.05, 2400, 15, 1500.0
TIMEOUTS = (INF, 30.0, 300.0)


def play(left_open: float, timeout: float):
    """(blocks in use at every second, the run)."""
    n = int(RATE * HORIZON)
    arrival = np.sort(np.random.default_rng(1).uniform(0, HORIZON, n))
    spec = PoolSpec(
        engines=1, step=step_cost(memory=0.0, base=0.01, per_token=2e-5, norm=1.0), schedule=(25,),
        blocks=BLOCKS, left_open=left_open, idle_timeout=timeout, horizon=HORIZON, end=HORIZON,
        admission=CAP, limit=32, seed=11,
    )  # fmt: skip
    pool = Pool(spec, tape_of(arrival, np.full(n, 80), np.full(n, 160)))
    used = []
    for t in range(int(HORIZON)):
        pool.advance(float(t))
        used.append(BLOCKS - int(pool.gauges()[2][0]))
    pool.advance(HORIZON)
    return np.array(used), record(pool)


@pytest.fixture(scope="module")
def runs():
    return {timeout: play(SHARE, timeout) for timeout in TIMEOUTS} | {0.0: play(0.0, INF)}


def completed(r, since, until):
    z = r.utterance_f[r.utterance_i[:, at.R_OUTCOME] == at.COMPLETED, at.Z_DONE]
    return int(((z >= since) & (z < until)).sum())


def test_without_a_timeout_memory_is_used_up_in_a_straight_line(runs):
    """15 blocks x 0.25 sessions/s = 3.75 blocks/s: 2,400 are gone after about 600 s, and then
    nobody is served any more."""
    used, r = runs[INF]
    smooth = used[:560].reshape(-1, 40).mean(axis=1)
    assert (np.diff(smooth) > 0).all()
    slope = np.polyfit(np.arange(40, 540), used[40:540], 1)[0]
    random = 3.5 / np.sqrt(500 * RATE * SHARE)  # 125 sessions, a Poisson number
    assert slope == pytest.approx(EACH * RATE * SHARE, rel=random)
    assert used[800:].min() > BLOCKS - EACH
    assert completed(r, 100, 400) == pytest.approx(300 * RATE, rel=0.1)
    assert completed(r, 800, HORIZON) == 0


@pytest.mark.parametrize("timeout", [30.0, 300.0])
def test_with_a_timeout_little_says_what_is_held(runs, timeout):
    """lambda p T sessions more than without abandoned ones; and everybody is served."""
    used, r = runs[timeout]
    quiet, _ = runs[0.0]
    held = RATE * SHARE * timeout
    more = (used[400:].mean() - quiet[400:].mean()) / EACH
    # a Poisson number, seen over 1100 s / timeout independent windows
    sd = np.sqrt(held / (1100 / timeout))
    assert more == pytest.approx(held, abs=3.5 * sd)
    assert (r.utterance_i[:, at.R_OUTCOME] != at.REFUSED).all()
    assert completed(r, 100, 1400) == pytest.approx(1300 * RATE, rel=0.05)


def test_the_refused_and_the_stalled_are_counted_apart(runs):
    """When memory is gone 32 streams are in and never end; all later callers are refused."""
    _, r = runs[INF]
    outcome, request = r.utterance_i[:, at.R_OUTCOME], r.utterance_f[:, at.Z_REQUEST]
    never = outcome == at.PENDING
    assert never.sum() == 32
    late = (outcome == at.REFUSED) & (request > 800)
    assert late.sum() == pytest.approx(700 * RATE, rel=0.06)
    assert r.series[900:, at.B_STALLS].sum() == 0  # who hears nothing more has no further stall


def test_a_share_of_nobody_changes_nothing():
    used, r = play(0.0, 30.0)
    plain, same = play(0.0, INF)
    assert (used == plain).all()
    assert all(
        np.array_equal(getattr(r, f.name), getattr(same, f.name))
        for f in dataclasses.fields(r)
        if f.name.startswith("utterance")
    )
