"""The recogniser's doors; without one, the words are there at the decision."""

from voicesim.engine.kernel.jit import compiled
from voicesim.engine.spec import NEVER


@compiled
def connect(J, k, t):
    return True


@compiled
def disconnect(J, k, t):
    return


@compiled
def drop_speech(J, r, t):
    return


@compiled
def flush(J, r, t):
    return


@compiled
def speech_begins(J, r, k, t):
    return


@compiled
def transcribe(J, r, k, audio, t):
    return


@compiled
def next_recognition(J):
    return NEVER


@compiled
def recognise(E, J, t):
    return


@compiled
def take_texts(J):
    return J[:0]


@compiled
def recogniser_room(J):
    return True
