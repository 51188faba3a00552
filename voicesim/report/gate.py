"""The ``gate`` command: play what is missing, judge, print, write."""

from pathlib import Path
from typing import Any

from voicesim.experiment.gate import Gate, gate
from voicesim.experiment.metrics import ExperimentError
from voicesim.files import unwritable, write_whole
from voicesim.progress import Progress
from voicesim.report.html.study import write_study
from voicesim.report.junit import junit
from voicesim.report.loaded import gate_figure
from voicesim.report.png import png
from voicesim.report.sides import decision, print_gate
from voicesim.report.studies import DONE, NO, WRONG, attempt, hand_over


def gate_command(
    out: Path | None, junit_file: Path | None, as_json: bool, quiet: bool, **asked: Any
) -> int:
    """The exit code: 0 pass, 1 worse, 2 cannot be judged (bad input, too few replications,
    workers lost), 130 interrupted."""
    what = asked["scenario"] or asked["candidate"]
    folder = out or Path("runs") / f"{'gate' if what is None else what.stem + '-gate'}"
    progress = Progress(quiet)

    def work() -> Gate:
        if junit_file is not None and junit_file.is_dir():
            raise ExperimentError(f"--junit {junit_file}: is a folder; give the name of a file")
        if junit_file is not None and (why := unwritable(junit_file.parent)):
            raise ExperimentError(f"--junit {junit_file}: {junit_file.parent} {why}")
        with progress:
            found = gate(out=folder, progress=progress.show, **asked)
        tell_gate(found, folder)
        if junit_file is not None:
            write_whole(junit_file, junit(found))
        return found

    answer = attempt(work, asked["scenario"], folder, progress, lost=WRONG)
    if isinstance(answer, int):
        return answer
    wrote = f"wrote {folder}/ (report.html, gate.json, tables in Parquet, runs/)"
    wrote += f" and {junit_file}" if junit_file else ""
    hand_over(
        lambda console: print_gate(answer, console), answer.as_dict, wrote, folder, as_json, quiet
    )
    return DONE if answer.passed else NO


def tell_gate(found: Gate, folder: Path) -> None:
    """The page of a gate, beside what it has written itself."""
    lost = len(found.failed)
    judged = f"{len(found.judged)} metrics were judged, {lost or 'none'} of them failed"
    picture = png(gate_figure(found.table, found.candidate.variant), 120)
    lines = [decision(found), judged]
    shown = {"Differences from the baseline": picture}
    write_study(folder, found.as_dict(), lines, lambda c: print_gate(found, c), shown)
