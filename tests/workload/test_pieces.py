"""A tape drawn in pieces is the tape drawn at once, to the bit."""

import itertools

import numpy as np
import pytest
from workload_standins import arrivals, law, workload

from voicesim.workload.arrivals import arrivals_in_pieces, draw_arrivals
from voicesim.workload.pieces import cut, draw_in_pieces
from voicesim.workload.tape import draw_tape

COLUMNS = ("tokens", "prompt", "think", "patience")
ARRIVALS = {
    "constant": {"rate": 3.0},
    "poisson": {"rate": 3.0},
    "gamma": {"rate": 3.0, "dispersion": 2.0, "dispersion_window": 7.0},
    "surge": {"base": 1.0, "peak": 6.0, "at": 40.0, "rise": 20.0, "hold": 30.0, "fall": 0.0},
    "diurnal": {"rate": 3.0, "profile": [0.0, 2.0] * 12, "start_hour": 0.99},
    "burst": {"size": 300, "at": 5.0, "spread": 30.0},
}
LAWS = {
    "constant": {"value": 2.5},
    "exponential": {"mean": 4.0},
    "lognormal": {"mean": 4.3, "p99": 15.0},
    "geometric": {"mean": 3.0},
    "poisson": {"mean": 4.0},
    "negative_binomial": {"mean": 4.0, "cv": 1.2},
    "gamma": {"mean": 4.0, "cv": 0.7},
    "normal": {"mean": 4.0, "sd": 2.0},
    "uniform": {"low": 1.0, "high": 9.0},
    "empirical": {"values": [1.0, 2.0, 7.0]},
    "mixture": {
        "parts": [(0.3, law("constant", value=1.0)), (0.7, law("exponential", mean=5.0))]
    },
}  # fmt: skip


def joined(pieces):
    """The pieces as one: arrival, first and the columns."""
    sizes = np.concatenate([np.diff(p.first) for p in pieces])
    whole = {c: np.concatenate([getattr(p, c) for p in pieces]) for c in ("arrival", *COLUMNS)}
    return whole | {"first": np.concatenate(([0], np.cumsum(sizes)))}


def assert_equal(pieces, whole, utterances=None):
    found = joined(pieces)
    for name, column in found.items():
        expected = getattr(whole, name)
        if utterances is not None and name in COLUMNS:
            expected, column = expected[:utterances], column[:utterances]
        if not (utterances is not None and name == "first"):
            assert np.array_equal(column, expected), name


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("kind", ARRIVALS)
def test_arrivals(kind, size):
    given = arrivals(kind, **ARRIVALS[kind])
    whole = draw_arrivals(given, 150.0, 5, 1)
    pieces = list(arrivals_in_pieces(given, 150.0, 5, 1, size))
    assert len(whole) > 200
    assert np.array_equal(np.concatenate(pieces), whole)
    assert max(map(len, pieces)) <= size


@pytest.mark.parametrize("kind", LAWS)
def test_every_law_in_every_column(kind):
    given = law(kind, **LAWS[kind])
    given.mean = lambda: 4.0  # of the laws whose mean the scenario's own know
    w = workload(
        arrivals=arrivals("poisson", rate=4.0), audio=given, prompt_tokens=given,
        utterances_per_session=given, think=given, patience=given,
    )  # fmt: skip
    how = (w, 150.0, 9, 2, 0.08, 60)
    whole, pieces = draw_tape(*how), list(draw_in_pieces(37, *how))
    assert len(pieces) > 10
    assert_equal(pieces, whole)
    assert sum(p.clipped for p in pieces) == whole.clipped


def test_a_closed_loop_has_no_end():
    w = workload(arrivals=arrivals("closed", callers=5, stagger=1.0))
    how = (w, 60.0, 9, 2, 0.08, 2048)
    whole = draw_tape(*how)
    pieces = list(itertools.islice(draw_in_pieces(90, *how), 4))
    assert [p.utterances for p in pieces] == [90] * 4
    assert {p.callers for p in pieces} == {5}
    longer = whole
    while longer.utterances < 360:
        longer = longer.extend()
    assert_equal(pieces, longer, utterances=360)


def test_a_tape_cut_into_whole_sessions():
    w = workload(utterances_per_session=law("geometric", mean=4.0))
    whole = draw_tape(w, 100.0, 3, 0, 0.08, 60)
    for size in (1, 11, 10_000):
        pieces = list(cut(whole, size))
        assert_equal(pieces, whole)
        assert sum(p.clipped for p in pieces) == whole.clipped > 0
    assert len(list(cut(whole, 10_000))) == 1
    (nobody,) = cut(whole.only(np.zeros(whole.sessions, bool)), 5)
    assert nobody.sessions == 0
