"""Two calls of a run of dialogues, turn by turn and chunk by chunk, for its page."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from voicesim.engine import layout as at
from voicesim.engine.spec import INF
from voicesim.listener.player import PLAYING, ROUNDING, SILENT, deliver
from voicesim.metrics.dialogue import Tables
from voicesim.metrics.dialogue_audio import rows_of
from voicesim.metrics.dialogue_run import Played
from voicesim.session import record as of
from voicesim.session.dialogue import uplinks
from voicesim.session.spec import DialogueSpec

MOST_TURNS = 300_000
"""Expected turns of a run beyond which no chunks are kept for the two calls: some ten chunks of 48
bytes each while it lasts."""
INSTANTS = {
    "speak": of.A_SPEAK, "spoken": of.A_SPOKEN, "heard_end": of.A_HEARD_END,
    "decided": of.A_DECIDED, "text": of.A_TEXT, "asked": of.A_ASKED,
    "first_unit": of.A_FIRST_UNIT, "first_sent": of.A_FIRST_SENT, "start": of.A_START,
    "play_end": of.A_PLAY_END, "done": of.A_DONE, "stopped": of.A_STOPPED,
}  # fmt: skip


@dataclass
class TalkShown:
    """A call turn by turn.  rank: "worst" or "median" (see ``two_talks``).  of: calls ranked.

    begins, ends: s from the start of the run.  answers: in the order of the call.
    """

    rank: str
    session: int
    of: int
    begins: float
    ends: float
    answers: list["AnswerShown"]


@dataclass
class AnswerShown:
    """An answer; times in s from the start of the run, NaN where it never came to that.

    turn: its number in the call.  half: to a pause that was taken for the end of that turn.
    number: its row in the run.  outcome, interrupt: as in turns.parquet.  at: instants by name of
    INSTANTS.  model: what wrote it, and when that was done.  units: requested, begun, done and
    number of each piece of speech that went to an engine, float64[m, 4], and voices: who spoke it.
    chunks: sent, arrived, out of the client's code, audio (s), float64[n, 4].  buffer, stalls: as
    in ``exhibits.ReplyShown``.
    """

    turn: int
    half: bool
    number: int
    outcome: str
    interrupt: str
    at: dict[str, float]
    model: tuple[str, float]
    units: np.ndarray
    voices: list[str]
    chunks: np.ndarray
    buffer: np.ndarray
    stalls: np.ndarray


def keeps_talks(scenario: Any) -> bool:
    """Whether a run is small enough to keep every chunk while it lasts."""
    load = scenario.dialogue
    mean = max(talk.turns.mean() for talk in load.talks())
    return bool(load.arrivals.expected(scenario.horizon) * mean <= MOST_TURNS)


def two_talks(tables: Tables) -> list[TalkShown]:
    """The worst and the median call in which stalls could be measured, after the warm-up.

    Ranked by seconds of stall, then by the longest wait for an answer, then by number.  Empty where
    no chunks were kept.
    """
    run = tables.run
    if not len(run.record.chunk_i):
        return []
    waits = tables.turns.groupby("call")["waited_s"].max()
    calls = tables.sessions
    ranked = calls[(calls["arrival_s"] >= run.spec.warmup) & calls["measured"]]
    ranked = ranked.assign(slowest=ranked["session"].map(waits)).sort_values(
        ["stall_total_s", "slowest", "session"], ascending=[True, True, False]
    )
    n = len(ranked)
    chosen = [("worst", n - 1), ("median", (n - 1) // 2)][: min(n, 2)]
    return [_talk(run, rank, int(ranked["session"].iloc[place]), n) for rank, place in chosen]


def _talk(run: Played, rank: str, call: int, n: int) -> TalkShown:
    tape, record = run.tape, run.record
    found = []
    for u in range(int(tape.first[call]), int(tape.first[call + 1])):
        for answer in (int(tape.cut[u]), int(tape.answer[u])):
            if answer >= 0 and record.answer_f[answer, of.A_SPOKEN] >= 0.0:
                found.append(_answer(run, u, answer))
    begins, ends = record.call_f[call, of.Q_START], record.call_f[call, of.Q_END]
    return TalkShown(rank, call, n, float(begins), _known(ends, record.now), found)


def _known(t: float, otherwise: float = float("nan")) -> float:
    return float(t) if t >= 0.0 else otherwise


def _answer(run: Played, u: int, answer: int) -> AnswerShown:
    tape, record = run.tape, run.record
    ints, floats = record.answer_i[answer], record.answer_f[answer]
    instants = {name: _known(floats[column]) for name, column in INSTANTS.items()}
    rows = record.chunk_i[:, of.K_ANSWER] == answer
    chunks = record.chunk_f[rows][np.argsort(record.chunk_i[rows, of.K_INDEX])]
    last = len(chunks) - 1 if ints[of.A_OUTCOME] == of.PLAYED else -1
    buffer, stalls = listened(run.spec, chunks, last, *interruption(run, u, answer))
    if floats[of.A_STOPPED] >= 0.0:
        buffer = _until(buffer, float(floats[of.A_STOPPED]))
    units, voices = _units(run, answer)
    return AnswerShown(
        u - int(tape.first[run.call[u]]), bool(answer == tape.cut[u]), answer,
        of.ANSWERS[ints[of.A_OUTCOME]], of.INTERRUPTS[ints[of.A_INTERRUPT]], instants,
        _model(run, answer), units, voices, chunks, buffer, stalls,
    )  # fmt: skip


def interruption(run: Played, u: int, answer: int) -> tuple[float, float]:
    """Audible seconds of an answer to turn u after which a noise is taken for an interruption
    (inf: none is), and seconds from it until the server knows."""
    tape, spec = run.tape, run.spec
    if answer == tape.cut[u] or tape.barge[u] <= tape.false_barge[u]:
        return INF, 0.0
    noticed = spec.capture + float(uplinks(spec, u + 1)[u]) + spec.detect
    return float(tape.false_barge[u]), noticed


def _names(run: Played) -> dict[int, str]:
    return {stage.pool: stage.name for stage in run.terms.stages}


def _model(run: Played, answer: int) -> tuple[str, float]:
    """The language model's pool and replica, and when it had written all of an answer."""
    pool = int(run.tape.llm[answer])
    ints, floats = rows_of(run, pool, np.array([answer]))
    name = f"{_names(run)[pool]}, replica {ints[0, at.R_ENGINE]}"
    return name, _known(floats[0, at.Z_DONE])


def _units(run: Played, answer: int) -> tuple[np.ndarray, list[str]]:
    """Requested, begun, done, number; and pool, replica of each piece of speech."""
    tape, spec = run.tape, run.spec
    tts = len(spec.llm) + int(tape.tts[answer])
    asked = [(tts, int(n), i) for i, n in enumerate(range(*tape.unit[answer : answer + 2]))]
    if spec.omni is not None and tape.omni[answer]:
        asked.insert(0, (len(spec.pools) - 1, answer, -1))
    found, voices = [], []
    for pool, row, number in asked:
        ints, floats = (rows[0] for rows in rows_of(run, pool, np.array([row])))
        if floats[at.Z_REQUEST] > 0.0:
            times = [_known(floats[c]) for c in (at.Z_REQUEST, at.Z_ADMIT, at.Z_DONE)]
            found.append([*times, number])
            voices.append(f"{_names(run)[pool]}, replica {ints[at.R_ENGINE]}")
    return np.array(found).reshape(-1, 4), voices


def _until(buffer: np.ndarray, stopped: float) -> np.ndarray:
    """A buffer's curve up to where the player was stopped, and what it held dropped there."""
    if not len(buffer) or stopped >= buffer[-1, 0]:
        return buffer
    held = float(np.interp(stopped, buffer[:, 0], buffer[:, 1]))
    kept = buffer[buffer[:, 0] < stopped]
    return np.concatenate([kept, [[stopped, held], [stopped, 0.0]]])


def listened(
    spec: DialogueSpec, chunks: np.ndarray, last: int, noise: float = INF, noticed: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """The caller's buffer over time, and the stalls, by the player of the scenario.

    chunks: as in AnswerShown.  last: number of the answer's last chunk, -1 if it never came.
    noise: audible seconds after which a noise is taken for an interruption, and the agent pauses
    for ``spec.resume``, ``noticed`` s later.  A chunk is played when it leaves the server: its
    way is known by then, and what stops the player stops it there.
    """
    knobs = (spec.prebuffer, spec.rebuffer, spec.max_wait, spec.max_queue)
    mode, end, held, since, received = SILENT, 0.0, 0.0, 0.0, 0.0
    pause = resumes = flat = INF
    buffer: list[tuple[float, float]] = []
    stalls: list[tuple[float, float, float]] = []

    def level(t: float) -> float:
        """Audio in the buffer of a playing player at t: it does not drain while it pauses."""
        return end - (resumes if pause <= t < resumes < INF else t)

    def drain(t: float) -> None:
        nonlocal flat
        if flat < t:  # the pause is over, with what came meanwhile on top
            buffer.append((flat, end - flat))
            flat = INF
        buffer.append((t, level(t)) if t <= end else (end, 0.0))
        if t > end:
            buffer.append((t, 0.0))

    def fall_silent() -> None:
        nonlocal end, pause, resumes, flat
        if mode == PLAYING and end > pause and spec.resume < INF:
            buffer.append((pause, end - pause))
            resumes = flat = pause + spec.resume
            end += spec.resume
        else:
            pause = INF

    for i, (sent, _, t, audio) in enumerate(chunks.tolist()):
        if pause < sent and resumes == INF:
            fall_silent()
        if mode == PLAYING:
            drain(t)
        elif mode != SILENT and t > since + spec.max_wait:
            buffer.append((since + spec.max_wait, held))
            buffer.append((t, max(0.0, since + spec.max_wait + held - t)))
        else:
            buffer.append((t, held if mode != SILENT else 0.0))
        mode, end, held, since, stall, _, lost = deliver(
            mode, end, held, since, t, audio, i == last, *knobs
        )
        received += audio - lost
        buffer.append((t, level(t) if mode == PLAYING else held))
        if stall > ROUNDING:
            stalls.append((t - stall, t, i))
        if mode == PLAYING and pause == INF and noise < received:
            pause = end - (received - noise) + noticed
            noise = INF
    if pause < INF and resumes == INF and mode == PLAYING:
        fall_silent()
    if mode == PLAYING:
        drain(end)
    made = np.array(sorted(buffer, key=lambda p: p[0])).reshape(-1, 2)
    return made, np.array(stalls).reshape(-1, 3)
