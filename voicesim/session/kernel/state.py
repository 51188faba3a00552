"""Rows of the dialogue's arenas, its timers, and the pools' arenas by number."""

from voicesim.engine.kernel.jit import adopt, compiled, float_pointer, int_pointer
from voicesim.engine.kernel.lists import push
from voicesim.session.layout import *
from voicesim.session.record import *
from voicesim.workload import rng

hash_key = adopt(rng.hash_key, hash_on=adopt(rng.hash_on))
table_index = adopt(rng.table_index)


@compiled
def floats_of(J, pool):
    """The float arena of a pool."""
    return float_pointer(J[J_ARENAS + 2 * pool])


@compiled
def ints_of(J, pool):
    """The int arena of a pool."""
    return int_pointer(J[J_ARENAS + 2 * pool + 1])


@compiled
def turn_of(J, r):
    return J[J[O_ANSWER] + r * NN + N_TURN]


@compiled
def call_of(J, r):
    """The call of answer r."""
    return J[J[O_TURN] + turn_of(J, r) * NT + T_CALL]


@compiled
def uplink_of(E, J, u):
    """One-way delay of turn u to the server."""
    return E[J[OF_TURN] + u * NV + V_UP]


@compiled
def bin_at(E, J, t):
    """Row of the time series that holds time t."""
    b = int(t / E[E_RESOLUTION])
    last = J[J_BINS] - 1
    return J[O_SERIES] + (b if b < last else last) * SERIES


@compiled
def set_timer(E, J, t, kind, number):
    """A timer of the dialogue, ordered by (time, kind, number)."""
    push(E, J, J_HEAP, J[OF_TIMERS], J[O_TIMERS], t, (kind << 40) | number)
