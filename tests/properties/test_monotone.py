"""More of what helps never makes it worse, under the same callers; and where it may, that is said.

Two kinds.  Path by path: what holds for every listener of every run, however it was drawn.  In
expectation: the mean of the paired differences over seeds must not be significantly wrong (a
one-sided 99.9 % bound, so a right simulator fails one comparison in a thousand).

Exceptions, which are the model's and the field's, not defects:

- A player that waits longer before the first sound delays the caller's next utterance, and so the
  load, where a call has several utterances; path by path it holds for calls of one.
- A longer way, or a player that waits longer, changes who is served first where that goes by the
  listeners' buffers (edf, pressing, pacing).
- A larger cap refuses fewer, but of those it lets in more may stall: CLEAN can fall
  (test_a_larger_cap_can_cost_clean_calls).
- Where each stream more costs the batch more than it brings (preemption storms), a larger cap can
  refuse more as well.  The steps drawn here do not.
- More patience keeps callers in the queue: fewer leave, and those who stay may hear less.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tests.cases.machine import card, codec, steady
from tests.engine.worlds import random_world, tape_of
from tests.oracles.runs import play
from tests.properties.test_laws import SEEDS, law
from tests.trust import examples
from voicesim.engine import layout as at
from voicesim.policy.admission import ADMIT_ALL, CAP, CAP_QUEUE

HORIZON, RUNS = 60.0, 12


# --- path by path -----------------------------------------------------------------------------


def heard(spec, tape):
    """Of each utterance: outcome, total stall, first sound (s)."""
    r = play(spec, tape)
    z = r.utterance_f
    return r.utterance_i[:, at.R_OUTCOME], z[:, at.Z_STALL], z[:, at.Z_START], z[:, at.Z_REQUEST]


def alone(tape):
    """The same requests, each a call of its own whose caller never hangs up: what a listener does
    then has no effect on anybody else."""
    n = len(tape.tokens)
    arrival = np.sort(np.random.default_rng(n).uniform(0, 10, n))
    return tape_of(arrival, tape.tokens, tape.prompt)


TO_THE_END = {"end": 1e6, "resolution": 1e6}


def blind(spec):
    """Nobody is served by what a listener has in hand: no queue by buffers, no pacing."""
    codec = None if spec.codec is None else replace(spec.codec, queue=0)
    return replace(spec, codec=codec, pace=np.inf, starts=0)


@law()
@given(SEEDS, st.floats(0, 2), st.floats(0, 2))
def test_more_prebuffer_never_stalls_longer(seed, less, more):
    fixed = {"max_queue": np.inf, "max_wait": np.inf, "rebuffer": 0.0, "admission": ADMIT_ALL}
    spec, tape = random_world(seed, may_close=False, **TO_THE_END, **fixed)
    spec, tape = blind(spec), alone(tape)
    low, high = sorted((less, more))
    was, stall, start, _ = heard(replace(spec, prebuffer=low), tape)
    now, shorter, later, _ = heard(replace(spec, prebuffer=high), tape)
    assert (was == now).all()
    assert (shorter <= stall + 1e-9).all()
    assert (later >= start - 1e-9).all()
    # and not for nothing: what is not heard as a stall was waited for
    assert (later + shorter >= start + stall - 1e-9).all()


@law()
@given(SEEDS, st.floats(0, 1))
def test_a_longer_way_delays_the_sound_and_nothing_else(seed, further):
    spec, tape = random_world(seed, may_close=False, admission=ADMIT_ALL, **TO_THE_END)
    spec, tape = blind(spec), alone(tape)
    was, stall, start, asked = heard(replace(spec, delay=0.0), tape)
    now, same, later, asked_then = heard(replace(spec, delay=further), tape)
    assert (was == now).all()
    assert np.array_equal(asked, asked_then)
    assert same == pytest.approx(stall, abs=1e-6)
    done = was == at.COMPLETED
    assert later[done] == pytest.approx(start[done] + further, abs=1e-6)


@law()
@given(SEEDS, st.floats(1, 3))
def test_a_faster_card_is_never_later(seed, times):
    """One stream at a time, so nobody's luck is another's: every chunk comes no later."""
    spec, tape = random_world(
        seed, may_close=False, admission=ADMIT_ALL, noise=None, engines=1, max_num_seqs=1,
        codec=None, jitter=np.zeros(4096), kind=0, prebuffer=0.0, rebuffer=0.0,
        max_engine_queue=1 << 40, pace=np.inf, starts=0,  # of one slot none can be kept free
    )  # fmt: skip
    tape = alone(tape)
    step = spec.step
    params = step.params.copy()
    params[[0, 1, 2, 4, 5, 6, 7]] *= times
    slow = replace(spec, step=replace(step, params=params, compute_s=times * step.compute_s))
    was, _, start, _ = heard(slow, tape)
    now, _, sooner, _ = heard(spec, tape)
    done = (was == at.COMPLETED) & (now == at.COMPLETED)
    assert (now[was == at.COMPLETED] == at.COMPLETED).all()
    assert (sooner[done] <= start[done] + 1e-9).all()


# --- in expectation, under the same callers ---------------------------------------------------


def shares(r):
    """(refused, abandoned, CLEAN within 1 s and 100 ms) of all offered."""
    i, z = r.utterance_i, r.utterance_f
    asked = i[:, at.R_OUTCOME] != at.PENDING
    done = i[:, at.R_OUTCOME] == at.COMPLETED
    clean = done & (z[:, at.Z_START] - z[:, at.Z_REQUEST] <= 1) & (z[:, at.Z_STALL_MAX] <= 0.1)
    n = asked.sum()
    return [(i[:, at.R_OUTCOME] == o).sum() / n for o in (at.REFUSED, at.ABANDONED)] + [
        clean.sum() / n
    ]


REFUSED, ABANDONED, CLEAN = range(3)


def paired(one, other, which, rate, impatient=False):
    """Share under ``other`` less that under ``one``, seed by seed."""
    found = []
    for seed in range(RUNS):
        tape = steady(rate, HORIZON, seed)
        patience = np.random.default_rng((seed, 7)).exponential(3.0, len(tape.tokens))
        if impatient:
            tape = replace(tape, patience=patience)
        if callable(other):
            a, b = play(one, tape), play(*other(one, tape))
        else:
            a, b = play(one, tape), play(other, tape)
        found.append(shares(b)[which] - shares(a)[which])
    return np.array(found)


def never_more(differences) -> bool:
    """Is the mean not significantly above 0 (99.9 %, one-sided, however many are asked)?"""
    x = np.asarray(differences)
    half = stats.t.ppf(1 - 0.001 / examples(1), len(x) - 1) * x.std(ddof=1) / np.sqrt(len(x))
    return bool(x.mean() - half <= 0)


def draw(seed):
    """A card, a load around what it holds, and a cap."""
    rng = np.random.default_rng(seed)
    stage = codec(rng.uniform(0.5, 3), cap=int(rng.integers(1, 9)))
    spec = card(
        (int(rng.integers(1, 9)), 25), codec=stage,
        horizon=HORIZON, end=HORIZON + 300, record_chunks=False,
    )  # fmt: skip
    return spec, float(rng.uniform(2, 14)), int(rng.integers(4, 40))


@law(5)
@given(SEEDS, st.integers(1, 20))
def test_a_larger_cap_never_refuses_more(seed, room):
    spec, rate, cap = draw(seed)
    small, large = (replace(spec, admission=CAP, limit=n) for n in (cap, cap + room))
    assert never_more(paired(small, large, REFUSED, rate))


@law(5)
@given(SEEDS, st.integers(1, 3))
def test_more_replicas_never_fewer_clean_calls(seed, more):
    spec, rate, cap = draw(seed)
    spec = replace(spec, admission=CAP, limit=cap)
    assert never_more(-paired(spec, replace(spec, engines=1 + more), CLEAN, rate))


@law(5)
@given(SEEDS, st.floats(0.2, 3))
def test_a_longer_queue_never_refuses_more(seed, longer):
    """A later deadline at the gateway: fewer are refused."""
    spec, rate, cap = draw(seed)
    short = replace(spec, admission=CAP_QUEUE, limit=cap, deadline=0.3)
    assert never_more(paired(short, replace(short, deadline=0.3 + longer), REFUSED, rate))


@law(5)
@given(SEEDS, st.floats(1.2, 4))
def test_more_patience_never_leaves_more(seed, times):
    spec, rate, cap = draw(seed)
    spec = replace(spec, admission=CAP_QUEUE, limit=cap)

    def patient(one, tape):
        return one, replace(tape, patience=times * tape.patience)

    assert never_more(paired(spec, patient, ABANDONED, rate, impatient=True))


@law(5)
@given(SEEDS, st.floats(1.1, 3))
def test_a_slower_codec_never_more_clean_calls(seed, times):
    """Where the first chunk holds what the second takes to come; see the exception below."""
    spec, rate, cap = draw(seed)
    spec = replace(spec, admission=CAP, limit=cap, schedule=(10, 25))
    slow = replace(spec, codec=replace(spec.codec, cost=times * spec.codec.cost))
    assert never_more(paired(spec, slow, CLEAN, rate))


def test_a_slower_codec_can_hide_the_first_seam():
    """A documented exception: one frame first and 25 then, and nearly everybody hears the seam.
    A codec that is late with the first chunk begins the sound later, as a prebuffer would, and
    for some calls that is enough."""
    spec, rate, cap = draw(116291)
    assert spec.schedule == (1, 25)
    spec = replace(spec, admission=CAP, limit=cap)
    slow = replace(spec, codec=replace(spec.codec, cost=2.6 * spec.codec.cost))
    more = paired(spec, slow, CLEAN, rate)
    half = stats.t.ppf(0.999, RUNS - 1) * more.std(ddof=1) / np.sqrt(RUNS)
    assert more.mean() - half > 0.0
    assert shares(play(spec, steady(rate, HORIZON, 0)))[CLEAN] < 0.05


def test_a_larger_cap_can_cost_clean_calls():
    """The documented exception, so that nobody takes it for a law: in overload a cap beyond what
    the card keeps in real time lets more in, and nearly everybody stall."""
    spec = card((10, 25), codec=codec(3.0, left_context=25), horizon=HORIZON, end=HORIZON + 300)
    small, large = (replace(spec, admission=CAP, limit=n) for n in (12, 60))
    lost = -paired(small, large, CLEAN, 10.0)
    half = stats.t.ppf(0.999, RUNS - 1) * lost.std(ddof=1) / np.sqrt(RUNS)
    assert lost.mean() - half > 0.3
    assert never_more(paired(small, large, REFUSED, 10.0))
