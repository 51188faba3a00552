"""vLLM V1's schedule(), step by step, against traces worked by hand.

Source: vllm/v1/core/sched/scheduler.py (https://github.com/vllm-project/vllm), `schedule` and
`update_from_output`; async scheduling: vllm/v1/core/sched/async_scheduler.py.  Unless a test says
otherwise a step of n tokens takes 10 + n ms, so the time of each token tells what was in the
step.  KV blocks hold 4 tokens.  A1 is A's first token; "A 8" means 8 prompt tokens of A.
"""

from tests.golden.traces import played, preemptions, step_ms, token_ms

LINE = step_ms(lambda n: 10 + n)


def test_prefill_and_decode_share_a_step():
    """0-14: A 4.  14-31: A1's decode + B 6 = 7 tokens.  31-43: 2 decodes.  43-54-65: A alone."""
    r = played(LINE, [(0, 4, 5), (5, 6, 2)])
    assert token_ms(r) == [[14, 31, 43, 54, 65], [31, 43]]
    assert r.counters["steps"] == 5
    assert r.counters["prefill_tokens"] == 10


def test_prompts_are_chunked_by_the_budget_decodes_first():
    """Budget 4.  0-14: A 4.  14-28: A + B 3.  28-42: A + B 3 (B's prompt ends: B1).
    42-54: A + B.  54-65: A.  A chunk that does not end the prompt samples nothing."""
    r = played(LINE, [(0, 4, 5), (5, 6, 2)], budget=4, max_num_seqs=4)
    assert token_ms(r) == [[14, 28, 42, 54, 65], [42, 54]]


def test_head_of_line_blocks_a_small_request():
    """6 blocks.  A (prompt 8) takes 2, then 3 from its 9th token on, so 3 are free.
    0-18: A 8.  At 18 B (prompt 16 = 4 blocks) does not fit; C (1 block) would, but stands behind.
    A alone: 29, 40, 51, 62, its end.  62-91: B 16 + C 3 = 19 tokens.  91-103: both decode."""
    r = played(LINE, [(0, 8, 5), (1, 16, 2), (2, 3, 2)], block_size=4, blocks=6)
    assert token_ms(r) == [[18, 29, 40, 51, 62], [91, 103], [91, 103]]
    assert preemptions(r) == [0, 0, 0]


def test_the_tail_may_preempt_itself():
    """As above with 4 prompt tokens for C: 62-92: B 16 + C 4.  At 92 B's 17th token takes the last
    block, C's 5th finds none: C is the tail and goes.  92-103: B alone (B2, its end).
    103-118: C 4 + 1 recomputed = 5 tokens: C2."""
    r = played(LINE, HOL, block_size=4, blocks=6)
    assert token_ms(r) == [[18, 29, 40, 51, 62], [92, 103], [92, 118]]
    assert preemptions(r) == [0, 0, 1]
    assert r.counters["recomputed_tokens"] == 4  # its last token had not been computed before


HOL = [(0, 8, 5), (1, 16, 2), (2, 4, 2)]


def test_full_sequence_must_fit():
    """scheduler_reserve_full_isl on, budget 4, 6 blocks: B enters only when its 4 blocks are free.
    A 4, A 4: 14, 28 (A1).  A alone (3 blocks, 3 free < 4): 39, 50, 61, 72, its end.
    B 4 x 4: 86, 100, 114, 128 (B1).  B + C 3 = 4 tokens: 142 (B2, its end; C's prompt has 1 left).
    C 1: 153 (C1).  C: 164."""
    r = played(LINE, HOL, block_size=4, blocks=6, budget=4, max_num_seqs=4, reserve=True)
    assert token_ms(r) == [[28, 39, 50, 61, 72], [128, 142], [153, 164]]


def test_without_it_a_chunk_is_enough():
    """The gate off: B's first chunk of 3 tokens needs one block.
    14, 28 (A1).  A + B 3: 42, 56, 70, 84 (A5, its end; B has 12 tokens in 3 blocks).
    B 4: 98 (B1, budget spent).  B + C 3: 112 (B2).  C 1: 123 (C1).  C: 134."""
    r = played(LINE, HOL, block_size=4, blocks=6, budget=4, max_num_seqs=4, reserve=False)
    assert token_ms(r) == [[28, 42, 56, 70, 84], [98, 112], [123, 134]]


def test_preemption_and_recompute():
    """4 blocks.  A (prompt 4, 10 tokens) and B (prompt 4, 6 tokens) start together.

    0-18: A 4 + B 4 (A1, B1).  Four steps of two: 30, 42, 54, 66; 8 tokens each, no block is free.
    C (prompt 1) comes at 60.
    At 66 A needs a third block: the tail B goes, keeps B1..B5, waits at the head.  One block is
    free and C would fit, but the step preempted, so it admits nobody: A alone, 77.
    At 77 B needs 4 + 5 = 9 tokens = 3 blocks, 1 is free; C stands behind it: A 88, 99, 110.
    A's 13th token takes the last block: 121 (A10, its end).
    121-141: B 9 (recompute) + C 1 = 10 tokens: B6 and C1; nothing is sent twice.
    """
    r = played(LINE, [(0, 4, 10), (0, 4, 6), (60, 1, 1)], block_size=4, blocks=4)
    assert token_ms(r) == [
        [18, 30, 42, 54, 66, 77, 88, 99, 110, 121],
        [18, 30, 42, 54, 66, 141],
        [141],
    ]
    assert preemptions(r) == [0, 1, 0]
    assert r.counters["preemptions"] == 1
    assert r.counters["recomputed_tokens"] == 8  # all but the last token sampled
    assert r.counters["prefill_tokens"] == 4 + 4 + 9 + 1
    assert r.counters["stream_steps"] == 10 + 6 + 1


def test_several_victims_keep_their_order():
    """6 blocks, A, B, C with prompt 8: 2 blocks each, 24 tokens of KV, none free.

    0-34: A 8 + B 8 + C 8 (A1, B1, C1).  At 34 A's 9th token needs a block: C, the tail, goes (2
    free), A takes 1, B takes 1.  34-46: A, B.  C needs 9 tokens = 3 blocks: it waits.
    A and B have 12 tokens after 4 steps of 12 ms: A5, B5 at 82.  At 82 A needs a fourth block:
    B goes (3 free), stands before C.  A: 93, 104, 115, 126 (A9, 16 tokens, its end).
    126-158: B 8 + 5 = 13 (4 blocks), C 9 would need 3 of the 2 left, so B alone: 10 + 13 = 23 ms,
    149 (B6).  C waits for B: 160, 171, 182 (B9, its end).  182-201: C 9: C2.  Then 11 ms each.
    """
    r = played(LINE, [(0, 8, 9), (0, 8, 9), (0, 8, 4)], block_size=4, blocks=6)
    assert token_ms(r) == [
        [34, 46, 58, 70, 82, 93, 104, 115, 126],
        [34, 46, 58, 70, 82, 149, 160, 171, 182],
        [34, 201, 212, 223],
    ]
    assert preemptions(r) == [0, 1, 1]
    assert r.counters["recomputed_tokens"] == 12 + 8  # all but the last tokens sampled


def test_max_num_seqs_keeps_the_third_waiting():
    """Two seats.  0-12: A 1, B 1.  A, B: 24 (A's end).  24-36: B, C 1.  36-48: B, C."""
    r = played(LINE, [(0, 1, 2), (0, 1, 4), (0, 1, 2)], max_num_seqs=2)
    assert token_ms(r) == [[12, 24], [12, 24, 36, 48], [36, 48]]
    assert r.counters["max_batch"] == 2


def captured(n):
    """10 ms + 1 ms per row of the next captured CUDA graph: 1, 2, 4, 8, 16, ..."""
    size = 1
    while size < n:
        size *= 2
    return 10 + size


def test_capture_staircase():
    """Token counts are padded up to the next captured size.
    0-11: A 1 (size 1).  A + B 1 + C 1 = 3 -> 4: 25.  3 decodes -> 4: 39 (A3, B2, C2; C ends).
    2 -> 2: 51 (A4, B3, both end)."""
    r = played(step_ms(captured), [(0, 1, 4), (2, 1, 3), (3, 1, 2)])
    assert token_ms(r) == [[11, 25, 39, 51], [25, 39, 51], [25, 39]]


def test_overlap_sees_the_end_one_step_late():
    """Steps of 10 ms.  A (2 tokens): 10, 20; the step 20-30 still holds it.  The listener has both
    tokens in time; the engine has paid for three."""
    callers = [(0, 1, 2)]
    plain = played(step_ms(lambda n: 10), callers)
    late = played(step_ms(lambda n: 10, overlap=True), callers, overlap=True)
    assert token_ms(plain) == token_ms(late) == [[10, 20]]
    assert (plain.counters["steps"], plain.counters["stream_steps"]) == (2, 2)
    assert (late.counters["steps"], late.counters["stream_steps"]) == (3, 3)
    assert plain.live_area[0] == 0.02
    assert late.live_area[0] == 0.03


def test_overlap_keeps_a_seat_one_step_longer():
    """One seat.  A: 10, 20.  B waits from 0: synchronous 30, 40; overlapped, A leaves at 30, so
    40, 50."""
    callers = [(0, 1, 2), (0, 1, 2)]
    plain = played(step_ms(lambda n: 10), callers, max_num_seqs=1)
    late = played(step_ms(lambda n: 10, overlap=True), callers, max_num_seqs=1, overlap=True)
    assert token_ms(plain) == [[10, 20], [30, 40]]
    assert token_ms(late) == [[10, 20], [40, 50]]


def test_overlap_makes_an_arrival_wait_one_more_step():
    """The step 10-20 was scheduled while 0-10 ran, before B came at 5.
    Synchronous: B joins at 10, B1 at 20.  Overlapped: B joins at 20, B1 at 30."""
    callers = [(0, 1, 5), (5, 1, 1)]
    plain = played(step_ms(lambda n: 10), callers)
    late = played(step_ms(lambda n: 10, overlap=True), callers, overlap=True)
    assert token_ms(plain)[1] == [20]
    assert token_ms(late)[1] == [30]
    assert token_ms(plain)[0] == token_ms(late)[0] == [10, 20, 30, 40, 50]


def test_host_time_is_added_or_hidden():
    """GPU 10 ms, host 4 ms + 1 ms a stream + 0.5 ms a chunk emitted by the step before.
    One stream, 2 tokens, synchronous: 10 + 5 = 15; then 10 + 5 + 0.5 = 15.5: 30.5.
    Overlapped with 0.25 ms of sync: max(10, 5) + 0.25 = 10.25; 20.5."""
    import numpy as np

    from voicesim.engine.cost import HOST, HOST_PER_CHUNK, HOST_PER_STREAM, SYNC

    step, hidden = step_ms(lambda n: 10), step_ms(lambda n: 10, overlap=True)
    for s in (step, hidden):
        s.params[HOST], s.params[HOST_PER_STREAM], s.params[HOST_PER_CHUNK] = 0.004, 0.001, 0.0005
    hidden.params[SYNC] = 0.00025
    assert token_ms(played(step, [(0, 1, 2)])) == [[15, 30.5]]
    assert token_ms(played(hidden, [(0, 1, 2)], overlap=True)) == [[10.25, 20.5]]
    assert np.all(step.compute_s == 0.010)
