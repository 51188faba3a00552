"""What the page of a run of dialogues shows beside its tables (see voicesim.metrics.exhibits)."""

from dataclasses import dataclass, field

import numpy as np

from voicesim.engine import layout as at
from voicesim.engine.record import RunRecord
from voicesim.engine.spec import PoolSpec
from voicesim.metrics.dialogue import Tables
from voicesim.metrics.dialogue_shown import TalkShown, two_talks
from voicesim.metrics.edges import counted
from voicesim.metrics.exhibits import Exhibit
from voicesim.session.play import DialogueRun

WHOLE = ""
"""Name of the exhibit that is about the turns, not about a pool."""


@dataclass
class OfTurns(Exhibit):
    """The exhibit of the turns.  talks: the worst and the median call; empty where no chunks were
    kept."""

    talks: list[TalkShown] = field(default_factory=list)


def exhibits_of(run: DialogueRun, tables: Tables) -> list[Exhibit]:
    """One of the turns (waits of those spoken, stalls of those measured), one of each pool of
    engines."""
    turns = tables.counted.turns
    spoken = turns[turns["spoken_s"].notna()]
    measured = spoken[spoken["measured"]]
    waits, stalls = (t.dropna() for t in (spoken["waited_s"], measured["stall_largest_s"]))
    none = np.zeros(0, np.int64)
    heard = counted(waits), counted(stalls)
    found: list[Exhibit] = [OfTurns(WHOLE, *heard, none, 0, 0.0, talks=two_talks(tables))]
    tape, cluster, number = run.tape, run.scenario.cluster, 0
    for role, prompt, tokens in (
        ("llm", tape.prompt, tape.reply),
        ("tts", tape.unit_prompt, tape.unit_tokens),
        ("omni", tape.omni_prompt, tape.omni_tokens),
    ):
        for name in cluster.of(role):
            spec, record = run.spec.pools[number], run.record.pools[number]
            half = float(prompt.mean() + tokens.mean() / 2) if len(prompt) else 0.0
            most = int(record.counters["max_batch"])
            nobody = counted(waits[:0])
            found.append(Exhibit(name, nobody, nobody, _batches(spec, record), most, half))
            number += 1
    return found


def _batches(spec: PoolSpec, record: RunRecord) -> np.ndarray:
    """Streams running at the edges of the bins, where the pool has one replica; else unknown."""
    if spec.engines > 1:
        return np.zeros(0, np.int64)
    t = np.arange(len(record.series)) * spec.resolution
    inside = (t >= spec.warmup) & (t < spec.horizon)
    return np.bincount(record.series[inside, at.B_RUNNING])
