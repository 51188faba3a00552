"""What a measurement was: enough to repeat it, and no key, cookie or query."""

import json
import os
import platform
from collections import Counter
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import voicesim
from voicesim.live.measure import Measurement, Played
from voicesim.live.pcm import AudioFormat
from voicesim.live.plan import Plan
from voicesim.schemas import current

SCHEMA = current("measure")
LONGEST_VALUE = 200


def now() -> str:
    """UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def manifest(plan: Plan, found: Measurement, began: str) -> dict[str, Any]:
    """The manifest as JSON; times of ``runs`` in seconds."""
    return {
        "schema": SCHEMA,
        "url": plan.target.shown,
        "protocol": plan.target.protocol,
        "model": plan.model or found.server.get("model"),
        "server": {"version": found.server.get("version"), "headers": found.headers},
        "began": began,
        "ended": now(),
        "complete": not found.interrupted and found.failed is None,
        "failed": found.failed,
        "clock": {
            "name": "time.perf_counter (monotonic)",
            "zero": "the start of each run; start_s is that instant on this machine's clock",
            "t_arrival_s": "when the last byte of a chunk was read",
            "concurrency": "requests in flight at that moment",
        },
        "asked": {
            "levels": list(plan.levels) or None,
            "rate_per_s": plan.rate,
            "seconds": plan.seconds,
            "repeats": plan.repeats,
            "precision": plan.precision if plan.levels else None,
            "warmup": plan.warmup,
            "timeout_s": plan.timeout,
            "seed": plan.work.seed,
            "gather_s": None if plan.tokens else plan.gather,
            "body": {name: _short(value) for name, value in plan.body.items()},
            **(_tokens(plan) if plan.tokens else {"texts": len(plan.work.texts)}),
        },
        "audio": None if plan.tokens else _audio(found.format or plan.audio),
        "runs": [_run(played) for played in found.runs],
        "environment": {
            "voicesim": voicesim.__version__,
            "python": platform.python_version(),
            "httpx": version("httpx"),
            "websockets": version("websockets"),
            "system": platform.platform(),
            "cores": os.cpu_count(),
            "load_average": list(os.getloadavg()) if hasattr(os, "getloadavg") else None,
        },
    }


def _tokens(plan: Plan) -> dict[str, Any]:
    return {
        "prompt_tokens": list(plan.work.prompt_tokens),
        "tokens": list(plan.work.tokens),
        "vocabulary": plan.work.vocabulary,
        "token_budget": plan.token_budget,
    }


def _audio(form: AudioFormat) -> dict[str, Any]:
    return {
        "sample_rate": form.rate,
        "sample_width_bytes": form.width,
        "channels": form.channels,
        "said_by": form.origin,
    }


def _run(played: Played) -> dict[str, Any]:
    outcome, steady = played.outcome, played.steady
    return {
        "run_id": played.name,
        "concurrency": played.places,
        "rate_per_s": played.rate,
        "start_s": played.clock.start,
        "seconds": played.seconds,
        "sent": outcome.sent,
        "finished": played.streams,
        "failed": len(outcome.failed),
        "errors": dict(Counter(str(e.error) for e in outcome.failed).most_common(20)),
        "stopped_by": outcome.stopped,
        "relative_half_width": None if steady is None else _finite(steady.width),
        "bunched_share": played.bunched,
        "token_counts_that_differ_from_usage": played.miscounted,
        "client": {
            "lag_p50_s": played.lag_p50,
            "lag_p99_s": played.lag_p99,
            "lag_max_s": played.lag_max,
            "cpu_share": played.busy,
            "late_sends_max_s": max(played.late, default=None),
            "warning": played.warning,
        },
    }


def _finite(value: float | None) -> float | None:
    return None if value is None or value == float("inf") else value


def _short(value: Any) -> Any:
    """Long values (a reference voice as base64) are named, not kept."""
    size = len(json.dumps(value))
    return value if size <= LONGEST_VALUE else f"({size} characters)"
