"""C27: sizing the playback buffer.

https://github.com/tc-mb/llama.cpp-omni/issues/123: two traces of RTF 0.625 and 1 s chunks;
one starves for 0 ms, the other for 1,100 ms, and waiting 1.1 s first hides it but starts at 1.3 s.
https://github.com/Open-LLM-VTuber/Open-LLM-VTuber-Web/pull/32 waits for 0.6 s, the end of the
stream or 1.5 s; https://github.com/bielcarpi/hermes-live-voice/issues/54 drops audio beyond 5 s.

Must show: 0 and 1,100 ms; a wait of 1.1 s hides it and starts at 1.3 s; a larger prebuffer stalls
no more and starts no earlier; a short reply does not wait for what it cannot fill; what overflows
is lost audio.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.test_playback import TRACES, listen

EVEN = [0.2, 1.0, 1.8, 2.6], [1.0] * 4
BURST = [0.2, 2.3, 2.4, 2.6], [1.0] * 4


def test_an_even_trace_never_starves():
    first, stalls, end, _ = listen(*EVEN)
    assert (first, stalls, end) == (0.2, [], pytest.approx(4.2))


def test_the_same_rtf_in_a_burst_starves_for_1100_ms():
    """The first second ends at 1.2, the next chunk comes at 2.3."""
    first, stalls, end, _ = listen(*BURST)
    assert (first, stalls) == (0.2, pytest.approx([1.1]))
    assert end == pytest.approx(2.3 + 3.0)


def test_waiting_1100_ms_first_hides_it():
    """A prebuffer that is not filled before max_wait = 1.1 s: first sound at 1.3 s, then the first
    second lasts exactly until the second chunk comes at 2.3.  The same end of playback."""
    first, stalls, end, _ = listen(*BURST, prebuffer=2.0, max_wait=1.1)
    assert first == pytest.approx(1.3)
    assert sum(stalls) == pytest.approx(0.0, abs=1e-12)
    assert end == pytest.approx(5.3)


@given(TRACES, st.floats(0.0, 3.0), st.floats(0.0, 3.0))
def test_a_larger_prebuffer_starts_later_and_stalls_less(trace, a, b):
    small, large = (listen(*trace, prebuffer=p) for p in sorted((a, b)))
    assert large[0] >= small[0]
    assert sum(large[1]) <= sum(small[1]) + 1e-9
    # what is not stalled is waited for: with no rebuffering playback ends at the same time or later
    assert large[2] >= small[2] - 1e-9


@given(st.lists(st.floats(0.0, 0.5), min_size=1, max_size=5), st.floats(0.0, 100.0))
def test_a_short_reply_does_not_wait_for_what_cannot_come(waits, prebuffer):
    """The last chunk starts the player."""
    arrivals = np.cumsum(waits).tolist()
    first, stalls, _, lost = listen(arrivals, [0.1] * len(arrivals), prebuffer=prebuffer)
    assert first <= arrivals[-1]
    assert lost == 0
    assert prebuffer < 0.1 * len(arrivals) or stalls == []


def test_a_wall_clock_ends_the_wait():
    """0.6 s of audio, or 1.5 s on the clock: 0.5 s at 0 s, the rest at 4 s: starts at 1.5 s, stops
    at 2.0 s, stalls for 2.0 s."""
    first, stalls, _, _ = listen([0.0, 4.0], [0.5, 2.0], prebuffer=0.6, max_wait=1.5)
    assert first == pytest.approx(1.5)
    assert stalls == pytest.approx([2.0])


def test_overflow_is_lost_audio():
    """Queue of at most 5 s: 8 s in one burst at 0: 3 s are dropped, playback ends at 5 s.
    Chunks of 1 s at 0: the player holds 5 after the fifth; 6, 7 and 8 are lost."""
    first, stalls, end, lost = listen([0.0], [8.0], max_queue=5.0)
    assert (first, stalls, end, lost) == (0.0, [], 5.0, 3.0)
    assert listen([0.0] * 8, [1.0] * 8, max_queue=5.0) == (0.0, [], 5.0, 3.0)


@given(TRACES, st.floats(0.1, 5.0), st.floats(0.0, 2.0), st.floats(0.0, 2.0))
def test_audio_is_played_or_lost(trace, limit, prebuffer, rebuffer):
    """End of playback = first sound + stalls + audio - lost audio."""
    first, stalls, end, lost = listen(
        *trace, prebuffer=prebuffer, rebuffer=rebuffer, max_queue=limit
    )
    assert end == pytest.approx(first + sum(stalls) + sum(trace[1]) - lost, abs=1e-9)
