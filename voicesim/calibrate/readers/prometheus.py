"""A Prometheus ``query_range`` dump of vLLM or vLLM-Omni metrics (raw series, not rates).

Gauges give their statistics over time, counters a rate, histograms the samples that fell into
each bucket between the first and the last scrape (a counter that falls was reset by a restart, and
starts again from 0).  ``iteration_tokens_total`` is the histogram of tokens per engine step.
Values "NaN" and "+Inf" of single scrapes are left out.

Source: https://github.com/vllm-project/vllm/blob/main/vllm/v1/metrics/loggers.py,
https://github.com/vllm-project/vllm-omni (vllm_omni/metrics/definitions.py),
https://prometheus.io/docs/prometheus/latest/querying/api/
"""

import math
import re
from pathlib import Path
from typing import Any

import numpy as np

from voicesim.calibrate.errors import CalibrationError
from voicesim.calibrate.readers.buckets import histogram_rows
from voicesim.calibrate.readers.measured import CURVE, Measured, table
from voicesim.calibrate.readers.record import NAN, Record, documents
from voicesim.calibrate.readers.source import Head
from voicesim.calibrate.readers.stats import stat_rows

NAME = "Prometheus query_range dump of vLLM or vLLM-Omni (JSON)"
GAUGES = {
    "num_requests_running": "requests_running",
    "num_requests_waiting": "requests_waiting",
    "kv_cache_usage_perc": "kv_share",
    "gpu_cache_usage_perc": "kv_share",
    "stage_outputs_queue_size": "stage_queue",
    "stage_inflight_requests": "stage_running",
}
COUNTERS = {
    "num_preemptions": "preemptions_per_s",
    "prompt_tokens": "throughput_prompt_tokens",
    "generation_tokens": "throughput_tokens",
    "request_success": "throughput_requests",
    "audio_frames": "audio_frames_per_s",
    "audio_skipped_requests": "skipped_per_s",
}
HISTOGRAMS = {
    "time_to_first_token": "ttft_s",
    "time_per_output_token": "itl_s",
    "inter_token_latency": "itl_s",
    "e2e_request_latency": "latency_s",
    "request_queue_time": "queue_s",
    "request_inference_time": "inference_s",
    "request_prefill_time": "prefill_s",
    "request_decode_time": "decode_s",
    "iteration_tokens_total": "step_tokens",
    "request_prompt_tokens": "prompt_tokens",
    "request_generation_tokens": "tokens",
    "audio_ttfp": "ttfa_s",
    "audio_duration": "audio_s",
    "audio_rtf": "rtf_per_request",
    "audio_underrun": "underrun_a_s",
    "transfer_size_bytes": "transfer_bytes",
    "transfer_tx": "transfer_tx_s",
    "transfer_rx": "transfer_rx_s",
    "transfer_in_flight": "transfer_in_flight_s",
}
NOT_A_GROUP = ("__name__", "le", "finished_reason", "threshold_ms", "reason")
PART = re.compile(r"vllm(?:_omni)?:(.+?)(?:_bucket|_sum|_count)?")


def sniff(head: Head) -> bool:
    """An API answer with named series (keys may be sorted, so the last may be far away)."""
    named = '"resultType"' in head.text or '"__name__"' in head.text
    return bool({"status", "data"} & head.keys) and named


def read(path: Path) -> Measured:
    """Curve of every group of labels (model, engine, pod, stage)."""
    series = Series()
    for record in documents(path):
        if record.text_of("status") != "success":
            raise record.refuse("status", f"found {record.data['status']!r}; the query failed")
        data = record.sub("data")
        if data.text_of("resultType") != "matrix":
            what = f"found {data.data['resultType']!r}; dump query_range, which is a matrix"
            raise data.refuse("resultType", what)
        for result in data.records("result"):
            series.add(result)
    rows = [row for group in series.groups for row in series.rows(group, path.stem)]
    if not rows:
        raise CalibrationError(path.name, None, "holds no vLLM or vLLM-Omni metric with values")
    metrics = {row["metric"] for row in rows}
    cannot = ["step times: scraped aggregates, so decode and codec cost cannot be told apart"]
    if "queue_s" in metrics:
        first = min(r["upto"] for r in rows if r["metric"] == "queue_s" and r["stat"] == "count")
        cannot.append(f"queueing under {first:g} s: the histogram's first bucket")
    if series.other:
        cannot.append("not read: " + ", ".join(sorted(series.other)))
    if series.skipped:
        cannot.append(f"{series.skipped} scrapes of NaN or Inf are left out")
    return Measured(
        path.name,
        "Prometheus query_range dump",
        series.scrapes,
        ["load, latency and throughput over the time dumped"]
        + ["how many tokens a step holds"] * ("step_tokens" in metrics),
        cannot,
        curve=table(CURVE, rows),
    )


class Series:
    """Series by group of labels, each a list of (t, value)."""

    def __init__(self) -> None:
        self.groups: dict[str, dict[tuple[str, ...], tuple[np.ndarray, np.ndarray]]] = {}
        self.other: set[str] = set()
        self.skipped = self.scrapes = 0

    def add(self, result: Record) -> None:
        """One series; other names than ours are noted, not read."""
        labels = result.sub("metric")
        if not labels.has("__name__"):
            raise labels.refuse("__name__", "is missing: dump the raw series, not a rate() of them")
        name = labels.text_of("__name__")
        match = PART.fullmatch(name)
        if match is None or _plain(match[1]) not in _KNOWN:
            self.other.add(name)
            return
        own = {k: labels.text_of(k) for k in labels.data}
        group = ", ".join(f"{k}={own[k]}" for k in sorted(own) if k not in NOT_A_GROUP)
        part = name[match.end(1) :].lstrip("_")
        for label in ["le"] * (part == "bucket") + ["threshold_ms"] * ("threshold_ms" in own):
            _bound(labels, label)
        key = (_plain(match[1]), part, *(own.get(k, "") for k in NOT_A_GROUP[1:]))
        self.groups.setdefault(group, {})[key] = self._values(result)

    def _values(self, result: Record) -> tuple[np.ndarray, np.ndarray]:
        times: list[float] = []
        values: list[float] = []
        for i, pair in enumerate(result.items("values")):
            if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[1], str):
                raise result.refuse("values", f'must be [seconds, "number"]; found {pair!r}', i)
            t = result.checked("values", pair[0], 0.0, i, 0)
            try:
                value = float(pair[1].replace("_", "x"))
            except ValueError:
                raise result.refuse("values", f"{pair[1]!r} is not a number", i, 1) from None
            self.scrapes += 1
            if not math.isfinite(value):
                self.skipped += 1
                continue
            if value < 0:
                raise result.refuse("values", f"found {value:g}; must be at least 0", i, 1)
            if times and t <= times[-1]:
                raise result.refuse("values", "times do not rise", i, 0)
            times.append(t)
            values.append(value)
        return np.array(times), np.array(values)

    def rows(self, group: str, stem: str) -> list[dict[str, Any]]:
        """Curve rows of a group."""
        mine = self.groups[group]
        gauges = [(GAUGES[k[0]], v) for k, (_, v) in mine.items() if k[0] in GAUGES]
        running = [v.mean() for metric, v in gauges if metric == "requests_running" and len(v)]
        load = {
            "run": f"{stem} {{{group}}}" if group else stem,
            "concurrency": float(running[0]) if running else NAN,
        }
        rows: list[dict[str, Any]] = []
        for metric, values in gauges:
            rows += stat_rows(values, metric, **load)
        rates: dict[str, float] = {}
        for key, (t, v) in mine.items():
            if key[0] in COUNTERS and not key[1] and len(t) > 1:
                metric = COUNTERS[key[0]]
                rates[metric] = rates.get(metric, 0.0) + increase(v) / (t[-1] - t[0])
        rows += [{**load, "metric": m, "stat": "mean", "value": r} for m, r in rates.items()]
        for name, metric in HISTOGRAMS.items():
            parts = {
                (k[1], k[2]): increase(v) for k, (_, v) in mine.items() if k[0] == name and len(v)
            }
            rows += histogram_rows(parts, metric, **load)
        return rows + _continuity(mine, load)


def _bound(labels: Record, key: str) -> None:
    """Refuse a label that is not a number (an infinite one is)."""
    try:
        fine = not math.isnan(float(labels.text_of(key)))
    except ValueError:
        fine = False
    if not fine:
        raise labels.refuse(key, f"{labels.data[key]!r} is not a number")


def increase(values: np.ndarray) -> float:
    """What a counter grew by; from 0 again after it fell; a single scrape: since the start."""
    if len(values) == 1:
        return float(values[0])
    steps = np.diff(values)
    return float(np.where(steps < 0, values[1:], steps).sum())


_KNOWN = {*GAUGES, *COUNTERS, *HISTOGRAMS, "prefix_cache_queries", "prefix_cache_hits",
          "audio_continuity_ok"}  # fmt: skip


def _plain(name: str) -> str:
    """A metric's name without its unit or ``_total``, but for iteration_tokens_total."""
    if name in HISTOGRAMS or name in GAUGES:
        return name
    return re.sub(r"_(total|seconds|s)$", "", name)


def _continuity(
    mine: dict[tuple[str, ...], tuple[np.ndarray, np.ndarray]], load: dict[str, Any]
) -> list[dict[str, Any]]:
    """Shares of counters: continuity (definition A, of measured replies) and prefix cache hits."""
    grew = {key: increase(v) for key, (_, v) in mine.items() if len(v)}
    rows = []
    measured = sum(v for k, v in grew.items() if k[:2] == ("audio_underrun", "count"))
    for key, good in grew.items():
        if key[0] == "audio_continuity_ok" and measured and key[4]:
            share = {"metric": "continuity", "stat": "share", "value": min(1.0, good / measured)}
            threshold = float(key[4]) / 1e3
            rows.append({**load, **share, "threshold_s": threshold, "definition": "a"})
    asked = sum(v for k, v in grew.items() if k[0] == "prefix_cache_queries")
    hits = sum(v for k, v in grew.items() if k[0] == "prefix_cache_hits")
    if asked:
        hit = {"metric": "prefix_hits", "stat": "share", "value": hits / asked}
        rows.append({**load, **hit})
    return rows
