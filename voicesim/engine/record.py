"""What a run leaves behind, the same from kernel and reference."""

from dataclasses import dataclass, field

import numpy as np

from voicesim.engine.blame import N_STALL_F, N_STALL_I
from voicesim.engine.trace import N_TRACE_F, N_TRACE_I


@dataclass
class RunRecord:
    """Raw results of one run; columns as in voicesim.engine.layout.

    utterance_i: int64[U, 9] (its column R_SLOT is the kernel's own bookkeeping), utterance_f:
    float64[U, 11], one row per utterance of the tape.
    series: int64[bins, 10]; gaps: int64[bins, 384], coarse histogram of the gap before
    a chunk / the audio of the chunk before it; gap_hist: int64[3072], fine histogram of the gap /
    the chunk's own audio.  chunk_i: int64[n, 4], chunk_f: float64[n, 4].
    busy: seconds inside the observed window by stage, one float64[engines] each.
    live_area: float64[engines], integral of live streams over time (stream seconds).
    counters: steps, stream_steps, prefill_tokens, recomputed_tokens, preemptions,
    cached_tokens (prompt tokens found in the prefix cache), discarded_tokens, failed (no engine
    could hold them), lost (streams whose replica failed), cut (of them after their first audio),
    codec_batches, codec_rows, live_calls, max_batch, events.
    stall_i: int64[n, 12], stall_f: float64[n, 16], the audible stalls in the order of their ends,
    with their causes (voicesim.engine.blame), if asked for.
    trace_i: int64[n, 7], trace_f: float64[n, 4], what happened in a window (voicesim.engine.trace),
    if asked for.
    first_stall: start of the first audible stall (s, inf if none).  first_stall_waiting: what the
    engine's num_requests_waiting showed when the late chunk left (vLLM sets that gauge once a
    step, after scheduling: callers who have just arrived are not in it).
    """

    utterance_i: np.ndarray
    utterance_f: np.ndarray
    series: np.ndarray
    gaps: np.ndarray
    gap_hist: np.ndarray
    chunk_i: np.ndarray
    chunk_f: np.ndarray
    busy: dict[str, np.ndarray]
    live_area: np.ndarray
    counters: dict[str, int]
    first_stall: float
    first_stall_waiting: int
    now: float
    stall_i: np.ndarray = field(default_factory=lambda: np.zeros((0, N_STALL_I), np.int64))
    stall_f: np.ndarray = field(default_factory=lambda: np.zeros((0, N_STALL_F)))
    trace_i: np.ndarray = field(default_factory=lambda: np.zeros((0, N_TRACE_I), np.int64))
    trace_f: np.ndarray = field(default_factory=lambda: np.zeros((0, N_TRACE_F)))
