"""What a run of dialogues leaves behind, the same from kernel and reference."""

from dataclasses import dataclass, field

import numpy as np

from voicesim.engine.blame import N_STALL_F, N_STALL_I
from voicesim.engine.record import RunRecord

# answers, int columns
(
    A_OUTCOME, A_CHUNKS, A_STALLS, A_AUDIBLE, A_SENT_UNITS, A_FILLER, A_OVERLAP, A_INTERRUPT,
    A_FELL_BACK,
) = range(9)  # fmt: skip
NAI = 9
# answers, float columns: instants (s, -1: never) and lengths (s)
(
    A_SPEAK, A_SPOKEN, A_HEARD_END, A_DECIDED, A_TEXT, A_ASKED, A_FIRST_UNIT, A_FIRST_SENT,
    A_ARRIVED, A_START, A_PLAY_END, A_DONE, A_STALL, A_STALL_MAX, A_RECEIVED, A_LISTENED, A_STOPPED,
    A_LOST, A_PAUSED, A_PACE,
) = range(20)  # fmt: skip
NAF = 20
# calls: int columns, float columns
Q_OUTCOME, Q_TURNS = range(2)
NQI = 2
Q_START, Q_END = range(2)
NQF = 2
# chunks: int columns, float columns (s); HEARD: when its audio comes out of the client's code
K_ANSWER, K_INDEX = range(2)
NKI = 2
K_SENT, K_ARRIVED, K_HEARD, K_AUDIO = range(4)
NKF = 4
# time series
D_CALLS, D_REFUSED, D_ABANDONED, D_STALLS, D_LIVE, D_SPEAKING, D_ANSWERING = range(7)
ND = 7

# outcomes of an answer (those of a call are voicesim.engine.layout's)
PENDING, PLAYED, CANCELLED, HUNG_UP, NOT_SERVED = range(5)
ANSWERS = ("live", "played", "cancelled", "hung_up", "failed")
# what interrupted an answer
NOTHING, CALLER, NOISE, CUT_OFF = range(4)
INTERRUPTS = ("", "barge_in", "false_barge_in", "cut_off")


@dataclass
class DialogueRecord:
    """Raw results of one run of dialogues.

    answer_i: int64[R, 9], answer_f: float64[R, 20], one row per answer of the tape.  The instants
    in order: the caller begins to speak, has spoken, that end is heard by the server, the turn is
    decided to be over, its text is there, the LLM is asked, the first unit's text is complete,
    the first chunk leaves the server, is in the client, is heard; the answer has been played
    (PLAY_END), its last chunk has left or it was cancelled (DONE).  RECEIVED: audio that reached
    the player; LISTENED: audio heard before the answer was stopped; STOPPED: when that was.
    PACE: the least audio / gap of its chunks, -1 of one.
    call_i: int64[S, 2], call_f: float64[S, 2].
    series: int64[bins, 7].  gaps, gap_hist: as in RunRecord, over the chunks of answers.
    chunk_i: int64[n, 2], chunk_f: float64[n, 4], in the order of sending, if asked for.
    pools: one RunRecord for each of the spec's pools: utterances are answers (LLM, omni) or units.
    stall_i, stall_f: the audible stalls as in RunRecord, if asked for.
    asr: seconds and counts of the recogniser by name (voicesim.engine.asr), {} if there is none.
    """

    answer_i: np.ndarray
    answer_f: np.ndarray
    call_i: np.ndarray
    call_f: np.ndarray
    series: np.ndarray
    gaps: np.ndarray
    gap_hist: np.ndarray
    chunk_i: np.ndarray
    chunk_f: np.ndarray
    pools: tuple[RunRecord, ...]
    asr: dict[str, np.ndarray]
    first_stall: float
    now: float
    stall_i: np.ndarray = field(default_factory=lambda: np.zeros((0, N_STALL_I), np.int64))
    stall_f: np.ndarray = field(default_factory=lambda: np.zeros((0, N_STALL_F)))
