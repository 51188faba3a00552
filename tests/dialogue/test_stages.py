"""How much each stage is used, worked by hand."""

from dataclasses import replace

import numpy as np
import pytest

from tests.dialogue.made import STAGES, Call, Turn, heard, played
from voicesim.engine import layout as at
from voicesim.engine.asr_spec import AsrSpec
from voicesim.metrics.dialogue_audio import units
from voicesim.metrics.dialogue_budgets import budgets
from voicesim.metrics.dialogue_run import Allowance, Stage, Tenant, Terms
from voicesim.metrics.dialogue_stages import nearest, stages
from voicesim.metrics.dialogue_tables import sessions, turns

GAPS = (0.03, 0.4, 0.06, 0.2, 0.15, 0.03, 0.05)


def run(terms=None, **spec):
    return played([Call([Turn(heard(10.0, *GAPS))])], terms, spec=spec or None)


def test_tokens_against_full_batches():
    """A full batch: 256 streams and 1.5 tokens of prefill for each, 640 tokens of 10 us.  200
    tokens are 200 / 256 of such a step; there are 100 s."""
    made = run()
    made.record.pools[1].counters["prefill_tokens"] = 300
    found = stages(made)["tts"]
    assert found["load"] == pytest.approx(200 / 256 * 640e-5 / 100)
    assert found["busy"] == pytest.approx(0.4)


def test_waiting_and_pace_count_too():
    """Of 4 streams at the engine one waits, in every second that is counted; the slowest gap is
    twice its audio."""
    made = run()
    record = made.record.pools[1]
    record.series[:, at.B_RUNNING], record.series[:, at.B_WAITING] = 3, 1
    found = stages(made)["tts"]
    assert (found["queued"], found["pace"], found["knee"]) == (0.25, None, 0.25)
    edges = at.quantile_edges(at.FINE_PER_OCTAVE)
    record.gap_hist[np.searchsorted(edges, 2.0, side="right") - 1] = 1000
    found = stages(made)["tts"]
    assert found["pace"] == pytest.approx(2.0, rel=0.01)
    assert found["knee"] == found["pace"]
    assert stages(made)["llm"]["pace"] is None
    assert nearest(stages(made)) == "tts"


def test_the_recogniser():
    """2 engines of 3 workers, 120 busy seconds in 100 s."""
    terms = Terms(stages=(Stage("ears", "asr"), *STAGES))
    made = run(terms, asr=AsrSpec(engines=2, workers=3))
    assert stages(made)["ears"]["knee"] is None
    heard_it = replace(made, record=replace(made.record, asr={"busy": np.array([50.0, 70.0])}))
    assert stages(heard_it)["ears"]["busy"] == pytest.approx(0.2)
    assert nearest(stages(heard_it)) == "ears"


def test_nothing_is_nearest_where_nothing_was_measured():
    assert nearest({}) is None
    assert nearest({"a": {"knee": None}, "b": {"knee": {"mean": None}}}) is None


def test_spend_against_budget():
    """100 answered turns whose LLM takes 1 to 100 ms, and one never answered: 95 ms is the p95 of
    the answered; with 80 ms allowed 20 + 1 of 101 are over."""
    gold = Tenant("gold", 1.0, 0.1, {"llm": Allowance(0.08, "ml"), "network": Allowance(0.06)})
    terms = Terms((Tenant("free"), gold), STAGES)
    calls = [
        Call([Turn(heard(10.0, 0.03, 0.4, 0.06, k / 1000, 0.1, 0.03, 0.05))], tenant=1)
        for k in range(1, 101)
    ]
    silence = heard(10.0, *GAPS)
    silence = replace(silence, at={**silence.at, "start": -1.0, "done": 14.0}, chunks=0)
    calls += [Call([Turn(silence)], tenant=1), Call([Turn(heard(10.0, *GAPS))], tenant=0)]
    made = played(calls, terms)
    rows = turns(made, units(made))
    found = budgets(terms.tenants, rows, sessions(made, rows))
    assert found["gold"]["llm_p95_s"] == pytest.approx(0.095)
    assert found["gold"]["llm_spend"] == pytest.approx(0.095 / 0.08)
    assert found["gold"]["llm_over_share"] == pytest.approx(21 / 101)
    assert found["gold"]["network_over_share"] == pytest.approx(1 / 101)  # 60 ms are allowed
    assert found["gold"]["clean_turn_share"] == pytest.approx(100 / 101)
    assert (found["free"]["offered"], found["gold"]["offered"]) == (1.0, 101.0)
    assert not any(name.startswith("llm") for name in found["free"])
