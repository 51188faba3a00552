"""What each peer is told and how its answer is read, from answers of the shape that it gave."""

from types import SimpleNamespace

import numpy as np
import pytest
from peering import blis, dynamo, points, sr_sim, work
from peering.answers import answers
from scipy import stats


def test_dynamos_rows():
    """Two rows of a replay by ai-dynamo 1.6.1, fields that are not read left out."""
    row = {
        "arrival_time_ms": 25196.210006675312,
        "first_admit_ms": 25204.726882000232,
        "first_token_ms": 25214.25804500023,
        "last_token_ms": 27493.787928000293,
        "ttft_ms": 18.048038324919617,
        "e2e_latency_ms": 2297.5779213249807,
        "itl_ms": 9.154738485944021,
        "output_length": 250,
        "terminal_status": "completed",
    }
    found = answers(dynamo.served([row, row]))
    assert found["ttft_p50_s"] == pytest.approx(row["ttft_ms"] / 1000.0)
    assert found["e2e_p99_s"] == pytest.approx(row["e2e_latency_ms"] / 1000.0)
    assert found["tpot_s"] == pytest.approx(row["itl_ms"] / 1000.0)


def test_dynamos_profile_holds_the_law():
    """Between a grid's points it interpolates; the KV tokens of n streams at a context are n
    contexts, and a prompt costs what a stream costs."""
    law = work.Law(0.004, 6e-5)
    grid = dynamo.profile(law, np.full(3, 50), np.array([100, 200, 400]))
    kv, context = grid["decode_active_kv_tokens"], grid["decode_context_length"]
    assert context[-1] > 450
    for streams in (1, 100):
        for mean in (50.5, 449.5):
            column = grid["decode_itl"][:, int(mean) - 1]
            step = np.interp(streams * mean, kv, column)
            assert step == pytest.approx(1000.0 * law.step_s(streams))
    prompt = np.interp(50, grid["prefill_isl"], grid["prefill_ttft_ms"])
    assert prompt == pytest.approx(1000.0 * law.per_stream_s)


def test_sr_sims_requests():
    """A request of vllm-sr-sim 0.1.0.dev20260713123629 beside one stream: 4.06 ms a step."""
    request = SimpleNamespace(
        arrival_time=2.0, first_token_time=2.00406, end_time=2.019, physical_end_time=3.01906,
        l_out=250,
    )  # fmt: skip
    found = answers(sr_sim.served([request]))
    assert found["ttft_p50_s"] == pytest.approx(0.00406)
    assert found["tpot_s"] == pytest.approx(1.015 / 249)
    assert found["e2e_p50_s"] == pytest.approx(1.01906)


def test_sr_sims_profile_is_the_law_whatever_the_lengths():
    made = sr_sim.Profile(work.Law(), 256)
    steps = {made.iter_latency(10, length) for length in (None, 50, 5000)}
    assert steps | {made.prefill_iter_latency(50, 25.0, 10, 300.0)} == {work.Law().step_s(10)}
    assert made.n_slots(450) == 256
    assert made.throughput(450, 50, 250) * made.service_time(50, 250, 450) == pytest.approx(256)


def test_aiconfigurators_estimate_is_in_ms():
    estimate = SimpleNamespace(mode="static_gen", ttft=0.0, tpot=6.1430891455052095, batch_size=1)
    assert points.tpot_ms(estimate) == 6.1430891455052095


def test_a_roofline_step_reads_weights_and_kv_once():
    """Data sheets: 16.06 GB of weights and 131,072 bytes a KV token over 0.8 of 3.35 TB/s."""
    step = points.roofline_ms("h100")[8]
    assert step == pytest.approx((16.06e9 + 8 * 300 * 131072) / (0.8 * 3.35e12) * 1000.0, rel=1e-6)


def test_bliss_metrics():
    found = blis.parse(blis.RECORDED["metrics"])
    assert found["itl_s"] == pytest.approx(0.0327579, abs=1e-7)
    assert found["tokens_per_s"] == pytest.approx(106904 / 60.291181)
    # latency is first token and gaps, and one step more
    tokens = 106904 / 500
    assert found["e2e_mean_s"] == pytest.approx(
        found["ttft_mean_s"] + tokens * found["itl_s"], rel=1e-3
    )


def test_bliss_recorded_run_could_be_one_of_ours():
    """Its figures lie in the 99.9 % prediction interval of our runs: one more of the same law."""
    recorded = blis.parse(blis.RECORDED["metrics"])
    runs = [blis.ours(seed) for seed in range(20)]
    for name, value in recorded.items():
        x = np.array([run[name] for run in runs])
        half = stats.t.ppf(0.9995, len(x) - 1) * x.std(ddof=1) * np.sqrt(1 + 1 / len(x))
        assert abs(value - x.mean()) < half, (name, value, x.mean(), half)
