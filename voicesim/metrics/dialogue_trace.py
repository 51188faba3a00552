"""A window of a run of dialogues as Chrome trace events (voicesim.metrics.trace).

Beside the replicas of every pool, the recogniser's among them, there is a process of the calls:
each call, each phase of its turns and each piece of its answers is a pair of async events, since
many calls go on at once and such pairs may overlap.
"""

from collections.abc import Iterator

from voicesim.engine import blame as b
from voicesim.engine import layout as at
from voicesim.engine import trace as of
from voicesim.engine.asr_spec import ASR_KINDS, SLOTS
from voicesim.metrics.dialogue_run import Played, Terms
from voicesim.metrics.trace import (
    LISTENERS,
    WORKER,
    Event,
    in_order,
    instant,
    named,
    of_pool,
    span,
    stall,
    stalls_of,
    tid_of,
    us,
)
from voicesim.session import record as rec
from voicesim.session.play import DialogueRun

CALLS, TURNS = 1, 1
"""The process of the calls, and its track of instants."""
PHASES = (
    ("speaks", rec.A_SPEAK, rec.A_SPOKEN), ("travels", rec.A_SPOKEN, rec.A_HEARD_END),
    ("end of turn", rec.A_HEARD_END, rec.A_DECIDED), ("transcribes", rec.A_DECIDED, rec.A_TEXT),
    ("thinks", rec.A_TEXT, rec.A_FIRST_UNIT), ("synthesises", rec.A_FIRST_UNIT, rec.A_START),
    ("answers", rec.A_START, rec.A_PLAY_END),
)  # fmt: skip


def of_dialogue(run: DialogueRun) -> list[Event]:
    """Events of all pools of a run of dialogues, and of its calls."""
    cluster, window = run.scenario.cluster, run.spec.trace
    assert window is not None
    names = [name for role in ("llm", "tts", "omni") for name in cluster.of(role)]
    events: list[Event] = [
        named("process_name", CALLS, TURNS, "calls"),
        named("thread_name", CALLS, TURNS, "turns"),
        named("thread_name", CALLS, LISTENERS, "listeners"),
    ]
    played = Played(Terms(), run.spec, run.tape, run.record)
    events += calls(played)
    events += turns(played)
    for i, f in stalls_of(run.record.stall_i, run.record.stall_f, window):
        events.append(stall(i, f, CALLS, f"answer {i[b.L_WHO]}"))
    first = CALLS + 1
    for name, spec, record in zip(names, run.spec.pools, run.record.pools, strict=True):
        workers = spec.codec.workers if spec.codec else 0
        events += of_pool(record, name, first, spec.engines, workers)
        first += spec.engines
    if run.spec.asr is not None:
        name = next(n for n, p in cluster.pools.items() if p.role == "asr")
        events += recogniser(played, name, first)
    return in_order(events)


def recogniser(run: Played, pool: str, first: int) -> Iterator[Event]:
    """Batches (of a slot server: steps) on a track per worker, the jobs in them as async
    pairs (number: jobs of that turn before); texts that became final."""
    spec = run.spec.asr
    assert spec is not None
    slots = spec.kind == SLOTS
    for g in range(spec.engines):
        yield named("process_name", first + g, LISTENERS, f"{pool} {g}")
        yield named("thread_name", first + g, LISTENERS, "texts")
        for w in range(1 if slots else spec.workers):
            yield named("thread_name", first + g, WORKER + w, f"{ASR_KINDS[spec.kind]}, worker {w}")
    what = f"step, {{}} of {spec.slots} slots" if slots else "batch of {}"
    log = run.record.asr
    for i, f in zip(log["trace_i"].tolist(), log["trace_f"].tolist(), strict=True):
        pid, start, end = first + i[of.T_ENGINE], f[of.T_START], f[of.T_END]
        who = _whose(run, i[of.T_WHO]) if i[of.T_KIND] != of.ASR_BATCH else {}
        if i[of.T_KIND] == of.ASR_BATCH:
            args = {"rows": i[of.T_A], "calls": i[of.T_B], "audio_s": f[of.T_X]}
            label = what.format(i[of.T_A])
            yield span(label, "recogniser", pid, WORKER + i[of.T_WHO], start, end - start, args)
        elif i[of.T_KIND] == of.ASR_JOB:
            at_work, key = (pid, LISTENERS), f"j{i[of.T_WHO]}"
            yield from pair("job", "job", key, at_work, start, end, {**who, "number": i[of.T_A]})
        else:
            args = {**who, "jobs": i[of.T_A], "after_the_turn_s": end - start}
            yield instant("text is final", "recogniser", pid, LISTENERS, end, args)


def calls(run: Played) -> Iterator[Event]:
    """The calls that meet the window, each a pair of async events within it: they last minutes."""
    assert run.spec.trace is not None
    begins, ends = run.spec.trace
    for k, (start, end) in enumerate(run.record.call_f[:, [rec.Q_START, rec.Q_END]].tolist()):
        outcome = at.OUTCOMES[int(run.record.call_i[k, rec.Q_OUTCOME])]
        end = end if end >= 0.0 else run.record.now
        if _meets(run, start, end):
            args = {"call": k, "outcome": outcome, "begins_s": start, "ends_s": end}
            inside = max(start, begins), min(end, ends)
            yield from pair("call", "call", f"c{k}", (CALLS, TURNS), *inside, args)


def turns(run: Played) -> Iterator[Event]:
    """The phases of the turns that meet the window, as pairs of async events, one id an answer; and
    where an answer was stopped."""
    record = run.record
    for r, row in enumerate(record.answer_f.tolist()):
        if row[rec.A_SPOKEN] < 0.0:
            continue
        who = _whose(run, r)
        for name, begins, ends in PHASES:
            if _meets(run, row[begins], row[ends]):
                span_of = row[begins], row[ends]
                yield from pair(name, "turn", f"t{r}", (CALLS, TURNS), *span_of, who)
        why = rec.INTERRUPTS[int(record.answer_i[r, rec.A_INTERRUPT])]
        stopped = row[rec.A_STOPPED]
        if _meets(run, stopped, stopped):
            label = f"stopped: {why.replace('_', ' ')}" if why else "stopped: hung up"
            yield instant(label, "turn", CALLS, TURNS, stopped, who)


def pair(
    name: str, cat: str, key: str, where: tuple[int, int], start: float, end: float, args: Event
) -> Iterator[Event]:
    """Begin and end of what may overlap with others of its kind.

    key: one for all that follow each other.  where: process and track.
    """
    same = {"name": name, "cat": cat, "id": key, "pid": where[0], "tid": tid_of(*where)}
    yield {**same, "ph": "b", "ts": us(start), "args": args}
    yield {**same, "ph": "e", "ts": us(end)}


def _meets(run: Played, start: float, end: float) -> bool:
    assert run.spec.trace is not None
    begins, ends = run.spec.trace
    return 0.0 <= start <= end and end >= begins and start <= ends


def _whose(run: Played, answer: int) -> Event:
    """Call and turn of an answer; half: to a pause that was taken for the end of the turn."""
    turn = int(run.turn[answer])
    call = int(run.call[turn])
    half = bool(run.tape.cut[turn] == answer)
    return {"call": call, "turn": turn - int(run.tape.first[call]), "answer": answer, "half": half}
