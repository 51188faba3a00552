"""Doubly linked lists of stream rows, and the heap of timers.

A list is a (head, tail) pair of positions in I and a pair of columns of the stream rows.
"""

from voicesim.engine.kernel.jit import compiled
from voicesim.engine.layout import H_HEAP, NSI, O_HEAP_ID, O_STREAM, OF_HEAP_T


@compiled
def append(I, head, tail, nxt, prv, s):
    o = I[O_STREAM]
    last = I[tail]
    I[o + s * NSI + nxt] = -1
    I[o + s * NSI + prv] = last
    if last < 0:
        I[head] = s
    else:
        I[o + last * NSI + nxt] = s
    I[tail] = s


@compiled
def prepend(I, head, tail, nxt, prv, s):
    o = I[O_STREAM]
    first = I[head]
    I[o + s * NSI + prv] = -1
    I[o + s * NSI + nxt] = first
    if first < 0:
        I[tail] = s
    else:
        I[o + first * NSI + prv] = s
    I[head] = s


@compiled
def remove(I, head, tail, nxt, prv, s):
    o = I[O_STREAM]
    a = I[o + s * NSI + prv]
    b = I[o + s * NSI + nxt]
    if a < 0:
        I[head] = b
    else:
        I[o + a * NSI + nxt] = b
    if b < 0:
        I[tail] = a
    else:
        I[o + b * NSI + prv] = a


@compiled
def push(F, I, count, times, keys, t, key):
    """Binary heap by (time, key): ``times`` and ``keys`` are its offsets in F and I, ``count``
    the position in I of how many there are."""
    i = I[count]
    I[count] = i + 1
    while i > 0:
        p = (i - 1) >> 1
        tp = F[times + p]
        if tp < t or (tp == t and I[keys + p] < key):
            break
        F[times + i] = tp
        I[keys + i] = I[keys + p]
        i = p
    F[times + i] = t
    I[keys + i] = key


@compiled
def pop(F, I, count, times, keys):
    """Remove the first of the heap; its time and key were at position 0."""
    n = I[count] - 1
    I[count] = n
    if n == 0:
        return
    t = F[times + n]
    key = I[keys + n]
    i = 0
    while True:
        c = 2 * i + 1
        if c >= n:
            break
        d = c + 1
        if d < n and (
            F[times + d] < F[times + c]
            or (F[times + d] == F[times + c] and I[keys + d] < I[keys + c])
        ):
            c = d
        if t < F[times + c] or (t == F[times + c] and key < I[keys + c]):
            break
        F[times + i] = F[times + c]
        I[keys + i] = I[keys + c]
        i = c
    F[times + i] = t
    I[keys + i] = key


@compiled
def push_timer(F, I, t, kind, u):
    """A timer of the pool, ordered by (time, kind, utterance)."""
    push(F, I, H_HEAP, I[OF_HEAP_T], I[O_HEAP_ID], t, (kind << 40) | u)


@compiled
def pop_timer(F, I):
    """Remove the pool's first timer."""
    pop(F, I, H_HEAP, I[OF_HEAP_T], I[O_HEAP_ID])
