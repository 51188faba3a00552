"""The event loop of the pool: the only door between Python and the compiled model.

Arenas come in by address (Pool.arenas); within the model F and I are pointers to them.
"""

from voicesim.engine.kernel.batch import host_end, idle_timeout, kick, step_end
from voicesim.engine.kernel.codec import codec_end, dispatch
from voicesim.engine.kernel.faults import dropped
from voicesim.engine.kernel.jit import compiled, float_pointer, int_pointer
from voicesim.engine.kernel.lists import pop_timer
from voicesim.engine.kernel.session import (
    apply_decision,
    bin_at,
    can_fit,
    change_open,
    cut,
    deadline_passes,
    decide,
    fail,
    filler_plays,
    lives_on,
    move_up,
    patience_ends,
    replica_has_slack,
    start_utterance,
    touch,
)
from voicesim.engine.layout import *
from voicesim.engine.spec import MOST_AT_ONCE
from voicesim.engine.trace import MOST_EVENTS

NEVER = 1e301
ROOM_CHECK = 8
"""Events between two looks at the room left in the arenas (a power of two)."""


@compiled
def engine_event(F, I, g, t):
    kind = I[I[O_TREE] + 1 + g]
    if kind == STEP_END and I[I[O_ENGINE] + g * NEI + E_STEPPING] == IN_HOST:
        host_end(F, I, g, t)
    elif kind == STEP_END:
        step_end(F, I, g, t)
    elif kind == CODEC_END:
        codec_end(F, I, g, t)
    elif kind == GATHER_END:
        F[I[OF_ENGINE] + g * NGF + G_GATHER] = NEVER
        dispatch(F, I, g, t, True)
    else:
        kick(F, I, g, t)
    touch(F, I, g)


@compiled
def sample(F, I):
    """Gauges at a bin's edge: live, running, waiting, codec queue, gateway queue."""
    b = I[O_SERIES] + I[H_BIN] * NBI
    live = 0
    running = 0
    waiting = 0
    most = 0
    queued = 0
    for g in range(I[H_ENGINES]):
        e = I[O_ENGINE] + g * NEI
        live += I[I[O_LIVE] + g]
        running += I[e + E_RUNNING]
        waiting += I[e + E_WAITING]
        queued += I[e + E_QUEUED]
        if I[e + E_WAITING] > most:
            most = I[e + E_WAITING]
    I[b + B_LIVE] = live
    I[b + B_RUNNING] = running
    I[b + B_WAITING] = waiting
    I[b + B_WAITING_MAX] = most
    I[b + B_QUEUED] = queued
    I[b + B_GATEWAY] = I[H_GQ]


@compiled
def request(F, I, s, t):
    """Ask for admission; True when Python has to answer."""
    I[H_AT_ONCE] = I[H_AT_ONCE] + 1 if t == F[K_ASKED_AT] else 1
    F[K_ASKED_AT] = t
    if not can_fit(I, s):
        fail(F, I, s, t)
        return False
    if I[H_PYTHON] != 0:
        I[H_DECISION] = s
        return True
    action, g = decide(F, I, s, t)
    apply_decision(F, I, s, t, action, g)
    return False


@compiled
def timer_event(F, I, t):
    """The first timer of the heap; True when Python has to answer."""
    key = I[I[O_HEAP_ID]]
    pop_timer(F, I)
    kind = key >> 40
    u = key & ((1 << 40) - 1)
    if kind == T_IDLE:
        idle_timeout(F, I, u, t)  # u is the stream's row
        return False
    if kind == T_START:
        if I[I[O_RES] + u * NRI + R_OUTCOME] == CUT:  # the call has ended
            return False
        if I[H_CLOSED] != 0:
            I[bin_at(F, I, t) + B_CALLS] += 1
        return request(F, I, start_utterance(F, I, u, t), t)
    if kind == T_RETRY:
        s = I[I[O_RES] + u * NRI + R_SLOT]
        return s >= 0 and request(F, I, s, t)
    if kind == T_FILLER:
        filler_plays(F, I, u, t)
    elif kind == T_DEADLINE:
        deadline_passes(F, I, u, t)
    elif kind == T_DROP:
        dropped(F, I, u, t)
    else:
        patience_ends(F, I, u, t)
    return False


@compiled
def room(F, I):
    """False when an arena must grow before the next ROOM_CHECK events may be played."""
    margin = I[H_ROOM]
    if I[H_FREE_SLOTS] < margin or I[H_HEAP] + margin > I[C_HEAP]:
        return False
    if I[H_CHUNKLOG] != 0 and I[H_NCHUNKS] + margin > I[C_CHUNKS]:
        return False
    logs = I[H_BLAME] != 0 and I[H_MESSAGES] == 0  # a stage's stalls are the dialogue's
    if logs and I[H_NSTALLS] + margin > I[C_STALLS]:
        return False
    if I[H_TRACE] != 0 and I[H_NTRACE] < MOST_EVENTS and I[H_NTRACE] + 4 * margin > I[C_TRACE]:
        return False
    ahead = ROOM_CHECK * I[H_CLOSED]  # callers: each may take the next utterance in an event
    return ahead == 0 or I[H_NEXT_UTT] + ahead <= I[H_UTTERANCES]


@compiled
def set_open(floats, ints, g, is_open):
    """Let replica g take new streams, or not; reopened, it takes from the gateway's queue."""
    F = float_pointer(floats)
    I = int_pointer(ints)
    if is_open == 0 or I[I[O_ENGINE] + g * NEI + E_UP] != 0:
        change_open(F, I, g, is_open)
    move_up(F, I, g, F[K_NOW])


@compiled
def cut_calls(floats, ints, g):
    """End the calls of replica g, in order of their utterances; how many."""
    F = float_pointer(floats)
    I = int_pointer(ints)
    found = 0
    for u in range(I[H_GONE], I[H_UTTERANCES]):
        if lives_on(I, u, g):
            cut(F, I, u, g, F[K_NOW])
            found += 1
    return found


@compiled
def has_slack(floats, ints, g):
    """Does replica g have room for the stream that asks, by the slack policy's rule?"""
    F = float_pointer(floats)
    I = int_pointer(ints)
    return replica_has_slack(F, I, I[H_DECISION], g, F[K_NOW])


@compiled
def run(floats, ints, until, action, replica):
    """Play every event up to and including time ``until``.

    floats, ints: addresses of the arenas (the caller keeps them alive).

    action, replica: the answer to the decision that the last call returned for.  Returns
    REACHED (nothing left up to until), DECIDE (I[H_DECISION] is the stream that asks for
    admission at F[K_NOW]), GROW (an arena is nearly full) or STUCK (time stands still).
    """
    F = float_pointer(floats)
    I = int_pointer(ints)
    if I[H_DECISION] >= 0:
        s = I[H_DECISION]
        I[H_DECISION] = -1
        I[I[O_STREAM] + s * NSI + S_HOME] = I[I[O_ENGINE] + replica * NEI + E_POOL]
        apply_decision(F, I, s, F[K_NOW], action, replica)
    on = I[O_TREE]
    root = on + 1 + I[on] + 1
    ot = I[OF_TREE]
    oh = I[OF_HEAP_T]
    oa = I[OF_ARRIVAL]
    while True:
        if I[H_EVENTS] & (ROOM_CHECK - 1) == 0:
            if I[H_AT_ONCE] > MOST_AT_ONCE:
                return STUCK
            if not room(F, I):
                return GROW
        g = I[root]
        t = F[ot + g]
        kind = I[on + 1 + g]
        if I[H_HEAP] > 0:
            th = F[oh]
            if th < t or (th == t and kind > TIMER):
                t = th
                kind = TIMER
        if I[H_NEXT_SESSION] < I[H_SESSIONS]:
            ta = F[oa + I[H_NEXT_SESSION]]
            if ta < t or (ta == t and kind > ARRIVAL):
                t = ta
                kind = ARRIVAL
        stop = t if t < until else until
        while F[K_NEXT_SAMPLE] <= stop and I[H_BIN] < I[H_BINS]:
            sample(F, I)
            I[H_BIN] += 1
            F[K_NEXT_SAMPLE] = I[H_BIN] * F[K_RESOLUTION]
        if t > until or t >= NEVER:
            F[K_NOW] = until if until < NEVER else F[K_NOW]
            return REACHED
        F[K_NOW] = t
        I[H_EVENTS] += 1
        asks = False
        if kind == TIMER:
            asks = timer_event(F, I, t)
        elif kind == ARRIVAL:
            n = I[H_NEXT_SESSION]
            I[H_NEXT_SESSION] = n + 1
            I[H_LIVE_CALLS] += 1
            I[bin_at(F, I, t) + B_CALLS] += 1
            u = I[I[O_SESSION] + n]
            asks = request(F, I, start_utterance(F, I, u, t), t)
        else:
            engine_event(F, I, g, t)
        if asks:
            return DECIDE
