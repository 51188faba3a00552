"""What a run of dialogues says in sentences, and the words that its tables need."""

from collections.abc import Mapping
from typing import Any

from voicesim.metrics.dialogue_stages import nearest
from voicesim.report import words
from voicesim.report.words import Summary


def legend(summary: Summary, context: Mapping[str, Any], plain: bool) -> list[tuple[str, str]]:
    """What the columns mean, the shortest way."""
    found = [
        ("CLEAN", f"{clean_rule(context)}; share of all calls offered, of all turns they brought"),
        ("TTFA", "from the caller's last word to the answer's first sound; a turn that was never "
         "answered counts as long as its caller waited"),
        ("segment", "percentiles do not add up; one turn: mean of those around that percentile of "
         "the total, which do. (network) is uplink and downlink"),
        ("busy", "GPU at work; of continuous batching near 100% long before the knee. of full "
         "batches: work done / what full batches would do, or the codec at work"),
    ]  # fmt: skip
    if any(words.mean(m, "cost", "total") is not None for m in summary.values()):
        found.append(("cost", "cards over the observed time, busy or idle, and what was bought; "
                      "a token bears what its pool costs / tokens made; presets "
                      "of cards are in US dollars"))  # fmt: skip
    if any("marginal" in m for m in summary.values()):
        found.append(("10% less", "the same callers once more, that segment taking a tenth less"))
    if context["replications"] > 1:
        found.append(("+-" if plain else "±", "95 % interval over the replications"))
    found.append((words.NOT_MEASURED, "not measured"))
    return found


def clean_rule(context: Mapping[str, Any]) -> str:
    """What makes a turn CLEAN: of each tenant where they differ."""
    rules: dict[str, list[str]] = {}
    for name, t in context["tenants"].items():
        within, over = (words.duration(t[key]) for key in ("start_within", "no_stall_over"))
        rules.setdefault(f"answered within {within}, no stall over {over}", []).append(name)
    if len(rules) < 2:
        return next(iter(rules), "")
    return "; ".join(f"{', '.join(names)}: {rule}" for rule, names in rules.items())


FAULTS = {
    "unsaid": "{} never spoken", "cut_in": "{} answered before the caller had finished",
    "unanswered": "{} without an answer", "late": "{} answered too late",
    "broken_off": "{} broken off by noise, a hang-up or the run's end", "stalled": "{} stalled",
    "lost": "{} with audio lost", "overlap": "{} spoken over a filler",
    "unmeasured": "{} of one chunk, not measured",
}  # fmt: skip


def spoilt(m: Mapping[str, Any]) -> str:
    """Why turns were not CLEAN, the most frequent reason first; "" if all were."""
    shares = {name: words.mean(m, "spoilt", name) or 0.0 for name in FAULTS}
    said = [FAULTS[name].format(words.percent(shares[name]))
            for name in sorted(shares, key=lambda n: -shares[n]) if shares[name] > 0]  # fmt: skip
    if not said:
        return ""
    return f"{words.percent(sum(shares.values()))} of the turns are not CLEAN: {', '.join(said)}"


def turn_taking(m: Mapping[str, Any]) -> str:
    """Turns offered, spoken, answered, and what went wrong in taking them."""
    counts = [_count(m, name) for name in ("offered_turns", "spoken_turns", "answered_turns")]
    text = "{} turns offered, {} spoken, {} answered".format(*counts)
    said = _some(m, {
        "cut_offs": "{} pauses taken for the end", "cut_in_turns": "{} of them heard as an answer",
        "late_endpoints": "{} ends noticed late", "reprompts": 'asked "hello?" {} times',
        "fillers": "{} fillers", "filler_overlaps": "{} spoken over by the answer",
        "fallbacks": "{} fell back to the three stages",
    })  # fmt: skip
    return text + (f"; {', '.join(said)}" if said else "")


def interruptions(m: Mapping[str, Any]) -> str:
    """Barge-ins, how fast the agent fell silent, and what it had made for nobody."""
    said = _some(m, {"barge_ins": "{} interruptions", "false_barge_ins": "{} false ones"})
    if not said:
        return ""
    text = ", ".join(said)
    stop = words.mean(m, "talk", "stop_p50_s")
    if stop is not None:
        p95 = words.mean(m, "talk", "stop_p95_s") or 0.0
        both = words.mean(m, "talk", "overtalk_s") or 0.0
        text += (
            f"; silent after {words.duration(stop)} (p95 {words.duration(p95)}), "
            f"{words.duration(both)} of both speaking"
        )
    lost = words.mean(m, "waste", "audio_s")
    part = words.mean(m, "waste", "interrupted_audio_s")
    if lost is None or part is None:
        return text
    return (
        f"{text}; {words.duration(lost)} of speech made and never heard, {words.duration(part)} of "
        "it left by interruptions"
    )


def caches(m: Mapping[str, Any]) -> str:
    """What the caches hit, if there are any."""
    found = []
    for name, what in (("phrase_hit_share", "units"), ("prefix_hit_share", "prompt tokens")):
        value = words.mean(m, "waste", name)
        if value:
            found.append(f"{words.percent(value)} of the {what} from the cache")
    return ", ".join(found)


def knee(m: Mapping[str, Any]) -> str:
    """Which stage breaks first."""
    name = nearest(m["stages"])
    return "" if name is None else f"nearest its knee: {name}"


def one_more(m: Mapping[str, Any]) -> str:
    """What one more caller does to the others."""
    found = words.metric(m, "marginal", "caller_change_s")
    if found["mean"] is None:
        return ""
    half = words.half_width(found)
    spread = "" if half is None else f" ±{1000 * half:.2f}"
    return f"one more caller at once moves p95 by {1000 * found['mean']:+.2f}{spread} ms"


def money(context: Mapping[str, Any]) -> list[str]:
    """From when the prices are."""
    days = context["prices"]["days"]
    return [f"prices as of {', '.join(days)}"] if days else []


def _count(m: Mapping[str, Any], *path: str) -> str:
    value = words.mean(m, *path)
    return words.NOT_MEASURED if value is None else words.count(value)


def _some(m: Mapping[str, Any], names: Mapping[str, str]) -> list[str]:
    """The phrases whose count is not nothing."""
    return [text.format(_count(m, "talk", n)) for n, text in names.items()
            if words.mean(m, "talk", n)]  # fmt: skip
