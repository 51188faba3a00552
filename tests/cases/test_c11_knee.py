"""C11: where is the knee?  Three public ladders, on the profiles that ship.

VoxCPM2 on an RTX 4090, nanovllm-voxcpm: https://github.com/OpenBMB/VoxCPM/issues/374 (RTF
.103/.131/.176/.284/.605 at 1/8/16/32/64, so 9.7/61/91/113/106 audio s/s), on an L40, vLLM-Omni:
https://github.com/vllm-project/vllm-omni/pull/2903 (RTF .5-.7 at 5, above 1 at 8); Qwen3-TTS-0.6B
on an H100, nano-qwen3tts-vllm: https://github.com/tsdocode/nano-qwen3tts-vllm/issues/1 (RTF
.42/.64/.98/1.66 at 1/2/4/8).

Must show: RTF within 10 % at loads held out of the fit; the knee is a maximum of audio a second
near 32; RTF stays below 0.9 up to 64 or more, 7 and 3 streams; long prompts move the knee left.
"""

import dataclasses

import pytest

from tests.cases.shipped import ladder, profile, value
from voicesim.experiment.curve import fit_ladder
from voicesim.experiment.predicted import points
from voicesim.experiment.served import serve

RTX4090, L40, H100 = "voxcpm2-rtx4090-nanovllm", "voxcpm2-l40-vllm-omni", "qwen3-tts-0.6b-h100-nano"


def test_loads_that_the_fit_never_saw():
    """Fitted to 1, 16 and 64 requests; RTF at 8 and 32 within 10 %."""
    of = ladder(RTX4090)
    assert of.held_out == [8, 32]
    unseen = [f for f in of.figures if f.level in of.held_out and f.metric == "rtf"]
    found = points(of, fit_ladder(of, of.held_out), unseen, held_out=True)
    assert [p.measured for p in found] == [0.131, 0.284]
    assert all(abs(p.error) <= 0.10 for p in found)


def test_the_knee_is_a_maximum_of_audio_per_second():
    """Callers over RTF, as the field counts: a maximum near 32, less on both sides."""
    rate = {c: c / value(RTX4090, c, "rtf") for c in (8, 16, 32, 64)}
    assert max(rate, key=rate.get) == 32
    for c, published in {8: 61, 16: 91, 32: 113, 64: 106}.items():
        assert rate[c] == pytest.approx(published, rel=0.06)


def test_streams_that_a_card_holds():
    """RTF up to 0.9: 64 or more on the 4090, 7 on the L40, 3 on the H100 with the nano engine."""
    assert value(RTX4090, 64, "rtf") <= 0.9
    assert value(L40, 7, "rtf") <= 0.9 < value(L40, 8, "rtf")
    assert value(H100, 3, "rtf") <= 0.9 < value(H100, 4, "rtf")


def test_long_prompts_shift_the_knee_left():
    """A prompt of 40 tokens is computed within the steps of those who speak."""

    def slow(prompt, callers):
        load = ladder(H100).load(profile(H100), "", callers)
        return serve(dataclasses.replace(load, prompt=prompt), "closed", callers, 0, 60).value(
            "rtf", "mean"
        )

    assert slow(1, 3) <= 0.9 < slow(40, 3)
