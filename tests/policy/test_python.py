"""The compiled policies as classes, for a pool whose other half is the user's."""

from types import SimpleNamespace

import numpy as np
import pytest

from voicesim.policy import watchdog
from voicesim.policy.admission import ADMIT, QUEUE, REFUSE
from voicesim.policy.python import CapQueue, PolicyError, checked, decider


def view(live, open_, gateway):
    return SimpleNamespace(live=np.array(live), open=np.array(open_), gateway=gateway)


@pytest.mark.parametrize(("gateway", "then"), [(0, QUEUE), (2, QUEUE), (3, REFUSE), (4, REFUSE)])
def test_where_no_replica_is_open_a_gateway_keeps_some(gateway, then):
    nobody = SimpleNamespace(choose=lambda view: -1)
    assert decider(nobody, CapQueue(2, 3))(view([0], [0], gateway)) == (then, 0)


def test_a_full_replica_sends_on_to_one_with_room():
    first = SimpleNamespace(choose=lambda view: 0)
    decide = decider(first, CapQueue(2, 3))
    assert decide(view([1, 0], [1, 1], 0)) == (ADMIT, 0)
    assert decide(view([2, 1], [1, 1], 0)) == (ADMIT, 1)
    assert decide(view([2, 2], [1, 1], 0)) == (QUEUE, 0)
    assert decide(view([2, 2], [1, 1], 3)) == (REFUSE, 0)


def test_one_thread_watches_all_decisions():
    every = [watchdog.Decision() for _ in range(3)]
    thread = watchdog._thread
    assert thread is not None and thread[1].is_alive()
    again = watchdog.Decision()
    assert watchdog._thread is thread
    assert {*every, again} <= set(watchdog._watched)


def test_a_decision_is_stopped_after_so_many_looks(monkeypatch):
    """Looks at the same decision count; the next decision, and a pause between two, begin anew."""
    stopped = []
    monkeypatch.setattr(watchdog, "LIMIT", 3)
    api = SimpleNamespace(PyThreadState_SetAsyncExc=lambda thread, what: stopped.append(thread))
    monkeypatch.setattr(watchdog.ctypes, "pythonapi", api)
    decision = watchdog.Decision()
    with watchdog._lock:
        watchdog._watched.discard(decision)  # only we look

    def looks(n):
        for _ in range(n):
            decision.look()
        return len(stopped)

    assert looks(9) == 0  # nothing is being decided
    decision.begin()
    assert looks(3) == 0  # the first look sees which it is
    assert looks(1) == 1
    assert looks(2) == 1 and looks(1) == 2  # it goes on: three more
    decision.end()
    assert looks(5) == 2
    decision.begin()
    assert looks(3) == 2
    decision.begin()
    assert looks(3) == 2 and looks(1) == 3


@pytest.mark.parametrize("may_queue", [True, False])
def test_only_what_fills_places_from_the_gateway_may_queue(may_queue):
    answers = iter([(ADMIT, 0), (REFUSE, 1), (QUEUE, 1)])
    guarded = checked(lambda view: next(answers), 2, "mine:Policy", may_queue)
    now = SimpleNamespace(now=1.0)
    assert [guarded(now), guarded(now)] == [(ADMIT, 0), (REFUSE, 1)]
    if may_queue:
        assert guarded(now) == (QUEUE, 1)
    else:
        with pytest.raises(PolicyError, match=r"mine:Policy answered \(2, replica 1\) at t = 1"):
            guarded(now)
