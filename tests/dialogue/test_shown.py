"""Two calls turn by turn: the buffer that is drawn is the one that the run had."""

import dataclasses

import numpy as np
import pytest

from tests import talk
from tests.session.test_equality import played
from tests.session.worlds import random_dialogue
from voicesim.metrics.dialogue_run import Played, Terms
from voicesim.metrics.dialogue_shown import (
    _answer,
    interruption,
    keeps_talks,
    listened,
    two_talks,
)
from voicesim.metrics.dialogue_study import tables_of
from voicesim.scenario import load
from voicesim.session import record as of
from voicesim.session.play import simulate_dialogue
from voicesim.session.spec import DialogueSpec

NOWHERE = DialogueSpec((), ())


def chunks(*rows):
    """(sent, ready, audio) of each."""
    return np.array([(sent, ready, ready, audio) for sent, ready, audio in rows])


def test_a_stall_by_hand():
    """1 s of audio at 10.0; the next second of it comes at 11.4, 0.4 s after the buffer is dry."""
    buffer, stalls = listened(NOWHERE, chunks((9.9, 10.0, 1.0), (11.3, 11.4, 1.0)), 1)
    assert stalls.tolist() == [[pytest.approx(11.0), 11.4, 1]]
    assert buffer.tolist() == [
        [10.0, 0.0], [10.0, 1.0], [11.0, 0.0], [11.4, 0.0], [11.4, 1.0], [12.4, 0.0],
    ]  # fmt: skip


def test_a_noise_makes_the_agent_pause_and_go_on():
    """2 s of audio from 10.0; a noise after 0.5 s of it is noticed 0.3 s later, at 10.8, and costs
    a pause of 2 s, in which nothing drains: the 1.2 s that are left last until
    14.0, and a chunk that comes meanwhile lands on top."""
    spec = dataclasses.replace(NOWHERE, resume=2.0)
    rows = chunks((9.9, 10.0, 2.0), (11.4, 11.5, 1.0), (13.4, 13.5, 1.0))
    buffer, stalls = listened(spec, rows, 2, 0.5, 0.3)
    assert len(stalls) == 0
    assert buffer == pytest.approx(
        np.array([[10.0, 0.0], [10.0, 2.0], [10.8, 1.2], [11.5, 1.2], [11.5, 2.2], [12.8, 2.2],
                  [13.5, 1.5], [13.5, 2.5], [16.0, 0.0]])
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(40))
def test_what_is_drawn_is_what_the_run_had(seed):
    """On random worlds: the stalls add up to the record's, and the curve ends with the answer."""
    spec, tape = random_dialogue(seed, record_chunks=True)
    record = played(spec, tape)
    run = Played(Terms(), spec, tape, record)
    seen = 0
    for r in range(tape.answers):
        f = record.answer_f[r]
        if f[of.A_SPOKEN] < 0.0:
            continue
        u = int(run.turn[r])
        rows = record.chunk_i[:, of.K_ANSWER] == r
        mine = record.chunk_f[rows][np.argsort(record.chunk_i[rows, of.K_INDEX])]
        last = len(mine) - 1 if record.answer_i[r, of.A_OUTCOME] == of.PLAYED else -1
        buffer, stalls = listened(spec, mine, last, *interruption(run, u, r))
        assert (stalls[:, 1] - stalls[:, 0]).sum() == pytest.approx(f[of.A_STALL], abs=1e-4)
        if last >= 0:
            assert buffer[-1, 0] == pytest.approx(f[of.A_PLAY_END], abs=1e-9)
            seen += 1
        assert (buffer[:, 1] >= -1e-9).all() and (np.diff(buffer[:, 0]) >= 0.0).all()
    assert seen or not (record.answer_i[:, of.A_OUTCOME] == of.PLAYED).any()


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    path = talk.write(tmp_path_factory.mktemp("talk"))
    (scenario,) = load(path, ["workload.arrivals.rate=3/s"]).variants.values()
    assert keeps_talks(scenario)
    return tables_of(simulate_dialogue(scenario, record_chunks=True, blame=True))


def test_the_worst_and_the_median_call(tables):
    late = tables.sessions[tables.sessions["arrival_s"] >= 30.0]
    measured = late[late["measured"]]
    worst, median = two_talks(tables)
    assert (worst.rank, median.rank, worst.of) == ("worst", "median", len(measured))
    assert worst.session in measured["session"].to_numpy()
    total = measured.set_index("session")["stall_total_s"]
    assert total[worst.session] == total.max()
    drawn = sum(float((x.stalls[:, 1] - x.stalls[:, 0]).sum()) for x in worst.answers)
    assert drawn == pytest.approx(total.max(), abs=1e-6)
    rows = tables.turns[tables.turns["call"] == worst.session]
    whole = [x for x in worst.answers if not x.half]
    assert len(whole) == rows["spoken_s"].notna().sum()
    for x, row in zip(whole, rows.to_dict("records"), strict=False):
        assert x.at["start"] - x.at["spoken"] == pytest.approx(row["total_s"], nan_ok=True)
        assert len(x.chunks) == row["chunks"]
        assert (x.outcome, x.interrupt) == (row["outcome"], row["interrupt"])


def test_no_chunk_no_call(tables):
    run = dataclasses.replace(
        tables.run,
        record=dataclasses.replace(tables.run.record, chunk_i=np.zeros((0, 2), np.int64)),
    )
    assert two_talks(dataclasses.replace(tables, run=run)) == []


def test_an_answer_that_is_broken_off_loses_what_the_player_held(tables):
    run = tables.run
    cut = np.flatnonzero(
        (run.record.answer_i[:, of.A_INTERRUPT] == of.CALLER)
        & (run.record.answer_f[:, of.A_START] >= 0.0)
        & (run.record.answer_i[:, of.A_OUTCOME] == of.CANCELLED)
    )
    assert len(cut) > 10
    for r in cut[:50].tolist():
        shown = _answer(run, int(run.turn[r]), r)
        assert shown.buffer[-1, 0] <= run.record.answer_f[r, of.A_STOPPED] + 1e-9
        assert shown.buffer[-1, 1] == 0.0
