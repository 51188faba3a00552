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
def push_timer(F, I, t, kind, u):
    """Binary heap by (time, kind, utterance)."""
    key = (kind << 40) | u
    ot = I[OF_HEAP_T]
    oi = I[O_HEAP_ID]
    i = I[H_HEAP]
    I[H_HEAP] = i + 1
    while i > 0:
        p = (i - 1) >> 1
        tp = F[ot + p]
        if tp < t or (tp == t and I[oi + p] < key):
            break
        F[ot + i] = tp
        I[oi + i] = I[oi + p]
        i = p
    F[ot + i] = t
    I[oi + i] = key


@compiled
def pop_timer(F, I):
    """Remove the first timer; its time and key were at position 0."""
    ot = I[OF_HEAP_T]
    oi = I[O_HEAP_ID]
    n = I[H_HEAP] - 1
    I[H_HEAP] = n
    if n == 0:
        return
    t = F[ot + n]
    key = I[oi + n]
    i = 0
    while True:
        c = 2 * i + 1
        if c >= n:
            break
        if c + 1 < n and (
            F[ot + c + 1] < F[ot + c] or (F[ot + c + 1] == F[ot + c] and I[oi + c + 1] < I[oi + c])
        ):
            c += 1
        if t < F[ot + c] or (t == F[ot + c] and key < I[oi + c]):
            break
        F[ot + i] = F[ot + c]
        I[oi + i] = I[oi + c]
        i = c
    F[ot + i] = t
    I[oi + i] = key
