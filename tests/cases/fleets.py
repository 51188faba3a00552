"""Small fleets, made by hand: replicas whose step takes a stated time whoever is in it."""

import numpy as np

from tests.engine.worlds import step_cost, tape_of
from voicesim.cluster.log import Log
from voicesim.cluster.operations import Operations
from voicesim.engine import layout as at
from voicesim.engine.pool import Pool, PoolEnvironment, record
from voicesim.engine.spec import PoolSpec, Routes

STEP = 0.04
"""Seconds of a decode step, and of the prompt's (half of the audio of a token)."""


def replicas(n, **more) -> PoolSpec:
    """``n`` replicas on which every stream takes its tokens times STEP, whoever is beside it."""
    cost = step_cost(memory=STEP, per_kv=0.0, base=0.0, per_token=0.0, norm=1.0)
    fixed = {"token_audio": 2 * STEP, "schedule": (5,), "budget": 1 << 20, "max_num_seqs": 4096}
    fixed |= {"horizon": 600.0, "end": 700.0, "resolution": 10.0, "record_chunks": False}
    return PoolSpec(**{"engines": n, "step": cost, **fixed, **more})


def poisson(rate, until, seconds, seed=0, each=1):
    """Callers of ``each`` utterances that last exponentially long, in whole steps, on a replica."""
    rng = np.random.default_rng(seed)
    arrival = np.cumsum(rng.exponential(1.0 / rate, int(rate * until * 1.2) + 50))
    arrival = arrival[arrival < until]
    tokens = np.maximum(1, np.round(rng.exponential(seconds / STEP, len(arrival) * each)))
    first = np.arange(len(arrival) + 1) * each
    return tape_of(arrival, tokens, first=first)


def play(spec, tape, *processes):
    """The record, and the pool after the run."""
    pool = Pool(spec, tape)
    env = PoolEnvironment(pool)
    for process in processes:
        env.process(process(env, pool))
    env.run(until=env.at(spec.end))
    return record(pool), pool


def refreshed(every):
    """The router reads so often."""

    def process(env, pool):
        k = 0
        while True:
            pool.refresh_readings()
            k += 1
            yield env.timeout(k * every - env.now)

    return process


def at_time(t, act):
    """Do something to the pool at t."""

    def process(env, pool):
        yield env.timeout(t)
        act(pool)

    return process


def operations(spec, *names) -> Operations:
    """What the health checks of a fleet share."""
    return Operations(spec, list(names or ["tts"]), Log())


def share_of(run, outcome):
    """Share of the utterances that were asked for and came to this."""
    outcomes = run.utterance_i[:, at.R_OUTCOME]
    return float((outcomes == outcome).sum() / (outcomes != at.PENDING).sum())


def two_regions(spec: PoolSpec, other: PoolSpec) -> Routes:
    """Half of the callers in each of two regions; whom the own one does not take goes to the other.

    The tape's rows are 0 and 1.
    """
    far = np.array([[0.0, 0.1], [0.1, 0.0]])
    return Routes(np.array([[0, 1], [1, 0]]), np.array([[0, 1], [0, 1]]), far, np.ones((2, 2)))
