"""Continuous batching: what a step boundary of one engine does.

Streams that decode advance in lockstep, one token a step, so nothing is touched that does not
change: a stream is found again only at the step that fills its next chunk (a ring of buckets by
step number), and the KV blocks that a step takes are counted by residue of the step number.  The
step number E_STEP is the clock of the lockstep: it stands still in a step of prompts alone.

The kinds of engine differ in ``admits``, ``first_in_line``, ``requeue``, ``victim`` and
``prompts_due``, which ``begin_step`` asks where prompts have steps of their own.
"""

from voicesim.engine import kinds
from voicesim.engine.blame import FOUND, NSB
from voicesim.engine.kernel import trace
from voicesim.engine.kernel.blame import (
    goes_on,
    joined,
    pauses,
    step_begins,
    step_ends,
    thrown_out,
)
from voicesim.engine.kernel.codec import (
    chunk_ready,
    dispatch,
    lose,
    next_chunk,
    observed,
    reshare,
)
from voicesim.engine.kernel.jit import adopt, compiled, moved
from voicesim.engine.kernel.lists import append, prepend, push_timer, remove
from voicesim.engine.kernel.schedule import (
    compute_at,
    gpu_seconds,
    host_phase,
    host_seconds,
    step_seconds,
)
from voicesim.engine.kernel.session import free_row, maybe_free, touch, uniform, wake
from voicesim.engine.kinds import DECODE_FIRST, MAX_UTILIZATION, NO_EVICT, SGLANG
from voicesim.engine.layout import *
from voicesim.listener.player import PLAYING
from voicesim.policy.admission import SLACK
from voicesim.workload import rng

hash_on = adopt(rng.hash_on)
table_index = adopt(rng.table_index)
holds_whole = adopt(kinds.holds_whole)
declared = adopt(kinds.declared)
future = adopt(kinds.future)
next_ratio = adopt(kinds.next_ratio)
ratio_after_retraction = adopt(kinds.ratio_after_retraction)


@compiled
def blocks_for(I, c, tokens):
    return (tokens + I[c + H_BLOCK] - 1) // I[c + H_BLOCK]


@compiled
def release(I, g, s, computed):
    """The stream gives its blocks back, a shared prefix only if nobody else holds it."""
    o = I[O_STREAM] + s * NSI
    e = I[O_ENGINE] + g * NEI
    c = I[e + E_CLASS]
    I[e + E_FREE] += blocks_for(I, c, computed) - I[o + S_SHARED]
    if I[o + S_SHARED] > 0:
        I[e + E_REFS] -= 1
        if I[e + E_REFS] == 0:
            I[e + E_FREE] += I[o + S_SHARED]
        I[o + S_SHARED] = 0


@compiled
def hold_prefix(I, g, s):
    """The stream refers to the blocks of the shared prefix from now on."""
    c = I[I[O_ENGINE] + g * NEI + E_CLASS]
    I[I[O_STREAM] + s * NSI + S_SHARED] = I[c + H_PREFIX] // I[c + H_BLOCK]
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
def residue(I, c, o):
    """Residue of the step numbers at which the stream takes a new KV block."""
    block = I[c + H_BLOCK]
    r = (I[o + S_OFF] + 1 - I[o + S_PROMPT]) % block
    return r + block if r < 0 else r


@compiled
def join_lockstep(I, g, s):
    """The last prompt token is in: from now on the stream decodes one token a step."""
    o = I[O_STREAM] + s * NSI
    e = I[O_ENGINE] + g * NEI
    c = I[e + E_CLASS]
    I[o + S_STATE] = DECODING
    I[o + S_OFF] = I[e + E_STEP] - I[o + S_GEN]
    I[e + E_DECODING] += 1
    I[e + E_CONTEXT] += I[o + S_PROMPT] + I[o + S_GEN] - 1
    I[I[O_NEED] + g * I[H_NEEDS] + residue(I, c, o)] += 1


@compiled
def leave_lockstep(I, g, s):
    """Take a decoding stream out of the sums; its generated tokens are written down.

    Returns the tokens whose blocks it holds.
    """
    o = I[O_STREAM] + s * NSI
    e = I[O_ENGINE] + g * NEI
    c = I[e + E_CLASS]
    I[o + S_GEN] = I[e + E_STEP] - I[o + S_OFF]
    I[e + E_DECODING] -= 1
    computed = I[o + S_PROMPT] + I[o + S_GEN] - 1
    I[e + E_CONTEXT] -= computed
    I[I[O_NEED] + g * I[H_NEEDS] + residue(I, c, o)] -= 1
    return computed


@compiled
def finish(F, I, g, s, t):
    """A stream that has all its tokens leaves the engine; what it held is free, unless its caller
    left the session open (vLLM's streaming input: the KV stays until the idle timeout)."""
    c = I[I[O_ENGINE] + g * NEI + E_CLASS]
    k = I[I[O_ENGINE] + g * NEI + E_COST]
    o = I[O_STREAM] + s * NSI
    computed = leave_lockstep(I, g, s)
    leave_running(I, g, s)
    I[o + S_STATE] = GENERATED
    left_open = I[c + H_LEAVES_OPEN] != 0 and I[o + S_ABORT] == 0
    if left_open and uniform(I, P_LEFT_OPEN, I[o + S_UTT], 0) < F[k + K_LEFT_OPEN]:
        if F[k + K_IDLE] < 1e300:
            I[o + S_LEFT] = 1 + I[I[O_ENGINE] + g * NEI + E_EPOCH]
            push_timer(F, I, t + F[k + K_IDLE], T_IDLE, s)
    else:
        release(I, g, s, computed)


@compiled
def idle_timeout(F, I, s, t):
    """A session that was left open is closed: its blocks are free, and who waits may start."""
    o = I[O_STREAM] + s * NSI
    g = I[o + S_ENGINE]
    e = I[O_ENGINE] + g * NEI
    still_there = I[o + S_LEFT] == 1 + I[e + E_EPOCH]
    if still_there:
        release(I, g, s, I[o + S_PROMPT] + I[o + S_GEN] - 1)
    I[o + S_LEFT] = 0
    if I[o + S_STATE] == FREE:
        free_row(I, s)
    if not still_there:  # the replica has lost its memory since
        return
    waits = I[e + E_WAITING] > 0 or I[e + E_RUNNING] > 0
    if waits and I[e + E_STEPPING] == 0:
        wake(F, I, g, t)
        touch(F, I, g)


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
    c = I[e + E_CLASS]
    due = I[o + S_DUE]
    I[o + S_READY_TOK] = due
    over = due == I[o + S_TOKENS]
    if over and I[c + H_OVERLAP] == 0:
        finish(F, I, g, s, t)
    elif over:
        # the end of the stream is seen one step late: that step still pays for it
        I[o + S_STATE] = ZOMBIE
        I[o + S_DUE] = due + 1
        set_due(I, s)
    else:
        I[o + S_DUE] = due + next_chunk(I, s, I[o + S_READY] + 1, due)
        set_due(I, s)
    I[e + E_CHUNKS] += 1
    chunk_ready(F, I, s, t)


@compiled
def end_zombie(F, I, g, s, t):
    o = I[O_STREAM] + s * NSI
    finish(F, I, g, s, t)
    if I[o + S_SENT_TOK] == I[o + S_TOKENS] or I[o + S_ABORT] != 0:
        maybe_free(F, I, s, t)


@compiled
def step_end(F, I, g, t):
    """A step of engine g ends at t: tokens, chunks, completions; then the next step begins."""
    e = I[O_ENGINE] + g * NEI
    c = I[e + E_CLASS]
    x = I[OF_ENGINE] + g * NGF
    lose(F, x + G_OTHERS, t, 1.0)
    if I[H_BLAME] != 0:
        step_ends(F, I, g, t)
        if I[H_TRACE] != 0:
            trace.note_step(F, I, g, t)
    account_step(F, I, g, t)
    I[e + E_STEPS] += 1
    I[e + E_CHUNKS] = 0
    paused = I[e + E_PAUSED] != 0
    if paused:
        end_late(F, I, g, t)
    else:
        I[e + E_STEP] += 1
        I[e + E_PHASE] = I[e + E_PHASE] + 1 if I[e + E_PHASE] + 1 < I[c + H_BLOCK] else 0
    if I[e + E_ABORTS] > 0:
        drop_aborted(F, I, g, t)
    if not paused and I[I[O_RINGS] + g * I[H_RING] + (I[e + E_STEP] & (I[H_RING] - 1))] >= 0:
        end_decodes(F, I, g, t)
    if I[e + E_FIRST_PREFILL] >= 0:
        end_prefills(F, I, g, t)
    F[x + G_BOUNDARY] = F[x + G_START]
    I[e + E_STEPPING] = AT_REST
    begin_step(F, I, g, t)
    reshare(F, I, g, t)
    dispatch(F, I, g, t, False)


@compiled
def end_decodes(F, I, g, t):
    """The decoding streams have a token more; those whose chunk is full are in this bucket."""
    e = I[O_ENGINE] + g * NEI
    o0 = I[O_STREAM]
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


@compiled
def end_late(F, I, g, t):
    """Streams whose end is seen late leave with a step of prompts alone, free of charge."""
    o0 = I[O_STREAM]
    step = I[I[O_ENGINE] + g * NEI + E_STEP] + 1
    s = I[I[O_RINGS] + g * I[H_RING] + (step & (I[H_RING] - 1))]
    while s >= 0:
        after = I[o0 + s * NSI + S_BNEXT]
        if I[o0 + s * NSI + S_STATE] == ZOMBIE:
            clear_due(I, s)
            end_zombie(F, I, g, s, t)
        s = after


@compiled
def account_step(F, I, g, t):
    """Busy seconds inside the observed window; and, where a policy asks, how far sharing stretches
    a step."""
    x = I[OF_ENGINE] + g * NGF
    start = F[x + G_START]
    wall = t - start
    if wall > 0.0:
        seen = 1.0
        if start < F[K_WARMUP] or t > F[K_HORIZON]:
            seen = observed(F, start, t) / wall
        F[x + G_BUSY_GPU] += F[x + G_GPU] * seen
        F[x + G_BUSY_HOST] += F[x + G_HOST] * seen
        if I[H_ADMIT] == SLACK or I[H_PYTHON] != 0:
            F[x + G_STRETCH] += 0.0625 * (wall / F[x + G_SOLO] - F[x + G_STRETCH])


@compiled
def drop_aborted(F, I, g, t):
    """Cancelled streams leave at the step boundary; the step in flight has paid for them."""
    e = I[O_ENGINE] + g * NEI
    c = I[e + E_CLASS]
    o0 = I[O_STREAM]
    I[e + E_ABORTS] = 0
    s = I[e + E_RUN_HEAD]
    while s >= 0:
        o = o0 + s * NSI
        after = I[o + S_NEXT]
        if I[o + S_ABORT] != 0 and I[o + S_STATE] == DECODING and I[c + H_OVERLAP] != 0:
            # the next step is planned already, with this stream in it
            clear_due(I, s)
            I[o + S_STATE] = ZOMBIE
            I[o + S_DUE] = I[e + E_STEP] - I[o + S_OFF] + 1
            I[H_DISCARDED] += I[o + S_DUE] - 1
            set_due(I, s)
        elif I[o + S_ABORT] != 0 and I[o + S_STATE] != ZOMBIE:
            if I[o + S_STATE] == DECODING:
                clear_due(I, s)
                release(I, g, s, leave_lockstep(I, g, s))
            elif I[o + S_STATE] == HELD:
                go_on(F, I, g, s)
                release(I, g, s, leave_lockstep(I, g, s))
            else:
                I[o + S_COMPUTED] += I[o + S_PLANNED]
                release(I, g, s, prefill_holds(I, c, s, I[o + S_COMPUTED]))
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
        if I[H_TRACE] != 0 and I[o + S_PLANNED] > 0:
            what = (I[o + S_PLANNED], I[o + S_COMPUTED], 0, 0)
            start = F[I[OF_ENGINE] + g * NGF + G_START]
            trace.note(F, I, trace.PREFILL, I[o + S_UTT], g, what, start, t, 0.0, 0.0)
        I[o + S_COMPUTED] += I[o + S_PLANNED]
        I[o + S_PLANNED] = 0
        if I[o + S_COMPUTED] == I[o + S_PROMPT] + I[o + S_GEN]:
            I[e + E_PARTIAL] = -1
            I[H_STREAM_STEPS] += 1
            I[o + S_GEN] += 1
            join_lockstep(I, g, s)
            if I[H_BLAME] != 0:
                joined(F, I, s, t)
            if I[o + S_DUE] == 0:
                I[o + S_DUE] = next_chunk(I, s, 0, 0)
            if I[o + S_GEN] == I[o + S_DUE]:
                token_sampled(F, I, g, s, t)
            else:
                set_due(I, s)
        else:
            I[e + E_PARTIAL] = s
        s = after


# --- the rules by which the kinds of engine differ --------------------------------------------


@compiled
def first_in_line(I, e):
    """Order of admission: first come, first served."""
    return I[e + E_WAIT_HEAD]


@compiled
def requeue(I, e, s):
    """A preempted stream waits at the head of the line; SGLang's goes to its end."""
    c = I[e + E_CLASS]
    if I[c + H_KIND] == SGLANG:
        append(I, e + E_WAIT_HEAD, e + E_WAIT_TAIL, S_NEXT, S_PREV, s)
    else:
        prepend(I, e + E_WAIT_HEAD, e + E_WAIT_TAIL, S_NEXT, S_PREV, s)
    I[e + E_WAITING] += 1


@compiled
def victim(I, g):
    """Who gives way when the KV cache is full: the most recently admitted; SGLang's has the fewest
    generated tokens, of these the longest prompt, of these it is the most recent."""
    e = I[O_ENGINE] + g * NEI
    c = I[e + E_CLASS]
    if I[c + H_KIND] != SGLANG:
        return I[e + E_RUN_TAIL]
    s = I[e + E_RUN_TAIL]
    chosen = s
    fewest = generated_tokens(I, e, s)
    while s >= 0:
        n = generated_tokens(I, e, s)
        longer = I[I[O_STREAM] + s * NSI + S_PROMPT] > I[I[O_STREAM] + chosen * NSI + S_PROMPT]
        if n < fewest or (n == fewest and longer):
            chosen = s
            fewest = n
        s = I[I[O_STREAM] + s * NSI + S_PREV]
    return chosen


@compiled
def admits(F, I, g, s, shared, upto):
    """Is there room in the KV cache to start stream s?

    shared: tokens of the shared prefix that it hits, upto: its tokens that are in after this step.
    vLLM wants blocks for the whole current sequence or for these; NO_EVICT for all that s and the
    running have declared; MAX_UTILIZATION for the whole current sequence; SGLang for the prompt,
    the declared tokens of s and a share of those of the running.
    """
    o = I[O_STREAM] + s * NSI
    e = I[O_ENGINE] + g * NEI
    c = I[e + E_CLASS]
    whole = I[o + S_PROMPT] + I[o + S_GEN]
    held = shared // I[c + H_BLOCK] if I[e + E_REFS] > 0 else 0
    if I[c + H_KIND] == SGLANG:
        own = future(declared_by(I, c, s), I[o + S_GEN])
        return whole - held * I[c + H_BLOCK] + own < expected_free(F, I, g)
    if I[c + H_KIND] == NO_EVICT:
        need = blocks_for(I, c, I[o + S_PROMPT] + I[c + H_MAXNEW]) + promised_blocks(I, g)
    elif I[c + H_RESERVE] != 0 or I[c + H_KIND] == MAX_UTILIZATION:
        need = blocks_for(I, c, whole)
    else:
        need = blocks_for(I, c, upto)
    return need - held <= I[e + E_FREE]


@compiled
def prompts_due(I, g):
    """Where prompts have steps of their own: is the next step to be one?

    SGLang: whenever one can start.  decode_first: when nobody decodes, or ``interleave`` decode
    steps after the last.
    """
    e = I[O_ENGINE] + g * NEI
    c = I[e + E_CLASS]
    if I[c + H_KIND] == DECODE_FIRST:
        waited = I[c + H_INTERLEAVE] > 0 and I[e + E_SINCE] >= I[c + H_INTERLEAVE]
        return I[e + E_DECODING] == 0 or waited
    return True


# --- what these rules count -------------------------------------------------------------------


@compiled
def generated_tokens(I, e, s):
    o = I[O_STREAM] + s * NSI
    if I[o + S_STATE] == PREFILLING:
        return I[o + S_GEN]
    return I[e + E_STEP] - I[o + S_OFF]


@compiled
def declared_by(I, c, s):
    prompt = I[I[O_STREAM] + s * NSI + S_PROMPT]
    return declared(prompt, I[c + H_MAXNEW], I[c + H_BLOCKS] * I[c + H_BLOCK])


@compiled
def promised_blocks(I, g):
    """Blocks that the running may still take until all have what they declared (NO_EVICT)."""
    e = I[O_ENGINE] + g * NEI
    c = I[e + E_CLASS]
    blocks = 0
    s = I[e + E_RUN_HEAD]
    while s >= 0:
        o = I[O_STREAM] + s * NSI
        holds = I[o + S_PROMPT] + generated_tokens(I, e, s)  # with this step's token
        blocks += blocks_for(I, c, I[o + S_PROMPT] + I[c + H_MAXNEW]) - blocks_for(I, c, holds)
        s = I[o + S_NEXT]
    return blocks


@compiled
def expected_free(F, I, g):
    """KV tokens that SGLang expects to remain: of what the decoding streams declared only a ratio
    is reserved, of those whose prompt ends in this step everything."""
    e = I[O_ENGINE] + g * NEI
    c = I[e + E_CLASS]
    guessed = 0
    sure = 0
    s = I[e + E_RUN_HEAD]
    while s >= 0:
        o = I[O_STREAM] + s * NSI
        more = future(declared_by(I, c, s), generated_tokens(I, e, s))
        if I[o + S_STATE] != PREFILLING:
            guessed += more
        elif I[o + S_COMPUTED] + I[o + S_PLANNED] == I[o + S_PROMPT] + I[o + S_GEN]:
            sure += more
        s = I[o + S_NEXT]
    free = I[e + E_FREE] * I[c + H_BLOCK] - sure
    return free - F[I[OF_ENGINE] + g * NGF + G_RATIO] * guessed


@compiled
def count_retraction(F, I, g):
    """SGLang's ratio after streams were sent back."""
    e = I[O_ENGINE] + g * NEI
    c = I[e + E_CLASS]
    generated = 0
    total = 0
    s = I[e + E_RUN_HEAD]
    while s >= 0:
        if I[I[O_STREAM] + s * NSI + S_STATE] != PREFILLING:
            generated += generated_tokens(I, e, s)
            total += declared_by(I, c, s)
        s = I[I[O_STREAM] + s * NSI + S_NEXT]
    ratio = ratio_after_retraction(generated, I[e + E_DECODING], total)
    F[I[OF_ENGINE] + g * NGF + G_RATIO] = ratio


@compiled
def prefill_holds(I, c, s, computed):
    """Tokens whose blocks a stream in prefill holds."""
    o = I[O_STREAM] + s * NSI
    return I[o + S_PROMPT] + I[o + S_GEN] if holds_whole(I[c + H_KIND]) else computed


@compiled
def take(I, e, blocks):
    """Blocks leave the free list.  All that ever left it are counted: what is behind in that list
    is overwritten later."""
    I[e + E_FREE] -= blocks
    I[e + E_TAKEN] += blocks


@compiled
def kept_blocks(I, e, s):
    """Full blocks of a preempted stream that nobody has overwritten yet, beyond the shared prefix.

    Freed blocks queue for use behind those free before them, the last of a stream first (vLLM)."""
    o = I[O_STREAM] + s * NSI
    gone = I[e + E_TAKEN] - I[o + S_MARK]
    left = I[o + S_KEPT] - (gone if gone > 0 else 0)
    return left if left > 0 else 0


# --- preemption -------------------------------------------------------------------------------


@compiled
def preempt(F, I, g, t, s):
    """Stream s gives its blocks back, waits again and will be recomputed."""
    e = I[O_ENGINE] + g * NEI
    c = I[e + E_CLASS]
    o = I[O_STREAM] + s * NSI
    state = I[o + S_STATE]
    free = I[e + E_FREE]
    if state == PREFILLING:
        lost = I[o + S_COMPUTED]
        release(I, g, s, prefill_holds(I, c, s, lost))
    elif state == HELD:
        go_on(F, I, g, s)
        lost = leave_lockstep(I, g, s)
        release(I, g, s, lost)
    else:
        clear_due(I, s)
        lost = leave_lockstep(I, g, s)
        release(I, g, s, lost)
    if lost > I[o + S_ONCE]:
        I[o + S_ONCE] = lost
    leave_running(I, g, s)
    if state == ZOMBIE:
        I[o + S_STATE] = GENERATED
        if I[o + S_SENT_TOK] == I[o + S_TOKENS] or I[o + S_ABORT] != 0:
            maybe_free(F, I, s, t)
        return s
    if I[c + H_KEEP] != 0:
        own = (lost - I[c + H_PREFIX]) // I[c + H_BLOCK]
        I[o + S_KEPT] = own if own > 0 else 0
        I[o + S_MARK] = I[e + E_TAKEN] + free
    if I[H_BLAME] != 0:
        thrown_out(F, I, s, t)
        if I[H_TRACE] != 0:
            trace.note(F, I, trace.PREEMPTED, I[o + S_UTT], g, (0, 0, 0, 0), t, t, 0.0, 0.0)
    I[o + S_COMPUTED] = 0
    I[o + S_STATE] = WAITING
    I[o + S_PREEMPTS] += 1
    I[H_PREEMPTIONS] += 1
    requeue(I, e, s)
    return s


@compiled
def take_decode_blocks(F, I, g, t):
    """Blocks for the decoding streams in list order; True if a stream had to be preempted."""
    e = I[O_ENGINE] + g * NEI
    c = I[e + E_CLASS]
    block = I[c + H_BLOCK]
    need = I[I[O_NEED] + g * I[H_NEEDS] + I[e + E_PHASE]]
    if need <= I[e + E_FREE]:
        take(I, e, need)
        return False
    if I[c + H_KIND] == SGLANG:
        return retract(F, I, g, t)
    preempted = False
    taken = 0
    s = I[e + E_RUN_HEAD]
    while s >= 0:
        o = I[O_STREAM] + s * NSI
        if I[o + S_STATE] == PREFILLING:
            break
        if I[o + S_STATE] == HELD:
            s = I[o + S_NEXT]
            continue
        computed = I[o + S_PROMPT] + (I[e + E_STEP] - I[o + S_OFF]) - 1
        if computed % block == 0:
            gone = False
            while I[e + E_FREE] - taken == 0 and not gone:
                preempted = True
                gone = preempt(F, I, g, t, victim(I, g)) == s
            if gone:
                break
            taken += 1
        s = I[o + S_NEXT]
    take(I, e, taken)
    return preempted


@compiled
def retract(F, I, g, t):
    """SGLang: streams are sent back until the next token of all others fits."""
    e = I[O_ENGINE] + g * NEI
    at = I[O_NEED] + g * I[H_NEEDS] + I[e + E_PHASE]
    while I[at] > I[e + E_FREE]:
        preempt(F, I, g, t, victim(I, g))
    take(I, e, I[at])
    count_retraction(F, I, g)
    return True


# --- prompts ----------------------------------------------------------------------------------


@compiled
def plan_prompts(F, I, g, t, budget, preempted, idle):
    """Prompt tokens of the step: the unfinished prompt first, then the waiting.  In a step that
    preempted nobody is admitted.  True if somebody was preempted."""
    e = I[O_ENGINE] + g * NEI
    s = I[e + E_PARTIAL]
    if s >= 0:
        preempted = take_partial(F, I, g, t, budget) or preempted
        if I[e + E_PARTIAL] >= 0:
            o = I[O_STREAM] + s * NSI
            budget -= I[o + S_PLANNED]
            if I[o + S_COMPUTED] + I[o + S_PLANNED] < I[o + S_PROMPT] + I[o + S_GEN]:
                budget = 0
    if not preempted and I[e + E_WAITING] > 0:
        admit_waiting(F, I, g, t, budget, idle)
    return preempted


@compiled
def take_partial(F, I, g, t, budget):
    """The prompt that the last step left unfinished goes on; True if it was preempted.

    SGLang's goes on as far as there is room.
    """
    e = I[O_ENGINE] + g * NEI
    c = I[e + E_CLASS]
    s = I[e + E_PARTIAL]
    o = I[O_STREAM] + s * NSI
    computed = I[o + S_COMPUTED]
    n = I[o + S_PROMPT] + I[o + S_GEN] - computed
    if n > budget:
        n = budget
    if I[c + H_KIND] == SGLANG:
        room = int(expected_free(F, I, g))
        if n > room:
            n = room if room > 0 else 0
        if n == 0:
            return False
    need = 0
    if not holds_whole(I[c + H_KIND]):
        need = blocks_for(I, c, computed + n) - blocks_for(I, c, computed)
    if need > I[e + E_FREE]:
        preempt(F, I, g, t, victim(I, g))
        return True
    plan_prefill(I, g, s, n, need)
    return False


@compiled
def plan_prefill(I, g, s, n, blocks):
    """The stream computes n prompt tokens in this step and takes so many blocks."""
    o0 = I[O_STREAM]
    o = o0 + s * NSI
    e = I[O_ENGINE] + g * NEI
    c = I[e + E_CLASS]
    computed = I[o + S_COMPUTED]
    take(I, e, blocks)
    I[o + S_PLANNED] = n
    I[o + S_BNEXT] = -1
    if I[e + E_FIRST_PREFILL] < 0:
        I[e + E_FIRST_PREFILL] = s
    else:
        p = I[e + E_FIRST_PREFILL]
        while I[o0 + p * NSI + S_BNEXT] >= 0:
            p = I[o0 + p * NSI + S_BNEXT]
        I[o0 + p * NSI + S_BNEXT] = s
    if I[c + H_PREFIX] > 0 and I[e + E_CACHED] == 0 and computed + n >= I[c + H_PREFIX]:
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
    c = I[e + E_CLASS]
    o0 = I[O_STREAM]
    boundary = F[I[OF_ENGINE] + g * NGF + G_BOUNDARY]
    while I[e + E_WAITING] > 0 and budget > 0 and I[e + E_FULL] == 0:
        if I[e + E_RUNNING] >= I[c + H_MAX_SEQS]:
            stay_full(I, e)
            break
        s = first_in_line(I, e)
        o = o0 + s * NSI
        # overlapped: scheduled while the step before was running, blind to later arrivals
        late = F[I[OF_STREAM] + s * NSF + X_ENQUEUED] > boundary
        if I[c + H_OVERLAP] != 0 and not idle and late:
            break
        whole = I[o + S_PROMPT] + I[o + S_GEN]
        shared = I[c + H_PREFIX] if I[e + E_CACHED] != 0 else 0
        hit = shared if shared > I[o + S_HIT] else I[o + S_HIT]
        if I[o + S_KEPT] > 0:
            own = shared + kept_blocks(I, e, s) * I[c + H_BLOCK]
            hit = own if own > hit else hit
        n = whole - hit
        if n > budget:
            n = budget
        if not admits(F, I, g, s, shared, hit + n):
            stay_full(I, e)
            break
        remove(I, e + E_WAIT_HEAD, e + E_WAIT_TAIL, S_NEXT, S_PREV, s)
        I[e + E_WAITING] -= 1
        append(I, e + E_RUN_HEAD, e + E_RUN_TAIL, S_NEXT, S_PREV, s)
        I[e + E_RUNNING] += 1
        I[o + S_STATE] = PREFILLING
        I[H_SEQ] += 1
        I[o + S_SEQ] = I[H_SEQ]
        if hit > 0:
            # blocks of its own history are taken again; those of the shared prefix once
            take(I, e, blocks_for(I, c, hit) - shared // I[c + H_BLOCK])
            I[H_HITS] += hit
        if shared > 0:
            if I[e + E_REFS] == 0:
                take(I, e, shared // I[c + H_BLOCK])
            hold_prefix(I, g, s)
        I[o + S_KEPT] = 0
        I[o + S_COMPUTED] = hit
        if I[H_BLAME] != 0:
            F[I[OF_BLAME] + s * NSB + FOUND] = hit
        upto = prefill_holds(I, c, s, hit + n)
        plan_prefill(I, g, s, n, blocks_for(I, c, upto) - blocks_for(I, c, hit))
        budget -= n


@compiled
def stay_full(I, e):
    """SGLang does not look at the waiting again before the batch has shrunk (batch_is_full)."""
    c = I[e + E_CLASS]
    if I[c + H_KIND] == SGLANG:
        I[e + E_FULL] = I[e + E_RUNNING]


# --- lead pacing ------------------------------------------------------------------------------


@compiled
def needed_from(F, I, k, s):
    """When the listener of stream s has no more than ``pace`` seconds in hand, of the chunks that
    have left the server: the frames in the codec are no lead yet."""
    x = I[OF_STREAM] + s * NSF
    if I[I[O_STREAM] + s * NSI + S_MODE] < PLAYING:
        return F[x + X_REQUEST]
    return F[x + X_PLAY_END] - F[k + K_PACE]


@compiled
def pace(F, I, g, t):
    """Streams that are ahead of their listeners pause: their KV stays, their slot is free.  Those
    that are needed again go on, the nearest to silence first, but not in slots kept for starts
    (https://github.com/sgl-project/sglang-omni/pull/1903)."""
    e = I[O_ENGINE] + g * NEI
    c = I[e + E_CLASS]
    k = I[e + E_COST]
    o0 = I[O_STREAM]
    s = I[e + E_RUN_HEAD]
    while s >= 0:
        if I[o0 + s * NSI + S_STATE] == DECODING and needed_from(F, I, k, s) > t:
            clear_due(I, s)
            leave_lockstep(I, g, s)
            I[o0 + s * NSI + S_STATE] = HELD
            I[e + E_RUNNING] -= 1
            I[e + E_HELD] += 1
            if I[H_BLAME] != 0:
                pauses(F, I, s, t)
        s = I[o0 + s * NSI + S_NEXT]
    while I[e + E_HELD] > 0:
        if I[e + E_RUNNING] >= I[c + H_MAX_SEQS] - I[c + H_STARTS]:
            break
        s = first_held(F, I, e)
        if needed_from(F, I, k, s) > t:
            break
        go_on(F, I, g, s)
        set_due(I, s)


@compiled
def first_held(F, I, e):
    """Of the paused streams the one that is needed first."""
    k = I[e + E_COST]
    o0 = I[O_STREAM]
    first = -1
    s = I[e + E_RUN_HEAD]
    while s >= 0:
        held = I[o0 + s * NSI + S_STATE] == HELD
        if held and (first < 0 or needed_from(F, I, k, s) < needed_from(F, I, k, first)):
            first = s
        s = I[o0 + s * NSI + S_NEXT]
    return first


@compiled
def go_on(F, I, g, s):
    """A paused stream is back in the lockstep, with the tokens and the KV that it had."""
    e = I[O_ENGINE] + g * NEI
    I[e + E_HELD] -= 1
    I[e + E_RUNNING] += 1
    join_lockstep(I, g, s)
    if I[H_BLAME] != 0:
        goes_on(F, I, s)


# --- the step ---------------------------------------------------------------------------------


@compiled
def begin_step(F, I, g, t):
    """schedule(): who computes what in the next step; and the step starts.

    Mixed: decodes first, prompts in what they leave of the budget.  Else a step has prompts alone
    when they are due and one can go on or start, and otherwise decodes alone.
    """
    e = I[O_ENGINE] + g * NEI
    c = I[e + E_CLASS]
    k = I[e + E_COST]
    x = I[OF_ENGINE] + g * NGF
    o0 = I[O_STREAM]
    if I[c + H_PACED] != 0:
        pace(F, I, g, t)
    idle = I[e + E_RUNNING] == 0
    preempted = False
    mixes = I[c + H_MIXES] != 0
    if idle:
        I[e + E_FULL] = 0
    asked = I[e + E_PARTIAL] >= 0 or I[e + E_WAITING] > 0
    if asked and not mixes and prompts_due(I, g):
        preempted = plan_prompts(F, I, g, t, I[c + H_BUDGET], False, idle)
    alone = I[e + E_FIRST_PREFILL] >= 0
    if I[e + E_DECODING] > 0 and not alone:
        preempted = take_decode_blocks(F, I, g, t) or preempted
    decodes = 0 if alone else I[e + E_DECODING]
    # the decodes may have sent streams back to the waiting
    if mixes and (I[e + E_PARTIAL] >= 0 or I[e + E_WAITING] > 0):
        preempted = plan_prompts(F, I, g, t, I[c + H_BUDGET] - decodes, preempted, idle)
    I[e + E_GAUGE] = I[e + E_WAITING]  # num_requests_waiting is set once a step, after scheduling
    tokens = decodes
    kv = I[e + E_CONTEXT] + decodes if decodes > 0 else 0
    pairs = float(kv)
    context = pairs
    prompts = 0
    encode = 0.0
    s = I[e + E_FIRST_PREFILL]
    while s >= 0:
        o = o0 + s * NSI
        n = I[o + S_PLANNED]
        tokens += n
        kv += I[o + S_COMPUTED] + n
        pairs += n * (I[o + S_COMPUTED] + 0.5 * (n + 1))
        prompts += 1
        encode = encode + F[I[OF_STREAM] + s * NSF + X_ENCODE]  # images, before their prompt
        F[I[OF_STREAM] + s * NSF + X_ENCODE] = 0.0
        s = I[o + S_BNEXT]
    if I[c + H_KIND] >= SGLANG:
        note_step(F, I, g, decodes, prompts, preempted)
    if tokens == 0:
        if preempted:
            wake(F, I, g, t)
        elif I[e + E_HELD] > 0:
            wake(F, I, g, needed_from(F, I, k, first_held(F, I, e)))
        return
    I[e + E_CONTEXT] += decodes
    I[e + E_PAUSED] = decodes == 0 and I[e + E_DECODING] > 0
    I[H_STEPS] += 1
    I[H_STREAM_STEPS] += decodes
    if I[e + E_RUNNING] > I[H_MAX_BATCH]:
        I[H_MAX_BATCH] = I[e + E_RUNNING]
    streams = I[e + E_RUNNING] if mixes else decodes + prompts
    cost = moved(F, k)  # type: ignore
    gpu = gpu_seconds(cost, compute_at(F, I, c, tokens), float(kv), pairs) + encode
    host = host_seconds(cost, float(streams), float(I[e + E_CHUNKS]))
    noise = 1.0
    if I[c + H_NOISE] != 0:
        key = hash_on(I[H_NOISE_HASH], g, I[e + E_STEPS])
        noise = F[I[c + OF_NOISE] + table_index(key)]
    noise = noise * F[x + G_FACTOR]
    full = step_seconds(cost, gpu, host)
    seconds = full * noise
    if I[H_BLAME] != 0:
        step_begins(F, I, g, decodes, context, float(tokens - decodes), kv, full)
    I[e + E_STEPPING] = AT_WORK
    F[x + G_START] = t
    F[x + G_GPU] = gpu * noise
    F[x + G_HOST] = host * noise
    F[x + G_SOLO] = seconds
    if I[e + E_FIRST_MATE] >= 0:
        host_noise = noise
        if I[c + H_HOST_NOISE] != 0:
            key = hash_on(hash_on(0, I[H_SEED], P_HOST_NOISE), g, I[e + E_STEPS])
            host_noise = F[I[c + OF_HOST_NOISE] + table_index(key)] * F[x + G_FACTOR]
        moved_up = F[k + K_HOST_SHARE] * gpu  # of what the cost has on the GPU
        first = (host_phase(cost, gpu, host) + moved_up) * host_noise
        F[x + G_GPU] = gpu * F[k + K_GPU_SHARE] * noise
        F[x + G_HOST] = (host + moved_up) * host_noise
        F[x + G_SOLO] = first + F[x + G_GPU]
        seconds = F[x + G_GPU]
        stretched = first * F[k + K_HOST_STRETCH]
        F[x + G_LOST] = stretched - first
        F[x + G_OTHERS] = 1.0
        if first > 0.0:
            I[e + E_STEPPING] = IN_HOST
            seconds = stretched
    run_for(F, x, t, seconds)


@compiled
def run_for(F, x, t, seconds):
    """The engine's work in flight: so many seconds at full pace."""
    F[x + G_REM] = seconds
    F[x + G_SINCE] = t
    F[x + G_SLOW] = 1.0
    F[x + G_END] = t + seconds


@compiled
def host_end(F, I, g, t):
    """On a shared card: the step's work comes to the GPU."""
    x = I[OF_ENGINE] + g * NGF
    I[I[O_ENGINE] + g * NEI + E_STEPPING] = AT_WORK
    run_for(F, x, t, F[x + G_GPU])
    reshare(F, I, g, t)


@compiled
def note_step(F, I, g, decodes, prompts, preempted):
    """What a kind of engine remembers of a step: how long ago prompts were in (decode_first),
    whether the batch has shrunk and how much of the future to reserve (SGLang)."""
    e = I[O_ENGINE] + g * NEI
    k = I[e + E_COST]
    x = I[OF_ENGINE] + g * NGF
    if prompts > 0:
        I[e + E_SINCE] = 0
    elif decodes > 0:
        I[e + E_SINCE] += 1
        if I[e + E_RUNNING] < I[e + E_FULL]:
            I[e + E_FULL] = 0
        if not preempted:
            F[x + G_RATIO] = next_ratio(F[x + G_RATIO], F[k + K_RATIO])
    elif I[e + E_WAITING] == 0 and I[e + E_RUNNING] == 0:
        F[x + G_RATIO] = F[k + K_RATIO]


@compiled
def kick(F, I, g, t):
    """An idle engine has work."""
    e = I[O_ENGINE] + g * NEI
    I[e + E_KICK] = 0
    if I[e + E_STEPPING] == 0:
        I[e + E_CHUNKS] = 0
        if I[e + E_ABORTS] > 0:
            drop_aborted(F, I, g, t)  # streams that were held
        begin_step(F, I, g, t)
        reshare(F, I, g, t)
