"""When turns are decided to be over, and which pauses are taken for their end."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from voicesim.scenario.pipeline import DynamicEndpointing, FixedEndpointing


@dataclass(frozen=True)
class Ends:
    """What the callers do, whatever the setting: float64[T] each.

    pause: the longest within the turn (s), 0: none.  at: speech before it (s).  false_end,
    late_end: uniform numbers that say whether a model of turns errs at the pause, at the end.
    """

    pause: np.ndarray
    at: np.ndarray
    false_end: np.ndarray
    late_end: np.ndarray


class Decisions(NamedTuple):
    """The tape's columns: float64[T] each, seconds; cut_at inf and the others 0: not cut."""

    endpoint: np.ndarray
    cut_at: np.ndarray
    cut_pause: np.ndarray
    cut_endpoint: np.ndarray


def ends_of_turns(rule: Any, ends: Ends, first: np.ndarray, place: np.ndarray) -> Decisions:
    """What an endpointer makes of it.

    rule: FixedEndpointing, DynamicEndpointing or SemanticEndpointing.  first: int64[S+1], turns of
    the calls.  place: int64[T], number of the turn in its call.  A pause is taken for the end if it
    outlasts the silence waited for.
    """
    if isinstance(rule, FixedEndpointing):
        wait = np.full(len(ends.pause), rule.silence)
        return _decided(ends, wait, wait)
    if isinstance(rule, DynamicEndpointing):
        wait = _learned(rule, ends.pause, first, place)
        return _decided(ends, wait, wait)
    short_of_it = np.where(ends.false_end < rule.false_rate, rule.min, rule.max)
    return _decided(ends, np.where(ends.late_end < rule.late, rule.max, rule.min), short_of_it)


def _decided(ends: Ends, endpoint: np.ndarray, wait: np.ndarray) -> Decisions:
    """endpoint: silence waited for at the end of a turn; wait: the same at the pause."""
    cut = ends.pause > wait
    return Decisions(
        endpoint,
        np.where(cut, ends.at, np.inf),
        np.where(cut, ends.pause, 0.0),
        np.where(cut, wait, 0.0),
    )


def _learned(
    rule: DynamicEndpointing, pause: np.ndarray, first: np.ndarray, place: np.ndarray
) -> np.ndarray:
    """The silence waited for in each turn: a moving average of the call's earlier pauses.

    It begins at ``min``; a pause p makes it weight * wait + (1 - weight) * p, within min and max.
    """
    wait = np.full(len(pause), rule.min)
    calls = np.diff(first)
    now = np.full(len(calls), rule.min)
    rows = np.arange(len(calls))
    for number in range(int(place.max(initial=-1)) + 1):
        rows = rows[calls[rows] > number]
        at = first[rows] + number
        wait[at] = now[rows]
        learned = rule.weight * now[rows] + (1.0 - rule.weight) * pause[at]
        learned = np.clip(learned, rule.min, rule.max)
        now[rows] = np.where(pause[at] > 0.0, learned, now[rows])
    return wait
