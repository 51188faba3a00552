"""C31: speech in units: the first boundary, the pause between units, three kinds of engine.

https://github.com/KoljaB/RealtimeTTS/issues/339, https://github.com/KoljaB/RealtimeTTS/issues/334,
https://github.com/KoljaB/RealtimeTTS/issues/286: whole-sentence engines delay the first audio by
the first sentence, callers hear a pause between sentences; models that stream, that serve one by
one, that batch.  https://github.com/pipecat-ai/pipecat/pull/1789,
https://github.com/pipecat-ai/pipecat/issues/1399: waiting for the sentence costs some 15 ms if the
LLM is fast.  https://github.com/aplisay/llm-agent/pull/329: phrases, the first of at most 250 ms,
later ones of 600 ms.

Must show: first audio = wait for the boundary + generation of that unit; the gap between units =
max(0, gen_k+1 - play_k); one unit of prefetch removes it if and only if RTF < 1.
"""

import numpy as np
import pytest

from tests.cases.calls import AUDIO, calls, delay, play, pool, silences, stages
from voicesim.engine.spec import CodecSpec
from voicesim.scenario.pipeline import Segmenter
from voicesim.session import record as rec
from voicesim.workload.units import Pieces, known_after, segmented

PACE, SENTENCES = 4, 8  # tokens a second of speech; sentences of 3.2 s
UNITS = {
    "phrase": Segmenter(unit="phrase", phrase=0.6, first=0.25, later=0.6, min_chars=0),
    "sentence": Segmenter(),
    "two_sentences": Segmenter(unit="two_sentences"),
}
EPS = 1e-9


def reply(rules: Segmenter) -> list[tuple[int, int]]:
    """Eight sentences as units: the tokens that show each, its decode steps."""
    seconds = np.full(SENTENCES, 3.2)
    tokens = np.ceil(seconds * PACE).astype(np.int64)
    units = segmented(Pieces(np.zeros(SENTENCES, np.int64), tokens, seconds), rules)
    shown = np.diff(known_after(units, rules.lookahead), prepend=0)
    steps = np.ceil(units.seconds / AUDIO - EPS).astype(np.int64)
    return list(zip(shown.tolist(), steps.tolist(), strict=True))


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("tokens_per_s", [20, 80])
@pytest.mark.parametrize("prefetch", [0, 1])
def test_first_audio_is_the_boundary_and_one_unit(unit, tokens_per_s, prefetch):
    """The boundary is the unit's own last token and the one that shows it."""
    units = reply(UNITS[unit])
    shown, steps = {"phrase": (2, 4), "sentence": (14, 40), "two_sentences": (27, 80)}[unit]
    assert units[0] == (shown, steps)
    step = 0.25 * AUDIO
    run = play(stages(1 / tokens_per_s, pool(step), prefetch=prefetch), calls([units]))
    assert delay(run) == pytest.approx(shown / tokens_per_s + steps * step, abs=EPS)


def test_a_fast_llm_makes_the_wait_for_a_sentence_nothing():
    """The 15 ms of the field: a sentence of 14 tokens at 1,000 a second."""
    run = play(stages(0.001, pool(0.25 * AUDIO, chunk=1)), calls([reply(UNITS["sentence"])]))
    assert delay(run) == pytest.approx(0.014 + 0.02, abs=EPS)


UNEVEN = [10, 40, 15, 60, 20, 20, 80, 5, 30]  # decode steps of the units


@pytest.mark.parametrize("rtf", [0.2, 0.8, 1.25, 2.5])
def test_without_prefetch_every_pause_is_a_whole_generation(rtf):
    """However fast the engine: it is asked when the unit before has been played."""
    spec = stages(0.001, pool(rtf * AUDIO), prefetch=0)
    run = play(spec, calls([[(1, steps) for steps in UNEVEN]]))
    assert silences(run) == pytest.approx(rtf * AUDIO * np.array(UNEVEN[1:]), abs=EPS)


@pytest.mark.parametrize("rtf", [0.2, 0.8, 1.25, 2.5])
def test_the_gap_is_what_generation_takes_longer_than_the_unit_before_plays(rtf):
    """On a worker that serves one by one; asked one unit ahead."""
    spec = stages(0.001, pool(rtf * AUDIO, max_num_seqs=1), prefetch=1)
    run = play(spec, calls([[(1, steps) for steps in UNEVEN]]))
    steps = np.array(UNEVEN)
    gap = np.maximum(0.0, rtf * AUDIO * steps[1:] - AUDIO * steps[:-1])
    assert silences(run) == pytest.approx(gap, abs=EPS)
    assert (gap > 0).any() and (gap == 0).any()


@pytest.mark.parametrize("rtf", [0.25, 0.5, 1.0, 2.5])
def test_an_engine_that_batches_makes_the_next_unit_during_a_gap(rtf):
    """It is asked for a unit when the last but one has been played, and never queues: a gap before
    a unit is time for the one after it.  It joins at a boundary of steps: those that play a whole
    number of them ask at one."""
    step = rtf * AUDIO
    run = play(stages(0.001, pool(step), prefetch=1), calls([[(1, steps) for steps in UNEVEN]]))
    gaps, steps = silences(run), np.array(UNEVEN)
    # the first two are asked for 1 ms apart, the second joins after a step
    assert gaps[0] == pytest.approx(max(0.0, step * (1 + steps[1]) - (step + AUDIO) * steps[0]))
    law = np.maximum(0.0, step * steps[2:] - AUDIO * steps[1:-1] - gaps[:-1])
    assert (law > 0).any()
    if rtf <= 1:
        assert gaps[1:] == pytest.approx(law, abs=EPS)
    else:
        assert (gaps[1:] >= law - EPS).all() and (gaps[1:] <= law + step + EPS).all()


@pytest.mark.parametrize("serial", [True, False])
@pytest.mark.parametrize("rtf", [0.5, 0.95, 1.05, 1.5])
def test_prefetch_of_one_removes_the_gaps_if_and_only_if_rtf_is_below_one(rtf, serial):
    tts = pool(rtf * AUDIO, max_num_seqs=1 if serial else 64)
    run = play(stages(0.0125, tts, prefetch=1), calls([[(14, 40)] * SENTENCES]))
    gaps = silences(run)
    assert (gaps.max() < EPS) == (rtf < 1)
    if serial:
        assert gaps == pytest.approx(max(0.0, rtf - 1) * 3.2, abs=EPS)


# --- what a queue looks like ---------------------------------------------------------------------

N, STEP = 12, 0.02
SIZES = np.random.default_rng(31).integers(5, 60, N)  # decode steps of what N callers want at once


def finished(tts) -> np.ndarray:
    """When each of N callers has all of its speech, from the moment they ask."""
    run = play(stages(0.001, tts), calls([[(1, int(steps))] for steps in SIZES]))
    return np.array(
        [run.answer_f[k, rec.A_DONE] - run.answer_f[k, rec.A_FIRST_UNIT] for k in range(N)]
    )


def test_continuous_batching_shares_the_processor():
    """Work-bound: a step takes STEP for each stream in it.  Who wants w steps is done when
    everyone has had min(w, own) of them: the short first, whatever the order of arrival."""
    ends = finished(pool(0.0, per_token=STEP))
    expected = [STEP * np.minimum(SIZES, own).sum() for own in SIZES]
    assert ends == pytest.approx(expected, abs=EPS)
    assert (np.argsort(ends, kind="stable") == np.argsort(SIZES, kind="stable")).all()


def test_one_by_one_is_first_come_first_served():
    ends = finished(pool(STEP, max_num_seqs=1))
    assert ends == pytest.approx(STEP * np.cumsum(SIZES), abs=EPS)


def test_a_batch_comes_out_together():
    """Four at a time through a codec that takes 0.4 s however many there are; drawing the tokens
    takes next to nothing: the same instant for a batch, long or short, then the next one's."""
    codec = CodecSpec(np.array([0.4, 0.0, 0.0]), cap=4, gather=0.01, shared=False)
    ends = finished(pool(1e-9, codec=codec))
    assert sorted(ends) == pytest.approx([0.4] * 4 + [0.8] * 4 + [1.2] * 4, abs=1e-6)


@pytest.mark.parametrize(("n", "stalls"), [(4, False), (5, False), (6, True)])
def test_a_streaming_model_of_rtf_a_fifth_serves_five_by_slowing_each_to_real_time(n, stalls):
    """Chunks of one step; everyone's first sound waits for one round."""
    run = play(stages(0.001, pool(0.0, chunk=1, per_token=0.2 * AUDIO)), calls([[(1, 60)]] * n))
    assert delay(run) == pytest.approx(0.001 + n * 0.2 * AUDIO, abs=EPS)
    worst = max(silences(run, k).sum() for k in range(n))
    assert (worst > EPS) == stalls
    if stalls:
        assert worst == pytest.approx(59 * (0.2 * n - 1) * AUDIO, abs=EPS)
