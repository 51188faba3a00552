"""Play a small world in kernel and reference and say when every token came, in ms."""

import numpy as np

from tests.engine.worlds import differences, tape_of
from voicesim.engine import layout as at
from voicesim.engine.cost import OVERLAP, StepCost
from voicesim.engine.pool import Pool, record
from voicesim.engine.record import RunRecord
from voicesim.engine.reference import run_reference
from voicesim.engine.spec import PoolSpec


def step_ms(ms, overlap: bool = False) -> StepCost:
    """A step of ms(n) milliseconds for n tokens."""
    params = np.zeros(9)
    params[OVERLAP] = float(overlap)
    return StepCost(params, np.array([ms(n) / 1000 for n in range(513)], float))


def played(step: StepCost, callers, **more) -> RunRecord:
    """callers: (arrival in ms, prompt, tokens).  One chunk a token, so that each is logged."""
    arrival, prompt, tokens = zip(*callers, strict=True)
    spec = PoolSpec(
        engines=1, step=step, schedule=(1,), end=60.0, horizon=60.0, resolution=60.0,
        record_chunks=True, token_audio=0.08, **more,
    )  # fmt: skip
    tape = tape_of(np.array(arrival) / 1000, tokens, prompt)
    pool = Pool(spec, tape)
    pool.advance(spec.end)
    kernel = record(pool)
    assert differences(kernel, run_reference(spec, tape)) == []
    return kernel


def token_ms(r: RunRecord) -> list[list[float]]:
    """When each token of each caller was ready (ms, to the microsecond)."""
    out: list[list[float]] = [[] for _ in r.utterance_i]
    for (u, index, *_), (ready, *_) in zip(r.chunk_i, r.chunk_f, strict=True):
        assert index == len(out[u])  # in order, none twice
        out[u].append(round(1000 * float(ready), 3))
    return out


def preemptions(r: RunRecord) -> list[int]:
    return r.utterance_i[:, at.R_PREEMPTS].tolist()
