"""One rung of a ladder: a closed loop of c callers on one replica, in steady state.

A caller asks, gets the last byte and at once asks again, as in a benchmark at a fixed concurrency:
c requests are always in flight.  (A caller who also listens to the end is in flight for a part of
the time only, so a card serves more listeners than that; c is what a cap on live streams counts.)
Here all requests stand in one queue that lets c in at a time: request = the moment of entry.

Replies are lognormal; reply u of a seed is the same at every c.  The first replies are dropped,
and the counted ones are a block in order of entry, played until the last of them is complete, so
that long replies are not left out.
"""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np

from voicesim.engine import layout as at
from voicesim.engine.cost import HOST, HOST_PER_CHUNK
from voicesim.engine.pool import Pool, record
from voicesim.engine.profile import Profile
from voicesim.engine.record import RunRecord
from voicesim.engine.spec import CodecSpec, PoolSpec
from voicesim.listener.player import ROUNDING
from voicesim.metrics.summary import nearest_rank
from voicesim.policy.admission import CAP_QUEUE
from voicesim.workload.lengths import draw
from voicesim.workload.rng import Purpose, run_seed
from voicesim.workload.tape import Tape

SIGMA = 0.6
"""Of the logarithm of a reply's length: the 99 % point is 3.4 times the mean."""
MOST_TOKENS = 8192
BUDGET = 2048
QUEUES = ("fifo", "window", "edf")
AUDIBLE = 0.1  # s, the field's C100

Rung = dict[str, float | None]


@dataclass(frozen=True)
class Load:
    """The card and what is asked of it.

    audio: mean of a reply (s).  prompt: tokens.  chunks: tokens of the first chunk, the ramp and
    the steady one.  codec_cap: rows of a codec batch.  left_context: frames that the codec
    computes again with each chunk.  codec_queue: fifo, edf, or window with codec_window streams
    at a time.  sigma: of the logarithm of a reply's length (0: all alike).  budget: tokens of a
    step at most (twice the callers, if that is more).  base_seed: of all random numbers.
    as_measured: which of these are the profile's own (``Profile.played``); only told.
    """

    profile: Profile
    audio: float = 8.0
    prompt: int = 60
    chunks: tuple[int, ...] = (4, 8, 16, 25)
    codec_cap: int = 8
    left_context: int = 0
    codec_queue: str = "fifo"
    codec_window: int = 0
    sigma: float = SIGMA
    budget: int = BUDGET
    base_seed: int = 0
    as_measured: tuple[str, ...] = ()

    @property
    def token_audio(self) -> float:
        """Audio of a decode step (s)."""
        return self.profile.token_audio_s or 0.0

    @property
    def outside(self) -> float:
        """What a request takes outside engine and codec (s)."""
        return self.profile.request_s.value if self.profile.request_s else 0.0

    def spec(self, callers: int, seed: int) -> PoolSpec:
        """The replica under ``callers``; KV cache without bound, no network."""
        profile = self.profile
        budget = max(self.budget, 2 * callers)
        step = profile.step_cost(budget)
        word = run_seed(self.base_seed, seed)
        return PoolSpec(
            engines=1,
            step=step,
            schedule=self.chunks,
            codec=None if profile.codec is None else self.codec(),
            token_audio=self.token_audio,
            max_num_seqs=max(256, callers),
            budget=budget,
            overlap=bool(step.params[8]),
            noise=profile.noise_table() if profile.noise else None,
            decode_slowdown=profile.sharing.decode_slowdown.value,
            codec_slowdown=profile.sharing.codec_slowdown.value,
            horizon=1e9,
            end=1e9,
            resolution=1e9,
            seed=word - (1 << 64) if word >= 1 << 63 else word,
            admission=CAP_QUEUE,
            limit=callers,
            delay=self.outside,
            record_chunks=True,
        )

    def codec(self) -> CodecSpec:
        """The codec stage, on the decoder's GPU."""
        return CodecSpec(
            cost=self.profile.codec_cost(),
            left_context=self.left_context,
            cap=self.codec_cap,
            queue=QUEUES.index(self.codec_queue),
            window=self.codec_window,
        )

    def tape(self, replies: int, seed: int) -> Tape:
        """So many replies, all of them asked for at time 0."""
        law = SimpleNamespace(kind="lognormal", params={"mean": self.audio, "sigma": self.sigma})
        if self.sigma == 0:
            law = SimpleNamespace(kind="constant", params={"value": self.audio})
        audio = draw(law, replies, self.base_seed, seed, Purpose.AUDIO)
        tokens = np.clip(np.ceil(audio / self.token_audio - 1e-9), 1, MOST_TOKENS)
        return Tape(
            arrival=np.zeros(replies),
            first=np.arange(replies + 1),
            tokens=tokens.astype(np.int64),
            prompt=np.full(replies, self.prompt, np.int64),
            think=np.zeros(replies),
            patience=np.full(replies, np.inf),
            clipped=0,
            closed=False,
            callers=0,
        )


@dataclass(frozen=True)
class Window:
    """What is counted: replies first .. last - 1, and the time from ``since`` to ``until`` (s)."""

    first: int
    last: int
    since: float
    until: float
    busy: dict[str, float]  # seconds by stage


@dataclass(frozen=True)
class Played:
    """A rung as it ran.  inside: callers in the engine at a time (the others are on their way)."""

    record: RunRecord
    spec: PoolSpec
    tape: Tape
    window: Window
    inside: int

    @property
    def counted(self) -> slice:
        """The replies that count."""
        return slice(self.window.first, self.window.last)


def play(load: Load, callers: int, seed: int) -> Rung:
    """One rung under one seed, numbers by name (seconds, shares; None: not measured).

    pace_p99: the slowest 1 % of chunks, audio / gap before it.  ttfa: request to first audio.
    e2e_s, rtf: means over requests of request to last byte, and that / audio.  xrt: audio
    seconds made per second.  stalled_share: replies of several chunks that stall at all; c100:
    those whose largest stall is within 100 ms.  busy: share of the time.  in_flight: latency x
    throughput, which must equal the callers.  events: simulated in the last try.
    """
    played = run(load, callers, seed)
    events = played.record.counters["events"]
    return {"callers": callers, "seed": seed, **measure(played, callers), "events": events}


def run(load: Load, callers: int, seed: int, least: int = 400) -> Played:
    """Play one rung; at least so many replies count.

    What a request takes outside the engine keeps its caller out of it: c callers are then as many
    inside as leave c in all (their share of the latency, to the nearest whole caller).
    """
    played = _run(load, callers, seed, least)
    if load.outside == 0:
        return played
    for _ in range(2):
        z = played.record.utterance_f[played.counted]
        latency = float((z[:, at.Z_DONE] - z[:, at.Z_ADMIT]).mean())
        inside = max(1, round(callers * (latency - load.outside) / latency))
        if inside == played.inside:
            break
        played = _run(load, inside, seed, least)
    return played


def _run(load: Load, callers: int, seed: int, least: int) -> Played:
    warm, count = max(4 * callers, least // 10), max(20 * callers, least)
    behind = 10 * callers
    while True:
        tape = load.tape(warm + count + behind, seed)
        spec = load.spec(callers, seed)
        pool = Pool(spec, tape)
        window = _play_window(pool, load, callers, warm, warm + count)
        if window is not None:
            return Played(record(pool), spec, tape, window, callers)
        behind *= 2  # a very long reply outlived all that stood behind it


def _play_window(pool: Pool, load: Load, callers: int, first: int, last: int) -> Window | None:
    """Play until replies first .. last - 1 are complete; None if fewer than c were in flight."""
    tokens = load.audio / load.token_audio
    step = load.profile.predict(callers, load.prompt + tokens / 2)
    slice_s = max(0.5 * tokens * step, 1e-3)
    now = 0.0

    def settled() -> np.ndarray:
        return pool.section(at.O_RES)[:, at.R_OUTCOME] != at.PENDING

    while np.count_nonzero(settled()) < first:
        now += slice_s
        pool.advance(now)
    since, before = now, record(pool).busy
    while not settled()[first:last].all():
        now += slice_s
        pool.advance(now)
    if np.count_nonzero(settled()) + callers > len(settled()):
        return None
    busy = {name: float(s.sum() - before[name].sum()) for name, s in record(pool).busy.items()}
    return Window(first, last, since, now, busy)


def measure(played: Played, callers: int) -> Rung:
    """The numbers of a rung (see ``play``)."""
    r, spec, tape, window = played.record, played.spec, played.tape, played.window
    ints, floats = r.utterance_i, r.utterance_f
    counted = played.counted
    latency = floats[:, at.Z_DONE] - floats[:, at.Z_ADMIT]
    ttfa = (floats[:, at.Z_START] - floats[:, at.Z_ADMIT])[counted]
    audio = tape.tokens * spec.token_audio
    largest = floats[counted, at.Z_STALL_MAX][ints[counted, at.R_CHUNKS] >= 2]
    seconds = window.until - window.since
    arrived = r.chunk_f[:, at.M_ARRIVE]
    made = r.chunk_f[(arrived > window.since) & (arrived <= window.until), at.M_AUDIO].sum()
    done = floats[:, at.Z_DONE]
    ended = (ints[:, at.R_OUTCOME] == at.COMPLETED) & (done > window.since) & (done <= window.until)
    rate = float(ended.sum() / seconds)
    whole = 1.0  # callers inside are whole numbers: what that leaves out
    if spec.delay > 0:
        mean = float(latency[counted].mean())
        whole = callers / mean / (played.inside / (mean - spec.delay))
    slow = nearest_rank(gaps(r, window), 0.99)
    busy = {name: value / seconds for name, value in window.busy.items()}
    several = bool(len(largest))
    of = r.chunk_i[:, at.L_UTT]
    first = (r.chunk_i[:, at.L_INDEX] == 0) & (of >= window.first) & (of < window.last)
    of = of[first]
    return {
        "pace_p99": 1.0 / slow if slow else None,
        "decoded_p50_s": nearest_rank(r.chunk_f[first, at.M_READY] - floats[of, at.Z_ADMIT], 0.5),
        "ttfa_p50_s": nearest_rank(ttfa, 0.5),
        "ttfa_p95_s": nearest_rank(ttfa, 0.95),
        "e2e_s": float(latency[counted].mean()),
        "rtf": float((latency / audio)[counted].mean()),
        "xrt": float(made / seconds) * whole,
        "requests_per_s": rate * whole,
        "stalled_share": float((largest > ROUNDING).mean()) if several else None,
        "c100": float((largest <= AUDIBLE).mean()) if several else None,
        "busy_decode": busy["decode"],
        "busy_host": busy["host"] if spec.step.params[HOST : HOST_PER_CHUNK + 1].any() else None,
        "busy_codec": busy["codec"] if spec.codec else None,
        "in_flight": float(latency[ended].sum() / seconds) * whole,
    }


def gaps(r: RunRecord, window: Window) -> np.ndarray:
    """Gap before a chunk / its audio, for all chunks but the first of the counted replies."""
    utterance, index = r.chunk_i[:, at.L_UTT], r.chunk_i[:, at.L_INDEX]
    order = np.lexsort((index, utterance))
    order = order[(utterance[order] >= window.first) & (utterance[order] < window.last)]
    follows = np.flatnonzero(index[order][1:] > 0) + 1
    arrived = r.chunk_f[order, at.M_ARRIVE]
    return np.diff(arrived)[follows - 1] / r.chunk_f[order, at.M_AUDIO][follows]
