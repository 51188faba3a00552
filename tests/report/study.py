"""A small made-up study for the report: what the run command hands over, as plain data."""

from typing import Any

import numpy as np
import pandas as pd

VALUES = {
    "offered": 178604.0, "refused": 1901.0, "abandoned": 77.0, "failed": 0.0,
    "completed": 176626.0, "clean_share": 0.464, "stalled_share": 0.465,
    "stall_seconds_per_1000_audio_minutes": 1257.03, "pace_p99": 1.3216,
    "ttfa_p50_s": 0.4508, "ttfa_p95_s": 2.3162, "ttfa_p99_s": 4.5034,
    "waiting_at_first_stall": 0.0, "alarm_lead_s": 74.2, "not_measured": 0.0, "preemptions": 0.0,
    "gpu_cost": None, "cost_per_1000_clean_calls": None, "c50": 0.6, "c100": 0.64, "c200": 0.84,
}  # fmt: skip
BUSY = {"decode": 0.679, "host": 0.02, "codec": 0.799}


def interval(value: float | None, half: float | None) -> dict[str, float | None]:
    if value is None or half is None:
        return {"mean": value, "low": None, "high": None}
    return {"mean": value, "low": value - half, "high": value + half}


def metrics(relative: float | None = None, **changes: float | None) -> dict[str, Any]:
    """Metrics of one variant; relative: half-width of every interval, as a part of its mean."""

    def known(value: float | None) -> dict[str, float | None]:
        return interval(value, None if relative is None or value is None else relative * value)

    found: dict[str, Any] = {name: known(value) for name, value in {**VALUES, **changes}.items()}
    found["busy_share"] = {stage: known(value) for stage, value in BUSY.items()}
    found["alarm_fired_s"] = {"chunk_gap_p99_over_10s_above_1": known(900.0)}
    return found


def quiet(**changes: float | None) -> dict[str, Any]:
    """A variant whose listeners hear no stall."""
    none = {"stalled_share": 0.0, "stall_seconds_per_1000_audio_minutes": 0.0}
    return metrics(None, **{**none, "waiting_at_first_stall": None, "alarm_lead_s": None,
                            "clean_share": 0.719, "pace_p99": 2.0, **changes})  # fmt: skip


def unmeasured() -> dict[str, Any]:
    found = metrics(**dict.fromkeys(VALUES, None))
    found["busy_share"] = {stage: interval(None, None) for stage in BUSY}
    return found


def context(**changes: Any) -> dict[str, Any]:
    return {
        "title": "A peak", "slo": {"start_within": 1.0, "no_stall_over": 0.1}, "audible": 0.1,
        "replications": 1, "horizon": 1200.0, "seed": 7, "warnings": [], "assumptions": [],
        **changes,
    }  # fmt: skip


def series(*variants: str, stalls: bool = True, replications: int = 1) -> pd.DataFrame:
    """Twenty minutes with a hump in the middle, bins of 1 s."""
    t = np.arange(1200.0)
    hump = np.exp(-(((t - 600) / 150) ** 2))
    frames = []
    for i, name in enumerate(variants):
        random = np.random.default_rng(i)
        frame = pd.DataFrame(
            {
                "variant": name,
                "t_s": t,
                "offered_per_s": 40 + 80 * hump,
                "calls": random.poisson(40 + 80 * hump),
                "refused": random.poisson(20 * hump),
                "abandoned": random.poisson(5 * hump),
                "stalls": random.poisson(30 * hump**4) if stalls else 0,
                "live": (100 + 900 * hump).astype(int),
                "running": 100, "waiting": 0, "waiting_max": 0, "codec_queue": 0, "gateway": 0,
                "gap_p99": 0.4 + 1.1 * hump,
            }
        )  # fmt: skip
        frames += [frame.assign(replication=r) for r in range(replications)]
    return pd.concat(frames, ignore_index=True)
