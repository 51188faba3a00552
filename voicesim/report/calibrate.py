"""The ``calibrate`` command: steps and chunks to one fit, aggregates and ladders to another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from voicesim.calibrate.describe import describe, quantities
from voicesim.calibrate.dialogue import conclusion, only_dialogues, snippet
from voicesim.calibrate.output import write_atomically
from voicesim.calibrate.prior import Prior, read_prior
from voicesim.calibrate.readers import Measured
from voicesim.calibrate.run import check_targets, fit, read_all, statement, write_roofline
from voicesim.engine.profile import Profile, Source, dump_profile
from voicesim.experiment import aggregates
from voicesim.experiment.accuracy import calibrate_ladder
from voicesim.experiment.metrics import ExperimentError
from voicesim.experiment.published import Ladder, is_ladder, read_ladder
from voicesim.report.studies import DONE, attempt, hand_over

if TYPE_CHECKING:  # matplotlib is slow to import: below, where something is drawn
    from matplotlib.figure import Figure

DPI = 120
NEEDS = "is for files that hold aggregates only, and nothing else"

Say = Callable[[str], None] | None


@dataclass(frozen=True)
class Fitted:
    """table: the samples, or the figures, that were fitted.  draw: the picture."""

    profile: Profile
    table: pd.DataFrame
    draw: Callable[[], Figure]


@dataclass(frozen=True)
class Asked:
    """The command's options; about: reply, chunk and loads of ``aggregates.Asked``."""

    files: Sequence[Path]
    output: Path | None
    name: str | None
    token_audio_s: float | None
    prior: str | None
    figure: Path | None
    about: Mapping[str, str | None]
    report: Path | None = None


def calibrate_command(asked: Asked, as_json: bool, quiet: bool) -> int:
    """Read, fit, write, print; the exit code: 0, 2 bad input, 130 interrupted.

    Files that hold conversations only are stated, and no profile is written.
    """

    def work() -> Profile | list[Measured]:
        try:
            talks = _talks(asked)
            return _written(asked, None if as_json or quiet else print) if talks is None else talks
        except ValueError as problem:  # options that do not go together
            raise ExperimentError(str(problem)) from None

    found = attempt(work)
    if isinstance(found, int):
        return found
    if isinstance(found, list):
        text = "\n".join([*map(statement, found), "", conclusion(found)])
        data: dict[str, Any] = {
            "files": [{"file": m.file, "format": m.format, "rows": m.rows} for m in found],
            "scenario": snippet(found),
        }
        hand_over(lambda console: print(text), lambda: data, "", None, as_json, quiet)
        return DONE
    wrote = "wrote " + ", ".join(str(p) for p in (asked.output, asked.figure, asked.report) if p)
    hand_over(
        lambda console: print(describe(found)), lambda: as_data(found, asked.output), wrote,
        asked.output, as_json, quiet,
    )  # fmt: skip
    return DONE


def as_data(profile: Profile, file: Path | None) -> dict[str, Any]:
    """The parameters with their intervals (5 % to 95 %) and origins, as the profile has them."""
    return {
        "file": None if file is None else str(file),
        "name": profile.name,
        "form": profile.form,
        "parameters": {
            n: {"value": q.value, "low": q.low, "high": q.high, "origin": q.origin}
            for n, q in quantities(profile)
        },
        "notes": list(profile.notes),
    }


def _talks(asked: Asked) -> list[Measured] | None:
    """The files if all hold conversations only; raises ValueError for options of a profile."""
    if len(asked.files) == 1 and is_ladder(asked.files[0]):
        return None
    talks = only_dialogues(asked.files)
    options = (asked.name, asked.token_audio_s, asked.prior, asked.figure, asked.report)
    if talks is not None and (options != (None,) * 5 or any(asked.about.values())):
        raise ValueError("conversations hold no step times: give no option of a profile")
    return talks


def _written(asked: Asked, say: Say) -> Profile:
    """The profile, written; of the prior alone where no file is given."""
    if asked.output is None:
        raise ValueError("--output: is missing; name the profile to write: -o profile.yaml")
    fit_of = (asked.name, asked.token_audio_s, asked.prior, asked.figure)
    if not asked.files:
        _refuse(asked.about, NEEDS)
        check_targets([], asked.output, asked.report)
        profile = write_roofline(asked.output, *fit_of)
        if asked.report is not None:
            _page(asked.report, profile, [], None)
        return profile
    return calibrated(asked.files, asked.output, *fit_of, asked.about, say, asked.report).profile


def _page(path: Path, profile: Profile, files: Sequence[Path], picture: bytes | None) -> None:
    from voicesim.report.calibrate_page import write_page

    write_page(path, profile, files, picture)


def calibrated(
    files: Sequence[Path],
    output: Path | None = None,
    name: str | None = None,
    token_audio_s: float | None = None,
    prior: str | None = None,
    figure: Path | None = None,
    about: Mapping[str, str | None] | None = None,
    say: Say = None,
    report: Path | None = None,
) -> Fitted:
    """Read, fit, and write ``output``, the PNG ``figure`` and the page ``report`` where they are
    given."""
    files, about = list(files), about or {}
    check_targets(files, output, figure)
    check_targets(files, output, report)
    if len(files) == 1 and is_ladder(files[0]):
        if (name, token_audio_s, prior) != (None, None, None) or any(about.values()):
            raise ValueError("a ladder states its own settings: give --output and --figure only")
        found = _of_ladder(read_ladder(files[0]))
    else:
        name = name or (files[0].name.split(".")[0] if output is None else output.stem)
        known = None if prior is None else read_prior(prior)
        found = _of_files(files, name, token_audio_s, known, about, say)
    if figure is not None or report is not None:
        from voicesim.report.png import png

        picture = png(found.draw(), DPI)
        if figure is not None:
            write_atomically(figure, picture)
        if report is not None:
            _page(report, found.profile, files, picture)
    if output is not None:
        write_atomically(output, dump_profile(found.profile).encode())
    return found


def _of_files(
    files: list[Path],
    name: str,
    token_audio_s: float | None,
    prior: Prior | None,
    about: Mapping[str, str | None],
    say: Say,
) -> Fitted:
    measured = read_all(files, say)
    if not aggregates.tell(measured):
        _refuse(about, NEEDS)
        profile, samples = fit(measured, name, token_audio_s, prior, say)
        return Fitted(profile, samples, lambda: _draw_steps(profile, samples))
    asked = aggregates.Asked(token_audio_s, prior, **about)
    ladder, notes = aggregates.ladder_of(measured, name, asked)
    if say is not None:
        say("\n" + "\n".join([f"WARNING: {notes[0]}", *(f"  {note}" for note in notes[1:])]))
        say(f"  fitting {len(ladder.figures)} figures by simulated runs ...\n")
    notes += [] if prior is None else prior.notes
    return _of_ladder(ladder, notes, [_source(m) for m in measured if m.curve is not None])


def _of_ladder(ladder: Ladder, notes: Sequence[str] = (), sources: Sequence[Source] = ()) -> Fitted:
    profile = calibrate_ladder(ladder)
    if sources:
        update = {"notes": [*notes, *profile.notes], "sources": list(sources)}
        profile = profile.model_copy(update=update)
    points = profile.fit.points if profile.fit else []
    table = pd.DataFrame([p.model_dump() for p in points])
    return Fitted(profile, table, lambda: _draw_ladder(ladder, profile))


def _draw_steps(profile: Profile, samples: pd.DataFrame) -> Figure:
    from voicesim.calibrate.figure import fit_figure

    return fit_figure(profile, samples)


def _draw_ladder(ladder: Ladder, profile: Profile) -> Figure:
    from voicesim.report.curve_figure import curve_figure

    return curve_figure(ladder, profile)


def _source(m: Measured) -> Source:
    assert m.curve is not None
    return Source(file=m.file, rows=len(m.curve))


def _refuse(about: Mapping[str, str | None], why: str) -> None:
    for option, value in about.items():
        if value is not None:
            raise ValueError(f"--{option}: {why}")
