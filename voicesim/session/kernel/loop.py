"""The event loop over all stages of a dialogue: the door between Python and the compiled model."""

from voicesim.engine.kernel.jit import compiled, float_pointer, int_pointer
from voicesim.engine.kernel.lists import pop
from voicesim.engine.kernel.loop import engine_event, room, sample
from voicesim.engine.kernel.loop import timer_event as pool_timer
from voicesim.engine.layout import (
    ARRIVAL,
    H_BIN,
    H_EVENTS,
    H_HEAP,
    H_OUTBOX,
    K_NEXT_SAMPLE,
    K_NOW,
    K_RESOLUTION,
    M_LAST,
    M_TOKENS,
    M_UTT,
    NMI,
    O_OUTBOX,
    O_TREE,
    OF_HEAP_T,
    OF_TREE,
    TIMER,
)
from voicesim.engine.spec import NEVER
from voicesim.session.kernel.blame import handed, source, source_of_omni
from voicesim.session.kernel.recogniser import next_recognition, recognise, take_text
from voicesim.session.kernel.state import *
from voicesim.session.kernel.turn import (
    call_arrives,
    chunk_of_omni,
    chunk_of_speech,
    text_there,
    timer_event,
    unit_of_text,
)
from voicesim.session.layout import *
from voicesim.session.record import *

ROOM_CHECK = 8
"""Events between two looks at the room left in the arenas (a power of two)."""
AT_ONCE = 2048
"""Timers that an event may set, and chunks that may leave in it, at most."""


@compiled
def take_outbox(E, J, pool, t):
    """What left a stage in the event at hand reaches the dialogue, in order."""
    I = ints_of(J, pool)
    count = I[H_OUTBOX]
    for i in range(count):
        m = I[O_OUTBOX] + i * NMI
        u = I[m + M_UTT]
        last = I[m + M_LAST] != 0
        if J[J_BLAME] != 0 and pool >= J[J_LLM]:
            omni = pool == J[J_OMNI]
            handed(E, J, pool, source_of_omni(J, u) if omni else source(J, u), i, t)
        if pool < J[J_LLM]:
            unit_of_text(E, J, u, last, t)
        elif pool < J[J_LLM] + J[J_TTS]:
            chunk_of_speech(E, J, u, I[m + M_TOKENS], last, t)
        else:
            chunk_of_omni(E, J, u, I[m + M_TOKENS], last, t)
    I[H_OUTBOX] = 0


@compiled
def take_texts(E, J, t):
    """Texts that became final in the event at hand, in order."""
    r = take_text(J)
    while r >= 0:
        text_there(E, J, r, t)
        r = take_text(J)


@compiled
def short_of_room(J):
    """Number of the pool whose arena must grow (J_POOLS: the dialogue's own), or -1."""
    for p in range(J[J_POOLS]):
        if not room(floats_of(J, p), ints_of(J, p)):
            return p
    ahead = ROOM_CHECK * AT_ONCE
    if J[J_BLAME] != 0 and J[J_STALLS] + ahead > J[C_STALLS]:
        return J[J_POOLS]
    if J[J_HEAP] + ahead > J[C_HEAP] or (J[J_LOG] != 0 and J[J_CHUNKS] + ahead > J[C_CHUNKS]):
        return J[J_POOLS]
    return -1


@compiled
def sample_all(E, J):
    """Gauges of all stages at the edge of a bin."""
    b = J[O_SERIES] + J[J_BIN] * SERIES
    J[b + D_LIVE] = J[J_LIVE]
    J[b + D_SPEAKING] = J[J_SPEAKING]
    J[b + D_ANSWERING] = J[J_ANSWERING]
    for p in range(J[J_POOLS]):
        F = floats_of(J, p)
        I = ints_of(J, p)
        sample(F, I)
        I[H_BIN] += 1
        F[K_NEXT_SAMPLE] = I[H_BIN] * F[K_RESOLUTION]
    J[J_BIN] += 1
    E[E_NEXT_SAMPLE] = J[J_BIN] * E[E_RESOLUTION]


@compiled
def run(floats, ints, until):
    """Play every event up to and including ``until``: REACHED, or GROW (J_GROW says what).

    floats, ints: addresses of the dialogue's arenas.
    Ties: the engines' events by kind, pool, replica; the recogniser's; the dialogue's timers, then
    the pools'; arrivals; kicks.
    """
    E = float_pointer(floats)
    J = int_pointer(ints)
    while True:
        if J[J_EVENTS] & (ROOM_CHECK - 1) == 0:
            J[J_GROW] = short_of_room(J)
            if J[J_GROW] >= 0:
                return GROW
        t = NEVER
        kind = KINDS
        who = -1
        for p in range(J[J_POOLS]):
            I = ints_of(J, p)
            F = floats_of(J, p)
            on = I[O_TREE]
            g = I[on + 1 + I[on] + 1]
            at = F[I[OF_TREE] + g]
            k = I[on + 1 + g]
            if at < t or (at == t and k < kind):
                t = at
                kind = k
                who = p
        at = next_recognition(J)
        if at < t or (at == t and kind >= TIMER):
            t = at
            kind = TIMER
            who = RECOGNISER
        if J[J_HEAP] > 0:
            at = E[J[OF_TIMERS]]
            if at < t or (at == t and kind > TIMER):
                t = at
                kind = TIMER
                who = CLOCK
        for p in range(J[J_POOLS]):
            I = ints_of(J, p)
            if I[H_HEAP] > 0:
                at = floats_of(J, p)[I[OF_HEAP_T]]
                if at < t or (at == t and kind > TIMER):
                    t = at
                    kind = TIMER
                    who = p
        if J[J_NEXT_CALL] < J[J_CALLS]:
            at = E[J[OF_ARRIVAL] + J[J_NEXT_CALL]]
            if at < t or (at == t and kind > ARRIVAL):
                t = at
                kind = ARRIVAL
                who = CALLER_COMES
        earliest = t if t < until else until
        while E[E_NEXT_SAMPLE] <= earliest and J[J_BIN] < J[J_BINS]:
            sample_all(E, J)
        if t > until or t >= NEVER:
            if until < NEVER:
                E[E_NOW] = until
            for p in range(J[J_POOLS]):
                floats_of(J, p)[K_NOW] = E[E_NOW]
            return REACHED
        E[E_NOW] = t
        J[J_EVENTS] += 1
        if who >= 0:
            I = ints_of(J, who)
            F = floats_of(J, who)
            on = I[O_TREE]
            F[K_NOW] = t
            I[H_EVENTS] += 1
            if kind == TIMER:
                pool_timer(F, I, t)
            else:
                engine_event(F, I, I[on + 1 + I[on] + 1], t)
            if I[H_OUTBOX] > 0:
                take_outbox(E, J, who, t)
        elif who == CLOCK:
            key = J[J[O_TIMERS]]
            pop(E, J, J_HEAP, J[OF_TIMERS], J[O_TIMERS])
            timer_event(E, J, key >> 40, key & ((1 << 40) - 1), t)
        elif who == CALLER_COMES:
            k = J[J_NEXT_CALL]
            J[J_NEXT_CALL] = k + 1
            call_arrives(E, J, k, t)
        else:
            recognise(J, t)
        if J[J_ASR] != 0:
            take_texts(E, J, t)


KINDS = 100
CLOCK, CALLER_COMES, RECOGNISER = -1, -2, -3
