"""Alarms over a run's series: when would this rule have gone off?"""

import numpy as np

from voicesim.engine.layout import B_WAITING_MAX
from voicesim.metrics.tables import quantile_rows
from voicesim.simulation import Run


def alarm_time(run: Run, metric: str, over: float, above: float) -> float | None:
    """First time (s) at which the metric over the trailing window exceeds the threshold.

    chunk_gap_p99: 99 % point, over the chunks that arrived in the window, of the gap before a
    chunk / the audio of the chunk before it (above: a multiple of that chunk).
    waiting: the longest waiting list of an engine, at every sample of the window.
    Only from the warm-up on.  None: it never went off.
    """
    resolution = run.spec.resolution
    width = max(1, round(over / resolution))
    if metric == "chunk_gap_p99":
        values = quantile_rows(trailing(run.record.gaps, width), 0.99)
        fires = values > above
        ends = (np.arange(len(values)) + 1) * resolution
    else:
        gauge = run.record.series[:, B_WAITING_MAX]
        fires = trailing((gauge > above).astype(np.int64), width) >= width
        ends = np.arange(len(gauge)) * resolution
    fires = fires & (ends >= run.scenario.warmup + over)
    return float(ends[np.argmax(fires)]) if fires.any() else None


def trailing(counts: np.ndarray, width: int) -> np.ndarray:
    """Sum of each row and the width - 1 before it."""
    total = np.cumsum(counts, axis=0)
    windows = total.copy()
    windows[width:] -= total[:-width]
    return windows
