"""A stage of a dialogue: one pool of engines whose output goes to the dialogue, not to a player."""

from typing import Any

from voicesim.engine import layout as at
from voicesim.engine.reference.blame import Handed
from voicesim.engine.reference.stream import Stream
from voicesim.engine.reference.timeline import Timeline
from voicesim.engine.reference.world import World
from voicesim.engine.spec import PoolSpec
from voicesim.workload.tape import Tape

HANDED_OVER = -8
"""Kind of the event by which a stage's output reaches the dialogue: at once, after the event that
made it."""


class StageClock:
    """The common timeline as pool ``pool`` sees it: ties go by kind, then pool, then number."""

    def __init__(self, timeline: Timeline, pool: int):
        self.timeline, self.pool = timeline, pool
        self.event, self.process, self.fire = timeline.event, timeline.process, timeline.fire

    @property
    def now(self) -> float:
        """Simulated time (s)."""
        return float(self.timeline.now)

    def at(self, t: float, kind: int, number: int) -> Any:
        """An event at the absolute time ``t`` (s)."""
        if kind == at.TIMER:  # after the dialogue's own
            return self.timeline.at(t, kind, 2**49 + (self.pool << 45) + number)
        return self.timeline.at(t, kind, (self.pool << 40) | number)


class Stage(World):
    """One pool.  ``on_chunk(utterance, tokens, last, handed)`` is told of everything
    that leaves it, and what it has waited for."""

    def __init__(self, spec: PoolSpec, tape: Tape, clock: StageClock, on_chunk: Any):
        super().__init__(spec, tape, env=clock)
        self.on_chunk, self.pool = on_chunk, clock.pool

    def ask(self, u: int) -> bool:
        """Stream ``u`` begins; False when the engine refuses it or could never hold it."""
        stream = self.begin(u, u)
        tape = self.tape
        if tape.hit is not None:
            stream.hit = int(tape.hit[u])
        if tape.encode is not None:
            stream.encode = float(tape.encode[u])
        if tape.ends is not None:
            first, ends = tape.ends
            stream.ends = ends[first[u] : first[u + 1]]
        if not self.can_fit(stream):
            self.counters["failed"] += 1
            self.write(stream, at.FAILED_OUTCOME, self.env.now)
            self.maybe_forget(stream)
            return False
        _, g = self.built_in(stream)
        if self.engines[g].queue_full:
            self.write(stream, at.REFUSED, self.env.now)
            self.maybe_forget(stream)
            return False
        self.admit(stream, self.engines[g])
        return True

    def send(self, stream: Stream, new: int, rows: int) -> None:
        """A chunk leaves the stage."""
        stream.sent += 1
        stream.sent_tokens += new
        last, u = stream.fully_sent, stream.utterance
        self.note_chunk(
            stream, stream.sent - 1, rows, new, float(self.env.now), new * self.spec.token_audio
        )
        state = Handed(stream.waits.now.copy(), self.pool, stream.engine.sums)
        handed = self.env.at(self.env.now, HANDED_OVER, 0)
        handed.callbacks.append(lambda _: self.on_chunk(u, new, last, state))
        if last:
            self.write(stream, at.COMPLETED, self.env.now)
            stream.in_codec = 0
            self.maybe_forget(stream)

    def stop(self, u: int, only_waiting: bool) -> None:
        """Cancel stream ``u`` if it lives; or only if the engine has not begun it."""
        stream = self.live.get(u)
        if stream is None or u in self.rows_i or (only_waiting and stream.state != at.WAITING):
            return
        self.write(stream, at.ABANDONED, self.env.now)
        self.cancel(stream)
        self.maybe_forget(stream)
