"""When a turn is over, and which pauses are taken for its end."""

import numpy as np
import pytest

from voicesim.scenario.pipeline import DynamicEndpointing, FixedEndpointing, SemanticEndpointing
from voicesim.workload.endpointing import Ends, ends_of_turns


def judged(rule, pause, false_end=0.5, late_end=0.5, calls=1):
    pause = np.array(pause, dtype=float)
    n = len(pause)
    ends = Ends(pause, np.full(n, 1.5), np.full(n, false_end), np.full(n, late_end))
    first = np.arange(calls + 1) * (n // calls)
    place = np.arange(n) % (n // calls)
    return ends_of_turns(rule, ends, first, place)


def test_fixed():
    found = judged(FixedEndpointing(silence=0.5), [0.0, 0.4, 0.5, 0.6])
    assert found.endpoint.tolist() == [0.5] * 4
    assert found.cut_at.tolist() == [np.inf, np.inf, np.inf, 1.5]
    assert found.cut_pause.tolist() == [0, 0, 0, 0.6]
    assert found.cut_endpoint.tolist() == [0, 0, 0, 0.5]


def test_dynamic_learns_from_each_pause_of_the_call():
    """0.3, then 0.5 x 0.3 + 0.5 x 1.1 = 0.7, no pause, then 0.5 x 0.7 + 0.5 x 0.1 = 0.4."""
    rule = DynamicEndpointing(min=0.3, max=2.0, weight=0.5)
    found = judged(rule, [1.1, 0.0, 0.1, 0.5, 9.0, 0.0], calls=1)
    assert found.endpoint == pytest.approx([0.3, 0.7, 0.7, 0.4, 0.45, 2.0])
    assert np.isfinite(found.cut_at).tolist() == [True, False, False, True, True, False]
    assert found.cut_endpoint == pytest.approx([0.3, 0, 0, 0.4, 0.45, 0])
    two = judged(rule, [1.1, 0.0, 0.1, 0.5, 9.0, 0.0], calls=2)
    assert two.endpoint == pytest.approx([0.3, 0.7, 0.7, 0.3, 0.4, 2.0])


def test_semantic_waits_long_where_the_turn_does_not_seem_over():
    rule = SemanticEndpointing(min=0.3, max=2.0, false_cut_offs=0.2, late=0.1)
    sure = judged(rule, [0.2, 0.5, 3.0])
    assert sure.endpoint.tolist() == [0.3] * 3
    assert sure.cut_endpoint.tolist() == [0, 0, 2.0]
    fooled = judged(rule, [0.2, 0.5, 3.0], false_end=0.1)
    assert fooled.cut_endpoint.tolist() == [0, 0.3, 0.3]
    assert judged(rule, [0.0], late_end=0.05).endpoint.tolist() == [2.0]


def test_false_cut_offs_are_read_at_the_wait():
    table = [(0.3, 0.2), (0.7, 0.1)]
    rates = [SemanticEndpointing(min=w, false_cut_offs=table).false_rate for w in (0.1, 0.5, 1.0)]
    assert rates == pytest.approx([0.2, 0.15, 0.1])
