"""A codec on a card of its own: helps where the decoder is the bound, hurts where the codec is.

https://github.com/vllm-project/vllm-omni/issues/3535: two H20 instead of one, 128 callers: voice
clone (a chunk every 263 ms from the decoder) lagged 16.2 s instead of 17.7 (p99), preset voices (a
chunk every 23 ms) 11.6 s instead of 8.6.  What a second card costs was measured elsewhere: 14 to
17 % of the throughput of one caller (https://github.com/sgl-project/sglang-omni/issues/1235).

Must show: with the hand-over of each chunk to the other card on the codec's bill (`codec.handoff`),
the split makes the clones' lag less and that of the preset voices more: the published directions,
not their size (no step times were published).  Without it both would gain.
"""

from dataclasses import replace

import numpy as np
import pytest

from tests.cases.machine import card, play, together
from voicesim.engine import layout as at
from voicesim.engine.cost import StepCost
from voicesim.engine.spec import CodecSpec

CALLERS, CHUNK = 128, 25
CODEC = np.array([0.0, 0.016, 0.0004])  # s of a call, of a chunk, of a frame: 26 ms for a chunk
CLONE = 0.095  # s of a step: slower than the 80 ms of its audio, so the codec waits for it
PRESET = 0.010  # the decoder is far ahead, so what it makes waits for the codec


def lag(seconds_a_step: float, handoff: float | None) -> float:
    """p99 over the callers of the lag that has piled up (definition C of listener/definitions).

    handoff: seconds more that a chunk takes a codec on a card of its own; None: on one card.
    """
    more = np.array([0.0, handoff or 0.0, 0.0])
    spec = card(
        (CHUNK,), codec=CodecSpec(CODEC + more, shared=handoff is None), max_num_seqs=CALLERS
    )
    step = StepCost(np.zeros(9), np.full(4097, seconds_a_step))
    spec = replace(spec, step=step, decode_slowdown=1.1, codec_slowdown=1.4)
    record = play(spec, together(CALLERS, seconds=8.0))
    return float(np.quantile(record.utterance_f[:, at.Z_C], 0.99))


@pytest.mark.parametrize("handoff", [0.004, 0.006])
def test_the_split_helps_the_decoder_bound_load_and_hurts_the_codec_bound_one(handoff):
    """A hand-over of a sixth to a quarter of what the codec takes for a chunk."""
    assert lag(CLONE, handoff) < 0.8 * lag(CLONE, None)
    assert lag(PRESET, handoff) > 1.2 * lag(PRESET, None)


def test_without_a_hand_over_both_would_gain():
    assert lag(CLONE, 0.0) < lag(CLONE, None)
    assert lag(PRESET, 0.0) < lag(PRESET, None)
