"""The chunk schedule: how many frames the first chunk, the ramp and every later chunk hold."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from voicesim.calibrate.errors import CalibrationError

WHOLE = 0.1
"""How far from a whole number of frames a chunk may be (frames)."""
MOSTLY = 0.8
"""Share of the chunks, other than the last of a stream, that must be whole frames."""
LONGEST_RAMP = 32


@dataclass(frozen=True)
class Cadence:
    """The modal schedule, in frames, and how far the streams keep to it.

    sizes: first, ramp..., steady.  follow: share of streams whose every chunk but the last has
    the scheduled size, the last being no longer.  low, high: its interval, 5 % to 95 %
    (Wilson).
    whole: no stream is longer than the schedule, so the last size has not been seen to repeat.
    """

    sizes: tuple[int, ...]
    follow: float
    low: float
    high: float
    streams: int
    whole: bool

    @property
    def steady(self) -> int:
        return self.sizes[-1]

    @property
    def varied(self) -> bool:
        """Is there a ramp, so that chunks of several sizes follow each other?"""
        return len(set(self.sizes)) > 1


def frames_of(chunks: pd.DataFrame, token_audio_s: float, file: str) -> np.ndarray:
    """Frames of each chunk.  Raises CalibrationError where the frame duration cannot be right.

    The last chunk of a stream may be cut anywhere; it is rounded up.
    """
    given = chunks["frames"].to_numpy(dtype=float) if "frames" in chunks else np.array([])
    exact = chunks["audio_s"].to_numpy(dtype=float) / token_audio_s
    if len(given) and np.isfinite(given).all():
        return given
    last = last_of_stream(chunks)
    inner = exact[~last]
    nearest = np.maximum(np.rint(exact), 1.0)
    off = np.abs(inner - nearest[~last])
    if len(inner) and np.mean(off <= WHOLE) < MOSTLY:
        size = pd.Series(chunks["audio_s"].to_numpy(dtype=float)[~last].round(6)).mode().iloc[0]
        line = int(chunks["line"].iloc[0]) if "line" in chunks else None
        raise CalibrationError(
            file,
            line,
            f"audio_s: most chunks hold {size:g} s, which is {size / token_audio_s:.2f} frames of "
            f"{token_audio_s * 1e3:g} ms; give the model's frame duration with --token-audio",
        )
    return np.where(last, np.maximum(np.ceil(exact - WHOLE), 1.0), nearest)


def last_of_stream(chunks: pd.DataFrame) -> np.ndarray:
    """bool[n]: the last chunk of its stream (rows sorted by stream and chunk)."""
    key = chunks["run"].astype(str) + "\0" + chunks["request"].astype(str)
    return (key != key.shift(-1)).to_numpy()


def find_cadence(chunks: pd.DataFrame) -> Cadence:
    """The modal size at each place, and the share of streams that keep to it.

    chunks: sorted, with columns run, request, chunk, frames.  The schedule ends where the size no
    longer changes.
    """
    last = last_of_stream(chunks)
    inner = chunks[~last]
    modes: list[int] = []
    if len(inner):
        at = inner[inner["chunk"] <= LONGEST_RAMP].groupby("chunk")["frames"]
        modes = [int(size.mode().iloc[0]) for _, size in at]
    if not modes:
        modes = [int(chunks["frames"].mode().iloc[0])]
    sizes = list(modes)
    while len(sizes) > 1 and sizes[-1] == sizes[-2]:
        sizes.pop()
    schedule = np.array(sizes, dtype=float)
    place = np.minimum(chunks["chunk"].to_numpy(dtype=int), len(sizes) - 1)
    frames = chunks["frames"].to_numpy(dtype=float)
    good = np.where(last, frames <= schedule[place], frames == schedule[place])
    per_stream = pd.Series(good).groupby([chunks["run"].to_numpy(), chunks["request"].to_numpy()])
    kept = per_stream.all()
    low, high = wilson(int(kept.sum()), len(kept))
    return Cadence(tuple(sizes), float(kept.mean()), low, high, len(kept), len(modes) == len(sizes))


def wilson(hits: int, n: int, z: float = 1.645) -> tuple[float, float]:
    """Interval of a share, 5 % to 95 % (Wilson, JASA 1927)."""
    p, z2 = hits / n, z * z
    middle = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = z / (1 + z2 / n) * np.sqrt(p * (1 - p) / n + z2 / (4 * n * n))
    return float(max(0.0, middle - half)), float(min(1.0, middle + half))
