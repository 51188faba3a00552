"""``vllm bench serve --save-result``: one JSON object, or one per line with --append-result.

Statistics are in milliseconds, arrays in seconds.  The arrays need --save-detailed; with them,
``start_times`` and ``itls`` give every token's arrival and so the steps.  ``--omni`` adds audio
(``vllm_omni``).

Source: https://github.com/vllm-project/vllm/blob/main/vllm/benchmarks/serve.py
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from voicesim.calibrate.arrivals import samples_of
from voicesim.calibrate.errors import CalibrationError
from voicesim.calibrate.readers.measured import CHUNKS, CURVE, Measured, table
from voicesim.calibrate.readers.record import NAN, Record, documents
from voicesim.calibrate.readers.source import Head
from voicesim.calibrate.readers.stats import single, stats_before
from voicesim.calibrate.readers.vllm_detail import request_columns, token_arrivals
from voicesim.calibrate.readers.vllm_omni import audio_chunks, audio_rows, is_omni, sample_rate

NAME = "vllm bench serve (JSON, also --omni)"
METRICS = {
    "ttft_ms": ("ttft_s", 1e-3),
    "tpot_ms": ("tpot_s", 1e-3),
    "itl_ms": ("itl_s", 1e-3),
    "e2el_ms": ("latency_s", 1e-3),
    "client_queue_time_ms": ("client_queue_s", 1e-3),
    "e2el_including_client_queue_ms": ("latency_with_queue_s", 1e-3),
}


def sniff(head: Head) -> bool:
    """An object with the header that ``vllm bench serve`` writes."""
    return {"num_prompts", "request_rate", "burstiness"} <= head.keys


def read(path: Path) -> Measured:
    """Curve of every run; requests and step samples of detailed ones."""
    curve: list[dict[str, Any]] = []
    chunks: list[dict[str, Any]] = []
    requests, tokens, notes = [], [], []
    runs = omni = 0
    rates = set()
    for record in documents(path):
        runs += 1
        run = path.stem if record.line == 1 else f"{path.stem}:{record.line}"
        load = {
            "run": run,
            "concurrency": record.number("max_concurrency", low=1, default=NAN),
            "rate_per_s": _rate(record),
        }
        rows = stats_before(record, METRICS, **load)
        rows += single(record, "request_throughput", "throughput_requests", "mean", **load)
        rows += single(record, "output_throughput", "throughput_tokens", "mean", **load)
        rows += single(record, "completed", "requests", "total", **load)
        rows += single(record, "max_concurrent_requests", "requests_running", "max", **load)
        rows += single(record, "rtfx", "throughput_input_audio", "mean", **load)
        if is_omni(record):
            omni += 1
            rows += audio_rows(record, load)
            chunks += audio_chunks(record, run)
            rates |= sample_rate(record)
        curve += rows
        if record.has("ttfts"):
            found = request_columns(record, run)
            requests.append(found)
            if not is_omni(record):
                some, note = token_arrivals(record, run, found)
                tokens += some
                notes += note
    arrivals = pd.concat(tokens, ignore_index=True) if tokens else None
    samples = _steps(arrivals, path.name, notes)
    measured = _measured(path, runs, omni, rates, curve, chunks, requests, samples, notes)
    return replace(measured, tokens=arrivals)


def _measured(
    path: Path, runs: int, omni: int, rates: set[int], curve: list[dict[str, Any]],
    chunks: list[dict[str, Any]], requests: list[pd.DataFrame], samples: pd.DataFrame | None,
    notes: list[str],
) -> Measured:  # fmt: skip
    tells = [f"latency and throughput of {runs} run(s)"]
    cannot = list(notes)
    if omni:
        hertz = ", ".join(map(str, sorted(rates))) or "an unknown number of"
        tells.append("real-time factor, time to first audio and underruns (definition A: clock")
        tells[-1] += f" never pauses), audio counted at {hertz} Hz"
        cannot.append("decode and codec cost cannot be told apart: only what both take together")
    if samples is not None:
        tells.append("step time by batch, context and prompt, from every token's arrival")
        cannot.append("the codec: tokens are not audio")
    elif not requests:
        cannot.append("aggregates only: no step time; --save-detailed writes every token's arrival")
    if requests:
        tells.append("latency of each request")
    rows = sum(len(part) for part in requests) if requests else runs
    return Measured(
        path.name,
        "vllm bench serve" + (" --omni" if omni else "") + (" --save-detailed" * bool(requests)),
        rows,
        tells,
        cannot,
        samples,
        pd.concat(requests, ignore_index=True) if requests else None,
        table(CHUNKS, chunks),
        table(CURVE, curve),
    )


def _rate(record: Record) -> float:
    """Requests per second; NaN for "inf" (all at once)."""
    if record.data.get("request_rate") in ("inf", "Infinity"):
        return NAN
    return record.number("request_rate")


def _steps(tokens: pd.DataFrame | None, file: str, notes: list[str]) -> pd.DataFrame | None:
    """Step samples; a note where the arrivals do not come in common steps."""
    if tokens is None:
        return None
    try:
        return samples_of(tokens, file)
    except CalibrationError as error:
        notes.append(error.message)
        return None
