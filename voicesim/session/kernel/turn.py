"""A turn: the caller speaks, is heard, the turn is decided to be over, transcribed, answered."""

from voicesim.engine.kernel.jit import adopt, compiled
from voicesim.engine.layout import ABANDONED, COMPLETED, REFUSED
from voicesim.engine.spec import NEVER
from voicesim.listener import player
from voicesim.session.blame import W_TEXT
from voicesim.session.kernel.answer import (
    ask_tts,
    begin_turn,
    cancel_answer,
    drained,
    end_call,
    go_on,
    next_turn,
    not_served,
    send,
    speaking,
)
from voicesim.session.kernel.blame import source, source_of_omni, waited_for
from voicesim.session.kernel.recogniser import connect, flush, speech_begins, transcribe
from voicesim.session.kernel.stages import ask, cancel_stream, token_audio
from voicesim.session.kernel.state import *
from voicesim.session.layout import *
from voicesim.session.record import *
from voicesim.session.spec import NEXT_CHUNK, NONE

heard_by = adopt(player.heard_by)
SILENT, PLAYING = player.SILENT, player.PLAYING


@compiled
def call_arrives(E, J, k, t):
    """Call k is let in if there is room for it."""
    J[bin_at(E, J, t) + D_CALLS] += 1
    E[J[OF_CALL_F] + k * CALL_F + Q_START] = t
    if J[J_LIVE] >= J[J_LIMIT] or not connect(J, k, t):
        J[bin_at(E, J, t) + D_REFUSED] += 1
        J[J[O_CALL_I] + k * CALL_I + Q_OUTCOME] = REFUSED
        E[J[OF_CALL_F] + k * CALL_F + Q_END] = t
        return
    J[J_LIVE] += 1
    u = J[J[O_CALL] + k * NC + C_FIRST]
    begin_turn(E, J, u, t + E[J[OF_TURN] + u * NV + V_THINK])


@compiled
def caller_speaks(E, J, u, t):
    """The server hears turn u begin; everything until the decision follows from the caller."""
    k = J[J[O_TURN] + u * NT + T_CALL]
    c = J[O_CALL] + k * NC
    v = J[OF_TURN] + u * NV
    J[c + C_TURN] = u
    J[J[O_CALL_I] + k * CALL_I + Q_TURNS] += 1
    speaking(J, k, 1)
    half = J[J[O_TURN] + u * NT + T_CUT]
    r = J[J[O_TURN] + u * NT + T_ANSWER]
    first = half if half >= 0 else r
    J[c + C_ANSWER] = first
    up = E[v + V_UP]
    speak = E[J[OF_ANSWER_F] + first * ANSWER_F + A_SPEAK]
    hear(J, first, t)
    spoken = speak + E[v + V_SPEECH]
    if half >= 0:
        f = J[OF_ANSWER_F] + half * ANSWER_F
        paused = speak + E[v + V_CUT_AT]
        E[f + A_SPOKEN] = paused
        E[f + A_HEARD_END] = (paused + E[E_CAPTURE]) + up
        set_timer(E, J, E[f + A_HEARD_END] + E[v + V_CUT_ENDPOINT], D_CUT, u)
        goes_on = paused + E[v + V_CUT_PAUSE]
        E[J[OF_ANSWER_F] + r * ANSWER_F + A_SPEAK] = goes_on
        set_timer(E, J, (goes_on + E[E_CAPTURE]) + up, D_RESUME, u)
        spoken = spoken + E[v + V_CUT_PAUSE]
    f = J[OF_ANSWER_F] + r * ANSWER_F
    E[f + A_SPOKEN] = spoken
    E[f + A_HEARD_END] = (spoken + E[E_CAPTURE]) + up
    set_timer(E, J, E[f + A_HEARD_END] + E[v + V_ENDPOINT], D_DECIDE, u)
    if E[v + V_PATIENCE] < NEVER:
        at = spoken + E[v + V_PATIENCE]
        set_timer(E, J, at if at > t else t, D_PATIENCE, u)


@compiled
def hear(J, r, t):
    """The recogniser listens, unless the speech model does so itself."""
    if J[J_ASR] != 0 and J[J[O_ANSWER] + r * NN + N_OMNI] == 0:
        speech_begins(J, r, call_of(J, r), t)


@compiled
def decided(E, J, r, t):
    """The turn is taken to be over: its text is wanted now."""
    f = J[OF_ANSWER_F] + r * ANSWER_F
    a = J[O_ANSWER] + r * NN
    E[f + A_DECIDED] = t
    speaking(J, call_of(J, r), 0)
    J[a + N_COUNTED] = 1
    J[J_ANSWERING] += 1
    if E[E_FILLER_AFTER] < NEVER:
        set_timer(E, J, t + E[E_FILLER_AFTER], D_FILLER, r)
    if J[a + N_OMNI] != 0:
        E[f + A_TEXT] = t
        E[f + A_ASKED] = t
        E[f + A_FIRST_UNIT] = t
        taken = ask(J, J[J_OMNI], r, t)
        if E[E_OMNI_TIMEOUT] >= NEVER:
            if not taken:
                not_served(E, J, r, t)
        elif taken:
            set_timer(E, J, t + E[E_OMNI_TIMEOUT], D_FALLBACK, r)
        else:
            fall_back(E, J, r, t)
    elif J[J_ASR] != 0:
        flush(J, r, t)
    else:
        text_there(E, J, r, t)


@compiled
def text_there(E, J, r, t):
    """The words of the turn are known: the language model is asked."""
    if J[J[O_ANSWER] + r * NN + N_CANCELLED] != 0:
        return
    E[J[OF_ANSWER_F] + r * ANSWER_F + A_TEXT] = t
    if E[E_CONNECT_LLM] > 0.0:
        set_timer(E, J, t + E[E_CONNECT_LLM], D_LLM, r)
    else:
        ask_llm(E, J, r, t)


@compiled
def ask_llm(E, J, r, t):
    a = J[O_ANSWER] + r * NN
    if J[a + N_CANCELLED] != 0:
        return
    E[J[OF_ANSWER_F] + r * ANSWER_F + A_ASKED] = t
    if not ask(J, J[a + N_LLM], r, t):
        not_served(E, J, r, t)


@compiled
def filler_due(E, J, r, t):
    """Nothing of the answer has left yet: a filler bridges the silence."""
    if J[J[O_ANSWER] + r * NN + N_CANCELLED] != 0:
        return
    if E[J[OF_ANSWER_F] + r * ANSWER_F + A_FIRST_SENT] < 0.0:
        J[J[O_ANSWER_I] + r * ANSWER_I + A_FILLER] = 1
        E[J[OF_ANSWER] + r * NY + Y_FILLER] = (t + E[E_DELAY]) + E[E_FILLER_AUDIO]


@compiled
def fall_back(E, J, r, t):
    """No sound from the speech model in time, or refused by it: the three stages answer instead."""
    a = J[O_ANSWER] + r * NN
    f = J[OF_ANSWER_F] + r * ANSWER_F
    if J[a + N_CANCELLED] != 0 or E[f + A_FIRST_SENT] >= 0.0:
        return
    cancel_stream(J, J[J_OMNI], r, t, False)
    J[a + N_OMNI] = 0
    J[J[O_ANSWER_I] + r * ANSWER_I + A_FELL_BACK] = 1
    E[f + A_TEXT] = -1.0
    E[f + A_ASKED] = -1.0
    E[f + A_FIRST_UNIT] = -1.0
    if J[J_ASR] != 0:
        transcribe(J, r, call_of(J, r), E[f + A_SPOKEN] - E[f + A_SPEAK], t)
    else:
        text_there(E, J, r, t)


@compiled
def stop(E, J, r, t):
    """The server has noticed that the caller broke in, or a noise, or that the turn went on."""
    a = J[O_ANSWER] + r * NN
    i = J[O_ANSWER_I] + r * ANSWER_I
    f = J[OF_ANSWER_F] + r * ANSWER_F
    if J[a + N_CANCELLED] != 0 or J[J[O_CALL] + call_of(J, r) * NC + C_OVER] != 0:
        return
    if J[i + A_INTERRUPT] == NOISE:
        if J[i + A_OUTCOME] == PLAYED and E[f + A_PLAY_END] <= t:
            return  # it has been heard to its end before the noise was noticed
        if E[E_RESUME] < NEVER:
            E[J[OF_ANSWER] + r * NY + Y_STOP] = NEVER  # no pause is still to come
            falls_silent(E, J, r, t)
            return
    silence_player(E, J, r, t)
    J[i + A_OUTCOME] = CANCELLED
    cancel_answer(E, J, r, t, J[J_CANCEL])
    if J[J_CANCEL] == NONE:
        go_on(E, J, r, t)
        drained(E, J, r, t)
    if J[i + A_INTERRUPT] == NOISE:
        next_turn(E, J, r, E[f + A_STOPPED] if E[f + A_STOPPED] > t else t)


@compiled
def falls_silent(E, J, r, t):
    """A false interruption: the agent pauses, then goes on where it was."""
    f = J[OF_ANSWER_F] + r * ANSWER_F
    y = J[OF_ANSWER] + r * NY
    if J[J[O_ANSWER] + r * NN + N_MODE] == PLAYING and E[y + Y_PLAY_END] > t:
        E[y + Y_PLAY_END] += E[E_RESUME]
        E[f + A_PLAY_END] = E[y + Y_PLAY_END]
        E[f + A_PAUSED] += E[E_RESUME]
        if J[J[O_ANSWER_I] + r * ANSWER_I + A_OUTCOME] == PLAYED:
            next_turn(E, J, r, E[f + A_PLAY_END])


@compiled
def silence_player(E, J, r, t):
    """What has been heard when the player stops: flushed, or played to the end of its buffer."""
    f = J[OF_ANSWER_F] + r * ANSWER_F
    stopped = t + E[E_DELAY]
    end = E[f + A_PLAY_END]
    received = E[f + A_RECEIVED]
    if E[f + A_START] < 0.0 or (J[J_FLUSH] != 0 and E[f + A_START] >= stopped):
        E[f + A_START] = -1.0
        E[f + A_LISTENED] = 0.0
        E[f + A_STOPPED] = t
    elif J[J_FLUSH] != 0 and end > stopped:
        left = received - (end - stopped)
        E[f + A_LISTENED] = left if left > 0.0 else 0.0
        E[f + A_STOPPED] = stopped
    else:
        E[f + A_LISTENED] = received
        E[f + A_STOPPED] = end


@compiled
def patience_ends(E, J, u, t):
    """Silence for too long after turn u: the caller hangs up."""
    v = J[O_TURN] + u * NT
    k = J[v + T_CALL]
    c = J[O_CALL] + k * NC
    r = J[v + T_ANSWER]
    f = J[OF_ANSWER_F] + r * ANSWER_F
    y = J[OF_ANSWER] + r * NY
    if J[c + C_OVER] != 0 or J[c + C_TURN] != u:
        return
    mode = J[J[O_ANSWER] + r * NN + N_MODE]
    if heard_by(mode, E[y + Y_SINCE], E[f + A_START], t, E[E_MAX_WAIT]):
        return
    filler = J[J[O_ANSWER_I] + r * ANSWER_I + A_FILLER] != 0
    if filler and E[y + Y_FILLER] - E[E_FILLER_AUDIO] <= t:
        return
    E[f + A_START] = -1.0
    E[f + A_LISTENED] = 0.0
    E[f + A_STOPPED] = t
    J[J[O_ANSWER_I] + r * ANSWER_I + A_INTERRUPT] = NOTHING
    if J[J[O_ANSWER] + r * NN + N_CANCELLED] == 0:
        J[J[O_ANSWER_I] + r * ANSWER_I + A_OUTCOME] = HUNG_UP
        cancel_answer(E, J, r, t, J[J_CANCEL])
        if J[J_CANCEL] == NONE:
            go_on(E, J, r, t)
    end_call(E, J, k, ABANDONED, t)


@compiled
def timer_event(E, J, kind, n, t):
    """The dialogue's timer of that kind and number."""
    if kind == D_LLM:
        ask_llm(E, J, n, t)
    elif kind == D_GATE:
        J[J[O_ANSWER] + n * NN + N_GATE] = 0
        if J[J[O_ANSWER] + n * NN + N_CANCELLED] == 0:
            go_on(E, J, n, t)
    elif kind == D_TTS:
        r = J[J[O_UNIT] + n * NW + W_ANSWER]
        if J[J[O_ANSWER] + r * NN + N_CANCELLED] == 0 or J[J[O_ANSWER] + r * NN + N_DRAINING] != 0:
            ask_tts(E, J, n, t)
    elif kind == D_FILLER:
        filler_due(E, J, n, t)
    elif kind == D_STOP:
        stop(E, J, n, t)
    elif kind == D_FALLBACK:
        fall_back(E, J, n, t)
    elif kind == D_PATIENCE:
        patience_ends(E, J, n, t)
    elif kind == D_END:
        if J[J[O_CALL] + n * NC + C_OVER] == 0:
            end_call(E, J, n, COMPLETED, t)
    else:
        turn_event(E, J, kind, n, t)


@compiled
def turn_event(E, J, kind, u, t):
    """What happens while the caller of turn u speaks."""
    v = J[O_TURN] + u * NT
    k = J[v + T_CALL]
    if J[J[O_CALL] + k * NC + C_OVER] != 0:
        return
    if kind == D_SPEAK:
        caller_speaks(E, J, u, t)
    elif kind == D_CUT:
        decided(E, J, J[v + T_CUT], t)
    elif kind == D_RESUME:
        half = J[v + T_CUT]
        J[J[O_ANSWER_I] + half * ANSWER_I + A_INTERRUPT] = CUT_OFF
        set_timer(E, J, t + E[E_DETECT], D_STOP, half)
        J[J[O_CALL] + k * NC + C_ANSWER] = J[v + T_ANSWER]
        speaking(J, k, 1)
        hear(J, J[v + T_ANSWER], t)
    else:
        decided(E, J, J[v + T_ANSWER], t)


# --- what the stages hand over ------------------------------------------------------------------


@compiled
def stops_here(E, J, r, last, t):
    """The answer goes on with what has come; True if the stream it came from is to be stopped."""
    a = J[O_ANSWER] + r * NN
    if J[a + N_CANCELLED] == 0:
        go_on(E, J, r, t)
        return False
    if J[a + N_DRAINING] != 0:
        go_on(E, J, r, t)
        drained(E, J, r, t)
        return False
    return J[J_CANCEL] == NEXT_CHUNK and not last


@compiled
def unit_of_text(E, J, r, last, t):
    """The language model has completed a unit of answer r."""
    a = J[O_ANSWER] + r * NN
    if J[J_BLAME] != 0:
        E[source(J, J[a + N_UNIT] + J[a + N_READY]) + W_TEXT] = t
    J[a + N_READY] += 1
    f = J[OF_ANSWER_F] + r * ANSWER_F
    if E[f + A_FIRST_UNIT] < 0.0:
        E[f + A_FIRST_UNIT] = t
    if stops_here(E, J, r, last, t):
        cancel_stream(J, J[a + N_LLM], r, t, False)


@compiled
def chunk_of_speech(E, J, n, tokens, last, t):
    """The TTS engine has made a chunk of unit n."""
    w = J[O_UNIT] + n * NW
    r = J[w + W_ANSWER]
    a = J[O_ANSWER] + r * NN
    J[w + W_HELD] += tokens
    if last:
        J[w + W_DONE] = 1
        J[a + N_MADE] += 1
    if stops_here(E, J, r, last, t):
        cancel_stream(J, J[J_LLM] + J[a + N_TTS], n, t, False)


@compiled
def chunk_of_omni(E, J, r, tokens, last, t):
    """The speech-to-speech model has made a chunk of answer r."""
    if J[J[O_ANSWER] + r * NN + N_CANCELLED] == 0:
        if J[J_BLAME] != 0:
            waited_for(E, J, r, source_of_omni(J, r), False, t)
        send(E, J, r, tokens * token_audio(J, J[J_OMNI]), last, t)
    elif J[J_CANCEL] == NEXT_CHUNK and not last:
        cancel_stream(J, J[J_OMNI], r, t, False)
