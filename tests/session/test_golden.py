"""One call of two turns, worked by hand: every instant of both answers, in both tellings.

The LLM takes 10 ms a step, the TTS engine 20 ms; no codec, no jitter, no recogniser.  A reply has
six tokens in units of three; a unit is four decode steps of 80 ms of audio, sent two at a time.
Microphone 20 ms, way up 30 ms, way down 40 ms, 500 ms of silence end a turn.

Turn 1: the caller speaks from 1.00 to 3.00, heard until 3.05, decided at 3.55.  Units of text at
3.58 and 3.61.  The TTS engine steps from 3.58 on: the first unit's chunks at 3.62 and 3.66; the
second joins at the boundary 3.62, its chunks are ready at 3.66 and 3.70.  Sound from 3.66 on.
0.40 s later, at 4.06, the caller breaks in; the server hears it at 4.11, the client is told at
4.15: of 0.64 s sent, 0.49 s were heard.

Turn 2 begins at 4.06.  After 1 s the caller pauses for 0.6 s, and 0.4 s of it are taken for the
end: decided at 5.06 + 0.05 + 0.40 = 5.51, first sound at 5.62, while the caller goes on from 5.66,
heard at 5.71.  What the agent says then, until 5.75, is 0.13 s.  The turn is over at 6.66, decided
at 7.21, answered from 7.32 to 7.96, and so is the call.
"""

import numpy as np
import pytest

from tests.engine.worlds import step_cost
from voicesim.engine.layout import COMPLETED
from voicesim.engine.spec import PoolSpec
from voicesim.session import record as rec
from voicesim.session.dialogue import Dialogue, record
from voicesim.session.reference import run_dialogue_reference
from voicesim.session.spec import IMMEDIATE, DialogueSpec
from voicesim.session.tape import DialogueTape


def pool(step: float) -> PoolSpec:
    cost = step_cost(memory=step, per_kv=0.0, base=0.0, per_token=0.0)
    return PoolSpec(engines=1, step=cost, schedule=(2,), end=20.0, horizon=10.0, stage=True)


SPEC = DialogueSpec(
    llm=(pool(0.01),), tts=(pool(0.02),), capture=0.02, uplink=0.03, delay=0.04, detect=0.0,
    cancel=IMMEDIATE, horizon=10.0, end=20.0, record_chunks=True,
)  # fmt: skip
TAPE = DialogueTape(
    arrival=np.array([0.0]), first=np.array([0, 2]), tenant=np.zeros(1, np.int64),
    think=np.array([1.0, 9.0]), speech=np.array([2.0, 2.0]), endpoint=np.array([0.5, 0.5]),
    cut_at=np.array([np.inf, 1.0]), cut_pause=np.array([0.0, 0.6]),
    cut_endpoint=np.array([0.0, 0.4]), patience=np.full(2, np.inf),
    barge=np.array([0.4, np.inf]), false_barge=np.full(2, np.inf),
    answer=np.array([0, 2]), cut=np.array([-1, 1]),
    prompt=np.full(3, 10), hit=np.zeros(3, np.int64), reply=np.full(3, 6), encode=np.zeros(3),
    llm=np.zeros(3, np.int64), tts=np.zeros(3, np.int64), omni=np.zeros(3, np.int64),
    omni_prompt=np.ones(3, np.int64), omni_tokens=np.ones(3, np.int64),
    unit=np.array([0, 2, 4, 6]), unit_end=np.array([3, 6] * 3), unit_tokens=np.full(6, 4),
    unit_prompt=np.full(6, 5), unit_cached=np.zeros(6, np.int64),
)  # fmt: skip


def kernel():
    dialogue = Dialogue(SPEC, TAPE)
    dialogue.advance(SPEC.end)
    return record(dialogue)


@pytest.mark.parametrize("play", [kernel, lambda: run_dialogue_reference(SPEC, TAPE)])
def test_every_instant(play):
    run = play()
    instants = [
        rec.A_SPEAK, rec.A_SPOKEN, rec.A_HEARD_END, rec.A_DECIDED, rec.A_TEXT, rec.A_ASKED,
        rec.A_FIRST_UNIT, rec.A_FIRST_SENT, rec.A_ARRIVED, rec.A_START,
    ]  # fmt: skip
    expected = [
        [1.00, 3.00, 3.05, 3.55, 3.55, 3.55, 3.58, 3.62, 3.66, 3.66],
        [4.06, 5.06, 5.11, 5.51, 5.51, 5.51, 5.54, 5.58, 5.62, 5.62],
        [5.66, 6.66, 6.71, 7.21, 7.21, 7.21, 7.24, 7.28, 7.32, 7.32],
    ]
    assert run.answer_f[:, instants] == pytest.approx(np.array(expected))
    ends = run.answer_f[:, [rec.A_DONE, rec.A_STOPPED, rec.A_RECEIVED, rec.A_LISTENED]]
    assert ends == pytest.approx(
        np.array([[3.70, 4.15, 0.64, 0.49], [5.66, 5.75, 0.64, 0.13], [7.36, -1.0, 0.64, 0.64]])
    )
    assert run.answer_f[2, rec.A_PLAY_END] == pytest.approx(7.96)
    assert list(run.answer_i[:, rec.A_OUTCOME]) == [rec.CANCELLED, rec.CANCELLED, rec.PLAYED]
    assert list(run.answer_i[:, rec.A_INTERRUPT]) == [rec.CALLER, rec.CUT_OFF, rec.NOTHING]
    assert not run.answer_i[:, rec.A_STALLS].any()
    sent = run.chunk_f[run.chunk_i[:, rec.K_ANSWER] == 0, rec.K_SENT]
    assert sent == pytest.approx([3.62, 3.66, 3.66, 3.70])
    assert list(run.call_i[0]) == [COMPLETED, 2]
    assert run.call_f[0] == pytest.approx([0.0, 7.96])
