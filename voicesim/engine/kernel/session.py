"""Sessions: utterances begin, ask for admission, are retried, heard, abandoned, finished."""

from voicesim.engine import kinds
from voicesim.engine.kernel import trace
from voicesim.engine.kernel.blame import submitted
from voicesim.engine.kernel.jit import adopt, compiled, window
from voicesim.engine.kernel.lists import append, push_timer, remove
from voicesim.engine.kernel.schedule import predicted_step
from voicesim.engine.layout import *
from voicesim.listener import player
from voicesim.policy import admission, degradation, routing
from voicesim.workload import rng

heard_by = adopt(player.heard_by)
round_robin = adopt(routing.round_robin)
least_streams = adopt(routing.least_streams)
pool_for = adopt(routing.pool_for)
bounded_hash = adopt(routing.bounded_hash)
inverse_prob = adopt(routing.inverse_prob)
pack = adopt(routing.pack, least_streams=least_streams)
power_of_two = adopt(routing.power_of_two, round_robin=round_robin)
cap = adopt(admission.cap)
cap_queue = adopt(admission.cap_queue)
place_with_room = adopt(admission.place_with_room, least_streams=least_streams)
slack_of = adopt(admission.slack_of)
still_takes = adopt(routing.still_takes)
spoken = adopt(degradation.spoken)
prompt_left = adopt(degradation.prompt_left)
must_fit = adopt(kinds.must_fit)
hash_key = adopt(rng.hash_key, hash_on=adopt(rng.hash_on))
to_unit = adopt(rng.to_unit)

CAP, CAP_QUEUE, SLACK = admission.CAP, admission.CAP_QUEUE, admission.SLACK
ADMIT, REFUSE, QUEUE = admission.ADMIT, admission.REFUSE, admission.QUEUE
ROUND_ROBIN, LEAST_STREAMS = routing.ROUND_ROBIN, routing.LEAST_STREAMS
LEAST_CALLS = routing.LEAST_CALLS
BOUNDED_HASH, INVERSE_PROB, PACK = routing.BOUNDED_HASH, routing.INVERSE_PROB, routing.PACK
SERVE, STAND_IN = degradation.SERVE, degradation.STAND_IN
PLAYING = player.PLAYING


@compiled
def uniform(I, purpose, i, j):
    return to_unit(hash_key(I[H_SEED], purpose, i, j))


@compiled
def bin_at(F, I, t):
    """Row of the time series that holds time t."""
    b = int(t / F[K_RESOLUTION])
    last = I[H_BINS] - 1
    return I[O_SERIES] + (b if b < last else last) * NBI


@compiled
def start_utterance(F, I, u, t):
    """The caller asks for utterance u; returns the stream."""
    s = fresh_row(F, I, u, t)
    patience = F[I[OF_UTT] + u * NUF + Y_PATIENCE]
    if patience < 1e300:
        push_timer(F, I, t + patience, T_PATIENCE, u)
    if F[K_FILL_AFTER] < 1e300:
        push_timer(F, I, t + F[K_FILL_AFTER], T_FILLER, u)
    left = F[K_RETRIES_LEFT] + F[K_EARNS]
    F[K_RETRIES_LEFT] = left if left < F[K_BURST] else F[K_BURST]
    return s


@compiled
def fresh_row(F, I, u, t):
    """Take a row for utterance u, asked for at t; returns the stream."""
    s = I[H_FREE_SLOT]
    o = I[O_STREAM] + s * NSI
    x = I[OF_STREAM] + s * NSF
    I[H_FREE_SLOT] = I[o + S_NEXT]
    I[H_FREE_SLOTS] -= 1
    for c in range(NSI):
        I[o + c] = 0
    for c in range(NSF):
        F[x + c] = 0.0
    w = I[O_UTT] + u * NUI
    I[o + S_UTT] = u
    I[o + S_ENGINE] = -1
    I[o + S_BUCKET] = -1
    I[o + S_HOME] = -1
    I[o + S_TOKENS] = I[w + U_TOKENS]
    I[o + S_PROMPT] = I[w + U_PROMPT]
    I[o + S_HIT] = I[w + U_HIT]
    F[x + X_ENCODE] = F[I[OF_UTT] + u * NUF + Y_ENCODE]
    F[x + X_REQUEST] = t
    F[x + X_PATIENT] = t
    F[x + X_ADMIT] = -1.0
    F[x + X_START] = -1.0
    F[x + X_PACE] = -1.0
    I[I[O_RES] + u * NRI + R_SLOT] = s
    return s


@compiled
def write_result(F, I, s, outcome, t):
    o = I[O_STREAM] + s * NSI
    x = I[OF_STREAM] + s * NSF
    u = I[o + S_UTT]
    r = I[O_RES] + u * NRI
    z = I[OF_RES] + u * NRF
    I[r + R_SLOT] = -1
    I[r + R_OUTCOME] = outcome
    I[r + R_CHUNKS] = I[o + S_SENT]
    I[r + R_STALLS] = I[o + S_STALLS]
    I[r + R_AUDIBLE] = I[o + S_AUDIBLE]
    I[r + R_PREEMPTS] = I[o + S_PREEMPTS]
    I[r + R_ATTEMPTS] = I[o + S_ATTEMPTS]
    I[r + R_ENGINE] = I[o + S_ENGINE]
    I[r + R_RUNG] = I[o + S_RUNG]
    I[r + R_FILLED] = I[o + S_FILLED]
    F[z + Z_REQUEST] = F[x + X_REQUEST]
    F[z + Z_ADMIT] = F[x + X_ADMIT]
    F[z + Z_START] = F[x + X_START]
    F[z + Z_DONE] = t
    F[z + Z_PLAY_END] = F[x + X_PLAY_END]
    F[z + Z_STALL] = F[x + X_STALL]
    F[z + Z_STALL_MAX] = F[x + X_STALL_MAX]
    F[z + Z_A] = F[x + X_A]
    F[z + Z_C] = F[x + X_C]
    F[z + Z_PACE] = F[x + X_PACE]
    F[z + Z_LOST] = F[x + X_LOST]
    if outcome == COMPLETED:
        I[I[O_ENGINE] + I[o + S_ENGINE] * NEI + E_SERVED] += 1


@compiled
def next_utterance(F, I, u, t):
    """The caller goes on at time t, after their pause; or the call is over."""
    goes_on(F, I, u, t + F[I[OF_UTT] + u * NUF + Y_THINK])


@compiled
def goes_on(F, I, u, at):
    """The caller asks for the next utterance after u at this time; or the call is over."""
    w = I[O_UTT] + u * NUI
    if I[H_CLOSED] != 0:
        settle_in(I, u, -1)  # a caller's next utterance is another call
        if at <= F[K_HORIZON]:
            n = I[H_NEXT_UTT]
            I[H_NEXT_UTT] = n + 1
            push_timer(F, I, at, T_START, n)
        else:
            I[H_LIVE_CALLS] -= 1
    elif u + 1 < I[H_UTTERANCES] and I[w + NUI + U_SESSION] == I[w + U_SESSION]:
        push_timer(F, I, at, T_START, u + 1)
        if I[H_PINNED] != 0:
            I[I[O_HOME] + I[w + U_SESSION] * N_HOME + 1] = u + 1
    else:
        end_call(I, u)


@compiled
def end_call(I, u):
    """The call of utterance u is over."""
    I[H_LIVE_CALLS] -= 1
    settle_in(I, u, -1)


@compiled
def home_of(I, u):
    """The replica that the call of utterance u lives on; -1: none, or calls are not pinned."""
    if I[H_PINNED] == 0:
        return -1
    g = I[I[O_HOME] + I[I[O_UTT] + u * NUI + U_SESSION] * N_HOME]
    return g if g >= 0 and I[I[O_ENGINE] + g * NEI + E_UP] != 0 else -1


@compiled
def settle_in(I, u, g):
    """The call of utterance u lives on replica g from now on (-1: nowhere)."""
    if I[H_PINNED] == 0:
        return
    h = I[O_HOME] + I[I[O_UTT] + u * NUI + U_SESSION] * N_HOME
    if I[h] >= 0:
        I[I[O_CALLS_ON] + I[h]] -= 1
    if g >= 0:
        I[I[O_CALLS_ON] + g] += 1
    I[h] = g
    I[h + 1] = u


@compiled
def lives_on(I, u, g):
    """Is utterance u the one that a call of replica g has now, or next?"""
    if I[H_PINNED] == 0:
        s = I[I[O_RES] + u * NRI + R_SLOT]
        return s >= 0 and I[I[O_STREAM] + s * NSI + S_ENGINE] == g
    h = I[O_HOME] + I[I[O_UTT] + u * NUI + U_SESSION] * N_HOME
    return I[h] == g and I[h + 1] == u


@compiled
def cut(F, I, u, g, t):
    """The call of utterance u, which replica g serves now or will serve next, ends at t."""
    s = I[I[O_RES] + u * NRI + R_SLOT]
    if s < 0:  # between two utterances
        I[I[O_RES] + u * NRI + R_OUTCOME] = CUT
        I[I[O_RES] + u * NRI + R_ENGINE] = g
        z = I[OF_RES] + u * NRF
        F[z + Z_REQUEST] = t
        F[z + Z_ADMIT] = -1.0
        F[z + Z_START] = -1.0
        F[z + Z_DONE] = t
        F[z + Z_PACE] = -1.0
        end_call(I, u)
        return
    x = I[OF_STREAM] + s * NSF
    if F[x + X_START] > t:  # the first sound is still on its way
        F[x + X_START] = -1.0
    write_result(F, I, s, CUT, t)
    if I[H_CLOSED] != 0:
        next_utterance(F, I, u, t)
    else:
        end_call(I, u)
    cancel(F, I, s, t)


@compiled
def maybe_free(F, I, s, t):
    """Give the row back once engine, codec and listener have all let go of the stream."""
    o = I[O_STREAM] + s * NSI
    state = I[o + S_STATE]
    if state == PREFILLING or state == DECODING or state == ZOMBIE or state == HELD:
        return
    if I[o + S_INQ] == 2:
        return
    g = I[o + S_ENGINE]
    made = I[o + S_GEN] if I[o + S_GEN] < I[o + S_TOKENS] else I[o + S_TOKENS]
    I[I[O_RES] + I[o + S_UTT] * NRI + R_GENERATED] = made
    I[o + S_STATE] = FREE
    if I[o + S_LEFT] == 0:  # else when its blocks are free too
        free_row(I, s)
    if g >= 0:
        leave_engine(F, I, g, t)


@compiled
def free_row(I, s):
    I[I[O_STREAM] + s * NSI + S_NEXT] = I[H_FREE_SLOT]
    I[H_FREE_SLOT] = s
    I[H_FREE_SLOTS] += 1


@compiled
def count_live(F, I, g, t, change):
    """A stream more or fewer at replica g."""
    x = I[OF_ENGINE] + g * NGF
    live = I[O_LIVE] + g
    F[x + G_LIVE_AREA] += I[live] * (t - F[x + G_LIVE_SINCE])
    F[x + G_LIVE_SINCE] = t
    I[live] += change
    if I[H_FLEET] != 0:
        pool = I[I[O_ENGINE] + g * NEI + E_POOL]
        I[I[O_POOL_LIVE] + pool] += change
        spill(F, I, pool)


@compiled
def spill(F, I, pool):
    """A pool that fills up sends callers elsewhere, until it has emptied (hysteresis)."""
    k = 0 if pool == 0 else I[OF_POOLS] + pool * N_FLOAT_HEADER
    if F[k + K_SPILL_AT] > 1e300:
        return
    places = float(I[I[O_OPENED] + pool] * I[pool_header(I, pool) + H_LIMIT])
    takes = I[O_TAKES] + pool
    I[takes] = still_takes(
        I[takes], float(I[I[O_POOL_LIVE] + pool]), places, F[k + K_SPILL_AT], F[k + K_SPILL_BACK]
    )


@compiled
def change_open(F, I, g, is_open):
    pool = I[I[O_ENGINE] + g * NEI + E_POOL]
    I[I[O_OPENED] + pool] += is_open - I[I[O_OPEN] + g]
    I[I[O_OPEN] + g] = is_open
    if I[H_FLEET] != 0:
        spill(F, I, pool)


@compiled
def leave_engine(F, I, g, t):
    """A stream is gone from replica g."""
    count_live(F, I, g, t, -1)
    move_up(F, I, g, t)


@compiled
def move_up(F, I, g, t):
    """The gateway's queue fills the free places of replica g (cap_queue)."""
    e = I[O_ENGINE] + g * NEI
    c = I[e + E_CLASS]
    while I[I[O_LIVE] + g] < I[c + H_LIMIT] and (I[I[O_OPEN] + g] != 0 or I[H_PINNED] != 0):
        s = next_in_line(I, g)
        if s < 0 or I[e + E_WAITING] >= I[c + H_MAXWAIT]:
            break
        remove(I, H_GQ_HEAD, H_GQ_TAIL, S_NEXT, S_PREV, s)
        I[H_GQ] -= 1
        submit(F, I, s, g, t)


@compiled
def next_in_line(I, g):
    """The first at the gateway that replica g may serve; -1 if nobody waits for it."""
    s = I[H_GQ_HEAD]
    while s >= 0 and not may_move_to(I, s, g):
        s = I[I[O_STREAM] + s * NSI + S_NEXT]
    return s


@compiled
def may_move_to(I, s, g):
    """May stream s leave the gateway's queue for replica g?  Where its call lives, or else to any
    open one of a pool that serves it."""
    home = home_of(I, I[I[O_STREAM] + s * NSI + S_UTT])
    if home >= 0:
        return home == g
    if I[I[O_OPEN] + g] == 0:
        return False
    return I[H_FLEET] == 0 or may_go_to(I, s, I[I[O_ENGINE] + g * NEI + E_POOL])


@compiled
def submit(F, I, s, g, t):
    """The stream joins the waiting list of engine g; an idle engine gets a kick."""
    o = I[O_STREAM] + s * NSI
    x = I[OF_STREAM] + s * NSF
    e = I[O_ENGINE] + g * NEI
    count_live(F, I, g, t, 1)
    settle_in(I, I[o + S_UTT], g)
    take_rung(F, I, s, g, t)
    I[o + S_ENGINE] = g
    I[o + S_STATE] = WAITING
    F[x + X_ADMIT] = t
    F[x + X_ENQUEUED] = t
    F[x + X_DELAY] = F[I[e + E_COST] + K_DELAY]
    F[x + X_JITTER] = 1.0
    if I[H_FLEET] != 0:
        row = I[I[O_UTT] + I[o + S_UTT] * NUI + U_ROW]
        way = row * I[H_POOLS] + I[e + E_POOL]
        F[x + X_DELAY] += F[I[OF_DELAYS] + way]
        F[x + X_JITTER] = F[I[OF_JITTERS] + way]
    if I[H_BLAME] != 0:
        submitted(F, I, s, t)
        if I[H_TRACE] != 0:
            trace.note(F, I, trace.ADMITTED, I[o + S_UTT], g, (0, 0, 0, 0), t, t, 0.0, 0.0)
    append(I, e + E_WAIT_HEAD, e + E_WAIT_TAIL, S_NEXT, S_PREV, s)
    I[e + E_WAITING] += 1
    if I[H_RESERVES] != 0:
        I[I[O_SEEN] + g] += 1
    if I[e + E_GRAY] != 0:
        drop_later(F, I, s, g, t)
    elif I[e + E_STEPPING] == 0:
        wake(F, I, g, t)
        touch(F, I, g)


@compiled
def wake(F, I, g, t):
    """Kick the idle engine at time t, unless it gets a kick by then."""
    e = I[O_ENGINE] + g * NEI
    x = I[OF_ENGINE] + g * NGF
    if I[e + E_KICK] == 0 or t < F[x + G_KICK]:
        I[e + E_KICK] = 1
        F[x + G_KICK] = t


@compiled
def drop_later(F, I, s, g, t):
    """A silent replica keeps the stream for a while and drops it then."""
    x = I[OF_STREAM] + s * NSF
    F[x + X_DEADLINE] = t + F[I[OF_ENGINE] + g * NGF + G_DROP]
    if F[x + X_DEADLINE] < 1e300:
        push_timer(F, I, F[x + X_DEADLINE], T_DROP, I[I[O_STREAM] + s * NSI + S_UTT])


@compiled
def rung_row(I, pool):
    """Row of the rung that the pool is at."""
    c = pool_header(I, pool)
    return I[c + H_RUNG_ROW] + I[c + H_RUNG]


@compiled
def take_rung(F, I, s, g, t):
    """The stream is served at the rung of g's pool, or of the pool that sent it there."""
    o = I[O_STREAM] + s * NSI
    e = I[O_ENGINE] + g * NEI
    pool = I[e + E_POOL]
    home = I[o + S_HOME]
    if home < 0 or I[I[O_RUNGS] + rung_row(I, home) * NQI + Q_TO] != pool:
        home = pool
    row = rung_row(I, home)
    I[o + S_RUNG] = row
    if I[pool_header(I, home) + H_RUNG] == 0:
        return
    w = I[O_UTT] + I[o + S_UTT] * NUI
    I[o + S_TOKENS] = spoken(I[w + U_TOKENS], F[I[OF_RUNGS] + row * NQF + Q_SPEECH])
    fewer = I[I[O_RUNGS] + row * NQI + Q_PROMPT]
    I[o + S_PROMPT] = prompt_left(I[w + U_PROMPT], fewer, I[I[e + E_CLASS] + H_PREFIX])
    I[bin_at(F, I, t) + B_DEGRADED] += 1


@compiled
def touch(F, I, g):
    """Replay engine g's next event into the tournament tree."""
    e = I[O_ENGINE] + g * NEI
    x = I[OF_ENGINE] + g * NGF
    t = 1e301
    kind = KICK
    if I[e + E_BUSY] > 0:
        workers = I[H_WORKERS]
        for w in range(g * workers, (g + 1) * workers):
            if I[I[O_WORKER] + w * NWI + W_ROWS] > 0:
                tw = F[I[OF_WORKER] + w * NVF + V_END]
                if tw < t:
                    t = tw
                    kind = CODEC_END
    if I[e + E_STEPPING] != 0 and F[x + G_END] < t:
        t = F[x + G_END]
        kind = STEP_END
    if F[x + G_GATHER] < t:
        t = F[x + G_GATHER]
        kind = GATHER_END
    if I[e + E_KICK] != 0 and F[x + G_KICK] < t:
        t = F[x + G_KICK]
        kind = KICK
    ot = I[OF_TREE]
    on = I[O_TREE]
    p = I[on]  # leaves
    kinds = on + 1
    node = on + 1 + p
    F[ot + g] = t
    I[kinds + g] = kind
    # the winner so far, in registers, against the leaf beside it, then each sibling's winner
    winner = g
    rival = g ^ 1
    i = p + g
    while True:
        tr = F[ot + rival]
        kr = I[kinds + rival]
        if tr < t or (tr == t and (kr < kind or (kr == kind and rival < winner))):
            winner = rival
            t = tr
            kind = kr
        i >>= 1
        I[node + i] = winner
        if i <= 1:
            break
        rival = I[node + (i ^ 1)]


@compiled
def replica_has_slack(F, I, s, g, t):
    """True when every playing stream of replica g keeps ``lead`` under the batch to come.

    That batch holds the decoding streams, those whose prompts are still to be computed, and s.
    Its step must not be longer than the audio of a token, or all would fall behind for good.
    """
    e = I[O_ENGINE] + g * NEI
    c = I[e + E_CLASS]
    k = I[e + E_COST]
    x = I[OF_ENGINE] + g * NGF
    o0 = I[O_STREAM]
    pending = I[o0 + s * NSI + S_PROMPT]
    entering = 1 + I[e + E_WAITING]
    r = I[e + E_WAIT_HEAD]
    while r >= 0:
        pending += I[o0 + r * NSI + S_PROMPT] + I[o0 + r * NSI + S_GEN]
        r = I[o0 + r * NSI + S_NEXT]
    r = I[e + E_RUN_TAIL]  # prompts in progress are at the tail
    while r >= 0 and I[o0 + r * NSI + S_STATE] == PREFILLING:
        o = o0 + r * NSI
        pending += I[o + S_PROMPT] + I[o + S_GEN] - I[o + S_COMPUTED]
        entering += 1
        r = I[o + S_PREV]
    hits = (1 + I[e + E_WAITING]) * I[c + H_PREFIX] if I[e + E_CACHED] != 0 else 0
    n = I[e + E_DECODING] + entering
    kv = I[e + E_CONTEXT] + pending + n
    pending -= hits
    step = predicted_step(F, I, c, k, n, n, kv)
    room = I[c + H_BUDGET] - n if I[c + H_BUDGET] > n else 1
    rounds = pending // room
    joining = rounds * predicted_step(F, I, c, k, n + room, n, kv)
    joining = joining + predicted_step(F, I, c, k, n + pending - rounds * room, n, kv)
    step = step * F[x + G_STRETCH]
    if n > 1 and step > F[k + K_TOKEN_AUDIO]:
        return False
    lag = F[x + G_LAG]
    r = I[e + E_Q_HEAD]
    if r >= 0 and t - F[I[OF_STREAM] + r * NSF + X_READY_AT] > lag:
        lag = t - F[I[OF_STREAM] + r * NSF + X_READY_AT]
    lag = lag + joining * F[x + G_STRETCH]
    while r >= 0:
        # in the running list too, unless all its tokens are generated
        if I[o0 + r * NSI + S_STATE] == GENERATED and not keeps_lead(F, I, r, t, 0, step, lag):
            return False
        r = I[o0 + r * NSI + S_QNEXT]
    for i in range(g * I[H_WORKERS] * I[H_CAP], (g + 1) * I[H_WORKERS] * I[H_CAP]):
        w = i // I[H_CAP]
        if i - w * I[H_CAP] < I[I[O_WORKER] + w * NWI + W_ROWS]:
            r = I[I[O_ROWS] + i]
            if I[o0 + r * NSI + S_STATE] == GENERATED and not keeps_lead(F, I, r, t, 0, step, lag):
                return False
    r = I[e + E_RUN_HEAD]
    while r >= 0:
        if not keeps_lead(F, I, r, t, missing_tokens(I, r), step, lag):
            return False
        r = I[o0 + r * NSI + S_NEXT]
    r = I[e + E_WAIT_HEAD]
    while r >= 0:
        if not keeps_lead(F, I, r, t, missing_tokens(I, r), step, lag):
            return False
        r = I[o0 + r * NSI + S_NEXT]
    return True


@compiled
def missing_tokens(I, s):
    """Decode steps until the stream's next chunk is full; 0 if one is at the codec."""
    o = I[O_STREAM] + s * NSI
    if I[o + S_READY] > I[o + S_SENT]:
        return 0
    generated = I[o + S_GEN]
    if I[o + S_STATE] == DECODING:
        generated = I[I[O_ENGINE] + I[o + S_ENGINE] * NEI + E_STEP] - I[o + S_OFF]
    return I[o + S_DUE] - generated


@compiled
def keeps_lead(F, I, s, t, missing, step, lag):
    """Does the listener still have K_LEAD seconds in hand when the next chunk comes?"""
    o = I[O_STREAM] + s * NSI
    if I[o + S_MODE] < PLAYING or I[o + S_STATE] == ZOMBIE or I[o + S_ABORT] != 0:
        return True
    play_end = F[I[OF_STREAM] + s * NSF + X_PLAY_END]
    return slack_of(play_end, t, missing, step, lag) >= F[K_LEAD]


@compiled
def choose_pool(I, F, s):
    """The pool of a fleet that the stream goes to; -1: nobody takes it."""
    n = I[H_POOLS]
    u = I[I[O_STREAM] + s * NSI + S_UTT]
    row = I[I[O_UTT] + u * NUI + U_ROW]
    return pool_for(
        window(I, I[O_PREFS] + row * n, n), window(I, I[O_TIERS] + row * n, n),
        window(F, I[OF_WEIGHTS], n), window(I, I[O_TAKES], n), window(I, I[O_OPENED], n),
        uniform(I, P_POOL, I[I[O_UTT] + u * NUI + U_SESSION], 0),
    )  # fmt: skip


@compiled
def pool_header(I, pool):
    """Where the pool's header is; the first pool's is the arena's."""
    return 0 if pool == 0 else I[O_POOLS] + pool * N_INT_HEADER


@compiled
def sent_on(I, s, pool):
    """The pool that serves instead of one whose rung names it, if it is one of the caller's, has an
    open replica and takes callers."""
    to = I[I[O_RUNGS] + rung_row(I, pool) * NQI + Q_TO]
    if to < 0 or I[I[O_OPENED] + to] == 0 or I[I[O_TAKES] + to] == 0 or not may_go_to(I, s, to):
        return pool
    return to


@compiled
def decide(F, I, s, t):
    """The compiled policies: (action, replica)."""
    kind = I[H_ADMIT]
    u = I[I[O_STREAM] + s * NSI + S_UTT]
    home = home_of(I, u)
    p = 0
    if home >= 0:
        p = I[I[O_ENGINE] + home * NEI + E_POOL]
    elif I[H_FLEET] != 0:
        p = choose_pool(I, F, s)
    I[I[O_STREAM] + s * NSI + S_HOME] = p
    if home < 0 and I[H_FLEET] != 0 and p >= 0:
        p = sent_on(I, s, p)
    queued = waiting_for(I, p)
    if p < 0:  # nothing is open
        return (QUEUE if kind == CAP_QUEUE and queued < I[H_MAXQ] else REFUSE), 0
    c = pool_header(I, p)
    first = I[c + H_FIRST]
    n = I[c + H_COUNT]
    live = window(I, (I[O_SEEN] if I[H_STALE] != 0 else I[O_LIVE]) + first, n)
    open_ = window(I, I[O_OPEN] + first, n)
    o = I[O_STREAM] + s * NSI
    turn = I[c + H_TURN]
    if home < 0:
        I[c + H_TURN] = turn + 1
    if home >= 0:
        g = home - first
    elif I[H_ROUTE] == LEAST_STREAMS:
        g = least_streams(live, open_)
    elif I[H_ROUTE] == LEAST_CALLS:
        g = least_streams(window(I, I[O_CALLS_ON] + first, n), open_)
    elif I[H_ROUTE] == ROUND_ROBIN:
        g = round_robin(live, open_, turn)
    elif I[H_ROUTE] == BOUNDED_HASH:
        session = I[I[O_UTT] + I[o + S_UTT] * NUI + U_SESSION]
        g = bounded_hash(live, open_, uniform(I, P_AFFINITY, session, 0), F[K_EPSILON])
    elif I[H_ROUTE] == INVERSE_PROB:
        drawn = uniform(I, P_ROUTE, u, 2 * I[o + S_ATTEMPTS])
        g = inverse_prob(live, open_, drawn)
    elif I[H_ROUTE] == PACK:
        g = pack(live, open_, I[c + H_LIMIT])
    else:
        a = I[o + S_ATTEMPTS]
        g = power_of_two(
            live, open_, uniform(I, P_ROUTE, u, 2 * a), uniform(I, P_ROUTE, u, 2 * a + 1)
        )
    if g < 0:  # nothing is open
        return (QUEUE if kind == CAP_QUEUE and queued < I[H_MAXQ] else REFUSE), 0
    if kind == CAP:
        return cap(live[g], I[c + H_LIMIT]), first + g
    if kind == CAP_QUEUE:
        if home < 0:
            g = place_with_room(live, open_, g, I[c + H_LIMIT])
        return cap_queue(live[g], I[c + H_LIMIT], queued, I[H_MAXQ]), first + g
    if kind == SLACK and not replica_has_slack(F, I, s, first + g, t):
        return REFUSE, first + g
    return ADMIT, first + g


@compiled
def may_go_to(I, s, pool):
    """Is the pool one of those that serve the stream?"""
    row = I[I[O_UTT] + I[I[O_STREAM] + s * NSI + S_UTT] * NUI + U_ROW]
    n = I[H_POOLS]
    for i in range(I[O_PREFS] + row * n, I[O_PREFS] + (row + 1) * n):  # noqa: SIM110
        if I[i] == pool:
            return True
    return False


@compiled
def waiting_for(I, pool):
    """Streams in the gateway's queue that the pool could take; -1: all."""
    if I[H_FLEET] == 0 or pool < 0:
        return I[H_GQ]
    count = 0
    s = I[H_GQ_HEAD]
    while s >= 0:
        if may_go_to(I, s, pool):
            count += 1
        s = I[I[O_STREAM] + s * NSI + S_NEXT]
    return count


@compiled
def can_fit(I, s):
    """False when the KV cache of a pool that serves it could never hold the whole stream."""
    o = I[O_STREAM] + s * NSI
    prompt = I[o + S_PROMPT]
    tokens = I[o + S_TOKENS]
    for p in range(I[H_POOLS]):
        c = pool_header(I, p)
        if I[H_FLEET] != 0 and not may_go_to(I, s, p):
            continue
        held = must_fit(I[c + H_KIND], prompt, tokens, I[c + H_MAXNEW], I[c + H_OVERLAP] != 0)
        if (held + I[c + H_BLOCK] - 1) // I[c + H_BLOCK] > I[c + H_BLOCKS]:
            return False
    return True


@compiled
def fail(F, I, s, t):
    """The engine cannot take this request at all; the caller goes on."""
    I[H_FAILED] += 1
    write_result(F, I, s, FAILED_OUTCOME, t)
    next_utterance(F, I, I[I[O_STREAM] + s * NSI + S_UTT], t)
    maybe_free(F, I, s, t)


@compiled
def apply_decision(F, I, s, t, action, g):
    c = I[I[O_ENGINE] + g * NEI + E_CLASS]
    home = I[I[O_STREAM] + s * NSI + S_HOME]
    then = SERVE
    if home >= 0:
        then = I[I[O_RUNGS] + rung_row(I, home) * NQI + Q_THEN]
    if then == STAND_IN:
        stand_in(F, I, s, t)
    elif then != SERVE:
        refuse(F, I, s, t)
    elif action == ADMIT and I[I[O_ENGINE] + g * NEI + E_WAITING] >= I[c + H_MAXWAIT]:
        refuse(F, I, s, t)  # by the engine itself (SGLang's max_queued_requests)
    elif action == ADMIT:
        submit(F, I, s, g, t)
    elif action == QUEUE:
        o = I[O_STREAM] + s * NSI
        x = I[OF_STREAM] + s * NSF
        I[o + S_STATE] = AT_GATEWAY
        append(I, H_GQ_HEAD, H_GQ_TAIL, S_NEXT, S_PREV, s)
        I[H_GQ] += 1
        F[x + X_DEADLINE] = t + F[K_DEADLINE]
        if F[K_DEADLINE] < 1e300:
            push_timer(F, I, F[x + X_DEADLINE], T_DEADLINE, I[o + S_UTT])
    else:
        refuse(F, I, s, t)


@compiled
def home(I, u):
    """Float header of the pool that the caller would rather go to."""
    if I[H_FLEET] == 0:
        return 0
    pool = I[I[O_PREFS] + I[I[O_UTT] + u * NUI + U_ROW] * I[H_POOLS]]
    return 0 if pool == 0 else I[OF_POOLS] + pool * N_FLOAT_HEADER


@compiled
def asks_again(F, I, u, attempt, t):
    """Will the caller of utterance u, turned away at t, try again?  Not beyond the attempts that
    they make, nor when the budget of retries is spent."""
    if attempt >= I[H_RETRIES]:
        return False
    if F[K_BURST] < 1e300:
        if F[K_RETRIES_LEFT] < 1.0:
            return False
        F[K_RETRIES_LEFT] -= 1.0
    delay = F[K_BACKOFF]
    for _ in range(attempt):
        delay = delay * F[K_FACTOR]
    if I[H_FULLJIT] != 0:
        delay = delay * uniform(I, P_RETRY, u, attempt)
    push_timer(F, I, t + delay, T_RETRY, u)
    return True


@compiled
def refuse(F, I, s, t):
    """Refused: back off and try again, or leave, or let the standby voice speak."""
    o = I[O_STREAM] + s * NSI
    u = I[o + S_UTT]
    attempt = I[o + S_ATTEMPTS]
    I[o + S_ATTEMPTS] = attempt + 1
    if asks_again(F, I, u, attempt, t):
        I[o + S_STATE] = BACKING_OFF
        return
    I[bin_at(F, I, t) + B_REFUSED] += 1
    if I[H_TRACE] != 0:
        trace.note(F, I, trace.REFUSED, u, -1, (0, 0, 0, 0), t, t, 0.0, 0.0)
    write_result(F, I, s, REFUSED, t)
    if I[H_STANDBY] != 0:
        next_utterance(F, I, u, t + I[o + S_TOKENS] * F[home(I, u) + K_TOKEN_AUDIO])
    elif I[H_CLOSED] != 0:
        next_utterance(F, I, u, t)
    else:
        end_call(I, u)
    maybe_free(F, I, s, t)


@compiled
def stand_in(F, I, s, t):
    """No GPU: the caller gets text or hears a filler at once, and goes on after it."""
    o = I[O_STREAM] + s * NSI
    row = rung_row(I, I[o + S_HOME])
    I[o + S_RUNG] = row
    I[bin_at(F, I, t) + B_DEGRADED] += 1
    write_result(F, I, s, STOOD_IN, t)
    next_utterance(F, I, I[o + S_UTT], t + F[I[OF_RUNGS] + row * NQF + Q_FILLER])
    maybe_free(F, I, s, t)


@compiled
def filler_plays(F, I, u, t):
    """Nothing heard so far: a filler sounds, and the caller's patience counts from its end."""
    s = I[I[O_RES] + u * NRI + R_SLOT]
    if s < 0:
        return
    o = I[O_STREAM] + s * NSI
    x = I[OF_STREAM] + s * NSF
    if heard_by(I[o + S_MODE], F[x + X_SINCE], F[x + X_START], t, F[K_MAX_WAIT]):
        return
    I[o + S_FILLED] = 1
    F[x + X_PATIENT] = t + F[K_FILLER]


@compiled
def deadline_passes(F, I, u, t):
    """A place did not come free in time (cap_queue)."""
    s = I[I[O_RES] + u * NRI + R_SLOT]
    if s < 0:
        return
    o = I[O_STREAM] + s * NSI
    if I[o + S_STATE] != AT_GATEWAY or F[I[OF_STREAM] + s * NSF + X_DEADLINE] != t:
        return
    remove(I, H_GQ_HEAD, H_GQ_TAIL, S_NEXT, S_PREV, s)
    I[H_GQ] -= 1
    refuse(F, I, s, t)


@compiled
def hang_up(F, I, s, t):
    """The caller leaves at t without having heard anything."""
    o = I[O_STREAM] + s * NSI
    x = I[OF_STREAM] + s * NSF
    I[bin_at(F, I, t) + B_ABANDONED] += 1
    F[x + X_START] = -1.0
    F[x + X_PLAY_END] = 0.0
    F[x + X_STALL] = 0.0
    F[x + X_STALL_MAX] = 0.0
    I[o + S_STALLS] = 0
    I[o + S_AUDIBLE] = 0
    write_result(F, I, s, ABANDONED, t)
    if I[H_CLOSED] != 0:
        next_utterance(F, I, I[o + S_UTT], t)
    else:
        end_call(I, I[o + S_UTT])


@compiled
def gone_by(F, I, s):
    """When the caller's patience for silence ends (s)."""
    u = I[I[O_STREAM] + s * NSI + S_UTT]
    return F[I[OF_STREAM] + s * NSF + X_PATIENT] + F[I[OF_UTT] + u * NUF + Y_PATIENCE]


@compiled
def patience_ends(F, I, u, t):
    """The caller hangs up if nothing has been heard: the stream is cancelled everywhere."""
    s = I[I[O_RES] + u * NRI + R_SLOT]
    if s < 0:
        return
    o = I[O_STREAM] + s * NSI
    x = I[OF_STREAM] + s * NSF
    if heard_by(I[o + S_MODE], F[x + X_SINCE], F[x + X_START], t, F[K_MAX_WAIT]):
        return
    if t < gone_by(F, I, s):  # a filler has sounded
        push_timer(F, I, gone_by(F, I, s), T_PATIENCE, u)
        return
    hang_up(F, I, s, t)
    cancel(F, I, s, t)


@compiled
def cancel(F, I, s, t):
    """Stream s stops: at once where it waits, at the next boundary where it is being worked on."""
    o = I[O_STREAM] + s * NSI
    I[o + S_ABORT] = 1
    g = I[o + S_ENGINE]
    state = I[o + S_STATE]
    e = I[O_ENGINE] + g * NEI
    if state == AT_GATEWAY:
        remove(I, H_GQ_HEAD, H_GQ_TAIL, S_NEXT, S_PREV, s)
        I[H_GQ] -= 1
    elif state == WAITING:
        remove(I, e + E_WAIT_HEAD, e + E_WAIT_TAIL, S_NEXT, S_PREV, s)
        I[e + E_WAITING] -= 1
        I[H_DISCARDED] += I[o + S_GEN]
    elif state == PREFILLING or state == DECODING:
        I[e + E_ABORTS] += 1
    elif state == HELD:
        I[e + E_ABORTS] += 1
        if I[e + E_STEPPING] == 0:
            wake(F, I, g, t)
            touch(F, I, g)
    elif state == GENERATED or state == ZOMBIE:
        I[H_DISCARDED] += I[o + S_TOKENS]
    if I[o + S_ACTIVE] != 0:
        I[o + S_ACTIVE] = 0
        I[e + E_ACTIVE] -= 1
    if I[o + S_INQ] == 1:
        remove(I, e + E_Q_HEAD, e + E_Q_TAIL, S_QNEXT, S_QPREV, s)
        I[e + E_QUEUED] -= 1
        I[o + S_INQ] = 0
    maybe_free(F, I, s, t)
