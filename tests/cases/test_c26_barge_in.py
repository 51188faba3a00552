"""C26: tokens nobody hears.

https://github.com/vllm-project/vllm-omni/issues/1480,
https://github.com/pipecat-ai/pipecat/pull/793, https://github.com/pipecat-ai/pipecat/issues/950,
https://github.com/livekit/agents/issues/3859, https://github.com/vllm-project/vllm/issues/54947:
a streaming TTS socket without a cancel generates the rest of the sentences and delays the next
answer; a hosted one cancels only what has not started; an LLM goes on writing.

Must show: wasted audio none > queued_only > next_chunk > immediate; without a cancel the expected
waste is p E[unheard]; if speech is made much faster than it is heard even "immediate" wastes what
is ahead, so pacing reduces it (and brings stalls near); what cancelling saves is capacity.
"""

import dataclasses

import numpy as np
import pytest

from tests.engine.worlds import step_cost
from voicesim.engine.layout import R_GENERATED
from voicesim.engine.spec import PoolSpec
from voicesim.session import record as rec
from voicesim.session.dialogue import Dialogue, record
from voicesim.session.spec import CANCELS, DialogueSpec
from voicesim.session.tape import DialogueTape

CALLS, P, UNITS, TOKENS, AUDIO = 2000, 0.25, 4, 50, 0.06
REPLY = UNITS * TOKENS * AUDIO  # 12 s
END = CALLS * 60.0


def pool(step: float, chunk: int = 10) -> PoolSpec:
    cost = step_cost(memory=step, per_kv=0.0, base=0.0, per_token=0.0)
    return PoolSpec(
        engines=1, step=cost, schedule=(chunk,), token_audio=AUDIO, end=END, horizon=END,
        resolution=1000.0, stage=True,
    )  # fmt: skip


SPEC = DialogueSpec(
    llm=(pool(0.02),), tts=(pool(0.2 * AUDIO),), detect=0.2, horizon=END, end=END, resolution=1000.0
)


def tape() -> DialogueTape:
    """Calls one after another; a quarter of their answers are interrupted at a uniform place."""
    rng = np.random.default_rng(26)
    n, inf = CALLS, np.full(CALLS, np.inf)
    at = np.where(rng.random(n) < P, rng.random(n) * REPLY, np.inf)
    zero, one = np.zeros(n, np.int64), np.ones(n, np.int64)
    words = 12
    return DialogueTape(
        arrival=60.0 * np.arange(n), first=np.arange(n + 1), tenant=zero, think=np.zeros(n),
        speech=np.ones(n), endpoint=np.full(n, 0.3), cut_at=inf, cut_pause=np.zeros(n),
        cut_endpoint=np.zeros(n), patience=inf, barge=at, false_barge=inf, answer=np.arange(n),
        cut=zero - 1, prompt=one * 50, hit=zero, reply=one * words * UNITS, encode=np.zeros(n),
        llm=zero, tts=zero, omni=zero, omni_prompt=one, omni_tokens=one,
        unit=np.arange(n + 1) * UNITS,
        unit_end=np.tile(words * np.arange(1, UNITS + 1), n),
        unit_tokens=np.full(n * UNITS, TOKENS), unit_prompt=np.full(n * UNITS, 20),
        unit_cached=np.zeros(n * UNITS, np.int64),
    )  # fmt: skip


def played(**knobs):
    """(audio made, audio heard, whole run) under these knobs (s)."""
    dialogue = Dialogue(dataclasses.replace(SPEC, **knobs), tape())
    dialogue.advance(END)
    run = record(dialogue)
    made = run.pools[1].utterance_i[:, R_GENERATED].sum() * AUDIO
    return made, run.answer_f[:, rec.A_LISTENED].sum(), run


def waste(**knobs) -> float:
    made, heard, _ = played(**knobs)
    return made - heard


def test_the_less_is_cancelled_the_more_is_wasted():
    # speech made barely faster than heard and one unit at a time: all four differ
    slow = {"tts": (pool(0.8 * AUDIO),), "prefetch": 1}
    none, queued, chunk, immediate = (waste(cancel=c, **slow) for c in range(len(CANCELS)))
    assert none > 1.5 * queued > 1.5 * chunk
    assert chunk > 1.02 * immediate > 0


def test_without_a_cancel_the_waste_is_p_times_the_unheard():
    """E[unheard] of a uniform interruption is 6 s, less what plays until the client stops."""
    made, heard, run = played(cancel=0)
    assert made == pytest.approx(CALLS * REPLY)
    per_call = (made - heard) / CALLS
    unheard = np.maximum(0.0, REPLY - (tape().barge + SPEC.detect))  # known for each caller
    assert per_call == pytest.approx(np.where(np.isinf(tape().barge), 0, unheard).mean())
    deviation = np.sqrt(P * REPLY**2 / 3 - (P * REPLY / 2) ** 2) / np.sqrt(CALLS)
    assert abs(per_call - P * (REPLY / 2 - SPEC.detect)) < 4 * deviation
    assert (run.answer_i[:, rec.A_INTERRUPT] == rec.CALLER).mean() == pytest.approx(P, abs=0.04)


def test_generation_ahead_is_wasted_even_by_an_immediate_cancel_and_pacing_reduces_it():
    """At five times real time most of a reply is there when the caller breaks in."""
    fast = waste(cancel=3)
    assert fast > 0.7 * waste(cancel=0)
    paced = waste(cancel=3, prefetch=0, ahead=0.5)
    assert paced < 0.35 * fast


def test_pacing_trades_waste_for_stalls():
    def stalls(ahead):
        return (played(cancel=3, ahead=ahead)[2].answer_f[:, rec.A_STALL] > 1e-6).mean()

    # the first chunk of a unit takes 11 steps of 12 ms to come
    assert stalls(0.5) == 0.0
    assert stalls(0.05) > 0.9
    assert waste(cancel=3, ahead=0.05) < waste(cancel=3, ahead=0.5)


def test_what_cancelling_saves_is_capacity():
    slow = {"tts": (pool(0.8 * AUDIO),), "prefetch": 1}
    made, heard, full = played(cancel=0, **slow)
    less, same, cut = played(cancel=3, **slow)
    steps = [r.pools[1].counters["stream_steps"] for r in (full, cut)]
    assert steps[0] * AUDIO == pytest.approx(made)
    assert same == pytest.approx(heard)  # the callers hear what they heard before
    wasted_less = (made - heard) - (less - same)
    assert (steps[0] - steps[1]) * AUDIO == pytest.approx(wasted_less, rel=0.02)
    assert wasted_less > 0.05 * made
