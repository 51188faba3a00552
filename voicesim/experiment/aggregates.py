"""What benchmarks print at rising load, from files of any format, as a ladder to be fitted.

A file of aggregates gives points of a curve (``Measured.curve``).  Those of all files together
make a ``Ladder``: a closed loop where a cap on requests in flight is given, an open one where a
rate is.  What the files leave out is taken from the command line, worked out from their other
figures, or assumed; ``notes`` says which.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from voicesim.calibrate.errors import CalibrationError
from voicesim.calibrate.prior import Prior
from voicesim.calibrate.readers.aggregates import ONLY
from voicesim.calibrate.readers.measured import Measured
from voicesim.experiment.published import Figure, Ladder
from voicesim.experiment.reply_length import STATS, mean, mean_reply, spread
from voicesim.scenario.units import number, rate

METRICS = {
    "rtf_per_request": "rtf", "latency_s": "latency", "ttfa_s": "ttfa", "ttft_s": "ttft",
    "tpot_s": "itl", "itl_s": "itl", "throughput_requests": "throughput",
    "throughput_audio": "xrt", "throughput_tokens": "tokens_per_s",
}  # fmt: skip
"""Column ``metric`` of a curve: what ``experiment.served`` calls it."""
C = {0.05: "c50", 0.1: "c100", 0.2: "c200"}
AUDIO = {"rtf_per_request", "throughput_audio", "audio_s", "ttfa_s"}
TOKENS = {"ttft_s", "tpot_s", "itl_s", "throughput_tokens"}
RATES = ("throughput", "xrt", "tokens_per_s")
TELL_STEP = {"rtf", "latency", "itl", "throughput", "rtf_aggregate"}
STREAMED, WHOLE, TEXT = "4,8,16,25", "all", "1,8192"
"""Chunks where nothing says them: of speech with a first audio, without one, of text (a first
token, then the rest)."""
MOST_LOADS = 12
ENDLESS = 20
"""A closed loop of so many requests per place is as good as one that goes on."""


@dataclass(frozen=True)
class Asked:
    """What the command line says beside the files; texts as given.

    reply: mean reply, 4s of speech or 200 tokens.  chunk: tokens of the first chunk, the ramp and
    the steady one (1,2,4) or all.  loads: of the files that state none, in order: 8 in flight or
    2.5/s.
    """

    token_audio_s: float | None = None
    prior: Prior | None = None
    reply: str | None = None
    chunk: str | None = None
    loads: str | None = None


def tell(measured: Sequence[Measured]) -> bool:
    """Have the files points that a ladder can use, and nothing that a fit of steps can?"""
    if any(m.samples is not None or m.chunks is not None for m in measured):
        return False
    return any(m.curve is not None and m.curve["metric"].isin(METRICS).any() for m in measured)


def ladder_of(measured: Sequence[Measured], name: str, asked: Asked) -> tuple[Ladder, list[str]]:
    """The ladder of all files, and what a reader must know of how it came about.

    Raises CalibrationError and ValueError, one line that names the option that would help.
    """
    files = [m for m in measured if m.curve is not None and m.curve["metric"].isin(METRICS).any()]
    where = ", ".join(m.file for m in files)
    curve, kind, notes = _with_loads(files, asked.loads)
    has = set(curve["metric"])
    audio_s = _seconds(asked)
    if audio_s is None and has & AUDIO:
        raise CalibrationError(where, None, "its figures are of audio, decoding in frames: give the"
                               " audio of a decode step (--token-audio 80ms) or a known model"
                               " (--prior model=NAME)")  # fmt: skip
    tokens_seen = not has & AUDIO and (audio_s is None or bool(has & TOKENS))
    curve, thinned = _thin(curve)
    figures = _figures(curve, kind, tokens_seen)
    if not {f.metric for f in figures} & TELL_STEP:
        raise CalibrationError(where, None, "holds no latency, time per token or real-time factor"
                               " (nor, in a closed loop, throughput): nothing that tells the step"
                               )  # fmt: skip
    reply, how_long = mean_reply(curve, audio_s, asked.reply, where)
    sigma, how_wide = spread(curve)
    chunks, said = _chunks(asked.chunk, tokens_seen, figures)
    if chunks == WHOLE or int(chunks.split(",")[0]) * (audio_s or 1.0) >= reply:
        figures = [f for f in figures if f.metric not in C.values()]  # one chunk cannot stall
    settings = _settings(asked, kind, audio_s, reply, sigma, chunks, mean(curve, "prompt_tokens"))
    if kind == "closed":
        settings |= _counts(curve)
    unit = "tokens" if audio_s is None else "s"
    length = f"replies of {reply:.4g} {unit} on average ({how_long})"
    notes = [f"{ONLY}; the step here is both", *notes, *thinned]
    notes += [f"{length}, spread {sigma:.2g} ({how_wide})", *said]
    return Ladder(name, settings, tuple(figures)), notes


Settings = dict[tuple[str, str, str], str]


def _settings(
    asked: Asked,
    kind: str,
    audio_s: float | None,
    reply: float,
    sigma: float,
    chunks: str,
    prompt: float | None,
) -> Settings:
    """As a ladder's file would have them."""
    drawn = reply
    if audio_s is not None and sigma > 0 and reply > audio_s:
        drawn = reply - audio_s / 2  # a reply is whole steps: rounding up adds half of one
    found = {
        "load": kind,
        "reply_tokens" if audio_s is None else "reply_audio_s": f"{drawn:.6g}",
        "reply_sigma": f"{sigma:.4g}",
        "chunks": chunks,
        "prompt_tokens": f"{max(1.0, prompt or 1.0):.0f}",
    }
    if audio_s is not None:
        found["token_audio_s"] = repr(float(audio_s))
    if asked.prior is not None:
        found["model"] = asked.prior.model.name
        if asked.prior.gpu is not None:
            found["gpu"] = asked.prior.gpu.name
    return {("", "", name): value for name, value in found.items()}


def _chunks(
    given: str | None, tokens_seen: bool, figures: Sequence[Figure]
) -> tuple[str, list[str]]:
    """As given, else by what was timed; what to say of it."""
    if given is not None:
        parts = given.split(",")
        if given != WHOLE and not all(p.strip().isdigit() and int(p) >= 1 for p in parts):
            raise ValueError(f"--chunk: found {given!r}; allowed: tokens such as 4,8,16,25, or all")
        return given, [f"chunks of {given} tokens (as given)"]
    if tokens_seen:
        return TEXT, []
    if any(f.metric in ("ttfa", *C.values()) for f in figures):
        return STREAMED, [f"chunks of {STREAMED} tokens (assumed; --chunk gives yours)"]
    return WHOLE, []


def _seconds(asked: Asked) -> float | None:
    """Audio of a decode step, as given or of the model."""
    if asked.token_audio_s is None and asked.prior is not None:
        return asked.prior.model.token_audio_s
    return asked.token_audio_s


def _with_loads(
    files: Sequence[Measured], loads: str | None
) -> tuple[pd.DataFrame, str, list[str]]:
    """All points with their ``level``; closed or poisson; what to say of it."""
    silent = [m for m in files if not _stated(m).any()]
    given = _given_loads(loads, silent)
    parts = []
    for i, m in enumerate(files):
        assert m.curve is not None
        points = m.curve.assign(file=m.file, place=i)  # names may repeat: c1/r.json, c2/r.json
        if id(m) in given:
            column, value = given[id(m)]
            points[column] = value
        parts.append(points[_stated_rows(points)])
    curve = pd.concat(parts, ignore_index=True)
    sent, capped = curve["rate_per_s"] > 0, curve["concurrency"] > 0
    if sent.any() and not sent.all():
        closed, open_ = curve["file"][~sent].iloc[0], curve["file"][sent].iloc[0]
        raise ValueError(f"{closed} keeps requests in flight, {open_} sends at a rate: two kinds of"
                         " load; calibrate them apart")  # fmt: skip
    notes = []
    if (sent & capped).any():
        most = curve["concurrency"][sent & capped].min()
        notes.append(f"the cap of {most:g} in flight is not played: requests come at their rate")
    kind = "poisson" if sent.any() else "closed"
    curve["level"] = curve["rate_per_s"] if kind == "poisson" else curve["concurrency"]
    what = "requests per second" if kind == "poisson" else "requests in flight"
    every = sorted(curve["level"].unique())
    if len(every) <= MOST_LOADS:
        notes.append(f"loads: {', '.join(f'{c:g}' for c in every)} {what}")
    return curve, kind, notes


def _stated(m: Measured) -> "pd.Series[bool]":
    assert m.curve is not None
    return _stated_rows(m.curve)


def _stated_rows(curve: pd.DataFrame) -> "pd.Series[bool]":
    return (curve["concurrency"] > 0) | (curve["rate_per_s"] > 0)


def _given_loads(loads: str | None, silent: Sequence[Measured]) -> dict[int, tuple[str, float]]:
    """--loads by file (its id): the column and its value."""
    names = ", ".join(m.file for m in silent)
    if loads is None:
        if silent:
            raise ValueError(f"{names}: no load is stated; give one for each such file, --loads 8"
                             " (in flight) or --loads 2.5/s")  # fmt: skip
        return {}
    parts = [part.strip() for part in loads.split(",")]
    if len(parts) != len(silent):
        which = f" ({names})" if silent else ""
        raise ValueError(f"--loads: found {len(parts)}; files that state no load: {len(silent)}"
                         f"{which}")  # fmt: skip
    found = {}
    for m, part in zip(silent, parts, strict=True):
        try:
            per_s = "/" in part
            value = rate(part) if per_s else number(part)
        except ValueError as problem:
            raise ValueError(f"--loads: {problem}") from None
        if value <= 0 or (not per_s and value % 1):
            raise ValueError(f"--loads: found {part!r}; allowed: 8 (in flight) or 2.5/s")
        found[id(m)] = ("rate_per_s" if per_s else "concurrency", value)
    return found


def _thin(curve: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """At most MOST_LOADS loads, evenly by their logarithm; each costs simulated runs."""
    every = np.array(sorted(curve["level"].unique()))
    if len(every) <= MOST_LOADS:
        return curve, []
    wanted = np.geomspace(every[0], every[-1], MOST_LOADS)
    kept = sorted({float(every[np.abs(np.log(every / w)).argmin()]) for w in wanted})
    shown = ", ".join(f"{c:g}" for c in kept)
    return curve[curve["level"].isin(kept)], [f"of {len(every)} loads these are used: {shown}"]


def _figures(curve: pd.DataFrame, kind: str, tokens_seen: bool) -> list[Figure]:
    """One figure per load, metric and statistic: the mean over repeats."""
    has = set(curve["metric"])
    skip = set(RATES) if kind == "poisson" else set()  # an open loop makes what is sent
    if "throughput_requests" in has:
        skip.add("tokens_per_s")
    names = dict(METRICS)
    if "tpot_s" in has:
        del names["itl_s"]
    if not tokens_seen:
        del names["ttft_s"]  # of text beside the audio, or of a header
    if not has & {"rtf_per_request", "latency_s", "throughput_requests"}:
        names["throughput_audio"] = "rtf_aggregate"
    found = []
    for level, metric, stat, value in _means(curve, "level", "metric", "stat"):
        name = names.get(metric)
        if name == "rtf_aggregate":
            value = 1.0 / value if value else 0.0
        if metric == "itl_s" and stat != "mean":
            continue  # of single tokens, not of requests
        if name is None or name in skip or stat not in STATS or value <= 0:
            continue
        found.append(Figure("", level, name, STATS[stat], value, "", 0))
    b = curve[(curve["metric"] == "continuity") & (curve["definition"] == "b")]
    for level, within, value in _means(b[b["stat"] == "share"], "level", "threshold_s"):
        if within in C and value > 0:
            found.append(Figure("", level, C[within], "mean", value, "", 0))
    return found


def _means(curve: pd.DataFrame, *by: str) -> Iterator[tuple[Any, ...]]:
    """The keys and the mean value of each group, in order."""
    found = curve.groupby(list(by), sort=True)["value"].mean().reset_index()
    return found.itertuples(index=False, name=None)


def _counts(curve: pd.DataFrame) -> Settings:
    """Requests of a closed loop that soon ends, by load: its end, when fewer are in flight, counts
    in its throughput."""
    rows = curve[(curve["metric"] == "requests") & (curve["stat"] == "total")]
    return {
        ("", f"{level:g}", "requests"): f"{count:.0f}"
        for level, count in _means(rows, "level")
        if level <= count < ENDLESS * level
    }
