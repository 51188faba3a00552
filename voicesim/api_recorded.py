"""``voicesim.replay`` and ``voicesim.validate``: the commands on what was recorded, as functions.

As in ``api``: what their commands call, and an ``Answer`` or ``Error``.
"""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd

from voicesim.api import Answer, Error, Texts, Where, how_of, many, run_answer, said
from voicesim.catalogue.profiles import profile_file
from voicesim.engine.profile import load_profile
from voicesim.experiment.metrics import ExperimentError
from voicesim.experiment.replay import recorded_calls
from voicesim.experiment.validate import Setting, as_data, compared
from voicesim.files import write_json
from voicesim.progress import Progress
from voicesim.report.replay import CALLS, playable
from voicesim.report.run import play
from voicesim.report.validate import print_validation, read_given, replayed
from voicesim.report.validate_figure import draw
from voicesim.runfolder import FILES, RunFolder
from voicesim.scenario.units import stated_duration
from voicesim.study import StudyResult


def replay(
    traces: Where | Sequence[Where],
    scenario: Where,
    *,
    speed: float | None = None,
    scale: float | None = None,
    jitter: float | str | None = None,
    after: float | str | None = None,
    until: float | str | None = None,
    seconds_per_token: float | None = None,
    run: str | None = None,
    sets: Texts = (),
    seed: int | None = None,
    replications: int | None = None,
    workers: int | None = None,
    chunks: bool = False,
    engine: str = "kernel",
    backend: str = "processes",
    address: str | None = None,
    out: Where | None = None,
    progress: bool = False,
) -> Answer[StudyResult]:
    """Play recorded calls on a scenario's cluster and policies, as ``voicesim replay``.

    traces: recorded files or run folders.  jitter, after (``--from``), until: seconds, or with a
    unit.  seconds_per_token: of speech.  run: of several in a trace.  The others, table and
    summary: as ``voicesim.run``; what was assumed is in ``found.notes``.  Raises Error, WorkerDied.
    """
    if not isinstance(scenario, str | Path):
        raise Error("scenario: give its path; a replay changes it as it is read")
    with said(scenario), TemporaryDirectory() as place:
        knobs = {
            "speed": speed, "scale": scale, "jitter": _seconds("jitter", jitter),
            "after": _seconds("from", after), "until": _seconds("until", until),
        }  # fmt: skip
        how = how_of(workers, chunks, engine, backend, address)
        calls = recorded_calls([Path(t) for t in many(traces)], seconds_per_token, run)
        folder = None if out is None else RunFolder(Path(out), files=(*FILES, CALLS))
        at = Path(place) if folder is None else folder.path
        try:
            study, notes = playable(
                calls, at, Path(scenario), knobs, many(sets), seed, replications
            )
        except BaseException:
            if folder is not None:
                folder.discard()
            raise
        found = play(study, folder, how, not progress, notes)
        if folder is not None:
            folder.publish()
    return run_answer(found)


def validate(
    profile: Where,
    trace: Where,
    sessions: Where | None = None,
    *,
    chunk: Sequence[int] | int | str | None = None,
    codec_cap: int | None = None,
    codec_window: float | str | None = None,
    left_context: int | None = None,
    prompt: int | None = None,
    concurrency: int | None = None,
    seeds: int = 5,
    buffer: int = 4,
    json: Where | None = None,
    progress: bool = False,
) -> Answer[list[Setting]]:
    """Replay a measured run on a profile, as ``voicesim validate``.

    trace: measured tokens, chunks or requests; sessions: send times of a token trace.  chunk to
    concurrency: what the file does not say (docs/howto/validate.md); codec_window in seconds, or
    with a unit.  seeds: replays of each run.  buffer: tokens that the player gathers.  json: a
    file for the numbers.  table: a row per setting, as in that file.  summary: a row per setting
    and metric: measured, predicted, their extremes, error (a share of the measured), spread of
    the measured runs.  Raises Error.
    """
    path = Path(trace)
    with said(None), Progress(not progress) as bar:
        for name, value in (("seeds", seeds), ("buffer", buffer)):
            if value < 1:
                raise ExperimentError(f"--{name}: found {value}; must be 1 or more")
        of = load_profile(profile_file(Path(profile)))
        window = f"{codec_window}s" if isinstance(codec_window, int | float) else codec_window
        asked = dict(
            chunk=None if chunk is None else ",".join(map(str, many(chunk))), codec_cap=codec_cap,
            codec_window=window, left_context=left_context, prompt=prompt, concurrency=concurrency,
        )  # fmt: skip
        times = None if sessions is None else Path(sessions)
        found, sheet = replayed(of, path, times, read_given(asked), seeds, buffer, bar.show)
        names = list(sheet.shown)
        data = as_data(of, found, path.name, seeds, buffer, names, sheet.notes)
        if json is not None:
            write_json(Path(json), data)
    rows = [{"setting": s.name, "metric": m, **compared(s, m)} for s in found for m in names]
    numbers = [name for name in rows[0] if name not in ("setting", "metric")]
    return Answer(
        found,
        pd.DataFrame(data["settings"]),
        pd.DataFrame(rows).astype(dict.fromkeys(numbers, float)),
        lambda: draw(found, sheet.shown),
        lambda console: print_validation(of, found, path.name, seeds, buffer, console, sheet),
    )


def _seconds(name: str, given: float | str | None) -> float | None:
    if not isinstance(given, str):
        return given
    try:
        return stated_duration(given)
    except ValueError as problem:
        raise ExperimentError(f"--{name}: {problem}") from None
