"""The parts of report.html, by hand: buffer, causes, curves, step times, ledger, words."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.report import slow
from tests.report.reading import read
from voicesim.engine.cost import StepCost
from voicesim.engine.profile import load_profile
from voicesim.engine.spec import PoolSpec
from voicesim.listener.definitions import underruns
from voicesim.metrics.dialogue_run import SEGMENTS
from voicesim.metrics.edges import EDGES
from voicesim.metrics.exhibits import CallShown, ReplyShown, exhibit, keeps_chunks, listened
from voicesim.metrics.fleet import part_of
from voicesim.metrics.summary import interval
from voicesim.report import sentences
from voicesim.report.html import calls, ledger, steps
from voicesim.report.html.curves import share_over
from voicesim.scenario import load
from voicesim.simulation import pool_spec, simulate

# --- the listener's buffer ----------------------------------------------------------------------


def spec(**knobs):
    return PoolSpec(engines=1, step=StepCost(np.zeros(9), np.zeros(1)), schedule=(1,), **knobs)


def test_a_buffer_by_hand():
    """1 s at 0, 1 s at 0.5, then one at 3: 1.5 s are in hand at 0.5, silence from 2 to 3."""
    buffer, stalls = listened(spec(), np.array([0.0, 0.5, 3.0]), np.array([1.0, 1.0, 0.5]), 2)
    assert buffer.tolist() == [[0, 0], [0, 1], [0.5, 0.5], [0.5, 1.5], [2, 0], [3, 0], [3, 0.5],
                               [3.5, 0]]  # fmt: skip
    assert stalls.tolist() == [[2.0, 3.0, 2.0]]


def test_a_prebuffer_that_is_waited_for_no_longer():
    """1 s of 2 is there at 0; the player starts at 1 all the same, and is dry from 2 to 4."""
    knobs = spec(prebuffer=2.0, max_wait=1.0)
    buffer, stalls = listened(knobs, np.array([0.0, 4.0]), np.array([1.0, 1.0]), 1)
    assert buffer.tolist() == [[0, 0], [0, 1], [1, 1], [2, 0], [4, 0], [4, 1], [5, 0]]
    assert stalls.tolist() == [[2.0, 4.0, 1.0]]


chunks = st.lists(st.tuples(st.floats(0.0, 2.0), st.floats(0.01, 2.0)), min_size=2, max_size=12)


@given(chunks)
def test_stalls_are_those_of_the_field_s_definition(given_chunks):
    """Definition D: every interval of the pausing player, and their number."""
    gaps, audio = np.array(given_chunks).T
    arrived = np.cumsum(gaps)
    buffer, stalls = listened(spec(), arrived, audio, len(audio) - 1)
    known = underruns(arrived.tolist(), audio.tolist())
    assert len(stalls) == known.d_count
    assert (stalls[:, 1] - stalls[:, 0]).sum() == pytest.approx(known.d_total, abs=1e-6)
    assert (buffer[:, 1] >= 0).all() and (np.diff(buffer[:, 0]) >= -1e-9).all()
    heard = buffer[-1, 0] - buffer[0, 0] - (stalls[:, 1] - stalls[:, 0]).sum()
    assert heard == pytest.approx(audio.sum(), abs=1e-5)  # all of it, and nothing else


# --- causes -------------------------------------------------------------------------------------


def reply():
    """Chunk 1 comes 2.0 s after chunk 0: 1.5 s of decode, codec 0.4 s longer, network 0.1 s."""
    rows = np.array([[1.0, 1.1, 1.2, 0.5, 1], [2.5, 3.0, 3.2, 0.5, 4]])
    buffer, stalls = listened(spec(), rows[:, 2], rows[:, 3], 1)
    return ReplyShown(0, "completed", 3, 0.0, 0.5, 1.2, 3.2, rows, buffer, stalls)


def test_a_cause_adds_up_and_the_runs_own_word_comes_first():
    said = calls.cause(reply(), 1, {}, 7)
    assert said == (
        "chunk 1 came 2 s after the one before, which held 500 ms of audio: 1.5 s to decode, "
        "codec 400 ms longer than before, network 100 ms longer than before; mostly decode"
    )
    told = calls.cause(reply(), 1, {(7, 0, 1): "a prompt of 900 tokens"}, 7)
    assert told == f"a prompt of 900 tokens ({said})"


def test_a_table_of_stalls_tells_the_cause_and_where_a_trace_shows_it(tmp_path):
    rows = pd.DataFrame(
        {"replication": [0, 0, 1], "session": [7, 8, 7], "cause": ["prefill", "other", "later"]}
    ).assign(variant="a", utterance=0, chunk=1, detail="prefill of 900 tokens at 0:12:04.3",
             began_s=725.5, length_s=1.5, since_s=724.9)  # fmt: skip
    (tmp_path / "stalls").mkdir()
    rows.to_parquet(tmp_path / "stalls" / "a-0.parquet")
    call = CallShown("worst", 7, 1, [reply()])
    causes = calls.told(tmp_path, "a", call.session)
    # from the last whole second before it was only losing to the first one after its end
    said = "cause prefill: prefill of 900 tokens at 0:12:04.3 (step by step: --trace 12:04..12:08"
    assert causes == {(7, 0, 1): f"{said} --trace-of a)"}
    chart = calls.call_chart(call, "x", "a", 0, causes)
    (stall,) = chart["stalls"]
    assert (stall["x"], stall["x1"]) == (1.7, 3.2)  # dry half a second after 1.2
    assert stall["label"].startswith("Silence of 1.5 s in reply 1: cause prefill: prefill of 900")
    assert calls.told(None, "a", 7) == {} == calls.told(tmp_path / "none", "a", 7)
    row = {"since_s": 600.0, "began_s": 725.0, "length_s": 1.0}
    assert calls.trace_of(row, "b") == "--trace 11:55..12:07 --trace-of b"  # ten seconds before it


# --- curves, steps, ledger, words ---------------------------------------------------------------


def test_shares_beyond_by_hand():
    at = [int(np.searchsorted(EDGES, s)) for s in (0.002, 0.02, 0.2)]
    counts = np.zeros(len(EDGES) + 1, int)
    counts[at] = [5, 3, 2]
    other = np.zeros_like(counts)
    other[at] = [10, 0, 0]
    alone = share_over([counts])
    found = [alone[at[0] - 1, 0], alone[at[0], 0], alone[at[1], 0]]
    assert found == pytest.approx([1.0, 0.5, 0.2])
    assert alone[-1, 0] == 0 and np.isnan(alone[:, 1:]).all()
    both = share_over([counts, other])
    known = interval([0.5, 0.0], 0.0, 1.0)
    assert both[at[0]].tolist() == pytest.approx([known["mean"], known["low"], known["high"]])
    assert np.isnan(share_over([np.zeros_like(counts)])).all()


def test_curves_count_every_reply(tmp_path):
    file = load(slow.write(tmp_path))
    run = simulate(file.variants["admit_all"], record_chunks=True, watch=True)
    part = part_of(run)
    found = exhibit(part)
    counted = part.calls[part.calls["arrival_s"] >= 5]["session"]
    seen = part.streams[part.streams["session"].isin(counted)]
    assert found.heard.sum() == seen["started_s"].notna().sum()
    assert found.stalled.sum() == (seen["chunks"] >= 2).sum()
    late = (seen["stall_largest_s"] > EDGES[48]).sum()  # 100 ms
    assert found.stalled[49:].sum() == late > 0
    assert found.batch.sum() == 35 and found.max_batch >= len(found.batch) - 1  # 5 s to 40 s
    assert [c.rank for c in found.calls] == ["worst", "median"]
    assert keeps_chunks(file.variants["admit_all"])


def test_the_step_curve_is_the_kernel_s(tmp_path):
    """max(7 ms, 1.2 ms a stream): flat up to 5 streams, then the line."""
    scenario = load(slow.write(tmp_path)).variants["admit_all"]
    profile = load_profile(scenario.cluster.pool.engine.profile_path)
    times = steps.step_times(pool_spec(scenario, profile), np.array([1, 5, 6, 30]), 60.0)
    assert times == pytest.approx([0.007, 0.007, 0.0072, 0.036])
    assert times == pytest.approx([profile.predict(b, 60.0) for b in (1, 5, 6, 30)])


def metric(mean, low=None, high=None):
    return {"mean": mean, "low": low, "high": high}


def test_a_ledger_is_drawn_only_where_there_is_one():
    assert ledger.section({"a": {"offered": metric(1)}}, []) is None
    found = {}
    for k, part in enumerate((*SEGMENTS, "network", "total")):
        mean = 0.1 * k
        found |= {f"{part}_p{q}_s": metric(mean, mean, mean) for q in (50, 95, 99)}
        found |= {f"{part}_mean_s": metric(mean), f"{part}_share": metric(0.25)}
        found |= {f"{part}_median_turn_s": metric(mean), f"{part}_p99_turn_s": metric(2 * mean)}
    charts = []
    body = ledger.section({"a": {"ledger": found}}, charts)
    assert body is not None
    median, slow = (panel["marks"] for panel in charts[0]["panels"])
    lasts, begins = [100 * k for k in range(8)], [0, 0, 100, 300, 600, 1000, 1500, 2100]
    assert [m["x"][0] for m in median] == pytest.approx(begins)
    assert [m["x1"][0] - m["x"][0] for m in median] == pytest.approx(lasts)
    assert slow[-1]["x1"][0] == pytest.approx(2 * 2800)
    _, head, *rows = read("".join(body.body)).tables["Where the time went: a"]
    assert head == ["segment", "p50", "p95", "p99", "mean", "share", "median", "p99"]
    assert rows[2] == ["endpointing", "200 ±0", "200 ±0", "200 ±0", "200", "25.0%", "200", "400"]
    gone = {k: metric(None) for k in found}
    none = ledger.ledger_chart(gone, "x", "a", 0)
    assert none["panels"][0]["marks"] == [] and "takes n/a" in none["desc"]


def numbers(clean, low=None, high=None, stalled=0.05):
    return {
        "clean_share": metric(clean, low, high), "offered": metric(200), "refused": metric(20),
        "abandoned": metric(1), "stalled_share": metric(stalled), "ttfa_p50_s": metric(0.25),
        "ttfa_p99_s": metric(2.0, 1.5, 2.5),
    }  # fmt: skip


def test_two_sentences():
    context = {"replications": 3, "audible": 0.1, "batch_means": {}}
    first, second = sentences.answer({"cap": numbers(0.7, 0.65, 0.75)}, context)
    assert first == (
        "cap keeps 70.0% of all offered calls CLEAN (95 % interval 65.0% to 75.0% over 3 "
        "replications)."
    )
    assert second == (
        "With cap, 10.0% of the callers are refused and 0.50% hang up in silence; of the calls in "
        "which it can be measured, 5.0% hear the sound stop for more than 100 ms, and a reply "
        "begins after 250 ms in the middle and 2 s ±500 ms for the slowest 1 %."
    )


def test_two_sentences_without_an_interval_or_a_measurement():
    one = {"replications": 1, "audible": 0.1}
    assert "(one replication, so without an interval)" in sentences.answer(
        {"a": numbers(0.7)}, one
    )[0]  # fmt: skip
    batch = {**one, "batch_means": {"a": [0.7, 0.021]}}
    assert "±2.1 points by batch means" in sentences.answer({"a": numbers(0.7)}, batch)[0]
    first, second = sentences.answer({"a": numbers(None, stalled=None)}, one)
    assert first.startswith("CLEAN share not measured (no call of one replication")
    assert "n/a hear the sound stop" in second
