"""Why an answer stalled (rules: session/blame.py): what it has waited for, source after source."""

from typing import Any

import numpy as np

from voicesim.engine import blame as b
from voicesim.engine.reference.blame import Handed, stall_row
from voicesim.listener import player

ADDED = (*range(b.N_CHARGED), b.C_TOKENS, b.C_STEPS)
"""Columns of a state that add up over the sources; the others are the latest."""
LATEST = tuple(c for c in range(b.N_STATE) if c not in ADDED)


class Source:
    """A unit of speech, or the one stream of the speech-to-speech engine."""

    def __init__(self) -> None:
        self.handed: Handed | None = None
        self.counted = np.zeros(b.N_STATE)
        self.at = self.first_at = self.text_at = self.asked_at = 0.0
        self.gated = self.sent = False

    def comes(self, handed: Handed, now: float) -> None:
        """Its engine has handed over a chunk."""
        if self.handed is None:
            self.first_at = now
        self.handed, self.at = handed, now


class Why:
    """What one answer has waited for."""

    def __init__(self, answer: Any):
        self.answer = answer
        self.sources: dict[int, Source] = {}
        self.sum, self.base = np.zeros(b.N_STATE), np.zeros(b.N_STATE)
        self.margin = self.since = self.whole = 0.0
        self.rest = b.SCHEDULE
        self.made_by: Handed | None = None
        self.base_made_by: Handed | None = None

    def source(self, unit: int) -> Source:
        """That of a unit; -1: of the speech-to-speech engine."""
        return self.sources.setdefault(unit, Source())

    def take_base(self, margin: float) -> None:
        self.margin, self.rest, self.base_made_by = margin, b.SCHEDULE, self.made_by
        self.base[:] = self.sum

    def waited_for(self, unit: int, follows: bool) -> None:
        """Speech of the source leaves now; follows: it is not the answer's first unit."""
        now, w = float(self.answer.env.now), self.source(unit)
        cached = w.handed is None
        critical = (w.asked_at if cached else w.at) == now
        self.whole = 0.0
        if not w.sent:
            w.sent = True
            if critical and follows:
                if w.gated and w.asked_at >= self.since:
                    self.take_base(0.0)
                    self.rest = b.PACING
                    self.base[b.C_TIME] = w.asked_at
                elif w.text_at > self.since:
                    self.sum[b.TEXT] += w.text_at - self.since
            if self.answer.spec.wait_all and not cached:
                self.whole = now - (max(w.first_at, self.since) if follows else w.first_at)
        if w.handed is None:
            return
        state = w.handed.state
        if critical:
            for c in ADDED:
                self.sum[c] += state[c] - w.counted[c]
        for c in LATEST:
            self.sum[c] = state[c]
        w.counted[:] = state
        self.made_by = w.handed

    def listened(
        self, late: float, arrive: float, ready: float, lead: float, stall: float, started: float
    ) -> None:
        """The chunk comes out of the client's code at ``ready``."""
        answer = self.answer
        self.sum[b.NETWORK], self.sum[b.CLIENT] = late, (ready - arrive) + self.whole
        index = answer.chunks - 1
        if stall > answer.spec.audible:
            self.log(index, ready - stall, stall)
        if index == 0 or stall > 0.0 or started >= 0.0:
            self.take_base(0.0)
        elif answer.mode == player.PLAYING and lead >= self.margin:
            self.take_base(lead)

    def log(self, index: int, began: float, stall: float) -> None:
        answer, by, before = self.answer, self.made_by, self.base_made_by
        unit = -1 if answer.omni is not None else len(answer.play_ends)
        lost = stall + self.margin
        if by is None:  # phrases from the cache alone
            parts, shares = np.zeros(2 * b.N_CHARGED), np.zeros(b.NC)
            parts[: b.N_CHARGED] = (self.sum - self.base)[: b.N_CHARGED]
            cause = b.split(parts, 0, shares, 0, stall, lost, self.rest)
            since = float(self.base[b.C_TIME])
            row = [answer.number, index, unit, -1, -1, cause, 0, 0, 0, 0, 0, 0]
            answer.cluster.stalls.append((row, [began, stall, since, -1.0, *map(float, shares)]))
            return
        same = before is not None and before.sums is by.sums
        who = (answer.number, index, unit, by.pool, by.sums.engine.number)
        row_of_it = stall_row(
            who, by.sums, self.base, self.sum, began, stall, lost, self.rest,
            None if same else float(self.sum[b.C_STEP]),
        )  # fmt: skip
        answer.cluster.stalls.append(row_of_it)
