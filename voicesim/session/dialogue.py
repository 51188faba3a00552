"""A run of dialogues on the compiled model: the arenas of all its stages, and their owner."""

import numpy as np

from voicesim.engine import layout as at
from voicesim.engine.arena import resized, section
from voicesim.engine.asr import AsrPool
from voicesim.engine.blame import N_STALL_F, N_STALL_I
from voicesim.engine.pool import Pool
from voicesim.engine.pool import record as record_of
from voicesim.engine.spec import NEVER
from voicesim.session import blame
from voicesim.session import layout as lay
from voicesim.session.kernel.loop import AT_ONCE, ROOM_CHECK, run
from voicesim.session.record import (
    A_LISTENED,
    A_LOST,
    A_PAUSED,
    A_RECEIVED,
    A_STALL,
    A_STALL_MAX,
    DialogueRecord,
)
from voicesim.session.spec import DialogueSpec
from voicesim.session.stages import stage_tapes
from voicesim.session.tape import DialogueTape
from voicesim.workload.rng import hash_key

# sections: (header entry of the offset, rows by name, width)
_INT = (
    (lay.O_CALL, "calls", lay.NC),
    (lay.O_TURN, "turns", lay.NT),
    (lay.O_ANSWER, "answers", lay.NN),
    (lay.O_UNIT, "units", lay.NW),
    (lay.O_TIMERS, "heap", 1),
    (lay.O_SERIES, "bins", lay.SERIES),
    (lay.O_ANSWER_I, "answers", lay.ANSWER_I),
    (lay.O_CALL_I, "calls", lay.CALL_I),
    (lay.O_HIST, "one", at.N_FINE),
    (lay.O_GAPS, "bins", at.N_COARSE),
    (lay.O_CHUNK, "chunks", lay.CHUNK_I),
    (lay.O_STALLS, "stalls", N_STALL_I),
)
_FLOAT = (
    (lay.OF_TURN, "turns", lay.NV),
    (lay.OF_ANSWER, "answers", lay.NY),
    (lay.OF_UNIT, "units", lay.NZ),
    (lay.OF_TIMERS, "heap", 1),
    (lay.OF_JITTER, "table", 1),
    (lay.OF_ARRIVAL, "calls", 1),
    (lay.OF_ANSWER_F, "answers", lay.ANSWER_F),
    (lay.OF_CALL_F, "calls", lay.CALL_F),
    (lay.OF_CHUNK, "chunks", lay.CHUNK_F),
    (lay.OF_STALLS, "stalls", N_STALL_F),
    (lay.OF_SOURCE, "sources", blame.N_SOURCE),
    (lay.OF_WHY, "blamed", blame.N_WHY),
)


class Dialogue:
    """State of one run; ``advance`` plays it.  It stands where a Pool stands in PoolEnvironment."""

    def __init__(self, spec: DialogueSpec, tape: DialogueTape):
        self.spec, self.tape = spec, tape
        tapes = stage_tapes(spec, tape)
        self.pools = [Pool(s, t) for s, t in zip(spec.pools, tapes, strict=True)]
        self._rows = {
            "calls": tape.calls, "turns": tape.turns, "answers": tape.answers,
            "units": tape.units, "heap": 2 * AT_ONCE * ROOM_CHECK, "bins": spec.bins,
            "table": 4096, "one": 1,
            "chunks": 2 * AT_ONCE * ROOM_CHECK if spec.record_chunks else 0,
            "stalls": 2 * AT_ONCE * ROOM_CHECK if spec.blame else 0,
            "sources": tape.units + tape.answers if spec.blame else 0,
            "blamed": tape.answers if spec.blame else 0,
        }  # fmt: skip
        self.J = np.zeros(lay.N_J, np.int64)
        self.E = np.zeros(lay.N_E)
        self._allocate(dict(self._rows), fresh=True)
        self._write_header()
        self._write_tape()
        for p in range(len(self.pools)):
            self._point_to(p, self.pools[p])
        self.asr = None
        if spec.asr is not None:
            self.asr = AsrPool(
                spec.asr, tape.calls, tape.answers, spec.warmup, spec.horizon, spec.trace
            )
            self._point_to(lay.MOST_POOLS, self.asr)

    # --- arenas -------------------------------------------------------------------------------

    def _allocate(self, rows: dict[str, int], fresh: bool) -> None:
        """(Re)build both arenas with these capacities, keeping what they hold."""
        before = None if fresh else self._rows
        self.J = resized(self.J, None, _INT, lay.N_J, rows, before)
        self.E = resized(self.E, self.J, _FLOAT, lay.N_E, rows, before)
        self._rows = rows
        self.J[lay.C_HEAP], self.J[lay.C_CHUNKS] = rows["heap"], rows["chunks"]
        self.J[lay.C_STALLS] = rows["stalls"]
        self._arenas = (self.E.ctypes.data, self.J.ctypes.data)

    def section(self, entry: int) -> np.ndarray:
        """A section as a 2-D array (rows, columns), by its header entry."""
        return section(((self.J, _INT), (self.E, _FLOAT)), self.J, self._rows, entry)

    def _point_to(self, p: int, pool: Pool | AsrPool) -> None:
        """Tell the kernel where the arenas of pool p lie."""
        a = lay.J_ARENAS + 2 * p
        self.J[a : a + 2] = (pool.F.ctypes.data, pool.I.ctypes.data)

    def _write_header(self) -> None:
        s, J, E = self.spec, self.J, self.E
        for entry, value in (
            (lay.J_POOLS, len(self.pools)), (lay.J_LLM, len(s.llm)), (lay.J_TTS, len(s.tts)),
            (lay.J_OMNI, len(s.llm) + len(s.tts)), (lay.J_ASR, s.asr is not None),
            (lay.J_SEED, s.seed), (lay.J_LIMIT, s.limit), (lay.J_CANCEL, s.cancel),
            (lay.J_FLUSH, s.flush), (lay.J_PREFETCH, s.prefetch),
            (lay.J_FILLER_CUT, s.filler_cut), (lay.J_WAIT_ALL, s.wait_all),
            (lay.J_LOG, s.record_chunks), (lay.J_BINS, s.bins), (lay.J_CALLS, self.tape.calls),
            (lay.J_BLAME, s.blame), (lay.J_UNITS, self.tape.units),
        ):  # fmt: skip
            J[entry] = int(value)
        for entry, number in (
            (lay.E_CAPTURE, s.capture), (lay.E_DELAY, s.delay),
            (lay.E_PREBUFFER, s.prebuffer), (lay.E_REBUFFER, s.rebuffer),
            (lay.E_MAX_WAIT, s.max_wait), (lay.E_MAX_QUEUE, s.max_queue),
            (lay.E_AUDIBLE, s.audible), (lay.E_DETECT, s.detect), (lay.E_RESUME, s.resume),
            (lay.E_AHEAD, s.ahead), (lay.E_FILLER_AFTER, s.filler_after),
            (lay.E_FILLER_AUDIO, s.filler_audio), (lay.E_CONNECT_LLM, s.connect_llm),
            (lay.E_CONNECT_TTS, s.connect_tts), (lay.E_CLIENT_AUDIO, s.client_per_audio),
            (lay.E_CLIENT_CHUNK, s.client_per_chunk), (lay.E_OMNI_TIMEOUT, s.omni_timeout),
            (lay.E_RESOLUTION, s.resolution), (lay.E_WARMUP, s.warmup),
            (lay.E_FIRST_STALL, NEVER),
        ):  # fmt: skip
            E[entry] = number
        self.section(lay.OF_JITTER)[:, 0] = s.jitter

    def _write_tape(self) -> None:
        tape = self.tape
        calls, turns = self.section(lay.O_CALL), self.section(lay.O_TURN)
        calls[:, lay.C_FIRST], calls[:, lay.C_LAST] = tape.first[:-1], tape.first[1:] - 1
        calls[:, lay.C_TURN] = calls[:, lay.C_ANSWER] = -1
        turns[:, lay.T_CALL] = np.repeat(np.arange(tape.calls), np.diff(tape.first))
        turns[:, lay.T_ANSWER], turns[:, lay.T_CUT] = tape.answer, tape.cut
        floats = self.section(lay.OF_TURN)
        for column, values in (
            (lay.V_THINK, tape.think), (lay.V_SPEECH, tape.speech),
            (lay.V_ENDPOINT, tape.endpoint), (lay.V_CUT_AT, tape.cut_at),
            (lay.V_CUT_PAUSE, tape.cut_pause), (lay.V_CUT_ENDPOINT, tape.cut_endpoint),
            (lay.V_PATIENCE, tape.patience), (lay.V_BARGE, tape.barge),
            (lay.V_FALSE, tape.false_barge), (lay.V_UP, uplinks(self.spec, tape.turns)),
        ):  # fmt: skip
            floats[:, column] = values
        answers = self.section(lay.O_ANSWER)
        answers[tape.answer, lay.N_TURN] = np.arange(tape.turns)
        half = tape.cut >= 0
        answers[tape.cut[half], lay.N_TURN] = np.flatnonzero(half)
        answers[tape.cut[half], lay.N_HALF] = 1
        for column, values in (
            (lay.N_LLM, tape.llm), (lay.N_TTS, tape.tts),
            (lay.N_OMNI, tape.omni * (self.spec.omni is not None)),
            (lay.N_UNIT, tape.unit[:-1]), (lay.N_UNITS, np.diff(tape.unit)),
        ):  # fmt: skip
            answers[:, column] = values
        units = self.section(lay.O_UNIT)
        units[:, lay.W_ANSWER] = np.repeat(np.arange(tape.answers), np.diff(tape.unit))
        units[:, lay.W_CACHED], units[:, lay.W_TOKENS] = tape.unit_cached, tape.unit_tokens
        self.section(lay.OF_ARRIVAL)[:, 0] = tape.arrival
        instants = self.section(lay.OF_ANSWER_F)
        instants[:] = -1.0
        instants[:, (A_STALL, A_STALL_MAX, A_RECEIVED, A_LISTENED, A_LOST, A_PAUSED)] = 0.0
        self.section(lay.OF_CALL_F)[:] = -1.0

    # --- running ------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        """Simulated time of the last event or bound (s)."""
        return float(self.E[lay.E_NOW])

    @property
    def events(self) -> int:
        """Events played so far."""
        return int(self.J[lay.J_EVENTS])

    def advance(self, until: float) -> None:
        """Play every event up to and including ``until`` (s)."""
        while run(*self._arenas, until) == lay.GROW:
            self._grow(int(self.J[lay.J_GROW]))

    def set_open(self, pool: int, replica: int, is_open: bool) -> None:
        """Let a replica of a pool take new streams, or not (drain); with none open, the first
        takes them all the same."""
        self.pools[pool].set_open(replica, is_open)

    def _grow(self, p: int) -> None:
        if p < len(self.pools):
            self.pools[p]._grow()
            self._point_to(p, self.pools[p])
        else:
            ahead, rows = ROOM_CHECK * AT_ONCE, dict(self._rows)
            if self.J[lay.J_HEAP] + ahead > rows["heap"]:
                rows["heap"] *= 2
            if self.spec.record_chunks and self.J[lay.J_CHUNKS] + ahead > rows["chunks"]:
                rows["chunks"] *= 2
            if self.spec.blame and self.J[lay.J_STALLS] + ahead > rows["stalls"]:
                rows["stalls"] *= 2
            self._allocate(rows, fresh=False)


def uplinks(spec: DialogueSpec, turns: int) -> np.ndarray:
    """float64[turns]: one-way delay of each turn to the server (s)."""
    u = np.arange(turns).astype(np.uint64)
    seed = np.full(turns, spec.seed & (1 << 64) - 1, np.uint64)
    key = hash_key(seed, np.full(turns, lay.P_UP, np.uint64), u, np.zeros(turns, np.uint64))
    return spec.uplink + spec.uplink_jitter[(key >> np.uint64(52)).astype(np.int64)]


def record(dialogue: Dialogue) -> DialogueRecord:
    """The results of a run so far; the tables are windows into its arenas."""
    E = dialogue.E
    stalled, logged = E[lay.E_FIRST_STALL] < NEVER, int(dialogue.J[lay.J_CHUNKS])
    blamed = int(dialogue.J[lay.J_STALLS])
    return DialogueRecord(
        answer_i=dialogue.section(lay.O_ANSWER_I),
        answer_f=dialogue.section(lay.OF_ANSWER_F),
        call_i=dialogue.section(lay.O_CALL_I),
        call_f=dialogue.section(lay.OF_CALL_F),
        series=dialogue.section(lay.O_SERIES),
        gaps=dialogue.section(lay.O_GAPS),
        gap_hist=dialogue.section(lay.O_HIST)[0],
        chunk_i=dialogue.section(lay.O_CHUNK)[:logged],
        chunk_f=dialogue.section(lay.OF_CHUNK)[:logged],
        pools=tuple(record_of(pool) for pool in dialogue.pools),
        asr={} if dialogue.asr is None else dialogue.asr.record(dialogue.now),
        first_stall=float(E[lay.E_FIRST_STALL]) if stalled else float("inf"),
        now=dialogue.now,
        stall_i=dialogue.section(lay.O_STALLS)[:blamed],
        stall_f=dialogue.section(lay.OF_STALLS)[:blamed],
    )
