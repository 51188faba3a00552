"""Figures of a run, computed alike for every simulator from one row a finished request."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Served:
    """Finished requests: when asked, first and last token (s of the run), tokens written."""

    asked: np.ndarray
    first: np.ndarray
    last: np.ndarray
    tokens: np.ndarray


def answers(served: Served) -> dict[str, float]:
    """Throughput from the run's start to the last token, and latencies (s).

    TTFT: from asking to the first token.  E2E: from asking to the last.  TPOT: mean over requests
    of (last - first) / (tokens - 1).  live_streams: mean from the start to the last request.
    Percentiles interpolate between ranks.
    """
    span = float(served.last.max())
    ttft = served.first - served.asked
    e2e = served.last - served.asked
    more = served.tokens > 1
    pace = (served.last - served.first)[more] / (served.tokens[more] - 1)
    return {
        "requests_per_s": len(e2e) / span,
        "tokens_per_s": float(served.tokens.sum()) / span,
        "ttft_p50_s": float(np.percentile(ttft, 50)),
        "ttft_p99_s": float(np.percentile(ttft, 99)),
        "tpot_s": float(pace.mean()),
        "e2e_p50_s": float(np.percentile(e2e, 50)),
        "e2e_p99_s": float(np.percentile(e2e, 99)),
        "live_streams": float(e2e.sum()) / float(served.asked.max()),
    }
