"""The answer of a run in two sentences, in the listener's terms, from its summary."""

from collections.abc import Mapping
from typing import Any

from voicesim.report import dialogue_words, words
from voicesim.report.words import Summary


def answer(summary: Summary, context: Mapping[str, Any]) -> tuple[str, str]:
    """What the best variant keeps CLEAN and how sure that is; what its callers live through."""
    best = words.best_variant(summary)
    first = f"{words.verdict(summary)} ({sure(summary, context)})."
    name = best or next(iter(summary), "")
    metrics = summary.get(name, {})
    why = dialogue_words.spoilt(metrics) if "spoilt" in metrics else ""
    return first, f"{lived(name, metrics, context)}{f' {why}.' if why else ''}"


def sure(summary: Summary, context: Mapping[str, Any]) -> str:
    """95 % interval 71.2% to 73.4% over 5 replications"""
    best, n = words.best_variant(summary), context["replications"]
    if best is None:
        return f"no call of {_replications(n)} could be judged"
    found = words.metric(summary[best], "clean_share")
    if found["low"] is not None and found["high"] is not None:
        low, high = words.percent(found["low"]), words.percent(found["high"])
        return f"95 % interval {low} to {high} over {_replications(n)}"
    batch = context.get("batch_means", {}).get(best)
    if batch is not None:
        return f"one replication, ±{100 * batch[1]:.1f} points by batch means"
    return "one replication, so without an interval" if n == 1 else "no interval could be made"


def _replications(n: int) -> str:
    return "one replication" if n == 1 else f"{n} replications"


def lived(name: str, metrics: Mapping[str, Any], context: Mapping[str, Any]) -> str:
    """With slack, 6.5% of callers are refused, ..."""
    stalled = words.with_interval(words.metric(metrics, "stalled_share"), words.percent)
    audible = words.duration(context["audible"])
    return (
        f"With {name}, {_of_offered(metrics, 'refused')} of the callers are refused and "
        f"{_of_offered(metrics, 'abandoned')} hang up in silence; of the calls in which it can be "
        f"measured, {stalled} hear the sound stop for more than {audible}, and a reply begins "
        f"after {_wait(metrics, 50)} in the middle and {_wait(metrics, 99)} for the slowest 1 %."
    )


def _of_offered(metrics: Mapping[str, Any], what: str) -> str:
    lost, offered = words.mean(metrics, what), words.mean(metrics, "offered")
    return words.percent(lost / offered) if offered and lost is not None else words.NOT_MEASURED


def _wait(metrics: Mapping[str, Any], q: int) -> str:
    found = words.metric(metrics, f"ttfa_p{q}_s")
    if found["mean"] is None:
        return words.NOT_MEASURED
    half = words.half_width(found)
    return words.duration(found["mean"]) + ("" if half is None else f" ±{words.duration(half)}")
