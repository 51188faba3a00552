"""Logging what happens in a window (rows: engine/trace.py).  Called only where H_TRACE is set."""

from voicesim.engine.blame import DECODES, KV, NEB, PROMPTS, WIDTH
from voicesim.engine.kernel.jit import compiled
from voicesim.engine.layout import (
    E_STEPS,
    G_GPU,
    G_HOST,
    G_START,
    H_NTRACE,
    K_TRACE_FROM,
    K_TRACE_TO,
    NEI,
    NGF,
    O_ENGINE,
    O_TRACE,
    OF_ENGINE,
    OF_SUMS,
    OF_TRACE,
)
from voicesim.engine.trace import *


@compiled
def note(F, I, kind, who, g, values, start, end, x, y):
    """A row of the log, if [start, end] meets the window.  values: T_A to T_D."""
    n = I[H_NTRACE]
    if end < F[K_TRACE_FROM] or start > F[K_TRACE_TO] or n >= MOST_EVENTS:
        return
    I[H_NTRACE] = n + 1
    a = I[O_TRACE] + n * N_TRACE_I
    f = I[OF_TRACE] + n * N_TRACE_F
    I[a + T_KIND] = kind
    I[a + T_WHO] = who
    I[a + T_ENGINE] = g
    I[a + T_A] = values[0]
    I[a + T_B] = values[1]
    I[a + T_C] = values[2]
    I[a + T_D] = values[3]
    F[f + T_START] = start
    F[f + T_END] = end
    F[f + T_X] = x
    F[f + T_Y] = y


@compiled
def note_step(F, I, g, t):
    q = I[OF_SUMS] + g * NEB
    x = I[OF_ENGINE] + g * NGF
    step = I[I[O_ENGINE] + g * NEI + E_STEPS]
    values = (int(F[q + WIDTH]), int(F[q + DECODES]), int(F[q + PROMPTS]), int(F[q + KV]))
    note(F, I, STEP, step, g, values, F[x + G_START], t, F[x + G_GPU], F[x + G_HOST])
