"""Runs of dialogues composed by hand: the tape and the record that each sentence below describes.

One pool of LLMs and one of voices, 12.5 steps a second of audio.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from voicesim.engine import layout as at
from voicesim.engine.cost import N_STEP_PARAMS, StepCost
from voicesim.engine.record import RunRecord
from voicesim.engine.spec import INF, PoolSpec
from voicesim.metrics.dialogue import Tables
from voicesim.metrics.dialogue_run import Played, Stage, Terms
from voicesim.session import record as of
from voicesim.session.record import DialogueRecord
from voicesim.session.spec import DialogueSpec
from voicesim.session.tape import DialogueTape

CAPTURE = 0.02
STAGES = (Stage("llm", "llm", 0, "big", 2, 3.0), Stage("tts", "tts", 1, "small", 1, 1.5))
INSTANTS = ("speak", "spoken", "heard_end", "decided", "text", "asked", "first_unit", "first_sent",
            "arrived", "start", "play_end", "done", "stall", "stall_max", "received", "listened",
            "stopped", "lost", "paused", "pace")  # fmt: skip
LENGTHS = ("stall", "stall_max", "received", "listened", "lost", "paused")


@dataclass
class Answer:
    """at: instants and lengths by name of INSTANTS (s).  units: decode steps of each.
    sent: how many of them were sent; made: of each, steps decoded (None: all).
    llm_made: tokens that the LLM made (None: all)."""

    at: dict[str, float] = field(default_factory=dict)
    outcome: int = of.PLAYED
    chunks: int = 3
    audible: int = 0
    units: tuple[int, ...] = (25, 25)
    sent: int | None = None
    made: tuple[int, ...] | None = None
    llm_made: int | None = None
    cached: tuple[int, ...] = ()
    text: tuple[int, ...] | None = None
    interrupt: int = of.NOTHING
    prompt: int = 1000
    hit: int = 0
    filler: bool = False
    overlap: bool = False
    fell_back: bool = False


@dataclass
class Turn:
    answer: Answer
    cut: Answer | None = None
    think: float = 0.5
    speech: float = 2.0
    cut_at: float = INF
    cut_pause: float = 0.0


@dataclass
class Call:
    turns: list[Turn]
    arrival: float = 0.0
    outcome: int = at.COMPLETED
    start: float = 0.0
    end: float = 60.0
    tenant: int = 0


def heard(spoken: float, *gaps: float, listened: float = 4.0, **more: Any) -> Answer:
    """An answer that took ``gaps`` (s) after capture: uplink, endpointing, asr, llm, tts, downlink,
    playback."""
    marks = np.cumsum([spoken + CAPTURE, *gaps])[1:]
    names = ("heard_end", "decided", "text", "first_unit", "first_sent", "arrived", "start")
    at = {"speak": spoken - 2.0, "spoken": spoken, "asked": float(marks[2]),
          **{n: float(t) for n, t in zip(names, marks, strict=True)}}  # fmt: skip
    at |= {"play_end": at["start"] + listened, "done": at["start"] + 1.0, "received": listened,
           "listened": listened, "stopped": at["start"] + listened}  # fmt: skip
    return Answer(at | more.pop("at", {}), **more)


UNSPOKEN = Answer({}, of.PENDING, chunks=0, sent=0, made=(0, 0), llm_made=0)


def step() -> StepCost:
    params = np.zeros(N_STEP_PARAMS)
    params[0] = 0.001
    return StepCost(params, np.arange(2049) * 1e-5)


def pool(**changes: Any) -> PoolSpec:
    return PoolSpec(engines=1, step=step(), schedule=(5,), horizon=100.0, **changes)


def run_record(i: np.ndarray, f: np.ndarray, bins: int, **counters: int) -> RunRecord:
    names = ("steps", "stream_steps", "prefill_tokens", "recomputed_tokens", "preemptions",
             "cached_tokens", "discarded_tokens", "failed", "max_batch", "events")  # fmt: skip
    one = np.zeros(1)
    return RunRecord(
        i, f, np.zeros((bins, at.NBI), np.int64), np.zeros((bins, at.N_COARSE), np.int64),
        np.zeros(at.N_FINE, np.int64), np.zeros((0, 4), np.int64), np.zeros((0, 4)),
        {"decode": np.array([40.0]), "host": one, "codec": one}, one,
        {**dict.fromkeys(names, 0), **counters}, np.inf, 0, 100.0,
    )  # fmt: skip


def played(calls: list[Call], terms: Terms | None = None, spec: dict[str, Any] | None = None,
           **more: Any) -> Played:  # fmt: skip
    """The run in which these calls happened."""
    turns = [t for c in calls for t in c.turns]
    answers: list[Answer] = []
    answer, cut = [], []
    for t in turns:
        cut.append(len(answers) if t.cut else -1)
        answers += [t.cut] if t.cut else []
        answer.append(len(answers))
        answers.append(t.answer)
    tape = _tape(calls, turns, answers, answer, cut)
    dialogue = DialogueSpec(
        (pool(),), (pool(),), capture=CAPTURE, horizon=100.0, end=200.0, **(spec or {})
    )
    record = _record(calls, answers, tape, dialogue)
    return Played(terms or Terms(stages=STAGES), dialogue, tape, record, **more)


def tables(calls: list[Call], terms: Terms | None = None, **more: Any) -> Tables:
    return Tables(played(calls, terms, **more))


def _tape(calls, turns, answers, answer, cut) -> DialogueTape:
    text = [u for a in answers for u in np.cumsum(a.text or [10] * len(a.units))]
    sizes = [len(a.units) for a in answers]
    ends = [0, *np.cumsum(sizes)]
    n = len(turns)
    whole = np.int64
    return DialogueTape(
        arrival=np.array([c.arrival for c in calls]),
        first=np.array([0, *np.cumsum([len(c.turns) for c in calls])], whole),
        tenant=np.array([c.tenant for c in calls], whole),
        think=np.array([t.think for t in turns]), speech=np.array([t.speech for t in turns]),
        endpoint=np.full(n, 0.5), cut_at=np.array([t.cut_at for t in turns]),
        cut_pause=np.array([t.cut_pause for t in turns]), cut_endpoint=np.full(n, 0.3),
        patience=np.full(n, INF), barge=np.full(n, INF), false_barge=np.full(n, INF),
        answer=np.array(answer, whole), cut=np.array(cut, whole),
        prompt=np.array([a.prompt for a in answers], whole),
        hit=np.array([a.hit for a in answers], whole),
        reply=np.array([text[e - 1] for e in ends[1:]], whole),
        encode=np.zeros(len(answers)), llm=np.zeros(len(answers), whole),
        tts=np.zeros(len(answers), whole), omni=np.zeros(len(answers), whole),
        omni_prompt=np.ones(len(answers), whole), omni_tokens=np.ones(len(answers), whole),
        unit=np.array(ends, whole), unit_end=np.array(text, whole),
        unit_tokens=np.array([u for a in answers for u in a.units], whole),
        unit_prompt=np.ones(sum(sizes), whole),
        unit_cached=np.array(
            [int(k in a.cached) for a in answers for k in range(len(a.units))], whole
        ),
    )  # fmt: skip


def _record(calls, answers, tape, spec) -> DialogueRecord:
    i = np.zeros((len(answers), of.NAI), np.int64)
    f = np.zeros((len(answers), of.NAF))
    for r, a in enumerate(answers):
        sent = len(a.units) if a.sent is None else a.sent
        i[r] = [a.outcome, a.chunks, a.audible, a.audible, sent, a.filler, a.overlap, a.interrupt,
                a.fell_back]  # fmt: skip
        f[r] = [a.at.get(name, 0.0 if name in LENGTHS else -1.0) for name in INSTANTS]
    made = [x for a in answers for x in (a.units if a.made is None else a.made)]
    units = np.zeros((tape.units, at.NRI), np.int64)
    units[:, at.R_GENERATED] = made
    llm = np.zeros((len(answers), at.NRI), np.int64)
    llm[:, at.R_GENERATED] = [
        tape.reply[r] if a.llm_made is None else a.llm_made for r, a in enumerate(answers)
    ]
    call_i = np.array([[c.outcome, len(c.turns)] for c in calls], np.int64)
    call_f = np.array([[c.start, c.end] for c in calls])
    bins = spec.bins
    return DialogueRecord(
        i, f, call_i.reshape(-1, 2), call_f.reshape(-1, 2), np.zeros((bins, of.ND), np.int64),
        np.zeros((bins, at.N_COARSE), np.int64), np.zeros(at.N_FINE, np.int64),
        np.zeros((0, of.NKI), np.int64), np.zeros((0, of.NKF)),
        (run_record(llm, np.zeros((len(answers), at.NRF)), bins, stream_steps=100),
         run_record(units, np.zeros((tape.units, at.NRF)), bins, stream_steps=200)),
        {}, np.inf, 100.0,
    )  # fmt: skip
