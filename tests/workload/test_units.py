"""Units of speech, by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from voicesim.scenario.pipeline import Segmenter
from voicesim.workload.units import Pieces, known_after, segmented


def pieces(*replies):
    """Replies as lists of (tokens, seconds)."""
    rows = [(r, *each) for r, reply in enumerate(replies) for each in reply]
    reply, tokens, seconds = zip(*rows, strict=True)
    return Pieces(np.array(reply), np.array(tokens), np.array(seconds, dtype=float))


REPLIES = pieces([(12, 3.0), (8, 2.0), (4, 1.0)], [(20, 5.0)])


@pytest.mark.parametrize(
    ("rules", "tokens"),
    [
        ({"min_chars": 0}, [12, 8, 4, 20]),
        ({"unit": "two_sentences", "min_chars": 0}, [20, 4, 20]),
        ({"unit": "reply"}, [24, 20]),
        ({"unit": "phrase", "phrase": 1.0, "min_chars": 0}, [4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4]),
        ({"min_chars": 50}, [20, 4, 20]),  # 13 tokens: the first sentence is too short
        ({"first": 1.0, "min_chars": 0}, [4, 8, 8, 4, 4, 16]),
        ({"first": 1.0, "min_chars": 40}, [4, 16, 4, 4, 16]),  # a cut-off beginning is no unit less
        ({"later": 2.5, "min_chars": 0}, [12, 12, 20]),
        ({"first": 10.0, "min_chars": 0}, [12, 8, 4, 20]),
    ],
)
def test_units_by_hand(rules, tokens):
    units = segmented(REPLIES, Segmenter(**rules))
    assert units.tokens.tolist() == tokens
    assert units.seconds == pytest.approx(np.array(tokens) / 4)


def test_serial_stages_make_one_unit_of_a_reply():
    assert segmented(REPLIES, Segmenter(unit="phrase"), whole=True).tokens.tolist() == [24, 20]


def test_when_a_unit_is_known_to_be_complete():
    units = segmented(REPLIES, Segmenter(min_chars=0))
    assert known_after(units, 0).tolist() == [12, 20, 24, 20]
    assert known_after(units, 1).tolist() == [13, 21, 24, 20]
    assert known_after(units, 9).tolist() == [21, 23, 24, 20]  # rising, the end at the latest


sentence = st.tuples(st.integers(1, 60), st.floats(0.05, 20.0))
replies = st.lists(st.lists(sentence, min_size=1, max_size=9), min_size=1, max_size=5)
rules = st.builds(
    Segmenter,
    unit=st.sampled_from(["phrase", "sentence", "two_sentences", "reply"]),
    phrase=st.floats(0.2, 5.0),
    first=st.none() | st.floats(0.05, 5.0),
    later=st.none() | st.floats(0.05, 20.0),
    min_chars=st.integers(0, 100),
    lookahead=st.integers(0, 10),
)


@given(replies, rules)
def test_nothing_is_lost_or_added(written, segmenter):
    before = pieces(*written)
    after = segmented(before, segmenter)
    assert (after.tokens >= 1).all()
    for r in range(len(written)):
        mine = after.reply == r
        assert after.tokens[mine].sum() == before.tokens[before.reply == r].sum()
        assert after.seconds[mine].sum() == pytest.approx(before.seconds[before.reply == r].sum())
        ends = known_after(after, segmenter.lookahead)[mine]
        assert (np.diff(ends) > 0).all() and ends[-1] == after.tokens[mine].sum()
        assert (ends >= np.cumsum(after.tokens[mine])).all()


@given(replies, st.integers(1, 80))
def test_shortened_replies(written, most):
    before = pieces(*written)
    after = before.shortened(np.full(len(written), most))
    for r in range(len(written)):
        whole = before.tokens[before.reply == r].sum()
        assert after.tokens[after.reply == r].sum() == min(whole, most)
    assert (after.tokens >= 1).all()


def test_no_reply_at_all():
    """Nobody called: nothing to cut, nothing to join."""
    none = Pieces(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))
    assert len(none.starts_reply) == len(none.ends_reply) == len(none.place) == len(none.upto) == 0
    assert none.shortened(np.zeros(0, np.int64)) is none
