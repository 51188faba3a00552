"""Dialogues, told twice: kernel and reference are equal to the last bit, on random worlds."""

import collections

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.session.worlds import differences, random_dialogue
from voicesim.engine.pool import PoolEnvironment
from voicesim.session import record as rec
from voicesim.session.dialogue import Dialogue, record
from voicesim.session.reference import run_dialogue_reference


def played(spec, tape):
    dialogue = Dialogue(spec, tape)
    dialogue.advance(spec.end)
    return record(dialogue)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32))
def test_random_dialogues_are_equal_to_the_last_bit(seed):
    spec, tape = random_dialogue(seed)
    assert differences(played(spec, tape), run_dialogue_reference(spec, tape)) == []


@pytest.mark.parametrize("seed", range(30))
def test_every_way_to_cancel(seed):
    spec, tape = random_dialogue(seed, cancel=seed % 4, resume=np.inf)
    assert differences(played(spec, tape), run_dialogue_reference(spec, tape)) == []


@pytest.mark.parametrize("seed", range(12))
def test_with_a_control_process(seed):
    """A SimPy process that drains and reopens replicas sees the same world in both."""

    def drain(env, cluster):
        for i in range(60):
            yield env.timeout(0.37)
            cluster.set_open(i % 2, 0, i % 3 == 0)

    spec, tape = random_dialogue(seed)
    dialogue = Dialogue(spec, tape)
    env = PoolEnvironment(dialogue)
    env.process(drain(env, dialogue))
    env.run(until=env.at(spec.end))
    assert differences(record(dialogue), run_dialogue_reference(spec, tape, [drain])) == []


def test_the_worlds_have_it_all():
    """Equality would prove little if the worlds lacked what a rule is about."""
    seen = collections.Counter()
    for seed in range(150):
        spec, tape = random_dialogue(seed)
        run = played(spec, tape)
        i, f = run.answer_i, run.answer_f
        for outcome, name in enumerate(rec.ANSWERS):
            seen[name] += int((i[:, rec.A_OUTCOME] == outcome).any())
        for kind, name in enumerate(rec.INTERRUPTS):
            seen[name] += int((i[:, rec.A_INTERRUPT] == kind).any())
        seen["refused"] += int((run.call_i[:, rec.Q_OUTCOME] == 2).any())
        seen["filler"] += int(i[:, rec.A_FILLER].any())
        seen["overlap"] += int(i[:, rec.A_OVERLAP].any())
        seen["fell back"] += int(i[:, rec.A_FELL_BACK].any())
        seen["stalled"] += int(i[:, rec.A_STALLS].any())
        seen["paused"] += int((f[:, rec.A_PAUSED] > 0).any())
        seen["cached"] += int(tape.unit_cached.any())
    assert min(seen.values()) >= 10, seen
