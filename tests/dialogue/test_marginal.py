"""What a tenth less of each segment does, where nobody waits for anybody: a tenth of it."""

from dataclasses import replace

import numpy as np
import pytest

from tests.small import PROFILE
from voicesim.engine.asr_spec import AsrSpec
from voicesim.engine.spec import CodecSpec
from voicesim.metrics.dialogue import Tables, run_metrics
from voicesim.metrics.dialogue_marginal import faster, marginal, mean_live, more, p95, play
from voicesim.metrics.dialogue_run import SEGMENTS
from voicesim.scenario import load

SCENARIO = """\
horizon: 300s
drain: 2min
seed: 3
workload:
  kind: dialogue
  arrivals: {kind: constant, rate: 0.02/s}
  turns: 3
  speech: 2s
  think: 1s
  pauses: {share: 0}
  reply: {sentences: 1, sentence: 2s, tail: {share: 0}}
  barge_in: {hazard: 0/s, false: 0/s, backchannel: {hazard: 0/s}}
  context: {per_turn: 0}
cluster:
  gpus: {card: {preset: h100-sxm, count: 3}}
  pools:
    llm:
      role: llm
      on: card
      engine: {profile: small-profile.yaml, kv_blocks: 4000, prefix_caching: false}
    tts:
      role: tts
      on: card
      engine: {profile: small-profile.yaml, kv_blocks: 4000}
      codec: {chunk: {first: 4, steady: 25}}
pipeline: {client: {connection: new, round_trips: 2, round_trip: 10ms, sleep: 50ms, resample: 3ms}}
listener: {network: {delay: 40ms}, capture: 20ms, player: {prebuffer: 200ms}}
"""


def scenario(folder, *sets, text=SCENARIO):
    (folder / "small-profile.yaml").write_text(PROFILE)
    (folder / "alone.yaml").write_text(text)
    return load(folder / "alone.yaml", sets=list(sets)).variants["base"]


def test_alone_a_tenth_of_a_segment_is_a_tenth_of_it(tmp_path):
    """Calls 50 s apart, every turn alike: no queue anywhere, so the ledger scales part by part."""
    s = scenario(tmp_path)
    run = play(s)
    assert len(Tables(run).turns) == 3 * 6
    parts = run_metrics(Tables(run))["ledger"]
    found = marginal(s, 0, run)
    assert found["caller_change_s"] == pytest.approx(0.0, abs=1e-9)
    for name in SEGMENTS:
        if name == "asr":
            assert name + "_change_s" not in found  # there is none
            continue
        assert parts[f"{name}_p95_s"] > 0
        expected = -0.1 * parts[f"{name}_p95_s"]
        assert found[f"{name}_change_s"] == pytest.approx(expected, abs=1e-8), name
    total = sum(v for n, v in found.items() if n != "caller_change_s")
    assert total == pytest.approx(-0.1 * p95(run), abs=1e-7)


def test_one_more_caller_costs_something_where_they_share(tmp_path):
    """Thirty calls at once on one voice: p95 grows by what 2 % more calls add / 2 % of the live."""
    s = scenario(tmp_path, "workload.arrivals={kind: poisson, rate: 3/s}", "warmup=60s")
    run = play(s)
    found = marginal(s, 0, run)["caller_change_s"]
    assert found > 0.0
    twice = play(more(s, 1.02))
    assert found == pytest.approx((p95(twice) - p95(run)) / (0.02 * mean_live(run)))
    assert twice.tape.calls >= run.tape.calls


def test_what_a_segment_is_made_of(tmp_path):
    """Each change touches its own numbers alone."""
    run = play(scenario(tmp_path))
    codec = CodecSpec(np.array([1.0, 2.0, 4.0]), gather=0.5)
    spec = replace(
        run.spec, asr=AsrSpec(cost=np.array([1.0, 2.0, 4.0]), step=3.0),
        tts=(replace(run.spec.tts[0], codec=codec, delay=2.0),),
    )  # fmt: skip
    half, tape = faster(spec, run.tape, "tts", 0.5)
    assert half.tts[0].codec.cost.tolist() == [0.5, 1.0, 2.0]
    assert (half.tts[0].codec.gather, half.tts[0].delay) == (0.25, 1.0)
    assert half.tts[0].step.compute_s.tolist() == (spec.tts[0].step.compute_s / 2).tolist()
    assert half.llm is spec.llm
    assert tape is run.tape
    half, _ = faster(spec, run.tape, "asr", 0.5)
    assert (half.asr.cost.tolist(), half.asr.step) == ([0.5, 1.0, 2.0], 1.5)
    half, tape = faster(spec, run.tape, "endpointing", 0.5)
    assert tape.endpoint.tolist() == (run.tape.endpoint / 2).tolist()
    assert half.tts is spec.tts


def test_arrivals_without_a_rate_have_no_next_caller(tmp_path):
    (tmp_path / "calls.csv").write_text("t_s\n1\n40\n90\n")
    s = scenario(tmp_path, "workload.arrivals={kind: trace, file: calls.csv}")
    assert more(s, 1.02) is None
    assert marginal(s, 0, play(s))["caller_change_s"] is None
