"""A comparison on a terminal: a row per variant and metric, and what it means in words."""

import math
from collections.abc import Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from voicesim.experiment.compare import BUDGET, EXHAUSTED, INTERRUPTED, Comparison
from voicesim.experiment.decide import ALPHA, SAME, UNKNOWN, UNMEASURED, Difference
from voicesim.experiment.method import LEVEL
from voicesim.experiment.metrics import COSTS, METRICS
from voicesim.report import words

STYLES = {"better": "bold green", "worse": "red", UNKNOWN: "yellow", UNMEASURED: "yellow"}
FAINT = "dim"


def print_comparison(answer: Comparison, console: Console) -> None:
    """Print the table, the costs and bottlenecks, and how far to trust them."""
    base = answer.file.variants[answer.settings.baseline]
    console.print()
    console.print(Text(base.title or answer.file.path.stem, "bold"))
    console.print(Text(_setting(answer), FAINT))
    console.print()
    console.print(_table(answer))
    console.print()
    for line in _sentences(answer):
        console.print(Text(line))
    for line in _cautions(answer):
        console.print(Text(line, "yellow"))
    console.print()
    console.print(Text(_method(answer), FAINT))


def verdict(answer: Comparison) -> list[str]:
    """Who is better than the baseline in the first metric, by how much; then the others."""
    base, metric = answer.settings.baseline, answer.settings.metrics[0]
    title, n = METRICS[metric].title, answer.replications
    if answer.look == 0:
        return [f"Nothing is decided: it ended ({answer.ended}) before the first look"]
    found = [d for d in answer.found if d.metric == metric]
    better = sorted(
        (d for d in found if d.verdict == "better"), key=lambda d: -abs(d.difference.mean)
    )
    if better:
        best = better[0]
        low, high = (signed(x, best) for x in (best.difference.low, best.difference.high))
        first = (
            f"{best.variant} is better than {base}: {title} "
            f"{signed(best.difference.mean, best)}, 95 % interval {low} .. {high}, from {n} pairs "
            "of runs"
        )
    else:
        first = f"No variant is shown to be better than {base} in {title}, from {n} pairs of runs"
    rest = [f"{d.variant} {d.verdict}" for d in found if not better or d is not better[0]]
    return [first, f"The others: {', '.join(rest)}"] if rest else [first]


def _setting(answer: Comparison) -> str:
    base = answer.file.variants[answer.settings.baseline]
    return (
        f"{words.duration(base.horizon)}, {answer.replications} replications of each variant under "
        f"the same callers, seed {base.seed}; against {answer.settings.baseline}"
    )


def _table(answer: Comparison) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("variant", style="bold")
    table.add_column("metric")
    for name in (answer.settings.baseline, "mean", "difference", "95 % interval"):
        table.add_column(name, justify="right")
    table.add_column("verdict")
    table.add_column("corr.", justify="right")
    previous = ""
    for d in _asked(answer):
        show = METRICS[d.metric].show
        interval = "n/a"
        if math.isfinite(d.difference.half):
            interval = f"{signed(d.difference.low, d)} .. {signed(d.difference.high, d)}"
        table.add_row(
            "" if d.variant == previous else d.variant,
            METRICS[d.metric].title,
            show(d.baseline) if d.measured else words.NOT_MEASURED,
            show(d.mean) if d.measured else words.NOT_MEASURED,
            signed(d.difference.mean, d) if d.measured else words.NOT_MEASURED,
            interval,
            Text(d.verdict, STYLES.get(d.verdict, "")),
            "" if d.correlation is None else f"{d.correlation:+.2f}",
        )
        previous = d.variant
    return table


def _asked(answer: Comparison) -> list[Difference]:
    return [d for d in answer.found if d.metric in answer.settings.metrics]


def signed(x: float, d: Difference) -> str:
    """A difference with its sign and the decimals that its half-width deserves."""
    if x == 0:
        return "0"
    return ("+" if x > 0 else "-") + METRICS[d.metric].gap(abs(x), grain(d))


def grain(d: Difference) -> float:
    """The number whose decimals to use: the half-width of a share, else the larger mean."""
    half = d.difference.half
    if METRICS[d.metric].points and math.isfinite(half) and half > 0:
        return half
    return max(abs(d.baseline), abs(d.mean))


def _sentences(answer: Comparison) -> Iterator[str]:
    """Per variant: what it costs, and where its time goes."""
    stages = answer.bottlenecks
    for v in answer.file.variants:
        found = {d.metric: d for d in answer.found if d.variant == v}
        costs = [_cost(found[m]) for m in COSTS if m in found and found[m].measured]
        stage = stages[v]
        busy = "" if stage is None else f"busiest stage {stage[0]}, {words.percent(stage[1])}"
        yield f"{v}: " + "; ".join([*costs, *([busy] if busy else [])])


def _cost(d: Difference) -> str:
    title = METRICS[d.metric].title.removeprefix("calls ")
    if d.difference.mean == 0 and d.difference.half == 0:
        return f"{title} the same"
    half = d.difference.half
    known = math.isfinite(half) and half > 0
    within = f" ±{METRICS[d.metric].gap(half, grain(d))}" if known else ""
    doubt = " (cannot tell)" if d.verdict == UNKNOWN else ""
    return f"{title} {signed(d.difference.mean, d)}{within}{doubt}"


def _cautions(answer: Comparison) -> Iterator[str]:
    if answer.look == 0:
        first = answer.settings.looks.sizes[0]
        yield f"ended ({answer.ended}) before the first look at {first} replications: no verdicts"
    elif answer.ended in (BUDGET, INTERRUPTED):
        yield (
            f"ended early ({answer.ended}): the verdicts are those of the look at "
            f"{answer.replications} replications; the same command goes on from here"
        )
    open_ = [f"{d.variant} {d.metric}" for d in _asked(answer) if not d.settled]
    if open_ and answer.ended == EXHAUSTED:
        yield f"not settled after {answer.replications} replications: {', '.join(open_)}"
    for d in _asked(answer):
        if 0 < d.measured < d.replications:
            yield (
                f"{d.variant} {d.metric}: measured in both variants in only {d.measured} of "
                f"{d.replications} replications"
            )
        clear = abs(d.difference.mean) > d.difference.half > 0
        if answer.look and clear and d.p_holm >= ALPHA:
            yield (
                f"{d.variant} {d.metric}: its interval leaves out 0, but not beyond what chance "
                f"does among so many variants (Holm p {d.p_holm:.2f})"
            )
    odd = [v for v, same in answer.same_callers.items() if not same]
    if odd:
        yield (
            f"other callers than the baseline's: {', '.join(odd)} (its workload differs; how "
            "much of the noise still cancels, corr. says)"
        )
    for text in words.groups(answer.warnings, list(answer.file.variants)):
        yield f"warning: {text}"


def _method(answer: Comparison) -> str:
    looks, precision = answer.settings.looks, answer.settings.precision
    width = "the metric's grain" if precision.width is None else f"{precision.width:g}"
    each = "" if len(looks.sizes) == 1 else f" (each at {100 * looks.level:.4g} %)"
    planned = ", ".join(map(str, looks.sizes))
    same = "; 'the same': to the bit" if any(d.verdict == SAME for d in answer.found) else ""
    return (
        f"Paired t over replications. Looks planned at {planned}{each}, so that all of them hold "
        f"together with {100 * LEVEL:g} %; verdicts by Holm over the variants. Settled: sign "
        f"known, or half-width <= {precision.relative:g} x |{answer.settings.baseline}| or "
        f"{width}. corr.: of the variant with the baseline over replications, near 0 if the same "
        f"callers do not help{same}."
    )
