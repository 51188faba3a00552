"""The ``measure`` command: live line, table and folder of one measurement."""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from voicesim.live.errors import LiveError
from voicesim.metrics.summary import nearest_rank
from voicesim.progress import Progress
from voicesim.report import words
from voicesim.report.studies import DONE, NO, STOPPED, WRONG, hand_over
from voicesim.runfolder import FolderError

UNTOLD = ("interrupted", "failed")
"""Ends of a run that have a line of their own."""


def measure_command(
    url: str, options: Mapping[str, Any], out: Path | None, as_json: bool, quiet: bool
) -> int:
    """Measure, write, print; returns the exit code: 0, 2 for bad input (nothing is sent), 1 if the
    endpoint failed, 130 when interrupted; what was finished is kept."""
    try:
        from voicesim.live.manifest import manifest, now
        from voicesim.live.measure import Measurement, Played, measure
        from voicesim.live.plan import read_plan
        from voicesim.live.record import Recorder
        from voicesim.live.target import SPEECH
    except ModuleNotFoundError as error:
        print(f"measure needs {error.name}: pip install 'voicesim[live]'", file=sys.stderr)
        return WRONG
    try:
        plan = read_plan(url, options)
        target = out or Path("runs") / f"measure-{'ladder' if plan.levels else 'poisson'}"
        recorder = Recorder(target, plan.tokens, plan.token_budget)
    except (LiveError, FolderError) as problem:
        print(problem, file=sys.stderr)
        return WRONG
    began, progress = now(), Progress(quiet)

    def show(played: Played) -> None:
        over = played.ended and played.outcome.stopped not in UNTOLD
        progress.now(now_playing(played), over)

    try:
        with progress:
            found: Measurement = asyncio.run(measure(plan, recorder.add, show))
        kept = recorder.streams > 0
        told = manifest(plan, found, began) if kept else {}
        if kept:
            from voicesim.report.measure_page import write_page

            write_page(recorder.folder.path, found.runs, plan.tokens, told)
            recorder.publish(told)
    except OSError as problem:
        recorder.discard()
        print(f"--out {target}: {problem.strerror or problem}", file=sys.stderr)
        return WRONG
    except BaseException as problem:
        recorder.discard()
        if isinstance(problem, KeyboardInterrupt):
            print("interrupted: nothing was kept", file=sys.stderr)
            return STOPPED
        raise
    if not kept:
        recorder.discard()
    else:
        raw = plan.target.protocol == SPEECH and plan.gather
        names = f"report.html, manifest.json, {recorder.rows_name}, sessions.csv"
        wrote = f"wrote {target}/ ({names}): {recorder.streams} requests"
        if raw:
            wrote = (
                "chunks of a raw body are network reads, joined within "
                f"{1000 * plan.gather:g} ms\n{wrote}"
            )
        hand_over(
            lambda console: print_measurement(found.runs, plan.tokens, console), lambda: told,
            wrote, target, as_json, quiet,
        )  # fmt: skip
    rest = f"{recorder.streams} finished requests are kept" if kept else "nothing was kept"
    if found.interrupted:
        print(f"interrupted: {rest}", file=sys.stderr)
        return STOPPED
    if found.failed is not None:
        print(f"{plan.target.shown}: {found.failed}; {rest}", file=sys.stderr)
        return NO
    return DONE


def now_playing(played: Any) -> str:
    """One line: the run, its pace so far and how late the client itself is."""
    parts = [played.name, f"{played.streams} requests, {played.clock.live} in flight"]
    pace = nearest_rank(_array(played.paces), 0.5)
    gap = nearest_rank(_array(played.gaps), 0.5)
    if pace is not None:
        parts.append(f"pace {words.times(pace)}")
    elif gap is not None:
        parts.append(f"gap {1000 * gap:.1f} ms")
    width = played.steady.width if played.steady else None
    if width is not None and width < 10:
        parts.append(f"± {width:.1%}")
    if played.outcome.failed:
        parts.append(f"{len(played.outcome.failed)} failed")
    return ", ".join([*parts, f"client {1000 * played.lag_p99:.1f} ms late"])


def _array(values: Sequence[float]) -> Any:
    import numpy as np

    return np.asarray(values, float)


def print_measurement(runs: Sequence[Any], tokens: bool, console: Console) -> None:
    """A row per run, and what to distrust."""
    first, unit = ("TTFT", "tokens") if tokens else ("TTFA", "audio s")
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    heads = (
        "run", "requests", "failed", f"{first} ms\np50, p99", "gap ms\np50, p99",
        "pace p50,\nslowest 1 %", f"{unit}\nper s", "client\nlate, ms", "ended by",
    )  # fmt: skip
    for i, head in enumerate(heads):
        side = "left" if i in (0, 8) else "right"
        table.add_column(head, justify=side, vertical="bottom", no_wrap=True)  # type: ignore[arg-type]
    for played in runs:
        table.add_row(
            played.name, f"{played.streams:,}", str(len(played.outcome.failed)),
            _pair(played.firsts, 0.5, 0.99, 1000), _pair(played.gaps, 0.5, 0.99, 1000, 1),
            _pair(played.paces, 0.5, 0.01, 1, 2),
            f"{played.units / played.seconds:,.1f}" if played.seconds else words.NOT_MEASURED,
            f"{1000 * played.lag_p99:.1f}",
            _ended(played),
        )  # fmt: skip
    console.print(table)
    for line in warnings(runs):
        console.print(Text(f"(!) {line}", style="bold red"))


def _pair(values: Sequence[float], low: float, high: float, scale: float, digits: int = 0) -> str:
    found = [nearest_rank(_array(values), q) for q in (low, high)]
    shown = [words.NOT_MEASURED if v is None else f"{scale * v:,.{digits}f}" for v in found]
    return "  ".join(shown)


def _ended(played: Any) -> str:
    width = played.steady.width if played.steady else None
    known = width is not None and width < 10
    return played.outcome.stopped + (f" (± {width:.1%})" if known else "")


def warnings(runs: Sequence[Any]) -> list[str]:
    """Failures, a late client, tokens that came in bunches or were not counted right."""
    from voicesim.live.lag import BUNCHED

    found = []
    for played in runs:
        failed = played.outcome.failed
        if failed:
            said = failed[-1].error
            found.append(f"{played.name}: {len(failed)} requests failed and are left out: {said}")
        if played.warning:
            found.append(f"{played.name}: {played.warning}")
        if played.bunched is not None and played.bunched > BUNCHED:
            found.append(
                f"{played.name}: {played.bunched:.0%} of the tokens came together with the one "
                "before: they waited outside the engine, so gaps are not its step times"
            )
        if played.miscounted:
            found.append(
                f"{played.name}: {played.miscounted} replies have another number of tokens than "
                "their usage says; with vLLM add --extra '{\"return_token_ids\": true}'"
            )
    return found
