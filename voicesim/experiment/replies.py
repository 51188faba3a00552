"""Measured replies of any format that ``calibrate`` reads, one run at a time, ready to be replayed.

A reply is a stream of audio chunks, or (a file of requests alone) its first audio or token and its
latency.  What a file does not say is assumed, and every assumption is put into words.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from voicesim.calibrate.chunks.demand import demand_of
from voicesim.calibrate.chunks.load import one_clock
from voicesim.calibrate.chunks.schedule import WHOLE
from voicesim.calibrate.errors import CalibrationError
from voicesim.calibrate.readers.measured import Measured
from voicesim.experiment.assumed import Given, refuse_unused

REPEAT = re.compile(r"[-_/]r\d+$")
NO_TIMINGS = (
    "holds no timed replies to replay; what would do: chunks or tokens at the client (voicesim "
    "measure, vllm bench serve --save-detailed), or requests with their length and latency"
)
TIMINGS = ("ttfa_s", "ttft_s", "latency_s")


@dataclass(frozen=True, eq=False)
class Replies:
    """One run of S replies.

    sent: float64[S], s since the run began; 0 where each request has a clock of its own.
    tokens, prompt: int64[S].  audio: float64[S], s, NaN where the file counts text tokens.  ttfa,
    ttft, latency: float64[S], s after ``sent``, NaN where not known.  chunks: columns stream (int),
    t (s, the clock of ``sent``) and audio (s), by stream and time; None where there are none.
    callers: in flight, where send times are not known for that reason, else None.  loop: callers
    of a closed loop that the send times show, else None.  send_known: were they measured?
    """

    name: str
    sent: np.ndarray
    tokens: np.ndarray
    prompt: np.ndarray
    audio: np.ndarray
    ttfa: np.ndarray
    ttft: np.ndarray
    latency: np.ndarray
    chunks: pd.DataFrame | None
    callers: int | None
    loop: int | None
    send_known: bool

    @property
    def spoken(self) -> bool:
        """Is the length in seconds of audio (not in text tokens)?"""
        return not np.isnan(self.audio).any()

    @property
    def setting(self) -> str:
        """The name without its repeat: run-r1 and run-r2 are one setting."""
        return REPEAT.sub("", self.name)


def with_audio(measured: Measured) -> Measured:
    """The file without its chunks if these are not in seconds of audio."""
    silent = measured.chunks is not None and bool(measured.chunks["audio_s"].isna().any())
    return replace(measured, chunks=None) if silent else measured


def replies_of(
    measured: Measured,
    token_audio: Callable[[], float],
    usual_prompt: int,
    given: Given,
) -> tuple[list[Replies], list[str]]:
    """The runs of a file, and in words what was assumed and left out.

    token_audio: gives seconds of audio of a token (or refuses; asked only where lengths are
    audio).  usual_prompt: tokens where neither the file nor ``given`` says.  Raises
    CalibrationError, and ExperimentError for a prompt or concurrency that has no use.
    """
    notes = [text for text in measured.cannot if "left out" in text]
    requests = _timed(measured)
    if measured.chunks is not None:
        rows = _with_requests(measured.chunks, requests)
        make = _run_of_chunks
    elif requests is not None:
        rows, left = _usable(requests, measured.file)
        notes += [f"{left} requests are left out: failed, or without length or latency"] * (
            left > 0
        )
        make = _run_of_requests
    else:
        raise CalibrationError(measured.file, None, f"{measured.format}: {NO_TIMINGS}")
    absent = rows["prompt_tokens"].isna()
    if not absent.any():
        refuse_unused(given, "the file has the prompts", "prompt")
    else:
        prompt, how = (usual_prompt, "assumed") if given.prompt is None else (given.prompt, "given")
        some = "where the file has none" if not absent.all() else "the file has none"
        notes.append(f"prompt tokens: {prompt} {how}, {some} (--prompt)")
        rows = rows.assign(prompt_tokens=rows["prompt_tokens"].fillna(prompt))
    rows = rows.assign(prompt_tokens=np.maximum(np.rint(rows["prompt_tokens"]), 1.0))
    names = rows["run"].fillna(measured.file).astype(str)
    runs = [
        make(str(name), part.reset_index(drop=True), token_audio, given.callers, measured.file)
        for name, part in rows.groupby(names, sort=False)
    ]
    if all(run.callers is None for run in runs):
        refuse_unused(given, "the requests of the file are on one clock", "callers")
    elif all(run.callers != given.callers for run in runs):
        refuse_unused(given, "the file has its own", "callers")
    return runs, [*notes, *_on_arrivals(runs)]


def _timed(measured: Measured) -> pd.DataFrame | None:
    """The requests of a file, if it holds timings of any."""
    found = measured.requests
    if found is None or found[list(TIMINGS)].isna().all(axis=None):
        return None
    return found


def _with_requests(chunks: pd.DataFrame, requests: pd.DataFrame | None) -> pd.DataFrame:
    """Chunks by stream in the order of the file, with the prompt and the arrival (s) that only the
    requests have."""
    rows = chunks.assign(request=chunks["request"].astype(str), arrival_s=np.nan)
    if requests is not None:
        of = requests.assign(request=requests["request"].astype(str))
        of = of.drop_duplicates(["run", "request"]).set_index(["run", "request"])
        of = of.reindex(pd.MultiIndex.from_frame(rows[["run", "request"]]))
        rows["arrival_s"] = of["arrival_s"].to_numpy()
        rows["prompt_tokens"] = rows["prompt_tokens"].fillna(
            pd.Series(of["prompt_tokens"].to_numpy(), rows.index)
        )
    run, _ = pd.factorize(rows["run"])
    request, _ = pd.factorize(rows["request"])
    order = np.lexsort((rows["chunk"], request, run))
    return rows.iloc[order].reset_index(drop=True)


def _usable(requests: pd.DataFrame, file: str) -> tuple[pd.DataFrame, int]:
    """Finished requests with a length and a time, and how many others there are."""
    long = requests["audio_s"] if requests["audio_s"].notna().any() else requests["tokens"]
    ok = requests["ok"] & ~requests["cancelled"] & (long > 0)
    ok &= requests[list(TIMINGS)].notna().any(axis=1)
    if not ok.any():
        raise CalibrationError(file, None, f"requests have no length: {NO_TIMINGS}")
    rows = requests[ok].assign(sent_s=requests["arrival_s"], concurrency=np.nan)
    return rows.assign(request=rows["request"].astype(str)), int((~ok).sum())


def _in_flight(name: str, rows: pd.DataFrame, callers: int | None, file: str) -> int:
    """Requests in flight of a run whose requests have clocks of their own."""
    given = rows["concurrency"].dropna().unique()
    if len(given) == 1 and given[0] >= 1:
        return int(given[0])
    if callers is None:
        message = (
            f"{name}: every request has a clock of its own and no concurrency is given; say how "
            "many were in flight (--concurrency N)"
        )
        raise CalibrationError(file, None, message)
    return callers


def _run_of_chunks(
    name: str, rows: pd.DataFrame, token_audio: Callable[[], float], callers: int | None, file: str
) -> Replies:
    stream = pd.factorize(rows["request"])[0]
    first = np.flatnonzero(np.diff(stream, prepend=-1))
    last = np.append(first[1:], len(rows)) - 1
    t, audio = rows["t_s"].to_numpy(dtype=float), rows["audio_s"].to_numpy(dtype=float)
    sent = rows["sent_s"].to_numpy(dtype=float)[first]
    asked = rows["arrival_s"].to_numpy(dtype=float)
    flight = loop = None
    if not one_clock(rows):
        if np.isnan(asked).any():
            flight = _in_flight(name, rows, callers, file)
        else:
            sent, t = asked[first], t + asked
    total = np.add.reduceat(audio, first)
    known = not np.isnan(sent).any()
    if known and flight is None:
        loop = _loop(name, sent, t[last])
    blank = np.full(len(first), np.nan)
    return Replies(
        name,
        sent if known else np.zeros(len(first)),
        _tokens(rows, total, first, token_audio()),
        rows["prompt_tokens"].to_numpy(dtype=np.int64)[first],
        total,
        t[first] - sent if known else blank,
        blank,
        t[last] - sent if known else blank,
        pd.DataFrame({"stream": stream, "t": t, "audio": audio}),
        flight,
        loop,
        known,
    )


def _run_of_requests(
    name: str, rows: pd.DataFrame, token_audio: Callable[[], float], callers: int | None, file: str
) -> Replies:
    audio, first = rows["audio_s"].to_numpy(dtype=float), np.arange(len(rows))
    spoken = not np.isnan(audio).any()
    tokens = rows["tokens"].to_numpy(dtype=float)
    sent, latency = (rows[c].to_numpy(dtype=float) for c in ("sent_s", "latency_s"))
    flight = loop = None
    if np.isnan(sent).any():
        flight, sent = _in_flight(name, rows, callers, file), np.zeros(len(rows))
    elif not np.isnan(latency).any():
        loop = _loop(name, sent, sent + latency)
    return Replies(
        name,
        sent,
        _tokens(rows, audio, first, token_audio())
        if spoken
        else np.maximum(np.rint(tokens), 1).astype(np.int64),
        rows["prompt_tokens"].to_numpy(dtype=np.int64),
        audio if spoken else np.full(len(rows), np.nan),
        rows["ttfa_s"].to_numpy(dtype=float),
        rows["ttft_s"].to_numpy(dtype=float),
        latency,
        None,
        flight,
        loop,
        True,
    )


def _tokens(
    rows: pd.DataFrame, audio: np.ndarray, first: np.ndarray, token_audio: float
) -> np.ndarray:
    """Decode steps of each reply: its frames where counted, else its audio, rounded up."""
    frames = rows["frames"].to_numpy(dtype=float) if "frames" in rows else np.array([np.nan])
    if not np.isnan(frames).any():
        found = np.add.reduceat(frames, first)
    else:
        found = np.ceil(audio / token_audio - WHOLE)
    return np.maximum(found, 1).astype(np.int64)


def _loop(name: str, sent: np.ndarray, done: np.ndarray) -> int | None:
    """Callers of a closed loop, None where requests came otherwise (or are too few to say)."""
    if len(sent) < 2:
        return None
    found = demand_of(name, sent, done)
    return found.callers if found.kind == "closed" else None


def _on_arrivals(runs: list[Replies]) -> list[str]:
    """How requests are sent in the replay."""
    notes = []
    own = [run for run in runs if run.callers is not None]
    loops = [run for run in runs if run.loop is not None]
    if own:
        many = ", ".join(sorted({str(run.callers) for run in own}, key=int))
        notes.append(
            f"requests have clocks of their own: closed replay, {many} in flight, in the order of "
            "the file"
        )
    if any(run.callers is None and run.send_known for run in runs):
        notes.append("open replay: every request is sent when it was sent")
    if loops:
        few = ", ".join(f"{run.name} ({run.loop})" for run in loops[:4])
        more = f" and {len(loops) - 4} more" if len(loops) > 4 else ""
        notes.append(
            f"closed loops in the file (callers): {few}{more}; a slower prediction piles up, its "
            "callers do not wait for it"
        )
    return notes
