"""Quantiles of more values than one keeps."""

from dataclasses import dataclass, field

import numpy as np

PER_OCTAVE = 256
LOWEST, OCTAVES = -14, 32
"""Values from 2^-14 (61 us) to 2^18 (three days) are told apart, as seconds."""
ERROR = 0.5 / PER_OCTAVE
"""Largest relative error of a quantile between those two: half a bucket, 0.2 %."""

_SHIFT = 52 - PER_OCTAVE.bit_length() + 1
_FIRST = int(np.float64(2.0**LOWEST).view(np.int64)) >> _SHIFT


@dataclass
class Histogram:
    """Counts of values >= 0, each octave cut into PER_OCTAVE equal buckets.

    Sums of histograms are histograms of all their values.
    """

    counts: np.ndarray = field(default_factory=lambda: np.zeros(OCTAVES * PER_OCTAVE, np.int64))
    least: float = np.inf
    most: float = -np.inf

    def add(self, values: np.ndarray) -> None:
        """Count values (float64, none NaN, none negative)."""
        if not len(values):
            return
        # a float's leading bits are its octave and its place in it
        bits = np.ascontiguousarray(values, np.float64).view(np.int64) >> _SHIFT
        bucket = np.clip(bits - _FIRST, 0, len(self.counts) - 1)
        self.counts += np.bincount(bucket, minlength=len(self.counts))
        self.least = min(self.least, float(values.min()))
        self.most = max(self.most, float(values.max()))

    def __add__(self, other: "Histogram") -> "Histogram":
        return Histogram(
            self.counts + other.counts, min(self.least, other.least), max(self.most, other.most)
        )

    def __len__(self) -> int:
        return int(self.counts.sum())

    def quantile(self, q: float) -> float | None:
        """Nearest-rank quantile, the middle of its bucket; None of nothing.

        Off by ERROR at most (relative); below the lowest octave by its start.
        """
        total = len(self)
        if not total:
            return None
        rank = max(int(np.ceil(q * total)), 1)
        bucket = int(np.searchsorted(self.counts.cumsum(), rank))
        octave, place = divmod(bucket, PER_OCTAVE)
        middle = 2.0 ** (LOWEST + octave) * (1.0 + (place + 0.5) / PER_OCTAVE)
        return float(min(max(middle, self.least), self.most))
