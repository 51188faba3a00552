"""The tables of a study of dialogues on a terminal: what was heard, where the time went, what each
stage still had in hand, what each tenant was promised, and what it cost."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from voicesim.metrics.dialogue_run import PARTS, SEGMENTS
from voicesim.report import words
from voicesim.report.dialogue_words import (
    caches,
    interruptions,
    knee,
    legend,
    money,
    one_more,
    spoilt,
    turn_taking,
)
from voicesim.report.table import BAD, DOUBT, FAINT, Column, items, layout
from voicesim.report.words import Summary

NONE = {"mean": None, "low": None, "high": None}
LABEL = 40  # cells of a name: a tenant's, a segment's and its owner's
IN_FULL = 3
"""Variants whose ledgers are told in full; of more, the p95 of each segment."""


def _bad(value: float) -> str:
    return BAD if value > 0 else ""


HEADLINE = [
    Column(["offered"], ["offered"], words.count),
    Column(["refused"], ["refused"], words.count),
    Column(["abandoned"], ["abandoned"], words.count),
    Column(["calls"], ["clean_share"], words.percent, group="CLEAN"),
    Column(["turns"], ["clean_turn_share"], words.percent, group="CLEAN"),
    Column(["calls"], ["stalled_share"], words.percent, _bad, group="audible stall"),
    Column(["turns"], ["stalled_turn_share"], words.percent, _bad, group="audible stall"),
    *(Column([q], [f"ttfa_{q}_s"], words.milliseconds, group="TTFA ms") for q in
      ("p50", "p95", "p99")),
    Column(["audio", "wasted"], ["waste", "audio_share"], words.percent),
    Column(["cost", "per call"], ["cost", "per_call"], words.money),
]  # fmt: skip
LEDGER = [
    *(Column([q], [f"{q}_s"], words.milliseconds, group="ms") for q in
      ("p50", "p95", "p99", "mean")),
    Column(["share"], ["share"], words.percent),
    Column(["median"], ["median_turn_s"], words.milliseconds, group="one turn, ms"),
    Column(["p99"], ["p99_turn_s"], words.milliseconds, group="one turn, ms"),
]  # fmt: skip
MARGINAL = Column(["10% less:", "p95 by"], ["change_s"], words.milliseconds)
STAGES = [
    Column(["busy"], ["busy"], words.percent),
    Column(["of full", "batches"], ["load"], words.percent),
    Column(["waiting", "for a place"], ["queued"], words.percent, _bad),
]  # fmt: skip
COSTS = [
    *(Column([name], ["cost", name], words.money, group="cost") for name in
      ("gpus", "bought", "network", "total")),
    Column(["per", "call"], ["cost", "per_call"], words.money),
    Column(["per CLEAN", "minute"], ["cost", "per_clean_minute"], words.money),
    Column(["never", "heard"], ["cost", "waste"], words.money),
    Column(["of that", "interrupted"], ["cost", "interruptions"], words.money),
    Column(["phrases"], ["cost", "saved_by_phrases"], words.money, group="saved by cached"),
    Column(["prefixes"], ["cost", "saved_by_prefixes"], words.money, group="saved by cached"),
]  # fmt: skip
HEARING = [
    Column(["streams"], ["streams"], words.count),
    *(Column([q], [f"asr_{q}_s"], words.milliseconds, group="delay, ms") for q in ("p50", "p95")),
    Column(["words", "wrong"], ["wer"], words.percent),
    Column(["beaten", "by"], ["beaten"], words.count),
]
"""A recogniser's trade; it is beaten by a variant that is no worse in streams, p95 and errors, and
better in one: what nobody beats is the Pareto front."""
BUDGET = [
    Column(["allowed", "ms"], ["limit"], words.milliseconds),
    Column(["p95", "ms"], ["p95_s"], words.milliseconds),
    Column(["of the", "allowance"], ["spend"], words.percent,
           lambda v: BAD if v > 1 else DOUBT if v > 0.9 else ""),
    Column(["turns", "over"], ["over_share"], words.percent, _bad),
]  # fmt: skip


def print_dialogues(summary: Summary, context: Mapping[str, Any], console: Console) -> None:
    """Print a study of dialogues.

    summary: variant -> metric -> {mean, low, high} (voicesim.metrics.dialogue.run_metrics).
    context: of the study, with ``voicesim.metrics.dialogue_context.context`` in it.
    """
    plain = console.options.ascii_only

    def say(text: str = "", style: str = "") -> None:
        console.print(Text(text, style), soft_wrap=False)

    say()
    say(context["title"] or "voicesim", "bold")
    say(words.setting(context), FAINT)
    for title, rows, columns, name in tables(summary, context):
        if title:
            say()
            say(title, "bold")
        ranked = columns is HEADLINE
        for block in layout(rows, console.width, plain, ranked, columns, name, LABEL):
            if not title:
                say()
            for line in block:
                console.print(line, soft_wrap=True)
    say()
    items(console, legend(summary, context, plain), FAINT)
    if said := sayings(summary):
        say()
        items(console, [(f"{name}:", line) for name, line in said])
    say()
    say(words.verdict(summary), "bold")
    if context["warnings"]:
        say()
        found = words.groups(context["warnings"], list(summary))
        items(console, [("warning:", text) for text in found], DOUBT)
    assumed = [*context["assumptions"], *money(context)]
    if assumed:
        say()
        items(console, [("assumed:", text) for text in assumed], FAINT)


def sayings(summary: Summary) -> list[tuple[str, str]]:
    """(variant, sentence): why not CLEAN, turn-taking, interruptions, caches, nearest knee, one
    more caller, causes of stalls, shadows."""
    return [
        (name, line)
        for name, m in summary.items()
        for line in (
            spoilt(m),
            turn_taking(m),
            interruptions(m),
            caches(m),
            knee(m),
            one_more(m),
            *words.causes(m),
            *words.shadows(m),
        )
        if line
    ]


Table = tuple[str, Summary, Sequence[Column], str]


def tables(summary: Summary, context: Mapping[str, Any]) -> Iterator[Table]:
    """(title, rows, columns, what a row is) of each table."""
    many = len(summary) > 1
    yield "", summary, HEADLINE, "variant"
    if len(summary) <= IN_FULL:
        for name, m in summary.items():
            of = f": {name}" if many else ""
            columns = [*LEDGER, MARGINAL] if "marginal" in m else LEDGER
            yield f"Where the time went{of}", ledger(m), columns, "segment"
    else:
        columns = [Column([p], ["ledger", f"{p}_p95_s"], words.milliseconds) for p in
                   (*SEGMENTS, "total")]  # fmt: skip
        yield "Where the time went, p95 ms", summary, columns, "variant"
    stages = {
        f"{v} {s}" if many else s: m for v, each in summary.items()
        for s, m in each["stages"].items()
    }  # fmt: skip
    if stages:
        yield "What each stage does", stages, STAGES, "stage"
    if rows := hearing(summary):
        yield "What the recogniser trades", rows, HEARING, "variant"
    for name, m in summary.items():
        if rows := budget(m, context):
            yield (
                f"What each tenant was promised{f': {name}' if many else ''}",
                rows,
                BUDGET,
                "part",
            )
    if any(words.mean(m, "cost", "total") is not None for m in summary.values()):
        yield f"Money{context['prices']['unit']}", summary, COSTS, "variant"


def ledger(metrics: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The ledger of one variant with a row per segment, those of no length left out."""
    found = {}
    for part in (*SEGMENTS, "network", "total"):
        row = {c.path[0]: metrics["ledger"][f"{part}_{c.path[0]}"] for c in LEDGER}
        row["change_s"] = metrics.get("marginal", {}).get(f"{part}_change_s", NONE)
        if any(each["mean"] for each in row.values()):
            found["(network)" if part == "network" else part] = row
    return found


def hearing(summary: Summary) -> dict[str, dict[str, Any]]:
    """Streams, delay and errors of the recogniser where several variants state its errors."""
    found = {}
    for name, m in summary.items():
        for stage in m["stages"].values():
            if "wer" in stage:
                delay = {f"asr_{q}_s": m["ledger"][f"asr_{q}_s"] for q in ("p50", "p95")}
                found[name] = {"streams": stage["streams"], "wer": stage["wer"], **delay}
    if len(found) < 2:
        return {}
    for row in found.values():
        row["beaten"] = {**NONE, "mean": float(sum(_beats(o, row) for o in found.values()))}
    return found


def _beats(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    ways = (("streams", -1), ("asr_p95_s", 1), ("wer", 1))
    x, y = ([words.mean(row, name) for name, _ in ways] for row in (a, b))
    if None in x or None in y:
        return False
    gains = [sign * (v - u) for u, v, (_, sign) in zip(x, y, ways, strict=True)]  # type: ignore[operator]
    return min(gains) >= 0 and max(gains) > 0


def budget(metrics: Mapping[str, Any], context: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What one variant spent of its tenants' budgets, with a row per allowance and its owner."""
    found = {}
    for tenant, promised in context["tenants"].items():
        of = metrics["tenants"][tenant]
        for part in (p for p in PARTS if p in promised["budget"]):
            given = promised["budget"][part]
            owner = f" ({given['owner']})" if given["owner"] else ""
            row = {name: of[f"{part}_{name}"] for name in ("p95_s", "spend", "over_share")}
            row["limit"] = {"mean": given["limit"], "low": None, "high": None}
            found[f"{tenant} {part}{owner}"] = row
    return found
