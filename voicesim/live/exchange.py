"""One request and what came back, on the clock of its run."""

import time
from dataclasses import dataclass, field

from voicesim.live.pcm import AudioFormat


class Clock:
    """Seconds since the run began, by the monotonic clock; live: requests now in flight."""

    def __init__(self) -> None:
        self.start = time.perf_counter()
        self.live = 0

    def now(self) -> float:
        return time.perf_counter() - self.start


@dataclass
class Chunk:
    """t: when its last byte was read (s).  audio: seconds (None for tokens).  live: requests in
    flight at its first read."""

    t: float
    audio: float | None
    bytes: int
    tokens: int
    live: int


@dataclass
class Exchange:
    """A request; protocols call ``send`` and ``add``.  gather: reads less than that apart (s) are
    one chunk, since one write of the server may take several reads."""

    stream: int
    clock: Clock
    gather: float = 0.0
    due: float | None = None
    sent: float = float("nan")
    chunks: list[Chunk] = field(default_factory=list)
    prompt_tokens: int | None = None
    characters: int | None = None
    said_tokens: int | None = None
    format: AudioFormat | None = None
    headers: dict[str, str] = field(default_factory=dict)
    error: str | None = None
    _held: int = 0

    def send(self) -> None:
        """The request leaves now."""
        self.sent = self.clock.now()

    def add(self, size: int, audio: float | None = None, tokens: int = 0) -> None:
        """Bytes were just read.  Audio of no whole frame (a WAV header) waits for the next."""
        t, live = self.clock.now(), self.clock.live
        size += self._held
        if audio == 0.0:
            self._held = size
            return
        self._held = 0
        last = self.chunks[-1] if self.chunks else None
        if last is not None and audio is not None and t - last.t < self.gather:
            last.t, last.bytes, last.audio = t, last.bytes + size, (last.audio or 0.0) + audio
            return
        self.chunks.append(Chunk(t, audio, size, tokens, live))

    @property
    def units(self) -> float:
        """Seconds of audio, or tokens."""
        return sum(c.tokens if c.audio is None else c.audio for c in self.chunks)

    @property
    def first(self) -> float:
        """Send to first chunk (s)."""
        return self.chunks[0].t - self.sent

    @property
    def per_unit(self) -> float:
        """Seconds from send to last chunk per second of audio, or per token."""
        return (self.chunks[-1].t - self.sent) / self.units
