"""The ``sweep`` command: its table, figures and folder."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from voicesim.experiment.metrics import METRICS
from voicesim.experiment.sweep import Cell, Sweep, sweep
from voicesim.progress import Progress
from voicesim.report import words
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
            for metric in found.metrics:
                draw_sweep(found, metric, folder / f"{metric}.png")
            return found

    found = attempt(work, path, folder, progress)
    if isinstance(found, int):
        return found
    figures = "".join(f", {m}.png" for m in found.metrics if len(found.varied) in (1, 2))
    files = f"sweep.json, sweep.parquet, means.parquet, scenario.yaml{figures}, runs/"
    hand_over(
        lambda console: print_sweep(found, console), found.as_dict, f"wrote {folder}/ ({files})",
        folder, as_json, quiet,
    )  # fmt: skip
    return DONE


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
