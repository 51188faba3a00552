"""The page of a run: the answer, then what lies behind it, from its results and its folder."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import voicesim
from voicesim.metrics.extrapolated import MARKS
from voicesim.report import dialogue_table, dialogue_words, sentences, words
from voicesim.report.html import calls, curves, ledger, operations, peak, steps, talks
from voicesim.report.html.charts import Chart
from voicesim.report.html.grid import grid
from voicesim.report.html.page import Section, bullets, document, folded, items, place
from voicesim.report.html.tags import join, tag
from voicesim.report.table import Column, columns_of, legend, notes, one_run
from voicesim.study import StudyResult

REPORT = "report.html"


def write_report(result: StudyResult, folder: Path) -> None:
    """report.html of a run, from its results and the tables that are in the folder already."""
    (folder / REPORT).write_text(run_page(result, folder), encoding="utf-8")


def run_page(result: StudyResult, folder: Path | None = None) -> str:
    """The page as text; the same results give the same bytes.

    folder: where the run's tables are; a table of ``stalls`` there tells what caused each.
    """
    summary, context = result.summary, result.context
    charts: list[Chart] = []
    if result.of_dialogues:
        numbers = _dialogues(summary, context)
    else:
        numbers = _numbers(summary, context, result.pools)
    sections = [
        _answer(result, summary, context),
        numbers,
        ledger.section(summary, charts),
        peak.section(result.series, summary, context, charts),
        (talks if result.of_dialogues else calls).section(result, folder, charts),
        curves.section(result, summary, context, charts),
        steps.section(result, charts),
        operations.section(result, folder),
        _busy(summary, charts),
        _doubts(summary, context, result.of_dialogues),
        _provenance(result, context),
    ]
    title = context["title"] or result.file.path.stem
    shown = [each for each in sections if each is not None]
    return document(title, words.setting(context), shown, charts, list(summary))


# --- the answer and the table ---------------------------------------------------------------------


def _answer(result: StudyResult, summary: words.Summary, context: Mapping[str, Any]) -> Section:
    first, second = sentences.answer(summary, context)
    body = [tag("p", tag("b", first), " ", second, class_="verdict")]
    rule = (dialogue_words if result.of_dialogues else words).clean_rule(context)
    rule = f"CLEAN: {rule}; of all offered calls."
    body.append(tag("p", rule, class_="faint"))
    if not result.complete:
        done = len(result.outcomes)
        some = "one run was" if done == 1 else f"{done} runs were"
        text = f"Interrupted: {some} finished, and these numbers are of that alone."
        body.append(tag("div", tag("p", text), class_="callout loud"))
    if warned := words.groups(context["warnings"], list(summary)):
        beyond = [text for text in warned if any(mark in text for mark in MARKS)]
        rest = [text for text in warned if text not in beyond]
        for said, heading, loud in (
            (beyond, "Extrapolated: part of this lies where nothing was measured", " loud"),
            (rest, "Warnings", ""),
        ):
            if said:
                inside = join(tag("h3", heading), bullets(said))
                body.append(tag("div", inside, class_=f"callout{loud}", role="note"))
    return Section("answer", "The answer", body)


def _numbers(
    summary: words.Summary, context: Mapping[str, Any], pools: Mapping[str, words.Summary]
) -> Section:
    """The table of the terminal."""
    best = words.best_variant(summary) if len(summary) > 1 else None
    body = [grid("All variants", summary, columns_of(summary), best=best)]
    by_pool = {f"{v} {p}": m for v, each in pools.items() for p, m in each.items()}
    if by_pool:
        body.append(grid("Pool by pool", by_pool, columns_of(by_pool)))
    many = context["replications"]
    said = [(name, line) for name, m in summary.items() for line in words.signals(m, many)]
    body += [items(legend(summary, context, False), "faint"), tag("h3", "Before the first stall")]
    body.append(items(said))
    if less := [(name, line) for name, m in summary.items() for line in words.degraded(m)]:
        body += [tag("h3", "Degraded instead of refused"), items(less)]
    if beside := [(name, line) for name, m in summary.items() for line in words.shadows(m)]:
        body += [tag("h3", "What shadow policies would have done"), items(beside)]
    if more := [*notes(summary), *one_run(context)]:
        body.append(items(more))
    return Section("numbers", "The numbers", body)


def _dialogues(summary: words.Summary, context: Mapping[str, Any]) -> Section:
    """The tables of the terminal, but for the ledger, which has a section of its own."""
    best = words.best_variant(summary) if len(summary) > 1 else None
    body = [
        grid(title or "All variants", rows, columns, what, best if rows is summary else None)
        for title, rows, columns, what in dialogue_table.tables(summary, context)
        if what != "segment"
    ]
    body.append(items(dialogue_words.legend(summary, context, False), "faint"))
    body.append(items(dialogue_table.sayings(summary)))
    return Section("numbers", "The numbers", body)


# --- busy stages ----------------------------------------------------------------------------------


def _busy(summary: words.Summary, charts: list[Chart]) -> Section | None:
    stages: dict[str, tuple[str, ...]] = {}
    for metrics in summary.values():
        stages |= {s: ("busy_share", s) for s in metrics.get("busy_share", {})}
        stages |= {s: ("stages", s, "busy") for s in metrics.get("stages", {})}
    dark = [s for s, path in stages.items()
            if all(words.mean(m, *path) is None for m in summary.values())]  # fmt: skip
    known = {s: path for s, path in stages.items() if s not in dark}
    if not known:
        return None
    text = "Share of the time between warm-up and horizon that each stage keeps its hardware busy."
    made = curves.ranges("busy", "Utilisation by stage.", text, summary, known, "busy, %")
    charts.append(made)
    note = tag("p", f"{words.NOT_MEASURED} (the profile does not tell it): {', '.join(dark)}")
    return Section("busy", "Where the time goes", [place(made), *([note] if dark else [])])


# --- what to know ---------------------------------------------------------------------------------


def _doubts(summary: words.Summary, context: Mapping[str, Any], dialogues: bool) -> Section:
    body = [] if context["warnings"] else [tag("p", "No warning: nothing lies beyond the profile.")]
    assumed = [*context["assumptions"]]
    if dialogues:
        assumed += dialogue_words.money(context)
    if assumed:
        body += [tag("h3", "Assumed"), bullets(assumed)]
    dark = unmeasured(summary, dialogue_table.HEADLINE if dialogues else columns_of(summary))
    body += [tag("h3", "Not measured"), bullets(dark) if dark else tag("p", "Nothing is missing.")]
    return Section("doubts", "What to know before trusting this", body)


def unmeasured(summary: words.Summary, columns: Sequence[Column]) -> list[str]:
    """Columns of the table without a value, with the variants: they are n/a, and never good."""
    found: list[str] = []
    for column in columns:
        dark = [v for v, m in summary.items() if words.mean(m, *column.path) is None]
        if dark:
            title = " ".join(filter(None, (column.group, *column.head)))
            found.append(f"{title}: {', '.join(dark)}")
    return found


def _provenance(result: StudyResult, context: Mapping[str, Any]) -> Section:
    facts = [
        ("scenario", result.file.path.name),
        *(("profile", name) for name in steps.profiles(result)),
        ("seed", str(context["seed"])),
        ("replications", str(context["replications"])),
        ("horizon", words.duration(context["horizon"])),
        ("voicesim", voicesim.__version__),
    ]
    scenario = result.file.resolved_yaml().decode()
    body = [
        items(facts),
        folded("The scenario, in full, with every default", tag("pre", scenario, tabindex=0)),
        folded("summary.json", tag("pre", json.dumps(result.summary, indent=1), tabindex=0)),
    ]
    return Section("provenance", "Where this comes from", body)
