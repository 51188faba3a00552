"""What a benchmark client would have printed: one replica under a load, percentiles by name.

Loads: ``closed`` (c requests always in flight, as ``experiment.rung``), ``burst`` (c requests at
one instant, as many a test script does), ``poisson`` (so many requests per second).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from voicesim.engine import layout as at
from voicesim.engine.pool import Pool, record
from voicesim.engine.record import RunRecord
from voicesim.experiment.rung import Load, run
from voicesim.metrics.summary import nearest_rank
from voicesim.workload.tape import Tape

LOADS = ("closed", "burst", "poisson")
WITHIN = {"c50": 0.05, "c100": 0.1, "c200": 0.2}
"""Continuity: share of the replies of several chunks whose largest stall stays within (s)."""
METRICS = (
    "rtf", "rtf_aggregate", "throughput", "xrt", "tokens_per_s", "itl", "latency", "ttft", "ttfa",
    "ttfb", *WITHIN,
)  # fmt: skip
STATS = {"mean": None, "p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}


@dataclass(frozen=True)
class Served:
    """Replies of one run (s): latency, first audio, first chunk out of the decoder, audio; largest
    stall of those of several chunks.  requests_per_s, audio_per_s: made.  token_audio: of a step
    (s)."""

    latency: np.ndarray
    first: np.ndarray
    decoded: np.ndarray
    audio: np.ndarray
    stall: np.ndarray
    requests_per_s: float
    audio_per_s: float
    token_audio: float

    def value(self, metric: str, stat: str, after_first: bool = False) -> float:
        """A number by its names, SI; nan where the run cannot tell.

        after_first: RTF is (end - first audio) / audio, as some clients count.
        """
        match metric:
            case "throughput":
                return self.requests_per_s
            case "xrt":
                return self.audio_per_s
            case "rtf_aggregate":
                return 1.0 / self.audio_per_s
            case "tokens_per_s":
                return self.audio_per_s / self.token_audio
            case "latency":
                each = self.latency
            case "ttfa" | "ttft":
                each = self.first
            case "ttfb":
                each = self.decoded
            case "rtf":
                each = (self.latency - (self.first if after_first else 0.0)) / self.audio
            case "itl":
                gaps = np.maximum(self.audio / self.token_audio - 1.0, 1.0)
                each = (self.latency - self.first) / gaps
            case _:
                return float((self.stall <= WITHIN[metric]).mean()) if len(self.stall) else np.nan
        share = STATS[stat]
        if share is None:
            return float(each.mean())
        return float(nearest_rank(each, share) or np.nan)


def serve(
    load: Load, kind: str, level: float, seed: int = 0, least: int = 400, requests: int = 0
) -> Served:
    """Play one load: ``level`` requests in flight, at once or per second; ``least`` replies.

    requests: of a closed loop that ends after so many (0: it goes on).  Towards the end fewer are
    in flight, and its throughput, over the whole of it, counts that.
    """
    if kind == "closed" and requests:
        rounds = max(1, least // requests)
        return _batches(load, requests, round(level), seed, rounds)
    if kind == "closed":
        callers = round(level)
        played = run(load, callers, seed, least)
        counted = _served(load, played.record, played.tape, played.counted)
        mean = float(counted.latency.mean())
        per_s = callers / mean  # Little: exact for the callers outside the engine, too
        return replace(counted, requests_per_s=per_s, audio_per_s=per_s * counted.audio.mean())
    if kind == "burst":
        rounds = 1 if load.sigma == 0 else max(1, least // (4 * round(level)))
        return _batches(load, round(level), round(level), seed, rounds)
    return _poisson(load, level, seed, max(least, 400))


def _served(load: Load, r: RunRecord, tape: Tape, counted: slice) -> Served:
    z, ints = r.utterance_f[counted], r.utterance_i[counted]
    of = r.chunk_i[:, at.L_UTT]
    first = (r.chunk_i[:, at.L_INDEX] == 0) & (of >= counted.start) & (of < counted.stop)
    ready = np.zeros(len(z))
    ready[of[first] - counted.start] = r.chunk_f[first, at.M_READY]
    return Served(
        latency=z[:, at.Z_DONE] - z[:, at.Z_ADMIT],
        first=z[:, at.Z_START] - z[:, at.Z_ADMIT],
        decoded=ready - z[:, at.Z_ADMIT] + load.outside,
        audio=tape.tokens[counted] * load.token_audio,
        stall=z[ints[:, at.R_CHUNKS] >= 2, at.Z_STALL_MAX],
        requests_per_s=np.nan,
        audio_per_s=np.nan,
        token_audio=load.token_audio,
    )


def _all(
    load: Load, arrival: np.ndarray, callers: int, seed: int, key: int
) -> tuple[Served, float]:
    """All replies of these arrivals, ``callers`` in flight at most, and the time they took (s)."""
    tape = replace(load.tape(len(arrival), key), arrival=arrival)
    pool = Pool(replace(load.spec(callers, seed), max_num_seqs=4096), tape)
    now, slice_s = 0.0, max(0.25 * float(arrival[-1]), 1.0)
    while (pool.section(at.O_RES)[:, at.R_OUTCOME] == at.PENDING).any():
        now += slice_s
        pool.advance(now)
    r = record(pool)
    return _served(load, r, tape, slice(0, len(arrival))), float(r.utterance_f[:, at.Z_DONE].max())


def _batches(load: Load, requests: int, callers: int, seed: int, rounds: int) -> Served:
    """So many requests, all there at time 0, ``callers`` at a time; over and over."""
    runs = [_all(load, np.zeros(requests), callers, seed, 1000 * seed + k) for k in range(rounds)]
    wall = sum(seconds for _, seconds in runs)
    each = _join([one for one, _ in runs])
    return replace(
        each, requests_per_s=rounds * requests / wall, audio_per_s=each.audio.sum() / wall
    )


def _poisson(load: Load, rate: float, seed: int, replies: int) -> Served:
    """Open loop; the first tenth is not counted."""
    gaps = np.random.default_rng((load.base_seed, seed)).exponential(1.0 / rate, replies)
    arrival = np.cumsum(gaps)
    every, _ = _all(load, arrival, replies, seed, seed)
    late = slice(replies // 10, replies)
    return Served(
        latency=every.latency[late],
        first=every.first[late],
        decoded=every.decoded[late],
        audio=every.audio[late],
        stall=every.stall,
        requests_per_s=rate,
        audio_per_s=rate * float(every.audio.mean()),
        token_audio=every.token_audio,
    )


def _join(runs: Sequence[Served]) -> Served:
    return replace(
        runs[0],
        latency=np.concatenate([r.latency for r in runs]),
        first=np.concatenate([r.first for r in runs]),
        decoded=np.concatenate([r.decoded for r in runs]),
        audio=np.concatenate([r.audio for r in runs]),
        stall=np.concatenate([r.stall for r in runs]),
    )
