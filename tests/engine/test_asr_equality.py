"""Kernel and reference of the recogniser are equal to the last bit."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.asr_worlds import KernelRun, ReferenceRun, World, differences
from voicesim.engine import trace as of
from voicesim.engine.asr_spec import ASR_KINDS


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32))
def test_random_worlds_are_equal_to_the_last_bit(seed):
    world = World(seed)
    assert differences(world.play(KernelRun), world.play(ReferenceRun)) == []


@pytest.mark.parametrize("kind", range(len(ASR_KINDS)))
def test_every_kind_in_a_crowd(kind):
    """One slow replica: queues, full batches, slots taken."""
    for seed in range(20):
        world = World(seed, kind=kind, engines=1, cap=4, slots=6)
        assert differences(world.play(KernelRun), world.play(ReferenceRun)) == []


def test_a_wrong_cost_is_caught():
    """The check can fail: the last bit of one cost is seen."""
    world = World(5, kind=3, cost=np.array([4.3, 0.0, 0.0]))
    kernel = world.play(KernelRun)
    cost = np.nextafter(world.spec.cost, 1.0)
    world.spec = dataclasses.replace(world.spec, cost=cost)
    assert "texts" in differences(kernel, world.play(ReferenceRun))


def test_the_worlds_have_it_all():
    """Equality would prove little if the worlds lacked what a rule is about."""
    seen = dict.fromkeys(
        (*ASR_KINDS, "traced", "rejected", "behind", "batched", "tied", "begotten", "dropped"), 0
    )
    for seed in range(200):
        world = World(seed)
        results, texts = world.play(KernelRun)
        seen[ASR_KINDS[world.spec.kind]] += len(texts) > 2
        seen["traced"] += len(results["trace_i"]) > 20
        seen["rejected"] += results["rejected"] > 0
        seen["behind"] += results["backlog"] > 4 * world.spec.chunk
        seen["batched"] += results["jobs"] > results["batches"]
        seen["tied"] += len({t for _, t in texts}) < len(texts)
        seen["dropped"] += bool(
            {a[2] for a in world.asked if a[1] == "drop"} - {r for r, _ in texts}
        )
        seen["begotten"] += bool(set(world.answer) & {r for r, _ in texts})
    assert min(seen.values()) >= 20, seen


@pytest.mark.parametrize("seed", range(1, 25, 2))
def test_the_log_of_the_whole_time_holds_every_batch_and_text(seed):
    """Every batch, every row of it and every text, once; each job within its batch."""
    world = World(seed)
    world.trace = (0.0, 1e9)
    results, texts = world.play(KernelRun)
    rows, times = results["trace_i"], results["trace_f"]
    kinds = rows[:, of.T_KIND]
    batches, jobs = kinds == of.ASR_BATCH, kinds == of.ASR_JOB
    assert batches.sum() == results["batches"]
    assert jobs.sum() == results["jobs"] == rows[batches, of.T_A].sum()
    assert times[batches, of.T_X].sum() == pytest.approx(results["audio"])
    spans = {tuple(pair) for pair in times[batches][:, [of.T_START, of.T_END]]}
    assert {tuple(pair) for pair in times[jobs][:, [of.T_START, of.T_END]]} <= spans
    ends = [(int(i[of.T_WHO]), f[of.T_END]) for i, f in zip(rows, times, strict=True)
            if i[of.T_KIND] == of.ASR_TEXT]  # fmt: skip
    assert set(texts) <= set(ends)


def test_a_log_changes_nothing():
    for seed in range(1, 60, 2):
        world = World(seed)
        traced, texts = world.play(KernelRun)
        world.trace = None
        silent, same = world.play(KernelRun)
        assert texts == same
        assert all(
            np.array_equal(traced[name], silent[name])
            for name in traced if not name.startswith("trace")
        )  # fmt: skip
        assert len(silent["trace_i"]) == 0
