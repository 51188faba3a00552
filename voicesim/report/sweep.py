"""The ``sweep`` command: its table, figures and folder."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from voicesim.experiment.metrics import METRICS
from voicesim.experiment.sweep import Cell, Played, Sweep, sweep
from voicesim.progress import Progress
from voicesim.report import words
from voicesim.report.html.study import write_study
from voicesim.report.studies import DONE, attempt, hand_over
from voicesim.report.sweep_figure import draw_sweep
from voicesim.scenario import load

ROWS = 60  # settings shown in the table


def sweep_command(
    path: Path,
    sets: Sequence[str],
    seed: int | None,
    out: Path | None,
    as_json: bool,
    quiet: bool,
    **asked: Any,
) -> int:
    """Sweep; the exit code: 0, 1 workers lost, 2 bad input, 130 interrupted."""
    folder = out or Path("runs") / f"{path.stem}-sweep"
    progress = Progress(quiet)

    def work() -> Sweep:
        with progress:
            file = load(path, sets=sets, seed=seed)
            found = sweep(file, out=folder, progress=progress.show, **asked)
            draw_and_tell(found, folder)
            return found

    found = attempt(work, path, folder, progress)
    if isinstance(found, int):
        return found
    figures = "".join(f", {m}.png" for m in found.metrics if len(found.varied) in (1, 2))
    files = f"report.html, sweep.json, sweep.parquet, means.parquet, scenario.yaml{figures}, runs/"
    hand_over(
        lambda console: print_sweep(found, console), found.as_dict, f"wrote {folder}/ ({files})",
        folder, as_json, quiet,
    )  # fmt: skip
    return DONE


def draw_and_tell(found: Sweep, folder: Path) -> None:
    """The figures and the page of a sweep, beside what it has written itself."""
    pictures = {}
    for metric in found.metrics:
        path = folder / f"{metric}.png"
        draw_sweep(found, metric, path)
        if len(found.varied) in (1, 2):
            pictures[f"{METRICS[metric].title} by {' and '.join(found.varied)}"] = path.read_bytes()
    write_study(folder, found.as_dict(), verdict(found), lambda c: print_sweep(found, c), pictures)


def verdict(found: Sweep) -> list[str]:
    """The best and the worst setting in the first metric."""
    metric = found.metrics[0]
    of = METRICS[metric]
    known = [p for p in found.played if p.means[metric]["mean"] is not None]
    if not known:
        return [f"{of.title} was not measured in any of {len(found.played)} settings"]
    ranked = sorted(known, key=lambda p: (p.means[metric]["mean"] or 0.0) * (of.better or 1))
    worst, best = ranked[0], ranked[-1]
    if worst.means[metric]["mean"] == best.means[metric]["mean"]:
        return [f"{of.title} is {_shown(best, metric)} in all of {len(known)} settings"]
    names = ("best", "worst") if of.better else ("highest", "lowest")
    return [
        f"{of.title} is {name} with {each.setting.name}{_equals(each, known, metric)}: "
        f"{_shown(each, metric)}"
        for name, each in zip(names, (best, worst), strict=True)
    ]


def _shown(each: Played, metric: str) -> str:
    return words.with_interval(words.metric(each.means, metric), METRICS[metric].show)


def _equals(each: Played, known: Sequence[Played], metric: str) -> str:
    """How many other settings have the same mean."""
    n = sum(p.means[metric]["mean"] == each.means[metric]["mean"] for p in known) - 1
    return f" (and {n} more)" if n else ""


def print_sweep(found: Sweep, console: Console) -> None:
    """Print a row per setting, what was found, and what to know before trusting it."""
    base = found.file.variants[found.variant]
    console.print()
    console.print(Text(base.title or found.file.path.stem, "bold"))
    n = found.replications
    runs = "one replication" if n == 1 else f"{n} replications"
    console.print(
        Text(
            f"variant {found.variant}; {found.design.kind} of {len(found.played)} settings, {runs} "
            f"of each under the same callers, {words.duration(base.horizon)}, seed {base.seed}",
            "dim",
        )
    )
    console.print()
    console.print(_table(found))
    console.print()
    for line in _cautions(found):
        console.print(Text(line, "yellow"))


def _table(found: Sweep) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for key in found.design.keys:
        table.add_column(found.label(key), justify="right", style="bold")
    for metric in found.metrics:
        table.add_column(METRICS[metric].title, justify="right")
    for each in found.played[:ROWS]:
        shown = (
            words.with_interval(words.metric(each.means, metric), METRICS[metric].show)
            for metric in found.metrics
        )
        table.add_row(*(cell_text(each.cells[k]) for k in found.design.keys), *shown)
    return table


def cell_text(cell: Cell) -> str:
    """A value of a key: 16, 0.25, fifo."""
    return f"{cell:.6g}" if isinstance(cell, float) else str(cell)


def _cautions(found: Sweep) -> Iterator[str]:
    if len(found.played) > ROWS:
        yield f"{len(found.played) - ROWS} more settings are in means.parquet"
    if len(found.varied) not in (1, 2):
        yield f"no figure: {len(found.varied)} keys vary, and it shows one or two"
    if found.replications == 1:
        yield "one replication has no interval: give --replications 5 or more"
    if found.other_callers:
        yield (
            f"{found.other_callers} of {len(found.played)} settings meet other callers than the "
            "first (their workload differs)"
        )
    for metric in found.metrics:
        dark = sum(each.means[metric]["mean"] is None for each in found.played)
        if dark:
            yield f"{metric}: not measured in {dark} of {len(found.played)} settings"
    yield from found.notes
    for text in found.warnings:
        yield f"warning: {text}"
