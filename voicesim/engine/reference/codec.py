"""The codec stage of one replica: chunks of many streams, vocoded in batches, then delivered."""

from typing import Any

from voicesim.engine import cost, trace
from voicesim.engine import layout as at
from voicesim.engine.reference.stream import Stream
from voicesim.engine.reference.timeline import Work
from voicesim.engine.spec import CODEC_QUEUES
from voicesim.listener.player import PLAYING
from voicesim.policy.admission import LAG_WEIGHT

FIFO, WINDOW, EDF, PRESSING, STARTUP_FIRST, EDF_RESERVE = range(len(CODEC_QUEUES))


class Codec:
    """Queue, gather window, workers.  A stream has at most one chunk here at a time."""

    def __init__(self, engine: Any):
        self.engine, self.world, self.env = engine, engine.world, engine.env
        self.spec = engine.spec.codec
        self.schedule = engine.spec.schedule
        floor, per_row, per_frame = self.spec.cost if self.spec else (0.0, 0.0, 0.0)
        self.cost = (float(floor), float(per_row), float(per_frame))
        self.queue: list[Stream] = []
        self.batches: dict[int, tuple[Work, list[Stream]]] = {}  # by worker
        self.active = 0
        self.gather_at: float | None = None
        self.lag = 0.0
        self.ramp = 0  # where the replica is in a shared ramp
        self.busy = 0.0
        self.batches_done = self.rows_done = 0

    def chunk_tokens(self, stream: Stream, index: int, sent: int) -> int:
        """Tokens in chunk ``index`` of a stream of which ``sent`` are out."""
        if stream.ends is not None:
            return int(stream.ends[index]) - sent
        schedule = stream.rung.schedule or self.schedule
        size = schedule[min(index, len(schedule) - 1)]
        return min(size, stream.tokens - sent)

    def next_chunk(self, stream: Stream, index: int, due: int) -> int:
        """The stream begins to fill chunk ``index`` after ``due`` tokens; returns its tokens.

        In a shared ramp its size is what the replica is at: CosyVoice2 keeps the hop, which every
        chunk but the last of a stream makes longer, on the model and never resets it
        (https://github.com/QwenAudio/CosyVoice/pull/1849).
        """
        spec = self.engine.spec
        if spec.shared_ramp and self.world.tape.ends is None:
            if index > 0:
                self.ramp += 1
            else:
                stream.ends = []
            size = self.schedule[min(self.ramp, len(self.schedule) - 1)]
            size += spec.pad if index == 0 else 0
            stream.ends.append(min(due + size, stream.tokens))
        return self.chunk_tokens(stream, index, due)

    def chunk_ready(self, stream: Stream) -> None:
        """The decoder has filled a chunk of this stream."""
        stream.ready += 1
        if self.spec is None:
            stream.queued_at = self.env.now
            stream.waits.chunk_filled(self.engine.sums, self.env.now)
            self.deliver(stream, 1)
        elif stream.in_codec == 0:
            stream.waits.chunk_filled(self.engine.sums, self.env.now)
            self.enqueue(stream)

    def enqueue(self, stream: Stream) -> None:
        stream.queued_at = self.env.now
        stream.in_codec = 1
        self.queue.append(stream)

    # --- batches ------------------------------------------------------------------------------

    def dispatch(self, timer_fired: bool = False) -> None:
        """Start batches while a worker is idle and the gather window allows."""
        if self.spec is None:
            return
        while len(self.batches) < self.spec.workers:
            eligible = self.eligible()
            if not eligible:
                break
            if self.spec.queue == PRESSING:
                since = min(self.presses_from(s) for s in eligible)
                if since > self.env.now:  # a batch starts for the sake of a pressing stream only
                    self.look_again(since)
                    break
            if self.spec.gather > 0.0 and len(eligible) < self.spec.cap and not timer_fired:
                # wait for company, counted from when a worker was idle and a chunk was there
                until = self.env.now + self.spec.gather
                if self.gather_at is None or until < self.gather_at:
                    self.look_again(until)
                break
            timer_fired = False
            self.gather_at = None
            self.start_batch(min(len(eligible), self.spec.cap))

    def look_again(self, t: float) -> None:
        self.gather_at = t
        timer = self.env.at(self.gather_at, at.GATHER_END, self.engine.number)
        timer.callbacks.append(self.gathered)

    def gathered(self, _: Any) -> None:
        if self.gather_at == self.env.now:
            self.gather_at = None
            self.dispatch(timer_fired=True)

    def eligible(self) -> list[Stream]:
        """All that wait; under a bounded window only those of its K active streams."""
        if self.spec.queue != WINDOW:
            return self.queue
        for stream in self.queue:
            if not stream.active and self.active < self.spec.window:
                stream.active = True
                self.active += 1
        return [s for s in self.queue if s.active]

    def pick(self) -> Stream:
        """The next stream under the queue policy (first of equals)."""
        if self.spec.queue == FIFO:
            return self.queue[0]
        return self.first_active() if self.spec.queue == WINDOW else min(self.queue, key=self.order)

    def first_active(self) -> Stream:
        return next(s for s in self.queue if s.active)

    def order(self, stream: Stream) -> tuple[int, float]:
        """Class of a queued chunk and, in the classes of a deadline, that; the least is first.

        edf_reserve: urgent, then first chunks, then pressing, then the others (Nari Labs'
        Qwen3-TTS server).
        """
        now, due, queue = self.env.now, self.due_time(stream), self.spec.queue
        if queue == EDF:
            return 0, due
        if queue == PRESSING:
            return int(self.presses_from(stream) > now), 0.0
        if queue == STARTUP_FIRST:
            return int(stream.sent > 0), 0.0
        if stream.sent == 0:
            return 1, 0.0
        if now >= due - self.spec.reserve:
            return 0, due
        return (2, due) if now >= due - self.spec.lead else (3, 0.0)

    @staticmethod
    def due_time(stream: Stream) -> float:
        """A silent listener is due at once, a playing one when the buffer runs out."""
        return stream.queued_at if stream.mode < PLAYING else stream.play_end

    def presses_from(self, stream: Stream) -> float:
        """VoxServe: a stream is pressing until its listener plays, and from ``lead`` before the
        chunk sent last begins to play (https://github.com/vox-serve/vox-serve)."""
        if stream.mode < PLAYING:
            return stream.queued_at
        return stream.play_end - stream.last_audio - self.spec.lead

    def start_batch(self, rows: int) -> None:
        worker = next(w for w in range(self.spec.workers) if w not in self.batches)
        batch = []
        frames = 0.0
        for _ in range(rows):
            stream = self.pick()
            self.queue.remove(stream)
            stream.in_codec = 2
            new = self.chunk_tokens(stream, stream.sent, stream.sent_tokens)
            context = min(self.spec.left_context, stream.sent_tokens)
            frames += (new + context) * stream.rung.codec
            if stream.active and stream.sent_tokens + new == stream.tokens:
                self.deactivate(stream)
            batch.append(stream)
        seconds = cost.codec_seconds(*self.cost, float(rows), frames) * self.engine.slowdown
        number = self.engine.number * self.spec.workers + worker
        work = Work(self.env, seconds, at.CODEC_END, number)
        work.done.callbacks.append(lambda _: self.end_batch(worker))
        self.batches[worker] = (work, batch)
        self.reshare()

    def halt(self) -> list[Stream]:
        """Everything here is forgotten; returns whose chunks were here."""
        found = list(self.queue)
        for worker in sorted(self.batches):
            work, batch = self.batches[worker]
            work.stop()
            found += batch
        self.queue, self.batches, self.active = [], {}, 0
        self.gather_at, self.lag, self.ramp = None, 0.0, 0
        return found

    def deactivate(self, stream: Stream) -> None:
        stream.active = False
        self.active -= 1

    def end_batch(self, worker: int) -> None:
        work, batch = self.batches.pop(worker)
        work.lose(1.0)
        self.batches_done += 1
        self.rows_done += len(batch)
        what = [len(batch), 0, 0, 0]
        self.world.note(trace.CODEC, worker, self.engine.number, what, work.started, self.env.now)
        self.busy += self.world.observed(work.started, self.env.now)
        for stream in batch:
            if stream.aborted:
                stream.in_codec = 0
                self.world.maybe_forget(stream)
                continue
            self.deliver(stream, len(batch), work.lost)
            if stream.in_codec == 2:
                stream.in_codec = 0
                if stream.ready > stream.sent:
                    self.enqueue(stream)
        self.reshare()
        self.dispatch()

    def reshare(self) -> None:
        """What is on the GPU has changed; on a shared card everything there goes at a new pace."""
        if self.engine.card is None:
            self.go_at(1.0)
        else:
            self.engine.card.reshare()

    def go_at(self, others: float) -> None:
        """Decoder and codec batches slow each other down while they overlap on one GPU, and other
        engines slow all of that ``others`` times."""
        engine, n = self.engine, len(self.batches)
        shared = self.spec is not None and self.spec.shared
        steps = engine.stepping and not engine.in_host
        if steps:
            own = engine.spec.decode_slowdown if shared and n > 0 else 1.0
            engine.step.slow_to(own * others, others)
        beside = engine.spec.codec_slowdown if shared and steps else 1.0
        for work, _ in self.batches.values():
            work.slow_to(n * beside * others, others)

    # --- to the listener ----------------------------------------------------------------------

    def deliver(self, stream: Stream, rows: int, lost: float = 0.0) -> None:
        """The stream's next chunk leaves the server; lost: seconds of its codec batch that went to
        other engines on the card."""
        new = self.chunk_tokens(stream, stream.sent, stream.sent_tokens)
        waited = self.env.now - stream.queued_at
        self.lag += LAG_WEIGHT * (waited - self.lag)
        if self.spec is not None:
            context = min(self.spec.left_context, stream.sent_tokens)
            frames = (new + context) * stream.rung.codec
            alone = cost.codec_seconds(*self.cost, 1.0, frames)
            stream.waits.vocoded(waited, alone, lost)
        self.world.send(stream, new, rows)
