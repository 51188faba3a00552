"""What one engine step and one codec batch cost: the arithmetic that kernel and reference share.

Every function here is plain Python over floats and ints; the kernel compiles the very same
functions, so the two tellings of the model cannot disagree on a cost.  Only ``+ - * /`` and
``sqrt`` are used: they are exact to the last bit on every IEEE machine, ``pow`` is not.

The step (design: bandwidth and compute combined, host added or overlapped)::

    bandwidth = memory_s + memory_per_kv_token_s * (KV tokens read)
    compute   = compute_s[tokens of the step] + attention_s * (query-key pairs)
    gpu       = p-norm(bandwidth, compute)
    host      = host_s + host_per_stream_s * streams + host_per_chunk_s * (chunks just emitted)
    step      = gpu + host                      (synchronous scheduling)
              = max(gpu, host) + sync_s         (overlapped scheduling)

``compute_s`` is a table over the number of tokens in the step: it holds the staircase of CUDA
graph capture sizes, a fitted line, or a measured grid, whichever the profile gives.
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np

# Positions in StepCost.params (float64).
MEMORY, MEMORY_PER_KV, ATTENTION, NORM = range(4)
HOST, HOST_PER_STREAM, HOST_PER_CHUNK, SYNC, OVERLAP = range(4, 9)
N_STEP_PARAMS = 9

NORMS = (1, 2, 4, 8, 0)
"""Allowed norms of ``combine``; 0 stands for the hard maximum (infinity)."""


@dataclass(frozen=True)
class StepCost:
    """Step cost of one engine, ready to be evaluated.

    params: float64[9], seconds (and the norm and overlap switches), by the positions above.
    compute_s: float64[max_tokens + 1], compute seconds of a step that processes i tokens.
    """

    params: np.ndarray
    compute_s: np.ndarray


def combine(norm: float, a: float, b: float) -> float:
    """p-norm of two non-negative times, p in {1, 2, 4, 8}; 0 means the hard maximum."""
    if norm == 0.0:
        return a if a > b else b
    if norm == 1.0:
        return a + b
    a2 = a * a
    b2 = b * b
    if norm == 2.0:
        return sqrt(a2 + b2)
    a4 = a2 * a2
    b4 = b2 * b2
    if norm == 4.0:
        return sqrt(sqrt(a4 + b4))
    return sqrt(sqrt(sqrt(a4 * a4 + b4 * b4)))


def gpu_seconds(params, compute: float, kv_read: float, pairs: float) -> float:
    """GPU seconds of a step.

    compute: entry of the compute table for the tokens in the step (s).
    kv_read: KV tokens read, summed over streams.  pairs: query-key pairs, likewise.
    """
    bandwidth = params[MEMORY] + params[MEMORY_PER_KV] * kv_read
    return combine(params[NORM], bandwidth, compute + params[ATTENTION] * pairs)


def host_seconds(params, streams: float, chunks: float) -> float:
    """Host seconds of a step over ``streams`` streams, ``chunks`` audio chunks just emitted."""
    return params[HOST] + params[HOST_PER_STREAM] * streams + params[HOST_PER_CHUNK] * chunks


def step_seconds(params, gpu: float, host: float) -> float:
    """Wall seconds of a step from its GPU and host parts."""
    if params[OVERLAP] != 0.0:
        return (gpu if gpu > host else host) + params[SYNC]
    return gpu + host


def host_phase(params, gpu: float, host: float) -> float:
    """Seconds of a step before its GPU part, where that is shared with other engines: all of the
    host's, or what of it does not hide behind the GPU."""
    if params[OVERLAP] != 0.0:
        return (host - gpu if host > gpu else 0.0) + params[SYNC]
    return host


def codec_seconds(
    floor: float, per_row: float, per_frame: float, rows: float, frames: float
) -> float:
    """GPU seconds of one codec batch: launch floor, a share per row, a share per frame.

    frames counts new frames and recomputed left context over all rows.
    """
    return floor + per_row * rows + per_frame * frames
