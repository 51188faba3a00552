"""C1: chunks of concurrent streams interleave in the vocoder; gaps from four streams on.

https://github.com/vllm-project/vllm-omni/issues/2562,
https://github.com/vllm-project/vllm-omni/issues/2568: 2-frame first chunks, then 25 frames of
80 ms, one FIFO vocoder, a slice of a card (here: a codec four times slower).  Silent holes from
four streams on while memory is half used; a larger left context moved the voice, not the holes.

Must show: no holes with one or two callers and some from four on; the gap between a stream's chunks
grows with the callers while the decode step hardly moves; twice the left context makes each batch
dearer and leaves the onset within one stream.
"""

import dataclasses

import numpy as np

from tests.cases.machine import DECODE, Heard, card, codec, gaps, play, together
from voicesim.engine import layout as at

SLOW = 4.0


def run(callers, context=25, **tape):
    spec = card((2, 25), codec=codec(SLOW, left_context=context))
    return play(spec, dataclasses.replace(together(callers, 0, 20.0, within=0.2), **tape))


def audible(r):
    return int(r.utterance_i[:, at.R_AUDIBLE].sum())


def onset(context):
    return next(c for c in range(1, 17) if audible(run(c, context)))


def test_holes_from_four_streams_on():
    assert [audible(run(c)) for c in (1, 2)] == [0, 0]
    assert all(audible(run(c)) > 0 for c in (4, 8, 16))


def test_the_gap_grows_with_the_streams_and_the_step_does_not():
    """Codec-bound, a stream's turn comes after everybody else's: while all c speak, gap = c codec
    batches, of 4 x (7.1 + 50 x 0.09) = 46.4 ms alone and 1.4 times that beside the decoder."""
    batch = SLOW * (0.0071 + 50 * 0.00009)
    for c in (12, 16):
        r = run(c, tokens=np.full(c, 500))
        gap = np.median(gaps(r, first=2, until=r.utterance_f[:, at.Z_DONE].min()))
        assert c * batch <= gap <= 1.4 * c * batch
    assert DECODE.compute_s[16] < 1.25 * DECODE.compute_s[1]


def test_left_context_does_not_move_the_onset():
    assert abs(onset(50) - onset(25)) <= 1


def test_a_larger_first_chunk_trades_holes_for_first_audio():
    small, large = (
        Heard(play(card((n, 25), codec=codec(SLOW, left_context=25)), together(4, 0, 20.0, 0.2)))
        for n in (2, 6)
    )
    assert large.largest.max() < small.largest.max()
    assert large.p50() > small.p50()
