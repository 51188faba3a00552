"""The recogniser as a call uses it: its arenas lie behind those of the pools."""

from voicesim.engine.kernel import asr
from voicesim.engine.kernel.jit import compiled
from voicesim.engine.spec import NEVER
from voicesim.session.kernel.state import floats_of, ints_of
from voicesim.session.layout import J_ASR, MOST_POOLS


@compiled
def connect(J, k, t):
    """Call k gets a recogniser; False if all places are taken."""
    if J[J_ASR] == 0:
        return True
    return asr.connect(floats_of(J, MOST_POOLS), ints_of(J, MOST_POOLS), k, t) != 0


@compiled
def disconnect(J, k, t):
    if J[J_ASR] != 0:
        asr.disconnect(floats_of(J, MOST_POOLS), ints_of(J, MOST_POOLS), k, t)


@compiled
def drop_speech(J, r, t):
    if J[J_ASR] != 0:
        asr.drop(floats_of(J, MOST_POOLS), ints_of(J, MOST_POOLS), r, t)


@compiled
def flush(J, r, t):
    asr.flush(floats_of(J, MOST_POOLS), ints_of(J, MOST_POOLS), r, t)


@compiled
def speech_begins(J, r, k, t):
    asr.speech_begins(floats_of(J, MOST_POOLS), ints_of(J, MOST_POOLS), r, k, t)


@compiled
def transcribe(J, r, k, audio, t):
    asr.transcribe(floats_of(J, MOST_POOLS), ints_of(J, MOST_POOLS), r, k, audio, t)


@compiled
def next_recognition(J):
    """Time of the recogniser's next event; NEVER without one."""
    if J[J_ASR] == 0:
        return NEVER
    return asr.next_event(floats_of(J, MOST_POOLS), ints_of(J, MOST_POOLS))


@compiled
def recognise(J, t):
    asr.event(floats_of(J, MOST_POOLS), ints_of(J, MOST_POOLS), t)


@compiled
def take_text(J):
    """The next answer whose turn's text has become final, or -1."""
    return asr.take_text(ints_of(J, MOST_POOLS))
