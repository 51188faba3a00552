"""The recogniser, compiled: what callers of it may do, and its events.

``voicesim.engine.reference.asr`` tells the same in plain words.  Every function takes the
recogniser's own arenas (voicesim.engine.asr_layout).  Texts that became final are taken with
``take_text`` right after the call that may have made them.
"""

from voicesim.engine import asr_rules
from voicesim.engine.asr_layout import *
from voicesim.engine.asr_spec import OFFLINE, SLOTS, STREAMING, WINDOWS
from voicesim.engine.kernel.asr_jobs import (
    batch_end,
    chunk_arrives,
    chunk_timer,
    enqueue,
    has_work,
    kick,
    window_due,
)
from voicesim.engine.kernel.asr_lists import append, leave, set_time, take_text, untell
from voicesim.engine.kernel.asr_slots import next_frame, slot_kick, step_end
from voicesim.engine.kernel.asr_stats import (
    ask_kick,
    audio_left,
    chunk_end,
    count_calls,
    finish,
    note_backlog,
)
from voicesim.engine.kernel.jit import adopt, compiled

__all__ = [
    "connect", "disconnect", "drop", "event", "flush", "next_event", "speech_begins", "take_text",
    "transcribe",
]  # fmt: skip

chunks_until = adopt(asr_rules.chunks_until, chunk_end=chunk_end, audio_left=audio_left)


# --- calls --------------------------------------------------------------------------------------


@compiled
def connect(F, I, k, t):
    """Give call k a replica; 0 if all slots are taken."""
    best = 0
    for g in range(1, I[H_ENGINES]):
        if I[I[O_ENGINE] + g * NEI + E_CALLS] < I[I[O_ENGINE] + best * NEI + E_CALLS]:
            best = g
    if I[H_KIND] == SLOTS and I[I[O_ENGINE] + best * NEI + E_CALLS] >= I[H_SLOTS]:
        I[H_REJECTED] += 1
        return 0
    count_calls(F, I, best, t, 1)
    c = I[O_CALL] + k * NCI
    I[c + C_ENGINE] = best
    I[c + C_STEP] = 0
    return 1


@compiled
def disconnect(F, I, k, t):
    """Call k is over (its segments have been dropped or told)."""
    c = I[O_CALL] + k * NCI + C_ENGINE
    if I[c] >= 0:
        count_calls(F, I, I[c], t, -1)
        I[c] = -1


# --- segments -----------------------------------------------------------------------------------


@compiled
def open_segment(F, I, r, k, t):
    """False if the call has no replica."""
    if I[I[O_CALL] + k * NCI + C_ENGINE] < 0:
        return False
    s = I[O_SEGMENT] + r * NGI
    y = I[OF_SEGMENT] + r * NYF
    I[s + G_STATE] = LISTENING
    I[s + G_CALL] = k
    I[s + G_ENGINE] = I[I[O_CALL] + k * NCI + C_ENGINE]
    I[s + G_HAD] = 0
    I[s + G_DONE] = 0
    F[y + Y_BEGIN] = t
    F[y + Y_FLUSH] = NEVER
    F[y + Y_TOTAL] = NEVER
    F[y + Y_HEARD] = 0.0
    return True


@compiled
def speech_begins(F, I, r, k, t):
    """The audio of segment r of call k begins to arrive, at one second per second.

    r is free: new, dropped, or its text taken.  A call without a replica is not heard.
    """
    if not open_segment(F, I, r, k, t):
        return
    kind = I[H_KIND]
    if kind == STREAMING:
        chunk_timer(F, I, r)
    elif kind == WINDOWS:
        set_time(F, I, I[H_ENGINES] * I[H_WORKERS] + r, window_due(F, I, r))
    elif kind == SLOTS:
        append(I, r)
        g = I[I[O_SEGMENT] + r * NGI + G_ENGINE]
        ask_kick(F, I, g, next_frame(F, I, r))


@compiled
def close_segment(F, I, r, audio, t):
    """No more audio comes: what is left may be done at once."""
    s = I[O_SEGMENT] + r * NGI
    y = I[OF_SEGMENT] + r * NYF
    F[y + Y_FLUSH] = t
    F[y + Y_TOTAL] = audio
    note_backlog(F, I, r, t)
    if I[H_KIND] == SLOTS:
        if I[s + G_HAD] > 0:
            I[s + G_HAD] += I[H_DELAY_FRAMES]
        if has_work(F, I, r):
            ask_kick(F, I, I[s + G_ENGINE], t)
        else:
            leave(I, r)
            finish(F, I, r, t)
    elif I[s + G_STATE] == LISTENING:
        if has_work(F, I, r):
            enqueue(F, I, r, t)
        else:
            finish(F, I, r, t)


@compiled
def flush(F, I, r, t):
    """Segment r is over."""
    s = I[O_SEGMENT] + r * NGI
    if I[s + G_STATE] == FREE or F[I[OF_SEGMENT] + r * NYF + Y_FLUSH] < NEVER:
        return
    begin = F[I[OF_SEGMENT] + r * NYF + Y_BEGIN]
    kind = I[H_KIND]
    set_time(F, I, I[H_ENGINES] * I[H_WORKERS] + r, NEVER)
    if kind == OFFLINE:
        I[s + G_HAD] = 1 if audio_left(t, begin) else 0
    elif kind != WINDOWS:
        known = I[s + G_HAD] if kind == STREAMING else I[s + G_DONE]
        I[s + G_HAD] = chunks_until(begin, t, F[K_CHUNK], known)
    close_segment(F, I, r, t - begin, t)


@compiled
def transcribe(F, I, r, k, audio, t):
    """Segment r of call k comes all at once."""
    if not open_segment(F, I, r, k, t):
        return
    kind = I[H_KIND]
    if kind == OFFLINE:
        I[I[O_SEGMENT] + r * NGI + G_HAD] = 1 if audio_left(audio, 0.0) else 0
    elif kind != WINDOWS:
        I[I[O_SEGMENT] + r * NGI + G_HAD] = chunks_until(0.0, audio, F[K_CHUNK], 0)
    if kind == SLOTS:
        append(I, r)
    close_segment(F, I, r, audio, t)


@compiled
def drop(F, I, r, t):
    """Forget segment r: a queued job is gone, a running batch goes on without its text."""
    s = I[O_SEGMENT] + r * NGI
    state = I[s + G_STATE]
    if state == FREE:
        return
    if state == TOLD:
        untell(I, r)
    elif I[H_KIND] == SLOTS or state == QUEUED:
        leave(I, r)
    elif state == RUNNING:
        I[I[s + G_PREV]] = -1
    set_time(F, I, I[H_ENGINES] * I[H_WORKERS] + r, NEVER)
    I[s + G_STATE] = FREE


# --- events -------------------------------------------------------------------------------------


@compiled
def next_event(F, I):
    """Time of the recogniser's next event, NEVER if none."""
    return F[I[OF_TIME] + I[I[O_HEAP]]] if I[H_HEAP] > 0 else NEVER


@compiled
def event(F, I, t):
    """Play the next event, which is due at t."""
    item = I[I[O_HEAP]]
    set_time(F, I, item, NEVER)
    I[H_EVENTS] += 1
    ends = I[H_ENGINES] * I[H_WORKERS]
    if item < ends:
        if I[H_KIND] == SLOTS:
            step_end(F, I, item, t)
        else:
            batch_end(F, I, item, t)
    elif item < ends + I[H_ROWS]:
        r = item - ends
        if I[H_KIND] == STREAMING:
            chunk_arrives(F, I, r, t)
        else:
            enqueue(F, I, r, t)
    elif I[H_KIND] == SLOTS:
        slot_kick(F, I, item - ends - I[H_ROWS], t)
    else:
        kick(F, I, item - ends - I[H_ROWS], t)
