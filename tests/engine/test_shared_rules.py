"""The arithmetic that kernel and reference share, told otherwise: their equality cannot notice that
it is wrong."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
import simpy

from tests.engine.worlds import step_cost
from voicesim.engine import asr_rules, card, cost, kinds
from voicesim.engine.gauges import Gauges
from voicesim.engine.profile import StepLoad, interpolate_table, step_load
from voicesim.engine.spec import PoolSpec
from voicesim.policy import admission

TIMES = (0.0, 0.003, 0.011, 0.7, 5.0)


@pytest.mark.parametrize("norm", cost.NORMS)
def test_norms(norm):
    for a, b in itertools.product(TIMES, repeat=2):
        expected = np.linalg.norm([a, b], norm or np.inf)
        assert cost.combine(float(norm), a, b) == pytest.approx(expected, rel=1e-14)


def params(**given):
    names = ("memory", "per_kv", "attention", "norm", "host", "per_stream", "per_chunk", "sync",
             "overlap")  # fmt: skip
    return np.array([given.get(name, 0.0) for name in names])


def test_a_step_is_its_parts():
    p = params(memory=7.0, per_kv=2.0, attention=3.0, norm=1.0)
    assert cost.gpu_seconds(p, 100.0, 11.0, 13.0) == 7 + 2 * 11 + 100 + 3 * 13
    p = params(memory=7.0, per_kv=2.0, attention=3.0)  # norm 0: the longer
    assert cost.gpu_seconds(p, 1.0, 11.0, 0.0) == 29
    assert cost.gpu_seconds(p, 1.0, 11.0, 13.0) == 40
    assert cost.host_seconds(params(host=5.0, per_stream=2.0, per_chunk=3.0), 7.0, 11.0) == 52
    assert cost.codec_seconds(5.0, 2.0, 3.0, 7.0, 11.0) == 52


@pytest.mark.parametrize(
    ("overlap", "gpu", "host", "step", "before"),
    [
        (0.0, 5.0, 3.0, 8.0, 3.0),
        (1.0, 5.0, 3.0, 5.5, 0.5),
        (1.0, 3.0, 5.0, 5.5, 2.5),
        (1.0, 4.0, 4.0, 4.5, 0.5),
    ],
)
def test_the_host_beside_the_gpu(overlap, gpu, host, step, before):
    p = params(sync=0.5, overlap=overlap)
    assert cost.step_seconds(p, gpu, host) == step
    assert cost.host_phase(p, gpu, host) == before


def test_which_kinds_mix_and_hold():
    by_name = {name: n for n, name in enumerate(kinds.ENGINES)}
    mixed = {n for n in by_name if kinds.mixes(by_name[n], False)}
    assert mixed == {"vllm_v1", "trtllm_no_evict", "trtllm_max_utilization"}
    assert {n for n in by_name if kinds.mixes(by_name[n], True)} == {*mixed, "sglang"}
    held = {n for n in by_name if kinds.holds_whole(by_name[n])}
    assert held == {"trtllm_no_evict", "trtllm_max_utilization"}


@pytest.mark.parametrize(
    ("name", "overlap", "least"),
    [
        ("vllm_v1", False, 149), ("vllm_v1", True, 150),
        ("decode_first", False, 149), ("trtllm_max_utilization", True, 150),
        ("sglang", False, 152), ("sglang", True, 152),
        ("trtllm_no_evict", False, 1100), ("trtllm_no_evict", True, 1100),
    ],
)  # fmt: skip
def test_what_must_fit(name, overlap, least):
    """100 prompt tokens, 50 to come, 1,000 declared."""
    assert kinds.must_fit(kinds.ENGINES.index(name), 100, 50, 1000, overlap) == least


def test_what_sglang_reserves():
    assert kinds.declared(100, 500, 1000) == 500
    assert kinds.declared(100, 950, 1000) == 898
    assert [kinds.future(500, n) for n in (0, 499, 500, 501)] == [500, 1, 0, 0]
    assert kinds.future(9000, 100) == 4096
    assert kinds.first_ratio(0.3) == pytest.approx(0.21)
    assert kinds.first_ratio(2.0) == 1.0
    ratio = first = kinds.first_ratio(1.0)
    for _ in range(300):
        ratio = kinds.next_ratio(ratio, first)
    assert ratio == pytest.approx(0.7 - 300 * 0.7 * 0.86 / 600)  # half of the way
    for _ in range(400):
        ratio = kinds.next_ratio(ratio, first)
    assert ratio == pytest.approx(0.14 * 0.7)
    assert kinds.ratio_after_retraction(30, 2, 139) == 0.5  # (30 + 20 * 2) / 140
    assert kinds.ratio_after_retraction(300, 2, 139) == 1.0


@pytest.mark.parametrize(
    ("mode", "active", "sm", "bandwidth", "times"),
    [
        (card.TIME_SLICED, 1, 3.0, 3.0, 1.0),
        (card.TIME_SLICED, 2, 0.5, 0.5, 2.2),
        (card.TIME_SLICED, 3, 0.5, 0.5, 3.3),
        (card.MPS, 3, 0.9, 0.8, 1.0),
        (card.MPS, 3, 1.5, 1.2, 1.5),
        (card.MPS, 3, 1.2, 1.7, 1.7),
    ],
)
def test_neighbours_on_a_card(mode, active, sm, bandwidth, times):
    assert card.slowdown(mode, active, sm, bandwidth, 1.1) == pytest.approx(times)
    assert card.lost(6.0, 3.0) == 4.0


def test_chunks_of_a_segment():
    assert asr_rules.chunk_end(2.0, 3, 0.5) == 3.5
    # 1.2 s of audio in chunks of half a second: two whole ones and a part
    assert [asr_rules.chunks_until(2.0, 2.0 + s, 0.5, 0) for s in (0.0, 0.2, 0.5, 1.2, 1.5)] == [
        0, 1, 1, 3, 3,
    ]  # fmt: skip
    assert asr_rules.chunks_until(2.0, 2.7, 0.5, 4) == 4
    assert asr_rules.chunks_until(0.0, 0.1 + 0.2, 0.1, 0) == 3  # though the sum is a bit more
    assert asr_rules.audio_left(1.0 + 2e-9, 1.0)
    assert not asr_rules.audio_left(1.0 + 5e-10, 1.0)


@pytest.mark.parametrize(
    ("a", "b", "length"),
    [(0.0, 1.0, 0.0), (1.0, 3.0, 1.0), (3.0, 5.0, 2.0), (9.0, 12.0, 1.0), (11.0, 12.0, 0.0),
     (0.0, 20.0, 8.0), (4.0, 4.0, 0.0)],
)  # fmt: skip
def test_inside_the_window(a, b, length):
    assert asr_rules.inside(a, b, 2.0, 10.0) == length


def test_a_place_where_there_is_room():
    live = np.array([4, 3, 1])
    every = np.ones(3, int)
    assert admission.place_with_room(live, every, 1, 4) == 1
    assert admission.place_with_room(live, every, 0, 4) == 2
    assert admission.LAG_WEIGHT == 1 / 16


def test_the_load_of_a_step():
    """Eight streams at 100 tokens each, beside a fresh prompt of none, 1 and 5 tokens: each of its
    tokens is read by itself and by those after it, and the prompt is one more stream."""
    assert step_load(8, 100) == StepLoad(8, 800, 800, 8)
    assert step_load(8, 100, 1) == StepLoad(9, 801, 801, 9)
    assert step_load(8, 100, 5) == StepLoad(13, 805, 815, 9)


def test_a_table_of_compute_times():
    """Flat below its first point, on along its last slope; of one point the same everywhere."""
    tokens = np.array([1.0, 2.0, 4.0, 8.0])
    assert interpolate_table([(2, 5.0)], tokens).tolist() == [5.0] * 4
    assert interpolate_table([(2, 5.0), (4, 7.0)], tokens).tolist() == [5.0, 5.0, 7.0, 11.0]


def test_gauges_read_the_share_of_blocks_in_use():
    """Two replicas of ten blocks, of which none, then 3 and 9 are in use; the run ends early."""
    pool_spec = PoolSpec(
        engines=2, step=step_cost(), schedule=(1,), blocks=10, horizon=3.0, end=3.0
    )
    gauges, free = Gauges(pool_spec), iter([[10, 10], [7, 1]])
    env = simpy.Environment()
    rows = iter([([1, 2], [0, 1], next(free), 0), ([3, 4], [2, 0], next(free), 5)])
    env.process(gauges.watch(env, SimpleNamespace(gauges=lambda: next(rows))))
    env.run(until=1.5)
    assert gauges.taken == 2
    assert gauges.kv[:2].tolist() == [[0.0, 0.0], [0.3, 0.9]]
    assert gauges.running[:2].tolist() == [[1, 2], [3, 4]]
    assert gauges.waiting[:2].tolist() == [[0, 1], [2, 0]]
    assert gauges.preemptions[:2].tolist() == [0, 5]
    one = gauges.of(np.array([False, True]))
    assert one.kv[1].tolist() == [0.9]
    both = Gauges.beside([one, gauges.of(np.array([True, False]))], pool_spec)
    assert both.kv[1].tolist() == [0.9, 0.3]
    assert (both.preemptions[1], both.taken) == (10, 2)
