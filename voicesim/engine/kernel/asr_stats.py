"""What the kinds of recogniser share: kicks, batches that start, and what is noted of them."""

from voicesim.engine import asr_rules
from voicesim.engine.asr_layout import *
from voicesim.engine.asr_spec import SLOTS, STREAMING, WINDOWS
from voicesim.engine.kernel.asr_lists import set_time, tell
from voicesim.engine.kernel.asr_trace import note_batch, note_text
from voicesim.engine.kernel.codec import ratio_bucket
from voicesim.engine.kernel.jit import adopt, compiled

audio_left = adopt(asr_rules.audio_left)
chunk_end = adopt(asr_rules.chunk_end)
inside = adopt(asr_rules.inside)


@compiled
def ask_kick(F, I, g, t):
    """Let replica g look for work at t, unless all of its workers are busy or it looks before."""
    if I[I[O_ENGINE] + g * NEI + E_RUNNING] >= I[H_WORKERS]:
        return
    item = I[H_ENGINES] * I[H_WORKERS] + I[H_ROWS] + g
    if I[I[O_PLACE] + item] < 0 or t < F[I[OF_TIME] + item]:
        set_time(F, I, item, t)


@compiled
def batch_starts(F, I, worker, rows, audio, seconds, t):
    """``rows`` jobs over so many seconds of audio occupy a worker from now."""
    g = worker // I[H_WORKERS]
    I[I[O_ENGINE] + g * NEI + E_RUNNING] += 1
    end = t + seconds
    set_time(F, I, worker, end)
    F[I[OF_ENGINE] + g * NXF + X_BUSY] += inside(t, end, F[K_WARMUP], F[K_HORIZON])
    I[H_BATCHES] += 1
    I[H_JOBS] += rows
    F[K_AUDIO] += audio
    note_batch(F, I, worker, rows, audio, t, end)


@compiled
def count_calls(F, I, g, t, change):
    x = I[OF_ENGINE] + g * NXF
    e = I[O_ENGINE] + g * NEI + E_CALLS
    F[x + X_AREA] += I[e] * inside(F[x + X_SINCE], t, F[K_WARMUP], F[K_HORIZON])
    F[x + X_SINCE] = t
    I[e] += change


@compiled
def backlog(F, I, r, t):
    """Seconds of audio that have come and that no job has taken."""
    s = I[O_SEGMENT] + r * NGI
    y = I[OF_SEGMENT] + r * NYF
    running = I[s + G_STATE] == RUNNING
    if I[H_KIND] == STREAMING:
        return (I[s + G_HAD] - I[s + G_DONE] - running) * F[K_CHUNK]
    come = F[y + Y_TOTAL] if F[y + Y_FLUSH] < NEVER else t - F[y + Y_BEGIN]
    if I[H_KIND] == WINDOWS:
        return come - (F[y + Y_UPTO] if running else F[y + Y_HEARD])
    if I[H_KIND] == SLOTS:
        return come - (I[s + G_DONE] + running) * F[K_CHUNK]
    return come


@compiled
def note_backlog(F, I, r, t):
    waiting = backlog(F, I, r, t)
    if waiting > F[K_BACKLOG]:
        F[K_BACKLOG] = waiting


@compiled
def note(F, I, since, t, histogram, total):
    if F[K_WARMUP] <= since and since <= F[K_HORIZON]:
        I[histogram + ratio_bucket(t - since)] += 1
        F[total] += t - since


@compiled
def chunk_done(F, I, r, due, t):
    """The words of audio that had come at ``due`` (or at the flush) are there."""
    ended = F[I[OF_SEGMENT] + r * NYF + Y_FLUSH]
    note(F, I, due if due < ended else ended, t, I[O_CHUNK_HIST], K_CHUNK_SUM)


@compiled
def finish(F, I, r, t):
    """The text of segment r is final."""
    note(F, I, F[I[OF_SEGMENT] + r * NYF + Y_FLUSH], t, I[O_FINAL_HIST], K_FINAL_SUM)
    note_text(F, I, r, t)
    tell(I, r)
