"""The ``plan`` command: progress, the answer in words, and the study folder."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from voicesim.experiment.metrics import METRICS
from voicesim.experiment.plan import SHARES, Judged, Plan, plan
from voicesim.experiment.plan_search import FAILS, MEETS, Limit, Reading
from voicesim.progress import Progress
from voicesim.report import words
from voicesim.report.html.study import write_study
from voicesim.report.loaded import plan_picture
from voicesim.report.png import png
from voicesim.report.studies import DONE, NO, attempt, hand_over
from voicesim.scenario import load

STYLES = {MEETS: "bold green", FAILS: "red"}


def plan_command(
    path: Path,
    slo: Sequence[str],
    vary: Sequence[str],
    sets: Sequence[str],
    seed: int | None,
    out: Path | None,
    as_json: bool,
    quiet: bool,
    **asked: Any,
) -> int:
    """Plan; the exit code: 0, 1 no setting meets or workers lost, 2 bad input, 130 interrupted."""
    folder = out or Path("runs") / f"{path.stem}-plan"
    progress = Progress(quiet)

    def work() -> Plan:
        with progress:
            file = load(path, sets=sets, seed=seed)
            judged = teller(progress)
            found = plan(
                file, slo, vary, out=folder, progress=progress.show, judged=judged, **asked
            )
            tell_plan(found, folder)
            return found

    answer = attempt(work, path, folder, progress)
    if isinstance(answer, int):
        return answer
    hand_over(
        lambda console: print_plan(answer, console), answer.as_dict,
        f"wrote {folder}/ (report.html, plan.json, judged.parquet, scenario.yaml, runs/)",
        folder, as_json, quiet,
    )  # fmt: skip
    return DONE if answer.answer else NO


def teller(progress: Progress) -> Callable[[Judged], None]:
    """Says each verdict beside the progress."""

    def say(judged: Judged) -> None:
        runs = judged.node.replications
        verdict = f"{judged.setting.name}: {judged.node.verdict}, {line_of(judged)}"
        progress.say(f"{verdict} ({runs} runs)")

    return say


def tell_plan(found: Plan, folder: Path) -> None:
    """The page of a plan, beside what it has written itself."""
    told = replace(found, reused=0)  # how many runs were there already is no finding
    data = found.as_dict()
    lines = [line for line in _answer(told) if not line.startswith(" ")]
    pictures = {"The settings judged": png(plan_picture(found.table, data), 120)}
    write_study(folder, data, lines[:2], lambda c: print_plan(told, c), pictures)


# --- in words ---------------------------------------------------------------------------------


def print_plan(found: Plan, console: Console) -> None:
    """Print the answer, what breaks first beyond it, the settings judged, and the method."""
    base = found.file.variants[found.variant]
    console.print()
    console.print(Text(base.title or found.file.path.stem, "bold"))
    slo = ", ".join(slo_text(limit) for limit in found.limits)
    console.print(Text(f"variant {found.variant}; {slo}; seed {base.seed}", "dim"))
    console.print()
    for line in _answer(found):
        console.print(Text(line))
    console.print()
    console.print(_table(found))
    console.print()
    for line in found.notes:
        console.print(Text(line, "yellow"))
    console.print(Text(_method(found), "dim"))


def _answer(found: Plan) -> Iterator[str]:
    sure = f"{100 * found.rule.confidence:g} %"
    best = found.answer
    if best is None:
        yield f"no setting was shown to meet every SLO with {sure} confidence"
    else:
        yield f"{best.setting.name} meets every SLO with {sure} confidence, {cost(found, best)}"
        for r in best.node.readings:
            yield f"  {reading_text(r)}"
        r = best.weakest
        if r.mean is not None and r.worst is not None:
            gap, sure_gap = abs(r.mean - r.limit.value), abs(r.worst - r.limit.value)
            yield (
                f"headroom: {_name(r.limit)} is {_gap(r.limit, gap)} inside its limit, "
                f"{_gap(r.limit, sure_gap)} at its bound"
            )
    below = found.cheaper
    if below is not None:
        stage = below.bottleneck
        busy = f"; busiest stage {stage[0]}, {words.percent(stage[1])}" if stage else ""
        verb = "breaks" if below.node.verdict == FAILS else "is not shown to hold"
        yield (
            f"just beyond it ({below.setting.name}) {_name(below.weakest.limit)} {verb} first: "
            f"{line_of(below)}{busy}"
        )
    elif best is not None:
        yield "nothing cheaper was in the range"
    others = found.alternatives
    if others:
        text = "; ".join(f"{j.setting.name} ({cost(found, j)})" for j in others)
        yield f"next best of those played: {text}"
    if found.undecided:
        names = "; ".join(j.setting.name for j in found.undecided)
        yield (
            f"cannot tell after {found.rule.looks[-1]} replications, counted as failing: {names}"
            + ("; the true optimum may be cheaper" if best else "")
        )
    again = f", {found.reused} of them found in the folder" if found.reused else ""
    yield f"{found.runs} runs{again}"


def _table(found: Plan) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("setting", style="bold")
    table.add_column("cost" if found.priced else "cards", justify="right")
    for limit in found.limits:
        table.add_column(slo_text(limit), justify="right")
    table.add_column("verdict")
    table.add_column("runs", justify="right")
    table.add_column("busiest stage")
    order = sorted(found.judged, key=lambda j: (j.setting.values[1:], j.setting.values))
    for j in order:
        stage = "" if j.bottleneck is None else f"{j.bottleneck[0]} {j.bottleneck[1]:.0%}"
        table.add_row(
            j.setting.name,
            words.amount(j.setting.cost) if found.priced else f"{j.setting.cost:g}",
            *(words.NOT_MEASURED if r.mean is None else _show(r.limit, r.mean)
              for r in j.node.readings),
            Text(j.node.verdict, STYLES.get(j.node.verdict, "yellow")),
            str(j.node.replications),
            stage,
        )  # fmt: skip
    return table


def _method(found: Plan) -> str:
    rule, error = found.rule, 1.0 - found.rule.confidence
    looks = ", ".join(map(str, rule.looks))
    over = "settings of one bisection" if len(found.varied) == 1 else "settings of the grid"
    return (
        f"SLOs hold for the mean over replications. The error of {100 * error:.3g} % is split over "
        f"{rule.nodes} {over} and {len(rule.looks)} looks ({looks} replications): "
        f"one-sided bounds at {100 * (1 - rule.level):.6g} %; no success on fewer than "
        f"{rule.least} replications. SLOs are taken to be met from some value on, in the order "
        "given."
    )


def cost(found: Plan, judged: Judged) -> str:
    """5 cards, or the money over the horizon."""
    if not found.priced:
        return f"{judged.setting.cost:g} card" + ("" if judged.setting.cost == 1 else "s")
    base = found.file.variants[found.variant]
    return f"GPU cost {words.amount(judged.setting.cost)} for {words.duration(base.horizon)}"


def line_of(judged: Judged) -> str:
    """The weakest limit of a setting: clean 98.71% (limit 99.0%)."""
    return reading_text(judged.weakest)


def reading_text(r: Reading) -> str:
    """A metric with its one-sided bound against its limit."""
    if r.mean is None:
        return f"{_name(r.limit)} not measured in every replication"
    side, bound = ("at least", r.worst) if r.limit.at_least else ("at most", r.worst)
    if r.missed:
        side, bound = ("at most" if r.limit.at_least else "at least"), r.best
    within = "" if bound is None else f", {side} {_show(r.limit, bound)}"
    sign = ">=" if r.limit.at_least else "<="
    text = f"{_name(r.limit)} {_show(r.limit, r.mean)}{within}"
    return f"{text} (limit {sign} {_show(r.limit, r.limit.value)})"


def slo_text(limit: Limit) -> str:
    """clean >= 99%"""
    sign = ">=" if limit.at_least else "<="
    return f"{_name(limit)} {sign} {_show(limit, limit.value)}"


def _name(limit: Limit) -> str:
    return limit.metric.removesuffix("_share").removesuffix("_s")


def _show(limit: Limit, x: float) -> str:
    if limit.metric in SHARES:
        return words.percent(x)
    return METRICS[limit.metric].show(x)


def _gap(limit: Limit, x: float) -> str:
    if limit.metric in SHARES or METRICS[limit.metric].points:
        return f"{100 * x:.2f} points"
    return METRICS[limit.metric].show(x)
