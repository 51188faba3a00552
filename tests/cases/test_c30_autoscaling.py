"""C30: autoscaling on the wrong signal, with a real start-up delay, into a peak.

Agents are full at 5 to 15 % of their CPU, so that CPU never scales; the advice is sessions per
worker (https://www.livekit-academy.com/courses/deploy-monitor-scale/auto-scaling).  A start takes
45 s for the node, 20 s for the image, 20 s for the weights, and a first request 105 s for its
graphs (https://github.com/tensorfuse/tensorfuse-examples/issues/1,
https://github.com/0xShug0/audio.cpp/issues/101); simulators left that out
(https://github.com/inference-sim/inference-sim/issues/994).

Must show: cpu and kv never order a replica; waiting orders after the first stall, sessions and the
chunk gap before it; stall minutes rise with the cold start; a start in no time must be said.

scenarios/autoscaling.yaml, cut to the rise and a few minutes at the top, over three seeds.
"""

from pathlib import Path

import numpy as np
import pytest

from voicesim.metrics.paid import first_order
from voicesim.metrics.tables import streams
from voicesim.scenario import load
from voicesim.simulation import simulate

FILE = Path(__file__).resolve().parents[2] / "scenarios" / "autoscaling.yaml"
SHORT = ["horizon=13min", "drain=1min", "workload.arrivals.at=2min", "workload.arrivals.rise=8min"]
SEEDS = (1, 2, 3)


@pytest.fixture(scope="module")
def runs():
    return {
        (name, seed): simulate(scenario)
        for seed in SEEDS
        for name, scenario in load(FILE, [*SHORT, f"seed={seed}"]).variants.items()
    }


def stall_minutes(run):
    return streams(run)["stall_total_s"].sum() / 60.0


@pytest.mark.parametrize("name", ["cpu", "kv"])
@pytest.mark.parametrize("seed", SEEDS)
def test_cpu_and_kv_never_order_a_replica(runs, name, seed):
    run = runs[name, seed]
    assert first_order(run) is None
    assert stall_minutes(run) > 30.0  # though calls stall all the time


@pytest.mark.parametrize("seed", SEEDS)
def test_waiting_orders_after_the_first_stall_and_sessions_before_it(runs, seed):
    waiting, sessions = runs["waiting", seed], runs["sessions", seed]
    stalled = waiting.record.first_stall  # as of everybody who does nothing until then
    assert stalled < np.inf
    assert first_order(waiting) > stalled
    assert first_order(sessions) < stalled - 30.0
    assert first_order(runs["gap", seed]) < stalled
    assert stall_minutes(sessions) < 0.25 * stall_minutes(waiting)


@pytest.mark.parametrize("seed", SEEDS)
def test_stall_minutes_rise_with_the_cold_start(runs, seed):
    minutes = [
        stall_minutes(runs[name, seed])
        for name in ("sessions_at_once", "sessions", "sessions_190s")
    ]
    assert minutes[0] <= minutes[1] < minutes[2]
    assert minutes[2] > 1.0


@pytest.mark.parametrize("seed", SEEDS)
def test_the_same_callers_whatever_the_signal(runs, seed):
    arrivals = [run.tape.arrival for (_, s), run in runs.items() if s == seed]
    assert all(np.array_equal(arrivals[0], each) for each in arrivals)
