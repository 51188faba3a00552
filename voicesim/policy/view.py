"""What a policy may look at: a small view of the pool, never the kernel's arrays."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np


@dataclass
class Request:
    """A stream that asks for a place.  now: s; audio_s: seconds it will speak; attempt from 0."""

    now: float
    session: int
    utterance: int
    prompt_tokens: int
    audio_s: float
    attempt: int


class View(Protocol):
    """State of the pool at a decision.

    live, open, running, waiting, queued, free_blocks: int64[replicas]; lag: float64[replicas],
    moving average of the codec's queue and service time (s); gateway: callers queued there.
    """

    now: float

    @property
    def live(self) -> np.ndarray: ...
    @property
    def open(self) -> np.ndarray: ...
    @property
    def running(self) -> np.ndarray: ...
    @property
    def waiting(self) -> np.ndarray: ...
    @property
    def queued(self) -> np.ndarray: ...
    @property
    def free_blocks(self) -> np.ndarray: ...
    @property
    def lag(self) -> np.ndarray: ...
    @property
    def gateway(self) -> int: ...

    def request(self) -> Request: ...
    def has_slack(self, replica: int, lead: float | None = None) -> bool: ...
    def uniform(self, draw: int) -> float: ...
    def affinity(self) -> float: ...


Decide = Callable[[Any], tuple[int, int]]
"""A decision: view -> (ADMIT, REFUSE or QUEUE; replica)."""
