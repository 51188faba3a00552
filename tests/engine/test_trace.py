"""The log of a window: it changes nothing, and holds what happened in it."""

import dataclasses

import numpy as np
import pytest

from tests.engine.worlds import differences, random_world
from voicesim.engine import trace as of
from voicesim.engine.pool import Pool, record


def played(spec, tape):
    pool = Pool(spec, tape)
    pool.advance(spec.end)
    return record(pool)


@pytest.mark.parametrize("seed", range(12))
def test_asking_for_it_changes_nothing(seed):
    spec, tape = random_world(seed, blame=True, trace=(0.0, 1e9))
    run = played(spec, tape)
    for other in (
        dataclasses.replace(spec, trace=None), dataclasses.replace(spec, blame=False)
    ):  # fmt: skip
        silent = played(other, tape)
        found = differences(run, silent)
        assert [x for x in found if not x.startswith(("trace", "stall"))] == []
        assert len(silent.trace_i) == 0


@pytest.mark.parametrize("seed", range(12))
def test_a_window_is_part_of_the_whole(seed):
    spec, tape = random_world(seed, blame=True, trace=(0.0, 1e9))
    whole = played(spec, tape)
    part = played(dataclasses.replace(spec, trace=(0.4, 1.5)), tape)
    f = whole.trace_f
    meets = (f[:, of.T_END] >= 0.4) & (f[:, of.T_START] <= 1.5)
    assert np.array_equal(part.trace_i, whole.trace_i[meets])
    assert np.array_equal(part.trace_f, f[meets])
    kinds = whole.trace_i[:, of.T_KIND]
    counters = whole.counters
    finished = counters["steps"] - (kinds == of.STEP).sum()
    assert 0 <= finished <= spec.engines  # the last may still be running
    assert (kinds == of.PREEMPTED).sum() == counters["preemptions"]
    assert (kinds == of.CODEC).sum() == counters["codec_batches"]
