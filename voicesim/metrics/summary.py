"""The numbers of a run, in the listener's terms, over all offered calls."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import t as student

from voicesim.engine.cost import HOST, HOST_PER_CHUNK
from voicesim.engine.quantiles import quantile_rows
from voicesim.metrics.alarms import watch
from voicesim.metrics.counted import Counted, count
from voicesim.metrics.histogram import Histogram
from voicesim.metrics.observed import observed, waits
from voicesim.metrics.paid import first_order, replica_seconds, rolled_back
from voicesim.metrics.promql import Clock
from voicesim.metrics.shadow import shadow_metrics
from voicesim.simulation import Run

Value = float | None


def run_metrics(run: Run, calls: pd.DataFrame, streams: pd.DataFrame) -> dict[str, Any]:
    """Metrics of one replication; calls that arrived before the warm-up are left out.

    Counts are calls.  None: not measured (no chunk timeline, nobody started, no stall).
    busy_share is a dictionary by stage.
    """
    counted = count(calls, streams, run.scenario.warmup)
    found = numbers(run, counted, alarms_fired(run, streams))
    late = calls.loc[calls["arrival_s"] >= run.scenario.warmup, "session"]
    return found | shadow_metrics(run, streams[streams["session"].isin(late)])


def numbers(run: Run, counted: Counted, fired: dict[str, Value]) -> dict[str, Any]:
    """``run_metrics`` from counts; fired: see ``alarms_fired``."""
    live = counted.outcome("live")
    offered = counted.calls - live
    if run.tape.closed:
        live += run.record.counters["live_calls"]  # no row tells of a call that is not settled
    offered += live
    audio_minutes = counted.audio_s / 60.0
    cost = gpu_cost(run)
    gap = float(quantile_rows(run.record.gap_hist[None, :], 0.99)[0])
    stalled = np.isfinite(run.record.first_stall)
    return {
        "offered": float(offered),
        **{
            name: float(counted.outcome(name))
            for name in ("refused", "abandoned", "failed", "cut", "completed", "stood_in")
        },
        "live_at_end": float(live),
        "available_share": of(
            offered - sum(map(counted.outcome, ("refused", "abandoned", "failed", "cut"))), offered
        ),
        "clean_share": of(counted.clean, offered),
        "degraded_share": of(counted.degraded, counted.calls),
        "clean_degraded_share": of(counted.clean_degraded, counted.calls),
        "stalled_share": of(counted.stalled, counted.measured),
        "stall_seconds_per_1000_audio_minutes": (
            1000.0 * counted.stall_s / audio_minutes if audio_minutes else None
        ),
        "pace_p99": 1.0 / gap if gap > 0 else None,
        **{f"ttfa_p{q}_s": nearest_rank(counted.waits, q / 100.0) for q in (50, 95, 99)},
        **{name: of(int(n), counted.timed) for name, n in zip(SHARES, counted.within, strict=True)},
        "busy_share": busy_shares(run),
        "waiting_at_first_stall": float(run.record.first_stall_waiting) if stalled else None,
        "first_stall_s": run.record.first_stall if stalled else None,
        "alarm_lead_s": alarm_lead(run, fired),
        "alarm_fired_s": fired,
        "not_measured": float(counted.accepted - counted.measured),
        "preemptions": float(run.record.counters["preemptions"]),
        **rungs(run.scenario.policies.degradation, counted.rungs),
        "replica_hours": sum(replica_seconds(run, 0.0, run.scenario.horizon).values()) / 3600.0,
        "first_order_s": first_order(run),
        "rolled_back_s": rolled_back(run),
        "gpu_cost": cost,
        "cost_per_1000_clean_calls": (
            None if cost is None or not counted.clean else 1000.0 * cost / counted.clean
        ),
    }


def of(part: int, whole: int) -> Value:
    """A share; None of none."""
    return part / whole if whole else None


def rungs(given: Any, counts: np.ndarray) -> dict[str, dict[str, Value]]:
    """Share of the utterances asked for that each rung of a ladder had, and the means of what it
    cost them (the user's own numbers).  counts: int64[n], utterances by rung."""
    if given is None or not given.ladder or not counts.sum():
        return {}
    of_rung = [(0.0, 0.0, 0.0), *((r.cost.mos, r.cost.wer, r.cost.words) for r in given.ladder)]
    shares = counts[: len(of_rung)] / counts.sum()
    lost = dict(zip(("mos", "wer", "words"), shares @ np.array(of_rung), strict=True))
    names = ("as it is", *(r.name for r in given.ladder))
    return {
        "rung_share": {n: float(v) for n, v in zip(names, shares, strict=True)},
        "quality_cost": {n: float(v) for n, v in lost.items()},
    }


def share(true: Any) -> Value:
    """Mean of booleans; None of none."""
    return float(np.mean(true)) if len(true) else None


def nearest_rank(values: np.ndarray | Histogram, q: float) -> Value:
    """Nearest-rank quantile; None of nothing."""
    if isinstance(values, Histogram):
        return values.quantile(q)
    if not len(values):
        return None
    k = max(int(np.ceil(q * len(values))) - 1, 0)
    return float(np.partition(values, k)[k])


def busy_shares(run: Run) -> dict[str, Value]:
    """Share of the observed time, in which it is paid for, that each stage keeps its hardware busy.

    decode: GPU seconds of steps; host: CPU seconds of steps; codec: wall seconds of batches per
    worker (longer where the GPU is shared).  None: no such stage, or (host) a profile that does
    not tell it apart from the GPU.
    """
    window = sum(replica_seconds(run, run.spec.warmup, run.spec.horizon).values())
    busy = {name: float(seconds.sum()) / window for name, seconds in run.record.busy.items()}
    codec = busy["codec"] / run.spec.codec.workers if run.spec.codec else None
    host = busy["host"] if run.spec.step.params[HOST : HOST_PER_CHUNK + 1].any() else None
    return {"decode": busy["decode"], "host": host, "codec": codec}


def alarms_fired(run: Run, streams: pd.DataFrame) -> dict[str, Value]:
    """When each alarm of the scenario first fires after the warm-up (s); None: never.

    As a Prometheus that scrapes and evaluates in every bin has it.
    """
    return fired_by(run, waits(run, streams)) if run.scenario.alarms else {}


def fired_by(run: Run, waited: np.ndarray) -> dict[str, Value]:
    """``alarms_fired`` from the counts of voicesim.metrics.observed.waits."""
    seen, clock = observed(run, waited), Clock(run.spec.resolution)
    found: dict[str, Value] = {}
    for rule in run.scenario.alarms:
        spells = watch(seen, rule, clock).spells(seen.warmup)
        name = f"{rule.metric}: {rule.name}" if rule.name else rule.label
        found[name] = float(spells[0, 0]) if len(spells) else None
    return found


def alarm_lead(run: Run, fired: dict[str, Value]) -> Value:
    """Seconds from the first chunk-gap alarm of the list to the first audible stall; negative: it
    came late."""
    gap = next((t for name, t in fired.items() if name.startswith("chunk_gap_p99")), None)
    return (
        run.record.first_stall - gap
        if gap is not None and run.record.first_stall < np.inf
        else None
    )


def gpu_cost(run: Run) -> Value:
    """Money for the cards of the replicas that were paid for, over the horizon; None where a card
    has no price."""
    cluster, total = run.scenario.cluster, 0.0
    for name, seconds in replica_seconds(run, 0.0, run.scenario.horizon).items():
        pool = cluster.pools[name]
        price = cluster.gpus[pool.on].price_per_hour
        if price is None:
            return None
        total += price * cluster.cards_of(name) * seconds / pool.replicas / 3600.0
    return total


SHARES = ("c50", "c100", "c200")


def bounds(name: str) -> tuple[float, float]:
    """What a metric can be: a share from 0 to 1; a lead, a change may be negative; the rest not."""
    if name == "alarm_lead_s" or name.endswith("_change_s"):
        return -np.inf, np.inf
    return 0.0, 1.0 if name in SHARES or name.endswith("_share") else np.inf


def aggregate(replications: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Mean and 95 % t-interval over replications of each metric; low and high null for one.

    A metric that some replications could not measure is averaged over those that could.
    """
    return {
        name: (
            aggregate([r[name] for r in replications])
            if isinstance(first, dict)
            else interval([r[name] for r in replications], *bounds(name))
        )
        for name, first in replications[0].items()
    }


def interval(
    values: Sequence[Value], least: float = -np.inf, most: float = np.inf
) -> dict[str, Value]:
    """{mean, low, high} of a metric over replications, cut at what the metric can be."""
    known = np.array([v for v in values if v is not None], float)
    if not len(known):
        return {"mean": None, "low": None, "high": None}
    mean = float(known.mean())
    if len(known) < 2:
        return {"mean": mean, "low": None, "high": None}
    half = float(student.ppf(0.975, len(known) - 1) * known.std(ddof=1) / np.sqrt(len(known)))
    return {"mean": mean, "low": max(mean - half, least), "high": min(mean + half, most)}


def flat(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Metrics of a run, or their aggregate, under dotted names."""
    found: dict[str, Any] = {}
    for name, each in metrics.items():
        inner = isinstance(each, Mapping) and "mean" not in each
        found |= {f"{name}.{k}": v for k, v in flat(each).items()} if inner else {name: each}
    return found


def summary_table(variants: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """One row per variant and metric: mean over replications and its 95 % interval (NaN: not
    measured, or one replication), from variant -> metric -> {mean, low, high}."""
    rows = [
        {"variant": v, "metric": m, **of} for v, found in variants.items()
        for m, of in flat(found).items()
    ]  # fmt: skip
    table = pd.DataFrame(rows, columns=["variant", "metric", "mean", "low", "high"])
    return table.astype({"mean": float, "low": float, "high": float})
