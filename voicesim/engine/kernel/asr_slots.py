"""The slot server: a fixed batch, in which each step takes one frame of every call that has one.

It is not clock-paced: it steps while anyone has a frame, so a backlog drains at one frame a step.
"""

from voicesim.engine.asr_layout import *
from voicesim.engine.kernel.asr_lists import leave
from voicesim.engine.kernel.asr_stats import (
    ask_kick,
    batch_starts,
    chunk_done,
    chunk_end,
    finish,
    note_backlog,
)
from voicesim.engine.kernel.asr_trace import note_job
from voicesim.engine.kernel.jit import compiled


@compiled
def next_frame(F, I, r):
    """When the next frame of segment r is there (a flushed one has all its frames)."""
    y = I[OF_SEGMENT] + r * NYF
    if F[y + Y_FLUSH] < NEVER:
        return F[y + Y_FLUSH]
    return chunk_end(F[y + Y_BEGIN], I[I[O_SEGMENT] + r * NGI + G_DONE] + 1, F[K_CHUNK])


@compiled
def slot_kick(F, I, g, t):
    """Step if anyone has a frame, else sleep until someone has."""
    e = I[O_ENGINE] + g * NEI
    I[e + E_STEPS] += 1
    rows = 0
    wake = NEVER
    r = I[e + E_HEAD]
    while r >= 0:
        s = I[O_SEGMENT] + r * NGI
        served = I[O_CALL] + I[s + G_CALL] * NCI + C_STEP
        due = next_frame(F, I, r)
        if due > t:
            wake = due if due < wake else wake
        elif I[served] != I[e + E_STEPS]:
            I[served] = I[e + E_STEPS]
            note_backlog(F, I, r, t)
            I[s + G_STATE] = RUNNING
            note_job(F, I, r, t, t + F[K_STEP])
            rows += 1
        r = I[s + G_NEXT]
    if rows > 0:
        batch_starts(F, I, g, rows, rows * F[K_CHUNK], F[K_STEP], t)
    elif wake < NEVER:
        ask_kick(F, I, g, wake)


@compiled
def step_end(F, I, g, t):
    e = I[O_ENGINE] + g * NEI
    I[e + E_RUNNING] = 0
    r = I[e + E_HEAD]
    while r >= 0:
        s = I[O_SEGMENT] + r * NGI
        after = I[s + G_NEXT]
        if I[s + G_STATE] == RUNNING:
            frame_done(F, I, r, t)
        r = after
    ask_kick(F, I, g, t)


@compiled
def frame_done(F, I, r, t):
    """The words of the frame ``H_DELAY_FRAMES`` before this one are there."""
    s = I[O_SEGMENT] + r * NGI
    y = I[OF_SEGMENT] + r * NYF
    I[s + G_STATE] = LISTENING
    I[s + G_DONE] += 1
    heard = I[s + G_DONE] - I[H_DELAY_FRAMES]
    if heard > 0:
        chunk_done(F, I, r, chunk_end(F[y + Y_BEGIN], heard, F[K_CHUNK]), t)
    if F[y + Y_FLUSH] < NEVER and I[s + G_DONE] >= I[s + G_HAD]:
        leave(I, r)
        finish(F, I, r, t)
