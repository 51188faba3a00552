"""The codec stage of one engine: the queue of chunks, the gather window, batches, delivery."""

from voicesim.engine import card
from voicesim.engine.blame import N_HANDED, N_STATE, NOW, NSB
from voicesim.engine.kernel import trace
from voicesim.engine.kernel.blame import arrived, chunk_filled, vocoded
from voicesim.engine.kernel.jit import adopt, bits_of, compiled
from voicesim.engine.kernel.lists import append, remove
from voicesim.engine.kernel.schedule import codec_seconds
from voicesim.engine.kernel.session import (
    bin_at,
    gone_by,
    hang_up,
    maybe_free,
    next_utterance,
    touch,
    write_result,
)
from voicesim.engine.layout import *
from voicesim.engine.spec import CODEC_QUEUES
from voicesim.listener import player
from voicesim.policy.admission import LAG_WEIGHT
from voicesim.workload import rng

slowdown = adopt(card.slowdown)
lost = adopt(card.lost)
hash_on = adopt(rng.hash_on)
table_index = adopt(rng.table_index)
player_deliver = adopt(player.deliver)
SILENT, PLAYING, ROUNDING = player.SILENT, player.PLAYING, player.ROUNDING
FIFO, WINDOW, EDF, PRESSING, STARTUP_FIRST, EDF_RESERVE = range(len(CODEC_QUEUES))
BELOW_FINE = 53 - FINE_PER_OCTAVE.bit_length()  # bits of the fraction that tell no bucket
FIRST_BUCKET = (LOWEST_EXPONENT + 1022) * FINE_PER_OCTAVE  # frexp's exponent is 1022 less


@compiled
def class_of(I, s):
    """Header of the pool that the stream is in."""
    return I[I[O_ENGINE] + I[I[O_STREAM] + s * NSI + S_ENGINE] * NEI + E_CLASS]


@compiled
def own_ends(I, s):
    """Where the chunk ends of stream s are: its utterance's, or those of a shared ramp."""
    if I[H_RAMP_CHUNKS] > 0:
        return I[O_ENDS] + s * I[H_RAMP_CHUNKS]
    return I[O_ENDS] + I[I[O_UTT] + I[I[O_STREAM] + s * NSI + S_UTT] * NUI + U_ENDS]


@compiled
def chunk_tokens(I, s, index, sent, tokens):
    """Decode steps in chunk ``index`` of stream s, of which ``sent`` tokens are out already."""
    if I[H_OWN_CHUNKS] != 0:
        return I[own_ends(I, s) + index] - sent
    q = I[O_RUNGS] + I[I[O_STREAM] + s * NSI + S_RUNG] * NQI
    chunks = I[q + Q_CHUNKS]
    first = I[q + Q_SCHEDULE]
    if chunks == 0:  # those of the pool that serves
        c = class_of(I, s)
        chunks = I[c + H_SCHED]
        first = I[c + O_SCHEDULE]
    size = I[first + (index if index < chunks else chunks - 1)]
    left = tokens - sent
    return size if size < left else left


@compiled
def note_end(I, s, index, due):
    """Shared ramp: the chunk has the size that the replica is at.

    CosyVoice2 keeps the hop, which every chunk but the last of a stream makes longer, on the model
    and never resets it (https://github.com/QwenAudio/CosyVoice/pull/1849).
    """
    o = I[O_STREAM] + s * NSI
    e = I[O_ENGINE] + I[o + S_ENGINE] * NEI
    c = I[e + E_CLASS]
    if index > 0:
        I[e + E_RAMP] += 1
    last = I[c + H_SCHED] - 1
    at = I[e + E_RAMP] if I[e + E_RAMP] < last else last
    end = due + I[I[c + O_SCHEDULE] + at] + (I[H_PAD] if index == 0 else 0)
    I[own_ends(I, s) + index] = end if end < I[o + S_TOKENS] else I[o + S_TOKENS]


@compiled
def next_chunk(I, s, index, due):
    """The stream begins to fill chunk ``index`` after ``due`` tokens; returns its tokens."""
    if I[H_RAMP_CHUNKS] > 0:
        note_end(I, s, index, due)
    return chunk_tokens(I, s, index, due, I[I[O_STREAM] + s * NSI + S_TOKENS])


@compiled
def ratio_bucket(ratio):
    """Bucket of the fine histogram for a ratio (see layout.quantile_edges)."""
    if ratio <= 0.0:
        return 0
    # a double's exponent and the first bits of its fraction, as they stand, number the buckets
    i = (bits_of(ratio) >> BELOW_FINE) - FIRST_BUCKET  # type: ignore[call-arg]
    if i < 0:
        return 0
    return i if i < N_FINE else N_FINE - 1


@compiled
def count_gap(F, I, s, gap, before, audio, arrive):
    """Pace of a chunk = its audio / the gap before it (the histogram holds the inverse); and,
    for the alarm, that gap against the audio that the chunk before had brought."""
    x = I[OF_STREAM] + s * NSF
    if I[class_of(I, s) + H_ASIDE] == 0:
        b = int(arrive / F[K_RESOLUTION])
        if b >= I[H_BINS]:
            b = I[H_BINS] - 1
        coarse = ratio_bucket(gap / before) // (FINE_PER_OCTAVE // COARSE_PER_OCTAVE)
        I[I[O_GAPS] + b * N_COARSE + coarse] += 1
        if F[x + X_REQUEST] >= F[K_WARMUP]:
            I[I[O_HIST] + ratio_bucket(gap / audio)] += 1
    if gap > 0.0:
        pace = audio / gap
        if F[x + X_PACE] < 0.0 or pace < F[x + X_PACE]:
            F[x + X_PACE] = pace


@compiled
def count_stall(F, I, s, stall, arrive):
    o = I[O_STREAM] + s * NSI
    x = I[OF_STREAM] + s * NSF
    if stall > ROUNDING:
        I[o + S_STALLS] += 1
    F[x + X_STALL] += stall
    if stall > F[x + X_STALL_MAX]:
        F[x + X_STALL_MAX] = stall
    if stall > F[K_AUDIBLE]:
        began = arrive - stall
        I[o + S_AUDIBLE] += 1
        if I[class_of(I, s) + H_ASIDE] != 0:
            return
        I[bin_at(F, I, began) + B_STALLS] += 1
        if F[x + X_REQUEST] >= F[K_WARMUP] and began < F[K_FIRST_STALL]:
            F[K_FIRST_STALL] = began
            e = I[O_ENGINE] + I[o + S_ENGINE] * NEI
            I[H_FIRST_WAITING] = I[e + E_GAUGE]


@compiled
def hand_over(F, I, s, t, new, last):
    """A stage of a dialogue: the chunk goes to the outbox, for the dialogue to take from there."""
    o = I[O_STREAM] + s * NSI
    m = I[O_OUTBOX] + I[H_OUTBOX] * NMI
    I[H_OUTBOX] += 1
    I[m + M_UTT] = I[o + S_UTT]
    I[m + M_TOKENS] = new
    I[m + M_LAST] = last
    if I[H_BLAME] != 0:
        w = I[OF_OUTBOX] + (I[H_OUTBOX] - 1) * N_HANDED
        for c in range(N_STATE):
            F[w + c] = F[I[OF_BLAME] + s * NSB + NOW + c]
        F[w + N_STATE] = I[o + S_ENGINE]
    if last:
        write_result(F, I, s, COMPLETED, t)
        I[o + S_INQ] = 0
        maybe_free(F, I, s, t)


@compiled
def deliver(F, I, s, t, rows, lost):
    """The stream's next chunk leaves the server at time t for the listener; lost: seconds of its
    codec batch that went to other engines on the card."""
    o = I[O_STREAM] + s * NSI
    x = I[OF_STREAM] + s * NSF
    u = I[o + S_UTT]
    g = I[o + S_ENGINE]
    c = I[I[O_ENGINE] + g * NEI + E_CLASS]
    k = I[I[O_ENGINE] + g * NEI + E_COST]
    index = I[o + S_SENT]
    new = chunk_tokens(I, s, index, I[o + S_SENT_TOK], I[o + S_TOKENS])
    if I[H_BLAME] != 0 and I[c + H_CODEC] != 0:
        vocoded(F, I, s, t, new, lost)
    I[o + S_SENT] = index + 1
    I[o + S_SENT_TOK] += new
    last = I[o + S_SENT_TOK] == I[o + S_TOKENS]
    audio = new * F[k + K_TOKEN_AUDIO]
    eg = I[OF_ENGINE] + g * NGF
    F[eg + G_LAG] += LAG_WEIGHT * ((t - F[x + X_READY_AT]) - F[eg + G_LAG])
    if I[H_MESSAGES] != 0:
        if I[H_TRACE] != 0:
            trace.note(
                F, I, trace.CHUNK, u, g, (index, rows, new, 0), F[x + X_READY_AT], t, t, audio
            )
        hand_over(F, I, s, t, new, last)
        return
    jitter = F[I[OF_JITTER] + table_index(hash_on(I[H_JITTER_HASH], u, index))]
    arrive = t + (F[x + X_DELAY] + F[x + X_JITTER] * jitter)
    if index == 0:
        F[x + X_FIRST] = arrive
    else:
        if arrive < F[x + X_LAST]:
            arrive = F[x + X_LAST]  # order is kept on the way
    gap = arrive - F[x + X_LAST]
    before = F[x + X_AUDIO]
    F[x + X_LAST] = arrive
    F[x + X_AUDIO] = audio
    late = (arrive - F[x + X_FIRST]) - F[x + X_RECEIVED]
    if late > F[x + X_A]:
        F[x + X_A] = late
    F[x + X_RECEIVED] += audio
    late = (arrive - F[x + X_FIRST]) - F[x + X_RECEIVED]
    if late > F[x + X_C]:
        F[x + X_C] = late
    lead = F[x + X_PLAY_END] - arrive
    mode, play_end, held, since, stall, started, lost = player_deliver(
        I[o + S_MODE], F[x + X_PLAY_END], F[x + X_HELD], F[x + X_SINCE], arrive, audio, last,
        F[K_PREBUFFER], F[K_REBUFFER], F[K_MAX_WAIT], F[K_MAX_QUEUE],
    )  # fmt: skip
    I[o + S_MODE] = mode
    F[x + X_PLAY_END] = play_end
    F[x + X_HELD] = held
    F[x + X_SINCE] = since
    F[x + X_LOST] += lost
    if started >= 0.0:
        F[x + X_START] = started
    heard = F[x + X_START] <= gone_by(F, I, s)  # else the caller hangs up before the first sound
    if heard and index > 0:
        count_gap(F, I, s, gap, before, audio, arrive)
    if heard and stall > 0.0:
        count_stall(F, I, s, stall, arrive)
    if I[H_BLAME] != 0:
        arrived(F, I, s, index, t, arrive, lead, stall, started, heard)
        if I[H_TRACE] != 0:
            trace.note(
                F, I, trace.CHUNK, u, g, (index, rows, new, 0), F[x + X_READY_AT], t, arrive, audio
            )
    if I[H_CHUNKLOG] != 0:
        log_chunk(F, I, u, index, g, rows, F[x + X_READY_AT], t, arrive, audio)
    if last:
        if heard:
            write_result(F, I, s, COMPLETED, arrive)
            next_utterance(F, I, u, play_end)
        else:
            I[H_DISCARDED] += I[o + S_TOKENS]
            hang_up(F, I, s, gone_by(F, I, s))
        I[o + S_INQ] = 0
        maybe_free(F, I, s, t)


@compiled
def log_chunk(F, I, u, index, g, rows, ready, sent, arrive, audio):
    n = I[H_NCHUNKS]
    I[H_NCHUNKS] = n + 1
    a = I[O_CHUNK_I] + n * NLI
    b = I[OF_CHUNK] + n * NLF
    I[a + L_UTT] = u
    I[a + L_INDEX] = index
    I[a + L_ENGINE] = g
    I[a + L_ROWS] = rows
    F[b + M_READY] = ready
    F[b + M_SENT] = sent
    F[b + M_ARRIVE] = arrive
    F[b + M_AUDIO] = audio


@compiled
def chunk_ready(F, I, s, t):
    """The decoder has filled a chunk: queue the stream at the codec, or send it at once."""
    o = I[O_STREAM] + s * NSI
    x = I[OF_STREAM] + s * NSF
    I[o + S_READY] += 1
    if I[class_of(I, s) + H_CODEC] == 0:
        F[x + X_READY_AT] = t
        if I[H_BLAME] != 0:
            chunk_filled(F, I, s, t)
        deliver(F, I, s, t, 1, 0.0)
    elif I[o + S_INQ] == 0:
        if I[H_BLAME] != 0:
            chunk_filled(F, I, s, t)
        enqueue(F, I, s, t)


@compiled
def enqueue(F, I, s, t):
    """A stream has at most one chunk in the codec; the next one queues when that is out."""
    o = I[O_STREAM] + s * NSI
    e = I[O_ENGINE] + I[o + S_ENGINE] * NEI
    F[I[OF_STREAM] + s * NSF + X_READY_AT] = t
    I[o + S_INQ] = 1
    append(I, e + E_Q_HEAD, e + E_Q_TAIL, S_QNEXT, S_QPREV, s)
    I[e + E_QUEUED] += 1


@compiled
def fill_window(I, e):
    """Bounded window: at most K streams are active; first come first served (vllm-omni #3592).

    Returns how many queued streams are active.
    """
    c = I[e + E_CLASS]
    o0 = I[O_STREAM]
    s = I[e + E_Q_HEAD]
    eligible = 0
    while s >= 0:
        o = o0 + s * NSI
        if I[o + S_ACTIVE] == 0 and I[e + E_ACTIVE] < I[c + H_WINDOW]:
            I[o + S_ACTIVE] = 1
            I[e + E_ACTIVE] += 1
        eligible += I[o + S_ACTIVE]
        s = I[o + S_QNEXT]
    return eligible


@compiled
def due_time(F, I, s):
    """A silent listener is due at once, a playing one when the buffer runs out."""
    x = I[OF_STREAM] + s * NSF
    silent = I[I[O_STREAM] + s * NSI + S_MODE] < PLAYING
    return F[x + X_READY_AT] if silent else F[x + X_PLAY_END]


@compiled
def presses_from(F, I, k, s):
    """VoxServe: a stream is pressing until its listener plays, and from ``lead`` before the chunk
    sent last begins to play (https://github.com/vox-serve/vox-serve)."""
    x = I[OF_STREAM] + s * NSF
    if I[I[O_STREAM] + s * NSI + S_MODE] < PLAYING:
        return F[x + X_READY_AT]
    return F[x + X_PLAY_END] - F[x + X_AUDIO] - F[k + K_CODEC_LEAD]


@compiled
def first_pressing(F, I, e):
    """When the first of the queued is pressing."""
    k = I[e + E_COST]
    earliest = 1e301
    s = I[e + E_Q_HEAD]
    while s >= 0:
        since = presses_from(F, I, k, s)
        if since < earliest:
            earliest = since
        s = I[I[O_STREAM] + s * NSI + S_QNEXT]
    return earliest


@compiled
def rank(F, I, e, s, due, t):
    """The class of a queued chunk, the lowest first; ``due``: its listener's due time.

    edf_reserve: urgent, then first chunks, then pressing, then the others (Nari Labs' Qwen3-TTS
    server).
    """
    queue = I[I[e + E_CLASS] + H_QUEUE]
    k = I[e + E_COST]
    if queue == EDF:
        return 0
    if queue == PRESSING:
        return 0 if presses_from(F, I, k, s) <= t else 1
    first = I[I[O_STREAM] + s * NSI + S_SENT] == 0
    if queue == STARTUP_FIRST:
        return 0 if first else 1
    if first:
        return 1
    if t >= due - F[k + K_CODEC_RESERVE]:
        return 0
    return 2 if t >= due - F[k + K_CODEC_LEAD] else 3


@compiled
def pick(F, I, e, t):
    """The next stream to vocode under the queue policy: by class, in the classes of a deadline by
    that, else first come, first served."""
    c = I[e + E_CLASS]
    o0 = I[O_STREAM]
    s = I[e + E_Q_HEAD]
    queue = I[c + H_QUEUE]
    if queue == FIFO:
        return s
    if queue == WINDOW:
        while I[o0 + s * NSI + S_ACTIVE] == 0:
            s = I[o0 + s * NSI + S_QNEXT]
        return s
    best = s
    lowest = 4
    earliest = 1e301
    while s >= 0:
        deadline = due_time(F, I, s)
        of = rank(F, I, e, s, deadline, t)
        by_deadline = queue == EDF or (queue == EDF_RESERVE and of & 1 == 0)
        if of < lowest or (of == lowest and by_deadline and deadline < earliest):
            lowest = of
            earliest = deadline
            best = s
        s = I[o0 + s * NSI + S_QNEXT]
    return best


@compiled
def dispatch(F, I, g, t, timer_fired):
    """Start batches while a worker is idle and the gather window allows."""
    e = I[O_ENGINE] + g * NEI
    c = I[e + E_CLASS]
    k = I[e + E_COST]
    x = I[OF_ENGINE] + g * NGF
    while I[e + E_BUSY] < I[c + H_CALLS]:
        eligible = I[e + E_QUEUED]
        if eligible > 0 and I[c + H_QUEUE] == WINDOW:
            eligible = fill_window(I, e)
        if eligible == 0:
            break
        if I[c + H_QUEUE] == PRESSING:
            since = first_pressing(F, I, e)
            if since > t:  # a batch starts for the sake of a pressing stream only
                F[x + G_GATHER] = since
                break
        if F[k + K_GATHER] > 0.0 and eligible < I[c + H_ROWS] and not timer_fired:
            if t + F[k + K_GATHER] < F[x + G_GATHER]:
                F[x + G_GATHER] = t + F[k + K_GATHER]
            break
        timer_fired = False
        F[x + G_GATHER] = 1e301
        start_batch(F, I, g, t, eligible if eligible < I[c + H_ROWS] else I[c + H_ROWS])


@compiled
def start_batch(F, I, g, t, rows):
    e = I[O_ENGINE] + g * NEI
    c = I[e + E_CLASS]
    k = I[e + E_COST]
    o0 = I[O_STREAM]
    w = g * I[H_WORKERS]
    while I[I[O_WORKER] + w * NWI + W_ROWS] > 0:
        w += 1
    frames = 0.0
    for i in range(rows):
        s = pick(F, I, e, t)
        o = o0 + s * NSI
        remove(I, e + E_Q_HEAD, e + E_Q_TAIL, S_QNEXT, S_QPREV, s)
        I[e + E_QUEUED] -= 1
        I[o + S_INQ] = 2
        sent = I[o + S_SENT_TOK]
        new = chunk_tokens(I, s, I[o + S_SENT], sent, I[o + S_TOKENS])
        context = I[c + H_CONTEXT] if I[c + H_CONTEXT] < sent else sent
        frames += (new + context) * F[I[OF_RUNGS] + I[o + S_RUNG] * NQF + Q_CODEC]
        if I[o + S_ACTIVE] != 0 and sent + new == I[o + S_TOKENS]:
            I[o + S_ACTIVE] = 0
            I[e + E_ACTIVE] -= 1
        I[I[O_ROWS] + w * I[H_CAP] + i] = s
    I[I[O_WORKER] + w * NWI + W_ROWS] = rows
    v = I[OF_WORKER] + w * NVF
    F[v + V_REM] = codec_seconds(
        F[k + K_CODEC_FLOOR], F[k + K_CODEC_PER_ROW], F[k + K_CODEC_PER_FRAME],
        float(rows), frames,
    ) * F[I[OF_ENGINE] + g * NGF + G_FACTOR]  # fmt: skip
    F[v + V_SINCE] = t
    F[v + V_START] = t
    F[v + V_SLOW] = 1.0
    F[v + V_END] = t + F[v + V_REM]
    F[v + V_OTHERS] = 1.0
    F[v + V_LOST] = 0.0
    I[e + E_BUSY] += 1
    reshare(F, I, g, t)


@compiled
def reshare(F, I, g, t):
    """What is on engine g's GPU has changed: everything there goes at its new pace.

    On a shared card others come and go with it: all that have work on the GPU slow each other.
    """
    m = I[I[O_ENGINE] + g * NEI + E_FIRST_MATE]
    if m < 0:
        go_at(F, I, g, t, 1.0)
        return
    active = 0
    sm = 0.0
    bandwidth = 0.0
    while m >= 0:
        e = I[O_ENGINE] + m * NEI
        if I[e + E_STEPPING] == AT_WORK or I[e + E_BUSY] > 0:
            active += 1
            sm = sm + F[I[e + E_COST] + K_SM]
            bandwidth = bandwidth + F[I[e + E_COST] + K_BANDWIDTH]
        m = I[e + E_MATE]
    e = I[O_ENGINE] + g * NEI
    mode = I[I[e + E_CLASS] + H_CARD_MODE]
    slow = slowdown(mode, active, sm, bandwidth, F[I[e + E_COST] + K_SWITCHING])
    m = I[e + E_FIRST_MATE]
    while m >= 0:
        moves = go_at(F, I, m, t, slow)
        if moves and m != g:
            touch(F, I, m)
        m = I[I[O_ENGINE] + m * NEI + E_MATE]


@compiled
def lose(F, p, t, others):
    """Other engines slow this work ``others`` times from now on: note what they took until now.
    F[p:]: that factor before, time lost, up to when."""
    if others != F[p]:
        if F[p] != 1.0:
            F[p + 1] += lost(t - F[p + 2], F[p])
        F[p] = others
        F[p + 2] = t


@compiled
def go_at(F, I, g, t, others):
    """Decoder and codec batches on one GPU slow each other down while they overlap, and other
    engines slow all of that ``others`` times.

    n codec batches at once share the GPU (the codec fills it: n take n times as long); a decode
    step running beside stretches them by codec_slowdown, and is stretched by decode_slowdown.
    True if an end has moved.
    """
    e = I[O_ENGINE] + g * NEI
    c = I[e + E_CLASS]
    k = I[e + E_COST]
    x = I[OF_ENGINE] + g * NGF
    busy = I[e + E_BUSY]
    if busy == 0 and others == 1.0 and F[x + G_SLOW] == 1.0 and F[x + G_OTHERS] == 1.0:
        return False
    shared = I[c + H_SHARED] != 0
    steps = I[e + E_STEPPING] == AT_WORK
    moves = False
    if steps:
        lose(F, x + G_OTHERS, t, others)
        slow = (F[k + K_DECODE_SLOW] if shared and busy > 0 else 1.0) * others
        if slow != F[x + G_SLOW]:
            F[x + G_REM] = F[x + G_REM] - (t - F[x + G_SINCE]) / F[x + G_SLOW]
            F[x + G_SINCE] = t
            F[x + G_SLOW] = slow
            F[x + G_END] = t + F[x + G_REM] * slow
            moves = True
    slow = busy * (F[k + K_CODEC_SLOW] if shared and steps else 1.0) * others
    workers = I[H_WORKERS]
    for w in range(g * workers, (g + 1) * workers):
        if I[I[O_WORKER] + w * NWI + W_ROWS] > 0:
            v = I[OF_WORKER] + w * NVF
            lose(F, v + V_OTHERS, t, others)
            if slow != F[v + V_SLOW]:
                F[v + V_REM] = F[v + V_REM] - (t - F[v + V_SINCE]) / F[v + V_SLOW]
                F[v + V_SINCE] = t
                F[v + V_SLOW] = slow
                F[v + V_END] = t + F[v + V_REM] * slow
                moves = True
    return moves


@compiled
def observed(F, a, b):
    """Length of [a, b] inside the observed window (warm-up to horizon)."""
    if a < F[K_WARMUP]:
        a = F[K_WARMUP]
    if b > F[K_HORIZON]:
        b = F[K_HORIZON]
    return b - a if b > a else 0.0


@compiled
def codec_end(F, I, g, t):
    """The first worker of engine g that ends at t hands its rows to the network."""
    e = I[O_ENGINE] + g * NEI
    w = g * I[H_WORKERS]
    while I[I[O_WORKER] + w * NWI + W_ROWS] == 0 or F[I[OF_WORKER] + w * NVF + V_END] != t:
        w += 1
    rows = I[I[O_WORKER] + w * NWI + W_ROWS]
    v = I[OF_WORKER] + w * NVF
    lose(F, v + V_OTHERS, t, 1.0)
    I[I[O_WORKER] + w * NWI + W_ROWS] = 0
    I[e + E_BUSY] -= 1
    I[e + E_CODEC_DONE] += 1
    I[e + E_CODEC_ROWS] += rows
    if I[H_TRACE] != 0:
        worker = w - g * I[H_WORKERS]
        trace.note(F, I, trace.CODEC, worker, g, (rows, 0, 0, 0), F[v + V_START], t, 0.0, 0.0)
    F[I[OF_ENGINE] + g * NGF + G_BUSY_CODEC] += observed(F, F[v + V_START], t)
    for i in range(rows):
        s = I[I[O_ROWS] + w * I[H_CAP] + i]
        o = I[O_STREAM] + s * NSI
        if I[o + S_ABORT] != 0:
            I[o + S_INQ] = 0
            maybe_free(F, I, s, t)
            continue
        deliver(F, I, s, t, rows, F[v + V_LOST])
        if I[o + S_INQ] == 2:
            I[o + S_INQ] = 0
            if I[o + S_READY] > I[o + S_SENT]:
                enqueue(F, I, s, t)
    reshare(F, I, g, t)
    dispatch(F, I, g, t, False)
