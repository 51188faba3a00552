"""The pool's arenas grow without changing anything."""

import dataclasses

import numpy as np
import pytest

from tests.engine.worlds import differences, random_world, tape_of
from voicesim.engine import layout as at
from voicesim.engine.pool import Pool, record
from voicesim.engine.reference import run_reference
from voicesim.engine.spec import MOST_AT_ONCE, NoProgressError
from voicesim.session import layout as lay


def test_growing_changes_nothing():
    """Streams, timers and logged chunks beyond the first capacity: results as with room enough.

    Also under preemption and hang-ups, which reach into lists built before the arena moved.
    """
    for seed in range(60):
        spec, tape = random_world(seed, max_num_seqs=2)
        spec = dataclasses.replace(spec, budget=spec.budget + 2)
        roomy = Pool(spec, tape)
        roomy.advance(spec.end)
        tight = Pool(spec, tape)
        for _ in range(3):
            tight.advance(tight.now + 0.7)
            tight._grow()
            rows = {**tight._rows, "slots": tight._rows["slots"] + 100}
            start = tight._rows["slots"]
            tight._allocate(rows)
            tight._free_slots(start)
            tight.view.refresh()
        tight.advance(spec.end)
        assert differences(record(tight), record(roomy)) == []


@pytest.mark.parametrize("engine", ["kernel", "reference"])
def test_a_run_that_stands_still_is_stopped(engine, monkeypatch):
    """Refused closed-loop callers who neither think nor back off ask for ever at one instant."""
    tape = tape_of([0.0] * 4, [10] * 4, closed=True)
    spec, _ = random_world(0, admission=1, limit=2, retries=0, standby=False, engines=1)
    if engine == "kernel":
        pool = Pool(spec, endless(tape))
        pool.I[at.H_AT_ONCE] = MOST_AT_ONCE - 1000
        pool.F[at.K_ASKED_AT] = 0.0
        with pytest.raises(NoProgressError, match="t = 0 s"):
            pool.advance(spec.end)
    else:
        monkeypatch.setattr("voicesim.engine.reference.world.MOST_AT_ONCE", 1000)
        with pytest.raises(NoProgressError, match="t = 0 s"):
            run_reference(spec, endless(tape))


def endless(tape):
    """The same tape with plenty of utterances for its callers."""
    n = 4000
    return dataclasses.replace(
        tape,
        first=np.arange(n + 1),
        tokens=np.full(n, 10),
        prompt=np.full(n, 16),
        think=np.zeros(n),
        patience=np.full(n, np.inf),
    )


def test_every_entry_of_the_headers_has_a_place_of_its_own():
    for module, prefixes, size in (
        (at, ("H_", "O_", "OF_", "C_"), at.N_INT_HEADER),
        (lay, ("J_", "O_", "OF_", "C_"), lay.J_ARENAS + 1),
    ):
        rows = {"C_FIRST", "C_LAST", "C_OVER", "C_TURN", "C_ANSWER", "C_DRAINING", "C_SPEAKS"}
        places = {
            name: value
            for name, value in vars(module).items()
            if name.startswith(prefixes) and name not in rows
        }
        assert len(set(places.values())) == len(places)
        assert max(places.values()) < size


@pytest.mark.parametrize("module", [at, lay])
def test_every_purpose_of_the_hash_is_its_own(module):
    """Of a pool; of a dialogue, whose stages know neither reconnecting nor affinity."""
    numbers = {name: n for name, n in vars(module).items() if name.startswith("P_")}
    assert len(set(numbers.values())) == len(numbers) > 1


@pytest.mark.parametrize("per_octave", [at.COARSE_PER_OCTAVE, at.FINE_PER_OCTAVE])
def test_the_edges_of_a_histogram_double_every_octave(per_octave):
    edges = at.quantile_edges(per_octave)
    assert len(edges) == at.OCTAVES * per_octave + 1
    assert edges[0] == 2.0 ** (at.LOWEST_EXPONENT - 1)
    assert (edges[per_octave:] == 2 * edges[:-per_octave]).all()
    assert np.diff(edges[: per_octave + 1]) == pytest.approx(edges[0] / per_octave, rel=1e-15)
