"""Numbers as a planner reads them, and the sentences that the table and the figure share.

A metric is {mean, low, high}; a mean of None is "n/a", never 0.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

NOT_MEASURED = "n/a"
Metric = Mapping[str, Any]
Summary = Mapping[str, Mapping[str, Any]]


def mean(metrics: Mapping[str, Any], *path: str) -> float | None:
    """The mean of a metric; None if it was not measured or is not there."""
    value: float | None = metric(metrics, *path)["mean"]
    return value


def metric(metrics: Mapping[str, Any], *path: str) -> Metric:
    """{mean, low, high} of a metric, NaN turned into None."""
    found: Any = metrics
    for key in path:
        found = (found or {}).get(key)
    return {key: _known((found or {}).get(key)) for key in ("mean", "low", "high")}


def _known(value: Any) -> float | None:
    return None if value is None or math.isnan(value) else float(value)


# --- one number -------------------------------------------------------------------------------
# ``of``: the number that a half-width belongs to, whose decimals it takes.


def count(value: float, of: float | None = None) -> str:
    """178,604; a mean over replications below 100 keeps one decimal: 3.5."""
    of = value if of is None else of
    return _number(value, 0 if abs(of) >= 100 or of.is_integer() else 1)


def percent(value: float, of: float | None = None) -> str:
    """71.9%: two decimals near 0 and near 100 %, which are only said of exactly that."""
    if of is None and value == 1:
        return "100%"
    if of is None and 0.9999 <= value < 1:
        return ">99.99%"
    of = value if of is None else of
    return _number(100 * value, 2 if 0 < of < 0.01 or 0.99 < of < 1 else 1) + "%"


def milliseconds(value: float, of: float | None = None) -> str:
    """Seconds as milliseconds: 1,935."""
    return _number(1000 * value, 0)


def times(value: float, of: float | None = None) -> str:
    """1.32x"""
    return _number(value, 2) + "x"


def amount(value: float, of: float | None = None) -> str:
    """Three figures or so: 1,257, 51, 5.0, 0.17."""
    of = abs(value if of is None else of)
    return _number(value, 0 if of >= 10 or of == 0 else 1 if of >= 1 else 2)


def money(value: float, of: float | None = None) -> str:
    """Three figures or so, also of a hundredth: 1,257, 51, 5.0, 0.17, 0.0043."""
    size = abs(value if of is None else of)
    if 0 < size < 0.1:
        return f"{value:.{min(2 - math.floor(math.log10(size)) - 1, 9)}f}"
    return amount(value, of)


def _number(value: float, decimals: int) -> str:
    if value == 0:
        return "0"
    if 0 < abs(value) < 0.5 * 10**-decimals:
        return f"<{10**-decimals:.{decimals}f}"
    return f"{value:,.{decimals}f}"


def half_width(found: Metric) -> float | None:
    """The longer side of the interval (it may be cut at 0 or 1); None for one replication."""
    if found["mean"] is None or found["low"] is None or found["high"] is None:
        return None
    return max(found["high"] - found["mean"], found["mean"] - found["low"])


def with_interval(found: Metric, show: Callable[..., str], sign: str = "±") -> str:
    """71.9% ±0.5"""
    value, half = found["mean"], half_width(found)
    if value is None:
        return NOT_MEASURED
    if half is None:
        return show(value)
    return f"{show(value)} {sign}{show(half, value).rstrip('%x')}"


def duration(seconds: float) -> str:
    """100 ms, 1 s, 2.5 s, 74 s, 16.5 min"""
    if abs(seconds) < 1:
        return f"{1000 * seconds:.3g} ms"
    if abs(seconds) < 120:
        return f"{seconds:.0f} s" if abs(seconds) >= 10 else f"{seconds:.2g} s"
    return f"{seconds / 60:.1f}".removesuffix(".0") + " min"


# --- sentences --------------------------------------------------------------------------------


def clean_rule(context: Mapping[str, Any]) -> str:
    """What CLEAN means in this scenario."""
    slo = context["slo"]
    within, over = duration(slo["start_within"]), duration(slo["no_stall_over"])
    return f"started within {within}, no stall over {over}"


def setting(context: Mapping[str, Any]) -> str:
    """40 min, seed 7, mean of 5 replications"""
    n = context["replications"]
    runs = "one replication" if n == 1 else f"mean of {n} replications"
    return f"{duration(context['horizon'])}, {runs}, seed {context['seed']}"


def best_variant(summary: Summary) -> str | None:
    """The variant of the largest CLEAN share, the earlier one of equals; None if not measured."""
    known = {v: c for v, m in summary.items() if (c := mean(m, "clean_share")) is not None}
    return max(known, key=lambda v: known[v]) if known else None


def verdict(summary: Summary) -> str:
    """The best CLEAN share against the first variant, the baseline, in one sentence."""
    best, baseline = best_variant(summary), next(iter(summary), "")
    if best is None:
        return "CLEAN share not measured"
    found = metric(summary[best], "clean_share")
    text = f"{best} keeps {percent(found['mean'])} of all offered calls CLEAN"
    if len(summary) == 1:
        return text
    if best == baseline:
        return f"{text}: no variant does better than this baseline"
    base = metric(summary[baseline], "clean_share")
    if base["mean"] is None:
        return f"{text}; {baseline} (baseline) was not measured"
    points = 100 * (found["mean"] - base["mean"])
    text += f", {baseline} (baseline) {percent(base['mean'])}: {points:+.1f} points"
    if half_width(found) is not None and half_width(base) is not None:
        text += "" if found["low"] > base["high"] else "; their 95 % intervals overlap"
    return text


def signals(metrics: Mapping[str, Any], replications: int = 1) -> list[str]:
    """What an operator would have seen of the first audible stall: the gauge, and the alarm."""
    waiting, stalled = mean(metrics, "waiting_at_first_stall"), mean(metrics, "stalled_share")
    if waiting is None:
        if stalled is None:
            return [f"audible stalls {NOT_MEASURED}: no stream could be measured"]
        if stalled == 0:
            return ["no audible stall"]
    when = mean(metrics, "first_stall_s")
    at = "" if when is None else f" at {when / 60:.1f} min"
    gauge = NOT_MEASURED if waiting is None else count(waiting)
    average = " on average" if replications > 1 and waiting is not None else ""
    lines = [f"first audible stall{at} while the engine's waiting gauge read {gauge}{average}"]
    lead = mean(metrics, "alarm_lead_s")
    rules = metrics.get("alarm_fired_s", {})
    if not any(name.startswith("chunk_gap_p99") for name in rules):
        lines.append(f"alarm on the p99 chunk gap {NOT_MEASURED}: the scenario has none")
    elif lead is None:
        lines.append("the p99 chunk-gap alarm did not fire before the first stall")
    elif lead < 0:
        late = duration(-lead)
        lines.append(f"the p99 chunk-gap alarm fired too late, {late} after the first stall")
    else:
        lines.append(f"the p99 chunk gap had crossed its alarm {duration(lead)} before{average}")
    others = [name for name in rules if not name.startswith("chunk_gap_p99")]
    return lines + [_fired(name, mean(rules, name)) for name in others]


def causes(metrics: Mapping[str, Any]) -> list[str]:
    """Why the audible stalls were heard, the commonest cause first; nothing if there are none."""
    found = {name: mean(metrics, "stall_causes", name) for name in metrics.get("stall_causes", ())}
    told = sorted(((v, name) for name, v in found.items() if v), reverse=True)
    if not told:
        return []
    seconds = {name: mean(metrics, "stall_cause_seconds", name) or 0.0 for name in found}
    total = sum(seconds.values())
    parts = sorted(((v / total, name) for name, v in seconds.items() if v), reverse=True)
    most, lengths = (
        ", ".join(f"{name} {percent(v)}" for v, name in each if v >= 0.005)
        for each in (told, parts)
    )
    return [f"audible stalls by main cause: {most}; their seconds: {lengths}"]


def degraded(metrics: Mapping[str, Any]) -> list[str]:
    """How far a ladder was climbed and what that cost; nothing without a ladder."""
    some, shares = mean(metrics, "degraded_share"), metrics.get("rung_share", {})
    if not some and not shares:
        return []
    text = f"{percent(some or 0.0)} of the calls degraded"
    if instead := mean(metrics, "stood_in"):
        text += f", {count(instead)} of them with text or a filler instead of speech"
    at = [f"{name} {percent(v)}" for name in shares if (v := mean(shares, name))]
    if at:
        text += f"; utterances by rung: {', '.join(at)}"
    cost = metrics.get("quality_cost", {})
    lost = [f"{name} {amount(v)}" for name in cost if (v := mean(cost, name))]
    return [text, *([f"quality cost per utterance, as given: {', '.join(lost)}"] if lost else [])]


def shadows(metrics: Mapping[str, Any]) -> list[str]:
    """What the shadow policies would have done otherwise; nothing without them."""
    found = []
    for name, m in metrics.get("shadow", {}).items():
        if "turns" in m:
            n = {what: mean(m, what) or 0.0 for what in m}
            text = f"shadow {name}: of {count(n['turns'])} turns it would have taken a pause for "
            text += f"the end in {count(n['false_ends'])}, the endpointing in charge does in "
            text += (
                f"{count(n['false_ends_now'])}; silence waited for {duration(n['delay_mean_s'])} "
            )
            text += f"(p95 {duration(n['delay_p95_s'])}) against {duration(n['delay_mean_now_s'])} "
            found.append(text + f"(p95 {duration(n['delay_p95_now_s'])})")
            continue
        n = {what: mean(m, what) or 0.0 for what in m}
        text = f"shadow {name}: of {count(n['requests'])} requests it would have refused "
        text += f"{count(n['would_refuse'])} more ({count(n['refuse_well'])} went well, "
        text += f"{count(n['refuse_badly'])} not), let in {count(n['would_admit'])} more, sent "
        text += f"{count(n['elsewhere'])} elsewhere"
        if n["would_queue"]:
            text += f", queued {count(n['would_queue'])} more"
        found.append(text)
    return found


def _fired(rule: str, at: float | None) -> str:
    """When an alarm on something else than the chunk gap went off, if ever."""
    what = "on waiting callers" if rule.startswith("waiting") else rule
    if at is None:
        return f"the alarm {what} never went off"
    return f"the alarm {what} went off at {at / 60:.1f} min"


def groups(lines: Sequence[str], variants: Sequence[str]) -> list[str]:
    """Join "variant: text" lines of the same text: "cap, slack: text"."""
    found: dict[str, list[str]] = {}
    for line in lines:
        name, colon, text = line.partition(": ")
        known = colon and name in variants
        found.setdefault(text if known else line, []).extend([name] if known else [])
    return [f"{', '.join(names)}: {text}" if names else text for text, names in found.items()]
