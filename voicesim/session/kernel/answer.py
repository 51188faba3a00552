"""An answer: its text arrives in units, units become speech, speech travels in order and plays."""

from voicesim.engine.kernel.codec import ratio_bucket
from voicesim.engine.kernel.jit import adopt, compiled
from voicesim.engine.layout import (
    ABANDONED,
    COARSE_PER_OCTAVE,
    FAILED_OUTCOME,
    FINE_PER_OCTAVE,
    N_COARSE,
)
from voicesim.engine.spec import NEVER
from voicesim.listener import player
from voicesim.session.blame import N_WHY, SINCE, W_ASKED, W_GATED
from voicesim.session.kernel.blame import listened, source, waited_for
from voicesim.session.kernel.recogniser import disconnect, drop_speech
from voicesim.session.kernel.stages import ask, cancel_stream, token_audio
from voicesim.session.kernel.state import *
from voicesim.session.layout import *
from voicesim.session.record import *
from voicesim.session.spec import IMMEDIATE, NONE

player_deliver = adopt(player.deliver)
PLAYING, ROUNDING = player.PLAYING, player.ROUNDING


@compiled
def next_turn(E, J, r, end):
    """After answer r, done at ``end``, the caller thinks and speaks again; or the call is over."""
    u = turn_of(J, r)
    if u + 1 <= J[J[O_CALL] + call_of(J, r) * NC + C_LAST]:
        begin_turn(E, J, u + 1, end + E[J[OF_TURN] + (u + 1) * NV + V_THINK])
    else:
        set_timer(E, J, end, D_END, call_of(J, r))


@compiled
def begin_turn(E, J, u, speak):
    """The caller begins to speak at ``speak``; the server hears it a little later."""
    v = J[O_TURN] + u * NT
    r = J[v + T_CUT] if J[v + T_CUT] >= 0 else J[v + T_ANSWER]
    E[J[OF_ANSWER_F] + r * ANSWER_F + A_SPEAK] = speak
    set_timer(E, J, (speak + E[E_CAPTURE]) + uplink_of(E, J, u), D_SPEAK, u)


@compiled
def speaking(J, k, now):
    """Call k's caller speaks from now on, or does not."""
    c = J[O_CALL] + k * NC + C_SPEAKS
    J[J_SPEAKING] += now - J[c]
    J[c] = now


@compiled
def uncount(J, r):
    """Answer r is no longer being made."""
    a = J[O_ANSWER] + r * NN + N_COUNTED
    J[J_ANSWERING] -= J[a]
    J[a] = 0


@compiled
def end_call(E, J, k, outcome, t):
    c = J[O_CALL] + k * NC
    q = J[O_CALL_I] + k * CALL_I
    J[c + C_OVER] = 1
    J[q + Q_OUTCOME] = outcome
    E[J[OF_CALL_F] + k * CALL_F + Q_END] = t
    J[J_LIVE] -= 1
    speaking(J, k, 0)
    if outcome == ABANDONED:
        J[bin_at(E, J, t) + D_ABANDONED] += 1
    disconnect(J, k, t)


@compiled
def cancel_answer(E, J, r, t, mode):
    """Answer r is stopped: nothing more of it is sent; ``mode`` says what still runs."""
    a = J[O_ANSWER] + r * NN
    f = J[OF_ANSWER_F] + r * ANSWER_F
    J[a + N_CANCELLED] = 1
    uncount(J, r)
    if E[f + A_DONE] < 0.0:
        E[f + A_DONE] = t
    if E[f + A_TEXT] < 0.0:
        drop_speech(J, r, t)
    if J[a + N_OMNI] != 0:
        if mode == IMMEDIATE:
            cancel_stream(J, J[J_OMNI], r, t, False)
        elif mode != NONE:
            cancel_stream(J, J[J_OMNI], r, t, True)
        return
    if E[f + A_ASKED] < 0.0:
        return
    if mode == NONE:
        if J[a + N_MADE] < J[a + N_UNITS]:
            J[a + N_DRAINING] = 1
            J[J[O_CALL] + call_of(J, r) * NC + C_DRAINING] += 1
        return
    only_waiting = mode != IMMEDIATE
    cancel_stream(J, J[a + N_LLM], r, t, only_waiting)
    for n in range(J[a + N_UNIT], J[a + N_UNIT] + J[a + N_ASKED]):
        cancel_stream(J, J[J_LLM] + J[a + N_TTS], n, t, only_waiting)


@compiled
def not_served(E, J, r, t):
    """An engine could never hold a stream of answer r: the call ends."""
    k = call_of(J, r)
    if J[J[O_ANSWER] + r * NN + N_CANCELLED] == 0:
        cancel_answer(E, J, r, t, IMMEDIATE)
        J[J[O_ANSWER_I] + r * ANSWER_I + A_OUTCOME] = NOT_SERVED
    if J[J[O_CALL] + k * NC + C_OVER] == 0:
        end_call(E, J, k, FAILED_OUTCOME, t)


# --- units of text become streams of speech -----------------------------------------------------


@compiled
def gate(E, J, r, i, t):
    """When unit i of answer r may go to the TTS engine; NEVER: not before something happens."""
    a = J[O_ANSWER] + r * NN
    if J[a + N_CANCELLED] != 0:
        return t
    if J[J[O_CALL] + call_of(J, r) * NC + C_DRAINING] > 0:
        return NEVER  # an earlier answer still occupies the call's socket
    at = t
    j = i - 1 - J[J_PREFETCH]
    ends = J[OF_UNIT] + J[a + N_UNIT] * NZ + Z_END
    if j >= 0:
        if J[a + N_SENDING] <= j:
            return NEVER
        if E[ends + j * NZ] > at:
            at = E[ends + j * NZ]
    if i > 0 and E[E_AHEAD] < NEVER:
        if J[a + N_SENDING] <= i - 1:
            return NEVER
        if E[ends + (i - 1) * NZ] - E[E_AHEAD] > at:
            at = E[ends + (i - 1) * NZ] - E[E_AHEAD]
    return at


@compiled
def ask_tts(E, J, n, t):
    r = J[J[O_UNIT] + n * NW + W_ANSWER]
    if not ask(J, J[J_LLM] + J[J[O_ANSWER] + r * NN + N_TTS], n, t):
        not_served(E, J, r, t)


@compiled
def submit_units(E, J, r, t):
    """Units whose text is there go to the TTS engine; True if one came from the phrase cache."""
    a = J[O_ANSWER] + r * NN
    from_cache = False
    while J[a + N_ASKED] < J[a + N_READY]:
        i = J[a + N_ASKED]
        at = gate(E, J, r, i, t)
        if at > t:
            if J[J_BLAME] != 0:
                E[source(J, J[a + N_UNIT] + i) + W_GATED] = 1.0
            if at < NEVER and J[a + N_GATE] == 0:
                J[a + N_GATE] = 1
                set_timer(E, J, at, D_GATE, r)
            break
        J[a + N_ASKED] = i + 1
        n = J[a + N_UNIT] + i
        if J[J_BLAME] != 0:
            E[source(J, n) + W_ASKED] = t
        w = J[O_UNIT] + n * NW
        if J[w + W_CACHED] != 0:
            J[w + W_HELD] = J[w + W_TOKENS]
            J[w + W_DONE] = 1
            J[a + N_MADE] += 1
            from_cache = True
        elif E[E_CONNECT_TTS] > 0.0:
            set_timer(E, J, t + E[E_CONNECT_TTS], D_TTS, n)
        else:
            ask_tts(E, J, n, t)
    return from_cache


@compiled
def go_on(E, J, r, t):
    """Whatever of answer r can be sent is sent, whatever may be asked for is asked for."""
    a = J[O_ANSWER] + r * NN
    while True:
        if J[a + N_CANCELLED] == 0:
            send_held(E, J, r, t)
        if not submit_units(E, J, r, t):
            break
    if J[a + N_DRAINING] != 0 and J[a + N_MADE] == J[a + N_UNITS]:
        J[a + N_DRAINING] = 0
        J[J[O_CALL] + call_of(J, r) * NC + C_DRAINING] -= 1


@compiled
def drained(E, J, r, t):
    """After go_on of a cancelled answer: the call's own answer may have the socket now."""
    c = J[O_CALL] + call_of(J, r) * NC
    own = J[c + C_ANSWER]
    if J[c + C_DRAINING] == 0 and own != r and J[J[O_ANSWER] + own * NN + N_CANCELLED] == 0:
        go_on(E, J, own, t)


# --- speech to the listener ---------------------------------------------------------------------


@compiled
def send_held(E, J, r, t):
    """Chunks leave in the order of units; a later unit's speech waits at the server."""
    a = J[O_ANSWER] + r * NN
    while J[a + N_SENDING] < J[a + N_UNITS]:
        i = J[a + N_SENDING]
        w = J[O_UNIT] + (J[a + N_UNIT] + i) * NW
        done = J[w + W_DONE] != 0
        if J[w + W_HELD] == 0 or (J[J_WAIT_ALL] != 0 and not done):
            break
        audio = J[w + W_HELD] * token_audio(J, J[J_LLM] + J[a + N_TTS])
        J[w + W_HELD] = 0
        if J[J_BLAME] != 0:
            waited_for(E, J, r, source(J, J[a + N_UNIT] + i), i > 0, t)
        send(E, J, r, audio, done and i + 1 == J[a + N_UNITS], t)
        if not done:
            break
        if J[J_BLAME] != 0:
            E[J[OF_WHY] + r * N_WHY + SINCE] = t
        J[a + N_SENDING] = i + 1
        J[J[O_ANSWER_I] + r * ANSWER_I + A_SENT_UNITS] = i + 1
        playing = J[a + N_MODE] == PLAYING
        E[J[OF_UNIT] + (J[a + N_UNIT] + i) * NZ + Z_END] = (
            E[J[OF_ANSWER] + r * NY + Y_PLAY_END] if playing else t
        )


@compiled
def send(E, J, r, audio, last, t):
    """A chunk of ``audio`` seconds leaves the server at t, travels, passes the client, plays."""
    a = J[O_ANSWER] + r * NN
    i = J[O_ANSWER_I] + r * ANSWER_I
    f = J[OF_ANSWER_F] + r * ANSWER_F
    y = J[OF_ANSWER] + r * NY
    index = J[i + A_CHUNKS]
    J[i + A_CHUNKS] = index + 1
    arrive = t + (E[E_DELAY] + E[J[OF_JITTER] + table_index(hash_key(J[J_SEED], P_DOWN, r, index))])
    if index == 0:
        E[f + A_FIRST_SENT] = t
        E[f + A_ARRIVED] = arrive
    elif arrive < E[y + Y_LAST]:
        arrive = E[y + Y_LAST]  # order is kept on the way
    E[y + Y_LAST] = arrive
    ready = arrive if arrive > E[y + Y_CLIENT] else E[y + Y_CLIENT]
    ready = ready + (audio * E[E_CLIENT_AUDIO] + E[E_CLIENT_CHUNK])
    if index == 0 and E[y + Y_FILLER] > ready:
        if J[J_FILLER_CUT] != 0:
            J[i + A_OVERLAP] = 1
        else:
            ready = E[y + Y_FILLER]
    E[y + Y_CLIENT] = ready
    if index > 0:
        count_gap(E, J, r, audio, ready)
    E[y + Y_READY] = ready
    E[y + Y_AUDIO] = audio
    if J[J_LOG] != 0:
        log_chunk(E, J, r, index, t, arrive, ready, audio)
    lead = E[y + Y_PLAY_END] - ready
    mode, play_end, held, since, stall, started, lost = player_deliver(
        J[a + N_MODE], E[y + Y_PLAY_END], E[y + Y_HELD], E[y + Y_SINCE], ready, audio, last,
        E[E_PREBUFFER], E[E_REBUFFER], E[E_MAX_WAIT], E[E_MAX_QUEUE],
    )  # fmt: skip
    J[a + N_MODE] = mode
    E[y + Y_PLAY_END] = play_end
    E[y + Y_HELD] = held
    E[y + Y_SINCE] = since
    E[f + A_LOST] += lost
    E[f + A_RECEIVED] += audio - lost
    if started >= 0.0:
        E[f + A_START] = started
    if stall > 0.0:
        count_stall(E, J, r, stall, ready)
    if J[J_BLAME] != 0:
        unit = -1 if J[a + N_OMNI] != 0 else J[a + N_SENDING]
        late = arrive - (t + E[E_DELAY])
        listened(
            E, J, r, unit, index, mode, late, ready, ready - arrive, lead, stall, started
        )  # fmt: skip
    if mode == PLAYING:
        E[f + A_PLAY_END] = play_end
        expect_interruption(E, J, r)
    if last:
        all_sent(E, J, r, t)


@compiled
def count_gap(E, J, r, audio, ready):
    """Pace of a chunk = its audio / the gap before it; for the alarm, that gap against the audio
    of the chunk before."""
    y = J[OF_ANSWER] + r * NY
    f = J[OF_ANSWER_F] + r * ANSWER_F
    gap = ready - E[y + Y_READY]
    b = int(ready / E[E_RESOLUTION])
    if b >= J[J_BINS]:
        b = J[J_BINS] - 1
    coarse = ratio_bucket(gap / E[y + Y_AUDIO]) // (FINE_PER_OCTAVE // COARSE_PER_OCTAVE)
    J[J[O_GAPS] + b * N_COARSE + coarse] += 1
    if E[f + A_SPOKEN] >= E[E_WARMUP]:
        J[J[O_HIST] + ratio_bucket(gap / audio)] += 1
    if gap > 0.0 and (E[f + A_PACE] < 0.0 or audio / gap < E[f + A_PACE]):
        E[f + A_PACE] = audio / gap


@compiled
def log_chunk(E, J, r, index, t, arrive, ready, audio):
    n = J[J_CHUNKS]
    J[J_CHUNKS] = n + 1
    k = J[O_CHUNK] + n * CHUNK_I
    J[k + K_ANSWER] = r
    J[k + K_INDEX] = index
    k = J[OF_CHUNK] + n * CHUNK_F
    E[k + K_SENT] = t
    E[k + K_ARRIVED] = arrive
    E[k + K_HEARD] = ready
    E[k + K_AUDIO] = audio


@compiled
def count_stall(E, J, r, stall, ready):
    i = J[O_ANSWER_I] + r * ANSWER_I
    f = J[OF_ANSWER_F] + r * ANSWER_F
    if stall > ROUNDING:
        J[i + A_STALLS] += 1
    E[f + A_STALL] += stall
    if stall > E[f + A_STALL_MAX]:
        E[f + A_STALL_MAX] = stall
    if stall > E[E_AUDIBLE]:
        began = ready - stall
        J[i + A_AUDIBLE] += 1
        J[bin_at(E, J, began) + D_STALLS] += 1
        if began >= E[E_WARMUP] and began < E[E_FIRST_STALL]:
            E[E_FIRST_STALL] = began


@compiled
def expect_interruption(E, J, r):
    """Once it is known when the audio plays at which the caller breaks in, so is that instant."""
    a = J[O_ANSWER] + r * NN
    i = J[O_ANSWER_I] + r * ANSWER_I
    y = J[OF_ANSWER] + r * NY
    if J[i + A_INTERRUPT] != NOTHING or J[a + N_HALF] != 0:
        return
    u = turn_of(J, r)
    v = J[OF_TURN] + u * NV
    by_caller = E[v + V_BARGE] <= E[v + V_FALSE]
    position = E[v + V_BARGE] if by_caller else E[v + V_FALSE]
    received = E[J[OF_ANSWER_F] + r * ANSWER_F + A_RECEIVED]
    if position >= received:
        return
    heard = E[y + Y_PLAY_END] - (received - position)
    E[y + Y_STOP] = ((heard + E[E_CAPTURE]) + uplink_of(E, J, u)) + E[E_DETECT]
    J[i + A_INTERRUPT] = CALLER if by_caller else NOISE
    set_timer(E, J, E[y + Y_STOP], D_STOP, r)
    if by_caller:
        if u + 1 <= J[J[O_CALL] + call_of(J, r) * NC + C_LAST]:
            begin_turn(E, J, u + 1, heard)
        else:
            set_timer(E, J, E[y + Y_STOP], D_END, call_of(J, r))  # hangs up, once that is noticed


@compiled
def all_sent(E, J, r, t):
    """The last chunk has left: the turn ends with its playback, unless something breaks in."""
    i = J[O_ANSWER_I] + r * ANSWER_I
    f = J[OF_ANSWER_F] + r * ANSWER_F
    E[f + A_DONE] = t
    E[f + A_LISTENED] = E[f + A_RECEIVED]
    J[i + A_OUTCOME] = PLAYED
    uncount(J, r)
    if J[J[O_ANSWER] + r * NN + N_HALF] != 0 or J[i + A_INTERRUPT] == CALLER:
        return
    if J[i + A_INTERRUPT] == NOISE and E[J[OF_ANSWER] + r * NY + Y_STOP] < E[f + A_PLAY_END]:
        return  # the pause is still to come
    next_turn(E, J, r, E[f + A_PLAY_END])
