"""Logging what a recogniser does in a window (rows: engine/trace.py), where it is asked for."""

from voicesim.engine.asr_layout import *
from voicesim.engine.kernel.jit import compiled
from voicesim.engine.trace import (
    ASR_BATCH,
    ASR_JOB,
    ASR_TEXT,
    MOST_OF_ASR,
    N_TRACE_F,
    N_TRACE_I,
    T_A,
    T_B,
    T_C,
    T_D,
    T_END,
    T_ENGINE,
    T_KIND,
    T_START,
    T_WHO,
    T_X,
    T_Y,
)


@compiled
def note_row(F, I, kind, who, g, a, b, start, end, x):
    """A row of the log, if [start, end] meets the window."""
    n = I[H_NTRACE]
    if end < F[K_TRACE_FROM] or start > F[K_TRACE_TO] or n >= MOST_OF_ASR:
        return
    I[H_NTRACE] = n + 1
    i = I[O_TRACE] + n * N_TRACE_I
    f = I[OF_TRACE] + n * N_TRACE_F
    I[i + T_KIND] = kind
    I[i + T_WHO] = who
    I[i + T_ENGINE] = g
    I[i + T_A] = a
    I[i + T_B] = b
    I[i + T_C] = 0
    I[i + T_D] = 0
    F[f + T_START] = start
    F[f + T_END] = end
    F[f + T_X] = x
    F[f + T_Y] = 0.0


@compiled
def note_job(F, I, r, start, end):
    """Segment r takes part in a batch."""
    if I[H_TRACE] != 0:
        s = I[O_SEGMENT] + r * NGI
        note_row(F, I, ASR_JOB, r, I[s + G_ENGINE], I[s + G_DONE], 0, start, end, 0.0)


@compiled
def note_batch(F, I, worker, rows, audio, start, end):
    if I[H_TRACE] != 0:
        g = worker // I[H_WORKERS]
        calls = I[I[O_ENGINE] + g * NEI + E_CALLS]
        note_row(
            F, I, ASR_BATCH, worker - g * I[H_WORKERS], g, rows, calls, start, end, audio
        )  # fmt: skip


@compiled
def note_text(F, I, r, t):
    """The text of segment r is final."""
    if I[H_TRACE] != 0:
        s = I[O_SEGMENT] + r * NGI
        since = F[I[OF_SEGMENT] + r * NYF + Y_FLUSH]
        note_row(F, I, ASR_TEXT, r, I[s + G_ENGINE], I[s + G_DONE], 0, since, t, 0.0)
