"""A piece of a caller's speech, and what the four kinds of recogniser make of it."""

from math import inf
from typing import Any

from voicesim.engine import layout as at
from voicesim.engine.asr_rules import audio_left, chunk_end, chunks_until, frames_of_delay

CHUNK = 2 * 2**48
"""Number of the first chunk timer among the events after a gather window (see asr.py)."""


class Segment:
    """One piece of a caller's speech.  At most one job of it is queued or running."""

    def __init__(self, asr: Any, row: int, call: int, replica: Any):
        self.asr, self.env, self.spec = asr, asr.env, asr.spec
        self.row, self.call, self.replica = row, call, replica
        self.begin = self.env.now
        self.flushed_at = inf
        self.audio = inf  # in all, known at the flush
        self.queued = self.running = self.dropped = False
        self.jobs = 0  # that are done

    @property
    def flushed(self) -> bool:
        return self.flushed_at < inf

    def flush(self) -> None:
        if not self.flushed:
            self.count_chunks()
            self.close(self.env.now - self.begin)

    def take_all(self, audio: float) -> None:
        self.count_chunks_of(audio)
        self.close(audio)

    def close(self, audio: float) -> None:
        """No more audio comes: what is left may be done at once."""
        self.flushed_at = self.env.now
        self.audio = audio
        self.note_backlog()
        self.go_on()

    def go_on(self) -> None:
        """With no job queued or running: ask for the next one, or the text is final."""
        if self.queued or self.running:
            return
        if self.has_work():
            self.replica.enqueue(self)
        elif self.flushed:
            self.asr.tell(self)

    def job_begins(self) -> float:
        """A worker takes the segment's job; seconds of audio that the job goes over."""
        self.note_backlog()
        self.queued, self.running = False, True
        return self.job_audio()

    def job_ends(self) -> None:
        self.running = False
        self.jobs += 1
        self.job_done()
        self.go_on()

    def words(self, due: float) -> None:
        """The words of audio that had come at ``due`` (or at the flush) are there."""
        asr = self.asr
        asr.chunk_delay += asr.note(min(due, self.flushed_at), asr.chunk_hist)

    def come(self) -> float:
        """Seconds of audio that have come so far."""
        return self.audio if self.flushed else self.env.now - self.begin

    def note_backlog(self) -> None:
        self.asr.backlog = max(self.asr.backlog, self.waiting())

    def forget(self) -> None:
        self.dropped = True
        if self.queued:
            self.replica.queue.remove(self)

    # what the kinds differ in

    def listen(self) -> None:
        """Audio begins to arrive."""

    def count_chunks(self) -> None:
        """The audio ends now."""

    def count_chunks_of(self, audio: float) -> None:
        """So much audio has come all at once."""

    def has_work(self) -> bool:
        raise NotImplementedError

    def job_audio(self) -> float:
        raise NotImplementedError

    def job_done(self) -> None:
        raise NotImplementedError

    def waiting(self) -> float:
        """Seconds of audio that have come and that no job has taken."""
        raise NotImplementedError


class Streaming(Segment):
    """Cache-aware: a job of constant cost for each chunk, once its right context is there too."""

    there = done = 0  # chunks

    def listen(self) -> None:
        due = chunk_end(self.begin, self.there + 1, self.spec.chunk) + self.spec.right
        self.env.at(due, at.GATHER_END, CHUNK + self.row).callbacks.append(self.chunk_comes)

    def chunk_comes(self, _: Any) -> None:
        if not (self.flushed or self.dropped):
            self.there += 1
            self.note_backlog()
            self.listen()
            self.go_on()

    def count_chunks(self) -> None:
        """Right context that does not come is padded; the last chunk may be a part of one."""
        self.there = chunks_until(self.begin, self.env.now, self.spec.chunk, self.there)

    def count_chunks_of(self, audio: float) -> None:
        self.there = chunks_until(0.0, audio, self.spec.chunk, 0)

    def has_work(self) -> bool:
        return self.there > self.done

    def job_audio(self) -> float:
        return self.spec.chunk + self.spec.right

    def job_done(self) -> None:
        self.done += 1
        self.words(chunk_end(self.begin, self.done, self.spec.chunk))

    def waiting(self) -> float:
        return (self.there - self.done - self.running) * self.spec.chunk


class Windows(Segment):
    """The buffer again, up to ``window`` seconds of it, when ``chunk`` new seconds are there and
    the last job is done; a job begins no more than a window after what was heard before."""

    heard = upto = 0.0

    def listen(self) -> None:
        """Wait for new audio, if it is not there yet."""
        if self.due() <= self.env.now:
            self.replica.enqueue(self)
        else:
            timer = self.env.at(self.due(), at.GATHER_END, CHUNK + self.row)
            timer.callbacks.append(self.chunk_comes)

    def due(self) -> float:
        return self.begin + (self.heard + self.spec.chunk)

    def chunk_comes(self, _: Any) -> None:
        if not (self.flushed or self.dropped):
            self.replica.enqueue(self)

    def has_work(self) -> bool:
        return self.flushed and audio_left(self.audio, self.heard)

    def job_audio(self) -> float:
        self.upto = self.come()
        if self.upto - self.heard > self.spec.window:
            self.upto = self.heard + self.spec.window
        return min(self.upto, self.spec.window)

    def job_done(self) -> None:
        self.words(self.due())
        self.heard = self.upto
        if not self.flushed:
            self.listen()

    def waiting(self) -> float:
        return self.come() - (self.upto if self.running else self.heard)


class Offline(Segment):
    """Nothing before the flush, then one job over all of it."""

    done = False

    def has_work(self) -> bool:
        return self.flushed and audio_left(self.audio, 0.0) and not self.done

    def job_audio(self) -> float:
        return self.audio

    def job_done(self) -> None:
        self.done = True
        self.words(inf)

    def waiting(self) -> float:
        return self.come()


class Slots(Segment):
    """Frame after frame.  Text lags the audio by some frames; silent ones bring out the rest."""

    frames = done = 0

    def __init__(self, asr: Any, row: int, call: int, replica: Any):
        super().__init__(asr, row, call, replica)
        self.delay = frames_of_delay(self.spec.right, self.spec.chunk)
        replica.segments.append(self)

    def listen(self) -> None:
        self.replica.kick(self.next_frame())

    def next_frame(self) -> float:
        """When it is there (a flushed segment has all its frames)."""
        if self.flushed:
            return self.flushed_at
        return chunk_end(self.begin, self.done + 1, self.spec.chunk)

    def count_chunks(self) -> None:
        self.frames = chunks_until(self.begin, self.env.now, self.spec.chunk, self.done)

    def count_chunks_of(self, audio: float) -> None:
        self.frames = chunks_until(0.0, audio, self.spec.chunk, 0)

    def close(self, audio: float) -> None:
        if self.frames > 0:
            self.frames += self.delay
        super().close(audio)

    def go_on(self) -> None:
        """The next frame goes with the next step; after the last one the text is final."""
        if self.flushed and self.done < self.frames:
            self.replica.kick(self.env.now)
        elif self.flushed and not self.running:
            self.replica.segments.remove(self)
            self.asr.tell(self)

    def job_audio(self) -> float:
        return self.spec.chunk

    def job_done(self) -> None:
        self.done += 1
        if self.done > self.delay:
            self.words(chunk_end(self.begin, self.done - self.delay, self.spec.chunk))

    def waiting(self) -> float:
        return self.come() - (self.done + self.running) * self.spec.chunk

    def forget(self) -> None:
        self.dropped = True
        if self in self.replica.segments:
            self.replica.segments.remove(self)
