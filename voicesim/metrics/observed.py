"""What can be scraped from a run, bin by bin: gauges by engine, counters, histograms.

Kept small (a compressed blob), so that rules can be changed without playing the run again.
"""

import base64
import io
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pandas as pd

from voicesim.engine import layout as at
from voicesim.simulation import Run

GAP_EDGES = np.array(
    [
        octave * (1 + i / parts)
        for octave, parts in ((1 / 16, 4), (1 / 8, 4), (1 / 4, 4), (1 / 2, 8), (1, 8), (2, 4),
                              (4, 4), (8, 4))
        for i in range(parts)
    ] + [16.0, np.inf]
)  # fmt: skip
"""Upper bounds of the chunk-gap buckets: multiples of the chunk's audio, eighths of an octave from
1/2 to 2 and quarters outside, each an edge of the simulator's own histogram."""
WAIT_EDGES = np.array(
    [0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 7.5, 10, 15,
     20, 30, 60, np.inf]
)  # fmt: skip
"""Upper bounds (s) of the TTFA and TTFP buckets."""


@dataclass
class Observed:
    """State at each bin's edge.

    running, waiting: int64[bins, engines]; kv: float64[bins, engines], share of the KV blocks;
    preemptions: int64[bins], since the start; gaps, ttfa, ttfp: int64[bins, edges], how many so
    far were at most each edge.  stalls: int64[bins], audible stalls that began in the bin.
    first_stall (s, inf if none) and the waiting gauge then, as in the run's record.
    """

    bin_s: float
    warmup: float
    horizon: float
    first_stall: float
    first_stall_waiting: int
    running: np.ndarray
    waiting: np.ndarray
    kv: np.ndarray
    preemptions: np.ndarray
    gaps: np.ndarray
    ttfa: np.ndarray
    ttfp: np.ndarray
    stalls: np.ndarray

    @property
    def bins(self) -> int:
        return len(self.stalls)

    def packed(self) -> str:
        """As text."""
        buffer = io.BytesIO()
        columns = {f.name: np.asarray(getattr(self, f.name)) for f in fields(self)}
        np.savez_compressed(buffer, allow_pickle=False, **columns)
        return base64.b64encode(buffer.getvalue()).decode()

    @classmethod
    def unpacked(cls, text: str) -> "Observed":
        """The same from text.  Raises ValueError or OSError if it is none."""
        with np.load(io.BytesIO(base64.b64decode(text, validate=True))) as found:
            columns: dict[str, Any] = {f.name: found[f.name] for f in fields(cls)}
        scalars = {k: v.item() for k, v in columns.items() if v.ndim == 0}
        return cls(**columns | scalars)


def observe(run: Run, streams: pd.DataFrame) -> Observed:
    """What could be scraped from a run whose gauges were watched; streams: its whole table."""
    return observed(run, waits(run, streams))


def observed(run: Run, waited: np.ndarray) -> Observed:
    """``observe`` from the counts of ``waits``."""
    gauges, spec, record = run.gauges, run.spec, run.record
    assert gauges is not None, "simulate(..., watch=True)"
    n = gauges.taken
    ttfa, ttfp = (_before(counts.cumsum(axis=1))[:n] for counts in waited)
    return Observed(
        bin_s=spec.resolution,
        warmup=spec.warmup,
        horizon=spec.horizon,
        first_stall=record.first_stall,
        first_stall_waiting=record.first_stall_waiting,
        running=gauges.running[:n],
        waiting=gauges.waiting[:n],
        kv=gauges.kv[:n],
        preemptions=gauges.preemptions[:n],
        gaps=_before(_at_most(record.gaps))[:n],
        ttfa=ttfa,
        ttfp=ttfp,
        stalls=record.series[:n, at.B_STALLS],
    )


def waits(run: Run, streams: pd.DataFrame) -> np.ndarray:
    """int64[2, bins, edges]: TTFA and TTFP of the streams by the bin in which they began to be
    heard, and by the first of WAIT_EDGES that they do not exceed."""
    heard = streams[streams["started_s"].notna()]
    when = heard["started_s"].to_numpy()
    network, spec = run.scenario.listener.network, run.spec
    ttfa = when - heard["requested_s"].to_numpy()
    ttfp = when - heard["admitted_s"].to_numpy() - network.delay - network.jitter
    counts = np.zeros((2, spec.bins, len(WAIT_EDGES)), np.int64)
    rows = np.minimum((when / spec.resolution).astype(np.int64), spec.bins - 1)
    for which, seconds in enumerate((ttfa, ttfp)):
        np.add.at(counts[which], (rows, np.searchsorted(WAIT_EDGES, seconds)), 1)
    return counts


def _at_most(gaps: np.ndarray) -> np.ndarray:
    """int64[bins, edges]: gaps of each bin up to each of GAP_EDGES."""
    edges = at.quantile_edges(at.COARSE_PER_OCTAVE)
    upto = np.searchsorted(edges, GAP_EDGES[:-1])
    counts = np.empty((len(gaps), len(GAP_EDGES)), np.int64)
    for k in range(0, len(gaps), 4096):  # a day of bins is large
        total = gaps[k : k + 4096].cumsum(axis=1)
        counts[k : k + 4096] = np.column_stack((total[:, upto - 1], total[:, -1]))
    return counts


def _before(counts: np.ndarray) -> np.ndarray:
    """What had been counted when each bin began."""
    found = np.zeros_like(counts)
    np.cumsum(counts[:-1], axis=0, out=found[1:])
    return found
