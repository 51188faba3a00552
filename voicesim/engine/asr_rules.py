"""The recogniser's arithmetic: plain functions that the kernel compiles and the reference calls."""

from math import ceil


def chunk_end(begin: float, j: int, chunk: float) -> float:
    """When the audio of chunk j (1, 2, ...) of a segment that began at ``begin`` has come (s)."""
    return begin + j * chunk


def whole_chunks(audio: float, chunk: float) -> int:
    """Chunks that so much audio fills, the last one perhaps in part."""
    n = int(audio / chunk)
    return n + 1 if n * chunk < audio else n


def frames_of_delay(right: float, chunk: float) -> int:
    """Frames by which a slot server's text lags its audio (a whole number in the spec's seconds,
    but 0.24 / 0.08 is a little more than 3)."""
    return ceil(right / chunk - 1e-9)


def inside(a: float, b: float, warmup: float, horizon: float) -> float:
    """Length of [a, b] inside the observed window (s)."""
    a = a if a > warmup else warmup
    b = b if b < horizon else horizon
    return b - a if b > a else 0.0
