"""A sound that bridges the silence before a late answer, and what happens when both come.

A peak playbook of the field plays a filler phrase when the answer is late
(https://www.t2kvoip.co.uk/blog/managing-high-customer-service-call-volumes-during-peak-seasonal-trading).

Must show: nothing before the threshold; an answer that comes while it plays overlaps it (cut) or
waits for its end (wait), by exact arithmetic; a low threshold makes answers later that were not
late; a caller who hears it does not hang up.
"""

import numpy as np
import pytest

from tests.cases.calls import SPEECH, calls, delay, play, pool, stages
from voicesim.engine.layout import ABANDONED
from voicesim.session import record as rec

AFTER, LENGTH = 0.5, 1.0
FIRST = 5 * 0.02  # s, the TTS engine's first chunk


def answered(late, cut=False, down=0.0, **columns):
    """Answers whose first chunk leaves ``late`` seconds after the decision, one call each."""
    late = np.atleast_1d(late)
    replies = [[(round((x - FIRST) / 0.001), 20)] for x in late]
    spec = stages(0.001, pool(0.02, chunk=5), filler_after=AFTER, filler_audio=LENGTH,
                  filler_cut=cut, delay=down)  # fmt: skip
    return play(spec, calls(replies, 8.0 * np.arange(len(late)), **columns))


@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize("down", [0.0, 0.06])
@pytest.mark.parametrize("late", [0.2, 0.4, 0.499, 0.501, 0.8, 1.3, 1.499, 1.501, 3.0])
def test_when_the_answer_is_heard(late, down, cut):
    run = answered(late, cut, down)
    plays = late > AFTER
    ends = AFTER + down + LENGTH
    during = plays and late + down < ends
    expected = ends if during and not cut else late + down
    assert delay(run) == pytest.approx([expected], abs=1e-9)
    assert run.answer_i[0, rec.A_FILLER] == plays
    assert run.answer_i[0, rec.A_OVERLAP] == (during and cut)


def test_the_threshold_decides_how_many_are_made_later():
    """Answers from 0.2 to 1.2 s late; with a filler of 1 s after 0.5 those that would have come
    soon after it come last of all."""
    late = np.linspace(0.201, 1.201, 101)
    heard = delay(answered(late))
    made_later = heard - late
    assert (made_later >= -1e-9).all()
    worst = made_later.argmax()
    assert late[worst] == pytest.approx(0.501)  # the first to meet the filler
    assert made_later[worst] == pytest.approx(AFTER + LENGTH - 0.501, abs=1e-9)
    met = late > AFTER
    assert heard[met] == pytest.approx(np.full(met.sum(), AFTER + LENGTH), abs=1e-9)
    cut = answered(late, cut=True)
    assert delay(cut) == pytest.approx(late, abs=1e-9)
    assert (cut.answer_i[:, rec.A_OVERLAP] == met).all()


@pytest.mark.parametrize(("patience", "stays"), [(0.7, False), (0.9, True), (1.5, True)])
def test_a_caller_who_hears_it_stays(patience, stays):
    """Patience counts from the last word; the filler plays 0.8 s after it, the answer comes at
    2.3 s."""
    run = answered(2.0, patience=np.array([patience]))
    assert (run.call_i[0, rec.Q_OUTCOME] != ABANDONED) == stays
    spec = stages(0.001, pool(0.02, chunk=5))
    without = play(spec, calls([[(1900, 20)]], patience=np.array([patience])))
    assert without.call_i[0, rec.Q_OUTCOME] == ABANDONED
    assert without.call_f[0, rec.Q_END] == pytest.approx(SPEECH + patience)
