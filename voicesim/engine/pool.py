"""The pool: the kernel's arenas, and SimPy's environment around them.

``Pool.advance`` plays the compiled model up to a time and answers the decisions for which the
kernel returns.  ``PoolEnvironment.step`` runs whichever comes first, the pool or SimPy's own
queue (the pool on ties), so control processes see the same world as in the reference.
"""

import math
from collections.abc import Callable
from heapq import heappush
from typing import Any, Protocol

import numpy as np
import simpy
from simpy.core import EmptySchedule
from simpy.events import NORMAL, URGENT

from voicesim.engine import blame, kinds, trace
from voicesim.engine import layout as at
from voicesim.engine.arena import resized, section
from voicesim.engine.card import ALONE
from voicesim.engine.kernel import faults
from voicesim.engine.kernel.loop import ROOM_CHECK, cut_calls, run, set_open
from voicesim.engine.readings import Readings
from voicesim.engine.record import RunRecord
from voicesim.engine.spec import INF, NEVER, NoProgressError, PoolSpec
from voicesim.engine.view import PoolView
from voicesim.policy.view import Decide
from voicesim.workload.rng import hash_prefix
from voicesim.workload.tape import Tape

# sections of the int arena: (header entry of the offset, rows by capacity name, width)
_INT = (
    (at.O_POOLS, "pools", at.N_INT_HEADER),  # first: engines hold the place of their header
    (at.O_SCHEDULE, "schedule", 1),
    (at.O_RUNGS, "rungs", at.NQI),
    (at.O_STREAM, "slots", at.NSI),
    (at.O_ENGINE, "engines", at.NEI),
    (at.O_LIVE, "engines", 1),
    (at.O_OPEN, "engines", 1),
    (at.O_SEEN, "engines", 1),
    (at.O_RINGS, "rings", 1),
    (at.O_NEED, "needs", 1),
    (at.O_WORKER, "workers", at.NWI),
    (at.O_ROWS, "rows", 1),
    (at.O_HEAP_ID, "heap", 1),
    (at.O_TREE, "tree", 1),
    (at.O_UTT, "utterances", at.NUI),
    (at.O_RES, "utterances", at.NRI),
    (at.O_SERIES, "bins", at.NBI),
    (at.O_GAPS, "bins", at.N_COARSE),
    (at.O_HIST, "one", at.N_FINE),
    (at.O_SESSION, "sessions", 1),
    (at.O_CHUNK_I, "chunks", at.NLI),
    (at.O_ENDS, "ends", 1),
    (at.O_OUTBOX, "outbox", at.NMI),
    (at.O_STALL, "stalls", blame.N_STALL_I),
    (at.O_TRACE, "traced", trace.N_TRACE_I),
    (at.O_OPENED, "served", 1),
    (at.O_POOL_LIVE, "served", 1),
    (at.O_TAKES, "served", 1),
    (at.O_PREFS, "routes", 1),
    (at.O_TIERS, "routes", 1),
    (at.O_HOME, "homes", at.N_HOME),
    (at.O_CALLS_ON, "engines", 1),
)
_FLOAT = (
    (at.OF_POOLS, "pools", at.N_FLOAT_HEADER),
    (at.OF_COMPUTE, "compute", 1),
    (at.OF_NOISE, "noise", 1),
    (at.OF_HOST_NOISE, "host_noise", 1),
    (at.OF_RUNGS, "rungs", at.NQF),
    (at.OF_STREAM, "slots", at.NSF),
    (at.OF_ENGINE, "engines", at.NGF),
    (at.OF_WORKER, "workers", at.NVF),
    (at.OF_HEAP_T, "heap", 1),
    (at.OF_TREE, "tree", 1),
    (at.OF_UTT, "utterances", at.NUF),
    (at.OF_RES, "utterances", at.NRF),
    (at.OF_ARRIVAL, "sessions", 1),
    (at.OF_JITTER, "jitter", 1),
    (at.OF_CHUNK, "chunks", at.NLF),
    (at.OF_STALL, "stalls", blame.N_STALL_F),
    (at.OF_TRACE, "traced", trace.N_TRACE_F),
    (at.OF_BLAME, "blamed", blame.NSB),
    (at.OF_SUMS, "sums", blame.NEB),
    (at.OF_OUTBOX, "handed", blame.N_HANDED),
    (at.OF_WEIGHTS, "served", 1),
    (at.OF_DELAYS, "routes", 1),
    (at.OF_JITTERS, "routes", 1),
)


class Window(Protocol):
    """Which of the tape's rows are in a pool's arenas (voicesim.engine.window)."""

    known: float
    """A time (s) before which every arrival is there, inf: all are."""

    def slide(self, pool: "Pool") -> None:
        """Bring more of the tape."""


class Pool:
    """State of one run; see voicesim.engine.spec for the parameters and the Tape for callers."""

    def __init__(
        self, spec: PoolSpec, tape: Tape, decide: Decide | None = None, window: Window | None = None
    ):
        self.spec = spec
        self.tape = tape
        self.window = window  # None: all the tape's rows are here from the start to the end
        self.gone: dict[str, int] = {}  # utterances and sessions that have left the arenas
        self._decide = decide
        self._answer = (0, 0)
        pools, engines = spec.pools, spec.replicas
        workers = max(p.codec.workers if p.codec else 1 for p in pools)
        cap = max(p.codec.cap if p.codec else 1 for p in pools)
        leaves = 2
        while leaves < engines:
            leaves *= 2
        ring = 64
        longest = max(max(r.schedule or p.schedule) for p in pools for r in p.ladder)
        while ring < longest + 2 and ring < 512:
            ring *= 2
        # a stream that ends may set: think, idle timeout
        timers = 2 if any(p.left_open > 0.0 for p in pools) else 1
        margin = ROOM_CHECK * (timers * max(p.max_num_seqs for p in pools) + cap + 8)
        utterances = len(tape.tokens)
        self._chunks = 0  # chunk ends noted per stream, where the ramp is shared
        if spec.shared_ramp and tape.ends is None:
            self._chunks = -(-max(spec.max_new, int(tape.tokens.max())) // min(spec.schedule))
        schedules = [r.schedule or () for p in pools for r in p.ladder]
        schedules += [p.schedule for p in pools]
        self._rows = {
            "slots": 2 * margin + min(utterances, 1 << 13),
            "engines": engines,
            "rings": engines * ring,
            "needs": engines * max(p.block_size for p in pools),
            "workers": engines * workers,
            "rows": engines * workers * cap,
            "heap": 2 * margin + min(2 * utterances, 1 << 17),
            "tree": 1 + 2 * leaves,
            "utterances": utterances,
            "homes": utterances if spec.pinned else 0,
            "pools": len(pools) if spec.others else 0,
            "served": len(pools),
            "routes": 0 if spec.routes is None else spec.routes.prefs.size,
            "schedule": sum(map(len, schedules)),
            "rungs": sum(len(p.ladder) for p in pools),
            "bins": spec.bins,
            "one": 1,
            "sessions": len(tape.arrival),
            "compute": sum(len(p.step.compute_s) for p in pools),
            "noise": 4096 * len(pools),
            "host_noise": 4096 * len(pools) if any(p.host_noise is not None for p in pools) else 0,
            "jitter": 4096,
            "chunks": (2 * margin + 4 * utterances) if spec.record_chunks else 0,
            "ends": 0 if tape.ends is None else len(tape.ends[1]),
            "outbox": spec.max_num_seqs + workers * cap + 8 if spec.stage else 0,
            **dict.fromkeys(("stalls", "blamed", "sums", "handed", "traced"), 0),
        }
        if spec.blame:
            rows = self._rows
            rows |= {"blamed": rows["slots"], "sums": engines, "handed": rows["outbox"]}
            rows["stalls"] = 0 if spec.stage else 2 * margin
            rows["traced"] = 0 if spec.trace is None else 8 * margin
        self.I = np.zeros(at.N_INT_HEADER, np.int64)
        self.F = np.zeros(at.N_FLOAT_HEADER)
        self._allocate(dict(self._rows))
        self._write_header(ring, leaves, workers, cap, margin)
        self._write_tape(0)
        self._free_slots(0)
        self.view = PoolView(self)

    # --- arenas -------------------------------------------------------------------------------

    def _allocate(self, rows: dict[str, int]) -> None:
        """(Re)build both arenas with these capacities, keeping what they hold."""
        if self._chunks:
            rows["ends"] = rows["slots"] * self._chunks
        if self.spec.blame:
            rows["blamed"] = rows["slots"]
        before = self._rows if len(self.I) > at.N_INT_HEADER else None
        self.I = resized(self.I, None, _INT, at.N_INT_HEADER, rows, before, self.gone)
        self.F = resized(self.F, self.I, _FLOAT, at.N_FLOAT_HEADER, rows, before, self.gone)
        self._rows = rows
        self.arenas = (self.F.ctypes.data, self.I.ctypes.data)
        self.I[at.C_SLOTS] = rows["slots"]
        self.I[at.C_HEAP] = rows["heap"]
        self.I[at.C_CHUNKS] = rows["chunks"]
        self.I[at.C_STALLS], self.I[at.C_TRACE] = rows["stalls"], rows["traced"]

    def section(self, entry: int) -> np.ndarray:
        """A section as a 2-D array (rows, columns), by its header entry.

        With a window the first row of a section of utterances or sessions is number ``gone`` of
        them; the offsets in the header count from number 0.
        """
        return section(((self.I, _INT), (self.F, _FLOAT)), self.I, self._rows, entry, self.gone)

    def make_room(self, **rows: int) -> None:
        """Let the sections of these capacities have so many rows at least; the arenas are copied
        where there are fewer, so they get some to spare."""
        short = {name: n + n // 2 for name, n in rows.items() if n > self._rows[name]}
        if short:
            self._allocate(self._rows | short)
            self.view.refresh()

    def _write_header(self, ring: int, leaves: int, workers: int, cap: int, room: int) -> None:
        s, I, F = self.spec, self.I, self.F
        for entry, value in (
            (at.H_ENGINES, s.replicas), (at.H_WORKERS, workers), (at.H_RING, ring),
            (at.H_CAP, cap), (at.H_NEEDS, max(p.block_size for p in s.pools)), (at.H_SEED, s.seed),
            (at.H_ROUTE, s.routing), (at.H_ADMIT, s.admission),
            (at.H_MAXQ, s.max_queued), (at.H_PYTHON, self._decide is not None),
            (at.H_RETRIES, s.retries), (at.H_FULLJIT, s.full_jitter), (at.H_STANDBY, s.standby),
            (at.H_CLOSED, self.tape.callers), (at.H_BINS, s.bins), (at.H_CHUNKLOG, s.record_chunks),
            (at.H_OWN_CHUNKS, self._chunks > 0 or self.tape.ends is not None),
            (at.H_MESSAGES, s.stage), (at.H_RAMP_CHUNKS, self._chunks), (at.H_PAD, s.pad),
            (at.H_GQ_HEAD, -1), (at.H_GQ_TAIL, -1), (at.H_DECISION, -1),
            (at.H_NEXT_UTT, self.tape.callers if self.tape.closed else 0),
            (at.H_NOISE_HASH, hash_prefix(s.seed, at.P_STEP_NOISE)),
            (at.H_JITTER_HASH, hash_prefix(s.seed, at.P_NETWORK)), (at.H_ROOM, room),
            (at.H_BLAME, s.blame), (at.H_TRACE, s.blame and s.trace is not None),
            (at.H_POOLS, len(s.pools)), (at.H_FLEET, s.routes is not None),
            (at.H_RECONNECT, s.reconnect is not None), (at.H_STALE, s.stale),
            (at.H_RESERVES, s.stale and s.reserves),
            (at.H_PINNED, s.pinned),
        ):  # fmt: skip
            I[entry] = int(value)
        for entry, number in (
            (at.K_HORIZON, s.horizon), (at.K_WARMUP, s.warmup),
            (at.K_AUDIBLE, s.audible), (at.K_PREBUFFER, s.prebuffer),
            (at.K_REBUFFER, s.rebuffer), (at.K_MAX_WAIT, s.max_wait), (at.K_MAX_QUEUE, s.max_queue),
            (at.K_DEADLINE, s.deadline), (at.K_LEAD, s.lead),
            (at.K_BACKOFF, s.backoff), (at.K_FACTOR, s.factor), (at.K_RESOLUTION, s.resolution),
            (at.K_FIRST_STALL, NEVER), (at.K_ASKED_AT, -1.0), (at.K_WITHIN, s.reconnect or 0.0),
            (at.K_EARNS, s.retry_budget), (at.K_BURST, s.retry_burst),
            (at.K_RETRIES_LEFT, s.retry_burst), (at.K_EPSILON, s.epsilon),
            (at.K_FILL_AFTER, s.fill_after), (at.K_FILLER, s.filler),
        ):  # fmt: skip
            F[entry] = number
        if s.trace is not None:
            F[at.K_TRACE_FROM], F[at.K_TRACE_TO] = s.trace
        self.section(at.OF_JITTER)[:, 0] = s.jitter
        self.section(at.O_RINGS)[:] = -1
        self.section(at.O_OPEN)[:] = 1
        engines = self.section(at.O_ENGINE)
        for column in (
            at.E_RUN_HEAD, at.E_RUN_TAIL, at.E_WAIT_HEAD, at.E_WAIT_TAIL, at.E_Q_HEAD, at.E_Q_TAIL,
            at.E_PARTIAL, at.E_FIRST_PREFILL, at.E_FIRST_MATE, at.E_MATE,
        ):  # fmt: skip
            engines[:, column] = -1
        floats = self.section(at.OF_ENGINE)
        floats[:, at.G_GATHER] = NEVER
        floats[:, at.G_STRETCH] = floats[:, at.G_FACTOR] = floats[:, at.G_OTHERS] = 1.0
        first, rung, compute = 0, 0, int(I[at.OF_COMPUTE])
        schedule = int(I[at.O_SCHEDULE])
        rungs = schedule + sum(len(p.schedule) for p in s.pools)
        for number, pool in enumerate(s.pools):
            self._write_pool(number, pool, first, schedule, compute)
            I[self._header_of(number) + at.H_RUNG_ROW] = rung
            rungs = self._write_rungs(pool, rung, rungs)
            schedule += len(pool.schedule)
            first += pool.engines
            rung += len(pool.ladder)
            compute += len(pool.step.compute_s)
        for card in s.cards():
            engines[card, at.E_FIRST_MATE] = card[0]
            engines[card[:-1], at.E_MATE] = card[1:]
        if s.routes is not None:
            self.section(at.O_PREFS)[:, 0] = s.routes.prefs.ravel()
            self.section(at.O_TIERS)[:, 0] = s.routes.tiers.ravel()
            self.section(at.OF_DELAYS)[:, 0] = s.routes.delay.ravel()
            self.section(at.OF_JITTERS)[:, 0] = s.routes.jitter.ravel()
        self._write_tree(leaves)

    def _write_pool(
        self, number: int, s: PoolSpec, first: int, schedule: int, compute: int
    ) -> None:
        """A pool's engines: their parameters in a header of the pool's own (the first pool's is
        the arena's), ``schedule`` and ``compute`` the places of its tables."""
        I, F, codec, card = self.I, self.F, s.codec, s.on_card
        c = self._header_of(number)
        k = int(I[at.OF_POOLS]) + number * at.N_FLOAT_HEADER if number else 0
        noise = int(I[at.OF_NOISE]) + number * 4096
        host_noise = int(I[at.OF_HOST_NOISE]) + number * 4096
        for entry, value in (
            (at.H_FIRST, first), (at.H_COUNT, s.engines), (at.O_SCHEDULE, schedule),
            (at.OF_COMPUTE, compute), (at.OF_NOISE, noise), (at.H_BLOCK, s.block_size),
            (at.H_MAX_SEQS, s.max_num_seqs), (at.H_BUDGET, s.budget), (at.H_BLOCKS, s.blocks),
            (at.H_RESERVE, s.reserve), (at.H_PREFIX, s.prefix // s.block_size * s.block_size),
            (at.H_OVERLAP, s.overlap), (at.H_NOISE, s.noise is not None),
            (at.H_CODEC, codec is not None), (at.H_SHARED, bool(codec and codec.shared)),
            (at.H_QUEUE, codec.queue if codec else 0), (at.H_WINDOW, codec.window if codec else 0),
            (at.H_CONTEXT, codec.left_context if codec else 0), (at.H_SCHED, len(s.schedule)),
            (at.H_CALLS, codec.workers if codec else 1), (at.H_ROWS, codec.cap if codec else 1),
            (at.H_MAXTOK, len(s.step.compute_s) - 1), (at.H_LIMIT, s.limit),
            (at.H_KIND, s.kind), (at.H_MAXNEW, s.max_new), (at.H_MAXWAIT, s.max_engine_queue),
            (at.H_INTERLEAVE, s.interleave), (at.H_MIXES, kinds.mixes(s.kind, s.mixed_chunk)),
            (at.H_KEEP, s.keep_hashes), (at.H_LEAVES_OPEN, s.left_open > 0.0),
            (at.H_ASIDE, s.aside),
            (at.H_CARD_MODE, card.mode if card else ALONE), (at.OF_HOST_NOISE, host_noise),
            (at.H_HOST_NOISE, s.host_noise is not None),
            (at.H_PACED, s.pace < INF), (at.H_STARTS, s.starts),
        ):  # fmt: skip
            I[c + entry] = int(value)
        for entry, x in (
            (at.K_TOKEN_AUDIO, s.token_audio), (at.K_DELAY, s.delay),
            (at.K_GATHER, codec.gather if codec else 0.0), (at.K_DECODE_SLOW, s.decode_slowdown),
            (at.K_CODEC_SLOW, s.codec_slowdown), (at.K_LEFT_OPEN, s.left_open),
            (at.K_RATIO, kinds.first_ratio(s.conservativeness)), (at.K_IDLE, s.idle_timeout),
            (at.K_SPILL_AT, s.spill_at), (at.K_SPILL_BACK, s.spill_back), (at.K_PACE, s.pace),
            (at.K_CODEC_LEAD, codec.lead if codec else 0.0),
            (at.K_CODEC_RESERVE, codec.reserve if codec else 0.0),
        ):  # fmt: skip
            F[k + entry] = x
        if card:
            F[k + at.K_SWITCHING] = card.switching
            F[k + at.K_SM], F[k + at.K_BANDWIDTH] = card.sm, card.bandwidth
            F[k + at.K_HOST_SHARE], F[k + at.K_GPU_SHARE] = card.host_share, card.gpu_share
            F[k + at.K_HOST_STRETCH] = card.host_stretch
        if s.host_noise is not None:
            F[host_noise : host_noise + 4096] = s.host_noise
        F[k + at.K_MEMORY : k + at.K_OVERLAP + 1] = s.step.params
        if codec:
            F[k + at.K_CODEC_FLOOR : k + at.K_CODEC_PER_FRAME + 1] = codec.cost
        F[compute : compute + len(s.step.compute_s)] = s.step.compute_s
        F[noise : noise + 4096] = 1.0 if s.noise is None else s.noise
        I[schedule : schedule + len(s.schedule)] = s.schedule
        own = slice(first, first + s.engines)
        engines, floats = self.section(at.O_ENGINE), self.section(at.OF_ENGINE)
        engines[own, at.E_CLASS], engines[own, at.E_COST], engines[own, at.E_POOL] = c, k, number
        engines[own, at.E_FREE], engines[own, at.E_UP] = s.blocks, 1
        floats[own, at.G_RATIO] = kinds.first_ratio(s.conservativeness)
        self.section(at.O_OPENED)[number], self.section(at.O_TAKES)[number] = s.engines, 1
        self.section(at.OF_WEIGHTS)[number] = s.weight

    def _header_of(self, number: int) -> int:
        """Where the int header of a pool is."""
        return int(self.I[at.O_POOLS]) + number * at.N_INT_HEADER if number else 0

    def _write_rungs(self, s: PoolSpec, row: int, schedule: int) -> int:
        """The ladder of a pool, from ``row`` on; returns where the next pool's chunks begin."""
        ints, floats = self.section(at.O_RUNGS), self.section(at.OF_RUNGS)
        for i, rung in enumerate(s.ladder, row):
            chunks = rung.schedule or ()
            self.I[schedule : schedule + len(chunks)] = chunks
            ints[i] = schedule, len(chunks), rung.prompt, rung.then, rung.to
            floats[i] = rung.speech, rung.codec, rung.filler
            schedule += len(chunks)
        return schedule

    def _write_tree(self, leaves: int) -> None:
        tree = self.section(at.O_TREE)[:, 0]
        tree[:] = 0
        tree[0] = leaves
        node = 1 + leaves
        for i in range(leaves - 1, 0, -1):
            tree[node + i] = tree[node + 2 * i] if 2 * i < leaves else 2 * i - leaves
        self.section(at.OF_TREE)[:] = NEVER

    def _write_tape(self, start: int) -> None:
        """Copy the tape's rows from utterance ``start`` on."""
        tape = self.tape
        rows = self.section(at.O_UTT)
        rows[start:, at.U_TOKENS] = tape.tokens[start:]
        rows[start:, at.U_PROMPT] = tape.prompt[start:]
        if tape.row is not None:
            rows[start:, at.U_ROW] = tape.row[start:]
        if tape.hit is not None:
            rows[start:, at.U_HIT] = tape.hit[start:]
        if tape.ends is not None:
            rows[:, at.U_ENDS] = tape.ends[0][:-1]
            self.section(at.O_ENDS)[:, 0] = tape.ends[1]
        counts = np.diff(tape.first)
        rows[:, at.U_SESSION] = np.repeat(np.arange(len(counts)), counts)
        floats = self.section(at.OF_UTT)
        floats[start:, at.Y_THINK] = tape.think[start:]
        floats[start:, at.Y_PATIENCE] = tape.patience[start:]
        if tape.encode is not None:
            floats[start:, at.Y_ENCODE] = tape.encode[start:]
        self.section(at.O_RES)[start:, at.R_SLOT] = -1
        self.section(at.O_HOME)[start:] = -1
        self.section(at.OF_ARRIVAL)[:, 0] = tape.arrival
        self.section(at.O_SESSION)[:, 0] = tape.first[: len(tape.arrival)]
        self.I[at.H_SESSIONS] = len(tape.arrival)
        self.I[at.H_UTTERANCES] = len(tape.tokens)

    def _free_slots(self, start: int) -> None:
        """Chain the stream rows from ``start`` on, before the free list's old head."""
        links = self.section(at.O_STREAM)[:, at.S_NEXT]
        n = len(links)
        links[start:n] = np.arange(start + 1, n + 1)
        links[n - 1] = -1 if start == 0 else self.I[at.H_FREE_SLOT]
        self.I[at.H_FREE_SLOT] = start
        self.I[at.H_FREE_SLOTS] += n - start

    def _grow(self) -> None:
        """Make room where the kernel found too little of it (see room in kernel/loop.py)."""
        ahead = ROOM_CHECK * self.tape.callers if self.tape.closed else 0
        short = self.I[at.H_NEXT_UTT] + ahead > self.I[at.H_UTTERANCES]
        if short and self.window is not None:
            self.window.slide(self)
            short = False
        I, rows = self.I, dict(self._rows)
        margin = int(I[at.H_ROOM])
        slots, utterances = rows["slots"], rows["utterances"]
        if I[at.H_FREE_SLOTS] < margin:
            rows["slots"] = 2 * slots + margin
        if I[at.H_HEAP] + margin > rows["heap"]:
            rows["heap"] = 2 * rows["heap"] + margin
        if self.spec.record_chunks and I[at.H_NCHUNKS] + margin > rows["chunks"]:
            rows["chunks"] = 2 * rows["chunks"] + margin
        if rows["stalls"] and I[at.H_NSTALLS] + margin > rows["stalls"]:
            rows["stalls"] = 2 * rows["stalls"] + margin
        if rows["traced"] and I[at.H_NTRACE] + 4 * margin > rows["traced"]:
            rows["traced"] = 2 * rows["traced"] + 4 * margin
        if short:
            self.tape = self.tape.extend()
            rows["utterances"] = len(self.tape.tokens)
            rows["homes"] = rows["utterances"] if self.spec.pinned else 0
        if rows == self._rows:
            return
        self._allocate(rows)
        if rows["slots"] > slots:
            self._free_slots(slots)
        if rows["utterances"] > utterances:
            self._write_tape(utterances)
        self.view.refresh()

    # --- running ------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        """Simulated time of the last event or bound (s)."""
        return float(self.F[at.K_NOW])

    def advance(self, until: float) -> None:
        """Play every event up to and including ``until`` (s)."""
        if self.window is not None:
            while until >= self.window.known:
                if self.window.known > self.now:  # arrivals at that very instant may be missing
                    self._play(math.nextafter(self.window.known, 0.0))
                self.window.slide(self)
        self._play(until)

    def _play(self, until: float) -> None:
        action, replica = 0, 0
        while True:
            status = run(*self.arenas, until, action, replica)
            if status == at.REACHED:
                return
            if status == at.STUCK:
                raise NoProgressError(self.now)
            if status == at.GROW:
                self._grow()
                action, replica = self._answer
            else:
                assert self._decide is not None
                action, replica = self._answer = self._decide(self.view)

    def next_event(self) -> float:
        """Time of the pool's next event (s), NEVER if none."""
        tree = self.section(at.O_TREE)[:, 0]
        t = float(self.section(at.OF_TREE)[tree[2 + tree[0]], 0])
        if self.I[at.H_HEAP] > 0:
            t = min(t, float(self.section(at.OF_HEAP_T)[0, 0]))
        n = self.I[at.H_NEXT_SESSION]
        if n < self.I[at.H_SESSIONS]:
            t = min(t, float(self.F[self.I[at.OF_ARRIVAL] + n]))
        return t

    def gauges(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
        """Running, num_requests_waiting and free KV blocks by engine; preemptions so far."""
        engines = self.section(at.O_ENGINE)
        columns = (engines[:, c] for c in (at.E_RUNNING, at.E_GAUGE, at.E_FREE))
        return (*columns, int(self.I[at.H_PREEMPTIONS]))  # type: ignore[return-value]

    def _room_for(self, replica: int) -> None:
        """Room for what happens at once when a replica fails: a timer and a row for each stream
        that it has or gets."""
        n = int(self.section(at.O_LIVE)[replica, 0]) + int(self.I[at.H_GQ])
        n += int(self.I[at.H_ROOM])
        rows = dict(self._rows)
        slots = rows["slots"]
        if self.I[at.H_FREE_SLOTS] < n:
            rows["slots"] = 2 * slots + n
        if self.I[at.H_HEAP] + n > rows["heap"]:
            rows["heap"] = 2 * rows["heap"] + n
        if rows != self._rows:
            self._allocate(rows)
            if rows["slots"] > slots:
                self._free_slots(slots)
            self.view.refresh()

    def crash(self, replica: int) -> bool:
        """The replica is gone until it is restored, and every stream there is lost; False if it
        was not there."""
        self._room_for(replica)
        return bool(faults.crash(*self.arenas, replica))

    def restore(self, replica: int) -> None:
        """The replica starts anew and is open; one that was silent loses what it holds."""
        self._room_for(replica)
        faults.restore(*self.arenas, replica)

    def set_slow(self, replica: int, factor: float) -> None:
        """Steps and codec calls that begin from now on take ``factor`` times as long."""
        faults.set_slow(*self.arenas, replica, float(factor))

    def set_gray(self, replica: int, drop_after: float | None) -> None:
        """The replica takes streams and does nothing with them, until it is restored; each is
        dropped ``drop_after`` s after it came (None: never)."""
        self._room_for(replica)
        faults.set_gray(*self.arenas, replica, NEVER if drop_after is None else float(drop_after))

    def refresh_readings(self) -> None:
        """The router learns how many streams each replica has now (PoolSpec.stale)."""
        faults.refresh_readings(*self.arenas)

    def readings(self) -> Readings:
        """What an operator's tools read from the replicas now."""
        engines, floats = self.section(at.O_ENGINE), self.section(at.OF_ENGINE)
        return Readings(
            up=engines[:, at.E_UP].copy(),
            open=self.section(at.O_OPEN)[:, 0].copy(),
            live=self.section(at.O_LIVE)[:, 0].copy(),
            running=engines[:, at.E_RUNNING].copy(),
            waiting=engines[:, at.E_GAUGE].copy(),
            free_blocks=engines[:, at.E_FREE].copy(),
            steps=engines[:, at.E_STEPS].copy(),
            served=engines[:, at.E_SERVED].copy(),
            failed=engines[:, at.E_LOST].copy(),
            busy_gpu=floats[:, at.G_BUSY_GPU].copy(),
            busy_host=floats[:, at.G_BUSY_HOST].copy(),
        )

    def results(self) -> tuple[np.ndarray, np.ndarray]:
        """Integers and floats of every utterance so far, as in RunRecord."""
        return self.section(at.O_RES), self.section(at.OF_RES)

    def gap_counts(self) -> np.ndarray:
        """int64[bins, buckets]: gap before a chunk / audio of the chunk before it, so far."""
        return self.section(at.O_GAPS)

    def set_open(self, replica: int, is_open: bool) -> None:
        """Let a replica take new streams, or not (drain); one that is not there stays closed."""
        self._room_for(replica)
        set_open(*self.arenas, replica, int(is_open))

    def set_weight(self, pool: int, weight: float) -> None:
        """Give a pool of a fleet another share of the callers of its tier."""
        self.section(at.OF_WEIGHTS)[pool, 0] = weight

    def calls_on(self, replica: int) -> int:
        """Calls that live on a replica (PoolSpec.pinned)."""
        return int(self.section(at.O_CALLS_ON)[replica, 0])

    def cut_calls(self, replica: int) -> int:
        """End the calls that live on a replica (not pinned: that have a stream on it); what they
        are being sent is lost.  How many there were."""
        return int(cut_calls(*self.arenas, replica))

    def codec_lag(self) -> np.ndarray:
        """float64[replicas]: moving average of the codec's queue and service time (s), a copy."""
        return np.array(self.section(at.OF_ENGINE)[:, at.G_LAG])

    def set_rung(self, pool: int, rung: int) -> None:
        """From now on the pool admits at this rung of its ladder.  Raises IndexError."""
        if not 0 <= rung < len(self.spec.pools[pool].ladder):
            raise IndexError(rung)
        self.I[self._header_of(pool) + at.H_RUNG] = rung


class PoolEnvironment(simpy.Environment):
    """A SimPy environment in which a pool (or a dialogue's) lives beside ordinary processes."""

    def __init__(self, pool: Any):
        super().__init__()
        self.pool = pool

    def step(self) -> None:
        """Play the pool up to the next event of SimPy's queue, then that event."""
        if not self._queue:
            raise EmptySchedule
        if self._queue[0][1] != URGENT:  # a new process starts before the pool moves on
            self.pool.advance(self._queue[0][0])
        super().step()

    def at(self, t: float) -> simpy.Event:
        """An event at the absolute time t (timeouts are relative, and now + (t - now) != t)."""
        event = simpy.Event(self)
        event._ok = True
        event._value = None
        heappush(self._queue, (t, NORMAL, next(self._eid), event))
        return event


ControlProcess = Callable[[simpy.Environment, Any], Any]
"""A control process: a generator function of (env, pool) whose env is SimPy's."""


def record(pool: Pool) -> RunRecord:
    """The results of a pool's run so far; the tables are windows into its arenas."""
    I, F = pool.I, pool.F
    here = int(I[at.H_UTTERANCES]) - pool.gone.get("utterances", 0)
    engines, floats = pool.section(at.O_ENGINE), pool.section(at.OF_ENGINE)
    logged, blamed = int(I[at.H_NCHUNKS]), int(I[at.H_NSTALLS])
    stalled = F[at.K_FIRST_STALL] < NEVER
    return RunRecord(
        utterance_i=pool.section(at.O_RES)[:here],
        utterance_f=pool.section(at.OF_RES)[:here],
        series=pool.section(at.O_SERIES),
        gaps=pool.section(at.O_GAPS),
        gap_hist=pool.section(at.O_HIST)[0],
        chunk_i=pool.section(at.O_CHUNK_I)[:logged],
        chunk_f=pool.section(at.OF_CHUNK)[:logged],
        trace_i=pool.section(at.O_TRACE)[: I[at.H_NTRACE]],
        trace_f=pool.section(at.OF_TRACE)[: I[at.H_NTRACE]],
        stall_i=pool.section(at.O_STALL)[:blamed],
        stall_f=pool.section(at.OF_STALL)[:blamed],
        busy={
            "decode": floats[:, at.G_BUSY_GPU].copy(),
            "host": floats[:, at.G_BUSY_HOST].copy(),
            "codec": floats[:, at.G_BUSY_CODEC].copy(),
        },
        live_area=floats[:, at.G_LIVE_AREA]
        + pool.section(at.O_LIVE)[:, 0] * (F[at.K_NOW] - floats[:, at.G_LIVE_SINCE]),
        counters={
            "steps": int(I[at.H_STEPS]),
            "stream_steps": int(I[at.H_STREAM_STEPS]),
            "prefill_tokens": int(I[at.H_PREFILL_TOKENS]),
            "recomputed_tokens": int(I[at.H_RECOMPUTED]),
            "cached_tokens": int(I[at.H_HITS]),
            "preemptions": int(I[at.H_PREEMPTIONS]),
            "discarded_tokens": int(I[at.H_DISCARDED]),
            "failed": int(I[at.H_FAILED]),
            "lost": int(I[at.H_LOST]),
            "cut": int(I[at.H_CUT]),
            "codec_batches": int(engines[:, at.E_CODEC_DONE].sum()),
            "codec_rows": int(engines[:, at.E_CODEC_ROWS].sum()),
            "live_calls": int(I[at.H_LIVE_CALLS]),
            "max_batch": int(I[at.H_MAX_BATCH]),
            "events": int(I[at.H_EVENTS]),
        },
        first_stall=float(F[at.K_FIRST_STALL]) if stalled else float("inf"),
        first_stall_waiting=int(I[at.H_FIRST_WAITING]),
        now=float(F[at.K_NOW]),
    )
