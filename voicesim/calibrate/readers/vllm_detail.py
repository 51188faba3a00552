"""The arrays of ``vllm bench serve --save-detailed``: requests, and every token's arrival.

All are in seconds; ``start_times`` have an arbitrary origin.  A chat stream's first event holds no
token but the role.  The client counts events, not tokens
(https://github.com/vllm-project/vllm/blob/main/vllm/benchmarks/lib/endpoint_request_func.py).
"""

from typing import Any

import numpy as np
import pandas as pd

from voicesim.calibrate.readers.measured import REQUESTS, table
from voicesim.calibrate.readers.record import NAN, Record
from voicesim.calibrate.readers.source import kind

TOO_MANY = 0.05
"""Share of requests whose arrivals are not single tokens above which no steps are made."""


def request_columns(record: Record, run: str) -> pd.DataFrame:
    """One row per request of the detailed arrays (all seconds)."""
    n = len(record.items("ttfts"))
    errors = [str(e or "") for e in _of_length(record, "errors", n) or [""] * n]
    ok = np.array([not e for e in errors], dtype=bool)
    ttft = _column(record, "ttfts", n)
    tokens, prompt = _column(record, "output_lens", n), _column(record, "input_lens", n)
    starts = record.numbers("start_times") if record.has("start_times") else []
    if len(starts) not in (0, n):
        raise record.refuse("start_times", f"holds {len(starts)} values, ttfts {n}")
    if record.has("latencies") and len(record.items("latencies")) == n:
        latency = np.array(record.numbers("latencies"))
    else:
        itls = _gaps(record, n)
        latency = ttft + np.array([sum(gaps) for gaps in itls]) if itls else np.full(n, NAN)
    columns = {
        "run": run,
        "request": [str(i) for i in range(n)],
        "arrival_s": np.array(starts) - min(starts) if starts else NAN,
        "ttft_s": np.where(ok, ttft, NAN),
        "latency_s": np.where(ok, latency, NAN),
        "prompt_tokens": prompt,
        "tokens": tokens,
        "ok": ok,
        "line": record.line,
    }
    found = table(REQUESTS, columns)
    if found is None:
        raise record.refuse("ttfts", "holds no request")
    return found


def token_arrivals(
    record: Record, run: str, requests: pd.DataFrame
) -> tuple[list[pd.DataFrame], list[str]]:
    """Tokens of a run (columns of an arrival trace), and why there are none.

    A chat stream's first event holds no token but the role; it is dropped where there is one
    event more than tokens.  A server that lags sends several tokens in one event; such requests
    cannot be placed.
    """
    n = len(requests)
    if requests["arrival_s"].isna().all():
        return [], [f"{run}: no start_times, so no common clock and no steps"]
    itls = _gaps(record, n)
    if not itls:
        return [], [f"{run}: no itls, so no steps"]
    budget = record.number("max_num_batched_tokens", low=1, default=NAN)
    parts, left = [], 0
    ready = requests[requests["ok"] & (requests["ttft_s"] > 0)]
    for i, row in ready.iterrows():
        gaps = np.array([row["ttft_s"], *itls[int(str(i))]])
        times = row["arrival_s"] + np.cumsum(gaps)
        if len(times) == row["tokens"] + 1:
            times = np.delete(
                times, 1 if len(times) > 1 and gaps[1] < 0.2 * np.median(gaps) else -1
            )
        if len(times) != row["tokens"] and len(times) + 1 != row["tokens"]:
            left += 1
            continue
        part = {
            "run_id": run,
            "stream_id": float(str(i)),
            "token_index": np.arange(len(times), dtype=float),
            "t_arrival_s": times,
            "prompt_tokens": max(row["prompt_tokens"], 1.0),
            "line": record.line,
        }
        if not np.isnan(budget):
            part["token_budget"] = budget
        parts.append(pd.DataFrame(part))
    if left > TOO_MANY * len(ready) or not parts:
        why = f"{run}: {left} of {len(ready)} requests came several tokens at a time, so no steps"
        return [], [why]
    return parts, ([f"{run}: {left} requests left out (several tokens at a time)"] if left else [])


def _of_length(record: Record, key: str, n: int) -> list[Any]:
    """A list of n items, or an empty one if the key is missing."""
    if not record.has(key):
        return []
    found = record.items(key)
    if len(found) != n:
        raise record.refuse(key, f"holds {len(found)} values, ttfts {n}")
    return found


def _gaps(record: Record, n: int) -> list[list[float]]:
    """Gaps between tokens of each request (s)."""
    out = []
    for i, gaps in enumerate(_of_length(record, "itls", n)):
        if not isinstance(gaps, list):
            raise record.refuse("itls", f"must be a list; found {kind(gaps)}", i)
        out.append([record.checked("itls", gap, 0.0, i, k) for k, gap in enumerate(gaps)])
    return out


def _column(record: Record, key: str, n: int) -> np.ndarray:
    """n numbers >= 0, NaN for null or where the key is missing."""
    values = _of_length(record, key, n) or [None] * n
    return np.array(
        [NAN if v is None else record.checked(key, v, 0.0, i) for i, v in enumerate(values)], float
    )
