"""The ``alarms`` command: progress, the ranked table, verdicts in words, and the folder."""

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from voicesim.experiment.alarms import SHIPPED, Backtest, backtest
from voicesim.experiment.backtest import EARLY, LATE, MISSED, WARNED, Finding
from voicesim.experiment.metrics import ExperimentError
from voicesim.files import write_tables, write_whole
from voicesim.metrics.prometheus import openmetrics, rules_file, rules_test, threshold
from voicesim.progress import Progress
from voicesim.report import words
from voicesim.report.alarms_figure import alarms_figure
from voicesim.report.html.study import write_study
from voicesim.report.studies import DONE, attempt, hand_over
from voicesim.scenario import ScenarioFile, load, load_rules
from voicesim.scenario.alarms import Alarm

FILES = (
    "report.html, alarms.json, alarms.parquet, alarms.png, rules.yaml, rules_test.yaml, series.om, "
    "scenario.yaml, runs/"
)


def alarms_command(
    path: Path,
    rules: str | None,
    sets: Sequence[str],
    seed: int | None,
    out: Path | None,
    as_json: bool,
    quiet: bool,
    **asked: Any,
) -> int:
    """Back-test; the exit code: 0, 1 workers lost, 2 bad input, 130 interrupted."""
    folder = out or Path("runs") / f"{path.stem}-alarms"
    progress = Progress(quiet)

    def work() -> Backtest:
        with progress:
            file = load(path, sets=sets, seed=seed)
            chosen, source = rules_of(file, rules, asked["variants"])
            found = backtest(file, chosen, source, out=folder, progress=progress.show, **asked)
            write(found, folder)
            return found

    answer = attempt(work, path, folder, progress)
    if isinstance(answer, int):
        return answer
    hand_over(
        lambda console: print_alarms(answer, console), answer.as_dict,
        f"wrote {folder}/ ({FILES})", folder, as_json, quiet,
    )  # fmt: skip
    return DONE


def rules_of(
    file: ScenarioFile, given: str | None, variants: Sequence[str]
) -> tuple[list[Alarm], str]:
    """The rules of --rules, else the scenario's, else the shipped ones; and where from."""
    if given is not None and given != "shipped":
        return load_rules(given), Path(given).name
    own = [s.alarms for v, s in file.variants.items() if not variants or v in variants]
    if given is None and any(own):
        if any(each != own[0] for each in own):
            raise ExperimentError(
                f"{file.path.name}: alarms: the variants have different ones; give one list with "
                "--rules FILE"
            )
        return own[0], file.path.name
    return load_rules(SHIPPED), f"{SHIPPED.name} (shipped)"


def write(answer: Backtest, folder: Path) -> None:
    """Everything but the runs; the series are of replication 0 of the first variant."""
    variant = answer.findings[0].variant
    clock = answer.asked.clock(answer.file.variants[variant])
    seen, rules = answer.seen[variant, 0], answer.asked.rules
    texts = {
        "rules.yaml": rules_file(rules, clock),
        "rules_test.yaml": rules_test(seen, rules, clock),
        "series.om": openmetrics(seen, clock),
        "alarms.json": json.dumps(answer.as_dict(), indent=2, allow_nan=False) + "\n",
    }
    for name, text in texts.items():
        write_whole(folder / name, text.encode())
    write_tables(folder, {"alarms": answer.table})
    write_whole(folder / "scenario.yaml", answer.file.resolved_yaml())
    picture = alarms_figure(answer)
    write_whole(folder / "alarms.png", picture)
    lines = [f"{variant}: {_gauge(answer, variant)}", next(sentences(answer, variant), "")]
    shown = {"The alarms of one run, and its stalls": picture}
    write_study(folder, answer.as_dict(), lines, lambda c: print_alarms(answer, c), shown)


# --- in words ---------------------------------------------------------------------------------


def print_alarms(found: Backtest, console: Console) -> None:
    """Print the ranked rules of each variant, what they mean, and the method."""
    base = found.file.variants[found.file.baseline]
    console.print()
    console.print(Text(base.title or found.file.path.stem, "bold"))
    console.print()
    console.print(_table(found))
    console.print()
    for variant in dict.fromkeys(f.variant for f in found.findings):
        console.print(Text(f"{variant}: {_gauge(found, variant)}", "bold"))
        for line in sentences(found, variant):
            console.print(Text(f"  {line}"))
    console.print()
    for line in words.groups(found.warnings, list(found.file.variants)):
        console.print(Text(f"warning: {line}", "yellow"))
    console.print(Text(_method(found), "dim"))


def rule_of(found: Backtest, each: Finding) -> Alarm:
    """The rule that a finding is about."""
    return next(rule for rule in found.asked.rules if rule.label == each.rule)


STYLES = {"warns": "bold green", "silent": "red", "late": "red"}


def _table(found: Backtest) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("variant", "rule", "verdict"):
        table.add_column(name, overflow="fold")
    for name in ("lead", "warned", "unwarned", "false/h"):
        table.add_column(name, justify="right", no_wrap=True)
    previous = ""
    for variant in dict.fromkeys(f.variant for f in found.findings):
        for f in found.of(variant):
            table.add_row(
                "" if variant == previous else variant,
                f.rule,
                Text(f.verdict, STYLES.get(f.verdict, "")),
                _lead(f),
                f"{f.first[WARNED]} of {f.stalled}" if f.stalled else words.NOT_MEASURED,
                f"{f.unwarned} of {f.all.total()}" if f.stalled else words.NOT_MEASURED,
                f"{words.amount(f.false_per_hour)} ({_range(f.false_range)})",
            )
            previous = variant
    return table


def _lead(f: Finding) -> str:
    if f.lead is None:
        return words.NOT_MEASURED
    text = _seconds(f.lead)
    if f.lead_range is None or set(f.lead_range) == {f.lead}:
        return text
    return f"{text} ({' .. '.join(map(_seconds, f.lead_range))})"


def _seconds(lead: float) -> str:
    return "none" if math.isinf(lead) else words.duration(lead)


def _range(interval: tuple[float, float]) -> str:
    return " .. ".join(words.amount(x) for x in interval)


def _gauge(found: Backtest, variant: str) -> str:
    """What num_requests_waiting showed at the first stall of each run."""
    read = found.gauge_at_first_stall(variant)
    if not read:
        return f"no audible stall in {_runs(found.asked.replications)}"
    zero = sum(value == 0 for value in read)
    most = f", at most {max(read)} in the others" if zero < len(read) else ""
    stalled = f"{zero} of {_runs(len(read))}"
    return f"the waiting gauge reads 0 at the first audible stall in {stalled}{most}"


def sentences(found: Backtest, variant: str) -> Iterator[str]:
    """The rules of a variant in words, the best first; those with nothing to say together."""
    quiet = []
    for f in found.of(variant):
        if f.stalled or f.raised:
            yield sentence(f, rule_of(found, f))
        else:
            quiet.append(f.rule)
    if quiet:
        yield f"{', '.join(quiet)}: no alarm"


def sentence(f: Finding, rule: Alarm) -> str:
    """A finding in words."""
    side = ">" if rule.below is None else "<"
    what = f"{f.rule} ({rule.signal.title} {side} {threshold(rule)})"
    return f"{what} {_outcome(f)}{_false(f)}"


def _outcome(f: Finding) -> str:
    if not f.stalled:
        return "had no stall to warn of"
    parts = []
    if f.first[WARNED]:
        low = words.percent(f.warned_range[0])
        parts.append(
            f"warns {_middle(f, 1)} before the first audible stall in {f.first[WARNED]} of "
            f"{_runs(f.stalled)} (in at least {low} of all)"
        )
    if f.first[EARLY]:
        parts.append(f"had been on for longer than the horizon in {f.first[EARLY]}")
    if f.first[LATE]:
        parts.append(f"comes {_middle(f, -1)} late in {f.first[LATE]}")
    if f.first[MISSED]:
        parts.append(f"is silent in {f.first[MISSED]}")
    text = ", ".join(parts)
    return text if f.first[WARNED] else f"{text} of {_runs(f.stalled)}"


def _middle(f: Finding, sign: int) -> str:
    """Median of the leads before (+1) or after (-1) the first stall."""
    leads = [x for x in f.leads if math.isfinite(x) and (x >= 0) == (sign > 0)]
    return words.duration(abs(float(np.median(leads))))


def _runs(n: int) -> str:
    return f"{n} run" + ("" if n == 1 else "s")


def _false(f: Finding) -> str:
    high = words.amount(f.false_range[1])
    if not f.false:
        return f"; no false alarm (fewer than {high} an hour)"
    return f"; {words.amount(f.false_per_hour)} false alarms an hour ({_range(f.false_range)})"


def _method(found: Backtest) -> str:
    asked = found.asked
    return (
        f"Rules of {asked.source}, scraped every {asked.scrape:g} s and evaluated every "
        f"{asked.evaluate:g} s as Prometheus does, over {_runs(asked.replications)}. A warning is "
        f"an alarm raised within {words.duration(asked.horizon)} before the first of a row of "
        "stalls; it is false if no audible stall is within that time of it, before or after. "
        "Lead: median over runs with a stall, none where there was no warning. Intervals 95 %."
    )
