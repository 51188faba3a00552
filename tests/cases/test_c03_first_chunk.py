"""C3: the first chunk buys continuity with first-audio latency, and its unit is milliseconds.

https://github.com/sgl-project/sglang-omni/pull/1450,
https://github.com/sgl-project/sglang-omni/issues/1224: at 32 streams first chunks of 1/4/8 frames
gave C100 of 0/97/100 % with first audio 0.65/0.83/0.85 s and no loss of throughput.  The defaults
that work are 4, 5, 20 or 40 frames, by the model's frame rate.

Must show: C100 is a step in the first chunk and never falls; first audio never gets earlier; the
threshold is in milliseconds, so other frame rates need other frame counts; throughput falls by a
few percent at most.
"""

import dataclasses

import numpy as np
import pytest

from tests.cases.machine import FRAME, Heard, card, codec, play, together
from tests.cases.shipped import HOME
from voicesim.engine import layout as at
from voicesim.engine.cost import StepCost
from voicesim.engine.profile import load_profile
from voicesim.engine.spec import CodecSpec
from voicesim.experiment.rung import Load
from voicesim.experiment.served import serve

FIRST = (1, 2, 4, 8, 20, 40)


@pytest.fixture(scope="module")
def sweep():
    runs = [play(card((n, 25), codec=codec(left_context=25)), together(32)) for n in FIRST]
    return [Heard(r) for r in runs]


def test_continuity_is_a_step(sweep):
    """From almost nobody to everybody within two doublings."""
    c100 = [h.continuity() for h in sweep]
    assert c100 == sorted(c100)
    assert c100[0] < 0.1
    assert c100[FIRST.index(8)] == 1.0
    assert c100[-1] == 1.0


def test_first_audio_is_the_price(sweep):
    p50 = [h.p50() for h in sweep]
    assert p50 == sorted(p50)
    assert p50[-1] > 3 * p50[0]


def test_throughput_does_not_pay(sweep):
    """The time to finish all 32 replies differs by a few percent."""
    last = [h.record.utterance_f[:, at.Z_DONE].max() for h in sweep]
    assert max(last) < 1.1 * min(last)
    assert last[FIRST.index(8)] <= 1.02 * last[0]


def threshold_ms(rate: int) -> int:
    """Least first chunk (ms, on an 80 ms grid) at which all 32 replies pass, for a model of
    ``rate`` frames a second that makes as much audio a second as the others."""
    scale = 1 / (rate * FRAME)
    base = card()
    assert base.codec is not None
    for frames in range(1, 20):
        first = round(frames * FRAME * rate)
        spec = dataclasses.replace(
            base, token_audio=1 / rate, schedule=(first, 2 * rate),
            step=StepCost(base.step.params, np.asarray(base.step.compute_s) * scale),
            codec=CodecSpec(np.array([0.0071, 0.0, 0.00009 * scale]), left_context=2 * rate),
        )  # fmt: skip
        tape = together(32)
        tokens = np.maximum(1, np.round(tape.tokens * FRAME * rate)).astype(np.int64)
        if Heard(play(spec, dataclasses.replace(tape, tokens=tokens))).continuity() == 1.0:
            return round(1000 * first / rate)
    raise AssertionError("no first chunk is enough")


def test_the_threshold_is_in_milliseconds():
    """The same audio at 12.5, 25 and 75 frames a second: 6 times the frames, the same ms (to
    one place on the grid)."""
    ms = [threshold_ms(rate) for rate in (25, 50, 75)]
    assert max(ms) - min(ms) <= 80
    frames = [m * rate / 1000 for m, rate in zip(ms, (25, 50, 75), strict=True)]
    assert frames[2] > 2 * frames[0]


def test_on_the_shipped_profile_too():
    """Qwen3-TTS-1.7B on an H100 at 32 in flight: continuity is a step in the first chunk, first
    audio is the price, and requests per second do not pay."""
    profile = load_profile(HOME / "profiles" / "qwen3-tts-1.7b-h100.yaml")
    runs = [
        serve(Load(profile, audio=4.2, prompt=30, chunks=(n, 25), left_context=25), "closed", 32)
        for n in FIRST
    ]
    c100 = [r.value("c100", "mean") for r in runs]
    assert c100 == sorted(c100)
    assert c100[0] < 0.1 and c100[FIRST.index(8)] > 0.95
    first = [r.value("ttfa", "p95") for r in runs]
    assert first == sorted(first)
    rate = [r.requests_per_s for r in runs]
    assert min(rate) > 0.97 * rate[0]
