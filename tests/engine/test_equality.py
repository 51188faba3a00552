"""Kernel and reference are one model told twice: equal to the last bit, on random worlds."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.worlds import (
    climbing,
    differences,
    random_cards,
    random_fleet,
    random_world,
    step_cost,
    with_ladders,
)
from voicesim.engine import layout as at
from voicesim.engine.cost import StepCost
from voicesim.engine.kernel.codec import ratio_bucket
from voicesim.engine.kinds import ENGINES
from voicesim.engine.pool import Pool, PoolEnvironment, record
from voicesim.engine.readings import Readings
from voicesim.engine.reference import run_reference, world
from voicesim.engine.reference.codec import FIFO
from voicesim.engine.spec import CODEC_QUEUES, INF

EDGES = at.quantile_edges(at.FINE_PER_OCTAVE)
FIELDS = [f.name for f in dataclasses.fields(Readings)]


def both(spec, tape, processes=()):
    pool = Pool(spec, tape)
    env = PoolEnvironment(pool)
    for process in processes:
        env.process(process(env, pool))
    env.run(until=env.at(spec.end))
    return record(pool), run_reference(spec, tape, processes=processes)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32))
def test_random_worlds_are_equal_to_the_last_bit(seed):
    kernel, reference = both(*random_world(seed))
    assert differences(kernel, reference) == []


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32))
def test_random_fleets_are_equal_to_the_last_bit(seed):
    kernel, reference = both(*random_fleet(seed))
    assert differences(kernel, reference) == []


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32))
def test_random_shared_cards_are_equal_to_the_last_bit(seed):
    kernel, reference = both(*random_cards(seed))
    assert differences(kernel, reference) == []


def test_neighbours_are_felt():
    """The cards above would prove nothing if nobody met anybody on them."""
    felt = {1: 0, 2: 0}
    for seed in range(60):
        spec, tape = random_cards(seed)
        alone = dataclasses.replace(
            spec,
            on_card=None,
            others=tuple(dataclasses.replace(p, on_card=None) for p in spec.others),
        )
        runs = []
        for each in (spec, alone):
            pool = Pool(each, tape)
            pool.advance(each.end)
            runs.append(record(pool).utterance_f)
        modes = {p.on_card.mode for p in spec.pools if p.on_card is not None}
        for mode in modes:
            felt[mode] += not np.array_equal(*runs)
    assert min(felt.values()) > 15, felt


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.booleans())
def test_worlds_that_degrade_are_equal_to_the_last_bit(seed, fleet):
    spec, tape = (random_fleet if fleet else random_world)(seed)
    spec = with_ladders(spec, seed)
    kernel, reference = both(spec, tape, [climbing(spec, seed)])
    assert differences(kernel, reference) == []


def test_the_worlds_that_degrade_have_it_all():
    """Equality would prove little if nobody was served at a rung, sent on or given text."""
    seen = dict.fromkeys(("at a rung", "sent on", "stood in", "filler", "shorter"), 0)
    for seed in range(80):
        spec, tape = random_fleet(seed)
        spec = with_ladders(spec, seed)
        pool = Pool(spec, tape)
        env = PoolEnvironment(pool)
        env.process(climbing(spec, seed)(env, pool))
        env.run(until=env.at(spec.end))
        ints = record(pool).utterance_i
        sizes = [len(p.ladder) for p in spec.pools]
        first = np.cumsum([0, *sizes[:-1]])
        ladder = np.repeat(np.arange(len(sizes)), sizes)
        rung, engine = ints[:, at.R_RUNG], ints[:, at.R_ENGINE]
        served = engine >= 0
        degraded = served & (rung > first[ladder[rung]])
        seen["at a rung"] += int(degraded.sum())
        seen["sent on"] += int((degraded & (spec.pool_of[engine] != ladder[rung])).sum())
        seen["stood in"] += int((ints[:, at.R_OUTCOME] == at.STOOD_IN).sum())
        seen["filler"] += int(ints[:, at.R_FILLED].sum())
        done = ints[:, at.R_OUTCOME] == at.COMPLETED
        tokens = pool.tape.tokens
        seen["shorter"] += int((done & (ints[:, at.R_GENERATED] < tokens)).sum())
    assert min(seen.values()) > 50, seen


def test_every_pool_of_a_fleet_is_used():
    """The fleets above would prove nothing if one pool served everybody."""
    used, spilt = 0, 0
    for seed in range(60):
        spec, tape = random_fleet(seed)
        pool = Pool(spec, tape)
        pool.advance(spec.end)
        engine = record(pool).utterance_i[:, at.R_ENGINE]
        pools = spec.pool_of[engine[engine >= 0]]
        used += len(set(pools.tolist())) > 1
        row = tape.row[: len(engine)][engine >= 0]
        spilt += bool((pools != spec.routes.prefs[row, 0]).any())
    assert used > 20
    assert spilt > 10


@given(st.floats(-1.0, 1e300) | st.sampled_from(EDGES.tolist()))
def test_a_ratio_falls_into_the_bucket_between_its_edges(ratio):
    bucket = int(np.clip(np.searchsorted(EDGES, ratio, side="right") - 1, 0, at.N_FINE - 1))
    assert ratio_bucket(ratio) == world.ratio_bucket(ratio) == bucket


@pytest.mark.parametrize("seed", range(40))
def test_under_kv_pressure(seed):
    """Every stream fits alone but few fit together: preemption, recompute, head-of-line waits."""
    spec, tape = random_world(seed)
    most = int((tape.prompt + tape.tokens).max())
    blocks = -(-most // spec.block_size) + seed % 5
    kernel, reference = both(dataclasses.replace(spec, blocks=blocks, admission=0), tape)
    assert differences(kernel, reference) == []


@pytest.mark.parametrize("end", [0.3, 0.8, 1.3, 2.1])
def test_what_arrives_after_the_end_counts_in_the_last_bin(end):
    """Chunks are a second and more on their way: whatever is sent in the last one comes later."""
    late = 0
    for seed in range(8):
        spec, tape = random_world(seed, delay=1.0, end=end, resolution=0.25, warmup=0.0)
        kernel, reference = both(spec, tape)
        assert differences(kernel, reference) == []
        late += int(kernel.gaps[-1].sum())
        assert kernel.gaps[:-1][:4].sum() == 0  # nothing can be there within the first second
    assert late > 0


def test_kv_pressure_does_preempt():
    """The worlds above would prove nothing if nobody was ever preempted in them."""
    total = 0
    for seed in range(40):
        spec, tape = random_world(seed)
        most = int((tape.prompt + tape.tokens).max())
        blocks = -(-most // spec.block_size) + seed % 5
        pool = Pool(dataclasses.replace(spec, blocks=blocks, admission=0), tape)
        pool.advance(spec.end)
        total += record(pool).counters["preemptions"]
    assert total > 200


@pytest.mark.parametrize("seed", range(20))
def test_with_a_control_process(seed):
    """A SimPy process that drains and reopens replicas sees the same world in both."""

    def drain(env, pool):
        for i in range(50):
            yield env.timeout(0.37)
            pool.set_open(i % 2, i % 3 == 0)

    spec, tape = random_world(seed, engines=2)
    kernel, reference = both(spec, tape, [drain])
    assert differences(kernel, reference) == []


@pytest.mark.parametrize("seed", range(20))
def test_readings(seed):
    """What a controller reads is the same in both, at any instant."""
    seen = []

    def read(env, pool):
        for _ in range(40):
            yield env.timeout(0.311)
            seen.append(np.array(dataclasses.astuple(pool.readings())))

    spec, tape = random_fleet(seed)
    _, reference = both(spec, tape, [read])
    kernel, plain = np.array(seen[: len(seen) // 2]), np.array(seen[len(seen) // 2 :])
    np.testing.assert_array_equal(kernel, plain)
    assert len(seen) == 80
    completed = reference.utterance_i[:, at.R_OUTCOME] == at.COMPLETED
    served = kernel[:, FIELDS.index("served")].sum(axis=1)
    assert (np.diff(served) >= 0).all()
    assert served[-1] <= completed.sum()


def test_a_wrong_step_cost_is_caught():
    """The check can fail: the last bit of one cost is seen."""
    spec, tape = random_world(3, end=400.0, admission=0, step=step_cost(memory=0.0, norm=1.0))
    pool = Pool(spec, tape)
    pool.advance(spec.end)
    wrong = dataclasses.replace(
        spec, step=StepCost(spec.step.params, np.nextafter(spec.step.compute_s, 1.0))
    )
    assert "utterance_f" in differences(record(pool), run_reference(wrong, tape))


def test_the_worlds_have_every_order():
    """In each order of the codec's queue, and where streams pause, some runs end otherwise than
    they would without it."""

    def play(spec, tape):
        pool = Pool(spec, tape)
        pool.advance(spec.end)
        return record(pool)

    changed = dict.fromkeys(
        (*CODEC_QUEUES[1:], "pauses", "pauses, preempted", "pauses, overlap"), 0
    )
    for seed in range(900):
        spec, tape = random_world(seed)
        plain = []
        if spec.codec is not None and spec.codec.queue != FIFO:
            fifo = dataclasses.replace(spec.codec, queue=FIFO)
            plain.append((CODEC_QUEUES[spec.codec.queue], dataclasses.replace(spec, codec=fifo)))
        if spec.pace < INF:
            plain.append(("pauses", dataclasses.replace(spec, pace=INF)))
        run = play(spec, tape) if plain else None
        for name, without in plain:
            if differences(run, play(without, tape)):
                changed[name] += 1
                if name == "pauses":
                    changed["pauses, preempted"] += run.counters["preemptions"] > 0
                    changed["pauses, overlap"] += spec.overlap
    assert min(changed.values()) >= 10, changed


def test_the_worlds_have_it_all():
    """Equality would prove little if the worlds lacked what a rule is about."""
    seen = {"closed": 0, "failed": 0, "preempted": 0, "codec": 0, "noise": 0, "abandoned": 0}
    seen |= {"kept": 0, "left open": 0, "refused by the engine": 0}
    kinds = {
        (kind, what): 0
        for kind in ENGINES
        for what in ("overlap", "prefix", "closed", "preempted", "preempted, overlap")
        if not (kind == "trtllm_no_evict" and "preempted" in what)  # never
    }
    for seed in range(1200):
        spec, tape = random_world(seed)
        pool = Pool(spec, tape)
        pool.advance(spec.end)
        run = record(pool)
        seen["closed"] += tape.closed
        seen["failed"] += run.counters["failed"] > 0
        seen["preempted"] += run.counters["preemptions"] > 0
        seen["codec"] += run.counters["codec_batches"] > 0
        seen["noise"] += spec.noise is not None
        seen["abandoned"] += bool((run.utterance_i[:, at.R_OUTCOME] == at.ABANDONED).any())
        preempted = run.counters["preemptions"] > 0
        seen["kept"] += spec.keep_hashes and preempted
        seen["left open"] += spec.left_open > 0
        refused = bool((run.utterance_i[:, at.R_OUTCOME] == at.REFUSED).any())
        seen["refused by the engine"] += spec.admission == 0 and refused
        for what, is_there in (
            ("overlap", spec.overlap),
            ("prefix", run.counters["cached_tokens"] > 0),
            ("closed", tape.closed),
            ("preempted", preempted),
            ("preempted, overlap", preempted and spec.overlap),
        ):
            if (ENGINES[spec.kind], what) in kinds:
                kinds[ENGINES[spec.kind], what] += bool(is_there)
    assert min(seen.values()) >= 50, seen
    assert min(kinds.values()) >= 12, kinds
