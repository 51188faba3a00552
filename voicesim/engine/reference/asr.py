"""Speech recognition: calls, replicas, segments of speech.

A call has a replica from its first to its last second.  Each time the caller speaks is a segment;
its audio arrives at one second per second until the flush.  What a segment asks of its replica is
the matter of the four kinds below; a replica works on what is asked in batches, or, as a slot
server, in steps.  The segments are in asr_segments.py.
"""

from collections.abc import Callable
from math import inf
from typing import Any

import numpy as np

from voicesim.engine import asr_spec, cost
from voicesim.engine import layout as at
from voicesim.engine import trace as of
from voicesim.engine.asr import check, results
from voicesim.engine.asr_rules import inside
from voicesim.engine.asr_spec import AsrSpec
from voicesim.engine.reference.asr_segments import (
    CHUNK,
    Offline,
    Segment,
    Slots,
    Streaming,
    Windows,
)
from voicesim.engine.reference.timeline import Timeline
from voicesim.engine.reference.world import ratio_bucket

# Batch ends, chunk timers and kicks come after a pool's gather windows and before the timers of
# sessions, in this order: as gather windows with such large numbers.
END, KICK = CHUNK - 2**48, CHUNK + 2**48
TOLD = -8
"""Kind of the event that brings a final text to its caller: before all else of its instant."""


class Asr:
    """A pool of recognisers.

    on_text: called with the segment's row in an event of its own, at the instant at which the
    text became final and right after what made it so.
    """

    def __init__(self, env: Timeline, spec: AsrSpec, calls: int, rows: int, warmup: float,
                 horizon: float, on_text: Callable[[int], None],
                 trace: tuple[float, float] | None = None):  # fmt: skip
        check(spec)
        self.env, self.spec, self.on_text = env, spec, on_text
        self.window = warmup, horizon
        self.trace = trace
        self.logged: list[tuple[tuple[int, ...], tuple[float, ...]]] = []
        kind = SlotReplica if spec.kind == asr_spec.SLOTS else BatchReplica
        self.replicas: list[Any] = [kind(self, g) for g in range(spec.engines)]
        self.replica_of: dict[int, Any] = {}
        self.segments: dict[int, Segment] = {}
        self.chunk_hist = np.zeros(at.N_FINE, np.int64)
        self.final_hist = np.zeros(at.N_FINE, np.int64)
        self.chunk_delay = self.final_delay = self.audio = self.backlog = 0.0
        self.batches = self.jobs = self.rejected = 0

    # --- what callers do ----------------------------------------------------------------------

    def connect(self, k: int, t: float) -> int:
        """Give call k a replica; 0 if all slots are taken."""
        replica = min(self.replicas, key=lambda r: r.calls)
        if self.spec.kind == asr_spec.SLOTS and replica.calls >= self.spec.slots:
            self.rejected += 1
            return 0
        self.replica_of[k] = replica
        replica.count_calls(+1)
        return 1

    def disconnect(self, k: int, t: float) -> None:
        """Call k is over (its segments have been dropped or told)."""
        if k in self.replica_of:
            self.replica_of.pop(k).count_calls(-1)

    def speech_begins(self, r: int, k: int, t: float) -> None:
        """The audio of segment r of call k begins to arrive, at one second per second."""
        if k in self.replica_of:
            self.open(r, k).listen()

    def flush(self, r: int, t: float) -> None:
        """Segment r is over."""
        if r in self.segments:
            self.segments[r].flush()

    def transcribe(self, r: int, k: int, audio: float, t: float) -> None:
        """Segment r of call k comes all at once."""
        if k in self.replica_of:
            self.open(r, k).take_all(audio)

    def drop(self, r: int, t: float) -> None:
        """Forget segment r: a queued job is gone, a running batch goes on without its text."""
        if r in self.segments:
            self.segments.pop(r).forget()

    def open(self, r: int, k: int) -> Segment:
        kind = (Streaming, Windows, Slots, Offline)[self.spec.kind]
        self.segments[r] = kind(self, r, k, self.replica_of[k])
        return self.segments[r]

    # --- what comes of it ---------------------------------------------------------------------

    def tell(self, segment: Segment) -> None:
        """The text is final."""
        self.final_delay += self.note(segment.flushed_at, self.final_hist)
        who = segment.row, segment.replica.number, segment.jobs
        self.log(of.ASR_TEXT, *who, 0, segment.flushed_at, self.env.now)

        def arrives(_: Any) -> None:
            if not segment.dropped:
                del self.segments[segment.row]
                self.on_text(segment.row)

        self.env.at(self.env.now, TOLD, 0).callbacks.append(arrives)

    def note(self, since: float, histogram: np.ndarray) -> float:
        """Count a delay that began inside the observed window; returns it (else 0)."""
        warmup, horizon = self.window
        if not warmup <= since <= horizon:
            return 0.0
        delay = self.env.now - since
        histogram[ratio_bucket(delay)] += 1
        return delay

    def log(
        self, kind: int, who: int, replica: int, a: int, b: int, start: float, end: float,
        x: float = 0.0,
    ) -> None:  # fmt: skip
        """A row of the log, if [start, end] meets the window."""
        if self.trace is None or end < self.trace[0] or start > self.trace[1]:
            return
        if len(self.logged) < of.MOST_OF_ASR:
            self.logged.append(((kind, who, replica, a, b, 0, 0), (start, end, x, 0.0)))

    def record(self, now: float) -> dict[str, np.ndarray]:
        """The results up to ``now`` (see voicesim.engine.asr.results)."""
        return results(
            chunk_hist=self.chunk_hist,
            final_hist=self.final_hist,
            chunk_delay=self.chunk_delay,
            final_delay=self.final_delay,
            busy=[r.busy for r in self.replicas],
            calls=[r.area + r.calls * inside(r.since, now, *self.window) for r in self.replicas],
            batches=self.batches,
            jobs=self.jobs,
            audio=self.audio,
            rejected=self.rejected,
            backlog=self.backlog,
            trace_i=np.array([i for i, _ in self.logged], np.int64).reshape(-1, of.N_TRACE_I),
            trace_f=np.array([f for _, f in self.logged], float).reshape(-1, of.N_TRACE_F),
        )


# --- replicas -----------------------------------------------------------------------------------


class Replica:
    """Calls connected, and the kick that makes an idle worker look for work."""

    def __init__(self, asr: Asr, number: int):
        self.asr, self.env, self.spec, self.number = asr, asr.env, asr.spec, number
        self.calls = 0
        self.since = self.area = self.busy = 0.0
        self.kick_at = inf

    def count_calls(self, change: int) -> None:
        self.area += self.calls * inside(self.since, self.env.now, *self.asr.window)
        self.since = self.env.now
        self.calls += change

    def kick(self, t: float) -> None:
        """Look for work at t, unless that is done before."""
        if self.idle() and t < self.kick_at:
            self.kick_at = t
            self.env.at(t, at.GATHER_END, KICK + self.number).callbacks.append(self.kicked)

    def kicked(self, _: Any) -> None:
        if self.env.now == self.kick_at:
            self.kick_at = inf
            self.look()

    def work(self, worker: int, batch: list[Segment], audio: float, seconds: float) -> None:
        """A batch occupies a worker from now."""
        now = self.env.now
        self.busy += inside(now, now + seconds, *self.asr.window)
        self.asr.batches += 1
        self.asr.jobs += len(batch)
        self.asr.audio += audio
        for segment in batch:
            mine = segment.row, self.number, segment.jobs
            self.asr.log(of.ASR_JOB, *mine, 0, now, now + seconds)
        whole = worker, self.number, len(batch), self.calls
        self.asr.log(of.ASR_BATCH, *whole, now, now + seconds, audio)
        workers = 1 if self.spec.kind == asr_spec.SLOTS else self.spec.workers
        number = END + self.number * workers + worker
        done = self.env.at(now + seconds, at.GATHER_END, number)
        done.callbacks.append(lambda _: self.worked(worker, batch))

    def idle(self) -> bool:
        raise NotImplementedError

    def look(self) -> None:
        raise NotImplementedError

    def worked(self, worker: int, batch: list[Segment]) -> None:
        raise NotImplementedError


class BatchReplica(Replica):
    """A queue of jobs, first come first served, in batches of up to ``cap`` on ``workers``."""

    def __init__(self, asr: Asr, number: int):
        super().__init__(asr, number)
        self.queue: list[Segment] = []
        self.running: set[int] = set()
        floor, per_row, per_audio = self.spec.cost
        self.cost = float(floor), float(per_row), float(per_audio)

    def idle(self) -> bool:
        return len(self.running) < self.spec.workers

    def enqueue(self, segment: Segment) -> None:
        self.queue.append(segment)
        segment.queued = True
        self.kick(self.env.now)

    def look(self) -> None:
        """Idle workers take what is queued."""
        while self.idle() and self.queue:
            worker = next(w for w in range(self.spec.workers) if w not in self.running)
            self.running.add(worker)
            batch, self.queue = self.queue[: self.spec.cap], self.queue[self.spec.cap :]
            audio = 0.0
            for segment in batch:
                audio += segment.job_begins()
            seconds = cost.codec_seconds(*self.cost, float(len(batch)), audio)
            self.work(worker, batch, audio, seconds)

    def worked(self, worker: int, batch: list[Segment]) -> None:
        self.running.remove(worker)
        for segment in batch:
            if not segment.dropped:
                segment.job_ends()
        if self.queue:
            self.kick(self.env.now)


class SlotReplica(Replica):
    """A fixed batch; a step takes one frame of every slot that has one, and as long for any."""

    def __init__(self, asr: Asr, number: int):
        super().__init__(asr, number)
        self.segments: list[Slots] = []
        self.stepping = False

    def idle(self) -> bool:
        return not self.stepping

    def look(self) -> None:
        """Step if any slot has a frame, else sleep until one has."""
        frames: dict[int, Slots] = {}  # by call: a slot's segments follow each other
        for segment in self.segments:
            if segment.next_frame() <= self.env.now:
                frames.setdefault(segment.call, segment)
        if frames:
            self.stepping = True
            for segment in frames.values():
                segment.job_begins()
            audio = len(frames) * self.spec.chunk
            self.work(0, list(frames.values()), audio, self.spec.step)
        elif self.segments:
            self.kick(min(segment.next_frame() for segment in self.segments))

    def worked(self, worker: int, batch: list[Segment]) -> None:
        self.stepping = False
        for segment in batch:
            if not segment.dropped:
                segment.job_ends()
        self.kick(self.env.now)
