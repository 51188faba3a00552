"""A window that slides over the tape: the rows of a pool's callers, while they are needed.

A tape comes in pieces (``voicesim.workload.pieces``).  Before the next one is laid down, the rows
of the calls that are over are handed over and those behind them move up.  The header's offsets
are moved back by as much, so the compiled model goes on finding a row by its number in the whole
tape: it does not know of the window, and no result depends on it.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from voicesim.engine import blame
from voicesim.engine import layout as at
from voicesim.engine.pool import Pool, record
from voicesim.engine.record import RunRecord
from voicesim.workload.tape import Tape

_UTTERANCES = (at.O_UTT, at.O_RES, at.OF_UTT, at.OF_RES)
_SESSIONS = (at.O_SESSION, at.OF_ARRIVAL)
_LOGS = (
    ("stall", at.H_NSTALLS, at.O_STALL, at.OF_STALL, blame.L_WHO),
    ("chunk", at.H_NCHUNKS, at.O_CHUNK_I, at.OF_CHUNK, at.L_UTT),
)  # fmt: skip
"""Name in the record, header entry of the number of rows, sections, column of the utterance."""

Leave = Callable[[Tape, RunRecord], None]
"""Takes the calls that are over: a tape of them, and the record with nothing but their rows of
utterances, stalls and chunks (the rest as it is so far).  Both count from the first of these calls;
``Tape.numbers``: the calls' numbers in the whole.  To be read at once: the rows are used again."""


class Window:
    """The rows at hand.  pieces: of the tape, the first of them for ``Pool`` (``first``).

    clipped: utterances cut to max_tokens, of all pieces so far.
    """

    def __init__(self, pieces: Iterator[Tape], leave: Leave):
        self._pieces = pieces
        self._leave = leave
        self.first = next(pieces)
        self.clipped = self.first.clipped
        self._numbers = self._numbers_of(self.first, 0)  # of the sessions at hand, in the whole
        self.known = math.inf if self.first.closed else 0.0
        self._note(self.first)

    def slide(self, pool: Pool) -> None:
        """Hand over what is over, and lay down the next piece, if there is one."""
        piece = next(self._pieces, None)
        if piece is None:
            self.known = math.inf
            return
        # what is live, and a piece more on either side
        pool.make_room(utterances=3 * self.first.utterances, sessions=3 * len(self.first.arrival))
        self._drop(pool, *_needed(pool))
        self._lay(pool, piece)
        self.clipped += piece.clipped
        self._note(piece)

    def close(self, pool: Pool) -> None:
        """Hand over all that is left: the run has ended."""
        sessions = pool.I[at.H_UTTERANCES if pool.tape.closed else at.H_SESSIONS]
        self._drop(pool, int(pool.I[at.H_UTTERANCES]), int(sessions))

    def _note(self, piece: Tape) -> None:
        if not piece.closed and len(piece.arrival):
            self.known = float(piece.arrival[-1])

    def _numbers_of(self, piece: Tape, before: int) -> np.ndarray:
        return np.arange(piece.sessions) + before if piece.numbers is None else piece.numbers

    # --- what leaves ----------------------------------------------------------------------------

    def _drop(self, pool: Pool, utterance: int, session: int) -> None:
        """Hand over the rows before these two, and close the gap."""
        gone = utterance - pool.gone.get("utterances", 0)
        sessions = session - pool.gone.get("sessions", 0)
        if pool.tape.closed:  # there a session is an utterance, and only the first have a start
            sessions = gone
        if not gone and not sessions:
            return
        tape, rows = self._over(pool, gone, sessions), _logs(pool, utterance)
        rows["utterance_i"] = pool.section(at.O_RES)[:gone]
        rows["utterance_f"] = pool.section(at.OF_RES)[:gone]
        self._leave(tape, replace(record(pool), **rows))
        self._numbers = self._numbers[sessions:]
        _move_up(pool, "utterances", _UTTERANCES, gone, int(pool.I[at.H_UTTERANCES]))
        pool.I[at.H_GONE] = pool.gone["utterances"]
        begun = int(pool.I[at.H_UTTERANCES if pool.tape.closed else at.H_SESSIONS])
        if not pool.tape.closed:
            _move_up(pool, "sessions", _SESSIONS, sessions, begun)
        if pool.spec.pinned:
            _move_up(pool, "homes", (at.O_HOME,), sessions, begun)

    def _over(self, pool: Pool, gone: int, sessions: int) -> Tape:
        """The tape of the first rows."""
        ints, floats = pool.section(at.O_UTT)[:gone], pool.section(at.OF_UTT)[:gone]
        if pool.tape.closed:
            arrival, first = np.zeros(0), np.arange(gone + 1)
        else:
            before = pool.gone.get("utterances", 0)
            arrival = pool.section(at.OF_ARRIVAL)[:sessions, 0]
            first = np.append(pool.section(at.O_SESSION)[:sessions, 0] - before, gone)
        return Tape(
            arrival=arrival,
            first=first,
            tokens=ints[:, at.U_TOKENS],
            prompt=ints[:, at.U_PROMPT],
            think=floats[:, at.Y_THINK],
            patience=floats[:, at.Y_PATIENCE],
            clipped=0,
            closed=pool.tape.closed,
            callers=pool.tape.callers,
            numbers=self._numbers[:sessions],
            row=None if pool.tape.row is None else ints[:, at.U_ROW],
        )

    # --- what comes -----------------------------------------------------------------------------

    def _lay(self, pool: Pool, piece: Tape) -> None:
        """Put a piece behind the rows that are there."""
        known = int(pool.I[at.H_UTTERANCES])
        here = known - pool.gone.get("utterances", 0)
        end = here + piece.utterances
        pool.make_room(utterances=end)
        for entry in _UTTERANCES:
            pool.section(entry)[here:end] = 0
        ints, floats = pool.section(at.O_UTT)[here:end], pool.section(at.OF_UTT)[here:end]
        ints[:, at.U_TOKENS], ints[:, at.U_PROMPT] = piece.tokens, piece.prompt
        if piece.row is not None:
            ints[:, at.U_ROW] = piece.row
        floats[:, at.Y_THINK], floats[:, at.Y_PATIENCE] = piece.think, piece.patience
        pool.section(at.O_RES)[here:end, at.R_SLOT] = -1
        begun = known if pool.tape.closed else int(pool.I[at.H_SESSIONS])
        numbers = np.arange(begun, begun + piece.sessions)
        ints[:, at.U_SESSION] = np.repeat(numbers, np.diff(piece.first))
        if pool.spec.pinned:
            here = begun - pool.gone.get("homes", 0)
            pool.make_room(homes=here + piece.sessions)
            pool.section(at.O_HOME)[here : here + piece.sessions] = -1
        if not pool.tape.closed:
            here = begun - pool.gone.get("sessions", 0)
            end = here + piece.sessions
            pool.make_room(sessions=end)
            pool.section(at.OF_ARRIVAL)[here:end, 0] = piece.arrival
            pool.section(at.O_SESSION)[here:end, 0] = piece.first[:-1] + known
            pool.I[at.H_SESSIONS] = begun + piece.sessions
        pool.I[at.H_UTTERANCES] = known + piece.utterances
        self._numbers = np.concatenate((self._numbers, self._numbers_of(piece, begun)))


def _needed(pool: Pool) -> tuple[int, int]:
    """The first utterance that the model may still touch (of its session the first), and session.

    It touches those of streams that hold a row, of timers that are set (patience ends after a
    call, too), and of calls that have yet to begin.
    """
    head = pool.I
    slots = pool.section(at.O_STREAM)
    timers = pool.section(at.O_HEAP_ID)[: head[at.H_HEAP], 0]
    timers = timers[timers >> 40 != at.T_IDLE]  # of rows of streams, not of utterances
    n, oldest = int(head[at.H_NEXT_SESSION]), int(head[at.H_UTTERANCES])
    if n < head[at.H_SESSIONS]:
        oldest = int(head[head[at.O_SESSION] + n])
    if pool.tape.closed:
        oldest = min(oldest, int(head[at.H_NEXT_UTT]))
    for held in (slots[slots[:, at.S_STATE] != at.FREE, at.S_UTT], timers & ((1 << 40) - 1)):
        oldest = min(oldest, int(held.min(initial=oldest)))
    if oldest == head[at.H_UTTERANCES]:
        return oldest, int(head[at.H_SESSIONS])
    session = int(head[head[at.O_UTT] + oldest * at.NUI + at.U_SESSION])
    return (oldest if pool.tape.closed else int(head[head[at.O_SESSION] + session])), session


def _logs(pool: Pool, utterance: int) -> dict[str, Any]:
    """The logged rows of the utterances before this one, taken out of the logs."""
    taken: dict[str, Any] = {}
    for name, count, ints, floats, column in _LOGS:
        n = int(pool.I[count])
        i, f = pool.section(ints), pool.section(floats)
        over = i[:n, column] < utterance
        taken[f"{name}_i"], taken[f"{name}_f"] = i[:n][over], f[:n][over]
        taken[f"{name}_i"][:, column] -= pool.gone.get("utterances", 0)
        kept = n - int(over.sum())
        i[:kept], f[:kept] = i[:n][~over], f[:n][~over]
        pool.I[count] = kept
    return taken


def _move_up(pool: Pool, name: str, entries: tuple[int, ...], gone: int, known: int) -> None:
    """Drop the first rows of these sections; the others keep their numbers."""
    here = known - pool.gone.get(name, 0)
    for entry in entries:
        rows = pool.section(entry)
        rows[: here - gone] = rows[gone:here]
        pool.I[entry] -= gone * rows.shape[1]
    pool.gone[name] = pool.gone.get(name, 0) + gone
