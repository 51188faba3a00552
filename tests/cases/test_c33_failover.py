"""C33: a region is lost, and a node is healthy to the probe and silent to its callers.

https://status.livekit.io/incidents/pg8h9qtm88mw (a region isolated; clients moved within a minute)
and https://status.livekit.io/incidents/2kzn387xggrw (a node accepted calls for two and a half hours
and could not carry media).

Must show: survivors of regions at 70 % need 140 %, or refuse; whoever was cut is back within 60 s;
least_streams sends the silent node more than its share, a progress check bounds that to its
interval, errors are seen by ejection.
"""

import dataclasses

import numpy as np
import pytest

from tests.cases.fleets import (
    at_time,
    operations,
    play,
    poisson,
    replicas,
    share_of,
    two_regions,
)
from voicesim.cluster.health import ejection, liveness, progress
from voicesim.engine import layout as at
from voicesim.policy import routing
from voicesim.policy.admission import CAP
from voicesim.scenario.health import Ejection, Liveness, Progress

N, SECONDS, DROP, RATE = 8, 4.0, 1.0, 20.0
FAILS = 100.0


def gray(kind=routing.LEAST_STREAMS, checks=(), **more):
    """One of eight replicas falls silent at 100 s and drops each stream after a second."""
    spec = replicas(N, routing=kind, **more)
    tape = poisson(RATE, 600.0, SECONDS)
    ops = operations(spec)
    processes = [make(rule, ops) for make, rule in checks]
    run, _ = play(spec, tape, at_time(FAILS, lambda p: p.set_gray(3, DROP)), *processes)
    return run


def failed_share(run):
    """Of the callers who came while the replica was silent."""
    asked = run.utterance_f[:, at.Z_REQUEST]
    late = (asked > FAILS + 10.0) & (asked < 590.0)
    return float((run.utterance_i[late, at.R_OUTCOME] == at.FAILED_OUTCOME).mean())


def test_least_streams_prefers_the_silent_node():
    """It levels the live streams: as many requests a second times DROP there as times SECONDS
    elsewhere.  So the silent node gets SECONDS / (SECONDS + 7 DROP) of the callers, not an eighth.
    """
    expected = SECONDS / (SECONDS + (N - 1) * DROP)
    assert expected > 2.5 / N
    assert failed_share(gray()) == pytest.approx(expected, abs=0.03)
    assert failed_share(gray(routing.ROUND_ROBIN)) == pytest.approx(1 / N, abs=0.01)


def test_a_liveness_probe_does_not_see_it():
    run = gray(checks=[(liveness, Liveness())])
    assert failed_share(run) > 2 / N


def test_a_progress_check_bounds_the_damage():
    """No step for 10 s, looked at every 5 s: out 15 s later at most, until it is restarted."""
    rule = Progress(every=5.0, after=10.0, restart=10_000.0)
    run = gray(checks=[(progress, rule)])
    lost = run.utterance_f[run.utterance_i[:, at.R_OUTCOME] == at.FAILED_OUTCOME]
    assert len(lost) > 20
    assert lost[:, at.Z_DONE].max() <= FAILS + 15.0
    assert failed_share(run) < 0.01


def test_outlier_ejection_sees_the_errors():
    """Five in a row, out for 30 s, then 60 s, ...: of 490 s it is in for the 4 or 5 looks at which
    it is put back and found out again (10 s each)."""
    share = failed_share(gray(checks=[(ejection, Ejection())]))
    assert 0.0 < share < 0.4 * failed_share(gray())


def test_retries_before_the_first_audio_save_most():
    run = gray(retries=3, backoff=0.5, full_jitter=True)
    assert failed_share(run) < 0.2 * failed_share(gray())
    cut = run.utterance_i[:, at.R_CHUNKS] > 0
    failed = run.utterance_i[:, at.R_OUTCOME] == at.FAILED_OUTCOME
    assert run.counters["cut"] == (failed & cut).sum() > 0


def erlang_b(offered, places):
    """Share that a loss system refuses (Erlang 1917); the law of the service time is no matter."""
    b = 1.0
    for n in range(1, places + 1):
        b = offered * b / (n + offered * b)
    return b


PLACES = 120


def two(seed=0, each=1, rate=2 * 0.7 * PLACES / SECONDS, **more):
    """Two regions at 70 % each; the first fails at 100 s."""
    spec = replicas(4, admission=CAP, limit=PLACES // 4, **more)
    tape = poisson(rate, 600.0, SECONDS, seed, each)
    rows = np.random.default_rng((seed, 5)).integers(0, 2, tape.sessions)
    tape = dataclasses.replace(tape, row=np.repeat(rows, np.diff(tape.first)))
    spec = dataclasses.replace(spec, others=(spec,), routes=two_regions(spec, spec))

    def lose_a(pool):
        for g in range(4):
            pool.crash(g)

    return play(spec, tape, at_time(FAILS, lose_a))[0]


def test_survivors_of_a_region_need_140_percent():
    """All callers at one region that was at 70 %: it refuses what Erlang's law says, 30 %."""
    run = two()
    asked, outcome = run.utterance_f[:, at.Z_REQUEST], run.utterance_i[:, at.R_OUTCOME]
    after = (asked > FAILS + 30.0) & (asked < 600.0)
    served = after & (outcome == at.COMPLETED)
    held = (run.utterance_f[served, at.Z_DONE] - run.utterance_f[served, at.Z_ADMIT]).mean()
    held -= 0.05  # half of the callers are 0.1 s away
    offered = after.sum() / (600.0 - FAILS - 30.0) * held
    assert offered == pytest.approx(1.4 * PLACES, rel=0.05)
    expected = erlang_b(offered, PLACES)
    assert expected > 1 - 1 / 1.4
    assert (outcome[after] == at.REFUSED).mean() == pytest.approx(expected, abs=0.015)
    before = (asked > 20.0) & (asked < FAILS - 10.0)
    assert (outcome[before] == at.REFUSED).mean() < 0.01


def test_nobody_is_refused_where_the_other_region_can_hold_both():
    run = two(rate=2 * 0.4 * PLACES / SECONDS)
    asked = run.utterance_f[:, at.Z_REQUEST] > FAILS
    assert (run.utterance_i[asked, at.R_OUTCOME] == at.REFUSED).mean() < 0.01


def test_the_herd_comes_back_within_a_minute():
    """Whoever was cut, and only they, ask for the next utterance at a uniform time within 60 s."""
    each = 50
    run = two(each=each, rate=3.5, reconnect=60.0)
    failed = np.flatnonzero(run.utterance_i[:, at.R_OUTCOME] == at.FAILED_OUTCOME)
    assert len(failed) > 50
    again = failed[(failed + 1) % each != 0] + 1
    back = run.utterance_f[again, at.Z_REQUEST] - FAILS
    assert ((back >= 0.0) & (back <= 60.0)).all()
    assert back.mean() == pytest.approx(30.0, abs=4 * 60.0 / np.sqrt(12 * len(back)))
    hung_up = two(each=each, rate=3.5)
    asked = hung_up.utterance_f[again, at.Z_REQUEST] > 0.0
    assert not asked.any()


def test_a_budget_bounds_a_storm_of_retries():
    """A whole pool is silent: without a budget each caller makes four attempts, with one of a tenth
    there are 1.1 requests for each first one (and the 10 in reserve)."""

    def attempts(**more):
        spec = replicas(2, retries=3, backoff=0.2, **more)
        tape = poisson(10.0, 300.0, SECONDS)
        silent = [at_time(0.0, lambda p, g=g: p.set_gray(g, 0.1)) for g in (0, 1)]
        run, pool = play(spec, tape, *silent)
        assert share_of(run, at.FAILED_OUTCOME) == 1.0
        return pool.readings().failed.sum(), tape.sessions

    lost, callers = attempts()
    assert lost == 4 * callers
    lost, callers = attempts(retry_budget=0.1, retry_burst=10.0)
    assert 1.09 * callers < lost <= 1.1 * callers + 10
