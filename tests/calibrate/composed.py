"""One small file of every format, composed for the tests, and where it can be broken."""

import json
from dataclasses import dataclass


@dataclass(frozen=True)
class Form:
    """A file: its text, a number in it (with its key, unique), that number's line, a needed key.

    quoted: are its numbers written as JSON strings?  named: does the format name the key when it
    is missing (else the file is not recognised any more)?
    """

    file: str
    text: str
    number: str
    value: str
    line: int
    key: str
    quoted: bool = False
    named: bool = True

    def with_value(self, value: str) -> str:
        """The text with another value for the number."""
        assert self.text.count(self.number) == 1, self.number
        return self.text.replace(self.number, self.number.replace(self.value, value))


def lines(*objects: object) -> str:
    """JSON lines."""
    return "".join(json.dumps(o, separators=(",", ":")) + "\n" for o in objects)


VLLM = {
    "date": "20261129-091502", "endpoint_type": "openai", "backend": "openai", "label": None,
    "model_id": "m", "tokenizer_id": "m", "num_prompts": 2, "gpu": "L40S", "request_rate": "inf",
    "burstiness": 1.0, "max_concurrency": 2, "duration": 0.2, "completed": 2, "failed": 0,
    "total_input_tokens": 8, "total_output_tokens": 16, "request_throughput": 10.0,
    "request_goodput": None, "output_throughput": 80.0, "max_concurrent_requests": 2,
    "mean_ttft_ms": 92.5, "p99_ttft_ms": 101.75, "p99.9_itl_ms": 12.5, "mean_e2el_ms": 187.5,
    "mean_client_queue_time_ms": 1.5,
}  # fmt: skip

DETAIL = {
    "input_lens": [4, 4], "output_lens": [10, 6], "ttfts": [0.1, 0.08],
    "itls": [[0.01] * 9, [0.01] * 5], "start_times": [81234.0, 81234.05],
    "latencies": [0.19, 0.13], "errors": ["", ""],
}  # fmt: skip
"""Two streams in common steps of 10 ms; the second's prompt ends in the first's third step."""

OMNI = {
    "backend": "openai-audio-speech", "model_id": "m", "num_prompts": 64, "request_rate": 2.5,
    "burstiness": 1.0, "max_concurrency": 32, "duration": 31.5, "completed": 64, "failed": 0,
    "request_throughput": 2.0, "total_audio_duration_s": 338.4, "total_audio_frames": 8121600,
    "audio_throughput": 10.75, "mean_audio_ttfp_ms": 1544.5, "p99_audio_ttfp_ms": 4105.25,
    "mean_audio_rtf": 1.5, "median_audio_underrun_s": 0.05, "p90_audio_underrun_s": 0.25,
    "p99_audio_underrun_s": 2.25,
}  # fmt: skip

CONTINUITY = {
    "num_requests_ok": 128, "mean_ttft_ms": 640, "mean_ttfp_ms": 2810, "median_ttfp_ms": 2751,
    "p99_ttfp_ms": 5163, "mean_tpot_ms": 80.5, "mean_audio_rtf": 2.75,
    "mean_max_underrun_ms": 5120, "p99_max_underrun_ms": 7504, "max_max_inter_chunk_gap_ms": 900,
    "underrun_rate": 0.75, "num_continuity_ok": 32, "model": "TTS-Base", "concurrency": 64,
    "num_prompts": 128, "num_warmups": 2, "sample_rate": 24000, "response_format": "pcm",
}  # fmt: skip


def nari(name: str, phase: str, sent_s: float, stalls_s: tuple[float, ...] = ()) -> dict:
    """A request of tts-bench: first audio after 125 ms, 4 s of audio, done after 2 s."""
    at = int(sent_s * 1e9)
    first, now, under = at + 125_000_000, at + 325_000_000, []
    for stall in stalls_s:
        end = now + int(stall * 1e9)
        under.append({"started_elapsed_ns": now, "recovered_elapsed_ns": end,
                      "stalled_ns": end - now})  # fmt: skip
        now = end + 200_000_000
    sizes = [u["stalled_ns"] for u in under]
    return {
        "schema_version": 1, "run_id": "r1", "request_id": name, "phase": phase,
        "phase_index": 0, "prompt_id": "en-1", "prompt_word_count": 14,
        "scheduled_elapsed_ns": at - 400_000, "task_started_elapsed_ns": at - 100_000,
        "dispatch_elapsed_ns": at, "response_headers_elapsed_ns": at + 60_000_000,
        "first_body_elapsed_ns": first, "completed_elapsed_ns": at + 2_000_000_000,
        "status_code": 200, "success": True, "error_kind": None, "output_bytes": 192000,
        "measurement_window_audio_ns": 4_000_000_000,
        "playback": {
            "complete": True, "continuous": not under, "first_playable_elapsed_ns": first,
            "audio_duration_ns": 4_000_000_000, "underruns": under,
            "total_stalled_ns": sum(sizes), "largest_stall_ns": max(sizes, default=0),
        },
        "transport_status": "complete", "audio_success": True,
    }  # fmt: skip


def nari_chunk(name: str, t_s: float, audio_s: float) -> dict:
    """A chunk's event."""
    size = int(audio_s * 48000)
    data = {"raw_bytes": size, "pcm_bytes": size, "media_duration_ns": int(audio_s * 1e9)}
    return {
        "schema_version": 1, "run_id": "r1", "request_id": name, "phase": "measurement",
        "type": "response.body_chunk", "elapsed_ns": int(t_s * 1e9), "data": data,
    }  # fmt: skip


SGLANG = (
    '{"backend":"sglang-oai-chat","dataset_name":"random","request_rate":Infinity,'
    '"max_concurrency":16,"duration":12.5,"completed":160,"request_throughput":12.5,'
    '"output_throughput":1000.0,"mean_e2e_latency_ms":1263.5,"p99_e2e_latency_ms":1502.5,'
    '"median_ttft_ms":118.25,"mean_tpot_ms":14.5,"p95_itl_ms":18.75,"concurrency":15.75,'
    '"accept_length":null}\n'
)


def omni_request(name: str, underrun_s: float | None, **other: object) -> dict:
    """A request of sglang-omni with four chunks."""
    return {
        "id": name, "text": "Hello.", "is_success": True, "latency_s": 1.75,
        "audio_duration_s": 4.0, "rtf": 0.4375, "prompt_tokens": 156, "completion_tokens": 50,
        "output_token_rate": 28.5, "error": "", "audio_ttfp_s": 0.5, "text_ttft_s": None,
        "inter_chunk_s": [0.75, 0.25, 0.25], "chunk_audio_duration_s": [0.64, 1.12, 1.12, 1.12],
        "max_playback_underrun_s": underrun_s, "audio_chunk_count": 4, **other,
    }  # fmt: skip


OMNI_SUMMARY = {
    "completed_requests": 50, "failed_requests": 0, "latency_mean_s": 1.75, "latency_p95_s": 2.25,
    "rtf_mean": 0.4375, "throughput_qps": 9.25, "audio_ttfp_p95_s": 0.75,
    "max_playback_underrun_p95_s": 0.125, "c50": 78.0, "c100": 94.0, "c200": None,
    "playback_continuity_requests": 50, "playback_continuity_na_requests": 0,
}  # fmt: skip


def record(name: str, sent_s: float, warmup: bool = False) -> dict:
    """A tts-serving-record of three chunks, the last 100 ms late by definition A."""
    return {
        "schema_version": "tts-serving-record/2", "run": "x", "point": "c8", "repeat": 1,
        "warmup": warmup, "request_id": name, "ok": True, "t_submit_s": sent_s,
        "t_connect_ms": 3.5, "ttfa_s": 0.25, "wall_s": 1.0,
        "chunk_arrival_s": [0.25, 0.5, 1.0], "chunk_bytes": [15360, 16000, 19200],
        "chunk_audio_s": [0.32, 0.33, 0.4], "audio_s": 1.05, "frames": 13.125,
        "sample_rate": 24000, "buffer_deficit_s": 0.1, "continuity_ok": True,
        "underrun_event_count": 1,
        "continuity_ok_by_threshold": {"0.05": False, "0.1": True, "0.2": True},
    }  # fmt: skip


def series(name: str, *values: str, **labels: str) -> dict:
    """One series scraped every 10 s."""
    metric = {"__name__": name, "model_name": "tts", "engine": "0", **labels}
    return {"metric": metric, "values": [[1795940100 + 10 * i, v] for i, v in enumerate(values)]}


def dump(*results: dict) -> str:
    """A query_range answer."""
    data = {"resultType": "matrix", "result": list(results)}
    return json.dumps({"status": "success", "data": data}, indent=1)


CHUNKS = (
    "run_id,stream_id,chunk_index,t_arrival_s,t_sent_s,audio_s,bytes,prompt_tokens,concurrency\n"
    "r,a,0,0.625,0.5,0.32,15360,60,2\nr,a,1,1.0,0.5,0.64,30720,60,2\n"
    "r,b,0,0.875,0.75,0.32,15360,,2\n"
)
TRACE = (
    "run_id,concurrency,stream_id,token_index,t_arrival_s,prompt_tokens\n"
    "a,1,0,0,0.100,32\na,1,0,1,0.130,32\na,1,0,2,0.160,32\n"
)
STEPS = "batch,context_tokens,seconds\n1,50,0.010\n2,50,0.011\n4,50,0.013\n"
WAITING = dump(
    series("vllm:num_requests_running", "31", "32", "32.5"),
    series("vllm:num_requests_waiting", "0", "0", "NaN"),
)
TWO = lines(nari("m-1", "measurement", 8.0), nari("m-2", "measurement", 9.0))

FORMS = {
    "chunk_csv": Form("c.csv", CHUNKS, "1.0,0.5", "1.0", 3, "t_arrival_s"),
    "arrival_trace": Form("t.csv", TRACE, "0.130", "0.130", 3, "prompt_tokens"),
    "steps": Form("s.csv", STEPS, "0.011", "0.011", 3, "seconds"),
    "vllm_bench": Form(
        "v.json", lines(VLLM, {**VLLM, **DETAIL, "mean_ttft_ms": 9.125}),
        '"mean_ttft_ms":9.125', "9.125", 2, "request_rate", named=False,
    ),
    "continuity_client": Form(
        "k.json", json.dumps([CONTINUITY], indent=2), '"mean_ttfp_ms": 2810', "2810", 5,
        "concurrency",
    ),
    "nari_bench": Form(
        "requests.jsonl", TWO, '"dispatch_elapsed_ns":9000000000', "9000000000", 2, "request_id"
    ),
    "sglang_serving": Form(
        "g.jsonl", SGLANG, '"mean_tpot_ms":14.5', "14.5", 1, "request_rate", named=False
    ),
    "sglang_omni": Form(
        "o.jsonl", lines(omni_request("a", 0.11), omni_request("b", None, latency_s=1.875)),
        '"latency_s":1.875', "1.875", 2, "is_success", named=False,
    ),
    "tts_serving": Form(
        "records.jsonl", lines(record("w", 3.0, True), record("a", 5.5)), '"t_submit_s":5.5',
        "5.5", 2, "chunk_arrival_s",
    ),
    "prometheus": Form("p.json", WAITING, '"32.5"', "32.5", 23, "resultType", True),
}  # fmt: skip
"""By the name of the reader's module."""
