"""Latency x throughput = concurrency, on published rows that obey it and on ones that cannot."""

import json

import pytest

from voicesim.calibrate.closed_loop import not_closed
from voicesim.calibrate.readers import read
from voicesim.calibrate.run import statement


def bench(latency_ms, rate, concurrency, **more):
    """A result of ``vllm bench serve --save-result``."""
    return json.dumps(
        {
            "num_prompts": 640, "request_rate": "inf", "burstiness": 1.0, "completed": 640,
            "max_concurrency": concurrency, "request_throughput": rate,
            "mean_e2el_ms": latency_ms, "mean_ttft_ms": 100.0, **more,
        }
    )  # fmt: skip


def limits(tmp_path, *runs):
    path = tmp_path / "bench.json"
    path.write_text("\n".join(runs) + "\n")
    lines = statement(read(path)).splitlines()
    return [line for line in lines if "latency x throughput" in line or "more runs" in line]


@pytest.mark.parametrize(
    ("latency_ms", "rate", "concurrency"),
    [(3960, 2.02, 8), (3723, 43.02, 160), (2104, 75.86, 160), (1000, 8.6, 10)],
)
def test_a_closed_loop_in_steady_state_is_passed(tmp_path, latency_ms, rate, concurrency):
    """8.0 of 8, 160.2 and 159.6 of 160; and 8.6 of 10, within 15 %."""
    assert limits(tmp_path, bench(latency_ms, rate, concurrency)) == []


def test_below_is_a_ramp_up_or_an_open_loop(tmp_path):
    (line,) = limits(tmp_path, bench(2104, 75.86, 480))
    assert line == (
        "  limit: run bench: latency x throughput is 2.104 s x 75.86/s = 159.6, 67% below the "
        "concurrency of 480: no closed loop in steady state (a ramp-up or a tail counted in, an "
        "open loop, or callers who pause; or wrong units)"
    )
    (line,) = limits(tmp_path, bench(1000, 5.0, 64, request_rate=5.0))
    assert "1 s x 5/s = 5, 92% below the concurrency of 64" in line
    assert "(an open loop of 5 requests/s; or wrong units)" in line


def test_above_cannot_be(tmp_path):
    """Microseconds in a key of milliseconds: a thousand times too many in flight."""
    (line,) = limits(tmp_path, bench(3.96e6, 2.02, 8))
    assert "3,960 s x 2.02/s = 7,999, 999.9 times the concurrency of 8" in line


def test_without_all_three_nothing_is_said(tmp_path):
    path = tmp_path / "bench.json"
    path.write_text(bench(1000, 5.0, None))
    assert not_closed(read(path).curve) == []
    path.write_text(bench(None, 5.0, 64))
    assert not_closed(read(path).curve) == []


def test_many_runs_are_counted(tmp_path):
    lines = limits(tmp_path, *[bench(1000, 5.0, 64)] * 5)
    assert len(lines) == 4
    assert lines[-1] == "  limit: the same of 2 more runs"
