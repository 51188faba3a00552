"""Everything that defines a run of dialogues, in plain numbers: what kernel and reference read.

A scenario becomes a DialogueSpec (``voicesim.simulation``) and a DialogueTape
(``voicesim.workload.dialogue``).  Times are seconds, lengths tokens (decode steps).
"""

from dataclasses import dataclass, field, replace

import numpy as np

from voicesim.engine.asr_spec import AsrSpec
from voicesim.engine.spec import INF, PoolSpec

CANCELS = ("none", "queued_only", "next_chunk", "immediate")
"""What stops when a caller interrupts, by number.

none: everything is generated to the end, and the call's next answer waits for it (one socket).
queued_only: text not yet at the TTS engine is dropped and streams that still wait there are
cancelled; what has started runs on.  next_chunk: a running stream ends with its next chunk, the
LLM with its next unit.  immediate: aborted, effective at the next step.
"""
NONE, QUEUED_ONLY, NEXT_CHUNK, IMMEDIATE = range(4)


@dataclass(frozen=True)
class DialogueSpec:
    """One cluster of stages, its callers' network and players, and the rules of conversation.

    asr: the speech recogniser, or None (the words are there at the decision).
    llm, tts: pools of language models and of synthesisers; an answer names one of each.
    omni: the speech-to-speech pool, or None.

    limit: calls at once; the others are refused.
    capture: microphone to network (s).  delay, uplink: one-way seconds down and up; jitter,
    uplink_jitter: float64[4096] inverse CDFs of what is added.
    prebuffer, rebuffer, max_wait, max_queue, audible: the player (voicesim.listener.player).
    detect: voice that must last before it counts as an interruption (s).
    cancel: index into CANCELS.  flush: the client drops what it has buffered when told to stop.
    resume: a false interruption silences the agent for that long (s); inf: the answer is lost.
    prefetch: units that may be at the TTS engine or unplayed beside the one playing.
    ahead: a unit goes to the TTS engine no earlier than that long before the audio sent so far
    ends (s).
    filler_after: silence after the decision until the filler plays (s); filler_audio: its length;
    filler_cut: the answer cuts it off (and overlaps), else waits for its end.
    connect: seconds before a request reaches the LLM, the TTS engine (handshakes).
    wait_all: the client plays a unit once all of it is there.  client_per_audio,
    client_per_chunk: seconds that the client's code takes for a second of audio (pacing sleep),
    for a chunk (sample-rate conversion).
    blame: log every audible stall with its causes (voicesim.engine.blame).
    trace: log what happens in the pools between these instants (s; voicesim.engine.trace); needs
    blame.
    omni_timeout: without a sound from the omni pool for so long, or refused by it, the three stages
    answer (s).
    """

    llm: tuple[PoolSpec, ...]
    tts: tuple[PoolSpec, ...]
    asr: AsrSpec | None = None
    omni: PoolSpec | None = None
    limit: int = 1 << 40
    capture: float = 0.0
    delay: float = 0.0
    uplink: float = 0.0
    jitter: np.ndarray = field(default_factory=lambda: np.zeros(4096))
    uplink_jitter: np.ndarray = field(default_factory=lambda: np.zeros(4096))
    prebuffer: float = 0.0
    rebuffer: float = 0.0
    max_wait: float = INF
    max_queue: float = INF
    audible: float = 0.1
    detect: float = 0.5
    cancel: int = IMMEDIATE
    flush: bool = True
    resume: float = INF
    prefetch: int = 1 << 40
    ahead: float = INF
    filler_after: float = INF
    filler_audio: float = 0.0
    filler_cut: bool = False
    connect_llm: float = 0.0
    connect_tts: float = 0.0
    wait_all: bool = False
    client_per_audio: float = 0.0
    client_per_chunk: float = 0.0
    omni_timeout: float = INF
    horizon: float = 600.0
    warmup: float = 0.0
    end: float = 1200.0
    resolution: float = 1.0
    seed: int = 0
    record_chunks: bool = False
    blame: bool = False
    trace: tuple[float, float] | None = None

    @property
    def bins(self) -> int:
        """Rows of the time series: one per resolution up to the end of the run."""
        return int(self.end / self.resolution) + 1

    @property
    def pools(self) -> tuple[PoolSpec, ...]:
        """All pools of continuous batching, in the order of their numbers."""
        speech = (*self.tts, *(() if self.omni is None else (self.omni,)))
        traced = self.blame and self.trace is not None
        llm = (replace(pool, blame=traced, trace=self.trace) for pool in self.llm)
        return (*llm, *(replace(p, blame=self.blame, trace=self.trace) for p in speech))
