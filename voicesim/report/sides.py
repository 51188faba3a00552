"""Two sides on a terminal: what a gate decided, and the metrics of two folders side by side."""

import math
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from voicesim.experiment.decide import ALPHA, SAME
from voicesim.experiment.gate import MEANINGS, Gate
from voicesim.experiment.judge import BETTER, LOST, WITHIN, WORSE, Asked, Judged
from voicesim.experiment.method import Interval
from voicesim.experiment.metrics import Metric
from voicesim.report import words

STYLES = {WORSE: "bold red", LOST: "bold red", BETTER: "green", SAME: "", WITHIN: "green"}


def shown(x: float, of: Metric) -> str:
    """A mean, or n/a."""
    return of.show(x) if math.isfinite(x) else words.NOT_MEASURED


def signed(x: float, of: Metric, grain: float) -> str:
    """A difference with its sign and the decimals of ``grain``."""
    if not math.isfinite(x):
        return words.NOT_MEASURED
    return "0" if x == 0 else ("+" if x > 0 else "-") + of.gap(abs(x), grain)


def grain(of: Metric, interval: Interval, *means: float) -> float:
    """The number whose decimals a difference takes: the half-width of a share, else the larger
    mean."""
    if of.points and math.isfinite(interval.half) and interval.half > 0:
        return interval.half
    return max((abs(m) for m in means if math.isfinite(m)), default=0.0)


def span(interval: Interval, of: Metric, fine: float) -> str:
    """+1.2 pt .. +3.4 pt"""
    if not math.isfinite(interval.half):
        return words.NOT_MEASURED
    return f"{signed(interval.low, of, fine)} .. {signed(interval.high, of, fine)}"


def print_gate(answer: Gate, console: Console) -> None:
    """Print the table of metrics, the decision, and how far to trust it."""
    a, b = answer.baseline, answer.candidate
    console.print()
    console.print(Text(b.title or b.name, "bold"))
    for what, side in (("baseline ", a), ("candidate", b)):
        text = f"{what} {side.name}, {side.variant}: {len(side.table)} replications"
        console.print(Text(f"{text}, seed {side.seed}", "dim"))
    console.print()
    console.print(_gate_table(answer))
    console.print()
    console.print(Text(decision(answer), "bold green" if answer.passed else "bold red"))
    for note in [*answer.notes, *near(answer)]:
        console.print(Text(note, "yellow"))
    console.print()
    console.print(Text(_method(answer), "dim"))


def _gate_table(answer: Gate) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("metric", style="bold")
    for name in ("baseline", "candidate", "difference", "95 % interval", "margin", "sees", "p"):
        table.add_column(name, justify="right")
    table.add_column("verdict")
    for j in answer.judged:
        of = MEANINGS[j.metric]
        fine = grain(of, j.difference, j.baseline, j.candidate)
        table.add_row(
            of.title,
            shown(j.baseline, of),
            shown(j.candidate, of),
            signed(j.difference.mean, of, fine),
            span(j.difference, of, fine),
            of.gap(j.margin, fine) if j.margin else "0",
            of.gap(j.sees, fine) if 0 < j.sees < math.inf else "",
            f"{j.p_holm:.3f}" if j.tested else "",
            Text(j.verdict, STYLES.get(j.verdict, "yellow")),
        )
    return table


def decision(answer: Gate) -> str:
    """PASS or FAIL, and why."""
    if answer.passed:
        return "PASS: no metric is shown to be worse"
    return "FAIL: " + "; ".join(reason(j) for j in answer.failed)


def reason(j: Judged) -> str:
    """TTFA p99 worse: 1,195 ms to 1,402 ms, difference +207 ms (+150 ms .. +264 ms)"""
    of = MEANINGS[j.metric]
    if j.verdict == LOST:
        return f"{of.title} {LOST}: {shown(j.baseline, of)} of the baseline"
    fine = grain(of, j.difference, j.baseline, j.candidate)
    text = (
        f"{of.title} {j.verdict}: {shown(j.baseline, of)} to {shown(j.candidate, of)}, difference "
        f"{signed(j.difference.mean, of, fine)} ({span(j.difference, of, fine)})"
    )
    return text + (f", beyond the margin of {of.gap(j.margin, fine)}" if j.margin else "")


def near(answer: Gate) -> list[str]:
    """Metrics whose own interval says worse, where Holm does not follow."""
    return [
        f"{j.metric}: its interval lies beyond the margin, but not beyond what chance does among "
        f"so many metrics (Holm p {j.p_holm:.2f})"
        for j in answer.judged
        if j.tested and j.p < ALPHA <= j.p_holm and -j.better * j.difference.mean > j.margin
    ]


def _method(answer: Gate) -> str:
    how = "Paired t over replications" if answer.paired else "Welch's t over replications"
    given = "; WER and MOS as given" if any(j.how == "given" for j in answer.judged) else ""
    n = sum(j.tested for j in answer.judged)
    return (
        f"{how}{given}. Worse: the whole interval lies beyond the margin, by Holm's step over all "
        f"{n} metrics, so that a wrong alarm in any of them has a chance below {100 * ALPHA:g} %. "
        "sees: the worsening that this gate finds with 80 % probability; a pass does not speak of "
        "smaller ones. p: after Holm."
    )


def print_side_by_side(
    found: Mapping[str, Sequence[Asked]], names: tuple[str, str], console: Console
) -> None:
    """Print the metrics of two folders, a block per variant."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("variant", style="bold")
    table.add_column("metric")
    for name in (*names, "difference", "95 % interval"):
        table.add_column(name, justify="right")
    for variant, rows in found.items():
        previous = ""
        for each in rows:
            of, interval = MEANINGS[each.metric], each.difference.interval()
            fine = grain(of, interval, each.baseline, each.candidate)
            table.add_row(
                "" if variant == previous else variant, of.title, shown(each.baseline, of),
                shown(each.candidate, of), signed(interval.mean, of, fine),
                span(interval, of, fine),
            )  # fmt: skip
            previous = variant
    console.print(table)
