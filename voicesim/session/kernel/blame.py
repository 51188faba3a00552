"""Why an answer stalled (rows: session/blame.py).  Called only where J_BLAME is set."""

from voicesim.engine import blame as rules
from voicesim.engine.blame import (
    C_STEP,
    C_STEPS,
    C_TIME,
    C_TOKENS,
    CLIENT,
    L_BEGAN,
    L_CAUSE,
    L_CHUNK,
    L_ENGINE,
    L_LENGTH,
    L_LONGEST_AT,
    L_POOL,
    L_SHARES,
    L_SINCE,
    L_UNIT,
    L_WHO,
    N_CHARGED,
    N_HANDED,
    N_STALL_F,
    N_STALL_I,
    N_STATE,
    NEB,
    NETWORK,
    PACING,
    SCHEDULE,
    TEXT,
)
from voicesim.engine.kernel.blame import evidence, split
from voicesim.engine.kernel.jit import adopt, compiled
from voicesim.engine.layout import OF_OUTBOX, OF_SUMS
from voicesim.listener.player import PLAYING
from voicesim.session.blame import *
from voicesim.session.kernel.state import floats_of, ints_of
from voicesim.session.layout import *

usual = adopt(rules.usual)


@compiled
def source(J, n):
    return J[OF_SOURCE] + n * N_SOURCE


@compiled
def source_of_omni(J, r):
    """The answer's one stream of the speech-to-speech engine is a source behind the units."""
    return J[OF_SOURCE] + (J[J_UNITS] + r) * N_SOURCE


@compiled
def handed(E, J, pool, w, i, t):
    """Chunk i of the outbox of ``pool`` belongs to the source at E[w:]."""
    F = floats_of(J, pool)
    m = ints_of(J, pool)[OF_OUTBOX] + i * N_HANDED
    for c in range(N_HANDED):
        E[w + HANDED + c] = F[m + c]
    E[w + HANDED + N_STATE] += pool * MOST_ENGINES + 1
    E[w + W_AT] = t
    if E[w + W_BEGUN] == 0.0:
        E[w + W_BEGUN] = 1.0
        E[w + W_FIRST] = t


@compiled
def add_up(E, y, w):
    """What the source has waited for since it was last counted is the answer's too."""
    for c in range(N_STATE):
        if c < N_CHARGED or c == C_TOKENS or c == C_STEPS:
            E[y + SUM + c] += E[w + HANDED + c] - E[w + COUNTED + c]


@compiled
def take_base(E, y, margin):
    E[y + MARGIN] = margin
    E[y + REST] = SCHEDULE
    E[y + BASE_PLACE] = E[y + PLACE]
    for c in range(N_STATE):
        E[y + BASE + c] = E[y + SUM + c]


@compiled
def waited_for(E, J, r, w, follows, t):
    """Speech of the source at E[w:] leaves at t; follows: it is not the answer's first unit."""
    y = J[OF_WHY] + r * N_WHY
    cached = E[w + W_BEGUN] == 0.0
    critical = (E[w + W_ASKED] if cached else E[w + W_AT]) == t
    E[y + WHOLE] = 0.0
    if E[w + W_SENT] == 0.0:
        E[w + W_SENT] = 1.0
        if critical and follows:
            since = E[y + SINCE]
            if E[w + W_GATED] != 0.0 and E[w + W_ASKED] >= since:
                take_base(E, y, 0.0)
                E[y + REST] = PACING
                E[y + BASE + C_TIME] = E[w + W_ASKED]
            elif E[w + W_TEXT] > since:
                E[y + SUM + TEXT] += E[w + W_TEXT] - since
        if J[J_WAIT_ALL] != 0 and not cached:
            begun = E[w + W_FIRST]
            if follows and E[y + SINCE] > begun:
                begun = E[y + SINCE]
            E[y + WHOLE] = t - begun
        if critical:
            add_up(E, y, w)
    elif critical:
        add_up(E, y, w)
    if cached:
        return
    for c in range(N_STATE):
        E[w + COUNTED + c] = E[w + HANDED + c]
        if c >= N_CHARGED and c != C_TOKENS and c != C_STEPS:
            E[y + SUM + c] = E[w + HANDED + c]
    E[y + PLACE] = E[w + HANDED + N_STATE]


@compiled
def listened(E, J, r, unit, index, mode, late, ready, held_up, lead, stall, started):
    """Chunk ``index`` comes out of the client's code at ``ready``, ``lead`` seconds before the
    buffer was empty; it ended a stall (s, or 0) or began the playback (``started`` >= 0).

    late: seconds that the network took beyond the usual; held_up: seconds in the client.
    """
    y = J[OF_WHY] + r * N_WHY
    E[y + SUM + NETWORK] = late
    E[y + SUM + CLIENT] = held_up + E[y + WHOLE]
    if stall > E[E_AUDIBLE]:
        log_stall(E, J, r, unit, index, ready, stall)
    if index == 0 or stall > 0.0 or started >= 0.0:
        take_base(E, y, 0.0)
    elif mode == PLAYING and lead >= E[y + MARGIN]:
        take_base(E, y, lead)


@compiled
def log_stall(E, J, r, unit, index, ready, stall):
    y = J[OF_WHY] + r * N_WHY
    for c in range(N_CHARGED):
        E[y + PARTS + c] = E[y + SUM + c] - E[y + BASE + c]
        E[y + PARTS + N_CHARGED + c] = 0.0
    n = J[J_STALLS]
    J[J_STALLS] = n + 1
    a = J[O_STALLS] + n * N_STALL_I
    f = J[OF_STALLS] + n * N_STALL_F
    J[a + L_WHO] = r
    J[a + L_CHUNK] = index
    J[a + L_UNIT] = unit
    place = int(E[y + PLACE]) - 1
    if place < 0:  # phrases from the cache alone
        for c in range(L_POOL, N_STALL_I):
            J[a + c] = -1 if c <= L_ENGINE else 0
        E[f + L_SINCE] = E[y + BASE + C_TIME]
        E[f + L_LONGEST_AT] = -1.0
    else:
        made_by(E, J, y, place, f, a)
    E[f + L_BEGAN] = ready - stall
    E[f + L_LENGTH] = stall
    J[a + L_CAUSE] = split(
        E, y + PARTS, E, f + L_SHARES, stall, stall + E[y + MARGIN], int(E[y + REST])
    )


@compiled
def made_by(E, J, y, place, f, a):
    """The engine that made the late chunk: what is usual there, and what it did."""
    pool = place // MOST_ENGINES
    g = place - pool * MOST_ENGINES
    F = floats_of(J, pool)
    I = ints_of(J, pool)
    J[a + L_POOL] = pool
    J[a + L_ENGINE] = g
    same = E[y + BASE_PLACE] == E[y + PLACE]
    step = int(E[y + BASE + C_STEP] if same else E[y + SUM + C_STEP])
    evidence(F, I, g, step, E, y + BASE, y + SUM, f, J, a)
    steps = E[y + SUM + C_STEPS] - E[y + BASE + C_STEPS]
    usual(F, I[OF_SUMS] + g * NEB, steps, E, y + PARTS + N_CHARGED)
