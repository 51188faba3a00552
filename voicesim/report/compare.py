"""The ``compare`` command: progress, table and study folder."""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from voicesim.experiment.compare import INTERRUPTED, Comparison, compare
from voicesim.experiment.table import print_comparison, verdict
from voicesim.files import write_whole
from voicesim.progress import Progress
from voicesim.report.studies import DONE, OF_FILE, STOPPED, attempt, hand_over
from voicesim.scenario import load


def compare_command(
    path: Path,
    sets: Sequence[str],
    seed: int | None,
    out: Path | None,
    as_json: bool,
    quiet: bool,
    metrics: Sequence[str],
    **asked: Any,
) -> int:
    """Compare the variants of a file; the exit code: 0, 1 workers lost, 2 bad input, 130
    interrupted."""
    folder = out or Path("runs") / f"{path.stem}-compare"
    progress = Progress(quiet)

    def work() -> Comparison:
        fresh = not folder.exists()
        try:
            with progress:
                found = compare(
                    load(path, sets=sets, seed=seed), metrics=metrics or ("clean_share",),
                    out=folder, progress=progress.show, **asked,
                )  # fmt: skip
        except OF_FILE:
            if fresh:
                shutil.rmtree(folder, ignore_errors=True)
            raise
        tell_comparison(found, folder)
        return found

    answer = attempt(work, path, folder, progress)
    if isinstance(answer, int):
        return answer
    hand_over(
        lambda console: print_comparison(answer, console), answer.as_dict,
        f"wrote {folder}/ (report.html, study.json, compare.png, tables in Parquet, runs/)",
        folder, as_json, quiet,
    )  # fmt: skip
    if answer.ended == INTERRUPTED:
        done = len(answer.results)
        print(f"interrupted: {done} finished runs are kept in {folder}/", file=sys.stderr)
        return STOPPED
    return DONE


def tell_comparison(found: Comparison, folder: Path) -> None:
    """The figure and the page of a comparison, beside what it has written itself."""
    from voicesim.report.compare_figure import png  # matplotlib is slow to import
    from voicesim.report.html.study import write_study

    picture = png(found)
    write_whole(folder / "compare.png", picture)
    shown = {"The variants with their 95 % intervals": picture}
    data, lines = found.as_dict(), verdict(found)
    write_study(folder, data, lines, lambda c: print_comparison(found, c), shown)
