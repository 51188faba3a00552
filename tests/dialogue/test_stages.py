"""How much each stage is used, worked by hand."""

from dataclasses import replace

import numpy as np
import pytest

from tests.dialogue.made import STAGES, Call, Turn, heard, played
from voicesim.engine import layout as at
from voicesim.engine.asr_spec import OFFLINE, SLOTS, WINDOWS, AsrSpec
from voicesim.engine.cost import HOST
from voicesim.engine.spec import CodecSpec
from voicesim.metrics.dialogue_audio import units
from voicesim.metrics.dialogue_budgets import budgets
from voicesim.metrics.dialogue_run import Allowance, Stage, Tenant, Terms
from voicesim.metrics.dialogue_stages import asr_streams, nearest, stages, token_load
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


@pytest.mark.parametrize(
    ("pool", "audio", "streams"),
    [(1, 0.002, 150), (1, 0.004, 256), (1, 0.0001, 256), (0, 0.002, 256)],
)  # fmt: skip
def test_a_full_batch_keeps_up_with_its_listeners(pool, audio, streams):
    """0.5 ms of host time and 10 us a token: steps of up to 2 ms hold 150 streams; none is as short
    as 0.1 ms; a language model has no listeners."""
    made = run()
    spec = replace(made.spec.pools[pool], token_audio=audio)
    spec.step.params[:] = 0.0
    spec.step.params[HOST] = 0.0005
    record = made.record.pools[pool]
    steps = record.counters["stream_steps"] / streams
    expected = steps * (0.0005 + streams * 1e-5) / 100
    assert token_load(record, spec, pool == 1) == pytest.approx(expected)


def test_codec_and_decoder_on_one_card():
    """The codec works half the time and makes a step 1.4 times as long."""
    made = run()
    plain = stages(made)["tts"]["load"]
    codec = CodecSpec(np.zeros(3), workers=1, shared=True)
    spec = replace(made.spec, tts=(replace(made.spec.tts[0], codec=codec, decode_slowdown=1.4),))
    made.record.pools[1].busy["codec"] = np.array([50.0])
    assert stages(replace(made, spec=spec))["tts"]["load"] == 0.5
    made.record.pools[1].counters["stream_steps"] = 10_000_000
    share = stages(replace(made, spec=spec))["tts"]["load"] / (plain * 10_000_000 / 200)
    assert share == pytest.approx(1.2)


def test_waiting_counts_too():
    """Of 4 streams at the engine one waits, in every second that is counted."""
    made = run()
    record = made.record.pools[1]
    record.series[:, at.B_RUNNING], record.series[:, at.B_WAITING] = 3, 1
    found = stages(made)["tts"]
    assert found["queued"] == found["knee"] == 0.25
    assert nearest(stages(made)) == "tts"


def with_ears(spec, **seen):
    terms = Terms(stages=(Stage("ears", "asr"), *STAGES))
    made = run(terms, asr=spec)
    return replace(made, record=replace(made.record, asr={k: np.array(v) for k, v in seen.items()}))


def test_a_recogniser_of_batches():
    """2 engines of 3 workers busy for 120 of 600 s.  9,000 jobs of 0.16 s in full batches of 30:
    300 floors of 20 ms, 9,000 rows of 1 ms, 1,440 s of audio at 5 ms are 22.2 s."""
    spec = AsrSpec(engines=2, workers=3, cap=30, cost=np.array([0.02, 0.001, 0.005]))
    found = stages(with_ears(spec, busy=[50.0, 70.0], jobs=9000, audio=1440.0))["ears"]
    assert found["busy"] == pytest.approx(0.2)
    assert found["knee"] == found["load"] == pytest.approx(22.2 / 600)
    assert stages(with_ears(spec))["ears"]["knee"] is None


def test_a_recogniser_of_slots():
    """64 slots, 4,800 s of calls in 100 s: three quarters are taken; a step of 60 ms for a frame
    of 80 ms is as near, one of 72 ms nearer."""
    for step, load in ((0.02, 0.75), (0.072, 0.9)):
        spec = AsrSpec(SLOTS, slots=64, step=step, chunk=0.08)
        made = with_ears(spec, busy=[20.0], calls=[4800.0], jobs=0, audio=0.0)
        assert stages(made)["ears"]["load"] == pytest.approx(load)
        assert nearest(stages(made)) == "ears"


@pytest.mark.parametrize(
    ("kind", "streams"),
    [
        (0, 6 * 0.16 / (0.02 / 30 + 0.001 + 0.005 * 2.0)),  # 160 ms of speech a job
        (WINDOWS, 6 * 0.16 / (0.02 / 30 + 0.001 + 0.005 * 2.0)),
        (OFFLINE, 6 * 2.0 / (0.02 / 30 + 0.001 + 0.005 * 2.0)),  # a whole turn
        (SLOTS, 2 * 64),
    ],
)
def test_speakers_that_a_recogniser_can_follow(kind, streams):
    """2 replicas of 3 workers, jobs over 2 s of audio each; the published capacities of C23 are
    this number (tests/cases/test_c23_chunk_and_context.py)."""
    cost = np.array([0.02, 0.001, 0.005])
    spec = AsrSpec(kind, 2, 0.16, cap=30, workers=3, slots=64, step=0.08, cost=cost)
    assert asr_streams(spec, 100.0, 200.0) == pytest.approx(streams)
    late = replace(spec, step=0.17, cost=np.zeros(3))
    assert asr_streams(late, 100.0, 200.0) == (0.0 if kind == SLOTS else None)
    assert asr_streams(spec, 0.0, 0.0) == (128.0 if kind == SLOTS else None)


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
