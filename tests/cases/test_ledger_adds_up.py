"""The segments of a turn sum to its delay, to the nanosecond, and each is what a watch would say.

The witness is not the record: it notes the time of SimPy's clock whenever one of the reference's
methods is called, takes the wait for the end of turn and the way up from the tape, and the way
down and the client from the log of chunks of the compiled run.

Must show: in every world the segments of a turn add up to its delay; no time is counted twice or
lost.
"""

import collections
import dataclasses

import numpy as np
import pytest

from tests.cases.calls import play, pool, stages
from tests.session.worlds import random_dialogue
from voicesim.engine.asr_spec import AsrSpec
from voicesim.metrics.dialogue_audio import units
from voicesim.metrics.dialogue_run import SEGMENTS, Played, Terms
from voicesim.metrics.dialogue_tables import turns
from voicesim.session import record as rec
from voicesim.session.dialogue import uplinks
from voicesim.session.reference import run_dialogue_reference
from voicesim.session.reference.answer import Answer
from voicesim.session.reference.call import Call

STAGES = ("decided", "text_there", "unit_of_text", "send")


def ns(seconds) -> np.ndarray:
    return np.rint(np.asarray(seconds) * 1e9).astype(np.int64)


@pytest.fixture
def watch(monkeypatch):
    """First time of each method of each answer, and when each turn was first heard (s)."""
    seen = collections.defaultdict(dict)

    def noted(name, method):
        def wrapped(self, *args):
            if not self.cancelled or name == "decided":
                seen[name].setdefault(self.number, float(self.env.now))
            return method(self, *args)

        return wrapped

    for name in STAGES:
        monkeypatch.setattr(Answer, name, noted(name, getattr(Answer, name)))
    speech = Call.speech

    def heard(self, u, half, whole):
        seen["heard"][u] = float(self.env.now)
        return speech(self, u, half, whole)

    monkeypatch.setattr(Call, "speech", heard)
    return seen


def on_the_millisecond(seed: int):
    """A world of every kind of turn whose times are all whole milliseconds."""
    rng = np.random.default_rng(seed)
    _, tape = random_dialogue(seed)

    def grid(values):
        return np.round(np.asarray(values), 3)

    names = ("arrival", "think", "speech", "endpoint", "cut_at", "cut_pause", "cut_endpoint",
             "barge", "false_barge", "encode")  # fmt: skip
    tape = dataclasses.replace(
        tape, **{name: grid(getattr(tape, name)) for name in names},
        patience=np.full(tape.turns, np.inf), llm=tape.llm * 0, tts=tape.tts * 0,
        omni=tape.omni * 0,
    )  # fmt: skip
    late = grid(np.sort(rng.gamma(2, 0.02, (2, 4096)), axis=1))
    asr = AsrSpec(chunk=0.16, right=0.08, cost=np.array([0.011, 0.001, 0.0]), cap=4)
    spec = stages(
        0.007, pool(0.013, chunk=3), asr=asr, capture=0.02, uplink=0.03, delay=0.04, detect=0.2,
        jitter=late[0], uplink_jitter=late[1], client_per_chunk=0.005, connect_llm=0.002,
        connect_tts=0.003, prefetch=1, seed=seed,
    )  # fmt: skip
    return spec, tape


@pytest.mark.parametrize("seed", range(12))
def test_to_the_nanosecond_against_a_watch(seed, watch):
    spec, tape = on_the_millisecond(seed)
    run = play(spec, tape)
    run_dialogue_reference(spec, tape)
    played = Played(Terms(), spec, tape, run)
    table = turns(played, units(played))
    up = ns(uplinks(spec, tape.turns))
    first = {}
    for row, number in zip(run.chunk_f, run.chunk_i[:, rec.K_ANSWER], strict=True):
        first.setdefault(int(number), row)
    heard = np.flatnonzero(table["total_s"].notna())
    assert len(heard) > 0
    for u in heard:
        r = int(tape.answer[u])
        sent, arrived, ready, _ = ns(first[r])
        decided, text, unit, left = (ns(watch[name][r]) for name in STAGES)
        expected = [ns(spec.capture), up[u], ns(tape.endpoint[u]), text - decided, unit - text,
                    left - unit, arrived - sent, ready - arrived]  # fmt: skip
        found = ns(table.loc[u, [f"{name}_s" for name in SEGMENTS]].to_numpy(float))
        assert found.tolist() == [int(x) for x in expected]
        pause = tape.cut_pause[u] if tape.cut[u] >= 0 else 0.0
        begins = ns(watch["heard"][u]) - ns(spec.capture) - up[u]
        spoken = begins + ns(tape.speech[u]) + ns(pause)
        assert found.sum() == ns(table.loc[u, "total_s"]) == ready - spoken
        assert left == sent and ns(table.loc[u, "spoken_s"]) == spoken


@pytest.mark.parametrize("seed", range(30))
def test_in_any_world_the_parts_are_the_whole(seed, watch):
    """No grid: random pools, jitter, players.  The instants are those of the clock, to the bit, and
    the columns' nanoseconds add up."""
    spec, tape = random_dialogue(seed)
    run = play(spec, tape)
    run_dialogue_reference(spec, tape)
    columns = (rec.A_DECIDED, rec.A_TEXT, rec.A_FIRST_UNIT, rec.A_FIRST_SENT)
    for name, column in zip(STAGES, columns, strict=True):
        for r, t in watch[name].items():
            if name in ("decided", "send") or not tape.omni[r]:
                assert run.answer_f[r, column] == t
    played = Played(Terms(), spec, tape, run)
    table = turns(played, units(played))
    rows = table[table["total_s"].notna()]
    parts = sum(ns(rows[f"{name}_s"]) for name in SEGMENTS)
    f = run.answer_f[tape.answer][table["total_s"].notna()]
    assert (parts == ns(rows["total_s"])).all()
    assert (parts == ns(f[:, rec.A_START]) - ns(f[:, rec.A_SPOKEN])).all()
