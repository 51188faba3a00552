"""The player, transition by transition (semantics: the pausing player of SGLang-Omni and Nari,
with a prebuffer, a rebuffer threshold, a longest wait and a bounded queue)."""

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


def test_a_bounded_queue_drops_what_does_not_fit():
    """2.5 s in hand and room for 3: of a second that comes half is lost, of 5 s 4.5."""
    for audio, lost in ((0.5, 0.0), (1.0, 0.5), (5.0, 4.5)):
        state = deliver(PLAYING, 12.5, 0.0, 0.0, 10.0, audio, False, 0.0, 0.0, INF, 3.0)
        assert (state[0], state[1], state[6]) == (PLAYING, 12.5 + audio - lost, lost)
    assert deliver(PLAYING, 13.0, 0.0, 0.0, 10.0, 1.0, False, 0.0, 0.0, INF, 3.0)[6] == 1.0
    # gathering: 2 s held, 2 more come, 3 are kept and play
    state = deliver(PREBUFFERING, 0.0, 2.0, 9.0, 10.0, 2.0, False, 2.5, 0.0, INF, 3.0)
    assert state == (PLAYING, 13.0, 3.0, 9.0, 0.0, 10.0, 1.0)


@dataclasses.dataclass
class Otherwise:
    """The player told as a tank: what is in it, and a clock that runs while it plays."""

    prebuffer: float
    rebuffer: float
    max_wait: float
    max_queue: float
    now: float = 0.0
    tank: float = 0.0
    gathering_since: float | None = None
    started: float | None = None
    plays: bool = False
    stalls: list = dataclasses.field(default_factory=list)
    lost: float = 0.0

    def until(self, t):
        if self.started is None and self.gathering_since is not None:
            begin = self.gathering_since + self.max_wait
            if begin < t:  # sound without the prebuffer
                self.started, self.plays, self.now = begin, True, begin
        if self.plays:
            if self.tank < t - self.now:
                self.gathering_since, self.tank, self.plays = self.now + self.tank, 0.0, False
            else:
                self.tank -= t - self.now
        self.now = t

    def chunk(self, t, audio, last):
        self.until(t)
        if self.gathering_since is None and not self.plays:
            self.gathering_since = t
        self.lost += max(self.tank + audio - self.max_queue, 0.0)
        self.tank = min(self.tank + audio, self.max_queue)
        need = self.prebuffer if self.started is None else self.rebuffer
        if not self.plays and (self.tank >= need or last):
            if self.started is None:
                self.started = t
            else:
                self.stalls.append(t - self.gathering_since)
            self.plays = True


EIGHTHS = st.integers(0, 40).map(lambda n: n / 8)  # exact in binary: no rounding to allow for


@given(
    st.lists(st.tuples(EIGHTHS, EIGHTHS), min_size=1, max_size=12),
    EIGHTHS, EIGHTHS, EIGHTHS | st.just(INF), EIGHTHS.map(lambda x: x + 5.0) | st.just(INF),
)  # fmt: skip
def test_the_player_told_otherwise(chunks, prebuffer, rebuffer, max_wait, max_queue):
    """max_queue holds prebuffer and rebuffer, as a scenario must."""
    other = Otherwise(prebuffer, rebuffer, max_wait, max_queue)
    state = (SILENT, 0.0, 0.0, 0.0)
    t, lost, first, stalls = 0.0, 0.0, None, []
    for i, (pause, audio) in enumerate(chunks):
        t += pause
        last = i == len(chunks) - 1
        other.chunk(t, audio, last)
        *state, stall, started, gone = deliver(
            *state, t, audio, last, prebuffer, rebuffer, max_wait, max_queue
        )
        lost += gone
        first = started if started >= 0.0 else first
        stalls += [stall] if stall > 0.0 else []
    assert (first, lost) == (other.started, other.lost)
    assert stalls == [s for s in other.stalls if s > 0.0]
    if other.plays:
        assert state[1] == t + other.tank
