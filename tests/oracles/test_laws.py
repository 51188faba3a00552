"""What must hold in every run: Little, conservation, latency x throughput, determinism, an end.

Worlds are drawn at random (tests.engine.worlds) and played by the kernel.
"""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.engine.worlds import differences, random_world, tape_of
from tests.oracles.runs import play, poisson_tape, spec_of, step_of
from tests.session.worlds import random_dialogue
from voicesim.engine import layout as at
from voicesim.engine.kinds import mixes, must_fit
from voicesim.engine.little import LittleError, check_little
from voicesim.engine.pool import Pool, record
from voicesim.engine.spec import CodecSpec
from voicesim.session.dialogue import Dialogue
from voicesim.session.dialogue import record as record_of
from voicesim.workload.tape import draw_tape

SEEDS = st.integers(0, 2**32)
INF = np.inf


def world(seed, **fixed):
    """A random world that runs until nothing is left of it."""
    fixed = {"end": 1e6, "resolution": 1e6, "record_chunks": True, "left_open": 0.0, **fixed}
    return random_world(seed, **fixed)


# --- Little -----------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_little_is_exact_from_empty_to_empty(seed):
    """The area under the number of live streams = the sum of their stays, engine by engine.

    A stream is live from admission until its last chunk leaves the server (no caller hangs up,
    no step is seen late).
    """
    spec, tape = world(seed, overlap=False, delay=0.0, jitter=np.zeros(4096))
    r = play(spec, dataclasses.replace(tape, patience=np.full(len(tape.tokens), INF)))
    done = r.utterance_i[:, at.R_OUTCOME] == at.COMPLETED
    stay = (r.utterance_f[:, at.Z_DONE] - r.utterance_f[:, at.Z_ADMIT])[done]
    on = r.utterance_i[done, at.R_ENGINE]
    area = np.bincount(on, stay, spec.engines)
    assert r.live_area == pytest.approx(area, rel=1e-9, abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.sampled_from([0.5, 2.0]))
@example(2182612, 0.5)  # cancelled while a step ran, and overlapped scheduling had planned the next
def test_every_run_is_held_to_little(seed, wrong):
    """What simulate() checks holds in any world, and does not if the area is another's."""
    spec, tape = random_world(seed)
    r = play(spec, tape)
    check_little(spec, r)
    settled = spec.resolution * len(tape.tokens) < r.live_area.sum() / 3
    if settled and not r.counters["live_calls"]:
        with pytest.raises(LittleError, match="does not hold"):
            check_little(spec, dataclasses.replace(r, live_area=wrong * r.live_area))


@settings(max_examples=20, deadline=None)
@given(SEEDS)
def test_every_stage_of_a_dialogue_is_held_to_little(seed):
    spec, tape = random_dialogue(seed)
    dialogue = Dialogue(spec, tape)
    dialogue.advance(spec.end)
    for pool, r in zip(spec.pools, record_of(dialogue).pools, strict=True):
        check_little(pool, r)


def test_little_in_the_long_run():
    """Mean live streams, sampled by a clock, = completions per second x mean stay (to the edges:
    at most the streams that are live at either end)."""
    end = 2000.0
    spec = spec_of(
        step_of(lambda n: 0.01 + 0.0005 * n), resolution=1 / 64, end=end, horizon=end,
        codec=CodecSpec(np.array([0.005, 0.0, 1e-4]), cap=4), schedule=(2, 25),
    )  # fmt: skip
    r = play(spec, poisson_tape(3, 5.0, end, "lognormal", 100))
    done = r.utterance_i[:, at.R_OUTCOME] == at.COMPLETED
    stays = (r.utterance_f[:, at.Z_DONE] - r.utterance_f[:, at.Z_ADMIT])[done]
    live = r.series[:-1, at.B_LIVE]
    # a clock of period dt sees each stay within one tick: error <= arrivals x dt / end
    edge = (live[0] + live[-1]) * stays.max() / end + 5.0 / 64
    assert live.mean() == pytest.approx(stays.sum() / end, abs=edge)
    assert live.mean() == pytest.approx(r.live_area[0] / end, abs=edge)


@pytest.mark.parametrize("resolution", [1.0, 0.25, 0.1, 0.01, 0.3])
def test_the_gauges_are_read_at_every_edge(resolution):
    """Row k holds what is live at k x resolution, also where k x resolution / resolution < k in
    floating point (0.29 / 0.01 = 28.999999999999996)."""
    step = step_of(lambda n: 0.01)
    spec = spec_of(step, resolution=resolution, end=30.0, horizon=30.0)
    r = play(spec, tape_of([0.0] * 3, [10_000] * 3, [1] * 3))
    live = r.series[1 : int(30 / resolution) - 1, at.B_LIVE]
    assert (live == 3).all(), np.flatnonzero(live != 3) + 1


# --- conservation -----------------------------------------------------------------------------


def outcomes(r):
    return np.bincount(r.utterance_i[:, at.R_OUTCOME], minlength=5)


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.lists(st.floats(0.0, 15.0), max_size=3))
def test_every_request_is_accounted_for_at_any_time(seed, stops):
    """offered = completed + refused + abandoned + failed + live, whenever one looks."""
    spec, tape = world(seed, may_close=False)
    pool = Pool(spec, tape)
    for stop in [*sorted(stops), spec.end]:
        pool.advance(stop)
        rows = pool.section(at.O_RES)
        r = record(pool)
        live = int((rows[:, at.R_SLOT] >= 0).sum())
        has_outcome = int((r.utterance_i[:, at.R_OUTCOME] != at.PENDING).sum())
        offered = len(np.flatnonzero((rows[:, at.R_SLOT] >= 0) | (rows[:, at.R_OUTCOME] > 0)))
        assert offered == has_outcome + live
        calls = r.series[:, at.B_CALLS].sum()
        assert calls == np.searchsorted(tape.arrival, stop, side="right")
    assert live == 0
    assert r.counters["live_calls"] == 0
    counts = outcomes(r)
    assert r.series[:, at.B_REFUSED].sum() == counts[at.REFUSED]
    assert r.series[:, at.B_ABANDONED].sum() == counts[at.ABANDONED]
    assert r.counters["failed"] == counts[at.FAILED_OUTCOME]


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_audio_is_conserved(seed):
    """Seconds sent = tokens of the completed x audio a token (+ chunks sent to callers who hung
    up while they were on the way); what the player drops is a part of it."""
    spec, tape = world(seed)
    r = play(spec, tape)
    done = r.utterance_i[:, at.R_OUTCOME] == at.COMPLETED
    sent = np.bincount(r.chunk_i[:, at.L_UTT], r.chunk_f[:, at.M_AUDIO], len(tape.tokens))
    whole = tape.tokens * spec.token_audio
    assert sent[done] == pytest.approx(whole[done])
    assert (sent[~done] <= whole[~done] + 1e-9).all()
    lost = r.utterance_f[:, at.Z_LOST]
    assert (lost >= 0).all()
    assert (lost <= sent + 1e-9).all()
    if spec.max_queue == INF:
        assert not lost.any()


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.booleans())
def test_tokens_are_conserved(seed, overlap):
    """Token steps = tokens of completed streams + tokens thrown away with cancelled ones
    (+ with overlap, one step after the end of every completed stream, unless that step had prompts
    alone)."""
    more = {"blocks": 1 << 30} if overlap else {}
    spec, tape = world(seed, overlap=overlap, **more)
    if overlap:
        tape = dataclasses.replace(tape, patience=np.full(len(tape.tokens), INF))
    r = play(spec, tape)
    done = r.utterance_i[:, at.R_OUTCOME] == at.COMPLETED
    late = int(done.sum()) if overlap else 0
    tokens = int(tape.tokens[done].sum())
    extra = r.counters["stream_steps"] - tokens - r.counters["discarded_tokens"]
    assert extra == late if mixes(spec.kind, spec.mixed_chunk) else 0 <= extra <= late
    if np.isinf(tape.patience).all() and r.counters["preemptions"] == 0:
        computed = r.counters["prefill_tokens"] + r.counters["cached_tokens"]
        assert computed == int(tape.prompt[done].sum())
        assert r.counters["recomputed_tokens"] == 0


def tokens_held(pool):
    """Token steps done for the streams that are somewhere in the pool: generated, or in flight."""
    streams, engines = pool.section(at.O_STREAM), pool.section(at.O_ENGINE)
    held = 0
    for row in streams[streams[:, at.S_STATE] >= at.WAITING]:
        if row[at.S_STATE] == at.DECODING:
            engine = engines[row[at.S_ENGINE]]
            held += (
                engine[at.E_STEP]
                - row[at.S_OFF]
                + (engine[at.E_STEPPING] != 0 and engine[at.E_PAUSED] == 0)
            )
        elif row[at.S_STATE] != at.GENERATED or not row[at.S_ABORT]:
            held += row[at.S_GEN]
    return int(held)


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.lists(st.floats(0.0, 15.0), min_size=1, max_size=4))
def test_tokens_are_conserved_at_any_time(seed, stops):
    """Token steps = completed + thrown away + generated or in flight in streams that still live."""
    spec, tape = world(seed, overlap=False)
    pool = Pool(spec, tape)
    for stop in sorted(stops):
        pool.advance(stop)
        r = record(pool)
        done = r.utterance_i[:, at.R_OUTCOME] == at.COMPLETED
        assert r.counters["stream_steps"] == (
            int(tape.tokens[done].sum()) + r.counters["discarded_tokens"] + tokens_held(pool)
        )


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.integers(0, 4))
def test_memory_comes_back_and_exhaustion_ends(seed, spare):
    """Every stream fits alone, few fit together: all finish, and every KV block is free again."""
    spec, tape = world(seed, may_close=False, admission=0, max_engine_queue=1 << 40)
    most = max(
        must_fit(spec.kind, prompt, tokens, spec.max_new, overlap=True)
        for prompt, tokens in zip(tape.prompt.tolist(), tape.tokens.tolist(), strict=True)
    )
    spec = dataclasses.replace(spec, blocks=-(-most // spec.block_size) + spare)
    pool = Pool(spec, tape)
    pool.advance(spec.end)
    assert (pool.section(at.O_ENGINE)[:, at.E_FREE] == spec.blocks).all()
    assert (pool.section(at.O_LIVE) == 0).all()
    assert pool.next_event() > 1e300
    r = record(pool)
    counts = outcomes(r)
    assert counts[at.FAILED_OUTCOME] == counts[at.REFUSED] == 0
    if not counts[at.ABANDONED]:  # who hangs up asks for nothing more
        assert counts[at.COMPLETED] == len(tape.tokens)


def test_a_stream_that_cannot_fit_fails_at_once():
    """prompt + tokens - 1 (the last is not computed) beyond all blocks: fails, does not wait."""
    spec = spec_of(step_of(lambda n: 0.01), block_size=4, blocks=4)
    r = play(spec, tape_of([0.0, 0.0], [14, 13], [4, 4]))
    assert r.utterance_i[:, at.R_OUTCOME].tolist() == [at.FAILED_OUTCOME, at.COMPLETED]


# --- closed loop ------------------------------------------------------------------------------


def test_latency_times_throughput_is_the_number_of_callers():
    """c callers who never pause: every caller has one request open at any time, so
    X W = c up to the one request a caller has open at the end (<= c max(W) / T)."""
    callers, horizon = 24, 400.0
    tokens = SimpleNamespace(kind="lognormal", params={"mean": 60.0, "sigma": 0.8})
    arrivals = SimpleNamespace(kind="closed", callers=callers, stagger=0.0)
    workload = SimpleNamespace(
        arrivals=arrivals, think=None, patience=None, utterances_per_session=None,
        utterance=SimpleNamespace(
            audio=None, tokens=tokens, prompt_tokens=None, shared_prefix=0
        ),
    )  # fmt: skip
    tape = draw_tape(workload, horizon, 5, 0, 1e-9, 4096)
    spec = spec_of(
        step_of(lambda n: 0.01 + 0.0005 * n), horizon=horizon, token_audio=1e-9, schedule=(4, 25),
        codec=CodecSpec(np.array([0.005, 0.0, 1e-4]), cap=4, left_context=10), max_num_seqs=12,
        end=horizon + 1000, resolution=1e3,
    )  # fmt: skip
    r = play(spec, tape)
    z = r.utterance_f[r.utterance_i[:, at.R_OUTCOME] == at.COMPLETED]
    request, end = z[:, at.Z_REQUEST], z[:, at.Z_PLAY_END]
    latency = end - request
    # caller by caller the requests follow one another without a gap: exact
    assert latency.sum() == pytest.approx(np.sort(end)[-callers:].sum(), rel=1e-12)
    inside = end <= horizon
    product = inside.sum() / horizon * latency[inside].mean()
    assert abs(product - callers) <= callers * latency.max() / horizon
    assert len(z) > 20 * callers


# --- determinism ------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(SEEDS)
def test_the_same_seed_is_the_same_run(seed):
    assert differences(play(*random_world(seed)), play(*random_world(seed))) == []


def test_another_seed_is_another_run():
    """The run's own seed moves the step noise and the network, nothing else on the tape."""
    quantiles = np.sort(np.random.default_rng(0).lognormal(0, 0.2, 4096))
    spec, tape = random_world(11, noise=quantiles, admission=0)
    other = dataclasses.replace(spec, seed=spec.seed + 1)
    assert "utterance_f" in differences(play(spec, tape), play(other, tape))


@settings(max_examples=25, deadline=None)
@given(SEEDS, st.lists(st.floats(0.0, 20.0), max_size=8))
def test_stopping_on_the_way_changes_nothing(seed, stops):
    spec, tape = random_world(seed)
    pool = Pool(spec, tape)
    for stop in [*sorted(min(s, spec.end) for s in stops), spec.end]:
        pool.advance(stop)
    assert differences(record(pool), play(spec, tape)) == []
