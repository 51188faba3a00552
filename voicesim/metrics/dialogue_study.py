"""What a study keeps of a run of dialogues: its tables, its warnings, its series."""

from typing import Any

import numpy as np
import pandas as pd

from voicesim.engine import blame as b
from voicesim.metrics import stalls
from voicesim.metrics.dialogue import Tables
from voicesim.metrics.dialogue_run import Played
from voicesim.metrics.dialogue_tables import series
from voicesim.metrics.dialogue_terms import terms
from voicesim.metrics.extrapolated import still_live, unmeasured
from voicesim.session import record as of
from voicesim.session.play import DialogueRun
from voicesim.simulation import profile_of
from voicesim.workload.arrivals import rate_at


def tables_of(run: DialogueRun) -> Tables:
    """The run with its tables."""
    return Tables(Played(terms(run.scenario), run.spec, run.tape, run.record))


def series_of(run: DialogueRun, tables: Tables) -> pd.DataFrame:
    """Time series of a run, one row per bin (voicesim.metrics.dialogue_tables.series)."""
    scenario = run.scenario
    t = np.arange(run.spec.bins) * run.spec.resolution
    offered = np.asarray(rate_at(scenario.workload.arrivals, t), float)
    return series(tables.run, np.where(t < scenario.horizon, offered, 0.0))


def chunks_of(run: DialogueRun, tables: Tables) -> pd.DataFrame:
    """One row per chunk that left for a caller: sent, arrived, out of the client's code (s)."""
    i, f = run.record.chunk_i, run.record.chunk_f
    turn = tables.run.turn[i[:, of.K_ANSWER]]
    call = tables.run.call[turn]
    return pd.DataFrame(
        {
            "session": call,
            "turn": turn - run.tape.first[call],
            "answer": i[:, of.K_ANSWER],
            "chunk": i[:, of.K_INDEX],
            "sent_s": f[:, of.K_SENT],
            "arrived_s": f[:, of.K_ARRIVED],
            "heard_s": f[:, of.K_HEARD],
            "audio_s": f[:, of.K_AUDIO],
        }
    ).sort_values(["answer", "chunk"], ignore_index=True)


def stalls_of(run: DialogueRun, tables: Tables) -> pd.DataFrame:
    """One row per audible stall with its cause (voicesim.metrics.stalls).

    pool, replica: the engine that made the late chunk ("", -1: a phrase from the cache); unit: of
    the answer, -1 of the speech-to-speech model's.
    """
    i, f = run.record.stall_i, run.record.stall_f
    turn = tables.run.turn[i[:, b.L_WHO]]
    call = tables.run.call[turn]
    cluster = run.scenario.cluster
    names = [name for role in ("llm", "tts", "omni") for name in cluster.of(role)]
    who = {
        "session": call,
        "turn": turn - run.tape.first[call],
        "answer": i[:, b.L_WHO],
        "unit": i[:, b.L_UNIT],
        "chunk": i[:, b.L_CHUNK],
        "pool": np.array([*names, ""], object)[i[:, b.L_POOL]],
        "replica": i[:, b.L_ENGINE],
    }
    return stalls.table(who, i, f, True)


def stall_metrics(run: DialogueRun, tables: Tables) -> dict[str, Any]:
    """Causes of the audible stalls (voicesim.metrics.stalls.metrics) of the calls that count."""
    kept = tables.sessions["arrival_s"] >= run.spec.warmup
    counted = tables.sessions["session"][kept].to_numpy()
    return stalls.metrics(stalls_of(run, tables), counted)


def warnings_of(run: DialogueRun, variant: str) -> list[tuple[str, float]]:
    """What a reader must know before trusting this run (see voicesim.study.warnings_of)."""
    found: list[tuple[str, float]] = []
    tape, record = run.tape, run.record
    number = 0
    of_unit = np.repeat(tape.tts, np.diff(tape.unit))  # pool of each unit
    for role, prompt, tokens, pools in (
        ("llm", tape.prompt, tape.reply, tape.llm),
        ("tts", tape.unit_prompt, tape.unit_tokens, of_unit),
        ("omni", tape.omni_prompt, tape.omni_tokens, tape.omni - 1),
    ):
        for index, (name, pool) in enumerate(run.scenario.cluster.of(role).items()):
            counters, mine = record.pools[number].counters, pools == index
            number += 1
            if counters["steps"] == 0:
                continue
            outside = unmeasured(
                profile_of(pool),
                counters["max_batch"],
                prompt[mine].max(initial=0),
                (prompt + tokens)[mine].max(initial=0),
            )
            found += [(f"{variant}: {name}: {text}", most) for text, most in outside]
    if tape.clipped:
        found.append((f"{variant}: {{:g}} answers or units were cut to engine.max_tokens",
                      tape.clipped))  # fmt: skip
    live = int((record.call_i[:, of.Q_OUTCOME] == of.PENDING).sum())
    if live:
        found.append((f"{variant}: {still_live(run.scenario.drain)}", live))
    return found


def written(run: DialogueRun, tables: Tables, chunks: bool) -> dict[str, Any]:
    """The tables that go into the run's folder, by name."""
    found = {"sessions": tables.sessions, "turns": tables.turns, "units": tables.units}
    if run.spec.blame:
        found["stalls"] = stalls_of(run, tables)
    if chunks:
        found["chunks"] = chunks_of(run, tables)
    return found
