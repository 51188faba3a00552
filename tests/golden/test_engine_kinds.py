"""SGLang, TensorRT-LLM and decode first, step by step, against traces worked by hand.

Sources: SGLang managers/schedule_policy.py, schedule_batch.py, scheduler.py
(https://github.com/sgl-project/sglang); TensorRT-LLM batch_manager/capacityScheduler.cpp
(https://github.com/NVIDIA/TensorRT-LLM); decode first
https://github.com/vllm-project/vllm-omni/pull/6377.  A step of n tokens takes 10 + n ms; A1 is A's
first token; "A 8" means 8 prompt tokens of A.
"""

import pytest

from tests.golden.traces import played, preemptions, step_ms, token_ms
from voicesim.engine.kinds import (
    DECODE_FIRST,
    MAX_UTILIZATION,
    NO_EVICT,
    SGLANG,
    first_ratio,
    next_ratio,
    ratio_after_retraction,
)

LINE = step_ms(lambda n: 10 + n)


# --- SGLang -----------------------------------------------------------------------------------


def test_sglang_pauses_decodes_for_a_prompt():
    """0-14: A 4.  14-30: B 6 alone, A pauses.  30-42: both.  42-53-64: A, its end."""
    two = [(0, 4, 4), (5, 6, 2)]
    r = played(LINE, two, kind=SGLANG, block_size=1)
    assert token_ms(r) == [[14, 42, 53, 64], [30, 42]]
    mixed = played(LINE, two, kind=SGLANG, block_size=1, mixed_chunk=True)
    assert token_ms(mixed) == [[14, 31, 43, 54], [31, 43]]  # as vLLM


def test_sglang_goes_on_with_a_long_prompt_before_all_decodes():
    """Chunks of 4.  0-14: A 4.  14-28, 28-42, 42-53: B 4, 4, 1 (B1).  53-65: both.  65-76: A."""
    r = played(LINE, [(0, 4, 3), (5, 9, 2)], kind=SGLANG, block_size=1, budget=4)
    assert token_ms(r) == [[14, 65, 76], [53, 65]]


def test_sglang_reserves_the_prompt_the_declared_and_a_share_of_the_running():
    """Each declares 10.  40 tokens of KV, prompts of 8.  A: 8 + 10 < 40.  B, in the same batch:
    18 < 40 - 8 - 10 = 22.  C: 18 < 40 - 16 - 20 = 4 is false, and is not looked at again before
    the batch shrinks.  0-26: A 8 + B 8.  26-38: both (A2, B2: B's end), 38-49: A3 (the batch is
    smaller).  At 49 free = 40 - 10 = 30, of A's 7 to come ratio 0.7 less two decays is held:
    18 < 30 - 4.9: C 8, 49-67 (C1), A pauses.  67-79: A4, C2 (their ends)."""
    three = [(0, 8, 4), (0, 8, 2), (0, 8, 2)]
    r = played(LINE, three, kind=SGLANG, block_size=1, blocks=40, max_new=10)
    assert token_ms(r) == [[26, 38, 49, 79], [26, 38], [67, 79]]
    # with 44 tokens all three still do not fit together: 18 < 44 - 16 - 20 = 8 is false; 55: 19
    r = played(LINE, three, kind=SGLANG, block_size=1, blocks=55, max_new=10)
    assert token_ms(r)[2][0] == 34


def test_sglang_sends_back_who_has_fewest_tokens_then_the_longest_prompt():
    """Ratio 0.007, 27 tokens of KV.  A (prompt 4) and B (prompt 6, at 5) take the 10 they declare.
    0-14: A 4.  At 14 A holds 4 and 0.007 of its 9 to come: 6 + 10 < 23 - 0.06.  14-30: B 6, A
    pauses.  Two a step of 12 ms: the 17 free tokens last 8 steps, to 126 (9 tokens each, KV 12 and
    14).  Then one token is free and two are wanted: both have 9, so the longer prompt, B, is sent
    back.  A10 at 137, its end.  137-162: B 6 + 9 (B10)."""
    two = [(0, 4, 10), (5, 6, 10)]
    r = played(LINE, two, kind=SGLANG, block_size=1, blocks=27, max_new=10, conservativeness=0.01)
    decodes = [42, 54, 66, 78, 90, 102, 114, 126]
    assert token_ms(r) == [[14, *decodes, 137], [30, *decodes, 162]]
    assert preemptions(r) == [0, 1]
    assert r.counters["recomputed_tokens"] == 14


def test_sglang_puts_the_retracted_at_the_end_of_the_line():
    """As above, but C (prompt 1, 1 token) comes at 60.  At 66 11 tokens are free: 1 + 10 < 11 - 0.1
    is false.  At 126 B is sent back and stands behind C.  At 137 C starts, with 27 - 1 - 10 = 16
    left for B: 16 < 16 is false.  137-148: C1, its end.  148-173: B."""
    three = [(0, 4, 10), (5, 6, 10), (60, 1, 1)]
    r = played(LINE, three, kind=SGLANG, block_size=1, blocks=27, max_new=10, conservativeness=0.01)
    assert token_ms(r)[2] == [148]
    assert token_ms(r)[1][-1] == 173


def test_sglangs_ratio():
    """0.7 to 0.098 in 600 decode steps; conservativeness 2 is cut to 1; after a retraction of 2
    streams that stay with 30 tokens of 200 declared (30 + 40) / 201."""
    ratio = first_ratio(1.0)
    assert ratio == 0.7
    for _ in range(300):
        ratio = next_ratio(ratio, 0.7)
    assert ratio == pytest.approx((0.7 + 0.098) / 2)
    for _ in range(400):
        ratio = next_ratio(ratio, 0.7)
    assert ratio == pytest.approx(0.098)
    assert first_ratio(2.0) == 1.0
    assert ratio_after_retraction(30, 2, 200) == pytest.approx(70 / 201)
    assert ratio_after_retraction(300, 2, 200) == 1.0


# --- TensorRT-LLM -----------------------------------------------------------------------------


def test_no_evict_counts_what_is_declared():
    """Blocks of 4, 6 of them; prompts of 4, 12 declared: 4 blocks each.  B waits for A's end though
    both would fit (2 tokens each: 2 blocks).  0-14-25: A.  25-39-50: B."""
    two = [(0, 4, 2), (0, 4, 2)]
    r = played(LINE, two, kind=NO_EVICT, block_size=4, blocks=6, max_new=12)
    assert token_ms(r) == [[14, 25], [39, 50]]
    declared = played(LINE, two, kind=NO_EVICT, block_size=4, blocks=6, max_new=8)
    assert token_ms(declared) == [[18, 30], [18, 30]]


def test_no_evict_never_pauses():
    """The world of vLLM's preemption: 4 blocks, A 10 tokens, B 6.  A declares 10: 14 tokens, 4
    blocks, so B starts at A's end: 14 + 9 x 11 = 113."""
    r = played(LINE, [(0, 4, 10), (0, 4, 6)], kind=NO_EVICT, block_size=4, blocks=4, max_new=10)
    assert preemptions(r) == [0, 0]
    assert token_ms(r)[0][-1] == 113 and token_ms(r)[1][0] == 127


def test_max_utilization_pauses_the_last_started():
    """As vLLM's preemption and recompute: both start, B is paused at 66 and comes back at 121."""
    r = played(LINE, [(0, 4, 10), (0, 4, 6)], kind=MAX_UTILIZATION, block_size=4, blocks=4)
    assert preemptions(r) == [0, 1]
    assert token_ms(r)[0] == [18, 30, 42, 54, 66, 77, 88, 99, 110, 121]
    assert token_ms(r)[1][-1] == 121 + 10 + 9


def test_tensorrt_takes_a_prompts_blocks_at_once():
    """4 blocks of 4, 5 tokens a step.  0-15: A 4 + B 1; B, of 12, has 3 blocks at once: at 15 A's
    5th token finds none and the last started, B, is paused.  vLLM gives B a block at a time: at 15
    one is left for each, and at 30 A is gone."""
    two = [(0, 4, 2), (0, 12, 1)]
    more = dict(block_size=4, blocks=4, budget=5, max_num_seqs=4)
    whole = played(LINE, two, kind=MAX_UTILIZATION, **more)
    assert preemptions(whole) == [0, 1]
    assert preemptions(played(LINE, two, **more)) == [0, 0]


# --- decode first -----------------------------------------------------------------------------


def test_decode_first_waits_until_nobody_decodes():
    """0-14: A 4.  14-25-36-47: A.  47-63: B 6, C 4 = 10 tokens: 67.  67-79: both."""
    three = [(0, 4, 4), (5, 6, 2), (20, 4, 2)]
    r = played(LINE, three, kind=DECODE_FIRST)
    assert token_ms(r) == [[14, 25, 36, 47], [67, 79], [67, 79]]


def test_or_every_few_decode_steps():
    """interleave 2: 0-14: A 4.  14-25-36: A2, A3.  36-56: B 6 + C 4 alone.  56-69: all three."""
    three = [(0, 4, 4), (5, 6, 2), (20, 4, 2)]
    r = played(LINE, three, kind=DECODE_FIRST, interleave=2)
    assert token_ms(r) == [[14, 25, 36, 69], [56, 69], [56, 69]]
