"""How fast the language model must be to keep speech fed.

Speech is some four tokens of text a second (178 words a minute are 18 characters a second,
https://developers.openai.com/cookbook/examples/speech_transcription_methods; four to a token,
https://help.openai.com/en/articles/4936856).  Three regimes: 8 to 10, 20 and 40 tokens a second.

Must show: at r tokens a second a sentence of n2 tokens keeps up with one of n1 before it as long as
n2 / r <= n1 / 4.  At 8 to 10 a reply that begins with a short unit stalls before the next, and one
that begins with a sentence starts a second and a half late; at 20 it does not stall but starts
late; at 40 neither is heard.  Below 4 it stalls whatever the units are.
"""

import numpy as np
import pytest

from tests.cases.calls import AUDIO, calls, delay, play, pool, silences, stages

PACE = 4.0
FAST = pool(0.01, chunk=1)  # speech at eight times real time, one step to the first sound
REGIMES = [8, 10, 20, 40]
ONE, SHORT = 13, 3  # tokens of a sentence of 3.2 s, of an opening of 0.72 s
EPS = 1e-9


def unit(tokens: int) -> tuple[int, int]:
    return tokens, round(tokens / PACE / AUDIO)


def said(units: list[int], rate: float):
    return play(stages(1 / rate, FAST), calls([[unit(n) for n in units]]))


def pause(before: int, after: int, rate: float) -> float:
    """Silence between a first unit and the next, which are made in a step's time."""
    return max(0.0, after / rate - unit(before)[1] * AUDIO)


@pytest.mark.parametrize("rate", REGIMES)
@pytest.mark.parametrize("before", [2, 3, 6, 13])
@pytest.mark.parametrize("after", [6, 13, 26])
def test_a_unit_keeps_up_if_its_text_comes_while_the_one_before_plays(before, after, rate):
    run = said([before, after], rate)
    assert delay(run) == pytest.approx(before / rate + 0.01, abs=EPS)
    assert silences(run).sum() == pytest.approx(pause(before, after, rate), abs=EPS)


@pytest.mark.parametrize(
    ("rate", "opening", "late", "stall"),
    [  # s: the reply begins with three tokens or with a sentence
        (8, SHORT, 0.375, 0.905),
        (10, SHORT, 0.3, 0.58),
        (20, SHORT, 0.15, 0.0),
        (40, SHORT, 0.075, 0.0),
        (8, ONE, 1.625, 0.0),
        (10, ONE, 1.3, 0.0),
        (20, ONE, 0.65, 0.0),
        (40, ONE, 0.325, 0.0),
    ],
)
def test_slow_either_stalls_or_starts_late_and_fast_does_neither(rate, opening, late, stall):
    """8 to 10: no way to begin a reply that a caller would not hear.  20: only a whole sentence
    comes late.  40: either will do."""
    run = said([opening, ONE, ONE, ONE], rate)
    assert delay(run) == pytest.approx(late + 0.01, abs=EPS)
    assert silences(run).sum() == pytest.approx(stall, abs=EPS)


@pytest.mark.parametrize("rate", [2.0, 3.0, 3.9])
def test_slower_than_speech_it_stalls_before_every_unit(rate):
    """Each sentence by n (1 / r - 1 / 4), however they are cut."""
    run = said([12] * 6, rate)
    found = silences(run)
    assert found[found > EPS] == pytest.approx([12 / rate - 38 * AUDIO] * 5, abs=EPS)


@pytest.mark.parametrize("rate", REGIMES)
def test_the_ratio_that_stalls_is_the_rate_over_the_pace(rate):
    """8: a unit twice as long as the one before; 40: ten times."""
    before = 4
    limit = rate * (unit(before)[1] * AUDIO)
    assert limit / before == pytest.approx(rate / PACE, rel=0.05)
    for after in (int(limit), int(limit) + 1):
        assert (silences(said([before, after], rate)).sum() > EPS) == (after > limit)


def test_callers_share_the_speed_and_enter_a_slower_regime():
    """A model of 40 tokens a second whose step grows with its streams: four callers at once have
    10 each, and the opening that was safe stalls."""
    reply = [unit(n) for n in (SHORT, ONE, ONE)]
    stalls = []
    for n in (1, 2, 4):
        run = play(stages(0.0, FAST, llm=(pool(0.0, per_token=1 / 40),)), calls([reply] * n))
        assert delay(run) == pytest.approx(np.full(n, n * SHORT / 40 + 0.01), abs=EPS)
        stalls.append(silences(run, n - 1).sum())
    assert stalls == pytest.approx([0.0, 0.0, pause(SHORT, ONE, 10.0)], abs=EPS)
