"""What each reader makes of a file composed for it: exact values, units included."""

import json

import numpy as np
import pandas as pd
import pytest
from composed import (
    CHUNKS,
    CONTINUITY,
    DETAIL,
    OMNI,
    OMNI_SUMMARY,
    SGLANG,
    VLLM,
    WAITING,
    dump,
    lines,
    nari,
    nari_chunk,
    omni_request,
    record,
    series,
)
from typer.testing import CliRunner

from voicesim.calibrate import CalibrationError
from voicesim.calibrate.readers import Measured, read
from voicesim.cli import app
from voicesim.listener.definitions import underruns


def measured(tmp_path, text: str, name: str = "m") -> Measured:
    (tmp_path / name).write_text(text)
    return read(tmp_path / name)


def curve(found: Measured) -> dict[tuple[str, str], float]:
    """Values by metric and statistic; each must be there once."""
    rows = found.curve[found.curve["stat"] != "count"]
    keys = list(zip(rows["metric"], rows["stat"], strict=True))
    assert len(set(keys)) == len(keys)
    return dict(zip(keys, rows["value"], strict=True))


def column(table: pd.DataFrame, name: str) -> list:
    return pytest.approx(table[name].tolist())


def test_vllm_aggregates_are_in_milliseconds(tmp_path):
    found = measured(tmp_path, json.dumps(VLLM, indent=4))
    assert found.format == "vllm bench serve"
    assert curve(found) == pytest.approx(
        {
            ("ttft_s", "mean"): 0.0925,
            ("ttft_s", "p99"): 0.10175,
            ("itl_s", "p99.9"): 0.0125,
            ("latency_s", "mean"): 0.1875,
            ("client_queue_s", "mean"): 0.0015,
            ("throughput_requests", "mean"): 10.0,
            ("throughput_tokens", "mean"): 80.0,
            ("requests", "total"): 2.0,
            ("requests_running", "max"): 2.0,
        }
    )
    assert set(found.curve["concurrency"]) == {2.0}
    assert found.curve["rate_per_s"].isna().all()  # "inf": all at once
    assert found.samples is None and "aggregates only" in found.cannot[0]


def test_vllm_arrays_are_in_seconds_and_give_the_steps(tmp_path):
    found = measured(tmp_path, lines({**VLLM, "request_rate": 4.0}, {**VLLM, **DETAIL}))
    assert found.curve["rate_per_s"].dropna().unique().tolist() == [4.0]
    assert found.curve["run"].unique().tolist() == ["m", "m:2"]
    assert found.rows == 2
    requests = found.requests
    assert column(requests, "arrival_s") == [0.0, 0.05]
    assert column(requests, "ttft_s") == [0.1, 0.08]
    assert column(requests, "latency_s") == [0.19, 0.13]
    assert requests["tokens"].tolist() == [10.0, 6.0]
    steps = found.samples
    assert steps["seconds"].tolist() == pytest.approx([0.01] * 9, abs=1e-9)
    assert steps["batch"].tolist() == [1, 1, 1, 2, 2, 2, 2, 2, 1]
    assert steps["prefill_tokens"].tolist() == [0, 0, 4, 0, 0, 0, 0, 0, 0]
    assert steps["kv_read"].tolist() == [5, 6, 11, 13, 15, 17, 19, 21, 13]


def test_vllm_chat_streams_begin_with_an_event_without_a_token(tmp_path):
    plain = measured(tmp_path, lines({**VLLM, **DETAIL})).samples
    role = {**VLLM, **DETAIL, "itls": [[0.0, *gaps] for gaps in DETAIL["itls"]]}
    pd.testing.assert_frame_equal(measured(tmp_path, lines(role)).samples, plain)


def test_vllm_several_tokens_at_a_time_give_no_steps(tmp_path):
    found = measured(tmp_path, lines({**VLLM, **DETAIL, "output_lens": [20, 6]}))
    assert found.samples is None
    assert "1 of 2 requests came several tokens at a time" in " ".join(found.cannot)
    assert len(found.requests) == 2


def test_vllm_failed_requests_and_older_files(tmp_path):
    old = {k: v for k, v in DETAIL.items() if k not in ("latencies", "start_times")}
    found = measured(tmp_path, lines({**VLLM, **old, "errors": ["", "boom"]}))
    assert found.requests["ok"].tolist() == [True, False]
    assert found.requests["latency_s"].iloc[0] == pytest.approx(0.19)  # ttft and its gaps
    assert found.requests["ttft_s"].isna().tolist() == [False, True]
    assert found.samples is None and "no start_times" in found.cannot[0]
    with pytest.raises(CalibrationError, match="output_lens: holds 1 values, ttfts 2"):
        measured(tmp_path, lines({**VLLM, **DETAIL, "output_lens": [10]}))


def test_omni_first_packet_is_in_milliseconds_and_underruns_in_seconds(tmp_path):
    found = measured(tmp_path, json.dumps(OMNI))
    values = curve(found)
    assert values["ttfa_s", "mean"] == pytest.approx(1.5445)
    assert values["ttfa_s", "p99"] == pytest.approx(4.10525)
    assert values["rtf_per_request", "mean"] == 1.5
    assert values["underrun_a_s", "p99"] == 2.25
    assert values["throughput_audio", "mean"] == 10.75
    assert values["audio_s", "total"] == 338.4
    assert set(found.curve["rate_per_s"]) == {2.5}
    assert any("24000 Hz" in text for text in found.tells)  # frames are PCM samples
    assert any("definition A" in text for text in found.tells)
    # No share is written: the median is within 100 ms, the 90th percentile is not.
    assert values["continuity", "at_least"] == 0.5
    assert values["continuity", "at_most"] == pytest.approx(0.9)


def test_omni_continuity_where_it_is_written(tmp_path):
    found = measured(tmp_path, json.dumps({**OMNI, "audio_continuity_ok_rate": 0.328}))
    row = found.curve[found.curve["metric"] == "continuity"]
    assert row[["stat", "value", "threshold_s", "definition"]].values.tolist() == [
        ["share", 0.328, 0.1, "a"]
    ]
    with pytest.raises(CalibrationError, match="a share is 0 to 1"):
        measured(tmp_path, json.dumps({**OMNI, "audio_continuity_ok_rate": 32.8}))


def test_omni_buffer_timelines_become_chunks(tmp_path):
    timeline = [
        {"time_s": 0.5, "received_audio_ms": 320.0, "played_audio_ms": 0.0},
        {"time_s": 0.6, "received_audio_ms": 320.0, "played_audio_ms": 100.0},
        {"time_s": 0.75, "received_audio_ms": 960.0, "played_audio_ms": 250.0},
    ]
    metrics = [{"playback_buffer_timeline": timeline}, {}]
    chunks = measured(tmp_path, json.dumps({**OMNI, "request_metrics": metrics})).chunks
    assert chunks["t_s"].tolist() == [0.5, 0.75]
    assert column(chunks, "audio_s") == [0.32, 0.64]


def test_continuity_client(tmp_path):
    found = measured(tmp_path, lines(CONTINUITY, {**CONTINUITY, "concurrency": 16}))
    assert found.rows == 2
    assert found.curve["concurrency"].unique().tolist() == [64.0, 16.0]
    one = curve(measured(tmp_path, json.dumps(CONTINUITY)))
    assert one["ttfa_s", "median"] == pytest.approx(2.751)
    assert one["ttft_s", "mean"] == pytest.approx(0.64)
    assert one["underrun_c_s", "p99"] == pytest.approx(7.504)
    assert one["largest_chunk_gap_s", "max"] == pytest.approx(0.9)
    assert one["continuity", "share"] == 0.25
    assert one["read_gap_s", "mean"] == pytest.approx(0.0805)  # not a time per token
    assert not any(metric == "tpot_s" for metric, _ in one)
    with pytest.raises(CalibrationError, match="found 129 of 128"):
        measured(tmp_path, json.dumps({**CONTINUITY, "num_continuity_ok": 129}))


def nari_run(tmp_path):
    """A warm-up that overlaps a request with two stalls and one without."""
    (tmp_path / "requests.jsonl").write_text(
        lines(
            nari("w", "warmup", 7.0),
            nari("b", "measurement", 9.0, (0.05, 0.25)),
            nari("a", "measurement", 8.0),
        )
    )
    (tmp_path / "run.json").write_text(json.dumps({"run_id": "r1", "requested_rps": 1.25}))
    events = [("a", 8.125, 1.5), ("w", 7.125, 4.0), ("a", 8.5, 2.5), ("b", 9.125, 4.0)]
    other = {"type": "request.task_started", "elapsed_ns": 1, "request_id": "a"}
    (tmp_path / "events.jsonl").write_text(lines(other, *(nari_chunk(*e) for e in events)))


def test_nari_run_is_in_nanoseconds(tmp_path):
    nari_run(tmp_path)
    found = read(tmp_path)
    assert found.rows == 2
    requests = found.requests.set_index("request")
    assert requests.loc["b", "arrival_s"] == pytest.approx(9.0)
    assert column(requests, "ttfa_s") == [0.125, 0.125]
    assert column(requests, "latency_s") == [2.0, 2.0]
    assert column(requests, "audio_s") == [4.0, 4.0]
    chunks = found.chunks
    assert chunks["request"].tolist() == ["a", "a", "b"]
    assert chunks["chunk"].tolist() == [0, 1, 0]
    assert column(chunks, "t_s") == [8.125, 8.5, 9.125]
    assert column(chunks, "sent_s") == [8.0, 8.0, 9.0]
    assert column(chunks, "audio_s") == [1.5, 2.5, 4.0]
    assert column(chunks, "bytes") == [72000, 120000, 192000]
    assert chunks["concurrency"].tolist() == [2, 2, 2]  # with the warm-up until 9.0, then a and b
    values = curve(found)
    assert values["underrun_b_s", "max"] == pytest.approx(0.25)
    assert values["underrun_d_s", "max"] == pytest.approx(0.3)
    assert values["continuity", "share"] == 0.5
    assert values["requests_running", "max"] == 2
    assert set(found.curve["rate_per_s"]) == {1.25}
    assert "1 warm-up requests are left out" in found.cannot


def test_nari_requests_alone(tmp_path):
    nari_run(tmp_path)
    (tmp_path / "events.jsonl").unlink()
    (tmp_path / "run.json").unlink()
    found = read(tmp_path / "requests.jsonl")
    assert found.chunks is None and any("events.jsonl" in text for text in found.cannot)
    assert found.curve["rate_per_s"].iloc[0] == pytest.approx(1.0)  # one second apart
    late = nari("a", "measurement", 8.0)
    late["playback"]["first_playable_elapsed_ns"] = 7
    with pytest.raises(CalibrationError, match="first_playable_elapsed_ns: is before dispatch"):
        measured(tmp_path, lines(late))
    late = nari("a", "measurement", 8.0, (0.1,))
    late["playback"]["total_stalled_ns"] = 7
    with pytest.raises(CalibrationError, match="the underruns add up to 100000000"):
        measured(tmp_path, lines(late))


def test_sglang_serving_with_its_bare_infinity(tmp_path):
    found = measured(tmp_path, SGLANG + SGLANG.replace("Infinity", "8.5"))
    assert found.rows == 2
    first = found.curve[found.curve["run"] == "m:1"]
    assert first["rate_per_s"].isna().all()
    assert found.curve["rate_per_s"].dropna().unique().tolist() == [8.5]
    values = curve(measured(tmp_path, SGLANG))
    assert values == pytest.approx(
        {
            ("latency_s", "mean"): 1.2635,
            ("latency_s", "p99"): 1.5025,
            ("ttft_s", "median"): 0.11825,
            ("tpot_s", "mean"): 0.0145,
            ("itl_s", "p95"): 0.01875,
            ("throughput_requests", "mean"): 12.5,
            ("throughput_tokens", "mean"): 1000.0,
            ("requests", "total"): 160.0,
            ("requests_running", "mean"): 15.75,
        }
    )
    detail = (
        SGLANG.rstrip()[:-1] + ',"input_lens":[3],"output_lens":[2],"ttfts":[0.5],"itls":[[0.25]]}'
    )
    requests = measured(tmp_path, detail + "\n").requests
    assert requests["latency_s"].tolist() == [0.75]


def test_sglang_omni_chunks_are_rebuilt(tmp_path):
    found = measured(tmp_path, lines(omni_request("a", 0.11), omni_request("b", None)))
    assert found.rows == 2
    mine = found.chunks[found.chunks["request"] == "a"]
    assert column(mine, "t_s") == [0.5, 1.25, 1.5, 1.75]
    assert column(mine, "audio_s") == [0.64, 1.12, 1.12, 1.12]
    assert mine["prompt_tokens"].tolist() == [156] * 4
    # The tool's own underrun is that of definition B on this timeline.
    assert underruns(list(mine["t_s"]), list(mine["audio_s"])).b_largest == pytest.approx(0.11)
    values = curve(found)
    assert values["underrun_b_s", "max"] == 0.11
    assert values["rtf_per_request", "median"] == 0.4375
    with pytest.raises(CalibrationError, match="2 gaps for 4 chunks"):
        measured(tmp_path, lines(omni_request("a", 0.1, inter_chunk_s=[0.1, 0.2])))


def test_sglang_omni_continuity_is_in_percent(tmp_path):
    found = measured(tmp_path, json.dumps(OMNI_SUMMARY))
    rows = found.curve[found.curve["metric"] == "continuity"]
    assert column(rows, "value") == [0.78, 0.94]  # null: none scored
    assert rows["threshold_s"].tolist() == [0.05, 0.1]
    assert set(rows["definition"]) == {"b"}
    few = found.curve[found.curve["metric"] != "continuity"]
    assert dict(zip(zip(few["metric"], few["stat"], strict=True), few["value"], strict=True)) == {
        ("latency_s", "mean"): 1.75,
        ("latency_s", "p95"): 2.25,
        ("rtf_per_request", "mean"): 0.4375,
        ("ttfa_s", "p95"): 0.75,
        ("underrun_b_s", "p95"): 0.125,
        ("throughput_requests", "mean"): 9.25,
        ("requests", "total"): 50.0,
    }
    with pytest.raises(CalibrationError, match="c50: found 101; percent goes to 100"):
        measured(tmp_path, json.dumps({**OMNI_SUMMARY, "c50": 101}))


def test_sglang_omni_sweeps(tmp_path):
    rows = [
        {"concurrency": n, "repeats": 1, "per_repeat": [{"repeat": 1, **OMNI_SUMMARY}]}
        for n in (1, 16)
    ]
    sweep = {"concurrencies": [1, 16], "config": {}, "repeats": 1, "rows": rows}
    found = measured(tmp_path, json.dumps(sweep), "concurrency_sweep.json")
    assert found.curve["concurrency"].unique().tolist() == [1.0, 16.0]
    assert found.rows == 2
    for folder, level in (("c16_r2", 16), ("c2_r1", 2)):
        (tmp_path / folder).mkdir()
        result = {"config": {"concurrency": level}, "per_request": [omni_request("a", 0.11)],
                  "summary": OMNI_SUMMARY}  # fmt: skip
        (tmp_path / folder / "speed_results.json").write_text(json.dumps(result, indent=2))
        (tmp_path / folder / "notes.json").write_text("{}")
    found = read(tmp_path)
    assert found.chunks["concurrency"].tolist() == [2.0] * 4 + [16.0] * 4
    assert found.chunks["run"].unique().tolist() == [
        f"{tmp_path.name}/c2_r1",
        f"{tmp_path.name}/c16_r2",
    ]
    assert found.curve["concurrency"].unique().tolist() == [2.0, 16.0]


def test_an_error_in_a_long_document_names_its_own_line(tmp_path):
    requests = [omni_request("a", 0.11), omni_request("b", 0.11, inter_chunk_s=[0.7, -0.2, 0.2])]
    text = json.dumps({"summary": OMNI_SUMMARY, "per_request": requests}, indent=2)
    with pytest.raises(CalibrationError) as error:
        measured(tmp_path, text)
    assert error.value.line == 1 + text[: text.index("-0.2")].count("\n")
    assert error.value.message.startswith("per_request[1].inter_chunk_s[1]: found -0.2")


def test_tts_serving_records(tmp_path):
    found = measured(tmp_path, lines(record("w", 3.0, True), record("a", 5.5), record("b", 6.0)))
    assert found.rows == 2
    assert found.requests["arrival_s"].tolist() == [0.0, 0.5]
    mine = found.chunks[found.chunks["request"] == "b"]
    assert mine["t_s"].tolist() == [0.75, 1.0, 1.5]
    assert mine["sent_s"].tolist() == [0.5] * 3
    assert mine["bytes"].tolist() == [15360, 16000, 19200]
    assert mine["concurrency"].tolist() == [8.0] * 3
    a = record("a", 0.0)
    worst = underruns(a["chunk_arrival_s"], a["chunk_audio_s"]).a_worst
    assert worst == pytest.approx(a["buffer_deficit_s"])  # the same definition
    rows = found.curve[found.curve["metric"] == "continuity"]
    assert rows[["threshold_s", "value", "definition"]].values.tolist() == [
        [0.05, 0.0, "a"],
        [0.1, 1.0, "a"],
        [0.2, 1.0, "a"],
    ]
    newer = {**record("a", 1.0), "schema_version": "tts-serving-record/3"}
    with pytest.raises(CalibrationError, match="tts-serving-record/2 is understood"):
        measured(tmp_path, lines(newer))


def test_prometheus_gauges_counters_and_histograms(tmp_path):
    steps = {"1": ("10", "30"), "8": ("20", "90"), "64": ("20", "100"), "+Inf": ("20", "100")}
    found = measured(
        tmp_path,
        dump(
            series("vllm:num_requests_running", "30", "NaN", "33"),
            series("vllm:kv_cache_usage_perc", "0.25", "0.75"),
            series("vllm:generation_tokens_total", "1000", "3000", "500", "1500"),
            series("vllm:request_success_total", "5", "15", finished_reason="stop"),
            series("vllm:request_success_total", "0", "10", finished_reason="length"),
            *(series("vllm:iteration_tokens_total_bucket", *v, le=le) for le, v in steps.items()),
            series("vllm:iteration_tokens_total_sum", "100", "900"),
            series("vllm:iteration_tokens_total_count", "20", "100"),
            series("vllm:request_queue_time_seconds_bucket", "1", "5", le="0.3"),
            series("vllm:request_queue_time_seconds_count", "1", "5"),
            series("vllm_omni:audio_underrun_s_count", "0", "40", stage="2"),
            series("vllm_omni:audio_continuity_ok_total", "0", "30", stage="2", threshold_ms="100"),
            series("go_goroutines", "1", "2"),
        ),
    )
    values = curve(found)
    assert values["requests_running", "mean"] == 31.5
    assert values["kv_share", "max"] == 0.75
    # 2,000 tokens, a restart that had counted 500 again, and 1,000: over 30 s.
    assert values["throughput_tokens", "mean"] == pytest.approx(3500 / 30)
    assert values["throughput_requests", "mean"] == pytest.approx(20 / 10)
    assert values["step_tokens", "mean"] == 10.0  # 800 tokens in 80 steps
    # 20 of the 80 steps held one token, 70 at most 8: the median is 2/5 of the way from 1 to 8.
    assert values["step_tokens", "median"] == pytest.approx(1 + 7 * 20 / 50)
    buckets = found.curve[
        (found.curve["metric"] == "step_tokens") & (found.curve["stat"] == "count")
    ]
    assert buckets["upto"].tolist() == [1, 8, 64, np.inf]
    assert buckets["value"].tolist() == [20, 70, 80, 80]
    assert values["continuity", "share"] == 0.75
    omni = found.curve[found.curve["metric"] == "continuity"]
    assert omni[["threshold_s", "definition"]].values.tolist() == [[0.1, "a"]]
    assert any("queueing under 0.3 s" in text for text in found.cannot)
    assert any("go_goroutines" in text for text in found.cannot)
    assert any("1 scrapes of NaN" in text for text in found.cannot)


def test_prometheus_dumps_with_sorted_keys(tmp_path):
    many = [f"{i % 7}" for i in range(6000)]
    text = dump(series("vllm:num_requests_running", *many))
    found = measured(tmp_path, json.dumps(json.loads(text), sort_keys=True))
    assert found.rows == 6000 and curve(found)["requests_running", "max"] == 6


@pytest.mark.parametrize("name", ["inter_token_latency_seconds", "time_per_output_token_seconds"])
def test_prometheus_knows_both_names_of_the_token_gap(tmp_path, name):
    found = measured(
        tmp_path, dump(series(f"vllm:{name}_sum", "3"), series(f"vllm:{name}_count", "200"))
    )
    assert curve(found) == {("itl_s", "mean"): 0.015}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (dump({"metric": {}, "values": [[1, "2"]]}), "raw series"),
        (dump().replace("matrix", "vector"), "dump query_range"),
        (dump().replace("success", "error"), "the query failed"),
        (dump(), "no vLLM or vLLM-Omni metric"),
        (
            dump(series("vllm:iteration_tokens_total_bucket", "1", le="x")),
            "le: 'x' is not a number",
        ),
        (
            dump(series("vllm:num_requests_running", "1", "2")).replace("0110", "0100"),
            "do not rise",
        ),
    ],
)
def test_prometheus_answers_that_hold_nothing(tmp_path, text, said):
    with pytest.raises(CalibrationError, match=said):
        measured(tmp_path, text)


def test_chunk_csv(tmp_path):
    found = measured(tmp_path, CHUNKS)
    chunks = found.chunks
    assert chunks["t_s"].tolist() == [0.625, 1.0, 0.875]
    assert chunks["sent_s"].tolist() == [0.5, 0.5, 0.75]
    assert chunks["bytes"].tolist() == [15360, 30720, 15360]
    assert chunks["prompt_tokens"].isna().tolist() == [False, False, True]
    requests = found.requests
    assert requests["arrival_s"].tolist() == [0.5, 0.75]
    assert requests["ttfa_s"].tolist() == [0.125, 0.125]
    assert requests["latency_s"].tolist() == [0.5, 0.125]
    assert column(requests, "audio_s") == [0.96, 0.32]


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ("a,1,1.0", "a,2,1.0", 3, "chunk_index: repeated or missing"),
        ("a,1,1.0,0.5", "a,1,0.55,0.5", 3, "t_arrival_s: before the chunk before it"),
        ("0.875,0.75", "0.875,0.9", 4, "t_sent_s: after the chunk's arrival"),
        ("a,1,1.0,0.5", "a,1,1.0,0.6", 3, "t_sent_s: another than"),
        ("bytes", "size", 1, "unknown column 'size'; allowed: run_id"),
    ],
)
def test_chunk_csv_out_of_order(tmp_path, old, new, line, said):
    with pytest.raises(CalibrationError, match=said) as error:
        measured(tmp_path, CHUNKS.replace(old, new))
    assert error.value.line == line


def test_calibrate_says_what_each_file_tells(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "v.json").write_text(lines({**VLLM, **DETAIL}))
    (tmp_path / "o.json").write_text(json.dumps(OMNI))
    done = CliRunner().invoke(app, ["calibrate", "v.json", "o.json", "-o", "p.yaml"])
    assert done.exit_code == 0, done.output
    assert "v.json: vllm bench serve --save-detailed, 2 rows\n  tells: latency" in done.stdout
    assert "o.json: vllm bench serve --omni, 1 rows\n" in done.stdout
    assert "o.json (vllm bench serve --omni) holds no steps: not fitted" in done.stdout
    assert "memory_s" in done.stdout and (tmp_path / "p.yaml").exists()


def test_nothing_to_fit_is_one_clear_error_after_the_statements(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "o.json").write_text(WAITING)
    done = CliRunner().invoke(app, ["calibrate", "o.json", "-o", "p.yaml"])
    assert done.exit_code == 2
    assert "limit: step times: scraped aggregates" in done.stdout
    assert done.stderr.startswith("o.json: holds no step times: nothing to fit a step cost to;")
    assert "--save-detailed" in done.stderr and done.stderr.count("\n") == 1
    assert not (tmp_path / "p.yaml").exists()
