"""Small calls, made by hand: stages whose steps take a stated time, callers who say a stated thing.

Without more a step takes as long whoever is in it, no reply is interrupted, the caller speaks for
a second and the turn is over 0.3 s later; speech is 0.08 s of audio a decode step.
"""

import itertools
from dataclasses import replace

import numpy as np

from tests.engine.worlds import step_cost
from voicesim.engine.spec import PoolSpec
from voicesim.session import record as rec
from voicesim.session.dialogue import Dialogue, record
from voicesim.session.record import DialogueRecord
from voicesim.session.spec import DialogueSpec
from voicesim.session.tape import DialogueTape

AUDIO, SPEECH, ENDPOINT, END = 0.08, 1.0, 0.3, 1000.0
WHOLE = 4096
"""Tokens of a chunk that no unit exceeds: the engine hands over whole units."""


def pool(step: float, chunk: int = WHOLE, per_token: float = 0.0, **more) -> PoolSpec:
    """A replica whose step takes ``step`` + ``per_token`` for each token in it (s)."""
    cost = step_cost(memory=step, per_kv=0.0, base=0.0, per_token=per_token, norm=1.0)
    fixed = {"token_audio": AUDIO, "end": END, "horizon": END, "resolution": 100.0, "stage": True}
    return PoolSpec(**{"engines": 1, "step": cost, "schedule": (chunk,), **fixed, **more})


def stages(step: float, tts: PoolSpec, **more) -> DialogueSpec:
    """An LLM of ``step`` seconds a token before a TTS engine."""
    fixed = {"horizon": END, "end": END, "resolution": 100.0, "record_chunks": True}
    return DialogueSpec(**{"llm": (pool(step),), "tts": (tts,), **fixed, **more})


def calls(replies, arrival=None, **more) -> DialogueTape:
    """One call of one turn for each reply: a list of (tokens of text, decode steps) by unit.

    ``more`` replaces columns.
    """
    n = len(replies)
    zero, one, inf = np.zeros(n, np.int64), np.ones(n, np.int64), np.full(n, np.inf)
    sizes = [len(reply) for reply in replies]
    units = [unit for reply in replies for unit in reply]
    unit = np.concatenate([[0], np.cumsum(sizes)])
    text, steps = np.array(units, np.int64).T
    ends = np.concatenate([np.cumsum(text[a:b]) for a, b in itertools.pairwise(unit)])
    tape = DialogueTape(
        arrival=np.zeros(n) if arrival is None else np.asarray(arrival, float),
        first=np.arange(n + 1), tenant=zero, think=np.zeros(n), speech=np.full(n, SPEECH),
        endpoint=np.full(n, ENDPOINT), cut_at=inf, cut_pause=np.zeros(n), cut_endpoint=np.zeros(n),
        patience=inf, barge=inf, false_barge=inf, answer=np.arange(n), cut=zero - 1, prompt=one,
        hit=zero, reply=ends[unit[1:] - 1], encode=np.zeros(n), llm=zero, tts=zero, omni=zero,
        omni_prompt=one, omni_tokens=one, unit=unit, unit_end=ends, unit_tokens=steps,
        unit_prompt=np.ones(len(steps), np.int64), unit_cached=np.zeros(len(steps), np.int64),
    )  # fmt: skip
    return replace(tape, **more)


def play(spec: DialogueSpec, tape: DialogueTape) -> DialogueRecord:
    dialogue = Dialogue(spec, tape)
    dialogue.advance(spec.end)
    return record(dialogue)


def delay(run: DialogueRecord) -> np.ndarray:
    """float64[R]: from the decision that the turn is over to the first sound (s)."""
    return run.answer_f[:, rec.A_START] - run.answer_f[:, rec.A_DECIDED]


def sent(run: DialogueRecord, answer: int = 0) -> np.ndarray:
    """float64[n, 2]: of an answer's chunks, when each is heard at the earliest and its length."""
    mine = run.chunk_i[:, rec.K_ANSWER] == answer
    return run.chunk_f[mine][:, [rec.K_HEARD, rec.K_AUDIO]]


def silences(run: DialogueRecord, answer: int = 0) -> np.ndarray:
    """float64[n - 1]: silence before each chunk but the first (s), as an ear would measure it."""
    found, end = [], None
    for ready, audio in sent(run, answer):
        if end is not None:
            found.append(max(0.0, ready - end))
        end = ready + audio if end is None else max(end, ready) + audio
    return np.array(found)
