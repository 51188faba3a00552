"""C10: a scheduler that prefers decodes makes new callers wait although slots are free.

https://github.com/vllm-project/vllm-omni/issues/6365,
https://github.com/vllm-project/vllm-omni/pull/6377,
https://github.com/vllm-project/vllm-omni/pull/5071: VoxCPM2 on an H100 at a fixed rate.  From 1 to
2 requests/s p95 of first audio 194 -> 842 ms, mean queue time 391 ms with 1 to 2 running;
throughput flat at 5.4/s, inference time flat at 1.37 s (5.4 x 1.37 = 7.4 of 8 slots) while queue
time goes from 1.85 to 12 s; a step for prompts every 6 decode steps lowers first audio and costs
peak throughput.  A card made to that: 8 slots, a decode step of 24 ms alone and 38 ms at 8, a
prompt in a step of its own 40 ms, replies of 36 steps that differ by 5 %.

Must show: time in the queue with free slots far below saturation; interleaving lowers first audio
and the peak throughput; 7.4 streams run when saturated; beyond it the queue grows with the length
of the run.
"""

import numpy as np
import pytest

from tests.cases.machine import play
from tests.engine.worlds import tape_of
from voicesim.engine import layout as at
from voicesim.engine.cost import StepCost
from voicesim.engine.kinds import DECODE_FIRST, VLLM
from voicesim.engine.spec import PoolSpec

N = np.arange(2049)
STEP = StepCost(np.zeros(9), 0.022 + 0.002 * np.minimum(N, 8) + 0.0001 * np.maximum(N - 8, 0))
SLOTS, HORIZON = 8, 60.0


def at_rate(rate: float, seconds: float = HORIZON, **more):
    """Callers at a fixed rate; (request, first audio, end) of each (s), and the run."""
    n = int(rate * seconds)
    tokens = np.round(np.random.default_rng(0).normal(36, 2, n)).clip(1).astype(int)
    spec = PoolSpec(
        engines=1, step=STEP, schedule=(1,), max_num_seqs=SLOTS, token_audio=0.16,
        horizon=seconds, end=1000.0, **({"kind": DECODE_FIRST} | more),
    )  # fmt: skip
    r = play(spec, tape_of(np.arange(n) / rate, tokens, np.full(n, 30)))
    z = r.utterance_f
    return z[:, at.Z_REQUEST], z[:, at.Z_START], z[:, at.Z_DONE], r


def waits(rate: float, **more) -> np.ndarray:
    """From request to first audio (s)."""
    request, first, _, _ = at_rate(rate, **more)
    return first - request


def throughput(**more) -> float:
    """Requests per second of a card that always has callers waiting."""
    _, _, end, _ = at_rate(12.0, **more)
    done = np.sort(end)
    return float(((done > 10) & (done < 50)).sum() / 40)


def test_new_callers_wait_although_slots_are_free():
    """At 2 requests/s a lone caller's decoding holds up the next; at most 3 of 8 slots are used."""
    _, _, _, r = at_rate(2.0)
    assert r.counters["max_batch"] <= 3
    assert waits(1.0).max() < 0.05
    assert 0.2 < waits(2.0).mean() < 0.6
    assert np.quantile(waits(2.0), 0.95) > 5 * np.quantile(waits(1.0), 0.95)
    assert waits(2.0, kind=VLLM).max() < 0.07  # a prompt in a step with one or two decodes


def test_interleaving_lowers_first_audio_below_saturation():
    for rate in (2.0, 4.0):
        plain, every = waits(rate), waits(rate, interleave=6)
        assert np.quantile(every, 0.95) < 0.6 * np.quantile(plain, 0.95)
        assert every.mean() < plain.mean()


def test_and_costs_peak_throughput():
    assert throughput() == pytest.approx(5.4, rel=0.05)
    assert throughput(interleave=6) < 0.98 * throughput()


@pytest.mark.parametrize("rate", [6.0, 10.0])
def test_saturated_it_runs_nearly_full_and_the_queue_grows_with_time(rate):
    """Little on the slots: throughput x (end - first audio) = 7.4 of 8; who asks at t waits
    t (lambda / mu - 1)."""
    request, first, end, _ = at_rate(rate, 120.0)
    mid = (end > 20) & (end < 110)
    mu = mid.sum() / 90
    inference = (end - first)[mid].mean()
    assert inference == pytest.approx(1.37, rel=0.06)
    assert mu * inference == pytest.approx(7.4, abs=0.3)
    for t in (30.0, 60.0, 90.0):
        near = np.abs(request - t) < 1
        gang = SLOTS / mu  # callers start by the slots' load, every 1.5 s
        wait = t * (rate / mu - 1)
        assert (first - request)[near].mean() == pytest.approx(wait, abs=gang)
