"""Where everything lies in the kernel's two arenas.

The whole state of a pool is one float64 array F and one int64 array I: passing two arrays to a
compiled function costs half a microsecond, passing twenty costs several.  Each begins with a
header; the int header holds the offsets of the sections.  A stream is a row, a session's
utterance is a row, an engine is a row.  Column names are module constants, frozen into the
compiled code; sizes and offsets are data, so one compilation serves every scenario.
"""

import numpy as np


def _columns(names: str) -> tuple[int, ...]:
    return tuple(range(len(names.split())))


# --- int header -------------------------------------------------------------------------------
(
    H_ENGINES, H_WORKERS, H_BLOCK, H_RING, H_CAP, H_MAX_SEQS, H_BUDGET, H_BLOCKS, H_RESERVE,
    H_OVERLAP, H_NOISE, H_CODEC, H_SHARED, H_QUEUE, H_WINDOW, H_CONTEXT, H_SCHED, H_MAXTOK,
    H_SEED, H_ROUTE, H_ADMIT, H_LIMIT, H_MAXQ, H_PYTHON, H_RETRIES, H_FULLJIT, H_STANDBY,
    H_CLOSED, H_SESSIONS, H_UTTERANCES, H_BINS, H_CHUNKLOG,
    # state
    H_NEXT_SESSION, H_NEXT_UTT, H_TURN, H_SEQ, H_FREE_SLOT, H_HEAP, H_GQ_HEAD, H_GQ_TAIL, H_GQ,
    H_DECISION, H_NCHUNKS, H_BIN, H_FIRST_WAITING, H_EVENTS, H_LIVE_CALLS, H_STEPS,
    H_STREAM_STEPS, H_PREFILL_TOKENS, H_RECOMPUTED, H_PREEMPTIONS, H_DISCARDED, H_FAILED,
    H_MAX_BATCH, H_FREE_SLOTS, H_AT_ONCE,
    # offsets
    O_STREAM, O_ENGINE, O_LIVE, O_OPEN, O_RINGS, O_NEED, O_WORKER, O_ROWS, O_HEAP_ID, O_TREE,
    O_UTT, O_RES, O_SCHEDULE, O_SERIES, O_HIST, O_CHUNK_I, O_SESSION, O_GAPS,
    # capacities
    C_SLOTS, C_HEAP, C_CHUNKS,
    # prefix cache: tokens of the shared prefix that fill blocks, and tokens hit
    H_PREFIX, H_HITS,
) = range(80)  # fmt: skip

# --- float header -----------------------------------------------------------------------------
# The step's parameters come first, so that F itself serves as ``params`` of engine/cost.py.
(
    K_MEMORY, K_MEMORY_PER_KV, K_ATTENTION, K_NORM, K_HOST, K_HOST_PER_STREAM, K_HOST_PER_CHUNK,
    K_SYNC, K_OVERLAP, K_CODEC_FLOOR, K_CODEC_PER_ROW, K_CODEC_PER_FRAME,
    K_NOW, K_TOKEN_AUDIO, K_HORIZON, K_WARMUP, K_AUDIBLE, K_DELAY, K_PREBUFFER, K_REBUFFER,
    K_MAX_WAIT, K_MAX_QUEUE, K_GATHER, K_DECODE_SLOW, K_CODEC_SLOW, K_DEADLINE, K_LEAD,
    K_BACKOFF, K_FACTOR, K_RESOLUTION, K_NEXT_SAMPLE, K_FIRST_STALL, K_ASKED_AT,
    K_RATIO, K_LEFT_OPEN, K_IDLE, K_TRACE_FROM, K_TRACE_TO,
    # of a pool: share of its places at which callers go elsewhere, and come back
    K_SPILL_AT, K_SPILL_BACK,
    # of a pool on shared cards (spec.OnCard)
    K_SWITCHING, K_SM, K_BANDWIDTH,
    # of the codec's queue: when a chunk is pressing, urgent; of lead pacing: how far ahead
    K_CODEC_LEAD, K_CODEC_RESERVE, K_PACE,
) = range(46)  # fmt: skip
# the lost come back within (s); retries that a request earns, at most, and those left
K_WITHIN, K_EARNS, K_BURST, K_RETRIES_LEFT = range(46, 50)
# silence after which a caller hears a filler, and how long it is
K_FILL_AFTER, K_FILLER = range(50, 52)
# affinity: how far above the mean a call's own replica may be
K_EPSILON = 52
# of a pool on shared cards: parts of a step's GPU time, lack of cores
K_HOST_SHARE, K_GPU_SHARE, K_HOST_STRETCH = range(53, 56)
N_FLOAT_HEADER = 64
# float offsets live in the int header too
(
    OF_STREAM, OF_ENGINE, OF_WORKER, OF_HEAP_T, OF_TREE, OF_UTT, OF_RES, OF_ARRIVAL, OF_COMPUTE,
    OF_NOISE, OF_JITTER, OF_CHUNK,
) = range(80, 92)  # fmt: skip
# a stage of a dialogue: streams have chunk ends of their own; what leaves goes to an outbox
H_OWN_CHUNKS, H_MESSAGES, H_OUTBOX, O_ENDS, O_OUTBOX = range(92, 97)
# rules of the engine kinds: kind, max_new_tokens declared, waiting at most, decode steps between
# prompts, mixed steps, hashes kept, sessions left open, room that an arena must have left
(
    H_KIND, H_MAXNEW, H_MAXWAIT, H_INTERLEAVE, H_MIXES, H_KEEP, H_LEAVES_OPEN, H_ROOM,
    # a ramp shared by the streams of a replica: chunks of a stream at most (0: none is), pad
    H_RAMP_CHUNKS, H_PAD,
) = range(97, 107)  # fmt: skip
# blame (engine/blame.py): is it on, stalls logged, their capacity, sections
(
    H_BLAME, H_NSTALLS, C_STALLS, O_STALL, OF_STALL, OF_BLAME, OF_SUMS, OF_OUTBOX,
) = range(107, 115)  # fmt: skip
# trace (engine/trace.py): is it on, rows logged, their capacity, sections
H_TRACE, H_NTRACE, C_TRACE, O_TRACE, OF_TRACE = range(115, 120)
# rng.hash_prefix of the seed: of step noise, of network jitter
H_NOISE_HASH, H_JITTER_HASH = range(120, 122)
# A pool of a fleet has a header of its own with its engines' parameters at the same places; the
# first pool's is the arena's.  Of a pool: codec calls at once, rows of a call, its first engine,
# engines, turn of round robin (H_TURN).  Of the arena: is it a fleet, pools, width of the counts of
# blocks; sections: headers, by pool: open replicas, live streams, whether it takes callers; by the
# callers' row: pools in order of preference, their tiers
(
    H_CALLS, H_ROWS, H_FIRST, H_COUNT, H_FLEET, H_POOLS, H_NEEDS, O_POOLS, O_OPENED, O_POOL_LIVE,
    O_TAKES, O_PREFS, O_TIERS, OF_POOLS, OF_WEIGHTS, OF_DELAYS, OF_JITTERS, H_ASIDE,
) = range(122, 140)  # fmt: skip
# shared cards: mode, is there a noise of the host phase, its table
H_CARD_MODE, H_HOST_NOISE, OF_HOST_NOISE = range(150, 153)
# lead pacing: do streams pause, slots that those who go on leave to others
H_PACED, H_STARTS = range(153, 155)
# faults: streams lost, of them after their first audio; the lost come back; halts so far; routing
# by readings of live streams that are refreshed from time to time, and whether what is sent since
# counts; section: these readings
H_LOST, H_CUT, H_RECONNECT, H_HALTS, H_STALE, H_RESERVES, O_SEEN = range(155, 162)
# calls that stay with a replica: is it so; sections: by call, by engine
H_PINNED, O_HOME, O_CALLS_ON = range(170, 173)
# degradation (policy/degradation.py): the pool's rung, the row of its rung 0; all pools' rungs
H_RUNG, H_RUNG_ROW, O_RUNGS, OF_RUNGS = range(173, 177)
# utterances that have left the arenas (engine/window.py)
H_GONE = 180
N_INT_HEADER = 192

# --- stream rows ------------------------------------------------------------------------------
(
    S_STATE, S_UTT, S_ENGINE, S_PROMPT, S_TOKENS, S_GEN, S_COMPUTED, S_PLANNED, S_OFF, S_DUE,
    S_READY, S_SENT, S_READY_TOK, S_SENT_TOK, S_NEXT, S_PREV, S_BNEXT, S_BPREV, S_BUCKET,
    S_QNEXT, S_QPREV, S_INQ, S_ACTIVE, S_SEQ, S_ATTEMPTS, S_ABORT, S_PREEMPTS, S_MODE, S_STALLS,
    S_AUDIBLE, S_ONCE, S_SHARED, S_HIT, S_KEPT, S_MARK, S_LEFT,
    # row of the rung that it is served at, the pool whose ladder that is, fillers heard
    S_RUNG, S_HOME, S_FILLED,
) = range(39)  # fmt: skip
NSI = 39
(
    X_PLAY_END, X_HELD, X_SINCE, X_FIRST, X_LAST, X_RECEIVED, X_STALL, X_STALL_MAX, X_A, X_C,
    X_PACE, X_REQUEST, X_ADMIT, X_START, X_READY_AT, X_ENQUEUED, X_DEADLINE, X_LOST, X_AUDIO,
    X_ENCODE, X_DELAY, X_JITTER, X_PATIENT,
) = range(23)  # fmt: skip
NSF = 23

# stream states
FREE, AT_GATEWAY, BACKING_OFF, WAITING, PREFILLING, DECODING, ZOMBIE, GENERATED, HELD = range(9)

# --- engine rows ------------------------------------------------------------------------------
(
    E_RUN_HEAD, E_RUN_TAIL, E_RUNNING, E_WAIT_HEAD, E_WAIT_TAIL, E_WAITING, E_DECODING, E_CONTEXT,
    E_FREE, E_STEP, E_STEPPING, E_PARTIAL, E_KICK, E_CHUNKS, E_ABORTS, E_Q_HEAD, E_Q_TAIL, E_QUEUED,
    E_BUSY, E_ACTIVE, E_FIRST_PREFILL, E_CODEC_DONE, E_CODEC_ROWS, E_GAUGE,
    E_PHASE, E_CACHED, E_REFS, E_STEPS, E_PAUSED, E_FULL, E_SINCE, E_TAKEN,
    E_RAMP, E_CLASS, E_COST, E_POOL, E_HELD,
    # the first engine on its shared card (-1: it has its own), the next one
    E_FIRST_MATE, E_MATE,
) = range(39)  # fmt: skip
# is it there; streams sent whole, streams lost there; is it silent; halt after which it began
E_UP, E_SERVED, E_LOST, E_GRAY, E_EPOCH = range(39, 44)
NEI = 48
(
    G_END, G_START, G_REM, G_SINCE, G_SLOW, G_GPU, G_HOST, G_GATHER, G_KICK, G_BUSY_GPU,
    G_BUSY_HOST, G_BUSY_CODEC, G_STRETCH, G_LAG, G_BOUNDARY, G_SOLO, G_LIVE_SINCE, G_LIVE_AREA,
    G_RATIO,
) = range(19)  # fmt: skip
# how many times longer its work takes; after how long a silent replica drops a stream (s)
G_FACTOR, G_DROP = range(19, 21)
# on a shared card, of the step's work: how much slower it is for other engines, time lost to them,
# up to when
G_OTHERS, G_LOST, G_LOST_TO = range(21, 24)
NGF = 24

# E_STEPPING: no step, a step (on a shared card its GPU part), its host part before that
AT_REST, AT_WORK, IN_HOST = range(3)

# --- codec workers ----------------------------------------------------------------------------
W_ROWS = 0
NWI = 1
V_END, V_REM, V_SINCE, V_SLOW, V_START, V_OTHERS, V_LOST, V_LOST_TO = range(8)
NVF = 8

# --- tape and results: one row per utterance --------------------------------------------------
U_TOKENS, U_PROMPT, U_SESSION, U_HIT, U_ENDS, U_ROW = range(6)
NUI = 6
Y_THINK, Y_PATIENCE, Y_ENCODE = range(3)
NUF = 3
(
    R_SLOT, R_OUTCOME, R_CHUNKS, R_STALLS, R_AUDIBLE, R_PREEMPTS, R_ATTEMPTS, R_ENGINE,
    R_RUNG, R_FILLED, R_GENERATED,
) = range(11)  # fmt: skip
NRI = 11
(
    Z_REQUEST, Z_ADMIT, Z_START, Z_DONE, Z_PLAY_END, Z_STALL, Z_STALL_MAX, Z_A, Z_C, Z_PACE, Z_LOST
) = range(11)  # fmt: skip
NRF = 11

# outcomes of an utterance; cut: the call was ended under way; stood in: text or a filler instead
PENDING, COMPLETED, REFUSED, ABANDONED, FAILED_OUTCOME, CUT, STOOD_IN = range(7)
OUTCOMES = ("live", "completed", "refused", "abandoned", "failed", "cut", "stood_in")

# --- calls that stay with a replica: where it lives (-1: nowhere), its utterance now or next ----
N_HOME = 2

# --- rungs of all pools: a row each (engine/spec.py, Rung) --------------------------------------
Q_SCHEDULE, Q_CHUNKS, Q_PROMPT, Q_THEN, Q_TO = range(5)
NQI = 5
Q_SPEECH, Q_CODEC, Q_FILLER = range(3)
NQF = 3

# --- outbox: what left a stage in the event at hand (utterance, tokens, 1: the last) -----------
M_UTT, M_TOKENS, M_LAST = range(3)
NMI = 3

# --- chunk log --------------------------------------------------------------------------------
L_UTT, L_INDEX, L_ENGINE, L_ROWS = range(4)
NLI = 4
M_READY, M_SENT, M_ARRIVE, M_AUDIO = range(4)
NLF = 4

# --- time series: one row per bin -------------------------------------------------------------
(
    B_CALLS, B_REFUSED, B_ABANDONED, B_STALLS, B_LIVE, B_RUNNING, B_WAITING, B_WAITING_MAX,
    B_QUEUED, B_GATEWAY, B_DEGRADED,
) = range(11)  # fmt: skip
NBI = 11

# --- ratio histograms: fine, gap before a chunk / its audio (1 / pace); coarse and by time bin,
#     gap before a chunk / audio of the chunk before it (beyond 1 the buffer drains) -------------
FINE_PER_OCTAVE = 128
COARSE_PER_OCTAVE = 16
OCTAVES = 24
LOWEST_EXPONENT = -12
N_FINE = OCTAVES * FINE_PER_OCTAVE
N_COARSE = OCTAVES * COARSE_PER_OCTAVE

# event kinds, in the order in which ties are broken
CODEC_END, STEP_END, GATHER_END, TIMER, ARRIVAL, KICK = range(6)
# timer kinds (payload = kind << 40 | utterance; of T_IDLE the stream's row)
T_START, T_RETRY, T_DEADLINE, T_PATIENCE, T_IDLE, T_DROP, T_FILLER = range(7)

# what a call of the kernel returns
REACHED, DECIDE, GROW, STUCK = range(4)

# purposes of the counter hash
P_STEP_NOISE, P_NETWORK, P_RETRY, P_ROUTE, P_LEFT_OPEN, P_POOL = 101, 102, 103, 104, 105, 106
P_HOST_NOISE = 120
P_RECONNECT, P_AFFINITY = 110, 111
P_COLD_START = 121


def quantile_edges(per_octave: int) -> np.ndarray:
    """float64[n + 1]: the ratios at which the histogram's buckets begin (and the last ends)."""
    i = np.arange(OCTAVES * per_octave + 1)
    exponent = i // per_octave + LOWEST_EXPONENT
    return np.ldexp(0.5 + (i % per_octave) / (2.0 * per_octave), exponent)
