"""Metrics mean what their names say: recomputed from the tables, and on known answers."""

import numpy as np
import pytest

from tests import small
from voicesim.engine import layout as at
from voicesim.engine.quantiles import quantile_rows
from voicesim.listener.definitions import underruns
from voicesim.metrics import summary, tables
from voicesim.scenario import load
from voicesim.simulation import simulate


def measure(folder, *sets, variant="admit_all", text=small.SCENARIO, chunks=True):
    scenario = load(small.write(folder, text), sets=["horizon=30s", *sets]).variants[variant]
    run = simulate(scenario, record_chunks=chunks)
    streams = tables.streams(run)
    calls = tables.sessions(run, streams)
    return run, calls, streams, summary.run_metrics(run, calls, streams)


def test_pace_and_ttfa_match_the_chunks(tmp_path):
    run, _, streams, m = measure(tmp_path, "warmup=0s")
    chunks = tables.chunks(run)
    gap = chunks.groupby(["session", "utterance"])["arrived_s"].diff()
    ratio = (gap / chunks["audio_s"]).dropna().to_numpy()
    exact = 1.0 / np.quantile(ratio, 0.99)
    assert m["pace_p99"] == pytest.approx(exact, rel=0.01)  # a bucket is 1/128 octave
    ttfa = np.sort((streams["started_s"] - streams["requested_s"]).dropna())
    assert m["ttfa_p95_s"] == ttfa[int(np.ceil(0.95 * len(ttfa))) - 1]
    completed = streams[(streams["outcome"] == "completed") & (streams["chunks"] >= 2)]
    stall = 1000 * completed["stall_total_s"].sum() / (completed["audio_s"].sum() / 60)
    assert m["stall_seconds_per_1000_audio_minutes"] == pytest.approx(stall)


def test_stream_underruns_follow_the_definitions(tmp_path):
    """Columns A and C of the stream table, and B, D where the player starts at once, against the
    definitions applied to the chunk timeline (overloaded, so that there are some)."""
    run, _, streams, m = measure(tmp_path, "workload.arrivals.rate=30/s")
    assert m["stalled_share"] > 0.05
    chunks = tables.chunks(run)
    timelines = dict(list(chunks.groupby(["session", "utterance"])))
    checked = 0
    for row in streams[streams["outcome"] == "completed"].itertuples():
        timeline = timelines[(row.session, row.utterance)]
        u = underruns(timeline["arrived_s"].tolist(), timeline["audio_s"].tolist())
        if u.a_worst is None:
            assert np.isnan(row.underrun_a_s)
            continue
        assert row.underrun_a_s == pytest.approx(u.a_worst, abs=1e-9)
        assert row.underrun_c_s == pytest.approx(u.c_worst, abs=1e-9)
        assert row.stall_largest_s == pytest.approx(u.b_largest, abs=1e-9)
        assert row.stall_total_s == pytest.approx(u.d_total, abs=1e-9)
        assert row.stalls == u.d_count
        checked += 1
    assert checked > 100


def test_one_chunk_replies_are_not_measured(tmp_path):
    """Nothing to measure is never a pass: no share, and every call is counted as not measured."""
    _, _, _, m = measure(tmp_path, "cluster.pools.tts.codec.chunk={first: 400, steady: 400}")
    assert m["not_measured"] == m["completed"] + m["abandoned"] > 0
    assert m["clean_share"] == 0.0
    assert m["stalled_share"] is None
    assert m["stall_seconds_per_1000_audio_minutes"] is None
    assert m["pace_p99"] is None
    assert m["c50"] is m["c100"] is m["c200"] is None


def test_everybody_refused(tmp_path):
    """The refused stay in the denominator."""
    (tmp_path / "never.py").write_text("class No:\n    def admit(self, view, g): return False\n")
    import sys

    sys.path.insert(0, str(tmp_path))
    _, _, _, m = measure(tmp_path, "policies.admission={policy: 'never:No'}")
    assert m["offered"] == m["refused"] > 0
    assert m["clean_share"] == 0.0
    assert m["ttfa_p50_s"] is None
    assert m["stalled_share"] is None
    assert m["not_measured"] == 0


def test_who_was_never_let_in_is_not_accepted(tmp_path):
    """A cap of one stream, a queue and little patience: some hang up before an engine has them."""
    queue = "policies.admission={kind: cap_queue, streams: 1, deadline: 1h}"
    _, calls, _, m = measure(tmp_path, "workload.arrivals.rate=20/s", queue)
    counted = calls[(calls["arrival_s"] >= 5) & (calls["outcome"] == "abandoned")]
    assert (~counted["accepted"]).sum() > 50
    accepted = calls[(calls["arrival_s"] >= 5) & calls["accepted"]]
    assert m["not_measured"] == (accepted["outcome"].ne("refused") & ~accepted["measured"]).sum()


def test_nobody_calls(tmp_path):
    text = small.SCENARIO.replace("{kind: poisson, rate: 6/s}", "{kind: trace, file: none.csv}")
    (tmp_path / "none.csv").write_text("t_s\n50\n")  # after the horizon of 30 s
    _, _, _, m = measure(tmp_path, text=text)
    assert m["offered"] == 0
    assert m["clean_share"] is None


def test_counts_add_up_and_the_warm_up_is_left_out(tmp_path):
    _, calls, _, m = measure(tmp_path, "drain=1s", "workload.arrivals.rate=30/s", variant="cap")
    parts = ("completed", "refused", "abandoned", "failed", "live_at_end")
    assert m["offered"] == sum(m[p] for p in parts)
    assert m["live_at_end"] > 0
    assert m["offered"] == (calls["arrival_s"] >= 5).sum() < len(calls)


def test_closed_loop_calls(tmp_path):
    text = small.SCENARIO.replace("{kind: poisson, rate: 6/s}", "{kind: closed, callers: 9}")
    text = text.replace("  utterances_per_session: {geometric: {mean: 2}}\n", "")
    _, calls, _, m = measure(tmp_path, "warmup=0s", text=text)
    assert m["completed"] > 50
    assert (calls["utterances"] == 1).all()
    assert (calls["arrival_s"] == 0).sum() == 9


def test_quantiles_of_a_ratio_histogram():
    """Interpolated inside the bucket; rows with nothing are NaN; all in one bucket stays there."""
    counts = np.zeros((3, at.N_FINE), np.int64)
    edges = at.quantile_edges(at.FINE_PER_OCTAVE)
    one = np.searchsorted(edges, 1.0)
    counts[0, one] = 50
    counts[1, one], counts[1, one + at.FINE_PER_OCTAVE] = 99, 1
    low, high, empty = quantile_rows(counts, 0.99)
    assert edges[one] == 1.0
    assert low == pytest.approx(1.0 + 0.99 * (edges[one + 1] - 1.0))
    assert high == pytest.approx(edges[one + 1])
    assert np.isnan(empty)


def test_interval_over_replications():
    """Student's t on 4 values: mean 2.5, s 1.29099, t(0.975, 3) 3.18245, half width 2.0543."""
    found = summary.interval([1.0, 2.0, 3.0, 4.0])
    assert found["mean"] == 2.5
    assert found["high"] - 2.5 == pytest.approx(2.05426, abs=1e-5)
    assert summary.interval([None, None]) == {"mean": None, "low": None, "high": None}
    assert summary.interval([3.0, None])["mean"] == 3.0


def test_gpu_cost(tmp_path):
    """2 cards x 30 s at 3.60 an hour."""
    _, _, _, m = measure(tmp_path, "cluster.gpus.card.price=3.6/h")
    assert m["gpu_cost"] == pytest.approx(2 * 30 * 0.001)
