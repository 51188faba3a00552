"""What must hold of every run, on random worlds played by the engine."""

import numpy as np
import pytest

from tests.session.worlds import random_dialogue
from voicesim.metrics.dialogue import Tables, run_metrics
from voicesim.metrics.dialogue_audio import answers
from voicesim.metrics.dialogue_run import SEGMENTS, Played, Stage, Terms
from voicesim.metrics.dialogue_tables import series
from voicesim.session import record as of
from voicesim.session.dialogue import Dialogue, record

COLUMNS = [f"{name}_s" for name in SEGMENTS]


def world(seed):
    spec, tape = random_dialogue(seed)
    dialogue = Dialogue(spec, tape)
    dialogue.advance(spec.end)
    kinds = ["llm"] * len(spec.llm) + ["tts"] * len(spec.tts) + ["omni"] * (spec.omni is not None)
    stages = [Stage(f"{kind}{k}", kind, k, "card", 1, 1.0) for k, kind in enumerate(kinds)]
    return Tables(Played(Terms(stages=stages), spec, tape, record(dialogue)))


@pytest.mark.parametrize("seed", range(60))
def test_conservation(seed):
    made = world(seed)
    run, turns, m = made.run, made.turns, run_metrics(made)
    f = run.record.answer_f
    heard = turns[turns["total_s"].notna()]
    ns = np.rint(heard[COLUMNS].to_numpy() * 1e9)
    assert (ns >= 0).all()  # and none is unknown
    between = np.rint(heard["started_s"] * 1e9) - np.rint(heard["spoken_s"] * 1e9)
    assert (ns.sum(axis=1) == between).all()
    assert (heard["total_s"] > 0).all()

    per = answers(run, made.units)
    ended = run.record.answer_i[:, of.A_OUTCOME] != of.PENDING
    assert per["heard_s"][ended].to_numpy() == pytest.approx(f[ended, of.A_LISTENED], abs=1e-9)
    assert (per["heard_s"] + per["wasted_s"]).to_numpy() == pytest.approx(
        per["generated_s"].to_numpy()
    )
    assert (per >= -1e-9).all(axis=None)
    assert (f[ended, of.A_RECEIVED] <= per["generated_s"][ended] + 1e-9).all()
    assert (per["tokens_wasted"] <= per["tokens"] + 1e-9).all()
    assert (per["llm_tokens"] <= run.tape.reply).all()

    assert len(turns) == run.tape.turns
    parts = ("refused", "abandoned", "failed", "completed", "live_at_end")
    assert m["offered"] == sum(m[p] for p in parts)
    assert m["offered_turns"] >= m["spoken_turns"] >= m["answered_turns"]
    assert not (turns["clean"] & ~turns["measured"]).any()
    assert not (turns["clean"] & turns["total_s"].isna()).any()
    assert (turns["stop_s"].dropna() >= 0).all()
    most = m["cost"]["waste"] * (1 + 1e-12)  # two sums of the same, in another order
    assert most >= m["cost"]["interruptions"] >= 0
    assert m["cost"]["waste"] <= m["cost"]["gpus"]


def test_the_series_has_a_row_per_bin():
    made = world(3)
    run = made.run
    table = series(run, np.zeros(run.spec.bins))
    assert len(table) == run.spec.bins
    assert table["calls"].sum() == run.tape.calls
    assert {"live", "speaking", "gap_p99", "running", "waiting_llm0"} <= set(table.columns)
