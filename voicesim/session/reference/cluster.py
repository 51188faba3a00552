"""The run: all stages on one timeline, and the calls."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from voicesim.engine import layout as at
from voicesim.engine.blame import N_STALL_F, N_STALL_I
from voicesim.engine.reference.asr import Asr
from voicesim.engine.reference.blame import Handed
from voicesim.engine.reference.timeline import Timeline
from voicesim.engine.spec import INF
from voicesim.session import record as rec
from voicesim.session.dialogue import uplinks
from voicesim.session.record import DialogueRecord
from voicesim.session.reference.answer import Answer
from voicesim.session.reference.call import Call
from voicesim.session.reference.stage import Stage, StageClock
from voicesim.session.spec import DialogueSpec
from voicesim.session.stages import stage_tapes
from voicesim.session.tape import DialogueTape


class Cluster:
    """Everything of one reference run."""

    def __init__(self, spec: DialogueSpec, tape: DialogueTape):
        self.spec, self.tape = spec, tape
        self.env = Timeline()
        self.uplinks = uplinks(spec, tape.turns)
        self.series = np.zeros((spec.bins, rec.ND), np.int64)
        self.gaps = np.zeros((spec.bins, at.N_COARSE), np.int64)
        self.gap_hist = np.zeros(at.N_FINE, np.int64)
        self.chunks: list[tuple[Any, ...]] = []
        self.stalls: list[tuple[list[int], list[float]]] = []
        self.live = self.speaking = self.answering = 0
        self.first_stall = INF
        self.answers: dict[int, Answer] = {}
        heard: list[Any] = [self.unit_of_text] * len(spec.llm)
        heard += [self.chunk_of_speech] * len(spec.tts)
        heard += [self.chunk_of_omni] * (spec.omni is not None)
        pools = zip(spec.pools, stage_tapes(spec, tape), heard, strict=True)
        self.stages = [
            Stage(s, t, StageClock(self.env, p), on_chunk)
            for p, (s, t, on_chunk) in enumerate(pools)
        ]
        self.llm = self.stages[: len(spec.llm)]
        self.tts = self.stages[len(spec.llm) :]
        self.omni = self.stages[-1] if spec.omni is not None else None
        self.asr = None
        if spec.asr is not None:
            self.asr = Asr(
                self.env, spec.asr, tape.calls, tape.answers, spec.warmup, spec.horizon,
                self.text_there, spec.trace,
            )  # fmt: skip
        self.unit_answer = np.repeat(np.arange(tape.answers), np.diff(tape.unit))
        self.env.process(self.sampler())
        self.calls = [Call(self, k) for k in range(tape.calls)]

    # --- what the stages hand over ----------------------------------------------------------------

    def unit_of_text(self, answer: int, _: int, last: bool, handed: Handed) -> None:
        self.answers[answer].unit_of_text(last)

    def chunk_of_speech(self, unit: int, tokens: int, last: bool, handed: Handed) -> None:
        answer = self.answers[int(self.unit_answer[unit])]
        answer.why.source(unit).comes(handed, self.env.now)
        answer.chunk_of_speech(unit, tokens, last)

    def chunk_of_omni(self, answer: int, tokens: int, last: bool, handed: Handed) -> None:
        self.answers[answer].why.source(-1).comes(handed, self.env.now)
        self.answers[answer].chunk_of_omni(tokens, last)

    def text_there(self, answer: int) -> None:
        """The recogniser has the final text of an answer's turn."""
        self.answers[answer].text_there()

    # --- the timeline -----------------------------------------------------------------------------

    def answer(self, call: Call, number: int, turn: int, half: bool) -> Answer:
        answer = self.answers[number] = Answer(call, number, turn, half)
        return answer

    def at(self, kind: int, number: int, t: float) -> Any:
        """The event of a dialogue's timer at t (s); ties go by kind, then number."""
        return self.env.at(t, at.TIMER, (kind << 40) | number)

    def timer(self, kind: int, number: int, t: float, then: Callable[[], None]) -> None:
        """``then()`` at t (s)."""
        self.at(kind, number, t).callbacks.append(lambda _: then())

    def set_open(self, pool: int, replica: int, is_open: bool) -> None:
        """Let a replica of a pool take new streams, or not (drain); with none open, the first
        takes them all the same."""
        self.stages[pool].set_open(replica, is_open)

    # --- recording --------------------------------------------------------------------------------

    def bin(self, t: float) -> int:
        return min(int(t / self.spec.resolution), self.spec.bins - 1)

    def count(self, column: int) -> None:
        self.series[self.bin(self.env.now), column] += 1

    def sampler(self) -> Any:
        """Gauges at the edge of every bin, before anything else of that instant."""
        for k in range(self.spec.bins):
            yield self.env.at(k * self.spec.resolution, -1, 0)
            row = self.series[k]
            row[rec.D_LIVE] = self.live
            row[rec.D_SPEAKING] = self.speaking
            row[rec.D_ANSWERING] = self.answering

    def record(self) -> DialogueRecord:
        n = self.tape.answers
        ints, floats = np.zeros((n, rec.NAI), np.int64), np.full((n, rec.NAF), -1.0)
        lengths = (
            rec.A_STALL, rec.A_STALL_MAX, rec.A_RECEIVED, rec.A_LISTENED, rec.A_LOST, rec.A_PAUSED,
        )  # fmt: skip
        floats[:, lengths] = 0.0
        for number, answer in self.answers.items():
            ints[number], floats[number] = answer.row()
        return DialogueRecord(
            ints,
            floats,
            np.array([[c.outcome, c.turns] for c in self.calls], np.int64).reshape(-1, 2),
            np.array([[c.started, c.ended] for c in self.calls], float).reshape(-1, 2),
            self.series,
            self.gaps,
            self.gap_hist,
            np.array([c[:2] for c in self.chunks], np.int64).reshape(-1, 2),
            np.array([c[2:] for c in self.chunks], float).reshape(-1, 4),
            tuple(stage.record() for stage in self.stages),
            {} if self.asr is None else self.asr.record(float(self.env.now)),
            self.first_stall,
            float(self.env.now),
            np.array([i for i, _ in self.stalls], np.int64).reshape(-1, N_STALL_I),
            np.array([f for _, f in self.stalls], float).reshape(-1, N_STALL_F),
        )


def run_dialogue_reference(
    spec: DialogueSpec,
    tape: DialogueTape,
    processes: Sequence[Callable[..., Any]] = (),
) -> DialogueRecord:
    """Play a whole run on plain SimPy; processes are generator functions of (env, cluster)."""
    cluster = Cluster(spec, tape)
    for process in processes:
        cluster.env.process(process(cluster.env, cluster))
    cluster.env.run(until=cluster.env.at(spec.end, 12, 0))
    return cluster.record()
