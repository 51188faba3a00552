"""The speech recogniser's numbers."""

from dataclasses import dataclass, field

import numpy as np

ASR_KINDS = ("streaming", "windows", "slots", "offline")
"""How a recogniser works, by number.

streaming: cache-aware, one job of constant cost for each chunk of a stream (NeMo); windows: the
whole buffer again whenever ``chunk`` seconds of new audio are there and the last job is done
(LocalAgreement, whisper_streaming); slots: a fixed batch, every frame of all slots in one step
(Kyutai delayed-streams); offline: one job over the whole turn after its end.
"""
STREAMING, WINDOWS, SLOTS, OFFLINE = range(4)


@dataclass(frozen=True)
class AsrSpec:
    """A pool of equal recognisers.

    kind: index into ASR_KINDS.  engines: replicas; a call keeps the one it got, that with the
    fewest calls (lowest number of equals).
    chunk: audio of one job, of one frame (slots) (s).  right: right context (s).
    window: audio that a job of ``windows`` covers at most (s).
    cost: float64[3], seconds of a batch: floor, per row, per second of audio in it.
    cap: rows of a batch.  workers: batches at once, on separate devices.
    slots, step: places of a slot server and the seconds of its step, whoever is in it.
    """

    kind: int = STREAMING
    engines: int = 1
    chunk: float = 0.16
    right: float = 0.0
    window: float = 15.0
    cost: np.ndarray = field(default_factory=lambda: np.zeros(3))
    cap: int = 64
    workers: int = 1
    slots: int = 0
    step: float = 0.0
