"""Why a stall was heard: causes, their arithmetic, and the rows in which it is kept.

Each engine sums, step by step, the seconds that a step took beyond that of a lone stream
(``SUM_*``).  A stream keeps those sums, and its own waits, as they were when the chunk at hand was
on its way (``NOW``) and at the chunk for which its listener's buffer held most (``BASE``).  At a
stall their differences are what made the listener wait longer than an idle system would have.

``split`` charges what the buffer lost since then: first to what was unusual, the stream's own waits
and the engine's seconds beyond its average so far, then to what was usual there; what is left
would have happened to a lone stream too, and is the chunk schedule's.
"""

CAUSES = (
    "network", "client", "preemption", "prefill", "pause", "codec", "queue", "text", "batch",
    "sharing", "neighbours", "pacing", "schedule",
)  # fmt: skip
"""Of equal shares the first is the cause.

network: the delay beyond the usual one.  client: the client's own code, and its waiting for whole
units.  preemption: from being thrown out of the KV cache until the stream decodes again.
prefill: prompt tokens of others in its steps.  pause: step noise.  codec: a codec batch beyond a
lone stream's, and the wait for it.  queue: a unit's wait for its turn at the TTS engine.
text: a unit's words came after the speech before it had left.  batch: decoding beside others.
sharing: the codec on the decoder's GPU stretched its steps.  neighbours: other engines on a shared
card stretched its steps and the chunk's codec batch.  pacing: the server held a unit's text back,
or the stream paused because it was ahead (engine.pacing).  schedule: what remains, for chunks too
small or too large, or an engine too slow even for one stream.
"""
(
    NETWORK, CLIENT, PREEMPTION, PREFILL, PAUSE, CODEC, QUEUE, TEXT, BATCH, SHARING, NEIGHBOURS,
    PACING, SCHEDULE,
) = range(13)  # fmt: skip
NC = 13
N_CHARGED = 11  # pacing and schedule get what remains

# a state: seconds by cause; prompt tokens and steps so far; the engine's step number, its batch
C_TOKENS, C_STEPS, C_STEP, C_BATCH, C_TIME = range(N_CHARGED, N_CHARGED + 5)
N_STATE = N_CHARGED + 5

N_HANDED = N_STATE + 1  # a state and its engine, as a stage hands it to the dialogue

# an engine's sums (s, and prompt tokens), its step in flight, and what was largest lately
(
    SUM_PREFILL, SUM_PAUSE, SUM_BATCH, SUM_SHARING, SUM_NEIGHBOURS, SUM_TOKENS, SUM_STEPS,
) = range(7)  # fmt: skip
N_SUMS = 7
ALONE, BARE, FULL, PROMPTS, WIDTH, DECODES, KV = range(7, 14)
N_WIDEST, N_LONGEST = 14, 15
MOST_KEPT = 64
"""Largest batches and prompts of an engine that are remembered, each with all after it smaller."""
WIDEST = 16  # pairs: step, batch
LONGEST = WIDEST + 2 * MOST_KEPT  # triples: step, tokens, when the step began
NEB = LONGEST + 3 * MOST_KEPT

# a stream: NOW, BASE, the buffer at BASE (s), sums to leave out, absence from the batch,
# when it last paused
NOW, BASE = 0, N_STATE
MARGIN = 2 * N_STATE
OFF = MARGIN + 1
AWAY = OFF + N_SUMS  # the sums when it was sent away
AWAY_SINCE, IS_AWAY, FOUND, WAITED, THROWN_OUT, HELD_AT = range(AWAY + N_SUMS, AWAY + N_SUMS + 6)
PARTS = HELD_AT + 1
NSB = PARTS + 2 * N_CHARGED

# the log of audible stalls
(
    L_WHO, L_CHUNK, L_UNIT, L_POOL, L_ENGINE, L_CAUSE, L_BATCH_THEN, L_BATCH, L_BATCH_MOST,
    L_TOKENS, L_LONGEST, L_STEP,
) = range(12)  # fmt: skip
N_STALL_I = 12
L_BEGAN, L_LENGTH, L_SINCE, L_LONGEST_AT, L_SHARES = range(5)
N_STALL_F = L_SHARES + NC


def usual(sums, o, steps, parts, p):
    """parts[p : p + 11]: what ``steps`` of an engine's steps cost beyond a lone stream's, as it
    was on average so far, by cause; sums[o:]: the engine's."""
    for c in range(N_CHARGED):
        parts[p + c] = 0.0
    taken = steps / sums[o + SUM_STEPS]
    parts[p + PREFILL] = sums[o + SUM_PREFILL] * taken
    parts[p + PAUSE] = sums[o + SUM_PAUSE] * taken
    parts[p + BATCH] = sums[o + SUM_BATCH] * taken
    parts[p + SHARING] = sums[o + SUM_SHARING] * taken
    parts[p + NEIGHBOURS] = sums[o + SUM_NEIGHBOURS] * taken


def split(parts, p, out, o, stall, lost, rest):
    """Charge a stall of ``stall`` seconds at which the buffer had lost ``lost`` (>= stall) since.

    parts[p : p + 11]: seconds by cause, in the order of CAUSES; parts[p + 11 : p + 22]: how much
    of them would have been usual.  out[o : o + 13]: the shares of the stall, none negative, that
    make it up.  rest: the cause of what remains.  Returns the cause with the largest.
    """
    unusual = 0.0
    ordinary = 0.0
    for c in range(N_CHARGED):
        all_of_it = parts[p + c] if parts[p + c] > 0.0 else 0.0
        known = parts[p + N_CHARGED + c]
        if known < 0.0:
            known = 0.0
        if known > all_of_it:
            known = all_of_it
        parts[p + c] = all_of_it - known
        parts[p + N_CHARGED + c] = known
        unusual = unusual + parts[p + c]
        ordinary = ordinary + known
    left = lost - unusual
    first = 1.0
    then = 0.0
    if left <= 0.0:
        first = lost / unusual
        left = 0.0
    elif left < ordinary:
        then = left / ordinary
        left = 0.0
    else:
        then = 1.0
        left = left - ordinary
    scale = stall / lost
    for c in range(N_CHARGED):
        out[o + c] = (parts[p + c] * first + parts[p + N_CHARGED + c] * then) * scale
    out[o + PACING] = 0.0
    out[o + SCHEDULE] = 0.0
    out[o + rest] = left * scale
    cause = 0
    for c in range(1, NC):
        if out[o + c] > out[o + cause]:
            cause = c
    return cause


def add_step(sums, o, seconds, wall, lost):
    """A step that would have taken ``seconds`` unshared took ``wall``, of which ``lost`` went to
    other engines on the card; sums[o + ALONE ...] holds what it would have cost alone, without
    prompts, and with them before the noise."""
    sums[o + SUM_PREFILL] = sums[o + SUM_PREFILL] + (sums[o + FULL] - sums[o + BARE])
    sums[o + SUM_PAUSE] = sums[o + SUM_PAUSE] + (seconds - sums[o + FULL])
    sums[o + SUM_BATCH] = sums[o + SUM_BATCH] + (sums[o + BARE] - sums[o + ALONE])
    sums[o + SUM_SHARING] = sums[o + SUM_SHARING] + ((wall - seconds) - lost)
    sums[o + SUM_NEIGHBOURS] = sums[o + SUM_NEIGHBOURS] + lost
    sums[o + SUM_TOKENS] = sums[o + SUM_TOKENS] + sums[o + PROMPTS]
    sums[o + SUM_STEPS] = sums[o + SUM_STEPS] + 1.0


def remember(rows, o, count, first, width, step, size, at):
    """Note the size of step ``step`` among the largest: those after which all were smaller.

    count, first, width: where in a row the number of entries is, where they begin, how wide each
    is.  Beyond MOST_KEPT the oldest is forgotten.
    """
    n = int(rows[o + count])
    while n > 0 and rows[o + first + (n - 1) * width + 1] <= size:
        n -= 1
    if n == MOST_KEPT:
        for i in range(width * (MOST_KEPT - 1)):
            rows[o + first + i] = rows[o + first + width + i]
        n -= 1
    place = o + first + n * width
    rows[place] = step
    rows[place + 1] = size
    if width == 3:
        rows[place + 2] = at
    rows[o + count] = n + 1


def largest_since(rows, o, count, first, width, step):
    """Where the largest entry after step ``step`` stands; -1: there is none."""
    n = int(rows[o + count])
    for i in range(n):
        if rows[o + first + i * width] > step:
            return o + first + i * width
    return -1
