"""What ``vllm bench serve --omni`` adds to a result: audio.

Time to first packet is in milliseconds, durations and underruns in seconds.
``total_audio_frames`` counts PCM samples, not codec frames.  Underruns are by definition A (the
player's clock never pauses); one-chunk responses count as 0 there.  ``audio_continuity_ok_rate``
is printed but not written by the upstream version, so without it only bounds follow from the
underrun percentiles.

Source: https://github.com/vllm-project/vllm-omni (vllm_omni/benchmarks/metrics/metrics.py,
vllm_omni/benchmarks/audio_continuity.py)
"""

from typing import Any

from voicesim.calibrate.readers.record import Record
from voicesim.calibrate.readers.stats import share_bounds, single, stats_before

METRICS = {
    "audio_ttfp_ms": ("ttfa_s", 1e-3),
    "audio_rtf": ("rtf_per_request", 1.0),
    "streaming_audio_rtf": ("rtf_streaming", 1.0),
    "audio_duration_s": ("audio_s", 1.0),
    "audio_underrun_s": ("underrun_a_s", 1.0),
}
THRESHOLD_S = 0.1
"""Default of VLLM_OMNI_BENCH_AUDIO_CONTINUITY_THRESHOLD_S; the result does not say it."""


def is_omni(record: Record) -> bool:
    """Does a result hold audio?"""
    return record.has("total_audio_duration_s") or record.has("audio_throughput")


def audio_rows(record: Record, load: dict[str, Any]) -> list[dict[str, Any]]:
    """Curve rows of the audio metrics."""
    rows = stats_before(record, METRICS, **load)
    by = {**load, "threshold_s": THRESHOLD_S, "definition": "a"}
    if record.has("audio_continuity_ok_rate"):
        share = record.number("audio_continuity_ok_rate")
        if share > 1:
            raise record.refuse("audio_continuity_ok_rate", f"found {share:g}; a share is 0 to 1")
        rows.append({**by, "metric": "continuity", "stat": "share", "value": share})
    elif any(row["metric"] == "underrun_a_s" for row in rows):
        low, high = share_bounds(rows, "underrun_a_s", THRESHOLD_S)
        rows.append({**by, "metric": "continuity", "stat": "at_least", "value": low})
        rows.append({**by, "metric": "continuity", "stat": "at_most", "value": high})
    rows += single(record, "audio_throughput", "throughput_audio", "mean", **load)
    return rows + single(record, "total_audio_duration_s", "audio_s", "total", **load)


def sample_rate(record: Record) -> set[int]:
    """PCM samples over seconds: the rate that the client assumed (Hz)."""
    seconds = record.number("total_audio_duration_s", default=0.0)
    samples = record.number("total_audio_frames", default=0.0)
    rate = samples / seconds if seconds > 0 else 0.0
    return {round(rate)} if 0 < rate < 1e6 else set()


def audio_chunks(record: Record, run: str) -> list[dict[str, Any]]:
    """Chunks of the buffer timelines that a fork writes (audio received, in ms, by time, in s)."""
    if not record.has("request_metrics"):
        return []
    rows = []
    for i, request in enumerate(record.records("request_metrics")):
        if not request.has("playback_buffer_timeline"):
            continue
        held, n = 0.0, 0
        for point in request.records("playback_buffer_timeline"):
            received = point.number("received_audio_ms", 1e-3)
            if received < held:
                raise point.refuse("received_audio_ms", "is less than before")
            if received > held:
                t = point.number("time_s")
                rows.append(
                    {"run": run, "request": str(i), "chunk": n, "t_s": t, "sent_s": 0.0,
                     "audio_s": received - held}
                )  # fmt: skip
                held, n = received, n + 1
    return rows
