"""What an operator's tools read from the replicas: one row of numbers each, at one instant."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Readings:
    """Arrays by replica, copies.  The same from kernel and reference.

    up: int64, 1 where the replica is there (0: crashed).  open: int64, 1 where it takes streams.
    live: int64, streams it holds.  running: int64, streams in its batch.  waiting: int64,
    num_requests_waiting as vLLM sets it, once a step after scheduling.  free_blocks: int64, KV
    blocks.  steps: int64, steps so far, which stand still where nothing goes on.  served, failed:
    int64, streams so far that it has sent whole, and that were lost there.
    busy_gpu, busy_host: float64, seconds of decoding inside the observed window.
    """

    up: np.ndarray
    open: np.ndarray
    live: np.ndarray
    running: np.ndarray
    waiting: np.ndarray
    free_blocks: np.ndarray
    steps: np.ndarray
    served: np.ndarray
    failed: np.ndarray
    busy_gpu: np.ndarray
    busy_host: np.ndarray
