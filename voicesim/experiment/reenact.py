"""Measured replies played again on a replica, and the same numbers of both.

Where send times are known they are kept (an open replay); where every request has a clock of its
own, as many are kept in flight as there were; where send times are missing, they are moved until
first chunks come when they came.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from voicesim.engine import layout as at
from voicesim.engine.pool import Pool, record
from voicesim.experiment.assumed import Replica
from voicesim.experiment.replies import Replies
from voicesim.experiment.validate import Numbers, Setting
from voicesim.listener.player import ROUNDING
from voicesim.metrics.summary import nearest_rank
from voicesim.progress import Show, silent
from voicesim.workload.tape import Tape

METRICS = (
    "ttfa_p50_s", "ttfa_p95_s", "ttft_p50_s", "ttft_p95_s", "gap_p50_s", "gap_p99_s", "pace_p50",
    "pace_p99", "rtf", "latency_p50_s", "latency_p95_s", "stalled_share", "stall_total_s",
)  # fmt: skip
FITS = 6
"""Times that unknown send times are moved."""


@dataclass(frozen=True, eq=False)
class _Played:
    """Of each reply: asked (s), first and last chunk (s).  chunks: as in Replies."""

    asked: np.ndarray
    first: np.ndarray
    last: np.ndarray
    chunks: pd.DataFrame
    most: int


def validate_replies(
    replica: Replica,
    runs: Sequence[Replies],
    seeds: int = 5,
    buffer: int = 4,
    progress: Show = silent,
) -> list[Setting]:
    """Replay every run under every seed; repeats are gathered.

    Repeats: runs of one name but for its end (-r1, -r2).
    buffer: tokens of audio that the listener's player gathers before it starts.
    """
    held = buffer * replica.load.token_audio
    settings: dict[str, Setting] = {}
    for i, run in enumerate(runs):
        played = [replay_replies(replica, run, seed) for seed in range(seeds)]
        now = reply_numbers(run, held)
        then = [reply_numbers(predicted, held) for predicted, _ in played]
        most = max(batch for _, batch in played)
        old = settings.get(run.setting, Setting([], [], [], 0))
        settings[run.setting] = Setting(
            [*old.runs, run], [*old.measured, now], [*old.predicted, *then],
            max(most, old.most_running),
        )  # fmt: skip
        progress("replaying", i + 1, len(runs), events=seeds * int(np.sum(run.tokens)))
    return list(settings.values())


def replay_replies(replica: Replica, run: Replies, seed: int = 0) -> tuple[Replies, int]:
    """The run as predicted, in the measured run's form, and the largest batch."""
    if run.callers is not None:
        played = _closed(replica, run, seed)
    elif run.send_known:
        played = _play(replica, run, seed, run.sent)
    else:
        played = _play(replica, run, seed, _sent_before_first(replica, run))
    chunks = played.chunks
    if run.callers is not None:  # each on its own clock, as measured
        chunks = chunks.assign(t=chunks["t"] - played.asked[chunks["stream"]])
    first, latency = played.first - played.asked, played.last - played.asked
    return (
        replace(
            run,
            ttfa=np.where(np.isnan(run.ttfa), np.nan, first),
            ttft=np.where(np.isnan(run.ttft), np.nan, first),
            latency=np.where(np.isnan(run.latency), np.nan, latency),
            chunks=None if run.chunks is None else chunks,
        ),
        played.most,
    )


def _play(
    replica: Replica, run: Replies, seed: int, sent: np.ndarray, callers: int | None = None
) -> _Played:
    """All replies sent at ``sent`` (s, any order); callers: at most so many in flight."""
    order = np.argsort(sent, kind="stable")
    start, n = float(sent[order[0]]), len(sent)
    tape = Tape(
        arrival=sent[order] - start,
        first=np.arange(n + 1),
        tokens=run.tokens[order],
        prompt=run.prompt[order],
        think=np.zeros(n),
        patience=np.full(n, np.inf),
        clipped=0,
        closed=False,
        callers=0,
    )
    spec = replica.load.spec(callers or n, seed)
    codec = spec.codec if replica.spoken else None
    spec = replace(
        spec,
        token_audio=spec.token_audio or 1.0,
        codec=None if codec is None else replace(codec, gather=replica.gather),
    )
    if callers is None:
        spec = replace(spec, admission=0)
    pool = Pool(spec, tape)
    pool.advance(1e8)
    r = record(pool)
    of = order[r.chunk_i[:, at.L_UTT]]
    by = np.lexsort((r.chunk_i[:, at.L_INDEX], of))
    chunks = pd.DataFrame(
        {
            "stream": of[by],
            "t": r.chunk_f[by, at.M_ARRIVE] + start,
            "audio": r.chunk_f[by, at.M_AUDIO],
        }
    )
    asked = np.empty(n)
    asked[order] = r.utterance_f[:, at.Z_ADMIT if callers else at.Z_REQUEST] + start
    ends = np.flatnonzero(np.diff(chunks["stream"].to_numpy(), append=n))
    t = chunks["t"].to_numpy()
    begins = np.append(0, ends[:-1] + 1)
    return _Played(asked, t[begins], t[ends], chunks, r.counters["max_batch"])


def _closed(replica: Replica, run: Replies, seed: int) -> _Played:
    """A closed loop.  What a request takes outside the engine keeps its caller out of it, as in
    ``rung.run``: fewer are then inside, to the nearest whole caller."""
    assert run.callers is not None
    outside, inside = replica.load.outside, run.callers
    sent = np.zeros(len(run.tokens))
    played = _play(replica, run, seed, sent, inside)
    for _ in range(2):
        latency = float((played.last - played.asked).mean())
        fit = max(1, round(run.callers * (latency - outside) / latency))
        if fit == inside:
            break
        inside = fit
        played = _play(replica, run, seed, sent, inside)
    return played


def _sent_before_first(replica: Replica, run: Replies) -> np.ndarray:
    """Send times (s) with which first chunks come when they came, as far as a few tries go."""
    assert run.chunks is not None
    first = run.chunks.groupby("stream")["t"].first().to_numpy()
    sent = first.copy()
    for _ in range(FITS):
        sent -= _play(replica, run, 0, sent).first - first
    return sent


def reply_numbers(run: Replies, held: float) -> Numbers:
    """Numbers by name (METRICS); None where not measured.

    ttfa, ttft, latency: from sending.  gap: between the chunks of a stream, all of them pooled.
    pace: audio of a chunk / gap before it, p99 the slowest 1 %.  rtf: mean over replies of latency
    / audio.  stalled_share, stall_total_s: a player that starts with ``held`` seconds in hand, all
    its pauses; of replies of several chunks.
    """
    found: Numbers = dict.fromkeys(METRICS)
    for name, values in (("ttfa", run.ttfa), ("ttft", run.ttft), ("latency", run.latency)):
        known = values[~np.isnan(values)]
        for q in (50, 95):
            found[f"{name}_p{q}_s"] = nearest_rank(known, q / 100)
    speed = run.latency[run.audio > 0] / run.audio[run.audio > 0]
    speed = speed[~np.isnan(speed)]
    found["rtf"] = float(speed.mean()) if len(speed) else None
    if run.chunks is None:
        return found
    stream, t, audio = (run.chunks[name].to_numpy() for name in ("stream", "t", "audio"))
    follows = np.flatnonzero(np.diff(stream) == 0) + 1
    gaps = t[follows] - t[follows - 1]
    ratio = gaps[audio[follows] > 0] / audio[follows][audio[follows] > 0]
    for q in (50, 99):
        found[f"gap_p{q}_s"] = nearest_rank(gaps, q / 100)
        slow = nearest_rank(ratio, q / 100)
        found[f"pace_p{q}"] = 1.0 / slow if slow else None
    cuts = np.flatnonzero(np.diff(stream)) + 1
    pairs = zip(np.split(t, cuts), np.split(audio, cuts), strict=True)
    stall = np.array([paused(a, d, held) for a, d in pairs if len(a) > 1])
    if len(stall):
        found["stalled_share"] = float((stall > ROUNDING).mean())
        found["stall_total_s"] = float(stall.sum())
    return found


def paused(t: np.ndarray, audio: np.ndarray, held: float) -> float:
    """Seconds of silence in a stream whose player starts with ``held`` seconds (or all of them) in
    hand and pauses when empty: the largest lateness against a clock that never pauses."""
    got = np.cumsum(audio)
    begin = min(int(np.searchsorted(got, held - ROUNDING)), len(t) - 1)
    late = t[begin + 1 :] - t[begin] - got[begin:-1]
    return float(max(late.max(initial=0.0), 0.0))
