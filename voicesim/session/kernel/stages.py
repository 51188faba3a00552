"""What a dialogue asks of its stages: a stream begins, a stream is cancelled."""

from voicesim.engine.kernel.jit import compiled
from voicesim.engine.kernel.session import (
    can_fit,
    cancel,
    decide,
    maybe_free,
    start_utterance,
    submit,
    write_result,
)
from voicesim.engine.layout import (
    ABANDONED,
    E_WAITING,
    FAILED_OUTCOME,
    H_FAILED,
    H_MAXWAIT,
    K_TOKEN_AUDIO,
    NEI,
    NRI,
    NSI,
    O_ENGINE,
    O_RES,
    O_STREAM,
    R_SLOT,
    REFUSED,
    S_STATE,
    WAITING,
)
from voicesim.session.kernel.state import floats_of, ints_of


@compiled
def ask(J, pool, u, t):
    """Stream ``u`` of a pool begins; False when the engine refuses it or could never hold it."""
    F = floats_of(J, pool)
    I = ints_of(J, pool)
    s = start_utterance(F, I, u, t)
    if not can_fit(I, s):
        I[H_FAILED] += 1
        write_result(F, I, s, FAILED_OUTCOME, t)
        maybe_free(F, I, s, t)
        return False
    _, g = decide(F, I, s, t)
    if I[I[O_ENGINE] + g * NEI + E_WAITING] >= I[H_MAXWAIT]:
        write_result(F, I, s, REFUSED, t)
        maybe_free(F, I, s, t)
        return False
    submit(F, I, s, g, t)
    return True


@compiled
def cancel_stream(J, pool, u, t, only_waiting):
    """Stop stream ``u`` of a pool if it lives; or only if the engine has not begun it."""
    F = floats_of(J, pool)
    I = ints_of(J, pool)
    s = I[I[O_RES] + u * NRI + R_SLOT]
    if s < 0 or (only_waiting and I[I[O_STREAM] + s * NSI + S_STATE] != WAITING):
        return
    write_result(F, I, s, ABANDONED, t)
    cancel(F, I, s, t)


@compiled
def token_audio(J, pool):
    """Seconds of audio of one of its decode steps."""
    return floats_of(J, pool)[K_TOKEN_AUDIO]
