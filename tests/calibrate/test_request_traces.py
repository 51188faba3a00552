"""Readers of request traces, each on a file composed here."""

import json
import tracemalloc
from functools import partial

import numpy as np
import pytest

from voicesim.calibrate.errors import CalibrationError
from voicesim.calibrate.readers import columns, read, servegen, source
from voicesim.calibrate.run import statement

AZURE_2023 = """\
TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9951690,396,109
"""
AZURE_2024 = """\
TIMESTAMP,ContextTokens,GeneratedTokens
2024-05-10 00:00:00.009930+00:00,412,38
2024-05-10 00:00:03+00:00,99,7
"""
AZURE_2025 = """\
TIMESTAMP,NumImages,ContextTokens,GeneratedTokens
2024-10-15 00:00:00.25+00:00,2,412,38
2024-10-15 00:00:01.75+00:00,0,99,7
"""
BURST = """\
Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type
5.0,101,2.8,ChatGPT,472,18,490,Conversation log
45.5,102,,GPT-4,90,0,90,API log
60,101,1.5,ChatGPT,500,26,526,Conversation log
"""
BURST_OLD = """\
Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,472,18,490,Conversation log
"""
VIDUR = "arrived_at,num_prefill_tokens,num_decode_tokens\n0.25,600,30\n1.5,20,4\n"
MOONCAKE = """\
{"timestamp": 0, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1]}
{"timestamp": 3052, "input_length": 7322, "output_length": 490, "hash_ids": [0, 2]}
"""
MOONCAKE_TURNS = """\
{"session_id": "a", "timestamp": 500, "input_length": 10, "output_length": 20}
{"session_id": "a", "delay": 1250, "input_length": 30, "output_length": 40}
{"session_id": "b", "timestamp": 100, "input_length": 50, "output_length": 60}
"""
TRACEV2 = (
    "request_id,client_id,session_id,round_index,new_column,input_tokens,output_tokens,"
    "arrival_time_us,send_time_us,first_chunk_time_us,last_chunk_time_us,status\n"
    "0,c,s1,0,x,512,128,2000000,2000100,2150100,3000100,ok\n"
    "1,c,,0,x,64,16,500000,0,0,0,\n"
    "2,c,s1,1,x,600,0,9000000,9000000,0,0,timeout\n"
)
NAN = np.nan


def written(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text)
    return path


FILES = {
    "azure 2023": (AZURE_2023, {"arrival_s": [0, 4.314579], "prompt_tokens": [374, 396],
                                "tokens": [44, 109], "line": [2, 3]}),
    "azure 2024": (AZURE_2024, {"arrival_s": [0, 2.99007], "prompt_tokens": [412, 99]}),
    "azure 2025": (AZURE_2025, {"arrival_s": [0, 1.5], "tokens": [38, 7]}),
    "burstgpt": (BURST, {"arrival_s": [5, 45.5, 60], "latency_s": [2.8, NAN, 1.5],
                         "prompt_tokens": [472, 90, 500], "tokens": [18, 0, 26],
                         "ok": [True, False, True]}),
    "burstgpt, older": (BURST_OLD, {"arrival_s": [5], "latency_s": [NAN], "tokens": [18]}),
    "vidur": (VIDUR, {"arrival_s": [0.25, 1.5], "prompt_tokens": [600, 20], "tokens": [30, 4]}),
    "mooncake": (MOONCAKE, {"arrival_s": [0, 3.052], "prompt_tokens": [6758, 7322],
                            "tokens": [500, 490], "think_s": [NAN, NAN]}),
    "mooncake turns": (MOONCAKE_TURNS, {"arrival_s": [0.5, NAN, 0.1],
                                        "think_s": [1.25, NAN, NAN]}),
    "tracev2": (TRACEV2, {"arrival_s": [0.5, 2.0, 9.0], "ttft_s": [NAN, 0.15, NAN],
                          "latency_s": [NAN, 1.0, NAN], "tokens": [16, 128, 0],
                          "ok": [True, True, False], "line": [3, 2, 4]}),
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), FILES.values(), ids=FILES)
def test_requests(tmp_path, text, expected):
    found = read(written(tmp_path, "any.name", text)).requests
    for column, values in expected.items():
        np.testing.assert_allclose(
            found[column].astype(float), np.array(values, float), rtol=0, atol=1e-12, err_msg=column
        )


def test_formats_sessions_and_dates(tmp_path):
    formats = {name: read(written(tmp_path, "t", text)).format for name, (text, _) in FILES.items()}
    assert formats["azure 2023"] == "Azure LLM trace (CSV)"
    assert formats["burstgpt, older"] == "BurstGPT trace (CSV)"
    assert formats["vidur"] == "Vidur trace (CSV)"
    assert formats["mooncake turns"] == "Mooncake or AIPerf trace (JSON lines)"
    assert formats["tracev2"] == "inference-sim TraceV2 (CSV)"
    azure = read(written(tmp_path, "t", AZURE_2024))
    assert azure.epoch_s == 1715299200.00993
    assert azure.requests["session"].isna().all()
    assert any("no id" in text for text in azure.cannot)
    assert list(read(written(tmp_path, "t", BURST)).requests["session"]) == [
        101,
        102,
        101,
    ]  # as in the file
    assert list(read(written(tmp_path, "t", TRACEV2)).requests["session"]) == [
        "line 3", "s1", "s1",
    ]  # fmt: skip


BROKEN = {
    "azure, no time": (AZURE_2024 + "yesterday,1,2\n", "t:4: TIMESTAMP: found 'yesterday'"),
    "azure, NaN": (AZURE_2024 + "2024-05-10 00:00:04+00:00,nan,2\n", "t:4: ContextTokens"),
    "azure, comma": (
        AZURE_2024 + '2024-05-10 00:00:04+00:00,"1,024",2\n',
        "t:4: ContextTokens: '1,024' has tho",
    ),
    "azure, cut": (AZURE_2024 + "2024-05-10 00:00:04+00:00,4\n", "t:4: row has 2 of 3 fields"),
    "azure, back": (AZURE_2023 + AZURE_2023.splitlines()[1] + "\n", "t:4: TIMESTAMP: goes back"),
    "azure, column": (AZURE_2023.replace("Generated", "Gen"), "t:1: column 'GeneratedTokens' is"),
    "azure, no row": ("TIMESTAMP,ContextTokens,GeneratedTokens\n", "t:1: has a header but no rows"),
    "burstgpt, part": (BURST.replace("472", "47.2"), "t:2: Request tokens: found 47.2; must"),
    "burstgpt, elapsed": (BURST.replace("2.8", "-2"), "t:2: Elapsed time: found '-2.0'"),
    "burstgpt, back": (BURST.replace("60,101", "9,101"), "t:4: Timestamp: goes back in time: 9 a"),
    "vidur, empty cell": (VIDUR + "2,,4\n", "t:4: num_prefill_tokens: the cell is empty"),
    "vidur, infinite": (VIDUR + "inf,1,4\n", "t:4: arrived_at: inf is not finite"),
    "mooncake, cut": (MOONCAKE[:-20], "t:2: is truncated"),
    "mooncake, NaN": (MOONCAKE.replace("3052", "NaN"), "t:2: NaN is not a number that JSON has"),
    "mooncake, back": (MOONCAKE.replace('": 0,', '": 9000,', 1), "t:2: timestamp: goes back"),
    "mooncake, half": (MOONCAKE.replace("500", "0.5"), "t:1: output_length: found 0.5; must be a"),
    "mooncake, missing": (
        MOONCAKE.replace("output_length", "output_lengths"),
        "t:1: output_length: is missing; near",
    ),
    "tracev2, negative": (TRACEV2.replace("512", "-5"), "t:2: input_tokens: -5 is negative"),
    "tracev2, text": (TRACEV2.replace("2150100", "soon"), "t:2: first_chunk_time_us: found 'soon'"),
    "servegen, family": ("0,1,1,Pareto,1,1\n", "is no file that is recognised"),
    "servegen, rate": ("0,1,1,Gamma,1,1\n600,1e999,2,Gamma,1,1\n", "t:2: rate: found '1e999'"),
    "servegen, back": ("600,1,1,Gamma,1,1\n0,1,2,Gamma,1,1\n", "t:2: window_start_s: goes back"),
    "servegen, cut": ("0,1,1,Gamma,1,1\n600,1,2\n", "t:2: row has 3 of 6 fields"),
}


@pytest.mark.parametrize(("text", "message"), BROKEN.values(), ids=BROKEN)
def test_broken_files_are_refused_with_their_line(tmp_path, text, message):
    with pytest.raises(CalibrationError) as error:
        read(written(tmp_path, "t", text))
    assert message in str(error.value)


def test_servegen(tmp_path):
    windows = "0,2.0,3.0,Gamma,0.111,4.5\n600,0,0,,0,0\n1200,4,1.5,Weibull,0.7,0.2\n"
    path = written(tmp_path, "chunk-7-trace.csv", windows)
    alone = read(path)
    assert alone.requests["tokens"].isna().all()
    assert any("chunk-7-dataset.json is not beside" in text for text in alone.cannot)
    said = f"{alone.rows:,} requests drawn from the laws of 3 windows"
    assert statement(alone).splitlines()[0].endswith(said)
    law = {"input_tokens": "{100: 0.25, 40: 0.75}", "output_tokens": "{7: 1.0}"}
    later = {"input_tokens": "{3: 1.0}", "output_tokens": "{}"}
    written(tmp_path, "chunk-7-dataset.json", json.dumps({"0": law, "1200": later}))
    found = read(path).requests
    np.testing.assert_array_equal(found["arrival_s"], alone.requests["arrival_s"])
    first, last = found[found["line"] == 1], found[found["line"] == 3]
    assert len(first) + len(last) == len(found)
    assert first["arrival_s"].between(0, 600).all()
    assert last["arrival_s"].between(1200, 1800).all()
    assert set(first["prompt_tokens"]) == {100, 40}
    assert set(first["tokens"]) == {7}
    assert set(last["prompt_tokens"]) == {3}
    # a renewal process of n gaps with cv c has a count of cv c / sqrt(n): four of these
    assert abs(len(last) / 2400 - 1) < 4 * 1.5 / np.sqrt(2400)
    written(tmp_path, "chunk-7-dataset.json", json.dumps({"0": {**law, "input_tokens": "{1: 2}"}}))
    with pytest.raises(CalibrationError, match=r"chunk-7-dataset.json:1: 0.input_tokens: must be"):
        read(path)


def test_the_weibull_shape_has_the_cv():
    assert servegen.weibull_shape(1.0) == pytest.approx(1.0, rel=1e-9)
    # k = 1/2: mean 2, mean square 24, so cv = sqrt(24/4 - 1)
    assert servegen.weibull_shape(np.sqrt(5.0)) == pytest.approx(0.5, rel=1e-9)


def long_tracev2(rows):
    head, row = TRACEV2.splitlines()[:2]
    pad = "p" * 4000
    cells = row.split(",")
    lines = []
    for i in range(rows):
        cells[0], cells[4], cells[7] = str(i), pad, str(1000 * i)
        lines.append(",".join(cells))
    return "\n".join([head, *lines, ""])


def long_mooncake(rows):
    ids = list(range(900))
    return "".join(
        json.dumps({"timestamp": i, "input_length": 9, "output_length": 8, "hash_ids": ids}) + "\n"
        for i in range(rows)
    )


@pytest.mark.parametrize("make", [long_tracev2, long_mooncake])
def test_memory_does_not_grow_with_the_text(tmp_path, monkeypatch, make):
    monkeypatch.setattr(columns, "text_blocks", partial(source.text_blocks, size=1 << 15))
    peaks, sizes = [], []
    for name, rows in (("warm", 30), ("small", 30), ("large", 600)):
        path = written(tmp_path, name, make(rows))
        sizes.append(path.stat().st_size)
        tracemalloc.start()
        assert read(path).rows == rows
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert sizes[2] > 19 * sizes[1]
    assert peaks[2] - peaks[1] < 0.15 * (sizes[2] - sizes[1])


def test_a_late_error_has_its_own_line(tmp_path, monkeypatch):
    monkeypatch.setattr(columns, "text_blocks", partial(source.text_blocks, size=1 << 14))
    text = long_tracev2(100).splitlines()
    text[90] = text[90].replace("512", "-512")
    with pytest.raises(CalibrationError, match="t:91: input_tokens: -512 is negative"):
        read(written(tmp_path, "t", "\n".join(text) + "\n"))


def test_gzip(tmp_path):
    import gzip

    path = tmp_path / "t.gz"
    path.write_bytes(gzip.compress(VIDUR.encode()))
    assert list(read(path).requests["tokens"]) == [30, 4]
