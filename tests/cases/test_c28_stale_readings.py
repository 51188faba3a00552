"""C28: readings that are out of date let too many in, and send everybody to one worker.

LiveKit's agent workers reported their load every 0.5 s: two jobs inside that window both passed a
limit of one; the fix counts what was assigned since (https://github.com/livekit/agents/issues/4884,
https://github.com/livekit/agents/pull/4911).  Earlier, routing went by reports every 10 s, and the
choice was made at random so as not to herd (https://github.com/livekit/livekit/pull/2902).

Must show: over-admission with probability 1 - exp(-lambda T), T the time between two readings, and
never where what was sent since counts; least_streams on reports every 10 s sends a burst to one
worker.
"""

import numpy as np
import pytest

from tests.cases.fleets import STEP, play, refreshed, replicas
from tests.engine.worlds import tape_of
from voicesim.engine import layout as at
from voicesim.policy import routing
from voicesim.policy.admission import CAP

WINDOW, RATE, APART, EPISODES = 0.5, 2.0, 8.0, 1500
WORKERS, JOBS = 8, 64


def episodes(seed=1):
    """Every 8 s a job just after a reading and others at random; (arrivals, episode of each)."""
    rng = np.random.default_rng(seed)
    found = []
    for k in range(EPISODES):
        others = rng.exponential(1.0 / RATE, 40).cumsum()
        found += [(k * APART + t, k) for t in (0.001, *(0.001 + others[others < 2.0]))]
    arrival, episode = np.array(found).T
    return arrival, episode.astype(int)


def over_admitted(**more):
    """Share of the episodes in which a second job ran on a worker with a limit of one."""
    arrival, episode = episodes()
    tape = tape_of(arrival, np.full(len(arrival), int(4.0 / STEP)))  # longer than any of it lasts
    spec = replicas(
        1, admission=CAP, limit=1, horizon=APART * EPISODES, end=APART * EPISODES, **more
    )
    run, _ = play(spec, tape, refreshed(WINDOW))
    taken = run.utterance_i[:, at.R_OUTCOME] == at.COMPLETED
    return float((np.bincount(episode[taken], minlength=EPISODES) > 1).mean())


def test_a_second_job_gets_in_when_it_comes_before_the_next_reading():
    expected = 1.0 - np.exp(-RATE * (WINDOW - 0.001))
    error = np.sqrt(expected * (1 - expected) / EPISODES)
    assert over_admitted(stale=True) == pytest.approx(expected, abs=4 * error)


def test_counting_what_was_sent_since_lets_nobody_in():
    assert over_admitted(stale=True, reserves=True) == 0.0
    assert over_admitted() == 0.0


def spread(kind, age, reserves=False):
    """Jobs on each of eight workers, of 64 that come within 100 ms."""
    arrival = 0.5 + np.sort(np.random.default_rng(3).uniform(0.0, 0.1, JOBS))
    tape = tape_of(arrival, np.full(JOBS, 100))
    spec = replicas(WORKERS, routing=kind, stale=age > 0.0, reserves=reserves, limit=64)
    run, _ = play(spec, tape, *([refreshed(age)] if age else []))
    return np.bincount(run.utterance_i[:, at.R_ENGINE], minlength=WORKERS)


def test_reports_every_ten_seconds_herd_onto_one_worker():
    assert spread(routing.LEAST_STREAMS, 10.0).tolist() == [JOBS] + 7 * [0]
    assert spread(routing.LEAST_STREAMS, 0.0).tolist() == WORKERS * [JOBS // WORKERS]


def test_reservations_and_chance_both_spread_them():
    assert spread(routing.LEAST_STREAMS, 10.0, reserves=True).tolist() == WORKERS * [8]
    by_chance = spread(routing.INVERSE_PROB, 10.0)
    assert by_chance.max() <= 16  # 8 on average, spread of 2.6
    assert by_chance.min() >= 1


def test_packing_fills_one_worker_after_the_other():
    arrival = np.arange(24) * 0.01
    spec = replicas(WORKERS, routing=routing.PACK, limit=10)
    run, _ = play(spec, tape_of(arrival, np.full(24, 100)))
    counts = np.bincount(run.utterance_i[:, at.R_ENGINE], minlength=WORKERS)
    assert counts.tolist() == [10, 10, 4, 0, 0, 0, 0, 0]


def test_a_call_keeps_its_replica_within_a_quarter_over_the_mean():
    """Consistent hashing with bounded loads: no replica over 1.25 times the mean (of those that
    speak, with the one that asks), and most calls stay where they began."""
    rng = np.random.default_rng(4)
    arrival = np.sort(rng.uniform(0.0, 60.0, 400))
    tape = tape_of(arrival, np.full(4000, 50), first=np.arange(401) * 10)
    spec = replicas(WORKERS, routing=routing.BOUNDED_HASH, epsilon=0.25)
    worst = []

    def watch(env, pool):
        for _ in range(140):
            yield env.timeout(0.5)
            live = pool.readings().live
            if env.now > 20.0:
                worst.append(live.max() - 1.25 * (live.mean() + 1.0 / WORKERS))

    run, _ = play(spec, tape, watch)
    stayed = np.diff(run.utterance_i[:, at.R_ENGINE].reshape(-1, 10), axis=1) == 0
    plain, _ = play(replicas(WORKERS), tape)
    by_load = np.diff(plain.utterance_i[:, at.R_ENGINE].reshape(-1, 10), axis=1) == 0
    assert stayed.mean() > 0.5 > by_load.mean()
    # what leaves between two requests lowers the mean and not the most
    assert np.mean(np.array(worst) <= 1.0) > 0.8
