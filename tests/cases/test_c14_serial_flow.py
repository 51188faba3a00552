"""C14: a second stage at batch 1: throughput stops at about four callers.

Fun-CosyVoice3 on an H200, https://github.com/sgl-project/sglang-omni/pull/1656: 0.98/1.37/1.99/2.02
requests/s and 1.02/1.46/2.01/3.96 s at 1/2/4/8.  CosyVoice2 on an L20,
https://github.com/QwenAudio/CosyVoice/pull/1598: first chunk 198/281/511/922 ms at 1/2/4/6.

Must show: throughput stops at 1 / flow time; latency is then callers / throughput; where the
history is decoded again a chunk costs more the later it comes.
"""

import dataclasses

import numpy as np
import pytest

from tests.cases.shipped import ladder, profile, value
from voicesim.engine import layout as at
from voicesim.experiment.rung import run

H200, L20 = "cosyvoice3-0.5b-h200-sglang", "cosyvoice2-0.5b-l20-triton"


def flow_seconds(name: str) -> float:
    """Mean time of the flow stage per request, all chunks."""
    load, cost = ladder(name).load(profile(name), "", 1), profile(name).codec
    tokens = load.tape(400, 0).tokens
    ends = np.cumsum([*load.chunks, *[load.chunks[-1]] * 100])
    chunks = np.searchsorted(ends, tokens) + 1
    return float((chunks * cost.floor_s.value + tokens * cost.per_frame_s.value).mean())


def test_throughput_stops_at_one_over_the_flow():
    most = 1 / flow_seconds(H200)
    assert value(H200, 16, "throughput") == pytest.approx(most, rel=0.05)
    assert 0.9 * most < value(H200, 8, "throughput") < 1.02 * most
    assert value(H200, 8, "throughput") == pytest.approx(2.02, rel=0.08)
    assert value(H200, 8, "throughput") < 1.15 * value(H200, 4, "throughput")
    four = value(L20, 4, "throughput", "offline") / value(L20, 1, "throughput", "offline")
    assert four < 2.4  # published: 4 x the callers, 1.7 x the throughput


def test_latency_is_then_callers_over_throughput():
    assert value(H200, 8, "latency") == pytest.approx(8 * flow_seconds(H200), rel=0.08)
    assert value(H200, 8, "latency") == pytest.approx(3.96, rel=0.08)


def test_first_chunk_grows_with_the_queue():
    """Published 198, 281, 511 and 922 ms."""
    ttfa = [value(L20, c, "ttfa", "streaming") for c in (1, 2, 4, 6)]
    assert ttfa == sorted(ttfa)
    assert ttfa[-1] > 3 * ttfa[0]


def test_decoding_the_history_again_costs_later_chunks():
    """With the whole history as left context a chunk costs more the later it comes."""
    load = ladder(H200).load(profile(H200), "", 4)
    long = dataclasses.replace(load, audio=16.0, sigma=0.0, chunks=(25,))

    def gaps(left: int) -> np.ndarray:
        played = run(dataclasses.replace(long, left_context=left), 2, 0, least=30)
        r, at_home = played.record, played.counted
        index, of = r.chunk_i[:, at.L_INDEX], r.chunk_i[:, at.L_UTT]
        inside = (of >= at_home.start) & (of < at_home.stop)
        time = np.full((of.max() + 1, index.max() + 1), np.nan)
        time[of[inside], index[inside]] = r.chunk_f[inside, at.M_ARRIVE]
        return np.nanmean(np.diff(time, axis=1), axis=0)

    plain, whole = gaps(0), gaps(100_000)
    assert whole[-2] > 4 * whole[1]
    assert plain[-2] < 1.5 * plain[1]
