"""The jobs of the recognisers that work in batches: when a segment asks for one, what it costs."""

from voicesim.engine.asr_layout import *
from voicesim.engine.asr_spec import OFFLINE, STREAMING, WINDOWS
from voicesim.engine.kernel.asr_lists import append, leave, set_time
from voicesim.engine.kernel.asr_stats import (
    ask_kick,
    audio_left,
    batch_starts,
    chunk_done,
    chunk_end,
    finish,
    note_backlog,
)
from voicesim.engine.kernel.asr_trace import note_job
from voicesim.engine.kernel.jit import compiled
from voicesim.engine.kernel.schedule import codec_seconds


@compiled
def chunk_timer(F, I, r):
    """Wait for the segment's next chunk (and its right context)."""
    y = I[OF_SEGMENT] + r * NYF
    j = I[I[O_SEGMENT] + r * NGI + G_HAD] + 1
    due = chunk_end(F[y + Y_BEGIN], j, F[K_CHUNK]) + F[K_RIGHT]
    set_time(F, I, I[H_ENGINES] * I[H_WORKERS] + r, due)


@compiled
def window_due(F, I, r):
    """When as much new audio is there as a job waits for."""
    y = I[OF_SEGMENT] + r * NYF
    return F[y + Y_BEGIN] + (F[y + Y_HEARD] + F[K_CHUNK])


@compiled
def enqueue(F, I, r, t):
    """The segment asks for a job."""
    I[I[O_SEGMENT] + r * NGI + G_STATE] = QUEUED
    append(I, r)
    ask_kick(F, I, I[I[O_SEGMENT] + r * NGI + G_ENGINE], t)


@compiled
def has_work(F, I, r):
    """Whether a job could go on at once."""
    s = I[O_SEGMENT] + r * NGI
    y = I[OF_SEGMENT] + r * NYF
    if I[H_KIND] == WINDOWS:
        return F[y + Y_FLUSH] < NEVER and audio_left(F[y + Y_TOTAL], F[y + Y_HEARD])
    return I[s + G_HAD] > I[s + G_DONE]


@compiled
def chunk_arrives(F, I, r, t):
    s = I[O_SEGMENT] + r * NGI
    I[s + G_HAD] += 1
    note_backlog(F, I, r, t)
    chunk_timer(F, I, r)
    if I[s + G_STATE] == LISTENING:
        enqueue(F, I, r, t)


@compiled
def job_audio(F, I, r, t):
    """Seconds of audio that the segment's job goes over, from now."""
    y = I[OF_SEGMENT] + r * NYF
    if I[H_KIND] == STREAMING:
        return F[K_CHUNK] + F[K_RIGHT]
    if I[H_KIND] == OFFLINE:
        return F[y + Y_TOTAL]
    upto = F[y + Y_TOTAL] if F[y + Y_FLUSH] < NEVER else t - F[y + Y_BEGIN]
    if upto - F[y + Y_HEARD] > F[K_LONGEST]:
        upto = F[y + Y_HEARD] + F[K_LONGEST]
    F[y + Y_UPTO] = upto
    return upto if upto < F[K_LONGEST] else F[K_LONGEST]


@compiled
def kick(F, I, g, t):
    """Idle workers take what is queued, first come first served."""
    e = I[O_ENGINE] + g * NEI
    worker = g * I[H_WORKERS]
    while I[e + E_RUNNING] < I[H_WORKERS] and I[e + E_HEAD] >= 0:
        while I[I[O_PLACE] + worker] >= 0:
            worker += 1
        rows = 0
        audio = 0.0
        while rows < I[H_CAP] and I[e + E_HEAD] >= 0:
            r = I[e + E_HEAD]
            leave(I, r)
            note_backlog(F, I, r, t)
            s = I[O_SEGMENT] + r * NGI
            place = I[O_BATCH] + worker * I[H_CAP] + rows
            I[place] = r
            I[s + G_STATE] = RUNNING
            I[s + G_PREV] = place
            audio += job_audio(F, I, r, t)
            rows += 1
        I[I[O_COUNT] + worker] = rows
        seconds = codec_seconds(F[K_FLOOR], F[K_PER_ROW], F[K_PER_AUDIO], float(rows), audio)
        for i in range(rows):
            note_job(F, I, I[I[O_BATCH] + worker * I[H_CAP] + i], t, t + seconds)
        batch_starts(F, I, worker, rows, audio, seconds, t)


@compiled
def batch_end(F, I, worker, t):
    g = worker // I[H_WORKERS]
    e = I[O_ENGINE] + g * NEI
    I[e + E_RUNNING] -= 1
    for i in range(I[I[O_COUNT] + worker]):
        r = I[I[O_BATCH] + worker * I[H_CAP] + i]
        if r >= 0:
            job_done(F, I, r, t)
    if I[e + E_HEAD] >= 0:
        ask_kick(F, I, g, t)


@compiled
def job_done(F, I, r, t):
    s = I[O_SEGMENT] + r * NGI
    y = I[OF_SEGMENT] + r * NYF
    I[s + G_STATE] = LISTENING
    I[s + G_DONE] += 1
    if I[H_KIND] == WINDOWS:
        chunk_done(F, I, r, window_due(F, I, r), t)
        F[y + Y_HEARD] = F[y + Y_UPTO]
    elif I[H_KIND] == STREAMING:
        chunk_done(F, I, r, chunk_end(F[y + Y_BEGIN], I[s + G_DONE], F[K_CHUNK]), t)
    else:
        chunk_done(F, I, r, NEVER, t)
    if has_work(F, I, r):
        enqueue(F, I, r, t)
    elif F[y + Y_FLUSH] < NEVER:
        finish(F, I, r, t)
    elif I[H_KIND] == WINDOWS:
        due = window_due(F, I, r)
        if due <= t:
            enqueue(F, I, r, t)
        else:
            set_time(F, I, I[H_ENGINES] * I[H_WORKERS] + r, due)
