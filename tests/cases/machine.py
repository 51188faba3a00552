"""A card like the ones in the field's reports, and the ways in which they were loaded.

Decoder: 7.2 ms a step alone, 12 ms at 48 streams (a 1.7B talker on an H100).  Codec: 7.1 ms a
batch + 0.09 ms a frame, on the same card.  While both run a decode step takes 1.5 times and a
codec batch 1.4 times as long.  ``slow_codec`` stretches the codec alone, for the smaller cards and
heavier vocoders of some reports.
"""

from types import SimpleNamespace

import numpy as np

from tests.engine.worlds import tape_of
from voicesim.engine import layout as at
from voicesim.engine.cost import StepCost
from voicesim.engine.pool import Pool, record
from voicesim.engine.record import RunRecord
from voicesim.engine.spec import CodecSpec, PoolSpec
from voicesim.workload.tape import Tape, draw_tape

FRAME = 0.08  # s of audio a token
PROMPT = 32
DECODE = StepCost(np.zeros(9), 0.0072 + (0.012 - 0.0072) / 47 * np.maximum(0, np.arange(4097) - 1))


def codec(slow_codec: float = 1.0, **more) -> CodecSpec:
    return CodecSpec(slow_codec * np.array([0.0071, 0.0, 0.00009]), **more)


def card(schedule=(1, 25), **more) -> PoolSpec:
    fixed = {
        "codec": codec(), "decode_slowdown": 1.5, "codec_slowdown": 1.4, "token_audio": FRAME,
        "horizon": 600.0, "end": 2000.0, "resolution": 1.0, "record_chunks": True,
    }  # fmt: skip
    return PoolSpec(engines=1, step=DECODE, schedule=tuple(schedule), **{**fixed, **more})


def play(spec: PoolSpec, tape: Tape) -> RunRecord:
    pool = Pool(spec, tape)
    pool.advance(spec.end)
    return record(pool)


def replies(n: int, seed: int, seconds: float = 6.0) -> np.ndarray:
    """Tokens of n replies, gamma with coefficient of variation 0.5, at least 1 s."""
    audio = np.random.default_rng(seed).gamma(4, seconds / 4, n)
    return np.maximum(13, np.ceil(audio / FRAME)).astype(np.int64)


def together(n: int, seed: int = 0, seconds: float = 6.0, within: float = 0.5) -> Tape:
    """n callers who ask within half a second."""
    start = np.sort(np.random.default_rng((seed, n)).uniform(0, within, n))
    return tape_of(start, replies(n, seed, seconds), np.full(n, PROMPT))


def steady(rate: float, horizon: float, seed: int = 0, seconds: float = 6.0) -> Tape:
    """Poisson callers."""
    n = int(rate * horizon)
    start = np.cumsum(np.random.default_rng((seed, 1)).exponential(1 / rate, n))
    return tape_of(start, replies(n, seed, seconds), np.full(n, PROMPT))


def always(callers: int, horizon: float, seed: int = 0, seconds: float = 6.0) -> Tape:
    """Callers who listen to a reply and ask for the next at once, for ``horizon`` seconds."""
    law = SimpleNamespace(kind="gamma", params={"mean": seconds, "cv": 0.5})
    prompt = SimpleNamespace(kind="constant", params={"value": float(PROMPT)})
    workload = SimpleNamespace(
        arrivals=SimpleNamespace(kind="closed", callers=callers, stagger=seconds),
        think=None, patience=None, utterances_per_session=None,
        utterance=SimpleNamespace(audio=law, tokens=None, prompt_tokens=prompt, shared_prefix=0),
    )  # fmt: skip
    return draw_tape(workload, horizon, seed, 0, FRAME, 4096)


class Heard:
    """What the listeners of a run say, over the streams that asked at ``since`` or later."""

    def __init__(self, r: RunRecord, since: float = 0.0, until: float = np.inf):
        i, z = r.utterance_i, r.utterance_f
        asked = (z[:, at.Z_REQUEST] >= since) & (z[:, at.Z_REQUEST] < until)
        self.asked = asked & (i[:, at.R_OUTCOME] != at.PENDING)
        self.rows = self.asked & (i[:, at.R_OUTCOME] == at.COMPLETED)
        self.refused = int((self.asked & (i[:, at.R_OUTCOME] == at.REFUSED)).sum())
        several = self.rows & (i[:, at.R_CHUNKS] > 1)
        self.record = r
        self.first_audio = (z[:, at.Z_START] - z[:, at.Z_REQUEST])[self.rows]
        self.requested = z[self.rows, at.Z_REQUEST]
        self.largest = z[several, at.Z_STALL_MAX]
        self.total = z[several, at.Z_STALL]

    def continuity(self, threshold: float = 0.1) -> float:
        """C100: share of the replies of several chunks whose largest stall is within 100 ms."""
        return float((self.largest <= threshold).mean())

    def p50(self) -> float:
        return float(np.median(self.first_audio))


def gaps(r: RunRecord, first: int = 1, until: float = np.inf) -> np.ndarray:
    """Seconds between successive chunks of one stream, from seam ``first`` on and up to a time."""
    order = np.lexsort((r.chunk_i[:, at.L_INDEX], r.chunk_i[:, at.L_UTT]))
    who, index = r.chunk_i[order, at.L_UTT], r.chunk_i[order, at.L_INDEX]
    t = r.chunk_f[order, at.M_ARRIVE]
    return np.diff(t)[(np.diff(who) == 0) & (index[1:] > first) & (t[1:] <= until)]
