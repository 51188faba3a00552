"""Routing and admission rules by hand, and their order on one tape."""

import dataclasses

import pytest

from tests.engine.worlds import tape_of
from tests.oracles.runs import play, poisson_tape, sojourns, spec_of, step_of
from voicesim.engine import layout as at
from voicesim.policy.admission import (
    ADMIT,
    ADMIT_ALL,
    CAP,
    QUEUE,
    REFUSE,
    SLACK,
    cap,
    cap_queue,
    slack_of,
)  # fmt: skip
from voicesim.policy.routing import (
    LEAST_STREAMS,
    POWER_OF_TWO,
    ROUND_ROBIN,
)  # fmt: skip


def test_admission_rules():
    assert [cap(n, 2) for n in (0, 1, 2, 3)] == [ADMIT, ADMIT, REFUSE, REFUSE]
    assert cap_queue(1, 2, 0, 5) == ADMIT
    assert cap_queue(1, 2, 1, 5) == QUEUE  # nobody overtakes
    assert cap_queue(2, 2, 5, 5) == REFUSE
    assert cap_queue(2, 2, 0, 0) == REFUSE
    # 1 s of audio left; 10 steps of 50 ms and 0.2 s of codec until the next chunk
    assert slack_of(11.0, 10.0, 10, 0.05, 0.2) == pytest.approx(0.3)


def test_a_cap_is_never_exceeded_and_a_wide_one_is_none():
    spec = spec_of(step_of(lambda n: 0.01), admission=CAP, limit=7)
    tape = poisson_tape(1, 20.0, 200.0, "geometric", 100)
    assert play(spec, tape).counters["max_batch"] == 7
    wide = play(dataclasses.replace(spec, limit=10**6), tape)
    assert not (wide.utterance_i[:, at.R_OUTCOME] == at.REFUSED).any()


def test_slack_keeps_the_started_playing():
    """In overload admit-all makes most of them stall; slack refuses some, the others play on."""
    step = step_of(lambda n: 0.01 + 0.002 * n)
    tape = poisson_tape(2, 15.0, 100.0, "geometric", 100)
    stalled, started = {}, {}
    for rule in (ADMIT_ALL, SLACK):
        spec = spec_of(step, admission=rule, lead=0.5, schedule=(16, 16), token_audio=0.08)
        r = play(spec, tape)
        done = r.utterance_i[:, at.R_OUTCOME] == at.COMPLETED
        stalled[rule] = (r.utterance_f[done, at.Z_STALL_MAX] > 0.1).mean()
        started[rule] = int(done.sum())
    assert stalled[ADMIT_ALL] > 0.5
    assert stalled[SLACK] < 0.1 * stalled[ADMIT_ALL]
    assert 0 < started[SLACK] < started[ADMIT_ALL] == len(tape.tokens)


def test_slack_counts_those_it_has_just_let_in():
    """One caller plays; 200 more come in one instant, between two steps.  A step of n streams takes
    10 + 2 n ms and a token is 80 ms of audio, so beyond 35 streams the first one loses its lead:
    the policy promises to keep it, so it cannot let all of them in."""
    spec = spec_of(
        step_of(lambda n: 0.01 + 0.002 * n), admission=SLACK, lead=0.5, schedule=(16, 16),
        token_audio=0.08,
    )  # fmt: skip
    r = play(spec, tape_of([0.0] + [2.0] * 200, [400] * 201, [1] * 201))
    assert r.utterance_f[0, at.Z_STALL_MAX] == 0.0


def test_a_better_look_means_a_shorter_stay():
    """20 replicas at rho = 0.9, each a processor-sharing server (T(n) = n x 25 ms, 40 tokens).

    Random splitting gives M/M/1-PS, 1/(1 - rho) = 10; two choices among many replicas
    sum rho^(2^i - 1) / rho = 2.6141 (Mitzenmacher 1996), from above as replicas grow; a full view
    must beat both, and nobody is faster than 1, the stay alone on a replica.
    """
    tape = poisson_tape(4, 18.0, 1500.0, "geometric", 40)
    stay = {}
    for rule in (ROUND_ROBIN, POWER_OF_TWO, LEAST_STREAMS):
        spec = spec_of(step_of(lambda n: 0.025 * n), routing=rule)
        stay[rule] = sojourns(play(dataclasses.replace(spec, engines=20), tape), 100.0).mean()
    assert 1.0 < stay[LEAST_STREAMS] < stay[POWER_OF_TWO] < stay[ROUND_ROBIN] < 10.0
    assert stay[POWER_OF_TWO] > 2.6141
