"""What the page of a run shows beside its tables: small extracts, taken while the run is at hand.

Curves of all replies as counts on a fixed grid (so that pools and replications add up), the batch
sizes that the engines ran at, and two calls chunk by chunk: the worst and the median one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from voicesim.engine import layout as at
from voicesim.engine.spec import PoolSpec
from voicesim.listener.player import PLAYING, PREBUFFERING, ROUNDING, SILENT, deliver
from voicesim.metrics import tables
from voicesim.metrics.edges import curves
from voicesim.metrics.fleet import Part
from voicesim.metrics.tally import Tally
from voicesim.simulation import Run

MOST_CALLS = 1_000_000
"""Expected calls of a pool beyond which no chunks are kept for the two calls: a chunk takes 64
bytes while the run lasts."""


@dataclass
class Exhibit:
    """Of one pool in one replication.

    heard: int64[EDGES + 1], replies by request to first sound (the last: later).  stalled:
    likewise by the largest stall, of replies in which one can be measured; the first: none or
    shorter.  batch: int64[n], samples at the edges of the series' bins, between warm-up and
    horizon, by streams running on a replica (0: idle); empty where nobody watched.  max_batch:
    the largest step of the whole run.  context: mean KV tokens of a stream half way through.
    calls: the worst and the median one; empty where no chunks were kept.
    """

    pool: str
    heard: np.ndarray
    stalled: np.ndarray
    batch: np.ndarray
    max_batch: int
    context: float
    calls: list["CallShown"] = field(default_factory=list)


@dataclass
class CallShown:
    """A call chunk by chunk.  rank: "worst" or "median" (see ``two_calls``).  of: calls ranked."""

    rank: str
    session: int
    of: int
    replies: list["ReplyShown"]


@dataclass
class ReplyShown:
    """An utterance of a call; times in s from the start of the run, NaN where it never came to
    that.

    chunks: queued, sent, arrived, audio (s), rows of its codec batch, float64[n, 5].  buffer:
    float64[k, 2], instants and audio (s) that the listener held just then.  stalls: float64[m, 3],
    from, to, and the number of the chunk that ended it.
    """

    utterance: int
    outcome: str
    replica: int
    requested: float
    admitted: float
    started: float
    settled: float
    chunks: np.ndarray
    buffer: np.ndarray
    stalls: np.ndarray


def exhibit(part: Part | Tally, with_calls: bool = True) -> Exhibit:
    """The extracts of a pool's run, from its whole tables (before ``Part.light``) or a tally."""
    run = part.run
    most = int(run.record.counters["max_batch"])
    batches = _batches(run, None if run.gauges is None else run.gauges.running)
    if isinstance(part, Tally):
        heard, stalled, half = part.heard, part.stalled, part.half_way
        return Exhibit(part.pool, heard, stalled, batches, most, half)
    calls, streams = part.calls, part.streams
    heard, stalled = curves(calls, streams, run.scenario.warmup)
    half = run.tape.prompt.mean() + run.tape.tokens.mean() / 2 if run.tape.utterances else 0.0
    return Exhibit(
        part.pool,
        heard,
        stalled,
        batches,
        most,
        float(half),
        two_calls(run, calls, streams) if with_calls and len(run.record.chunk_i) else [],
    )


def exhibits_of_fleet(
    run: Run, main: Part | Tally, pools: Mapping[str, Part | Tally], with_calls: bool
) -> list[Exhibit]:
    """The extracts of each pool of a fleet; the two calls are those of `workload`, in the first."""
    found = [exhibit(part, with_calls=False) for part in pools.values()]
    if with_calls and isinstance(main, Part) and len(run.record.chunk_i):
        found[0].calls = two_calls(run, main.calls, main.streams)
    return found


def keeps_chunks(scenario: Any) -> bool:
    """Whether a run is small enough to keep every chunk while it lasts."""
    return bool(scenario.workload.arrivals.expected(scenario.horizon) <= MOST_CALLS)


def _batches(run: Run, running: np.ndarray | None) -> np.ndarray:
    """running: int64[bins, replicas]; None: nobody watched."""
    if run.gauges is None or running is None:
        return np.zeros(0, np.int64)
    t = np.arange(run.gauges.taken) * run.spec.resolution
    inside = (t >= run.scenario.warmup) & (t < run.scenario.horizon)
    return np.bincount(running[: run.gauges.taken][inside].ravel())


# --- two calls --------------------------------------------------------------------------------


def two_calls(run: Run, calls: pd.DataFrame, streams: pd.DataFrame) -> list[CallShown]:
    """The worst and the median call that heard something, after the warm-up.

    Ranked by seconds of stall, then by the slowest start of its replies, then by number.
    """
    waits = streams["started_s"] - streams["requested_s"]
    slowest = waits.groupby(streams["session"]).max()
    ranked = calls[(calls["arrival_s"] >= run.scenario.warmup) & calls["measured"]]
    ranked = ranked.assign(slowest=ranked["session"].map(slowest)).sort_values(
        ["stall_total_s", "slowest", "session"], ascending=[True, True, False]
    )
    if ranked.empty:
        return []
    n = len(ranked)
    chosen = [("worst", n - 1), ("median", (n - 1) // 2)][: 1 if n == 1 else 2]
    found = []
    for rank, place in chosen:
        session = int(ranked["session"].iloc[place])
        chunks = _chunks_of(run, session)
        mine = streams[streams["session"] == session]
        replies = [_reply(run, row, chunks) for row in mine.to_dict("records")]
        found.append(CallShown(rank, session, n, replies))
    return found


def _chunks_of(run: Run, session: int) -> pd.DataFrame:
    """The chunks of one call, as in ``metrics.tables``; session: its number in the whole."""
    tape, record = run.tape, run.record
    own = session if tape.numbers is None else int(np.searchsorted(tape.numbers, session))
    utterance = record.chunk_i[:, at.L_UTT]
    rows = (utterance >= tape.first[own]) & (utterance < tape.first[own + 1])
    few = replace(record, chunk_i=record.chunk_i[rows], chunk_f=record.chunk_f[rows])
    return tables.chunks(replace(run, record=few))


def _reply(run: Run, row: Mapping[Any, Any], chunks: pd.DataFrame) -> ReplyShown:
    mine = chunks[chunks["utterance"] == row["utterance"]]
    columns = ["queued_s", "sent_s", "arrived_s", "audio_s", "batch_rows"]
    rows = mine[columns].to_numpy(float)
    last = len(rows) - 1 if row["outcome"] == "completed" else -1
    buffer, stalls = listened(run.spec, rows[:, 2], rows[:, 3], last)
    times = (row["requested_s"], row["admitted_s"], row["started_s"], row["settled_s"])
    return ReplyShown(
        int(row["utterance"]), str(row["outcome"]), int(row["replica"]), *times, rows, buffer,
        stalls,
    )  # fmt: skip


def listened(
    spec: PoolSpec, arrived: np.ndarray, audio: np.ndarray, last: int
) -> tuple[np.ndarray, np.ndarray]:
    """The listener's buffer over time, and the stalls, by the player of the scenario.

    arrived, audio: of each chunk, s.  last: number of the reply's last chunk, -1 if it never came.
    Returns buffer and stalls as in ReplyShown.
    """
    knobs = (spec.prebuffer, spec.rebuffer, spec.max_wait, spec.max_queue)
    mode, end, held, since = SILENT, 0.0, 0.0, 0.0
    buffer: list[tuple[float, float]] = []
    stalls: list[tuple[float, float, float]] = []
    for i, (t, d) in enumerate(zip(arrived.tolist(), audio.tolist(), strict=True)):
        if mode == PREBUFFERING and t > since + spec.max_wait:
            buffer += [(since + spec.max_wait, held), *_drained(since + spec.max_wait + held, t)]
        elif mode == PLAYING:
            buffer += _drained(end, t)
        else:
            buffer.append((t, held if mode != SILENT else 0.0))
        mode, end, held, since, stall, _, _ = deliver(
            mode, end, held, since, t, d, i == last, *knobs
        )
        buffer.append((t, end - t if mode == PLAYING else held))
        if stall > ROUNDING:
            stalls.append((t - stall, t, i))
    if mode == PLAYING:
        buffer.append((end, 0.0))
    return np.array(buffer).reshape(-1, 2), np.array(stalls).reshape(-1, 3)


def _drained(end: float, t: float) -> list[tuple[float, float]]:
    """What a player that runs dry at ``end`` still holds at ``t``."""
    return [(t, end - t)] if t <= end else [(end, 0.0), (t, 0.0)]
