"""Where every random number comes from.

Two sources, and in neither does a draw depend on the order of execution.

Before the run, one NumPy generator per *purpose*: ``Philox`` keyed by (seed, replication,
purpose) through ``SeedSequence``.  Changing one law leaves every other purpose's draws alone, and
two policies under one seed meet the same callers (common random numbers).

Inside the run, a counter hash of four words, (seed, purpose, i, j): the finaliser of splitmix64
(Steele, Lea and Flood, OOPSLA 2014; constants of Stafford's variant 13) chained over the words.
It has two forms that agree to the bit: ``hash_key_py`` on Python integers, for the reference
model, and ``hash_key`` on ``np.uint64``, which numba compiles and which also takes arrays.
"""

from enum import IntEnum
from typing import Any

import numpy as np

_MASK = 0xFFFFFFFFFFFFFFFF
_GAMMA_PY = 0x9E3779B97F4A7C15
_MIX1_PY = 0xBF58476D1CE4E5B9
_MIX2_PY = 0x94D049BB133111EB

_GAMMA = np.uint64(_GAMMA_PY)
_MIX1 = np.uint64(_MIX1_PY)
_MIX2 = np.uint64(_MIX2_PY)
_S11, _S27, _S30, _S31, _S52 = (np.uint64(s) for s in (11, 27, 30, 31, 52))
_UNIT = 2.0**-53


class Purpose(IntEnum):
    """What a generator is for.  The numbers are part of every recorded seed: never reuse one."""

    ARRIVALS = 0
    BUSYNESS = 1
    COUNTS = 2
    AUDIO = 3
    PROMPT = 4
    THINK = 5
    PATIENCE = 6
    RUN = 7
    POOL = 8
    START = 14
    COPIES = 15
    ASKS = 16
    ORIGINS = 17
    BESIDE = 18
    FAULT = 19
    # of a dialogue
    TENANT = 32
    TURNS = 33
    SPEECH = 34
    PAUSED = 35
    PAUSE = 36
    PAUSE_PLACE = 37
    SENTENCES = 38
    SENTENCE = 39
    LONG = 40
    LONG_LENGTH = 41
    BARGE_IN = 42
    NOISE = 43
    FALSE_END = 44
    LATE_END = 45
    HISTORY = 46
    CASCADE = 47
    VOICE = 48
    OMNI = 49
    IMAGES = 50
    IMAGE_COUNT = 51
    IMAGE_MISS = 52
    PHRASES = 53


def _sequence(seed: int, replication: int, purpose: int) -> np.random.SeedSequence:
    return np.random.SeedSequence(entropy=seed, spawn_key=(replication, int(purpose)))


def generator(seed: int, replication: int, purpose: Purpose) -> np.random.Generator:
    """The generator of one purpose in one replication; ``seed`` is any integer >= 0."""
    return np.random.Generator(np.random.Philox(_sequence(seed, replication, purpose)))


def run_seed(seed: int, replication: int) -> int:
    """The 64-bit first word of ``hash_key`` for one replication."""
    return int(_sequence(seed, replication, Purpose.RUN).generate_state(1, np.uint64)[0])


def _hash_on_py(h: int, *words: int) -> int:
    for word in words:
        h = ((h ^ (word & _MASK)) + _GAMMA_PY) & _MASK
        h = ((h ^ (h >> 30)) * _MIX1_PY) & _MASK
        h = ((h ^ (h >> 27)) * _MIX2_PY) & _MASK
        h = h ^ (h >> 31)
    return h


def hash_key_py(seed: int, purpose: int, i: int, j: int) -> int:
    """64 random bits for the four words, each taken modulo 2**64."""
    return _hash_on_py(0, seed, purpose, i, j)


def hash_prefix(seed: int, purpose: int) -> int:
    """Where ``hash_key`` stands after its first two words (as an int64): for ``hash_on``."""
    h = _hash_on_py(0, seed, purpose)
    return h - (1 << 64) if h >> 63 else h


def to_unit_py(key: int) -> float:
    """The top 53 bits of ``key`` as a float in [0, 1)."""
    return (key >> 11) * _UNIT


def table_index_py(key: int) -> int:
    """The top 12 bits of ``key``, 0..4095: the bits that ``to_unit_py`` reads first."""
    return key >> 52


# The same for numba and for arrays.  They are plain functions: decorate with ``numba.njit`` where
# they are used.  On NumPy *scalars* the wrap-around warns; on arrays and
# under numba it is silent.


def hash_on(prefix: Any, i: Any, j: Any) -> Any:
    """``hash_key`` from its third word on; prefix: where it stands then (``hash_prefix``)."""
    h = np.uint64(prefix)
    for word in (np.uint64(i), np.uint64(j)):
        h = (h ^ word) + _GAMMA
        h = (h ^ (h >> _S30)) * _MIX1
        h = (h ^ (h >> _S27)) * _MIX2
        h = h ^ (h >> _S31)
    return h


def hash_key(seed: Any, purpose: Any, i: Any, j: Any) -> Any:
    """``hash_key_py`` in uint64 arithmetic; words broadcast when they are arrays."""
    return hash_on(hash_on(0, seed, purpose), i, j)


def to_unit(key: Any) -> Any:
    """``to_unit_py`` of a uint64."""
    return np.float64(key >> _S11) * _UNIT


def table_index(key: Any) -> Any:
    """``table_index_py`` of a uint64."""
    return np.int64(key >> _S52)
