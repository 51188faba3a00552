"""Alert rules on what can be scraped from a run: as Prometheus would evaluate them."""

from dataclasses import dataclass

import numpy as np

from voicesim.metrics import promql
from voicesim.metrics.observed import GAP_EDGES, WAIT_EDGES, Observed
from voicesim.metrics.promql import Clock
from voicesim.scenario.alarms import GAUGE, RATE, Alarm

HISTOGRAMS = {
    "voicesim:chunk_gap_ratio": ("gaps", GAP_EDGES),
    "voicesim:ttfa_seconds": ("ttfa", WAIT_EDGES),
    "vllm_omni:audio_ttfp_s": ("ttfp", WAIT_EDGES),
}
"""Family -> field of Observed, upper bounds of its buckets."""
GAUGES = {
    "vllm:num_requests_running": "running",
    "vllm:num_requests_waiting": "waiting",
    "vllm:kv_cache_usage_perc": "kv",
}
COUNTERS = {"vllm:num_preemptions": "preemptions"}


@dataclass(frozen=True)
class Watched:
    """A rule over a run.  at: evaluations (s); value: the metric there, NaN without data."""

    at: np.ndarray
    value: np.ndarray
    fires: np.ndarray

    def spells(self, since: float) -> np.ndarray:
        """float64[n, 2]: from when to when (s) it fired; before ``since`` it is not looked at.

        The end is the first evaluation at which it no longer fires, inf if there is none.
        """
        on = self.fires & (self.at >= since)
        edge = np.diff(np.concatenate(([False], on, [False])).astype(np.int8))
        ends = np.append(self.at, np.inf)
        return np.column_stack((self.at[edge[:-1] == 1], ends[edge == -1]))


def watch(seen: Observed, rule: Alarm, clock: Clock) -> Watched:
    """Evaluate a rule from the start of a run to its end."""
    at = clock.evaluations((seen.bins - 1) * seen.bin_s)
    value = metric(seen, rule, clock, at)
    with np.errstate(invalid="ignore"):
        true = value > rule.threshold if rule.below is None else value < rule.threshold
    fires = promql.firing(promql.milliseconds(at), true, rule.hold * 1000.0)
    return Watched(at, value, fires)


def metric(seen: Observed, rule: Alarm, clock: Clock, at: np.ndarray) -> np.ndarray:
    """The left side of ``expression``: float64[len(at)], NaN without data."""
    signal, rows = rule.signal, clock.scrapes(seen.bins)
    times, now = promql.milliseconds(rows * seen.bin_s), promql.milliseconds(at)
    window = round(rule.over * 1000)
    if signal.kind == RATE:
        counts = getattr(seen, COUNTERS[signal.family])[rows]
        return promql.rate(times, counts, now, window)
    if signal.kind == GAUGE:
        values = getattr(seen, GAUGES[signal.family])[rows]
        most = rule.below is None
        if window:
            steady = np.min if most else np.max
            each = promql.over_time(times, values, now, window, steady)
        else:
            each = promql.instant(times, values, now)
        return np.asarray(each.max(axis=1) if most else each.min(axis=1))
    name, edges = HISTOGRAMS[signal.family]
    rates = promql.rate(times, getattr(seen, name)[rows], now, window)
    return promql.histogram_quantile(signal.quantile, edges, rates)


def expression(rule: Alarm) -> str:
    """The rule in PromQL."""
    signal, side = rule.signal, ">" if rule.below is None else "<"
    window = f"[{promtime(rule.over)}]"
    if signal.kind == RATE:
        left = f"sum(rate({signal.family}_total{window}))"
    elif signal.kind == GAUGE:
        worst, steady = ("max", "min") if rule.below is None else ("min", "max")
        inner = f"{steady}_over_time({signal.family}{window})" if rule.over else signal.family
        left = f"{worst}({inner})"
    else:
        buckets = f"sum by (le) (rate({signal.family}_bucket{window}))"
        left = f"histogram_quantile({signal.quantile:g}, {buckets})"
    return f"{left} {side} {rule.threshold!r}"


def promtime(seconds: float) -> str:
    """A duration as Prometheus writes it: 10s, 1m30s, 500ms."""
    left, text = round(seconds * 1000), ""
    for unit, size in (("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        count, left = divmod(left, size)
        text += f"{count}{unit}" if count else ""
    return text or "0s"
