"""The pool's arenas grow without changing anything."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from tests.engine.test_equality import both
from tests.engine.worlds import differences, random_world, tape_of
from voicesim.engine import layout as at
from voicesim.engine.pool import Pool, record
from voicesim.engine.reference import run_reference
from voicesim.engine.spec import MOST_AT_ONCE, NoProgressError
from voicesim.policy.admission import ADMIT_ALL
from voicesim.session import layout as lay
from voicesim.workload.tape import draw_tape


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


def test_a_closed_loop_writes_its_tape_as_it_goes():
    """Six callers who never pause, on a tape for a second, ask as on one that is long enough."""
    law = SimpleNamespace(kind="lognormal", params={"mean": 20.0, "sigma": 0.8})
    workload = SimpleNamespace(
        arrivals=SimpleNamespace(kind="closed", callers=6, stagger=0.0), think=None, patience=None,
        utterances_per_session=None,
        utterance=SimpleNamespace(audio=None, tokens=law, prompt_tokens=None, shared_prefix=0),
    )  # fmt: skip
    tape = draw_tape(workload, 1.0, 5, 0, 0.08, 4096)
    spec, _ = random_world(
        2, engines=2, admission=ADMIT_ALL, token_audio=0.08, horizon=30.0, end=100.0,
        blocks=1 << 20, max_queue=np.inf, max_new=4096, prefix=0, left_open=0.0,
    )  # fmt: skip
    runs = []
    for each in (tape, tape.extend().extend().extend().extend().extend()):
        pool = Pool(spec, each)
        pool.advance(spec.end)
        runs.append(record(pool))
    one, other = runs
    n = int((one.utterance_i[:, at.R_OUTCOME] == at.COMPLETED).sum())
    assert len(tape.tokens) < n < len(one.utterance_i) < len(other.utterance_i)
    assert np.array_equal(one.utterance_f[:n], other.utterance_f[:n])
    assert one.counters == other.counters


@pytest.mark.parametrize("retries", [0, 3])
def test_a_crash_finds_room_for_all_who_were_there(retries):
    """Each of 700 may ask again, and needs a timer and a row for it, at one instant."""
    spec, _ = random_world(
        4, engines=1, admission=ADMIT_ALL, max_num_seqs=16, blocks=1 << 20, retries=retries,
        backoff=0.0, retry_burst=np.inf, reconnect=0.0, pinned=False, horizon=5.0, end=60.0,
        max_engine_queue=1 << 40, prefix=0, max_new=4096, max_wait=np.inf,
    )  # fmt: skip
    tape = tape_of(np.zeros(700), np.full(700, 12))

    def crash(env, pool):
        yield env.timeout(0.05)
        pool.crash(0)
        yield env.timeout(1.0)
        pool.restore(0)

    kernel, reference = both(spec, tape, [crash])
    assert differences(kernel, reference) == []
    assert kernel.counters["lost"] > 600


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


def test_a_recorded_seed_gives_the_same_run_in_a_later_version():
    """A number that changes gives every run of that seed other draws."""
    assert {name: n for name, n in vars(at).items() if name.startswith("P_")} == {
        "P_STEP_NOISE": 101, "P_NETWORK": 102, "P_RETRY": 103, "P_ROUTE": 104, "P_LEFT_OPEN": 105,
        "P_POOL": 106, "P_RECONNECT": 110, "P_AFFINITY": 111, "P_HOST_NOISE": 120,
        "P_COLD_START": 121,
    }  # fmt: skip


@pytest.mark.parametrize("per_octave", [at.COARSE_PER_OCTAVE, at.FINE_PER_OCTAVE])
def test_the_edges_of_a_histogram_double_every_octave(per_octave):
    edges = at.quantile_edges(per_octave)
    assert len(edges) == at.OCTAVES * per_octave + 1
    assert edges[0] == 2.0 ** (at.LOWEST_EXPONENT - 1)
    assert (edges[per_octave:] == 2 * edges[:-per_octave]).all()
    assert np.diff(edges[: per_octave + 1]) == pytest.approx(edges[0] / per_octave, rel=1e-15)
