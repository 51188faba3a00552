"""One call, from the first ring to the last word: a SimPy process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from voicesim.engine import layout as at
from voicesim.engine.spec import INF
from voicesim.listener import player
from voicesim.session import layout as lay
from voicesim.session import record as rec
from voicesim.session.reference.answer import Answer

if TYPE_CHECKING:
    from voicesim.session.reference.cluster import Cluster


class Call:
    """Call ``number`` of the tape."""

    def __init__(self, cluster: Cluster, number: int):
        self.cluster, self.number = cluster, number
        self.env, self.spec, self.tape = cluster.env, cluster.spec, cluster.tape
        self.outcome = at.PENDING
        self.started = self.ended = -1.0
        self.turns = 0
        self.last = int(self.tape.first[number + 1]) - 1
        self.turn = -1
        self.over = self.speaking = False
        self.draining = 0  # cancelled answers that still occupy the call's socket
        self.answer: Answer | None = None
        self.turn_over: Any = None
        cluster.env.process(self.conversation())

    def conversation(self) -> Any:
        """Let in or refused; then turn after turn until the caller hangs up."""
        k, tape = self.number, self.tape
        yield self.env.at(float(tape.arrival[k]), at.ARRIVAL, k)
        if not self.let_in():
            return
        first, last = int(tape.first[k]), self.last
        speak = self.started + float(tape.think[first])
        for u in range(first, last + 1):
            mine = self.begins(u, speak)
            yield self.cluster.at(lay.D_SPEAK, u, self.heard(speak, u))
            if self.over:
                return
            self.turn_over = self.env.event()
            self.env.process(self.speech(u, *mine))
            ended, interrupted = yield self.turn_over
            speak = ended
            if u < last and not interrupted:
                speak = ended + float(tape.think[u + 1])
        yield self.cluster.at(lay.D_END, k, speak)
        if not self.over:
            self.end(at.COMPLETED)

    def let_in(self) -> bool:
        """Is there room for one more call?"""
        now = self.started = float(self.env.now)
        cluster = self.cluster
        cluster.count(rec.D_CALLS)
        full = cluster.live >= self.spec.limit
        if full or not (cluster.asr is None or cluster.asr.connect(self.number, now)):
            cluster.count(rec.D_REFUSED)
            self.outcome, self.ended = at.REFUSED, now
            return False
        cluster.live += 1
        return True

    def begins(self, u: int, speak: float) -> tuple[Answer | None, Answer]:
        """The answers to turn u: to its first half, if a pause is taken for its end; to all."""
        half = None
        if self.tape.cut[u] >= 0:
            half = self.cluster.answer(self, int(self.tape.cut[u]), u, True)
        whole = self.cluster.answer(self, int(self.tape.answer[u]), u, False)
        (half or whole).speak = speak
        return half, whole

    def heard(self, instant: float, u: int) -> float:
        """When the server hears what the caller says at ``instant`` of turn u."""
        return (instant + self.spec.capture) + self.uplink(u)

    def uplink(self, u: int) -> float:
        return float(self.cluster.uplinks[u])

    def speech(self, u: int, half: Answer | None, whole: Answer) -> Any:
        """The caller speaks, perhaps pauses, and is silent; each is heard a little later."""
        tape, now = self.tape, float(self.env.now)
        self.turn = u
        self.turns += 1
        self.speaks(True)
        self.answer = half or whole
        self.listen(self.answer)
        spoken = self.answer.speak + float(tape.speech[u])
        if half is not None:
            pause = float(tape.cut_pause[u])
            half.spoken = half.speak + float(tape.cut_at[u])
            half.heard_end = self.heard(half.spoken, u)
            whole.speak = half.spoken + pause
            spoken = spoken + pause
        whole.spoken = spoken
        whole.heard_end = self.heard(spoken, u)
        if tape.patience[u] < INF:
            at_least = max(now, spoken + float(tape.patience[u]))
            self.cluster.timer(lay.D_PATIENCE, u, at_least, lambda: self.patience_ends(u, whole))
        if half is not None:
            wrong = half.heard_end + float(tape.cut_endpoint[u])
            yield self.cluster.at(lay.D_CUT, u, wrong)
            if self.over:
                return
            half.decided()
            yield self.cluster.at(lay.D_RESUME, u, self.heard(whole.speak, u))
            if self.over:
                return
            half.interrupt = rec.CUT_OFF
            self.cluster.timer(lay.D_STOP, half.number, self.env.now + self.spec.detect, half.stop)
            self.answer = whole
            self.speaks(True)
            self.listen(whole)
        yield self.cluster.at(lay.D_DECIDE, u, whole.heard_end + float(tape.endpoint[u]))
        if not self.over:
            whole.decided()

    def listen(self, answer: Answer) -> None:
        """The recogniser listens, unless the speech model does so itself."""
        if self.cluster.asr is not None and answer.omni is None:
            self.cluster.asr.speech_begins(answer.number, self.number, self.env.now)

    def speaks(self, now: bool) -> None:
        self.cluster.speaking += now - self.speaking
        self.speaking = now

    def turn_ends(self, instant: float, interrupted: bool = False) -> None:
        """Now it is known when the caller has the floor again."""
        self.env.fire(self.turn_over, (instant, interrupted))

    def socket_free(self) -> None:
        """A cancelled answer has been generated to its end: the call's own may go on."""
        if self.draining == 0 and self.answer is not None and not self.answer.cancelled:
            self.answer.go_on()

    def patience_ends(self, u: int, answer: Answer) -> None:
        """Silence for too long after turn u: the caller hangs up."""
        now, a = float(self.env.now), answer
        if self.over or self.turn != u:
            return
        if player.heard_by(a.mode, a.since, a.started, now, self.spec.max_wait):
            return
        if a.filler and a.filler_until - self.spec.filler_audio <= now:
            return
        answer.hung_up()
        self.end(at.ABANDONED)

    def end(self, outcome: int) -> None:
        """The call is over."""
        self.over = True
        self.outcome, self.ended = outcome, float(self.env.now)
        self.cluster.live -= 1
        self.speaks(False)
        if outcome == at.ABANDONED:
            self.cluster.count(rec.D_ABANDONED)
        if self.cluster.asr is not None:
            self.cluster.asr.disconnect(self.number, self.env.now)
