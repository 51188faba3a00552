"""Readers of benchmark summaries and request records, each on a file composed here."""

import json
import re

import numpy as np
import pytest

from voicesim.calibrate.errors import CalibrationError
from voicesim.calibrate.readers import read
from voicesim.calibrate.readers.aggregates import ONLY

NAN = np.nan

GENAI_CSV = """\
Metric,avg,min,max,p99,p95,p90,p75,p50,p25,p10,p5,p1
Time To First Token (ms),131.52,96.10,402.88,301.40,221.75,187.30,140.02,118.21,108.90,101.33,99,96.8
Request Latency (ms),"1,263.10","1,088.00","1,702.31",N/A,1,1,1,1,1,1,1,1

Metric,Value
Output Token Throughput (tokens/sec),"1,000.04"
Request Throughput (requests/sec),12.50
Request Count (count),64.00
"""  # noqa: E501
GENAI_JSON = json.dumps(
    {
        "request_latency": {"unit": "ms", "avg": 1263.1, "p99": 1502.4, "std": 80.0},
        "time_to_first_token": {"avg": 131.5, "p50": 118.2},
        "output_token_throughput": {"unit": "tokens/sec", "avg": 1000.0},
        "input_config": {"perf_analyzer": {"stimulus": {"concurrency": 8}}},
    },
    indent=1,
)
AIPERF_CSV = """\
Metric,avg,min,max,p1,p5,p10,p25,p50,p75,p90,p95,p99,std
Inter Token Latency (ms),14.20,13.0,18.0,13,13,13,14,14,15,16,17,18,0.90
Time to First Token (ms),120.00,90,300,90,90,90,100,110,130,200,250,290,12.00
"""


def record(start, session, turn, phase="profiling", latency=657.9, cancelled=False, error=None):
    return json.dumps(
        {
            "metadata": {
                "x_request_id": f"r{start}", "conversation_id": session, "turn_index": turn,
                "request_start_ns": start, "request_end_ns": start + 657_900_000,
                "benchmark_phase": phase, "was_cancelled": cancelled,
            },
            "metrics": {
                "input_sequence_length": {"value": 412, "unit": "tokens"},
                "time_to_first_token": {"value": 0.1184, "unit": "s"},
                "inter_chunk_latency": {"value": [14.1, 13.9, 15.2], "unit": "ms"},
                "request_latency": {"value": latency, "unit": "ms"},
                "output_token_count": {"value": 41, "unit": "tokens"},
            },
            "error": error,
        }
    )  # fmt: skip


START = 1795940102532900363
AIPERF = "\n".join(
    [
        record(START + 2_000_000_001, "c-1", 1),
        record(START, "c-1", 0, latency=500),
        record(START - 5, "c-0", 0, phase="warmup"),
        record(START + 1, "c-2", 0, cancelled=True, error={"code": 500}),
    ]
)
PERF_ANALYZER = json.dumps(
    {
        "experiments": [
            {
                "experiment": {"mode": "concurrency", "value": 4},
                "requests": [
                    {"timestamp": START + 10**9, "response_timestamps": [START + 1_500_000_000]},
                    {"timestamp": START,
                     "response_timestamps": [START + 250_000_001, START + 900_000_000]},
                ],
            }
        ]
    }
)  # fmt: skip
SUMMARY = {"mean": 1.25, "median": 1.0, "std_dev": 0.5, "min": 0.5, "max": 4.0,
           "percentiles": {"p001": 0.5, "p95": 2.5, "p99": 3.5, "p999": 4.0}}  # fmt: skip
GUIDELLM = json.dumps(
    {
        "metadata": {"version": 1},
        "benchmarks": [
            {
                "config": {"strategy": {"type_": "concurrent", "streams": 16}},
                "metrics": {
                    "request_latency": {"successful": SUMMARY},
                    "time_to_first_token_ms": {"successful": {"mean": 120.0}},
                },
                "requests": {
                    "successful": [
                        {
                            "request_id": "a", "request_latency": 1.5,
                            "time_to_first_token_ms": 100.0, "output_tokens": 20,
                            "info": {"conversation_id": "k", "timings": {"request_start": 100.5}},
                            "output_metrics": {"audio_seconds": 3.25},
                        }
                    ],
                    "errored": [{"request_id": "b", "info": {"timings": {"request_start": 100.0}}}],
                },
            }
        ],
    },
    indent=1,
)  # fmt: skip
GUIDELLM_CSV = """\
Run Info,Benchmark,Timings,Request Counts,Request Latency,Request Latency,Request Latency,Time to First Token,Time to First Token
Run ID,Strategy,Duration,Successful,Successful Sec,Successful Sec,Errored Sec,Successful ms,Successful ms
,,Sec,,Mean,Std Dev,Mean,Median,Percentiles
7b1c,concurrent,60.2,742,1.25,0.5,9.0,131.5,"[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]"
"""  # noqa: E501
FLAT = {
    "version": "2023-08-31",
    "num_concurrent_requests": 16,
    "results_ttft_s_quantiles_p50": 0.5, "results_ttft_s_mean": 0.625, "results_ttft_s_min": 0.25,
    "results_ttft_s_stddev": 0.125,
    "results_number_input_tokens_mean": 550.0, "results_number_input_tokens_min": "550",
    "results_error_code_frequency": "{}",
    "results_mean_output_throughput_token_per_s": 124.0, "results_num_completed_requests": 112,
    "results_num_completed_requests_per_min": 30.0,
}  # fmt: skip
RESPONSES = [
    {"error_code": None, "error_msg": "", "inter_token_latency_s": 0.0146, "ttft_s": 0.121,
     "end_to_end_latency_s": 1.29, "number_input_tokens": 550, "number_output_tokens": 80},
    {"error_code": 429, "error_msg": "busy", "ttft_s": 0, "end_to_end_latency_s": 0.5,
     "number_input_tokens": 550, "number_output_tokens": 0},
]  # fmt: skip
K6 = """\
metric_name,timestamp,metric_value,check,error,error_code,group,method,name,proto,scenario,status,subproto,tls_version,url,extra_tags
vus,1795940100,2.000000,,,,,,,,ramp,,,,,
http_req_duration,1795940101,400.0,,,,,POST,/s,HTTP/1.1,ramp,200,,,http://t/s,
http_req_waiting,1795940101,100.0,,,,,POST,/s,HTTP/1.1,ramp,200,,,http://t/s,
ttfa_ms,1795940101,150.0,,,,,,,,ramp,,,,,
http_req_duration,1795940102,600.0,,,,,POST,/s,HTTP/1.1,ramp,503,,,http://t/s,
vus,1795940103,4.000000,,,,,,,,ramp,,,,,
http_req_duration,1795940104,1000.0,,,,,POST,/s,HTTP/1.1,ramp,200,,,http://t/s,
data_sent,1795940104,12345,,,,,,,,ramp,,,,,
"""
HISTORY = """\
Timestamp,User Count,Type,Name,Requests/s,Failures/s,50%,66%,75%,80%,90%,95%,98%,99%,99.9%,99.99%,100%,Total Request Count,Total Failure Count,Total Median Response Time,Total Average Response Time,Total Min Response Time,Total Max Response Time,Total Average Content Size
1795940101,0,,Aggregated,0,0,N/A,N/A,N/A,N/A,N/A,N/A,N/A,N/A,N/A,N/A,N/A,0,0,0,0,0,0,0
1795940102,32,POST,/v1/audio/speech,9.8,0,1,1,1,1,1,1,1,1,1,1,1,5,0,1,1,1,1,1
1795940102,32,,Aggregated,9.8,0.0,1700,1850,1980,2050,2310,2600,2900,3100,3400,3400,3400,588,0,1700,1731.2,810,3400,192400
"""  # noqa: E501
STATS = """\
Type,Name,Request Count,Failure Count,Median Response Time,Average Response Time,Min Response Time,Max Response Time,Average Content Size,Requests/s,Failures/s,50%,95%,99%
POST,/v1/audio/speech,588,3,1700,1731.2,810,3400,192400,9.8,0.05,1700,2600,3100
"""  # noqa: E501
FAILURES = """\
Method,Name,Error,Occurrences,First Seen,Last Seen
POST,/v1/audio/speech,"HTTPError(503, busy)",3,1,2
"""

GUIDELLM_TWO = """\
Run Info,Benchmark,Timings,Request Counts,Request Latency,Time to First Token
Run ID,Strategy,Duration,Successful,Successful Sec Mean,Successful ms Mean
,,Sec,,,
7b1c,concurrent,60.2,742,1.263,131.5
"""

CURVES = {
    "GenAI-Perf csv": (GENAI_CSV, [
        ("ttft_s", "mean", NAN, 0.13152), ("ttft_s", "p99", NAN, 0.3014),
        ("latency_s", "mean", NAN, 1.2631), ("latency_s", "max", NAN, 1.70231),
        ("throughput_tokens", "mean", NAN, 1000.04), ("throughput_requests", "mean", NAN, 12.5)]),
    "GenAI-Perf json": (GENAI_JSON, [
        ("latency_s", "p99", 8, 1.5024), ("latency_s", "std", 8, 0.08),
        ("ttft_s", "p50", 8, 0.1182), ("throughput_tokens", "mean", 8, 1000)]),
    "AIPerf csv": (AIPERF_CSV, [("tpot_s", "mean", NAN, 0.0142), ("ttft_s", "std", NAN, 0.012)]),
    "GuideLLM json": (GUIDELLM, [
        ("latency_s", "p0.1", 16, 0.5), ("latency_s", "p99.9", 16, 4.0),
        ("ttft_s", "mean", 16, 0.12), ("latency_s", "std", 16, 0.5)]),
    "GuideLLM csv": (GUIDELLM_CSV, [
        ("latency_s", "mean", NAN, 1.25), ("latency_s", "std", NAN, 0.5),
        ("ttft_s", "median", NAN, 0.1315), ("ttft_s", "min", NAN, 0.001),
        ("ttft_s", "p99", NAN, 0.01), ("ttft_s", "max", NAN, 0.011)]),
    "GuideLLM csv, statistic beside the unit": (GUIDELLM_TWO, [
        ("latency_s", "mean", NAN, 1.263), ("ttft_s", "mean", NAN, 0.1315)]),
    "LLMPerf flat": (json.dumps(FLAT, indent=4), [
        ("ttft_s", "p50", 16, 0.5), ("ttft_s", "std", 16, 0.125), ("prompt_tokens", "min", 16, 550),
        ("throughput_tokens", "mean", 16, 124), ("throughput_requests", "mean", 16, 0.5)]),
    "k6": (K6, [
        ("latency_s", "mean", 2, 0.5), ("latency_s", "p50", 2, 0.5), ("latency_s", "max", 4, 1.0),
        ("ttfb_s", "mean", 2, 0.1), ("ttfa_s", "mean", 2, 0.15)]),
    "Locust history": (HISTORY, [
        ("latency_s", "p50", 32, 1.7), ("latency_s", "p99.9", 32, 3.4),
        ("latency_s", "max", 32, 3.4), ("throughput_requests", "mean", 32, 9.8)]),
    "Locust stats": (STATS, [
        ("latency_s", "mean", NAN, 1.7312), ("latency_s", "p95", NAN, 2.6),
        ("throughput_requests", "mean", NAN, 9.8)]),
    "Locust failures": (FAILURES, [("failures", "total", NAN, 3)]),
}  # fmt: skip


def written(tmp_path, text, name="t"):
    path = tmp_path / name
    path.write_text(text)
    return path


@pytest.mark.parametrize(("text", "expected"), CURVES.values(), ids=CURVES)
def test_points(tmp_path, text, expected):
    measured = read(written(tmp_path, text))
    curve = measured.curve
    for metric, stat, concurrency, value in expected:
        level = curve["concurrency"]
        same = level.isna() if np.isnan(concurrency) else level == concurrency
        [found] = curve["value"][same & (curve["metric"] == metric) & (curve["stat"] == stat)]
        assert found == pytest.approx(value, rel=1e-12), (metric, stat)
    if measured.requests is None:
        assert measured.cannot == [ONLY]


def test_what_is_not_there_makes_no_point(tmp_path):
    genai = read(written(tmp_path, GENAI_CSV)).curve
    assert not ((genai["metric"] == "latency_s") & (genai["stat"] == "p99")).any()
    assert set(read(written(tmp_path, HISTORY)).curve["run"]) == {"1795940102"}
    assert len(read(written(tmp_path, HISTORY)).curve) == 12  # eleven percentiles and the rate
    assert (read(written(tmp_path, GUIDELLM_CSV)).curve["value"] < 9).all()  # no errored ones


def test_requests_of_aiperf(tmp_path):
    measured = read(written(tmp_path, AIPERF))
    found = measured.requests
    assert found["arrival_s"].tolist() == [0, 1e-9, 2.000000001]
    assert found["latency_s"].tolist() == pytest.approx([0.5, 0.6579, 0.6579])
    assert found["ttft_s"].tolist() == [0.1184] * 3
    assert found["session"].tolist() == ["c-1", "c-2", "c-1"]
    assert found["ok"].tolist() == [True, False, True]
    assert found["cancelled"].tolist() == [False, True, False]
    assert found["line"].tolist() == [2, 4, 1]
    assert (found["tokens"].iloc[0], found["prompt_tokens"].iloc[0]) == (41, 412)
    assert measured.epoch_s == START / 1e9


def test_requests_and_chunks_of_perf_analyzer(tmp_path):
    measured = read(written(tmp_path, PERF_ANALYZER))
    found, chunks = measured.requests, measured.chunks
    assert found["arrival_s"].tolist() == [1.0, 0.0]
    assert found["ttft_s"].tolist() == [0.5, 0.250000001]
    assert found["latency_s"].tolist() == [0.5, 0.9]
    assert chunks["t_s"].tolist() == [1.5, 0.250000001, 0.9]
    assert chunks["chunk"].tolist() == [0, 0, 1]
    assert chunks["concurrency"].tolist() == [4, 4, 4]


def test_requests_of_guidellm_llmperf_and_k6(tmp_path):
    found = read(written(tmp_path, GUIDELLM)).requests
    assert found["arrival_s"].tolist() == [0.5, 0]
    assert found["ttft_s"].tolist()[0] == 0.1
    assert found["audio_s"].tolist()[0] == 3.25
    assert found["ok"].tolist() == [True, False]
    found = read(written(tmp_path, json.dumps(RESPONSES))).requests
    assert found["latency_s"].tolist() == [1.29, 0.5]
    assert found["ok"].tolist() == [True, False]
    assert found["arrival_s"].isna().all()
    found = read(written(tmp_path, K6)).requests
    assert found["arrival_s"].tolist() == pytest.approx([0.6, 1.4, 3.0])
    assert found["ok"].tolist() == [True, False, True]
    assert found["line"].tolist() == [3, 6, 8]


def test_k6_times_in_other_formats(tmp_path):
    expected = read(written(tmp_path, K6)).requests["arrival_s"]
    milli = K6
    for second in range(100, 105):
        milli = milli.replace(f"1795940{second}", f"1795940{second}000")
    np.testing.assert_allclose(
        read(written(tmp_path, milli)).requests["arrival_s"], expected, atol=1e-6
    )
    rfc = K6
    for second in range(100, 105):
        rfc = rfc.replace(f"1795940{second}", f"2026-11-29T08:55:{second - 100:02d}Z")
    np.testing.assert_allclose(
        read(written(tmp_path, rfc)).requests["arrival_s"], expected, atol=1e-6
    )


def nested(key, value):
    data = json.loads(GUIDELLM)
    data["benchmarks"][0]["metrics"]["request_latency"]["successful"][key] = value
    return json.dumps(data, indent=1)


BROKEN = {
    "unit": (GENAI_JSON.replace('"ms"', '"min"'), "request_latency.unit: unknown unit 'min'"),
    "csv unit": (GENAI_CSV.replace("Latency (ms)", "Latency (h)"), "t:3: Request Latency (h): unk"),
    "csv number": (
        GENAI_CSV.replace("96.10", "fast"),
        "t:2: Time To First Token, min: found 'fast'",
    ),
    "csv comma": (GENAI_CSV.replace('"1,088.00"', '"1,08.00"'), "t:3: Request Latency, min: found"),
    "csv short": (
        GENAI_CSV.replace(",99,96.8", ""),
        "t:2: Time To First Token (ms): row has 11 of",
    ),
    "NaN": (GENAI_JSON.replace("1263.1", "NaN"), "t:4: NaN is not a number that JSON has"),
    "negative": (
        GENAI_JSON.replace("131.5", "-1"),
        "time_to_first_token.avg: found -1; must be at",
    ),
    "cut": (GENAI_JSON[:-40], "is truncated"),
    "aiperf, line": (
        AIPERF.replace('"value": 500', '"value": "500"'),
        "t:2: metrics.request_latency.value",
    ),
    "aiperf, end": (
        AIPERF.replace(f'"request_end_ns": {START + 657_900_000}', '"request_end_ns": 5'),
        "t:2: metadata.request_end_ns: is before",
    ),
    "aiperf, cut": (AIPERF[:-30], "t:4: is truncated"),
    "responses back": (
        PERF_ANALYZER.replace(str(START + 900_000_000), str(START)),
        "response_timestamps: go back",
    ),
    "guidellm text": (
        nested("mean", "1.2"),
        "benchmarks[0].metrics.request_latency.successful.mean",
    ),
    "guidellm csv": (
        GUIDELLM_CSV.replace("10, 11]", "10]"),
        "t:4: Time to First Token, Percentiles",
    ),
    "guidellm rows": (
        "\n".join(GUIDELLM_CSV.splitlines()[:3]),
        "three header rows and no benchmark",
    ),
    "llmperf": (json.dumps(FLAT, indent=4).replace("0.625", '"fast"'), "t:5: results_ttft_s_mean"),
    "llmperf, row": (
        json.dumps(RESPONSES, indent=1).replace("0.121", "Infinity"),
        "Infinity is not a number",
    ),
    "llmperf, type": (
        json.dumps(RESPONSES, indent=1).replace("0.121", '"x"'),
        "t:6: [0].ttft_s: must be a number",
    ),
    "k6, value": (K6.replace("600.0", "nan"), "t:6: metric_value: 'nan' is not a number"),
    "k6, time": (K6.replace("1795940102", "noon"), "t:6: timestamp"),
    "k6, nothing": (
        "\n".join([K6.splitlines()[0], K6.splitlines()[-1], ""]),
        "holds no sample that is known",
    ),
    "locust": (HISTORY.replace("2310", "slow"), "t:4: 90%: found 'slow'"),
    "locust, comma": (
        HISTORY.replace(",1700,1850", ',"1,700",1850'),
        "t:4: 50%: '1,700' has thousands commas; write plain numbers",
    ),
    "locust, comma in a cell that is not used": (
        HISTORY.replace(",1731.2,", ',"1,731.2",'),
        "t:4: Total Average Response Time: '1,731.2' has thousands commas",
    ),
    "k6, comma": (
        K6.replace("600.0", '"1,600.0"'),
        "t:6: metric_value: '1,600.0' has thousands commas",
    ),
    "guidellm, no unit": (
        GUIDELLM_TWO.replace("Successful Sec Mean", "Successful"),
        "t:2: Request Latency: unknown unit none",
    ),
    "aiperf, a time that no clock shows": (
        AIPERF.replace(f'"request_start_ns": {START}', '"request_start_ns": 1e300'),
        "metadata.request_start_ns: found 1e+300; must be nanoseconds since 1970, of 63 bits",
    ),
    "locust, no time": (
        "\n".join(re.sub(r"^\d+,(\d+,,Agg)", r",\1", line) for line in HISTORY.splitlines()),
        "t:2: Timestamp: is empty; must be a number >= 0",
    ),
    "locust, short": (STATS.replace(",3100", ""), "t:2: row has 13 of 14 fields"),
    "locust, empty": (STATS.splitlines()[0] + "\n", "t:1: has a header but no rows"),
}


@pytest.mark.parametrize(("text", "message"), BROKEN.values(), ids=BROKEN)
def test_broken_files_are_refused_with_their_line(tmp_path, text, message):
    with pytest.raises(CalibrationError) as error:
        read(written(tmp_path, text))
    assert message in str(error.value)
