"""A window over the tape changes nothing: the same results as with every row in memory."""

import copy
import dataclasses

import numpy as np
import pytest

from tests.engine.worlds import differences, random_fleet, random_world, tape_of
from voicesim.engine import blame
from voicesim.engine import layout as at
from voicesim.engine.pool import Pool, PoolEnvironment, record
from voicesim.engine.window import Window
from voicesim.workload.pieces import cut

COLUMNS = ("tokens", "prompt", "think", "patience")


def pieces_of(tape, utterances):
    """The tape in pieces; of a closed loop pieces that suffice for its callers."""
    if not tape.closed:
        yield from cut(tape, utterances)
        return
    size = max(utterances, 16 * tape.callers)
    for k in range(0, tape.utterances - size + 1, size):
        columns = {c: getattr(tape, c)[k : k + size] for c in COLUMNS}
        columns["row"] = None if tape.row is None else tape.row[k : k + size]
        start = tape.arrival if k == 0 else tape.arrival[:0]
        yield dataclasses.replace(tape, arrival=start, first=np.arange(size + 1), **columns)


def drain(env, pool):
    for i in range(50):
        yield env.timeout(0.37)
        pool.set_open(i % 2, i % 3 == 0)


def trouble(env, pool):
    """Replicas that crash, come back, fall silent, slow down, and lose their calls."""
    for i in range(40):
        yield env.timeout(0.41)
        pool.crash(i % 2)
        yield env.timeout(0.2)
        pool.restore(i % 2)
        pool.set_gray(0, 0.3 if i % 3 == 0 else None)
        pool.set_slow(1, 1.0 + i % 2)
        yield env.timeout(0.3)
        pool.restore(0)
        pool.cut_calls(i % 2)


def played(spec, tape, window=None, processes=()):
    pool = Pool(spec, tape if window is None else window.first, window=window)
    env = PoolEnvironment(pool)
    for process in processes:
        env.process(process(env, pool))
    env.run(until=env.at(spec.end))
    return pool


def in_windows(spec, tape, utterances, processes=()):
    """(record put together again, tapes that left, most utterances in the arenas at a time)."""
    tapes, records = [], []

    def leave(over, left):
        before = sum(t.utterances for t in tapes)  # numbers in the whole again
        left.chunk_i[:, at.L_UTT] += before
        left.stall_i[:, blame.L_WHO] += before
        tapes.append(copy.deepcopy(over))  # the rows are used again
        records.append(copy.deepcopy(left))

    pool = played(spec, tape, Window(pieces_of(tape, utterances), leave), processes)
    most = pool._rows["utterances"]
    pool.window.close(pool)
    whole = record(pool)
    assert len(whole.utterance_i) == len(whole.chunk_i) == len(whole.stall_i) == 0
    joined = {
        f.name: np.concatenate([getattr(r, f.name) for r in records])
        for f in dataclasses.fields(whole)
        if f.name.startswith(("utterance", "chunk", "stall"))
    }
    return dataclasses.replace(whole, **joined), tapes, most


def by_utterance(found):
    """Logs in the order of their utterances: a window hands them over call by call."""
    rows = {}
    for name, column in (("chunk", at.L_UTT), ("stall", blame.L_WHO)):
        ints = getattr(found, f"{name}_i")
        order = np.argsort(ints[:, column], kind="stable")
        rows |= {f"{name}_i": ints[order], f"{name}_f": getattr(found, f"{name}_f")[order]}
    return dataclasses.replace(found, **rows)


def as_many(found, whole):
    """Both with as many rows as both have: the tape of a closed loop may go on after the run."""
    n = min(len(found.utterance_i), len(whole.utterance_i))
    assert (whole.utterance_i[n:, at.R_OUTCOME] == at.PENDING).all()
    return [
        dataclasses.replace(r, utterance_i=r.utterance_i[:n], utterance_f=r.utterance_f[:n])
        for r in (found, whole)
    ]


@pytest.mark.parametrize("processes", [(), (drain,)], ids=["alone", "with a control process"])
@pytest.mark.parametrize("utterances", [1, 4, 25])
def test_random_worlds_do_not_know_of_it(utterances, processes):
    left_early = 0
    for seed in range(60):
        spec, tape = random_world(seed, engines=2)
        if not tape.closed and seed % 3:  # most callers come when those before them have gone
            tape = dataclasses.replace(tape, arrival=tape.arrival * 20.0)
            spec = dataclasses.replace(spec, horizon=20.0 * spec.horizon, end=400.0)
        whole = by_utterance(record(played(spec, tape, None, processes)))
        found, tapes, _ = in_windows(spec, tape, utterances, processes)
        found = by_utterance(found)
        found, whole = as_many(found, whole) if tape.closed else (found, whole)
        assert differences(found, whole) == [], seed
        n = len(found.utterance_i)
        for column in COLUMNS:
            joined = np.concatenate([getattr(t, column) for t in tapes])
            assert np.array_equal(joined[:n], getattr(tape, column)[:n])
        if not tape.closed:
            sizes = np.concatenate([np.diff(t.first) for t in tapes])
            assert np.array_equal(sizes, np.diff(tape.first))
            assert np.array_equal(np.concatenate([t.arrival for t in tapes]), tape.arrival)
            numbers = np.concatenate([t.numbers for t in tapes])
            assert np.array_equal(numbers, np.arange(tape.sessions))
        left_early += len(tapes) > 1
    assert left_early > 15


@pytest.mark.parametrize("utterances", [1, 6])
def test_fleets_do_not_know_of_it(utterances):
    """Who goes where is read from the rows, too."""
    for seed in range(30):
        spec, tape = random_fleet(seed)
        whole = by_utterance(record(played(spec, tape)))
        found, tapes, _ = in_windows(spec, tape, utterances)
        found = by_utterance(found)
        found, whole = as_many(found, whole) if tape.closed else (found, whole)
        assert differences(found, whole) == [], seed
        row = np.concatenate([t.row for t in tapes])
        assert np.array_equal(row[: tape.utterances], tape.row[: len(row)])


@pytest.mark.parametrize("pinned", [False, True])
def test_nor_do_faults_and_calls_that_stay_with_a_replica(pinned):
    cut_calls = 0
    for seed in range(40):
        spec, tape = random_world(seed, engines=2, pinned=pinned)
        whole = by_utterance(record(played(spec, tape, None, [trouble])))
        found, _, _ = in_windows(spec, tape, 3, [trouble])
        found = by_utterance(found)
        found, whole = as_many(found, whole) if tape.closed else (found, whole)
        assert differences(found, whole) == [], seed
        cut_calls += whole.counters["cut"] + (whole.utterance_i[:, at.R_OUTCOME] == at.CUT).sum()
    assert cut_calls > 50


def test_it_holds_what_is_live_and_no_more():
    """Ten thousand calls of which a handful are live at a time: a few hundred rows suffice."""
    n = 10_000
    spec, _ = random_world(1, engines=1, admission=0, blame=False, trace=None, end=2000.0)
    tape = tape_of(np.arange(n) * 0.1, [5] * n)
    found, tapes, most = in_windows(spec, tape, 50)
    assert most < 500
    assert len(tapes) > 100
    assert len(found.utterance_i) == n


def test_a_timer_outlives_its_call():
    """Patience ends long after a call: its row must not be let go before."""
    n = 400
    spec, _ = random_world(1, engines=1, admission=0, blame=False, trace=None, end=2000.0)
    tape = tape_of(np.arange(n) * 1.0, [5] * n, patience=[300.0] * n)
    _, _, most = in_windows(spec, tape, 10)
    assert 300 <= most < 500


def test_calls_at_one_instant():
    """Pieces that end and begin at one and the same time."""
    spec, _ = random_world(5, engines=2)
    tape = tape_of([0.0] * 7 + [1.0] * 9 + [1.0 + 1e-9] * 3, [9] * 19)
    whole = by_utterance(record(played(spec, tape)))
    found, _, _ = in_windows(spec, tape, 3)
    assert differences(by_utterance(found), whole) == []
