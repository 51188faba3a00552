"""The four "underrun" numbers that the field's tools print, from one chunk timeline.

A  vLLM-Omni ``audio_underrun_s``: the clock never pauses, audio received before the arriving
   chunk; worst accumulated deficit (s) and how many chunks were late.
B  SGLang-Omni ``max_playback_underrun_s`` (c50/c100/c200): the player pauses; largest gap (s).
C  the continuity client of vllm-omni #3535/#3592 ``max_underrun_ms``: as A, but the arriving
   chunk counts as received.
D  Nari tts-bench ``underruns``: as B, every interval kept: total (s) and count.

All start playing at the first byte, without a prebuffer.  One-chunk responses are not
measured: a verdict of None, never a pass.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from voicesim.listener.player import ROUNDING, SILENT, deliver

INF = float("inf")


@dataclass(frozen=True)
class Underruns:
    """Underrun figures of one stream, seconds; None where one chunk leaves nothing to measure."""

    a_worst: float | None
    a_events: int | None
    b_largest: float | None
    c_worst: float | None
    c_events: int | None
    d_total: float | None
    d_count: int | None

    def ok(self, threshold: float) -> bool | None:
        """C-threshold verdict by definition B (largest gap within ``threshold`` s)."""
        return None if self.b_largest is None else self.b_largest <= threshold


def underruns(arrivals: Sequence[float], audio: Sequence[float]) -> Underruns:
    """The four definitions for chunks of ``audio`` seconds arriving at ``arrivals`` (s).

    Raises ValueError when the two differ in length or are empty.
    """
    if len(arrivals) != len(audio) or not arrivals:
        raise ValueError("need one duration for each arrival, and at least one chunk")
    if len(arrivals) == 1:
        return Underruns(None, None, None, None, None, None, None)
    received = 0.0
    a_worst = c_worst = 0.0
    a_events = c_events = 0
    mode, end, held, since = SILENT, 0.0, 0.0, 0.0
    stalls = []
    for t, d in zip(arrivals, audio, strict=True):
        late = (t - arrivals[0]) - received
        if late > 0:
            a_worst, a_events = max(a_worst, late), a_events + 1
        received += d
        late = (t - arrivals[0]) - received
        if late > 0:
            c_worst, c_events = max(c_worst, late), c_events + 1
        mode, end, held, since, stall, _, _ = deliver(
            mode, end, held, since, t, d, False, 0.0, 0.0, INF, INF
        )
        if stall > ROUNDING:
            stalls.append(stall)
    return Underruns(
        a_worst, a_events, max(stalls, default=0.0), c_worst, c_events, sum(stalls), len(stalls)
    )
