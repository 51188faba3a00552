"""Marginal milliseconds: what one more caller, or a segment that takes 10 % less, does to p95.

The same callers once more (common random numbers), one thing changed; the difference of two runs
of a pair is a metric like any other, so replications give it an interval.
"""

from dataclasses import replace
from typing import Any

from voicesim.engine.asr_spec import AsrSpec
from voicesim.engine.cost import (
    ATTENTION,
    HOST,
    HOST_PER_CHUNK,
    HOST_PER_STREAM,
    MEMORY,
    MEMORY_PER_KV,
    SYNC,
    StepCost,
)
from voicesim.engine.spec import PoolSpec
from voicesim.metrics.dialogue import Tables
from voicesim.metrics.dialogue_run import SEGMENTS, Played
from voicesim.metrics.dialogue_study import tables_of
from voicesim.metrics.dialogue_tables import segments
from voicesim.metrics.summary import Value, nearest_rank
from voicesim.session import record as of
from voicesim.session.dialogue import Dialogue, record
from voicesim.session.play import simulate_dialogue
from voicesim.session.spec import DialogueSpec
from voicesim.session.tape import DialogueTape

FASTER = 0.9
"""What is left of the time that a segment takes."""
MORE = 0.02
"""By what part the offered load grows for the difference that one caller is scaled from."""
SECONDS = (MEMORY, MEMORY_PER_KV, ATTENTION, HOST, HOST_PER_STREAM, HOST_PER_CHUNK, SYNC)
RATES = ("rate", "base", "peak")


def marginal(scenario: Any, replication: int, run: Played) -> dict[str, Value]:
    """SEGMENT_change_s: p95 of the silence before an answer with that segment a tenth faster, less
    p95 as it is (negative: sooner); caller_change_s: with one more caller at once on average.

    run: the replication as it is.  A segment that takes no time has no run and no entry.  None:
    nothing was said, or (caller) arrivals of a kind without a rate.
    """
    base, live = p95(run), mean_live(run)
    gaps, known = segments(run, run.tape.answer)
    found: dict[str, Value] = {"caller_change_s": None}
    busier = more(scenario, 1.0 + MORE)
    if busier is not None and live:
        change = _less(p95(play(busier, replication)), base)
        found["caller_change_s"] = None if change is None else change / (MORE * live)
    for k, name in enumerate(SEGMENTS):
        if not (gaps[:, k] * known[:, k]).any():
            continue
        spec, tape = faster(run.spec, run.tape, name)
        dialogue = Dialogue(spec, tape)
        dialogue.advance(spec.end)
        other = replace(run, spec=spec, tape=tape, record=record(dialogue))
        found[f"{name}_change_s"] = _less(p95(other), base)
    return found


def play(scenario: Any, replication: int = 0) -> Played:
    """A replication of a scenario, ready to be measured."""
    return tables_of(simulate_dialogue(scenario, replication)).run


def _less(a: Value, b: Value) -> Value:
    return None if a is None or b is None else a - b


def p95(run: Played) -> Value:
    """``ttfa_p95_s`` of a run, without the rest."""
    turns = Tables(run).counted.turns
    return nearest_rank(turns.loc[turns["spoken_s"].notna(), "waited_s"].to_numpy(), 0.95)


def mean_live(run: Played) -> float:
    """Calls at once, on average over the observed time."""
    first, last = (int(t / run.spec.resolution) for t in (run.spec.warmup, run.spec.horizon))
    rows = run.record.series[first:last, of.D_LIVE]
    return float(rows.mean()) if len(rows) else 0.0


def more(scenario: Any, factor: float) -> Any:
    """The scenario with ``factor`` times the offered load; None for arrivals without a rate.

    The draws are the same: each call comes a little earlier, and a few more at the end.
    """
    arrivals = scenario.workload.arrivals
    rates = {name: getattr(arrivals, name) * factor for name in RATES if hasattr(arrivals, name)}
    if not rates:
        return None
    workload = scenario.workload.model_copy(update={"arrivals": arrivals.model_copy(update=rates)})
    return scenario.model_copy(update={"workload": workload})


def faster(
    spec: DialogueSpec, tape: DialogueTape, segment: str, factor: float = FASTER
) -> tuple[DialogueSpec, DialogueTape]:
    """The run with all that a segment is made of multiplied by ``factor``.

    capture; uplink, downlink: delay and jitter; endpointing: the silence waited for (who is cut
    off wrongly stays the same); asr, llm, tts (and omni): steps, batches, codec, handshakes;
    playback: prebuffer and the client's code.
    """
    if segment == "endpointing":
        tape = replace(tape, endpoint=tape.endpoint * factor)
    elif segment == "llm":
        tape = replace(tape, encode=tape.encode * factor)
    return replace(spec, **_changes(spec, segment, factor)), tape


def _changes(spec: DialogueSpec, segment: str, factor: float) -> dict[str, Any]:
    """The fields of the spec that a segment's time is made of, multiplied."""
    plain = {
        "capture": ("capture",),
        "uplink": ("uplink", "uplink_jitter"),
        "llm": ("connect_llm",),
        "tts": ("connect_tts",),
        "downlink": ("delay", "jitter"),
        "playback": ("prebuffer", "client_per_audio", "client_per_chunk"),
    }
    found = {name: getattr(spec, name) * factor for name in plain.get(segment, ())}
    if segment == "asr":
        found["asr"] = _asr(spec.asr, factor)
    elif segment == "llm":
        found["llm"] = tuple(_pool(pool, factor) for pool in spec.llm)
    elif segment == "tts":
        found["tts"] = tuple(_pool(pool, factor) for pool in spec.tts)
        found["omni"] = spec.omni and _pool(spec.omni, factor)
    return found


def _pool(pool: PoolSpec, factor: float) -> PoolSpec:
    params = pool.step.params.copy()
    params[list(SECONDS)] *= factor
    step = StepCost(params, pool.step.compute_s * factor)
    codec = pool.codec and replace(
        pool.codec, cost=pool.codec.cost * factor, gather=pool.codec.gather * factor
    )
    return replace(pool, step=step, codec=codec, delay=pool.delay * factor)


def _asr(spec: AsrSpec | None, factor: float) -> AsrSpec | None:
    return spec and replace(spec, cost=spec.cost * factor, step=spec.step * factor)
