"""Tables of a run: one row per call (session), per stream (utterance), per chunk, per bin."""

from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import pandas as pd

from voicesim.engine import layout as at
from voicesim.engine.quantiles import quantile_rows
from voicesim.metrics import paid
from voicesim.simulation import Run
from voicesim.workload.arrivals import rate_at

WORSE = np.array(
    [at.PENDING, at.COMPLETED, at.STOOD_IN, at.FAILED_OUTCOME, at.ABANDONED, at.REFUSED, at.CUT]
)
"""Outcomes of an utterance, what counts more for its call after what counts less."""


COUNTED = frozenset(
    ("session", "outcome", "requested_s", "admitted_s", "started_s", "audio_s", "chunks",
     "stall_total_s", "stall_largest_s", "audible_stalls", "lost_audio_s", "rung", "filler")
)  # fmt: skip
"""Columns of the streams that calls and numbers are made of."""


def streams(run: Run, only: Collection[str] | None = None) -> pd.DataFrame:
    """One row per utterance that was asked for and settled.

    Times in s from the start of the run, NaN where it never came to that; think_s is the pause
    that the caller would make after it.  outcome: completed,
    refused, abandoned, failed or stood_in (text or a filler instead).  underrun_a_s,
    underrun_c_s: definitions A and C of the field's tools (voicesim.listener.definitions);
    stall_*: the player of the scenario.  Both are NaN for a stream of one chunk: nothing can be
    measured there.  worst_pace: the least audio / gap of its chunks.  rung: of its
    pool's ladder, 0: served as the pool is; filler: one sounded before the first audio.
    only: these columns (to save time), None: all.
    """
    ints, floats = run.record.utterance_i, run.record.utterance_f
    tape = run.tape
    rows = np.flatnonzero(ints[:, at.R_OUTCOME] != at.PENDING)
    i, f = ints[rows], floats[rows]
    chunks = i[:, at.R_CHUNKS]
    measured = chunks >= 2

    def known(column: int, where: np.ndarray) -> np.ndarray:
        return np.where(where, f[:, column], np.nan)

    session = np.searchsorted(tape.first, rows, side="right") - 1
    columns: dict[str, Callable[[], Any]] = {
        "session": lambda: session,
        "utterance": lambda: rows - tape.first[session],
        "outcome": lambda: outcomes(i[:, at.R_OUTCOME]),
        "replica": lambda: i[:, at.R_ENGINE],
        "refusals": lambda: i[:, at.R_ATTEMPTS],
        "requested_s": lambda: f[:, at.Z_REQUEST],
        "admitted_s": lambda: known(at.Z_ADMIT, f[:, at.Z_ADMIT] >= 0),
        "started_s": lambda: known(at.Z_START, f[:, at.Z_START] >= 0),
        "settled_s": lambda: f[:, at.Z_DONE],
        "played_s": lambda: known(at.Z_PLAY_END, f[:, at.Z_PLAY_END] > 0),
        "audio_s": lambda: run.audio_seconds(rows),
        "prompt_tokens": lambda: tape.prompt[rows],
        "think_s": lambda: tape.think[rows],
        "chunks": lambda: chunks,
        "stall_total_s": lambda: known(at.Z_STALL, measured),
        "stall_largest_s": lambda: known(at.Z_STALL_MAX, measured),
        "stalls": lambda: i[:, at.R_STALLS],
        "audible_stalls": lambda: i[:, at.R_AUDIBLE],
        "underrun_a_s": lambda: known(at.Z_A, measured),
        "underrun_c_s": lambda: known(at.Z_C, measured),
        "worst_pace": lambda: known(at.Z_PACE, f[:, at.Z_PACE] >= 0),
        "lost_audio_s": lambda: f[:, at.Z_LOST],
        "preemptions": lambda: i[:, at.R_PREEMPTS],
        "rung": lambda: np.array([r for _, r, _ in run.spec.rung_rows])[i[:, at.R_RUNG]],
        "filler": lambda: i[:, at.R_FILLED] > 0,
    }
    return pd.DataFrame(
        {name: make() for name, make in columns.items() if only is None or name in only}
    )


def sessions(run: Run, stream_table: pd.DataFrame) -> pd.DataFrame:
    """One row per call that began; of a closed loop only those that were settled.

    outcome: cut if it was ended under way, refused if one of its utterances was refused for good,
    else abandoned, failed, stood_in, completed, or live when the run stopped before it was over.
    accepted: a stream of it was admitted to an engine.
    measured: a stream of two chunks or more was delivered; in a call without one stalls are not
    measured, and what is not measured is never clean.
    degraded: an utterance of it was served at a rung above 0, or a filler sounded, or there was
    text or a filler instead.
    clean: completed and measured, every utterance started within slo.start_within, no stall over
    slo.no_stall_over, no audio lost.
    """
    tape, slo = run.tape, run.scenario.slo
    if tape.closed:
        started = np.unique(stream_table["session"].to_numpy())
        arrival = np.full(tape.sessions, np.nan)
        arrival[stream_table["session"]] = stream_table["requested_s"]
    else:
        started = np.arange(tape.sessions)
        arrival = tape.arrival
    n = tape.sessions
    s = stream_table["session"].to_numpy()
    codes = stream_table["outcome"].cat.codes.to_numpy()
    worst = np.zeros(n, np.int64)
    rank = np.argsort(WORSE)
    np.maximum.at(worst, s, rank[codes])
    settled = np.bincount(s, minlength=n)
    finished = settled == np.diff(tape.first)
    outcome = WORSE[worst]
    outcome[(worst <= rank[at.STOOD_IN]) & ~finished] = at.PENDING
    wait = (stream_table["started_s"] - stream_table["requested_s"]).to_numpy()
    stall = stream_table["stall_largest_s"].to_numpy()
    good = (
        (codes == at.COMPLETED)
        & (wait <= slo.start_within)
        & ~(stall > slo.no_stall_over)
        & (stream_table["lost_audio_s"].to_numpy() == 0)
        & ~stream_table["filler"].to_numpy()
    )
    let_in = stream_table["admitted_s"].notna()
    measured = np.bincount(s, weights=stream_table["chunks"] >= 2, minlength=n) > 0
    table = pd.DataFrame(
        {
            "session": np.arange(n),
            "arrival_s": arrival,
            "outcome": outcomes(outcome),
            "utterances": settled,
            "clean": (np.bincount(s, weights=good, minlength=n) == settled)
            & (outcome == at.COMPLETED)
            & measured,
            "accepted": np.bincount(s, weights=let_in, minlength=n) > 0,
            "measured": measured,
            "degraded": np.bincount(s, weights=degraded_rows(stream_table), minlength=n) > 0,
            "audible_stalls": np.bincount(
                s, weights=stream_table["audible_stalls"], minlength=n
            ).astype(np.int64),
            "stall_total_s": np.bincount(
                s, weights=stream_table["stall_total_s"].fillna(0.0), minlength=n
            ),
        }
    )
    return table.iloc[started].reset_index(drop=True)


def degraded_rows(streams: pd.DataFrame) -> np.ndarray:
    """bool[n]: which utterances got less than the pool gives as it is."""
    less = (streams["rung"] > 0) | streams["filler"] | (streams["outcome"] == "stood_in")
    return less.to_numpy()


def outcomes(codes: np.ndarray) -> Any:
    """Outcome codes of voicesim.engine.layout as a categorical."""
    return pd.Categorical.from_codes(codes.astype(np.int8), pd.Index(at.OUTCOMES))


def operations(run: Run) -> pd.DataFrame:
    """One row per thing that a controller did or that befell a replica, in order: t_s, what, pool,
    replica (-1: the pool), value (what it is depends on ``what``)."""
    return pd.DataFrame(run.log.rows, columns=["t_s", "what", "pool", "replica", "value"])


def chunks(run: Run) -> pd.DataFrame:
    """One row per chunk: queued at the codec, sent, arrived at the listener (s); audio (s)."""
    i, f = run.record.chunk_i, run.record.chunk_f
    tape = run.tape
    session = np.searchsorted(tape.first, i[:, at.L_UTT], side="right") - 1
    return pd.DataFrame(
        {
            "session": session if tape.numbers is None else tape.numbers[session],
            "utterance": i[:, at.L_UTT] - tape.first[session],
            "chunk": i[:, at.L_INDEX],
            "replica": i[:, at.L_ENGINE],
            "batch_rows": i[:, at.L_ROWS],
            "queued_s": f[:, at.M_READY],
            "sent_s": f[:, at.M_SENT],
            "arrived_s": f[:, at.M_ARRIVE],
            "audio_s": f[:, at.M_AUDIO],
        }
    ).sort_values(["session", "utterance", "chunk"], ignore_index=True)


def series(run: Run) -> pd.DataFrame:
    """One row per bin of series.resolution: gauges at its start, counts over it.

    offered_per_s: nominal calls per second.  gap_p99: 99 % point, over the chunks that arrived in
    the bin, of the gap before a chunk / the audio of the chunk before it; beyond 1 the
    listener's buffer drains.  replicas_open: those that an operator lets take callers;
    replicas_paid: those that are ordered, start, serve or drain.
    """
    rows, resolution = run.record.series, run.spec.resolution
    t = np.arange(len(rows)) * resolution
    offered = np.asarray(rate_at(run.scenario.workload.arrivals, t), float)
    offered = np.where(t < run.scenario.horizon, offered, 0.0)
    counts = run.record.gaps
    few = range(0, len(counts), 4096)  # a day of bins is large, and the quantiles work on copies
    gaps = np.concatenate([quantile_rows(counts[k : k + 4096], 0.99) for k in few])
    up, paid_for = paid.counts(run, t)
    return pd.DataFrame(
        {
            "t_s": t,
            "offered_per_s": offered,
            "calls": rows[:, at.B_CALLS],
            "refused": rows[:, at.B_REFUSED],
            "abandoned": rows[:, at.B_ABANDONED],
            "degraded": rows[:, at.B_DEGRADED],
            "stalls": rows[:, at.B_STALLS],
            "live": rows[:, at.B_LIVE],
            "running": rows[:, at.B_RUNNING],
            "waiting": rows[:, at.B_WAITING],
            "waiting_max": rows[:, at.B_WAITING_MAX],
            "codec_queue": rows[:, at.B_QUEUED],
            "gateway": rows[:, at.B_GATEWAY],
            "gap_p99": gaps,
            "replicas_open": up,
            "replicas_paid": paid_for,
        }
    )
