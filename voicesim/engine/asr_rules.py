"""The recogniser's arithmetic: plain functions that the kernel compiles and the reference calls.

Seconds that were added up differ in their last bits from the same seconds multiplied, so what is
shorter than a nanosecond is not taken for audio: it would cost a job.
"""

NANOSECOND = 1e-9


def chunk_end(begin: float, j: int, chunk: float) -> float:
    """When the audio of chunk j (1, 2, ...) of a segment that began at ``begin`` has come (s)."""
    return begin + j * chunk


def chunks_until(begin: float, t: float, chunk: float, known: int) -> int:
    """Chunks of a segment that ended at t, the last one perhaps a part; at least ``known``."""
    j = known
    while chunk_end(begin, j + 1, chunk) <= t + NANOSECOND:
        j += 1
    return j + 1 if audio_left(t, chunk_end(begin, j, chunk)) else j


def audio_left(end: float, done: float) -> bool:
    """Whether there is audio between ``done`` and ``end``."""
    return end - done > NANOSECOND


def frames_of_delay(right: float, chunk: float) -> int:
    """Frames by which a slot server's text lags its audio: right context in whole frames."""
    return chunks_until(0.0, right, chunk, 0)


def inside(a: float, b: float, warmup: float, horizon: float) -> float:
    """Length of [a, b] inside the observed window (s)."""
    a = a if a > warmup else warmup
    b = b if b < horizon else horizon
    return b - a if b > a else 0.0
