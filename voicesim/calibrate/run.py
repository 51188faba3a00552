"""What the ``calibrate`` command does: read files, fit, write the profile (and a figure)."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd

from voicesim.calibrate import chunks
from voicesim.calibrate.chunks.apply import learn_all, with_learned
from voicesim.calibrate.closed_loop import not_closed
from voicesim.calibrate.describe import one_level
from voicesim.calibrate.dialogue import measures
from voicesim.calibrate.errors import CalibrationError
from voicesim.calibrate.fit import fit_profile
from voicesim.calibrate.output import check_target, write_atomically
from voicesim.calibrate.prior import Prior, read_prior, roofline
from voicesim.calibrate.readers import Measured, read
from voicesim.engine.profile import Profile, Source, dump_profile


def calibrate(
    files: list[Path],
    name: str,
    token_audio_s: float | None = None,
    prior: Prior | None = None,
    say: Callable[[str], None] | None = None,
) -> tuple[Profile, pd.DataFrame]:
    """``fit`` of the files, each read by ``read_all``."""
    return fit(read_all(files, say), name, token_audio_s, prior, say)


def read_all(files: list[Path], say: Callable[[str], None] | None = None) -> list[Measured]:
    """Read files.  say: told of each, when it is read, what it is."""
    measured = []
    for path in files:
        measured.append(read(path))
        if say is not None:
            say(statement(measured[-1]))
    return measured


def fit(
    measured: list[Measured],
    name: str,
    token_audio_s: float | None = None,
    prior: Prior | None = None,
    say: Callable[[str], None] | None = None,
) -> tuple[Profile, pd.DataFrame]:
    """Profile fitted to what was read, and the samples it was fitted to.

    token_audio_s: seconds of audio per decode step.  prior: a model, and its card, for memory and
    for what the samples cannot tell.  say: told what chunks tell.  Raises CalibrationError.
    """
    token_audio_s = token_audio_s or (prior.model.token_audio_s if prior else None)
    learned = learn_all(measured, token_audio_s)
    if learned is not None:
        token_audio_s = learned.token_audio_s
        if say is not None:
            say("\n" + chunks.statement(learned) + "\n" + chunks.snippet(learned))
    samples = step_samples(measured, None if learned is None else learned.steps)
    profile = fit_profile(samples, name, token_audio_s, prior)
    if learned is not None:
        profile = with_learned(profile, learned, samples)
    sources = [
        Source(
            file=m.file,
            rows=m.rows if m.samples is None else len(m.samples),
            where=None if m.samples is None else _where(m.samples),
        )
        for m in measured
        if m.samples is not None or m.chunks is not None
    ]
    other = [m for m in measured if m.samples is None and m.chunks is None]
    notes = _notes(profile)
    notes += [f"{m.file} ({m.format}) holds no steps: not fitted" for m in other]
    if prior is not None:
        notes += prior.notes
    return profile.model_copy(update={"sources": sources, "notes": notes}), samples


def run_calibrate(
    files: list[Path],
    output: Path,
    name: str | None = None,
    token_audio_s: float | None = None,
    prior: str | None = None,
    figure: Path | None = None,
    say: Callable[[str], None] | None = None,
) -> Profile:
    """Calibrate and write ``output`` (all of it or nothing), and a PNG if ``figure`` is given.

    The profile is of the prior alone where no file is given.  Raises ValueError, and
    CalibrationError before any work if either file could not be written.
    """
    if not files:
        return write_roofline(output, name, token_audio_s, prior, figure)
    output, files = Path(output), [Path(f) for f in files]
    check_targets(files, output, figure)
    known = None if prior is None else read_prior(prior)
    profile, samples = calibrate(files, name or output.stem, token_audio_s, known, say)
    write_atomically(output, dump_profile(profile).encode())
    if figure is not None:
        from voicesim.calibrate.figure import draw  # matplotlib is slow to import

        write_atomically(Path(figure), draw(profile, samples))
    return profile


def check_targets(files: list[Path], output: Path | None, figure: Path | None) -> None:
    """Refuse, before any work, a profile or a picture that could not be written."""
    for path in (output, figure):
        if path is not None:
            check_target(path, files)
    if figure is not None and output is not None and figure.resolve() == output.resolve():
        raise CalibrationError(str(figure), None, "is also the profile; give it another name")


def write_roofline(
    output: Path,
    name: str | None,
    token_audio_s: float | None,
    prior: str | None,
    figure: Path | None,
) -> Profile:
    """Nothing measured: a profile of data sheets, written."""
    if prior is None:
        raise ValueError("FILE: nothing to read; give measured files, or --prior gpu=,model=")
    if figure is not None:
        raise ValueError("--figure: nothing was measured, so there is nothing to draw")
    check_target(Path(output), [])
    profile = roofline(read_prior(prior), name or Path(output).stem, token_audio_s)
    write_atomically(Path(output), dump_profile(profile).encode())
    return profile


def step_samples(measured: list[Measured], of_chunks: pd.DataFrame | None) -> pd.DataFrame:
    """All step samples of the files, those read off chunk timelines included.

    Raises CalibrationError if there is nothing to fit.
    """
    parts = [m.samples for m in measured if m.samples is not None]
    parts += [] if of_chunks is None else [of_chunks]
    if parts:
        return pd.concat(parts, ignore_index=True)
    message = "holds no step times, nor does any other file given: nothing to fit a step cost to"
    if len(measured) == 1:
        message = "holds no step times: nothing to fit a step cost to"
    raise CalibrationError(
        measured[0].file, None, f"{message}; a step CSV, an arrival trace or vllm bench serve "
        "--save-detailed would tell it (docs/reference/files.md)",
    )  # fmt: skip


def statement(measured: Measured) -> str:
    """What was recognised in a file, and what it can and cannot tell."""
    lines = [f"{measured.file}: {measured.format}, {measured.rows:,} {measured.rows_are}"]
    lines += [f"  tells: {text}" for text in measured.tells]
    if measured.dialogue is not None:
        lines += [f"  measured: {text}" for text in measures(measured.dialogue)]
    limits = measured.cannot
    if measured.curve is not None:
        limits = [*limits, *not_closed(measured.curve)]
    lines += [f"  limit: {text}" for text in limits]
    return "\n".join(lines)


def _where(samples: pd.DataFrame) -> str | None:
    pages = samples["where"].dropna().unique()
    return ", ".join(str(page) for page in pages) or None


def _notes(profile: Profile) -> list[str]:
    r = profile.range
    notes = []
    alone = one_level(profile)
    if alone is not None:
        notes.append(alone)
    elif r is not None:
        how = "the table's last slope" if profile.form == "table" else "the fitted line"
        notes.append(f"above batch {r.batch[1]:g} decode is {how}, not measured")
    return notes
