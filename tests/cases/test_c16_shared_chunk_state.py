"""C16: the chunk size is kept on the model, so calls share it.

CosyVoice2's server doubles its hop (25, 50, 100 tokens at 25 tokens/s) while it speaks and never
resets it: after the first request it is at 50, after the second at 100 and stays there, so turns of
3 to 4 s come as one piece from the third on (https://github.com/QwenAudio/CosyVoice/pull/1849,
https://github.com/QwenAudio/CosyVoice/pull/1894,
https://github.com/QwenAudio/CosyVoice/issues/1798).  Five turns of 3.5 s (88 tokens), one after
the other; the prompt fills its last hop up with 14 tokens, which the first chunk waits for too.

Must show: shared, the first chunk grows over the first requests to the whole turn and nobody counts
an underrun (one chunk: not applicable); kept per call, every turn starts alike.
"""

import numpy as np
import pytest

from tests.cases.machine import Heard
from tests.cases.machine import play as run
from tests.engine.worlds import differences, tape_of
from voicesim.engine import layout as at
from voicesim.engine.cost import StepCost
from voicesim.engine.reference import run_reference
from voicesim.engine.spec import CodecSpec, PoolSpec

TOKENS, HOPS, PAD, STEP = 88, (25, 50, 100), 14, 0.012


def turns(shared: bool, n: int = 5):
    """The run of n turns, one after the other."""
    spec = PoolSpec(
        engines=1, step=StepCost(np.zeros(9), np.full(2049, STEP)), token_audio=0.04,
        schedule=HOPS if shared else (HOPS[0] + PAD, *HOPS[1:]), shared_ramp=shared,
        pad=PAD if shared else 0, codec=CodecSpec(np.array([0.05, 0.0, 0.001])),
        horizon=100.0, end=100.0, record_chunks=True,
    )  # fmt: skip
    tape = tape_of([0.0], [TOKENS] * n, [60] * n, np.full(n, 1.0), first=[0, n])
    r = run(spec, tape)
    assert differences(r, run_reference(spec, tape)) == []
    return r


def chunks(r) -> list[list[int]]:
    """Tokens of each chunk of each turn."""
    order = np.lexsort((r.chunk_i[:, at.L_INDEX], r.chunk_i[:, at.L_UTT]))
    who = r.chunk_i[order, at.L_UTT]
    size = np.round(r.chunk_f[order, at.M_AUDIO] / 0.04).astype(int)
    return [size[who == u].tolist() for u in range(who.max() + 1)]


def test_shared_the_first_chunk_grows_until_it_is_the_whole_turn():
    r = turns(shared=True)
    assert chunks(r) == [[39, 49], [64, 24], [88], [88], [88]]
    # the decode steps of the first chunk, and the codec: 50 ms + 1 ms a token
    expected = [n * STEP + 0.05 + 0.001 * n for n in (39, 64, 88, 88, 88)]
    assert Heard(r).first_audio == pytest.approx(expected, abs=1e-9)


def test_and_nobody_counts_an_underrun():
    """From the third turn on there is one chunk, so continuity is not applicable."""
    r = turns(shared=True)
    assert not r.utterance_i[:, at.R_STALLS].any()
    assert (r.utterance_i[2:, at.R_CHUNKS] == 1).all()
    assert len(Heard(r).largest) == 2  # of several chunks: the first two turns alone


def test_each_turn_for_itself_starts_alike():
    r = turns(shared=False)
    assert chunks(r) == [[39, 49]] * 5
    first = Heard(r).first_audio
    assert first == pytest.approx(np.full(5, first[0]), abs=1e-9)
    assert first[0] == pytest.approx(Heard(turns(shared=True)).first_audio[0], abs=1e-9)
