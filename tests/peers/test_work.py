"""The shared work, and voicesim's row of it against closed forms."""

import json

import numpy as np
import pytest
from peering import ours, work
from peering.answers import Served, answers

from tests.oracles.runs import REPLICATIONS, meets

SINCE = 60.0  # seconds: the engine starts empty
REQUESTS = 40_000
MEAN = (work.SHORTEST + work.LONGEST) / 2


def test_every_request_is_a_line_of_the_trace(tmp_path):
    made = work.shared(50)
    made.write(tmp_path / "t.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
    assert [line["output_length"] for line in lines] == made.tokens.tolist()
    assert [line["timestamp"] / 1000.0 for line in lines] == pytest.approx(made.arrival.tolist())
    assert {line["input_length"] for line in lines} == {work.PROMPT}
    assert len({tuple(line["hash_ids"]) for line in lines}) == 50  # no prompt is found again


def test_the_mean_number_live_is_that_of_a_negative_binomial():
    """r = 1 + fixed / per stream, success 1 - q, q = rate * tokens * per stream."""
    law = work.Law(0.012, 0.0005)
    assert law.live(10.0, 60) == pytest.approx((1 + 24) * 0.3 / 0.7)


def test_figures_of_three_requests():
    found = answers(
        Served(
            asked=np.array([0.0, 1.0, 2.0]),
            first=np.array([0.5, 1.1, 2.3]),
            last=np.array([1.5, 3.1, 2.3]),
            tokens=np.array([11, 5, 1]),
        )
    )
    assert found["requests_per_s"] == pytest.approx(3 / 3.1)
    assert found["tokens_per_s"] == pytest.approx(17 / 3.1)
    assert found["ttft_p50_s"] == pytest.approx(0.3)
    assert found["tpot_s"] == pytest.approx((0.1 + 0.5) / 2)  # one token has no pace
    assert found["e2e_p50_s"] == pytest.approx(1.5)
    assert found["live_streams"] == pytest.approx((1.5 + 2.1 + 0.3) / 2.0)


def test_our_row_meets_the_closed_form():
    """Requests a second are those that come; pace and latency are those of processor sharing,
    within the step more that a stream may last (tests/oracles/test_processor_sharing.py)."""
    made = []
    for seed in range(REPLICATIONS):
        given = work.shared(REQUESTS, seed)
        _, floats, _ = ours.rows(ours.play(*ours.world(given, voice=False)))
        full = ours.served(floats, given)
        late = full.asked >= SINCE
        pace = (full.last - full.first) / (full.tokens - 1)
        latency = full.last - full.asked
        figures = answers(full)
        made.append((figures["requests_per_s"], pace[late].mean(), latency[late].mean()))
    rate, pace, latency = np.array(made).T
    law = work.Law()
    low, high = (law.live(work.RATE, m) / work.RATE for m in (MEAN, MEAN + 1))
    # the run ends with the last reply, after the last request by no more than the longest one takes
    span, longest = REQUESTS / work.RATE, low / MEAN * work.LONGEST
    assert meets(rate, work.RATE * span / (span + longest), work.RATE)
    assert meets(pace, low / MEAN, high / (MEAN + 1))
    assert meets(latency, low, high)


def test_our_row_beyond_capacity_is_a_full_engine():
    """Twice what it can finish: every slot writes a token a step, but at the start and the end."""
    given = work.shared(4000, rate=100.0)
    assert given.capacity == pytest.approx(256 / (250 * work.Law().step_s(256)), rel=0.02)
    _, floats, _ = ours.rows(ours.play(*ours.world(given, voice=False)))
    found = answers(ours.served(floats, given))
    assert 0.9 * given.capacity < found["requests_per_s"] < given.capacity
    assert found["tpot_s"] == pytest.approx(work.Law().step_s(256), rel=0.02)


def test_voice_on_the_same_requests_completes_them_all():
    found = ours.voice(work.shared(200))
    assert found["live_streams"] > 0
    assert "ttft_p50_s" not in found
