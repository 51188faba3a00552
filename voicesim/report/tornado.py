"""The ``tornado`` command: its table, the verdict in words, the figure and the folder."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from voicesim.experiment.decide import UNKNOWN, Difference
from voicesim.experiment.inputs import share_of
from voicesim.experiment.method import LEVEL
from voicesim.experiment.metrics import METRICS
from voicesim.experiment.perturb import GIVEN, INTERVAL
from voicesim.experiment.table import STYLES, signed
from voicesim.experiment.tornado import Tornado, tornado
from voicesim.progress import Progress
from voicesim.report import words
from voicesim.report.html.study import write_study
from voicesim.report.studies import DONE, attempt, hand_over
from voicesim.report.tornado_figure import draw_tornado
from voicesim.scenario import load


def tornado_command(
    path: Path,
    sets: Sequence[str],
    seed: int | None,
    out: Path | None,
    as_json: bool,
    quiet: bool,
    assume: str | None,
    **asked: Any,
) -> int:
    """Tornado; the exit code: 0, 1 workers lost, 2 bad input, 130 interrupted."""
    folder = out or Path("runs") / f"{path.stem}-tornado"
    progress = Progress(quiet)

    def work() -> Tornado:
        with progress:
            share = None if assume is None else share_of(assume)
            file = load(path, sets=sets, seed=seed)
            found = tornado(file, assume=share, out=folder, progress=progress.show, **asked)
            draw_and_tell(found, folder)
            return found

    found = attempt(work, path, folder, progress)
    if isinstance(found, int):
        return found
    files = "report.html, tornado.json, tornado.png, scenario.yaml, tables in Parquet, runs/"
    hand_over(
        lambda console: print_tornado(found, console), found.as_dict, f"wrote {folder}/ ({files})",
        folder, as_json, quiet,
    )  # fmt: skip
    return DONE


def draw_and_tell(found: Tornado, folder: Path) -> None:
    """The figure and the page of a tornado, beside what it has written itself."""
    path, lines = folder / "tornado.png", verdict(found)
    draw_tornado(found, lines[0], path)
    pictures = {f"What moves {METRICS[found.metric].title}, the widest first": path.read_bytes()}
    write_study(folder, found.as_dict(), lines[:2], lambda c: print_tornado(found, c), pictures)


def print_tornado(found: Tornado, console: Console) -> None:
    """Print the verdict, a row per input, what stays, and the method."""
    base = found.file.variants[found.variant]
    console.print()
    console.print(Text(base.title or found.file.path.stem, "bold"))
    console.print(
        Text(
            f"variant {found.variant}, profile {found.profile}; {words.duration(base.horizon)}, "
            f"{len(found.base)} replications of the base and of each end under the same callers, "
            f"seed {base.seed}",
            "dim",
        )
    )
    console.print()
    for line in verdict(found):
        console.print(Text(line))
    console.print()
    if not all(bar.nothing for bar in found.bars):
        console.print(_table(found))
        console.print()
    for line in _cautions(found):
        console.print(Text(line, "yellow"))
    console.print(Text(_method(found), "dim"))


def verdict(found: Tornado) -> list[str]:
    """What decides the metric, what calibration does to it, and what does nothing."""
    metric = METRICS[found.metric]
    mean = words.with_interval(words.metric({"m": found.mean}, "m"), metric.show)
    top, title = found.leader, metric.title
    if found.mean["mean"] is None:
        lines = [f"{title} is not measured in the base"]
    elif top is None:
        lines = [f"{title} ({mean}): no input is shown to move it"]
    elif found.rivals:
        others = _few([bar.input.name for bar in found.rivals])
        lines = [
            f"{title} ({mean}) is moved by {top.input.name}, {reach(found, top.reach)}; as much "
            f"or more, perhaps, by {others} (cannot tell)"
        ]
    else:
        lines = [f"{title} ({mean}) is decided by {top.input.name}, {reach(found, top.reach)}"]
    own = found.calibration
    if own is None:
        lines.append(f"calibration uncertainty: unknown, profile {found.profile} has no interval")
    else:
        most = next(bar for bar in found.bars if bar.input.why == INTERVAL)
        what = f"{reach(found, own)}" + (f" (most: {most.input.name})" if most.span else "")
        lines.append(f"calibration uncertainty alone, one number at a time, moves it by {what}")
    assumed = found.reach_of(lambda why: why not in (GIVEN, INTERVAL))
    if assumed is not None:
        lines.append(f"shifts that were assumed (no interval) move it by {reach(found, assumed)}")
    idle = [bar.input.name for bar in found.bars if bar.nothing]
    if idle:
        lines.append(f"moves nothing at all: {', '.join(idle)}")
    return lines


def reach(found: Tornado, ends: tuple[float, float]) -> str:
    """-3.1 pt .. +0.4 pt"""
    if ends == (0.0, 0.0):
        return "nothing"
    metric, mean = METRICS[found.metric], abs(found.mean["mean"] or 0.0)
    of = ends[1] - ends[0] if metric.points else mean
    return " .. ".join(
        "0" if x == 0 else ("+" if x > 0 else "-") + metric.gap(abs(x), of) for x in ends
    )


def _few(names: Sequence[str], most: int = 4) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def _table(found: Tornado) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("input", style="bold")
    table.add_column("from")
    for name in ("end", "difference", "95 % interval"):
        table.add_column(name, justify="right")
    table.add_column("verdict")
    for bar in found.bars:
        if bar.nothing:
            continue
        for end, text, d in (("low", bar.input.low, bar.low), ("high", bar.input.high, bar.high)):
            table.add_row(
                bar.input.name if end == "low" else "",
                bar.input.why if end == "low" else "",
                text,
                signed(d.difference.mean, d) if d.measured else words.NOT_MEASURED,
                _interval(d),
                Text(d.verdict, STYLES.get(d.verdict, "")),
            )
    return table


def _interval(d: Difference) -> str:
    if not math.isfinite(d.difference.half):
        return words.NOT_MEASURED
    return f"{signed(d.difference.low, d)} .. {signed(d.difference.high, d)}"


def _cautions(found: Tornado) -> Iterator[str]:
    nonzero = [each for each in found.still if each.value != 0.0]
    if nonzero:
        names = ", ".join(f"{each.key} ({each.origin})" for each in nonzero)
        yield f"no interval, not moved: {names}"
    zero = [each.key for each in found.still if each.value == 0.0]
    if zero:
        yield f"zero without an interval, not moved: {', '.join(zero)}"
    ends = [
        (f"{bar.input.name} {end}", d)
        for bar in found.bars
        for end, d in (("low", bar.low), ("high", bar.high))
    ]
    for name, d in ends:
        if d.measured < d.replications:
            yield f"{name}: measured in {d.measured} of {d.replications} replications"
    doubtful = [
        name for name, d in ends
        if d.verdict == UNKNOWN and d.measured > 1 and abs(d.difference.mean) > d.difference.half
    ]  # fmt: skip
    if doubtful:
        yield (
            f"interval leaves out 0, but not beyond what chance does among {len(ends)} ends "
            f"(Holm): {_few(doubtful)}"
        )
    odd = [bar.input.name for bar in found.bars if not bar.same_callers]
    if odd:
        yield f"other callers than the base's: {', '.join(odd)} (it changes the workload)"
    yield from found.notes
    for text in found.warnings:
        yield f"warning: {text}"


def _method(found: Tornado) -> str:
    return (
        f"One input at a time, paired t over replications: intervals each on its own at "
        f"{100 * LEVEL:g} %, verdicts by Holm over all {2 * len(found.bars)} ends; 'decided by': "
        "its span is shown to be wider than each other input's (Holm). An interval of a profile "
        "runs from 5 % to 95 %. Effects of two inputs together are not in it."
    )
