"""The compiled model as plain Python: what a tracer can follow and a change to it costs nothing.

``pytest -p tests.interpreted ...`` puts this in the place of ``voicesim.engine.kernel.jit`` before
anything imports it.  The functions are the same; a pointer is a view of the memory at its address.
Some hundred times slower, so for small worlds; used to measure branch coverage and by the mutants.
"""

import ctypes
import struct
import sys
import types

import numpy as np

from voicesim.workload import rng

ON_INTEGERS = {
    rng.hash_on: lambda prefix, i, j: rng._hash_on_py(prefix & rng._MASK, i, j),
    rng.hash_key: rng.hash_key_py,
    rng.table_index: rng.table_index_py,
    rng.to_unit: rng.to_unit_py,
}
"""numba reads a negative int64 as a uint64; NumPy refuses to, so integers it is."""

MOST = 1 << 40  # bytes: more than any arena holds; nothing is allocated


class Moved:
    """A pointer some entries on; the sum may be negative, an index into it is not."""

    __slots__ = ("start", "view")

    def __init__(self, view, start):
        self.view, self.start = view, start

    def __getitem__(self, i):
        return self.view[self.start + i]

    def __setitem__(self, i, value):
        self.view[self.start + i] = value


def _pointer_to(code: str):
    def pointer(address):
        memory = (ctypes.c_char * MOST).from_address(int(address))
        return memoryview(memory).cast("B").cast(code)

    return pointer


def moved(pointer, n):
    if isinstance(pointer, Moved):
        return Moved(pointer.view, pointer.start + n)
    return Moved(pointer, n)


def window(pointer, start, n):
    whole = moved(pointer, start)
    return np.asarray(whole.view[whole.start : whole.start + n])


def bits_of(number):
    return struct.unpack("<q", struct.pack("<d", number))[0]


def compiled(function):
    return function


def adopt(function, **calls):
    if twin := ON_INTEGERS.get(function):
        return twin
    scope = {**function.__globals__, **calls}
    return types.FunctionType(function.__code__, scope, function.__name__)


jit = types.ModuleType("voicesim.engine.kernel.jit")
vars(jit).update(
    CACHE_FOLDER=None, adopt=adopt, bits_of=bits_of, compiled=compiled,
    float_pointer=_pointer_to("d"), int_pointer=_pointer_to("q"),
    is_compiled=lambda: True, moved=moved, window=window,
)  # fmt: skip
assert "voicesim.engine.kernel.jit" not in sys.modules
sys.modules[jit.__name__] = jit
