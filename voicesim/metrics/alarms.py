"""Alarms over a run's series: when would this rule have gone off?"""

import numpy as np

from voicesim.metrics.tables import quantile_rows
from voicesim.simulation import Run


def alarm_time(run: Run, metric: str, over: float, above: float) -> float | None:
    """First time (s) at which the metric over the trailing window exceeds the threshold.

    chunk_gap_p99: 99 % point, over the chunks that arrived in the window, of the gap before a
    chunk / the audio of the chunk before it (above: a multiple of that chunk).  waiting: the largest waiting gauge of an engine, all window long.
    Only from the warm-up on.  None: it never went off.
    """
    resolution = run.spec.resolution
    width = max(1, round(over / resolution))
    if metric == "chunk_gap_p99":
        gaps = run.record.gaps
        total = np.cumsum(gaps, axis=0)
        windows = total.copy()
        windows[width:] -= total[:-width]
        values = quantile_rows(windows, 0.99)
        ends = (np.arange(len(values)) + 1) * resolution
        fires = values > above
    else:
        gauge = run.record.series[:, 7]
        held = np.cumsum(gauge > above)
        held[width:] -= held[:-width].copy()
        fires = held >= width
        ends = np.arange(len(gauge)) * resolution
    fires &= ends >= run.scenario.warmup + over
    return float(ends[np.argmax(fires)]) if fires.any() else None
