"""What a reader makes of a file: the same few tables whatever tool wrote it.

Everything is in seconds, tokens and bytes; NaN where the file does not say.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

REQUESTS = (
    "run", "request", "session", "arrival_s", "ttft_s", "ttfa_s", "latency_s", "audio_s",
    "prompt_tokens", "tokens", "think_s", "ok", "cancelled", "line",
)  # fmt: skip
"""One row per request; arrival_s since its run began; think_s: the caller's pause after it, before
the next request of the session."""

CHUNKS = (
    "run", "request", "chunk", "t_s", "audio_s", "bytes", "frames", "sent_s", "prompt_tokens",
    "concurrency",
)  # fmt: skip
"""One row per delivered chunk (chunk counts from 0); t_s: its arrival at the client and sent_s:
when its request was sent, both since the run began (a file without send times: since the request
was sent, and sent_s is 0); concurrency: requests in flight."""

CURVE = (
    "run", "concurrency", "rate_per_s", "metric", "stat", "value", "threshold_s", "definition",
    "upto",
)  # fmt: skip
"""Aggregates by load.

concurrency: the cap on requests in flight; rate_per_s: requests sent (NaN: all at once).
metric: rtf_per_request, rtf_aggregate, throughput_audio (audio-s/s), throughput_requests (1/s),
throughput_tokens (1/s), ttfa_s, ttft_s, tpot_s, itl_s, latency_s, audio_s, underrun_a_s to
underrun_d_s (definitions: ``voicesim.listener.definitions``), continuity (share of requests whose
worst underrun is within threshold_s, by ``definition`` a, b, c or d), requests (completed: total),
users, requests_running, ...
stat: mean, median, std, p25 to p99.9, min, max, total, share, at_least and at_most (bounds of a
share), last, or count: how many samples were at most ``upto`` (the end of a histogram's bucket)."""

DIALOGUE = ("measure", "value", "line")
"""measure: talk_share, user_turn_s, bot_turn_s, gap_s, barge_in, endpointing_s, ..."""

TEXT = {"run", "request", "session", "metric", "stat", "definition", "measure"}
FLAGS = {"ok", "cancelled"}


@dataclass(frozen=True)
class Measured:
    """One file (or folder) as read.

    format: its human name.  rows: rows, requests or lines used; rows_are: what they are.
    tells, cannot: what it can and cannot identify, a short sentence each.  epoch_s: Unix
    time at which arrival_s is 0, where the file says.  samples: step samples
    (``calibrate.samples``).  tokens: every token's arrival (columns of ``calibrate.arrivals``;
    stream_id is the request's number), on the requests' clock.  The other tables as above; None
    where the file has nothing of the kind.
    """

    file: str
    format: str
    rows: int
    tells: list[str] = field(default_factory=list)
    cannot: list[str] = field(default_factory=list)
    samples: pd.DataFrame | None = None
    requests: pd.DataFrame | None = None
    chunks: pd.DataFrame | None = None
    curve: pd.DataFrame | None = None
    dialogue: pd.DataFrame | None = None
    tokens: pd.DataFrame | None = None
    epoch_s: float = np.nan
    rows_are: str = "rows"


def table(
    names: Sequence[str], rows: Sequence[Mapping[str, Any]] | Mapping[str, Any] | pd.DataFrame
) -> pd.DataFrame | None:
    """One of the tables above, of rows or of columns; None if there are none.

    names: REQUESTS, CHUNKS, CURVE or DIALOGUE.  What the rows leave out or give as None is NaN
    (a request is ok and not cancelled).
    """
    given = pd.DataFrame(rows)
    if given.empty:
        return None
    for name in names:
        if name not in given:
            given[name] = (name == "ok") if name in FLAGS else np.nan
        elif name in FLAGS:
            given[name] = given[name].astype(bool)
        elif name not in TEXT:
            given[name] = given[name].astype(float)
    unknown = set(given) - set(names)
    assert not unknown, f"no such columns: {unknown}"
    return given[list(names)]
