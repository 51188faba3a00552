"""What a run notes to say why a stall was heard (rules and rows: engine/blame.py).

Called only where H_BLAME is set; nothing here changes what happens.
"""

from voicesim.engine import blame
from voicesim.engine.blame import *
from voicesim.engine.kernel.jit import adopt, compiled, moved
from voicesim.engine.kernel.schedule import (
    codec_seconds,
    compute_at,
    gpu_seconds,
    host_seconds,
    step_seconds,
)
from voicesim.engine.layout import (
    E_CHUNKS,
    E_CLASS,
    E_COST,
    E_RUNNING,
    E_STEPS,
    G_LOST,
    G_SOLO,
    G_START,
    H_CONTEXT,
    H_NSTALLS,
    K_AUDIBLE,
    K_CODEC_FLOOR,
    K_CODEC_PER_FRAME,
    K_CODEC_PER_ROW,
    NEI,
    NGF,
    NQF,
    NSF,
    NSI,
    O_ENGINE,
    O_STALL,
    O_STREAM,
    OF_BLAME,
    OF_ENGINE,
    OF_RUNGS,
    OF_STALL,
    OF_STREAM,
    OF_SUMS,
    Q_CODEC,
    S_ENGINE,
    S_GEN,
    S_MODE,
    S_PROMPT,
    S_RUNG,
    S_SENT_TOK,
    S_UTT,
    X_DELAY,
    X_READY_AT,
)
from voicesim.listener.player import PLAYING

split = adopt(blame.split)
usual = adopt(blame.usual)
add_step = adopt(blame.add_step)
remember = adopt(blame.remember)
largest_since = adopt(blame.largest_since)


# --- an engine's steps ------------------------------------------------------------------------


@compiled
def step_begins(F, I, g, decodes, context, prompts, kv, full):
    """What the step would cost without others: ``full`` is its cost before noise (s), context the
    KV tokens that its decoding streams read, prompts its prompt tokens, kv all KV tokens read."""
    q = I[OF_SUMS] + g * NEB
    e = I[O_ENGINE] + g * NEI
    c = I[e + E_CLASS]
    cost = moved(F, I[e + E_COST])  # type: ignore
    alone = 0.0
    bare = full
    if prompts > 0:
        bare = 0.0
    if decodes > 0:
        one = context / decodes
        alone = step_seconds(
            cost, gpu_seconds(cost, compute_at(F, I, c, 1), one, one), host_seconds(cost, 1.0, 0.0)
        )
        if prompts > 0:
            bare = step_seconds(
                cost,
                gpu_seconds(cost, compute_at(F, I, c, decodes), context, context),
                host_seconds(cost, float(decodes), float(I[e + E_CHUNKS])),
            )
    F[q + ALONE] = alone
    F[q + BARE] = bare
    F[q + FULL] = full
    F[q + PROMPTS] = prompts
    F[q + WIDTH] = I[e + E_RUNNING]
    F[q + DECODES] = decodes
    F[q + KV] = kv


@compiled
def step_ends(F, I, g, t):
    q = I[OF_SUMS] + g * NEB
    x = I[OF_ENGINE] + g * NGF
    step = I[I[O_ENGINE] + g * NEI + E_STEPS] + 1
    start = F[x + G_START]
    add_step(F, q, F[x + G_SOLO], t - start, F[x + G_LOST])
    remember(F, q, N_WIDEST, WIDEST, 2, step, F[q + WIDTH], start)
    if F[q + PROMPTS] > 0.0:
        remember(F, q, N_LONGEST, LONGEST, 3, step, F[q + PROMPTS], start)


# --- a stream at the engine -------------------------------------------------------------------


@compiled
def submitted(F, I, s, t):
    """The stream waits for its turn."""
    b = I[OF_BLAME] + s * NSB
    for c in range(NSB):
        F[b + c] = 0.0
    F[b + AWAY_SINCE] = t
    F[b + IS_AWAY] = 1.0


@compiled
def thrown_out(F, I, s, t):
    """The stream is preempted: until it is back, its time is the preemption's."""
    b = I[OF_BLAME] + s * NSB
    q = I[OF_SUMS] + I[I[O_STREAM] + s * NSI + S_ENGINE] * NEB
    if F[b + IS_AWAY] != 0.0:
        return
    F[b + IS_AWAY] = 1.0
    F[b + AWAY_SINCE] = t
    for c in range(N_SUMS):
        F[b + AWAY + c] = F[q + c]


@compiled
def pauses(F, I, s, t):
    """The stream is ahead of its listener and pauses: the engine's steps are not its own."""
    b = I[OF_BLAME] + s * NSB
    q = I[OF_SUMS] + I[I[O_STREAM] + s * NSI + S_ENGINE] * NEB
    F[b + HELD_AT] = t
    for c in range(N_SUMS):
        F[b + AWAY + c] = F[q + c]


@compiled
def goes_on(F, I, s):
    b = I[OF_BLAME] + s * NSB
    q = I[OF_SUMS] + I[I[O_STREAM] + s * NSI + S_ENGINE] * NEB
    for c in range(N_SUMS):
        F[b + OFF + c] += F[q + c] - F[b + AWAY + c]


@compiled
def joined(F, I, s, t):
    """The stream's prompt is in: it decodes, for the first time or again."""
    o = I[O_STREAM] + s * NSI
    b = I[OF_BLAME] + s * NSB
    q = I[OF_SUMS] + I[o + S_ENGINE] * NEB
    if I[o + S_GEN] == 1:
        n = I[o + S_PROMPT] - F[b + FOUND]
        pairs = n * (F[b + FOUND] + 0.5 * (n + 1.0))
        e = I[O_ENGINE] + I[o + S_ENGINE] * NEI
        cost = moved(F, I[e + E_COST])  # type: ignore
        prompt = compute_at(F, I, I[e + E_CLASS], int(n))
        gpu = gpu_seconds(cost, prompt, float(I[o + S_PROMPT]), pairs)
        alone = step_seconds(cost, gpu, host_seconds(cost, 1.0, 0.0))
        F[b + WAITED] = (t - F[b + AWAY_SINCE]) - alone
        for c in range(N_SUMS):
            F[b + OFF + c] = F[q + c]
    else:
        F[b + THROWN_OUT] += t - F[b + AWAY_SINCE]
        for c in range(N_SUMS):
            F[b + OFF + c] += F[q + c] - F[b + AWAY + c]
    F[b + IS_AWAY] = 0.0


@compiled
def chunk_filled(F, I, s, t):
    """A chunk is full and goes to the codec at once: what the stream has waited for so far."""
    g = I[I[O_STREAM] + s * NSI + S_ENGINE]
    b = I[OF_BLAME] + s * NSB
    q = I[OF_SUMS] + g * NEB
    F[b + NOW + PREFILL] = F[q + SUM_PREFILL] - F[b + OFF + SUM_PREFILL]
    F[b + NOW + PAUSE] = F[q + SUM_PAUSE] - F[b + OFF + SUM_PAUSE]
    F[b + NOW + BATCH] = F[q + SUM_BATCH] - F[b + OFF + SUM_BATCH]
    F[b + NOW + SHARING] = F[q + SUM_SHARING] - F[b + OFF + SUM_SHARING]
    F[b + NOW + NEIGHBOURS] = F[q + SUM_NEIGHBOURS] - F[b + OFF + SUM_NEIGHBOURS]
    F[b + NOW + PREEMPTION] = F[b + THROWN_OUT]
    F[b + NOW + QUEUE] = F[b + WAITED]
    F[b + NOW + CODEC] = 0.0
    F[b + NOW + C_TOKENS] = F[q + SUM_TOKENS] - F[b + OFF + SUM_TOKENS]
    F[b + NOW + C_STEPS] = F[q + SUM_STEPS] - F[b + OFF + SUM_STEPS]
    F[b + NOW + C_STEP] = I[I[O_ENGINE] + g * NEI + E_STEPS]
    F[b + NOW + C_BATCH] = F[q + WIDTH]
    F[b + NOW + C_TIME] = t


@compiled
def vocoded(F, I, s, t, new, lost):
    """A chunk of ``new`` tokens leaves the codec: beyond a lone stream's batch it was held up,
    ``lost`` of it (s) by other engines on the card."""
    sent = I[I[O_STREAM] + s * NSI + S_SENT_TOK]
    e = I[O_ENGINE] + I[I[O_STREAM] + s * NSI + S_ENGINE] * NEI
    c = I[e + E_CLASS]
    k = I[e + E_COST]
    factor = F[I[OF_RUNGS] + I[I[O_STREAM] + s * NSI + S_RUNG] * NQF + Q_CODEC]
    frames = (new + (I[c + H_CONTEXT] if I[c + H_CONTEXT] < sent else sent)) * factor
    alone = codec_seconds(
        F[k + K_CODEC_FLOOR], F[k + K_CODEC_PER_ROW], F[k + K_CODEC_PER_FRAME], 1.0, frames
    )
    waited = t - F[I[OF_STREAM] + s * NSF + X_READY_AT]
    b = I[OF_BLAME] + s * NSB
    F[b + NOW + CODEC] += (waited - alone) - lost
    F[b + NOW + NEIGHBOURS] += lost


# --- at the listener --------------------------------------------------------------------------


@compiled
def arrived(F, I, s, index, t, arrive, lead, stall, started, heard):
    """Chunk ``index``, sent at t, is at the listener, ``lead`` seconds before the buffer was empty;
    it ended a stall (s, or 0) or began the playback (``started`` >= 0)."""
    b = I[OF_BLAME] + s * NSB
    F[b + NOW + NETWORK] = arrive - (t + F[I[OF_STREAM] + s * NSF + X_DELAY])
    if heard and stall > F[K_AUDIBLE]:
        log_stall(F, I, s, index, arrive, stall)
    if index == 0 or stall > 0.0 or started >= 0.0:
        F[b + MARGIN] = 0.0
    elif I[I[O_STREAM] + s * NSI + S_MODE] == PLAYING and lead >= F[b + MARGIN]:
        F[b + MARGIN] = lead
    else:
        return
    for c in range(N_STATE):
        F[b + BASE + c] = F[b + NOW + c]


@compiled
def log_stall(F, I, s, index, arrive, stall):
    o = I[O_STREAM] + s * NSI
    b = I[OF_BLAME] + s * NSB
    for c in range(N_CHARGED):
        F[b + PARTS + c] = F[b + NOW + c] - F[b + BASE + c]
    steps = F[b + NOW + C_STEPS] - F[b + BASE + C_STEPS]
    usual(F, I[OF_SUMS] + I[o + S_ENGINE] * NEB, steps, F, b + PARTS + N_CHARGED)
    n = I[H_NSTALLS]
    I[H_NSTALLS] = n + 1
    a = I[O_STALL] + n * N_STALL_I
    f = I[OF_STALL] + n * N_STALL_F
    I[a + L_WHO] = I[o + S_UTT]
    I[a + L_CHUNK] = index
    I[a + L_UNIT] = -1
    I[a + L_POOL] = 0
    I[a + L_ENGINE] = I[o + S_ENGINE]
    F[f + L_BEGAN] = arrive - stall
    F[f + L_LENGTH] = stall
    held = F[b + HELD_AT] > 0.0 and F[b + HELD_AT] >= F[b + BASE + C_TIME]
    rest = PACING if held else SCHEDULE
    I[a + L_CAUSE] = split(F, b + PARTS, F, f + L_SHARES, stall, stall + F[b + MARGIN], rest)
    evidence(F, I, I[o + S_ENGINE], int(F[b + BASE + C_STEP]), F, b + BASE, b + NOW, f, I, a)


@compiled
def evidence(F, I, g, step, floats, then, now, f, ints, a):
    """What engine g did after its step number ``step``, into a stall's row floats[f:], ints[a:].

    floats[then:], floats[now:]: the states between which it is.
    """
    q = I[OF_SUMS] + g * NEB
    ints[a + L_BATCH_THEN] = int(floats[then + C_BATCH])
    ints[a + L_BATCH] = int(floats[now + C_BATCH])
    ints[a + L_TOKENS] = int(floats[now + C_TOKENS] - floats[then + C_TOKENS])
    ints[a + L_STEP] = int(floats[now + C_STEP])
    at = largest_since(F, q, N_WIDEST, WIDEST, 2, step)
    ints[a + L_BATCH_MOST] = int(F[at + 1]) if at >= 0 else int(floats[now + C_BATCH])
    at = largest_since(F, q, N_LONGEST, LONGEST, 3, step)
    ints[a + L_LONGEST] = int(F[at + 1]) if at >= 0 else 0
    floats[f + L_LONGEST_AT] = F[at + 2] if at >= 0 else -1.0
    floats[f + L_SINCE] = floats[then + C_TIME]
