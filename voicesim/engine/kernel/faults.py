"""Faults: a replica that crashes, falls silent or slows down, and what its callers do then.

A halted replica forgets everything: its streams are set aside, what it was to do does not happen,
its KV cache is empty.  What it has sent is on its way and arrives.
"""

from voicesim.engine.kernel.codec import reshare
from voicesim.engine.kernel.jit import compiled, float_pointer, int_pointer
from voicesim.engine.kernel.lists import append, remove
from voicesim.engine.kernel.session import (
    asks_again,
    change_open,
    drop_later,
    end_call,
    fresh_row,
    goes_on,
    maybe_free,
    move_up,
    next_utterance,
    touch,
    uniform,
    write_result,
)
from voicesim.engine.layout import *

NEVER = 1e301
ASIDE = -2
"""S_BUCKET of a stream that was set aside already: it may be at the decoder and at the codec."""


@compiled
def crash(floats, ints, g):
    """Replica g is gone, and every stream there is lost; 0 if it was not there."""
    F = float_pointer(floats)
    I = int_pointer(ints)
    e = I[O_ENGINE] + g * NEI
    if I[e + E_UP] == 0:
        return 0
    change_open(F, I, g, 0)
    I[e + E_UP] = 0
    I[e + E_GRAY] = 0
    I[e + E_GAUGE] = 0
    lose_all(F, I, g)
    return 1


@compiled
def restore(floats, ints, g):
    """Replica g starts anew, open; one that was silent loses the streams that it holds."""
    F = float_pointer(floats)
    I = int_pointer(ints)
    e = I[O_ENGINE] + g * NEI
    F[I[OF_ENGINE] + g * NGF + G_FACTOR] = 1.0
    if I[e + E_GRAY] != 0:
        I[e + E_GRAY] = 0
        I[e + E_GAUGE] = 0
        I[e + E_UP] = 0
        change_open(F, I, g, 0)
        lose_all(F, I, g)
    I[e + E_UP] = 1
    change_open(F, I, g, 1)
    move_up(F, I, g, F[K_NOW])


@compiled
def set_slow(floats, ints, g, factor):
    """Steps and codec calls of replica g that begin from now on take ``factor`` times as long."""
    F = float_pointer(floats)
    I = int_pointer(ints)
    F[I[OF_ENGINE] + g * NGF + G_FACTOR] = factor


@compiled
def set_gray(floats, ints, g, drop_after):
    """Replica g takes streams and does nothing with them; those there now hang too.

    Each is dropped ``drop_after`` seconds later (NEVER: its caller hangs up, or waits).
    """
    F = float_pointer(floats)
    I = int_pointer(ints)
    e = I[O_ENGINE] + g * NEI
    if I[e + E_UP] == 0:
        return
    t = F[K_NOW]
    I[e + E_GRAY] = 1
    F[I[OF_ENGINE] + g * NGF + G_DROP] = drop_after
    halt(F, I, g)
    s = I[e + E_WAIT_HEAD]
    gone = -1  # streams that nobody waits for: linked by S_QNEXT, the first of them first
    last = -1
    while s >= 0:
        o = I[O_STREAM] + s * NSI
        after = I[o + S_NEXT]
        if not is_done(I, o):
            drop_later(F, I, s, g, t)
        else:
            remove(I, e + E_WAIT_HEAD, e + E_WAIT_TAIL, S_NEXT, S_PREV, s)
            I[e + E_WAITING] -= 1
            I[o + S_QNEXT] = -1
            if last < 0:
                gone = s
            else:
                I[I[O_STREAM] + last * NSI + S_QNEXT] = s
            last = s
        s = after
    while gone >= 0:
        after = I[I[O_STREAM] + gone * NSI + S_QNEXT]
        maybe_free(F, I, gone, t)
        gone = after


@compiled
def refresh_readings(floats, ints):
    """The router learns how many streams each replica has now."""
    I = int_pointer(ints)
    for g in range(I[H_ENGINES]):
        I[I[O_SEEN] + g] = I[I[O_LIVE] + g]


# --- a halted replica ---------------------------------------------------------------------------


@compiled
def halt(F, I, g):
    """Replica g stops and forgets; its streams are in its waiting list: those that waited, the
    batch, those at the codec."""
    e = I[O_ENGINE] + g * NEI
    c = I[e + E_CLASS]
    x = I[OF_ENGINE] + g * NGF
    o0 = I[O_STREAM]
    s = I[e + E_WAIT_HEAD]
    while s >= 0:
        I[o0 + s * NSI + S_BUCKET] = ASIDE
        s = I[o0 + s * NSI + S_NEXT]
    s = I[e + E_RUN_HEAD]
    while s >= 0:
        after = I[o0 + s * NSI + S_NEXT]
        stop_decoding(I, e, s)
        set_aside(I, e, s)
        s = after
    s = I[e + E_Q_HEAD]
    while s >= 0:
        after = I[o0 + s * NSI + S_QNEXT]
        set_aside(I, e, s)
        s = after
    for w in range(g * I[H_WORKERS], (g + 1) * I[H_WORKERS]):
        for i in range(w * I[H_CAP], w * I[H_CAP] + I[I[O_WORKER] + w * NWI + W_ROWS]):
            set_aside(I, e, I[I[O_ROWS] + i])
        I[I[O_WORKER] + w * NWI + W_ROWS] = 0
    s = I[e + E_WAIT_HEAD]
    while s >= 0:
        forget(I, o0 + s * NSI)
        s = I[o0 + s * NSI + S_NEXT]
    for column in (
        E_RUNNING, E_DECODING, E_CONTEXT, E_STEPPING, E_KICK, E_CHUNKS, E_ABORTS, E_QUEUED, E_BUSY,
        E_ACTIVE, E_CACHED, E_REFS, E_PAUSED, E_FULL, E_SINCE, E_RAMP, E_HELD,
    ):  # fmt: skip
        I[e + column] = 0
    for column in (E_RUN_HEAD, E_RUN_TAIL, E_Q_HEAD, E_Q_TAIL, E_PARTIAL, E_FIRST_PREFILL):
        I[e + column] = -1
    I[e + E_FREE] = I[c + H_BLOCKS]
    for i in range(g * I[H_RING], (g + 1) * I[H_RING]):
        I[I[O_RINGS] + i] = -1
    for i in range(g * I[H_NEEDS], (g + 1) * I[H_NEEDS]):
        I[I[O_NEED] + i] = 0
    F[x + G_GATHER] = NEVER
    F[x + G_LAG] = 0.0
    F[x + G_BOUNDARY] = 0.0
    F[x + G_STRETCH] = 1.0
    F[x + G_RATIO] = F[I[e + E_COST] + K_RATIO]
    I[H_HALTS] += 1
    I[e + E_EPOCH] = I[H_HALTS]
    reshare(F, I, g, F[K_NOW])  # the others on a shared card go on without it
    touch(F, I, g)


@compiled
def stop_decoding(I, e, s):
    """A stream leaves the batch; what it has generated is written down."""
    o = I[O_STREAM] + s * NSI
    if I[o + S_STATE] == DECODING or I[o + S_STATE] == ZOMBIE:
        I[o + S_GEN] = I[e + E_STEP] - I[o + S_OFF]
    if I[o + S_ABORT] != 0 and I[o + S_STATE] != ZOMBIE:
        I[H_DISCARDED] += I[o + S_GEN]  # of others cancelled it is counted


@compiled
def set_aside(I, e, s):
    o = I[O_STREAM] + s * NSI
    if I[o + S_BUCKET] != ASIDE:
        I[o + S_BUCKET] = ASIDE
        append(I, e + E_WAIT_HEAD, e + E_WAIT_TAIL, S_NEXT, S_PREV, s)
        I[e + E_WAITING] += 1


@compiled
def forget(I, o):
    """What the replica knew of the stream in row o."""
    I[o + S_STATE] = WAITING
    for column in (S_COMPUTED, S_PLANNED, S_SHARED, S_KEPT, S_INQ, S_ACTIVE):
        I[o + column] = 0
    I[o + S_BUCKET] = -1


@compiled
def lose_all(F, I, g):
    """Replica g, closed, stops; whoever it served is lost."""
    e = I[O_ENGINE] + g * NEI
    halt(F, I, g)
    s = I[e + E_WAIT_HEAD]
    I[e + E_WAIT_HEAD] = -1
    I[e + E_WAIT_TAIL] = -1
    I[e + E_WAITING] = 0
    while s >= 0:
        after = I[I[O_STREAM] + s * NSI + S_NEXT]
        lose(F, I, s, F[K_NOW])
        s = after


@compiled
def dropped(F, I, u, t):
    """A silent replica lets go of the stream."""
    s = I[I[O_RES] + u * NRI + R_SLOT]
    if s < 0:
        return
    o = I[O_STREAM] + s * NSI
    e = I[O_ENGINE] + I[o + S_ENGINE] * NEI
    if I[o + S_STATE] != WAITING or F[I[OF_STREAM] + s * NSF + X_DEADLINE] != t:
        return
    if I[e + E_GRAY] == 0:
        return
    remove(I, e + E_WAIT_HEAD, e + E_WAIT_TAIL, S_NEXT, S_PREV, s)
    I[e + E_WAITING] -= 1
    lose(F, I, s, t)


# --- a lost stream ------------------------------------------------------------------------------


@compiled
def is_done(I, o):
    """Nobody waits for the stream in row o: its caller has left, or has it all (its end is seen a
    step late)."""
    return I[o + S_ABORT] != 0 or I[o + S_SENT_TOK] == I[o + S_TOKENS]


@compiled
def lose(F, I, s, t):
    """Stream s, set aside, is lost at t.  Before any of its audio was sent its caller may ask
    again, as the refused do; after that never: the utterance has failed."""
    o = I[O_STREAM] + s * NSI
    u = I[o + S_UTT]
    if is_done(I, o):
        maybe_free(F, I, s, t)
        return
    I[H_LOST] += 1
    I[I[O_ENGINE] + I[o + S_ENGINE] * NEI + E_LOST] += 1
    I[H_DISCARDED] += I[o + S_GEN] if I[o + S_GEN] < I[o + S_TOKENS] else I[o + S_TOKENS]
    attempt = I[o + S_ATTEMPTS]
    if I[o + S_SENT] > 0:
        I[H_CUT] += 1
    else:
        I[o + S_ATTEMPTS] = attempt + 1
        if asks_again(F, I, u, attempt, t):
            begin_again(F, I, s, t)
            return
    write_result(F, I, s, FAILED_OUTCOME, t)
    after_loss(F, I, u, t)
    maybe_free(F, I, s, t)


@compiled
def begin_again(F, I, s, t):
    """The stream that asks again is a new one of the same utterance."""
    o = I[O_STREAM] + s * NSI
    u = I[o + S_UTT]
    attempts = I[o + S_ATTEMPTS]
    preempted = I[o + S_PREEMPTS]
    requested = F[I[OF_STREAM] + s * NSF + X_REQUEST]
    patient = F[I[OF_STREAM] + s * NSF + X_PATIENT]
    filled = I[o + S_FILLED]
    maybe_free(F, I, s, t)
    I[I[O_RES] + u * NRI + R_GENERATED] = 0
    again = fresh_row(F, I, u, requested)
    o = I[O_STREAM] + again * NSI
    F[I[OF_STREAM] + again * NSF + X_PATIENT] = patient
    I[o + S_FILLED] = filled
    I[o + S_ATTEMPTS] = attempts
    I[o + S_PREEMPTS] = preempted
    I[o + S_STATE] = BACKING_OFF


@compiled
def after_loss(F, I, u, t):
    """A caller whose utterance u has failed hangs up, or calls again for the next one."""
    if I[H_RECONNECT] != 0:
        goes_on(F, I, u, t + F[K_WITHIN] * uniform(I, P_RECONNECT, u, 0))
    elif I[H_CLOSED] != 0:
        next_utterance(F, I, u, t)
    else:
        end_call(I, u)
