"""Continuous batching: what a step boundary of one engine does (vLLM V1's scheduler).

Streams that decode advance in lockstep, one token a step, so nothing is touched that does not
change: a stream is found again only at the step that fills its next chunk (a ring of buckets by
step number), and the KV blocks that a step takes are counted by residue of the step number.
"""

from voicesim.engine.kernel.codec import chunk_ready, chunk_tokens, dispatch, observed, reshare
from voicesim.engine.kernel.jit import adopt, compiled
from voicesim.engine.kernel.lists import append, prepend, remove
from voicesim.engine.kernel.schedule import (
    compute_at,
    gpu_seconds,
    host_seconds,
    step_seconds,
)
from voicesim.engine.kernel.session import maybe_free
from voicesim.engine.layout import *
from voicesim.workload import rng

hash_key = adopt(rng.hash_key)
table_index = adopt(rng.table_index)


@compiled
def blocks_for(I, tokens):
    return (tokens + I[H_BLOCK] - 1) // I[H_BLOCK]


@compiled
def release(I, g, s, computed):
    """The stream gives its blocks back, a shared prefix only if nobody else holds it."""
    o = I[O_STREAM] + s * NSI
    e = I[O_ENGINE] + g * NEI
    I[e + E_FREE] += blocks_for(I, computed) - I[o + S_SHARED]
    if I[o + S_SHARED] > 0:
        I[e + E_REFS] -= 1
        if I[e + E_REFS] == 0:
            I[e + E_FREE] += I[o + S_SHARED]
        I[o + S_SHARED] = 0


@compiled
def hold_prefix(I, g, s):
    """The stream refers to the blocks of the shared prefix from now on."""
    I[I[O_STREAM] + s * NSI + S_SHARED] = I[H_PREFIX] // I[H_BLOCK]
    I[I[O_ENGINE] + g * NEI + E_REFS] += 1


@compiled
def set_due(I, s):
    """Put the stream into the bucket of the step at which it must be looked at again."""
    o0 = I[O_STREAM]
    o = o0 + s * NSI
    g = I[o + S_ENGINE]
    ring = I[H_RING]
    step = I[I[O_ENGINE] + g * NEI + E_STEP]
    ahead = I[o + S_DUE] - (step - I[o + S_OFF])
    if ahead > ring - 1:
        ahead = ring - 1
    place = g * ring + ((step + ahead) & (ring - 1))
    I[o + S_BUCKET] = place  # within the section: the arena may move
    bucket = I[O_RINGS] + place
    a = -1
    b = I[bucket]
    while b >= 0 and I[o0 + b * NSI + S_SEQ] < I[o + S_SEQ]:
        a = b
        b = I[o0 + b * NSI + S_BNEXT]
    I[o + S_BPREV] = a
    I[o + S_BNEXT] = b
    if a < 0:
        I[bucket] = s
    else:
        I[o0 + a * NSI + S_BNEXT] = s
    if b >= 0:
        I[o0 + b * NSI + S_BPREV] = s


@compiled
def clear_due(I, s):
    o0 = I[O_STREAM]
    o = o0 + s * NSI
    a = I[o + S_BPREV]
    b = I[o + S_BNEXT]
    if a < 0:
        I[I[O_RINGS] + I[o + S_BUCKET]] = b
    else:
        I[o0 + a * NSI + S_BNEXT] = b
    if b >= 0:
        I[o0 + b * NSI + S_BPREV] = a
    I[o + S_BUCKET] = -1


@compiled
def residue(I, o):
    """Residue of the step numbers at which the stream takes a new KV block."""
    block = I[H_BLOCK]
    r = (I[o + S_OFF] + 1 - I[o + S_PROMPT]) % block
    return r + block if r < 0 else r


@compiled
def join_lockstep(I, g, s):
    """The last prompt token is in: from now on the stream decodes one token a step."""
    o = I[O_STREAM] + s * NSI
    e = I[O_ENGINE] + g * NEI
    I[o + S_STATE] = DECODING
    I[o + S_OFF] = I[e + E_STEP] - I[o + S_GEN]
    I[e + E_DECODING] += 1
    I[e + E_CONTEXT] += I[o + S_PROMPT] + I[o + S_GEN] - 1
    I[I[O_NEED] + g * I[H_BLOCK] + residue(I, o)] += 1


@compiled
def leave_lockstep(I, g, s):
    """Take a decoding stream out of the sums; its generated tokens are written down."""
    o = I[O_STREAM] + s * NSI
    e = I[O_ENGINE] + g * NEI
    I[o + S_GEN] = I[e + E_STEP] - I[o + S_OFF]
    I[e + E_DECODING] -= 1
    computed = I[o + S_PROMPT] + I[o + S_GEN] - 1
    I[e + E_CONTEXT] -= computed
    I[I[O_NEED] + g * I[H_BLOCK] + residue(I, o)] -= 1
    release(I, g, s, computed)


@compiled
def leave_running(I, g, s):
    e = I[O_ENGINE] + g * NEI
    remove(I, e + E_RUN_HEAD, e + E_RUN_TAIL, S_NEXT, S_PREV, s)
    I[e + E_RUNNING] -= 1
    if I[e + E_PARTIAL] == s:
        I[e + E_PARTIAL] = -1


@compiled
def token_sampled(F, I, g, s, t):
    """The stream has reached S_DUE tokens: a chunk is full, and perhaps the stream is over."""
    o = I[O_STREAM] + s * NSI
    e = I[O_ENGINE] + g * NEI
    due = I[o + S_DUE]
    I[o + S_READY_TOK] = due
    over = due == I[o + S_TOKENS]
    if over and I[H_OVERLAP] == 0:
        leave_lockstep(I, g, s)
        leave_running(I, g, s)
        I[o + S_STATE] = GENERATED
    elif over:
        # the end of the stream is seen one step late: that step still pays for it
        I[o + S_STATE] = ZOMBIE
        I[o + S_DUE] = due + 1
        set_due(I, s)
    else:
        I[o + S_DUE] = due + chunk_tokens(I, s, I[o + S_READY] + 1, due, I[o + S_TOKENS])
        set_due(I, s)
    I[e + E_CHUNKS] += 1
    chunk_ready(F, I, s, t)


@compiled
def end_zombie(F, I, g, s, t):
    o = I[O_STREAM] + s * NSI
    leave_lockstep(I, g, s)
    leave_running(I, g, s)
    I[o + S_STATE] = GENERATED
    if I[o + S_SENT_TOK] == I[o + S_TOKENS] or I[o + S_ABORT] != 0:
        maybe_free(F, I, s, t)


@compiled
def step_end(F, I, g, t):
    """A step of engine g ends at t: tokens, chunks, completions; then the next step begins."""
    e = I[O_ENGINE] + g * NEI
    x = I[OF_ENGINE] + g * NGF
    o0 = I[O_STREAM]
    account_step(F, I, g, t)
    I[e + E_STEP] += 1
    I[e + E_PHASE] = I[e + E_PHASE] + 1 if I[e + E_PHASE] + 1 < I[H_BLOCK] else 0
    I[e + E_CHUNKS] = 0
    if I[e + E_ABORTS] > 0:
        drop_aborted(F, I, g, t)
    bucket = I[O_RINGS] + g * I[H_RING] + (I[e + E_STEP] & (I[H_RING] - 1))
    s = I[bucket]
    I[bucket] = -1
    while s >= 0:
        o = o0 + s * NSI
        after = I[o + S_BNEXT]
        I[o + S_BUCKET] = -1
        if I[o + S_DUE] > I[e + E_STEP] - I[o + S_OFF]:
            set_due(I, s)  # farther away than the ring is long
        elif I[o + S_STATE] == ZOMBIE:
            end_zombie(F, I, g, s, t)
        else:
            token_sampled(F, I, g, s, t)
        s = after
    end_prefills(F, I, g, t)
    F[x + G_BOUNDARY] = F[x + G_START]
    I[e + E_STEPPING] = 0
    begin_step(F, I, g, t)
    reshare(F, I, g, t)
    dispatch(F, I, g, t, False)


@compiled
def account_step(F, I, g, t):
    x = I[OF_ENGINE] + g * NGF
    wall = t - F[x + G_START]
    if wall > 0.0:
        seen = observed(F, F[x + G_START], t) / wall
        F[x + G_BUSY_GPU] += F[x + G_GPU] * seen
        F[x + G_BUSY_HOST] += F[x + G_HOST] * seen
        F[x + G_STRETCH] += 0.0625 * (wall / F[x + G_SOLO] - F[x + G_STRETCH])


@compiled
def drop_aborted(F, I, g, t):
    """Cancelled streams leave at the step boundary; the step in flight has paid for them."""
    e = I[O_ENGINE] + g * NEI
    o0 = I[O_STREAM]
    I[e + E_ABORTS] = 0
    s = I[e + E_RUN_HEAD]
    while s >= 0:
        o = o0 + s * NSI
        after = I[o + S_NEXT]
        if I[o + S_ABORT] != 0 and I[o + S_STATE] == DECODING and I[H_OVERLAP] != 0:
            # the next step is planned already, with this stream in it
            clear_due(I, s)
            I[o + S_STATE] = ZOMBIE
            I[o + S_DUE] = I[e + E_STEP] - I[o + S_OFF] + 1
            I[H_DISCARDED] += I[o + S_DUE] - 1
            set_due(I, s)
        elif I[o + S_ABORT] != 0 and I[o + S_STATE] != ZOMBIE:
            if I[o + S_STATE] == DECODING:
                clear_due(I, s)
                leave_lockstep(I, g, s)
            else:
                I[o + S_COMPUTED] += I[o + S_PLANNED]
                release(I, g, s, I[o + S_COMPUTED])
                I[o + S_PLANNED] = 0
                unlink_prefill(I, e, s)
            leave_running(I, g, s)
            I[o + S_STATE] = GENERATED
            I[H_DISCARDED] += I[o + S_GEN]
            maybe_free(F, I, s, t)
        s = after


@compiled
def unlink_prefill(I, e, s):
    o0 = I[O_STREAM]
    if I[e + E_FIRST_PREFILL] == s:
        I[e + E_FIRST_PREFILL] = I[o0 + s * NSI + S_BNEXT]
        return
    p = I[e + E_FIRST_PREFILL]
    while p >= 0:
        b = I[o0 + p * NSI + S_BNEXT]
        if b == s:
            I[o0 + p * NSI + S_BNEXT] = I[o0 + s * NSI + S_BNEXT]
            return
        p = b


@compiled
def end_prefills(F, I, g, t):
    """Prompt chunks of the step are computed; a finished prompt samples its next token."""
    e = I[O_ENGINE] + g * NEI
    o0 = I[O_STREAM]
    s = I[e + E_FIRST_PREFILL]
    I[e + E_FIRST_PREFILL] = -1
    while s >= 0:
        o = o0 + s * NSI
        after = I[o + S_BNEXT]
        I[o + S_COMPUTED] += I[o + S_PLANNED]
        I[o + S_PLANNED] = 0
        if I[o + S_COMPUTED] == I[o + S_PROMPT] + I[o + S_GEN]:
            I[e + E_PARTIAL] = -1
            I[H_STREAM_STEPS] += 1
            I[o + S_GEN] += 1
            join_lockstep(I, g, s)
            if I[o + S_DUE] == 0:
                I[o + S_DUE] = chunk_tokens(I, s, 0, 0, I[o + S_TOKENS])
            if I[o + S_GEN] == I[o + S_DUE]:
                token_sampled(F, I, g, s, t)
            else:
                set_due(I, s)
        else:
            I[e + E_PARTIAL] = s
        s = after


@compiled
def first_in_line(I, e):
    """Order of admission: first come, first served; the preempted are at the head."""
    return I[e + E_WAIT_HEAD]


@compiled
def admit_need(I, whole, now):
    """Tokens whose KV blocks must be free: the whole current sequence, or this chunk."""
    return whole if I[H_RESERVE] != 0 else now


@compiled
def victim(I, e):
    """Who gives way when the KV cache is full: the most recently admitted."""
    return I[e + E_RUN_TAIL]


@compiled
def preempt(F, I, g, t, s):
    """Stream s gives its blocks back, goes to the head of the line and will be recomputed."""
    e = I[O_ENGINE] + g * NEI
    o = I[O_STREAM] + s * NSI
    state = I[o + S_STATE]
    if state == PREFILLING:
        release(I, g, s, I[o + S_COMPUTED])
        lost = I[o + S_COMPUTED]
    else:
        clear_due(I, s)
        leave_lockstep(I, g, s)
        lost = I[o + S_PROMPT] + I[o + S_GEN] - 1
    if lost > I[o + S_ONCE]:
        I[o + S_ONCE] = lost
    leave_running(I, g, s)
    if state == ZOMBIE:
        I[o + S_STATE] = GENERATED
        if I[o + S_SENT_TOK] == I[o + S_TOKENS] or I[o + S_ABORT] != 0:
            maybe_free(F, I, s, t)
        return s
    I[o + S_COMPUTED] = 0
    I[o + S_STATE] = WAITING
    I[o + S_PREEMPTS] += 1
    I[H_PREEMPTIONS] += 1
    prepend(I, e + E_WAIT_HEAD, e + E_WAIT_TAIL, S_NEXT, S_PREV, s)
    I[e + E_WAITING] += 1
    return s


@compiled
def take_decode_blocks(F, I, g, t):
    """Blocks for the decoding streams in list order; True if a stream had to be preempted."""
    e = I[O_ENGINE] + g * NEI
    block = I[H_BLOCK]
    need = I[I[O_NEED] + g * block + I[e + E_PHASE]]
    if need <= I[e + E_FREE]:
        I[e + E_FREE] -= need
        return False
    preempted = False
    taken = 0
    s = I[e + E_RUN_HEAD]
    while s >= 0:
        o = I[O_STREAM] + s * NSI
        if I[o + S_STATE] == PREFILLING:
            break
        computed = I[o + S_PROMPT] + (I[e + E_STEP] - I[o + S_OFF]) - 1
        if computed % block == 0:
            gone = False
            while I[e + E_FREE] - taken == 0 and not gone:
                preempted = True
                gone = preempt(F, I, g, t, victim(I, e)) == s
            if gone:
                break
            taken += 1
        s = I[o + S_NEXT]
    I[e + E_FREE] -= taken
    return preempted


@compiled
def take_partial(F, I, g, t, budget):
    """The prompt that the last step left unfinished goes on; True if it was preempted."""
    e = I[O_ENGINE] + g * NEI
    s = I[e + E_PARTIAL]
    o = I[O_STREAM] + s * NSI
    computed = I[o + S_COMPUTED]
    n = I[o + S_PROMPT] + I[o + S_GEN] - computed
    if n > budget:
        n = budget
    if blocks_for(I, computed + n) - blocks_for(I, computed) > I[e + E_FREE]:
        preempt(F, I, g, t, victim(I, e))
        return True
    plan_prefill(I, g, s, n)
    return False


@compiled
def plan_prefill(I, g, s, n):
    o0 = I[O_STREAM]
    o = o0 + s * NSI
    e = I[O_ENGINE] + g * NEI
    computed = I[o + S_COMPUTED]
    I[e + E_FREE] -= blocks_for(I, computed + n) - blocks_for(I, computed)
    I[o + S_PLANNED] = n
    I[o + S_BNEXT] = -1
    if I[e + E_FIRST_PREFILL] < 0:
        I[e + E_FIRST_PREFILL] = s
    else:
        p = I[e + E_FIRST_PREFILL]
        while I[o0 + p * NSI + S_BNEXT] >= 0:
            p = I[o0 + p * NSI + S_BNEXT]
        I[o0 + p * NSI + S_BNEXT] = s
    if I[H_PREFIX] > 0 and I[e + E_CACHED] == 0 and computed + n >= I[H_PREFIX]:
        I[e + E_CACHED] = 1  # as vLLM: a block can be hit once it is allocated
        hold_prefix(I, g, s)
    I[H_PREFILL_TOKENS] += n
    again = I[o + S_ONCE] - computed
    if again > 0:
        I[H_RECOMPUTED] += again if again < n else n


@compiled
def admit_waiting(F, I, g, t, budget, idle):
    """Head-of-line admission at the step boundary (never preempts, never skips the head)."""
    e = I[O_ENGINE] + g * NEI
    o0 = I[O_STREAM]
    boundary = F[I[OF_ENGINE] + g * NGF + G_BOUNDARY]
    while I[e + E_WAITING] > 0 and budget > 0 and I[e + E_RUNNING] < I[H_MAX_SEQS]:
        s = first_in_line(I, e)
        o = o0 + s * NSI
        # overlapped: scheduled while the step before was running, blind to later arrivals
        late = F[I[OF_STREAM] + s * NSF + X_ENQUEUED] > boundary
        if I[H_OVERLAP] != 0 and not idle and late:
            break
        whole = I[o + S_PROMPT] + I[o + S_GEN]
        shared = I[H_PREFIX] if I[e + E_CACHED] != 0 else 0
        hit = shared if shared > I[o + S_HIT] else I[o + S_HIT]
        n = whole - hit
        if n > budget:
            n = budget
        held = shared // I[H_BLOCK] if I[e + E_REFS] > 0 else 0
        if blocks_for(I, admit_need(I, whole, hit + n)) - held > I[e + E_FREE]:
            break
        remove(I, e + E_WAIT_HEAD, e + E_WAIT_TAIL, S_NEXT, S_PREV, s)
        I[e + E_WAITING] -= 1
        append(I, e + E_RUN_HEAD, e + E_RUN_TAIL, S_NEXT, S_PREV, s)
        I[e + E_RUNNING] += 1
        I[o + S_STATE] = PREFILLING
        I[H_SEQ] += 1
        I[o + S_SEQ] = I[H_SEQ]
        I[o + S_COMPUTED] = hit
        if hit > 0:
            # blocks of its own history are taken again; those of the shared prefix once
            I[e + E_FREE] -= blocks_for(I, hit) - shared // I[H_BLOCK]
            I[H_HITS] += hit
        if shared > 0:
            if I[e + E_REFS] == 0:
                I[e + E_FREE] -= shared // I[H_BLOCK]
            hold_prefix(I, g, s)
        plan_prefill(I, g, s, n)
        budget -= n


@compiled
def begin_step(F, I, g, t):
    """vLLM's schedule(): running streams first, then the waiting; and the step starts."""
    e = I[O_ENGINE] + g * NEI
    x = I[OF_ENGINE] + g * NGF
    o0 = I[O_STREAM]
    idle = I[e + E_RUNNING] == 0
    preempted = False
    if I[e + E_DECODING] > 0:
        preempted = take_decode_blocks(F, I, g, t)
    decodes = I[e + E_DECODING]
    if I[e + E_PARTIAL] >= 0:
        preempted = take_partial(F, I, g, t, I[H_BUDGET] - decodes) or preempted
    if not preempted and I[e + E_WAITING] > 0:
        left = I[H_BUDGET] - decodes
        if I[e + E_PARTIAL] >= 0:
            left -= I[o0 + I[e + E_PARTIAL] * NSI + S_PLANNED]
        admit_waiting(F, I, g, t, left, idle)
    I[e + E_GAUGE] = I[e + E_WAITING]  # num_requests_waiting is set once a step, after scheduling
    tokens = decodes
    kv = I[e + E_CONTEXT] + decodes
    pairs = float(kv)
    encode = 0.0
    s = I[e + E_FIRST_PREFILL]
    while s >= 0:
        o = o0 + s * NSI
        n = I[o + S_PLANNED]
        tokens += n
        kv += I[o + S_COMPUTED] + n
        pairs += n * (I[o + S_COMPUTED] + 0.5 * (n + 1))
        encode = encode + F[I[OF_STREAM] + s * NSF + X_ENCODE]  # images, before their prompt
        F[I[OF_STREAM] + s * NSF + X_ENCODE] = 0.0
        s = I[o + S_BNEXT]
    if tokens == 0:
        if preempted:
            I[e + E_KICK] = 1
            F[x + G_KICK] = t
        return
    I[e + E_CONTEXT] += decodes
    I[H_STEPS] += 1
    I[H_STREAM_STEPS] += decodes
    if I[e + E_RUNNING] > I[H_MAX_BATCH]:
        I[H_MAX_BATCH] = I[e + E_RUNNING]
    gpu = gpu_seconds(F, compute_at(F, I, tokens), float(kv), pairs) + encode
    host = host_seconds(F, float(I[e + E_RUNNING]), float(I[e + E_CHUNKS]))
    noise = 1.0
    if I[H_NOISE] != 0:
        key = hash_key(I[H_SEED], P_STEP_NOISE, g, I[e + E_STEP])
        noise = F[I[OF_NOISE] + table_index(key)]
    seconds = step_seconds(F, gpu, host) * noise
    I[e + E_STEPPING] = 1
    F[x + G_START] = t
    F[x + G_GPU] = gpu * noise
    F[x + G_HOST] = host * noise
    F[x + G_SOLO] = seconds
    F[x + G_REM] = seconds
    F[x + G_SINCE] = t
    F[x + G_SLOW] = 1.0
    F[x + G_END] = t + seconds


@compiled
def kick(F, I, g, t):
    """An idle engine has work."""
    e = I[O_ENGINE] + g * NEI
    I[e + E_KICK] = 0
    if I[e + E_STEPPING] == 0:
        I[e + E_CHUNKS] = 0
        begin_step(F, I, g, t)
        reshare(F, I, g, t)
