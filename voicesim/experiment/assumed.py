"""The replica on which measured replies are replayed: profile, chunk schedule, codec batches.

What the profile does not hold is learned from the file where it shows, else given or assumed; each
such choice is put into words.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from voicesim.calibrate.chunks.batches import find_batches
from voicesim.calibrate.chunks.schedule import find_cadence, frames_of, last_of_stream
from voicesim.calibrate.errors import CalibrationError
from voicesim.calibrate.readers.measured import Measured
from voicesim.engine.profile import Profile, ProfileError
from voicesim.experiment.metrics import ExperimentError
from voicesim.experiment.rung import Load

OPTIONS = {
    "chunks": "--chunk", "codec_cap": "--codec-cap", "gather": "--codec-window",
    "left_context": "--left-context", "prompt": "--prompt", "callers": "--concurrency",
}  # fmt: skip
SPOKEN = ("chunks", "codec_cap", "gather", "left_context")


@dataclass(frozen=True)
class Given:
    """What the user says of the server and the load; None: learn or assume it.

    chunks: tokens of the first chunk, the ramp and the steady one.  codec_cap: rows.  gather: s.
    left_context: frames.  prompt: tokens.  callers: requests in flight.
    """

    chunks: tuple[int, ...] | None = None
    codec_cap: int | None = None
    gather: float | None = None
    left_context: int | None = None
    prompt: int | None = None
    callers: int | None = None


@dataclass(frozen=True)
class Replica:
    """load: the card and its schedule.  gather: window of the codec's batches (s).  spoken: do
    replies have audio?  notes: every choice that was made."""

    load: Load
    gather: float
    spoken: bool
    notes: list[str]


def token_audio_of(profile: Profile, file: str) -> float:
    """Seconds of audio of a token; refuses a profile that does not say."""
    if profile.token_audio_s is None:
        found = f"is missing; {file} has seconds of audio, decoding goes in tokens"
        allowed = "give the audio of a decode step (calibrate --token-audio 80ms)"
        raise ProfileError(profile.name, "token_audio_s", found, allowed)
    return profile.token_audio_s


def replica_of(measured: Measured, profile: Profile, spoken: bool, given: Given) -> Replica:
    """The replica; raises CalibrationError, ExperimentError (an option that has no use)."""
    if not spoken:
        refuse_unused(given, "replies are tokens", *SPOKEN)
        load = Load(profile, chunks=(1,))
        notes = ["replies are text tokens: sent one by one, no codec", _network(profile)]
        return Replica(load, 0.0, False, notes)
    table = None
    if measured.chunks is not None:
        table = _framed(measured.chunks, profile, measured.file, given.chunks is not None)
    chunks, note = _schedule(table, given.chunks)
    notes = [note]
    cap, gather = Load.codec_cap, 0.0
    if profile.codec is None:
        refuse_unused(given, "the profile has no codec", *SPOKEN[1:])
        notes.append("codec: the profile has none; what it costs is inside the steps or left out")
    else:
        cap, gather, note = _batches(table, given)
        notes.append(note)
    load = Load(profile, chunks=chunks, codec_cap=cap, left_context=given.left_context or 0)
    notes.append(
        f"lengths: audio / {load.token_audio * 1e3:g} ms a token, rounded up; no bound on the KV "
        "cache"
    )
    return Replica(load, gather, True, [*notes, _network(profile)])


def refuse_unused(given: Given, why: str, *names: str) -> None:
    """Refuse options (any of them if none is named) that are given but have no use."""
    for name in names or OPTIONS:
        if getattr(given, name) is not None:
            raise ExperimentError(f"{OPTIONS[name]}: has no use here: {why}")


def _network(profile: Profile) -> str:
    if profile.request_s is None:
        return "network: none, the profile has no request_s"
    return f"network: the profile's request_s, {profile.request_s.value * 1e3:g} ms, no jitter"


def _framed(chunks: pd.DataFrame, profile: Profile, file: str, given: bool) -> pd.DataFrame:
    """Chunks by stream, with their frames; refuses sizes that are not whole tokens, unless the
    schedule is given."""
    text = {name: chunks[name].astype(str) for name in ("run", "request")}
    table = chunks.assign(**text).sort_values(
        ["run", "request", "chunk"], kind="stable", ignore_index=True
    )
    token = token_audio_of(profile, file)
    if given:
        exact = table["audio_s"].to_numpy(dtype=float) / token
        return table.assign(frames=np.maximum(np.rint(exact), 1.0))
    try:
        return table.assign(frames=frames_of(table, token, file))
    except CalibrationError:
        message = (
            f"audio_s: most chunks are no whole number of the profile's tokens ({token * 1e3:g} ms "
            "each), so no schedule can be read off: give it (--chunk 4,8,16,25), or a profile of "
            "this model"
        )
        raise CalibrationError(file, None, message) from None


def _schedule(
    table: pd.DataFrame | None, given: tuple[int, ...] | None
) -> tuple[tuple[int, ...], str]:
    """Tokens of first chunk, ramp and steady chunk, and how they are known."""
    if given is not None:
        return given, f"chunks of {_list(given)} tokens: given (--chunk)"
    if table is None:
        text = f"chunks of {_list(Load.chunks)} tokens: assumed, the file has no chunks (--chunk)"
        return Load.chunks, text
    found = find_cadence(table)
    sizes, kept = found.sizes, f"{found.follow:.0%} of {found.streams} streams keep to it"
    largest = _largest_end(table) if found.whole else 0
    if last_of_stream(table).all():
        return (largest,), "replies of one chunk each, as in the file"
    if largest > found.steady:
        sizes, kept = (*sizes, largest), "the last of them only from the ends of streams"
    elif found.whole:
        kept += "; no stream is longer, so the last may not repeat"
    return sizes, f"chunks of {_list(sizes)} tokens: read off the file, {kept}"


def _largest_end(table: pd.DataFrame) -> int:
    """Frames of the largest chunk at the first place where streams only end; 0 if none."""
    last = last_of_stream(table)
    place = 0 if last.all() else int(table.loc[~last, "chunk"].max()) + 1
    there = table.loc[table["chunk"] == place, "frames"]
    return int(there.max()) if len(there) else 0


def _batches(table: pd.DataFrame | None, given: Given) -> tuple[int, float, str]:
    """Rows of a codec batch, its gather window (s), and how they are known."""
    seen = None if table is None else find_batches(table)
    cap, rows = given.codec_cap, "given"
    if cap is None and seen is not None:
        cap, rows = len(seen.rows), "the largest seen"
    elif cap is None:
        cap, rows = Load.codec_cap, "assumed, --codec-cap"
    gather, window = given.gather, "given"
    if gather is None and seen is not None and seen.window is not None:
        gather, window = seen.window.value, "learned"
    elif gather is None:
        gather, window = 0.0, "none seen"
    text = (
        f"codec: the profile's cost, batches of up to {cap} rows ({rows}), gather window "
        f"{gather * 1e3:.3g} ms ({window}), left context {given.left_context or 0} frames"
    )
    return cap, gather, text


def _list(sizes: tuple[int, ...]) -> str:
    return ", ".join(map(str, sizes))
