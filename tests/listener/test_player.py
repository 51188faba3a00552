"""The player, transition by transition (semantics: the pausing player of SGLang-Omni and Nari,
with a prebuffer, a rebuffer threshold, a longest wait and a bounded queue)."""

import math

import pytest

from voicesim.listener.player import (
    PLAYING,
    PREBUFFERING,
    REBUFFERING,
    SILENT,
    deliver,
    heard_by,
)

INF = math.inf


def test_the_first_chunk_starts_a_player_without_prebuffer():
    mode, end, _, _, stall, started, lost = deliver(
        SILENT, 0.0, 0.0, 0.0, 2.0, 0.5, False, 0.0, 0.0, INF, INF
    )
    assert (mode, end, stall, started, lost) == (PLAYING, 2.5, 0.0, 2.0, 0.0)


def test_a_chunk_in_time_extends_playback_and_a_late_one_moves_it():
    """Playing until 2.5: a chunk at 2.5 is in time; one at 2.75 ends a stall of 0.25 s."""
    assert deliver(PLAYING, 2.5, 0.0, 0.0, 2.5, 1.0, False, 0.0, 0.0, INF, INF)[1:5:3] == (3.5, 0.0)
    mode, end, _, _, stall, started, _ = deliver(
        PLAYING, 2.5, 0.0, 0.0, 2.75, 1.0, False, 0.0, 0.0, INF, INF
    )
    assert (mode, end, stall, started) == (PLAYING, 3.75, 0.25, -1.0)


def test_a_rebuffer_threshold_lengthens_the_stall():
    """Empty since 2.5, 0.5 s at 2.75 is less than the 0.75 s asked for; 0.5 s more at 3.25 is
    enough: a stall of 0.75 s, then 1 s in hand."""
    state = deliver(PLAYING, 2.5, 0.0, 0.0, 2.75, 0.5, False, 0.0, 0.75, INF, INF)
    assert state[0] == REBUFFERING
    assert state[4] == 0.0
    state = deliver(*state[:4], 3.25, 0.5, False, 0.0, 0.75, INF, INF)
    assert (state[0], state[1], state[4]) == (PLAYING, 4.25, 0.75)


def test_a_prebuffer_gathers_and_the_last_chunk_starts_it():
    state = deliver(SILENT, 0.0, 0.0, 0.0, 1.0, 0.5, False, 2.0, 0.0, INF, INF)
    assert (state[0], state[5]) == (PREBUFFERING, -1.0)
    state = deliver(*state[:4], 1.25, 0.5, True, 2.0, 0.0, INF, INF)
    assert (state[0], state[1], state[5]) == (PLAYING, 2.25, 1.25)


@pytest.mark.parametrize(("t", "heard"), [(0.9, False), (1.0, True), (1.1, True)])
def test_the_longest_wait_is_heard_without_a_chunk(t, heard):
    """Gathering since 0.5 with at most 0.5 s of patience for it: sound at 1.0."""
    assert heard_by(PREBUFFERING, 0.5, -1.0, t, 0.5) is heard


def test_silence_is_not_heard():
    assert heard_by(SILENT, 0.0, -1.0, 1e9, INF) is False
    assert heard_by(PLAYING, 0.0, 3.0, 2.0, INF) is False  # on its way
    assert heard_by(PLAYING, 0.0, 3.0, 3.0, INF) is True
