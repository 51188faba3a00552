"""What the ``calibrate`` command does: read files, fit, write the profile (and a figure)."""

from pathlib import Path

import pandas as pd

from voicesim.calibrate.describe import one_level
from voicesim.calibrate.errors import CalibrationError
from voicesim.calibrate.fit import fit_profile
from voicesim.calibrate.models import known_model
from voicesim.calibrate.output import check_target, write_atomically
from voicesim.calibrate.readers import read_samples
from voicesim.engine.profile import Profile, Source, dump_profile


def calibrate(
    files: list[Path],
    name: str,
    token_audio_s: float | None = None,
    model: str | None = None,
) -> tuple[Profile, pd.DataFrame]:
    """Profile fitted to the files, and the samples it was fitted to.

    token_audio_s: seconds of audio per decode step.  model: a known model, ``name`` or
    ``name@gpu``, for memory and the KV prior.
    """
    known, kv_prior = known_model(model)
    parts = [read_samples(path) for path in files]
    samples = pd.concat(parts, ignore_index=True)
    profile = fit_profile(samples, name, token_audio_s, known, kv_prior)
    sources = [
        Source(file=Path(path).name, rows=len(part), where=_where(part))
        for path, part in zip(files, parts, strict=True)
    ]
    notes = _notes(profile)
    if known is not None:
        notes.append(f"memory ({model}): {known.about}")
    return profile.model_copy(update={"sources": sources, "notes": notes}), samples


def run_calibrate(
    files: list[Path],
    output: Path,
    name: str | None = None,
    token_audio_s: float | None = None,
    model: str | None = None,
    figure: Path | None = None,
) -> Profile:
    """The profile of ``calibrate_into``."""
    return calibrate_into(files, output, name, token_audio_s, model, figure)[0]


def calibrate_into(
    files: list[Path],
    output: Path,
    name: str | None = None,
    token_audio_s: float | None = None,
    model: str | None = None,
    figure: Path | None = None,
) -> tuple[Profile, pd.DataFrame]:
    """Calibrate and write ``output`` (all of it or nothing), and a PNG if ``figure`` is given.

    Raises CalibrationError before any work if either file could not be written.
    """
    output, files = Path(output), [Path(f) for f in files]
    check_target(output, files)
    if figure is not None:
        figure = Path(figure)
        check_target(figure, files)
        if figure.resolve() == output.resolve():
            raise CalibrationError(str(figure), None, "is also the profile; give it another name")
    profile, samples = calibrate(files, name or output.stem, token_audio_s, model)
    write_atomically(output, dump_profile(profile).encode())
    if figure is not None:
        from voicesim.calibrate.figure import draw  # matplotlib is slow to import

        write_atomically(figure, draw(profile, samples))
    return profile, samples


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
