"""What a dialogue notes to say why an answer stalled: rows beside those of its arenas.

An answer's speech comes from a source after another: its units, each a stream of a TTS engine, or
one stream of the speech-to-speech engine.  What a source has waited for (a state, engine/blame.py)
comes with its chunks, and adds up over the answer wherever the answer waited for that source; to
it come the waits for text and for the server's gate, the network and the client.
"""

from voicesim.engine.blame import N_CHARGED, N_HANDED, N_STATE

# a source: its state with its last chunk (and the engine), what of it the answer has counted;
# instants (s): of that chunk, of its first, of its text, of its request; flags
HANDED = 0
COUNTED = N_HANDED
W_AT, W_FIRST, W_TEXT, W_ASKED, W_GATED, W_BEGUN, W_SENT = range(
    N_HANDED + N_STATE, N_HANDED + N_STATE + 7
)
N_SOURCE = W_SENT + 1

# an answer: the sum so far, the same at BASE, the buffer there (s), since when it waits for its
# source (s), seconds that the client waited for the whole unit, what remains' cause, scratch
SUM, BASE = 0, N_STATE
MARGIN, SINCE, WHOLE, REST, PLACE, BASE_PLACE = range(2 * N_STATE, 2 * N_STATE + 6)
PARTS = BASE_PLACE + 1
N_WHY = PARTS + 2 * N_CHARGED

MOST_ENGINES = 1 << 20
"""A place is pool * MOST_ENGINES + engine + 1; 0: none yet."""
