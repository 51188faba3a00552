"""Turns, calls and audio of runs composed by hand: every number is worked out in the test."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.dialogue.made import CAPTURE, STAGES, UNSPOKEN, Answer, Call, Turn, heard, tables
from voicesim.engine import layout as at
from voicesim.metrics.dialogue import run_metrics
from voicesim.metrics.dialogue_run import SEGMENTS, Tenant, Terms
from voicesim.session import record as of

GAPS = (0.03, 0.4, 0.06, 0.2, 0.15, 0.03, 0.05)  # uplink ... playback: 0.92 s, with capture 0.94
SEGMENT_COLUMNS = [f"{name}_s" for name in SEGMENTS]


def whole(table):
    return np.rint(table[SEGMENT_COLUMNS].to_numpy() * 1e9).astype(np.int64)


def test_each_segment_is_the_difference_of_its_instants():
    turn = tables([Call([Turn(heard(10.0, *GAPS))])]).turns.iloc[0]
    assert [turn[c] for c in SEGMENT_COLUMNS] == pytest.approx([CAPTURE, *GAPS], abs=1e-9)
    assert turn["total_s"] == pytest.approx(0.94, abs=1e-9)
    assert (turn["spoken_s"], turn["started_s"]) == (10.0, pytest.approx(10.94))


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(0, 30000), *[st.floats(0, 5) for _ in range(7)]),
        min_size=1, max_size=20,
    )
)  # fmt: skip
def test_segments_sum_to_the_total_exactly(rows):
    """As whole nanoseconds to the last one, against the two instants themselves."""
    made = tables([Call([Turn(heard(row[0], *row[1:])) for row in rows])])
    table, f = made.turns, made.run.record.answer_f
    ns = whole(table)
    between = [
        round(a * 1e9) - round(b * 1e9)
        for a, b in zip(f[:, of.A_START], f[:, of.A_SPOKEN], strict=True)
    ]
    assert ns.sum(axis=1).tolist() == between
    assert np.rint(table["total_s"] * 1e9).astype(np.int64).tolist() == between
    assert table[SEGMENT_COLUMNS].sum(axis=1).to_numpy() == pytest.approx(
        table["total_s"], abs=1e-9
    )


def test_the_turn_that_is_clean_and_what_spoils_it():
    """One thing wrong at a time; each alone is enough."""
    fine = heard(10.0, *GAPS)
    spoilt = {
        "late": heard(10.0, 0.1, *GAPS[1:]),  # 1.01 s
        "stalled": replace(fine, at={**fine.at, "stall": 0.2, "stall_max": 0.11}),
        "one chunk": replace(fine, chunks=1),
        "lost": replace(fine, at={**fine.at, "lost": 0.1}),
        "overlap": replace(fine, filler=True, overlap=True),
        "silenced": replace(fine, at={**fine.at, "paused": 0.5}, interrupt=of.NOISE),
        "gone": replace(fine, interrupt=of.NOISE, outcome=of.CANCELLED),
        "hung up": replace(fine, outcome=of.HUNG_UP),
        "failed": replace(fine, outcome=of.NOT_SERVED),
        "live": replace(fine, outcome=of.PENDING),
        "never said": UNSPOKEN,
    }
    fair = {
        "fine": fine,
        "exactly in time": heard(10.0, 0.09, *GAPS[1:]),  # 1 s
        "short stall": replace(fine, at={**fine.at, "stall": 0.2, "stall_max": 0.1}),
        "interrupted": replace(fine, interrupt=of.CALLER, outcome=of.CANCELLED),
        "filler in time": replace(fine, filler=True),
    }
    table = tables([Call([Turn(a)]) for a in (*spoilt.values(), *fair.values())]).turns
    assert dict(zip((*spoilt, *fair), table["clean"].tolist(), strict=True)) == {
        **dict.fromkeys(spoilt, False), **dict.fromkeys(fair, True)}  # fmt: skip
    assert table["spoilt"].tolist() == [
        "late", "stalled", "unmeasured", "lost", "overlap", "broken_off", "broken_off",
        "broken_off", "broken_off", "broken_off", "unsaid", *[""] * len(fair),
    ]  # fmt: skip


def test_a_turn_counts_once_under_its_first_fault():
    """Of four turns one is CLEAN; one is late, stalls and loses audio, and counts as late."""
    fine = heard(10.0, *GAPS)
    worst = heard(10.0, 0.1, *GAPS[1:], at={"stall": 0.2, "stall_max": 0.11, "lost": 0.1})
    m = run_metrics(tables([Call([Turn(fine), Turn(worst), Turn(UNSPOKEN), Turn(UNSPOKEN)])]))
    assert {k: v for k, v in m["spoilt"].items() if v} == {"late": 0.25, "unsaid": 0.5}
    assert sum(m["spoilt"].values()) + m["clean_turn_share"] == 1.0


def test_each_tenant_by_its_own_limits():
    terms = Terms((Tenant("gold", 0.9), Tenant("free", 2.0)), STAGES)
    calls = [Call([Turn(heard(10.0, *GAPS))], tenant=k) for k in (0, 1)]
    table = tables(calls, terms).turns
    assert table["tenant"].tolist() == ["gold", "free"]
    assert table["clean"].tolist() == [False, True]


def test_a_call_is_clean_if_all_its_turns_are_good_and_one_was_measured():
    fine, short = heard(10.0, *GAPS), heard(20.0, *GAPS, chunks=1)
    late = heard(20.0, 0.5, *GAPS[1:])
    calls = [
        Call([Turn(fine), Turn(short)]),
        Call([Turn(short)]),
        Call([Turn(fine), Turn(late)]),
        Call([Turn(fine), Turn(UNSPOKEN)], outcome=at.ABANDONED),
        Call([Turn(UNSPOKEN)], outcome=at.REFUSED),
    ]
    table = tables(calls).sessions
    assert table["clean"].tolist() == [True, False, False, False, False]
    assert table["measured"].tolist() == [True, False, True, True, False]
    assert table["turns"].tolist() == [2, 1, 2, 1, 0]
    assert table["planned"].tolist() == [2, 1, 2, 2, 1]
    assert table["accepted"].tolist() == [True, True, True, True, False]


def test_audio_is_heard_in_order_and_the_rest_is_waste():
    """Units of 25, 25 and 30 steps at 80 ms: 2, 2 and 2.4 s.  2.5 s were heard; of the last unit
    10 steps, 0.8 s, had been decoded, and 27 of the text's 30 tokens."""
    cut = heard(10.0, *GAPS, listened=2.5, interrupt=of.CALLER, outcome=of.CANCELLED,
                units=(25, 25, 30), made=(25, 25, 10), text=(8, 10, 12),
                llm_made=27)  # fmt: skip
    made = tables([Call([Turn(cut)])])
    assert made.units["generated_s"].tolist() == pytest.approx([2.0, 2.0, 0.8])
    assert made.units["heard_s"].tolist() == pytest.approx([2.0, 0.5, 0.0])
    assert made.units["wasted_s"].tolist() == pytest.approx([0.0, 1.5, 0.8])
    turn = made.turns.iloc[0]
    assert turn["tokens"] == 60
    assert turn["tokens_wasted"] == pytest.approx(25 * 0.75 + 10)
    assert turn["llm_tokens"] == 27
    assert turn["llm_tokens_wasted"] == pytest.approx(27 - 8 - 10 * 0.25)


def test_a_cached_phrase_is_heard_but_not_made():
    made = tables([Call([Turn(heard(10.0, *GAPS, cached=(0,), made=(0, 25)))])])
    turn = made.turns.iloc[0]
    assert turn["generated_s"] == pytest.approx(4.0)
    assert turn["tokens"] == 25
    assert (turn["units"], turn["cached_units"]) == (2, 1)
    assert run_metrics(made)["waste"]["phrase_hit_share"] == 0.5


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 12), st.integers(0, 12), st.floats(0, 12), st.booleans()),
        min_size=1, max_size=12,
    )
)  # fmt: skip
def test_generated_is_heard_and_wasted(rows):
    """Whatever was made of two units of 60 steps, and however long somebody listened."""
    turns = [
        Turn(heard(10.0, *GAPS, listened=listened, units=(60, 60), made=(5 * a, 5 * b),
                   cached=(0,) if cached else ()))
        for a, b, listened, cached in rows
    ]  # fmt: skip
    made = tables([Call(turns)])
    for table in (made.turns, made.units):
        assert (table["heard_s"] + table["wasted_s"]).to_numpy() == pytest.approx(
            table["generated_s"].to_numpy()
        )
        assert (table[["heard_s", "wasted_s"]] >= 0).all(axis=None)
    for (a, b, listened, cached), heard_s in zip(rows, made.turns["heard_s"], strict=True):
        there = 0.08 * ((60 if cached else 5 * a) + 5 * b)
        assert heard_s == pytest.approx(min(listened, there))


def test_barge_in_stop_and_overtalk():
    """The caller begins at 12.0 s and speaks 0.3 s; the agent falls silent at 12.7 s."""
    first = heard(10.0, *GAPS, listened=1.7, interrupt=of.CALLER, outcome=of.CANCELLED,
                  at={"stopped": 12.7})  # fmt: skip
    second = heard(12.3, *GAPS, at={"speak": 12.0})
    table = tables([Call([Turn(first), Turn(second)]), Call([Turn(heard(10.0, *GAPS))])]).turns
    assert table["stop_s"][0] == pytest.approx(0.7)
    assert table["overtalk_s"].tolist() == pytest.approx([0.3, 0.0, 0.0])
    assert table["stop_s"][1:].isna().all()


def test_a_false_cut_off():
    """The caller pauses after 1 s of speech, from 9.0 to 9.8 s; an answer starts at 9.6 s and is
    stopped at 10.1 s: 0.3 s of both speaking, and all that was made for it is waste."""
    half = heard(9.0, 0.03, 0.3, 0.06, 0.1, 0.06, 0.02, 0.01, listened=0.5, units=(25,),
                 interrupt=of.CUT_OFF, outcome=of.CANCELLED,
                 at={"speak": 8.0, "stopped": 10.1, "play_end": 10.1})  # fmt: skip
    assert half.at["start"] == pytest.approx(9.6)
    silent = replace(half, at={**half.at, "start": -1.0, "listened": 0.0, "stopped": -1.0})
    prevented = replace(UNSPOKEN, units=(25,), made=(0,))
    turns = [
        Turn(heard(12.0, *GAPS), cut=c, cut_at=1.0, cut_pause=0.8)
        for c in (half, silent, prevented)
    ]
    made = tables([Call([t]) for t in turns])
    table = made.turns
    assert table["reasked"].tolist() == [True, True, False]
    assert table["cut_in"].tolist() == [True, False, False]
    assert table["clean"].tolist() == [False, True, True]
    assert table["spoilt"].tolist() == ["cut_in", "", ""]
    assert table["overtalk_s"].tolist() == pytest.approx([0.3, 0.0, 0.0])
    assert table["generated_s"].tolist() == pytest.approx([6.0, 6.0, 4.0])
    assert table["wasted_s"].tolist() == pytest.approx([1.5, 2.0, 0.0])
    talk = run_metrics(made)["talk"]
    assert (talk["cut_offs"], talk["cut_in_turns"]) == (2.0, 1.0)


def test_who_hears_nothing_stays_in_every_denominator():
    """Nine calls are answered after 0.94 s; one waits from 10 to 22 s and hangs up, and never comes
    to its second turn; one is refused with its two turns."""
    fine = [Call([Turn(heard(10.0, *GAPS))]) for _ in range(9)]
    silence = Answer({"speak": 8.0, "spoken": 10.0, "heard_end": 10.05, "decided": 10.5},
                     of.HUNG_UP, chunks=0, sent=0, made=(0, 0), llm_made=0)  # fmt: skip
    gone = Call([Turn(silence), Turn(UNSPOKEN)], outcome=at.ABANDONED, end=22.0)
    refused = Call([Turn(UNSPOKEN), Turn(UNSPOKEN)], outcome=at.REFUSED, start=-1, end=-1)
    m = run_metrics(tables([*fine, gone, refused]))
    assert (m["offered"], m["refused"], m["abandoned"]) == (11.0, 1.0, 1.0)
    assert m["clean_share"] == 9 / 11
    assert (m["offered_turns"], m["spoken_turns"], m["answered_turns"]) == (13.0, 10.0, 9.0)
    assert m["clean_turn_share"] == 9 / 13
    assert {k: v for k, v in m["spoilt"].items() if v} == {"unsaid": 3 / 13, "unanswered": 1 / 13}
    assert m["ttfa_p50_s"] == pytest.approx(0.94)
    assert m["ttfa_p99_s"] == pytest.approx(12.0)  # not 0.94: somebody waited so long
    assert m["ledger"]["total_p99_s"] == pytest.approx(0.94)


def test_calls_before_the_warm_up_are_left_out():
    calls = [Call([Turn(heard(10.0, *GAPS))], arrival=a) for a in (5.0, 25.0)]
    m = run_metrics(tables(calls, spec={"warmup": 20.0}))
    assert (m["offered"], m["offered_turns"], m["waste"]["audio_s"]) == (1.0, 1.0, 0.0)


def test_nobody_calls():
    m = run_metrics(tables([]))
    assert (m["offered"], m["offered_turns"]) == (0.0, 0.0)
    assert m["clean_share"] is m["clean_turn_share"] is m["ttfa_p95_s"] is None
    assert set(m["ledger"].values()) == {None}
    assert m["cost"]["per_call"] is None


def test_an_end_noticed_late():
    ends = (0.79, 0.8, 3.9)
    calls = [Call([Turn(heard(10.0, 0.03, end, *GAPS[2:]))]) for end in ends]
    made = tables(calls, Terms(stages=STAGES, late=0.8))
    assert made.turns["late"].tolist() == [False, True, True]
    assert run_metrics(made)["talk"]["late_endpoints"] == 2.0
    assert run_metrics(tables(calls))["talk"]["late_endpoints"] == 0.0


def test_hello():
    """Of a median of 4 s: half of those who wait for 4 s, at sigma 0.5 one in 6 after 2.47 s."""
    for wait, share in ((4.0, 0.5), (4.0 * np.exp(-0.5), 0.1587), (60.0, 1.0)):
        late = heard(10.0, 0.03, wait - 0.54, *GAPS[2:])
        calls = [Call([Turn(late)]) for _ in range(4000)]
        found = run_metrics(tables(calls))["talk"]["reprompts"] / 4000
        assert found == pytest.approx(share, abs=4 * np.sqrt(share * (1 - share) / 4000) + 1e-3)


def test_each_part_of_the_ledger_adds_up_in_a_band():
    """100 turns whose LLM takes 1 to 100 ms and whose voice takes the rest to 500 ms + 10 k."""
    turns = [
        Turn(heard(10.0, 0.03, 0.4, 0.06, k / 1000, 0.3 + k / 100, 0.03, 0.05))
        for k in range(1, 101)
    ]
    ledger = run_metrics(tables([Call([t]) for t in turns]))["ledger"]
    assert ledger["llm_p50_s"] == pytest.approx(0.050)
    assert ledger["llm_p95_s"] == pytest.approx(0.095)
    assert ledger["llm_p99_s"] == pytest.approx(0.099)
    assert ledger["llm_mean_s"] == pytest.approx(0.0505)
    assert ledger["llm_median_turn_s"] == pytest.approx(0.0505)  # the 49th to the 52nd
    assert ledger["llm_p99_turn_s"] == pytest.approx(0.099)
    for kind in ("median_turn_s", "p99_turn_s", "mean_s"):
        parts = [ledger[f"{name}_{kind}"] for name in SEGMENTS]
        assert sum(parts) == pytest.approx(ledger[f"total_{kind}"], abs=1e-9)
    assert sum(ledger[f"{name}_share"] for name in SEGMENTS) == pytest.approx(1.0)
    assert ledger["network_p95_s"] == pytest.approx(0.06)
