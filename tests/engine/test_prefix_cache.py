"""The shared prefix of all prompts: computed once, its KV blocks held once (vLLM V1, one prefix).

Worked by hand: blocks of 4 tokens, a prefix of 10 (two whole blocks: 8 tokens can be hit), prompts
of 14 tokens (4 blocks, 3 for the reply: token 15 to 17 and so one more block).
"""

import numpy as np
import pytest

from tests.engine.worlds import random_world, step_cost, tape_of
from voicesim.engine.pool import Pool, record
from voicesim.engine.reference import run_reference
from voicesim.engine.spec import PoolSpec

STEP = 0.01


def play(arrival, tokens, prompt, **more):
    spec = dict(
        engines=1, step=step_cost(memory=0.0, per_kv=0.0, base=STEP, per_token=0.0),
        schedule=(1 << 40,), block_size=4, prefix=10, budget=64, horizon=1.0, end=10.0,
    )  # fmt: skip
    spec = PoolSpec(**(spec | more))
    pool = Pool(spec, tape_of(arrival, tokens, prompt))
    pool.advance(spec.end)
    return record(pool)


def test_the_second_stream_computes_only_what_is_its_own():
    r = play([0.0, 0.105, 0.205], [3, 3, 3], [14, 14, 14])
    assert r.counters["prefill_tokens"] == 14 + 2 * (14 - 8)
    assert r.counters["cached_tokens"] == 2 * 8
    off = play([0.0, 0.105, 0.205], [3, 3, 3], [14, 14, 14], prefix=0)
    assert off.counters["prefill_tokens"] == 3 * 14 and off.counters["cached_tokens"] == 0


def test_a_hit_in_the_same_step():
    """vLLM caches a block when it is allocated: the second of two that come together hits."""
    r = play([0.0, 0.0], [3, 3], [14, 14])
    assert r.counters["prefill_tokens"] == 14 + 6


def test_less_than_a_block_is_never_hit():
    r = play([0.0, 0.105], [3, 3], [14, 14], prefix=3)
    assert r.counters["cached_tokens"] == 0


@pytest.mark.parametrize("prefix, live", [(0, 3), (10, 5)])
def test_cache_hits_are_capacity(prefix, live):
    """A stream of 14 + 3 tokens computes 16: 4 blocks.  12 usable blocks hold 3 of them, or, with
    2 blocks in common, (12 - 2) / (4 - 2) = 5."""
    r = play([0.0] * 8, [3] * 8, [14] * 8, prefix=prefix, blocks=12, budget=512)
    started = np.round(r.utterance_f[:, 1] / STEP)  # admitted to the engine: all at once
    assert (started == 0).all()
    done = np.round(r.utterance_f[:, 3] / STEP)  # three steps for each wave that fits
    assert [int((done == 3 * wave).sum()) for wave in (1, 2, 3)] == (
        [live, live, 8 - 2 * live] if prefix == 0 else [live, 3, 0]
    )
    assert r.counters["preemptions"] == 0


def test_a_long_prefix_in_chunks_is_hit_only_when_it_is_whole():
    """Budget 6: the first prompt takes steps of 6, 6, 2 tokens; the second begins in the third
    with the 4 tokens left there, having hit 8 of its 14."""
    r = play([0.0, 0.0], [2, 2], [14, 14], budget=6)
    assert r.counters["prefill_tokens"] == 20
    assert list(np.round(r.utterance_f[:, 3] / STEP)) == [4, 5]


def test_every_prompt_token_is_computed_or_hit():
    """Without preemption, over random worlds: computed + hit = prompts of those who started."""
    seen = hits = 0
    for seed in range(60):
        spec, tape = random_world(
            seed, may_close=False, blocks=1 << 30, admission=0, max_engine_queue=1 << 40
        )
        tape.patience[:] = np.inf
        spec = PoolSpec(**{**vars(spec), "end": 400.0})
        r = run_reference(spec, tape)
        assert r.counters["preemptions"] == 0
        total = r.counters["prefill_tokens"] + r.counters["cached_tokens"]
        assert total == tape.prompt.sum()
        seen += 1
        hits += r.counters["cached_tokens"] > 0
    assert seen == 60 and hits > 15
