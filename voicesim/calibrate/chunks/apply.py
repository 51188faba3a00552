"""What was learned of chunks goes into a fit: its steps before, the rest into the profile after."""

import numpy as np
import pandas as pd

from voicesim.calibrate.chunks.learn import Learned, learn
from voicesim.calibrate.chunks.robust import less
from voicesim.calibrate.errors import CalibrationError
from voicesim.calibrate.readers.measured import Measured
from voicesim.engine.profile import Profile


def learn_all(found: list[Measured], token_audio_s: float | None) -> Learned | None:
    """Learn from the chunks of all files together; None if none holds chunks.

    A level of concurrency is often a file of its own, so only together do they show how steps
    grow.  Raises CalibrationError if nothing gives the frame duration.
    """
    held = [m for m in found if m.chunks is not None]
    if not held:
        return None
    several = len(held) > 1
    tables = [m.chunks.assign(run=_run_names(m, several)) for m in held if m.chunks is not None]
    table = pd.concat(tables, ignore_index=True)
    if token_audio_s is None:
        token_audio_s = _frame_duration(table, held[0].file)
    return learn(table, token_audio_s, ", ".join(m.file for m in held))


def _run_names(m: Measured, several: bool) -> "pd.Series[str]":
    assert m.chunks is not None
    run = m.chunks["run"].fillna("run").astype(str)
    return m.file + ":" + run if several else run


def _frame_duration(table: pd.DataFrame, file: str) -> float:
    """Audio of a frame where the file counts frames."""
    each = (table["audio_s"] / table["frames"]).dropna() if "frames" in table else pd.Series()
    if each.empty:
        message = (
            "audio_s is in seconds, decoding in frames: give the audio of a decode step "
            "(--token-audio 80ms) or a known model (--prior model=NAME)"
        )
        raise CalibrationError(file, None, message)
    return float(np.median(each))


def with_learned(profile: Profile, found: Learned, samples: pd.DataFrame) -> Profile:
    """The profile with the codec and the prefill of the chunks, where no step rows give them.

    A step's compute is known by its tokens only, so a prompt token costs what a stream costs up to
    the largest batch, and what the chunks show above it.
    """
    update: dict[str, object] = {}
    assert profile.fit is not None
    cannot = list(profile.fit.unidentified)
    if profile.codec is None and found.codec is not None:
        update["codec"] = found.codec
        cannot = [text for text in cannot if not text.startswith("codec: no rows")]
    prompts = (samples["stage"] == "prefill").any()
    if found.prefill is not None and not prompts and profile.range is not None:
        steep: dict[str, object] = {
            "prefill_per_token_s": less(found.prefill),
            "prefill_from_tokens": int(profile.range.batch[1]),
        }
        update["decode"] = profile.decode.model_copy(update=steep)
    cannot += [f"{found.file}: {text}" for text in found.cannot]
    update["fit"] = profile.fit.model_copy(update={"unidentified": cannot})
    return profile.model_copy(update=update)
