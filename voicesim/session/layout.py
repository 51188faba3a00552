"""Where everything of a run of dialogues lies in the kernel's arenas, J (int64) and E (float64).

Each begins with a header; the int header holds the offsets of the sections.  A call, a turn, an
answer and a unit of speech are rows; what the tape brings comes first in a row, state after it.
"""

from voicesim.session.record import NAF, NAI, ND, NKF, NKI, NQF, NQI

MOST_POOLS = 16

# --- int header -------------------------------------------------------------------------------
(
    J_POOLS, J_LLM, J_TTS, J_OMNI, J_ASR, J_SEED, J_LIMIT, J_CANCEL, J_FLUSH, J_PREFETCH,
    J_FILLER_CUT, J_WAIT_ALL, J_BINS, J_CALLS, J_LOG,
    # state
    J_NEXT_CALL, J_LIVE, J_SPEAKING, J_ANSWERING, J_HEAP, J_BIN, J_EVENTS, J_GROW, J_CHUNKS,
    # offsets and capacity
    O_CALL, O_TURN, O_ANSWER, O_UNIT, O_TIMERS, O_SERIES, O_ANSWER_I, O_CALL_I, O_HIST, O_GAPS,
    O_CHUNK, C_HEAP, C_CHUNKS,
    OF_TURN, OF_ANSWER, OF_UNIT, OF_TIMERS, OF_JITTER, OF_ARRIVAL, OF_ANSWER_F,
    OF_CALL_F, OF_CHUNK,
) = range(46)  # fmt: skip
# blame (session/blame.py): is it on, stalls logged, their capacity, sections
J_BLAME, J_UNITS, J_STALLS, C_STALLS, O_STALLS, OF_STALLS, OF_SOURCE, OF_WHY = range(46, 54)
# addresses of the pools' arenas, two words each; the recogniser's last
J_ARENAS = 56
N_J = J_ARENAS + 2 * (MOST_POOLS + 1)

# --- float header -----------------------------------------------------------------------------
(
    E_NOW, E_CAPTURE, E_DELAY, E_PREBUFFER, E_REBUFFER, E_MAX_WAIT,
    E_MAX_QUEUE, E_AUDIBLE, E_DETECT, E_RESUME, E_AHEAD, E_FILLER_AFTER, E_FILLER_AUDIO,
    E_CONNECT_LLM, E_CONNECT_TTS, E_CLIENT_AUDIO, E_CLIENT_CHUNK, E_OMNI_TIMEOUT, E_RESOLUTION,
    E_NEXT_SAMPLE, E_FIRST_STALL, E_WARMUP,
) = range(22)  # fmt: skip
N_E = 22

# --- rows -------------------------------------------------------------------------------------
C_FIRST, C_LAST, C_OVER, C_TURN, C_ANSWER, C_DRAINING, C_SPEAKS = range(7)
NC = 7
T_CALL, T_ANSWER, T_CUT = range(3)
NT = 3
(
    V_THINK, V_SPEECH, V_ENDPOINT, V_CUT_AT, V_CUT_PAUSE, V_CUT_ENDPOINT, V_PATIENCE, V_BARGE,
    V_FALSE, V_UP,
) = range(10)  # fmt: skip
NV = 10
(
    N_TURN, N_HALF, N_LLM, N_TTS, N_OMNI, N_UNIT, N_UNITS,
    N_READY, N_ASKED, N_SENDING, N_MODE, N_CANCELLED, N_GATE, N_MADE, N_COUNTED, N_DRAINING,
) = range(16)  # fmt: skip
NN = 16
(
    Y_PLAY_END, Y_HELD, Y_SINCE, Y_LAST, Y_CLIENT, Y_FILLER, Y_STOP, Y_READY, Y_AUDIO,
) = range(9)  # fmt: skip
NY = 9
W_ANSWER, W_CACHED, W_TOKENS, W_HELD, W_DONE = range(5)
NW = 5
Z_END = 0
NZ = 1

ANSWER_I, ANSWER_F, CALL_I, CALL_F, SERIES, CHUNK_I, CHUNK_F = NAI, NAF, NQI, NQF, ND, NKI, NKF

# --- timers, in the order in which ties are broken, then by number ------------------------------
(
    D_SPEAK, D_CUT, D_RESUME, D_DECIDE, D_LLM, D_GATE, D_TTS, D_FILLER, D_STOP, D_PATIENCE,
    D_FALLBACK, D_END,
) = range(12)  # fmt: skip

# purposes of the counter hash
P_DOWN, P_UP = 110, 111

# what a call of the kernel returns; GROW: J_GROW says whose arena, the number of pools is its own
REACHED, GROW = 0, 2
