"""The recogniser's queues, the heap of what will happen, and the texts to be taken."""

from voicesim.engine.asr_layout import *
from voicesim.engine.kernel.jit import compiled


@compiled
def append(I, r):
    """Segment r goes to the end of its replica's list."""
    s = I[O_SEGMENT] + r * NGI
    e = I[O_ENGINE] + I[s + G_ENGINE] * NEI
    last = I[e + E_TAIL]
    I[s + G_NEXT] = -1
    I[s + G_PREV] = last
    if last < 0:
        I[e + E_HEAD] = r
    else:
        I[I[O_SEGMENT] + last * NGI + G_NEXT] = r
    I[e + E_TAIL] = r


@compiled
def leave(I, r):
    """Segment r leaves its replica's list."""
    s = I[O_SEGMENT] + r * NGI
    e = I[O_ENGINE] + I[s + G_ENGINE] * NEI
    before = I[s + G_PREV]
    after = I[s + G_NEXT]
    if before < 0:
        I[e + E_HEAD] = after
    else:
        I[I[O_SEGMENT] + before * NGI + G_NEXT] = after
    if after < 0:
        I[e + E_TAIL] = before
    else:
        I[I[O_SEGMENT] + after * NGI + G_PREV] = before


# --- the heap: items by (time, number); an item's place in it is known, -1 if it is not there ---


@compiled
def put(I, i, item):
    I[I[O_HEAP] + i] = item
    I[I[O_PLACE] + item] = i


@compiled
def before(F, I, a, b):
    ta = F[I[OF_TIME] + a]
    tb = F[I[OF_TIME] + b]
    return ta < tb or (ta == tb and a < b)


@compiled
def rise(F, I, i):
    item = I[I[O_HEAP] + i]
    while i > 0:
        above = I[I[O_HEAP] + ((i - 1) >> 1)]
        if not before(F, I, item, above):
            break
        put(I, i, above)
        i = (i - 1) >> 1
    put(I, i, item)


@compiled
def sink(F, I, i):
    item = I[I[O_HEAP] + i]
    n = I[H_HEAP]
    while True:
        c = 2 * i + 1
        if c >= n:
            break
        if c + 1 < n and before(F, I, I[I[O_HEAP] + c + 1], I[I[O_HEAP] + c]):
            c += 1
        below = I[I[O_HEAP] + c]
        if not before(F, I, below, item):
            break
        put(I, i, below)
        i = c
    put(I, i, item)


@compiled
def set_time(F, I, item, t):
    """The item happens at t; NEVER takes it out."""
    i = I[I[O_PLACE] + item]
    F[I[OF_TIME] + item] = t
    if t >= NEVER:
        if i < 0:
            return
        n = I[H_HEAP] - 1
        I[H_HEAP] = n
        I[I[O_PLACE] + item] = -1
        if i < n:
            last = I[I[O_HEAP] + n]
            put(I, i, last)
            rise(F, I, i)
            sink(F, I, I[I[O_PLACE] + last])
    elif i < 0:
        n = I[H_HEAP]
        I[H_HEAP] = n + 1
        put(I, n, item)
        rise(F, I, n)
    else:
        rise(F, I, i)
        sink(F, I, I[I[O_PLACE] + item])


# --- texts: a ring of as many places as there are segments --------------------------------------


@compiled
def tell(I, r):
    I[I[O_SEGMENT] + r * NGI + G_STATE] = TOLD
    I[I[O_OUT] + (I[H_OUT_FIRST] + I[H_OUT]) % I[H_ROWS]] = r
    I[H_OUT] += 1


@compiled
def untell(I, r):
    """Segment r was dropped before its text was taken."""
    found = 0
    for i in range(I[H_OUT]):
        place = I[O_OUT] + (I[H_OUT_FIRST] + i) % I[H_ROWS]
        if I[place] == r:
            found = 1
        elif found == 1:
            I[I[O_OUT] + (I[H_OUT_FIRST] + i - 1) % I[H_ROWS]] = I[place]
    I[H_OUT] -= 1


@compiled
def take_text(I):
    """The next segment whose text has become final, or -1."""
    if I[H_OUT] == 0:
        return -1
    r = I[I[O_OUT] + I[H_OUT_FIRST]]
    I[H_OUT_FIRST] = (I[H_OUT_FIRST] + 1) % I[H_ROWS]
    I[H_OUT] -= 1
    I[I[O_SEGMENT] + r * NGI + G_STATE] = FREE
    return r
