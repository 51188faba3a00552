"""The kinds of engine in a scenario: each knob is used by some kind or refused, with its line."""

from typing import get_args

import pytest
import yaml

from tests import small
from voicesim.engine import layout as at
from voicesim.engine.kinds import ENGINES
from voicesim.scenario import ScenarioErrors, load
from voicesim.scenario.cluster import Engine
from voicesim.simulation import pool_spec, problems, profile_of, simulate

REFUSED = "  refused: {retry: {attempts: 1, backoff: 1s}}\n"
PLAIN = small.SCENARIO.split("variants:")[0].replace(REFUSED, "")


def with_engine(knobs: str, workload: str = "") -> str:
    text = PLAIN.replace("kind: vllm_v1, ", "").replace("kv_blocks: 2000", knobs)
    return text.replace("workload:\n", f"workload:\n  {workload}\n") if workload else text


def spec_of(tmp_path, knobs, workload=""):
    (scenario,) = load(small.write(tmp_path, with_engine(knobs, workload))).variants.values()
    return scenario, pool_spec(scenario, profile_of(scenario.cluster.pool))


def test_the_names_are_those_of_the_engines():
    assert get_args(Engine.model_fields["kind"].annotation) == ENGINES


@pytest.mark.parametrize("kind", ENGINES)
def test_every_kind_plays_and_reads_back(tmp_path, kind):
    scenario, spec = spec_of(tmp_path, f"kind: {kind}, kv_blocks: 100000")
    assert ENGINES[spec.kind] == kind
    run = simulate(scenario)
    assert run.record.counters["failed"] == 0 < run.record.counters["steps"]
    (tmp_path / "again.yaml").write_text(yaml.safe_dump(scenario.resolved()))
    (same,) = load(tmp_path / "again.yaml").variants.values()
    assert same.resolved() == scenario.resolved()


def test_knobs_reach_the_engine(tmp_path):
    _, s = spec_of(
        tmp_path,
        "kv_blocks: 90000, kind: sglang, mixed_chunk: true, conservativeness: 0.5, max_queued: 3, "
        "max_tokens: 700, idle_timeout: 30s",
        "left_open: 0.05",
    )
    assert (s.block_size, s.blocks, s.mixed_chunk, s.conservativeness) == (1, 90000, True, 0.5)
    assert (s.max_engine_queue, s.max_new, s.left_open, s.idle_timeout) == (3, 700, 0.05, 30.0)
    assert not s.keep_hashes
    _, s = spec_of(tmp_path, "kv_blocks: 2000, kind: decode_first, interleave: 6")
    assert (s.interleave, s.block_size, s.blocks, s.keep_hashes) == (6, 16, 1999, True)
    _, s = spec_of(tmp_path, "kv_blocks: 2000, pacing: {lead: 2s, reserve_slots: 3}")
    assert (s.pace, s.starts) == (2.0, 3)
    _, s = spec_of(tmp_path, "kv_blocks: 2000, pacing: {}")
    assert (s.pace, s.starts) == (1.0, 0)
    _, s = spec_of(tmp_path, "kv_blocks: 2000, prefix_caching: false")
    assert not s.keep_hashes


@pytest.mark.parametrize(
    ("knobs", "said"),
    [
        ("kind: sglang, reserve_full_prompt: false", "only vllm_v1 and decode_first have it"),
        ("kind: sglang, prefix_caching: false", "shared_prefix is 0"),
        ("mixed_chunk: true", "only sglang have it; kind is vllm_v1"),
        ("kind: decode_first, conservativeness: 2", "only sglang have it; kind is decode_first"),
        ("kind: trtllm_no_evict, max_queued: 3", "only sglang have it"),
        ("interleave: 3", "only decode_first have it"),
        ("idle_timeout: 3s", "workload.left_open is 0"),
        ("kind: sglang, pacing: {lead: 2s}", "only vllm_v1 have it; kind is sglang"),
        ("pacing: {reserve_slots: 64}", "64 is not less than max_num_seqs (64)"),
        ("pacing: {lead: -1s}", "a duration cannot be negative"),
        ("kind: sglan", "did you mean 'sglang'?"),
        ("kind: decode_first, interleave: 0", "at least 1"),
        ("max_num_batched_tokens: 8", "8 is less than max_num_seqs (64)"),
    ],
)
def test_what_is_never_used_is_refused(tmp_path, knobs, said):
    with pytest.raises(ScenarioErrors) as errors:
        load(small.write(tmp_path, with_engine(f"kv_blocks: 2000, {knobs}")))
    assert said in str(errors.value)


def test_a_knob_of_one_variant_is_used(tmp_path):
    text = with_engine("kv_blocks: 2000, reserve_full_prompt: false").rstrip()
    load(
        small.write(
            tmp_path, text + "\nvariants: {a: {}, b: {cluster.pools.tts.engine.kind: sglang}}\n"
        )
    )


def test_the_engine_refuses_too(tmp_path):
    """What the refused do is of use without an admission policy where the engine refuses."""
    refused = "refused: {retry: {attempts: 1, backoff: 1s}}"
    knobs = "kind: sglang, kv_blocks: 4200, max_queued: 1"
    scenario, spec = spec_of(tmp_path, knobs, refused)
    assert (spec.max_engine_queue, spec.retries) == (1, 1)
    assert simulate(scenario).record.series[:, at.B_REFUSED].sum() > 0


def test_declared_tokens_that_never_fit_are_refused(tmp_path):
    """100 blocks of 32 tokens hold 3,200; 4,096 are declared."""
    text = with_engine("kind: trtllm_no_evict, kv_blocks: 100")
    (found,) = problems(load(small.write(tmp_path, text)))
    assert "every request reserves 4096 tokens" in found and "holds 3200" in found


def test_a_ramp_that_streams_share(tmp_path):
    text = with_engine("kv_blocks: 2000").replace("steady: 25", "steady: 25, shared_state: true")
    (scenario,) = load(small.write(tmp_path, text)).variants.values()
    spec = pool_spec(scenario, profile_of(scenario.cluster.pool))
    assert (spec.shared_ramp, spec.pad, spec.schedule) == (True, 0, (4, 8, 25))
    for knobs, said in (
        ("first: 4, steady: 25, pad: 3", "shared_state is false"),
        ("first: 25, steady: 25, shared_state: true", "all chunks are of one size"),
    ):
        wrong = text.replace("first: 4, ramp: [8], steady: 25, shared_state: true", knobs)
        with pytest.raises(ScenarioErrors, match=said):
            load(small.write(tmp_path, wrong))


@pytest.mark.parametrize(
    ("queue", "numbers"),
    [
        ("{kind: edf}", (2, 1.0, 0.0)),
        ("{kind: edf, reserve: 50ms}", (5, 1.0, 0.05)),
        ("{kind: edf, reserve: 0, lead: 2s}", (5, 2.0, 0.0)),
        ("{kind: pressing, lead: 500ms}", (3, 0.5, 0.0)),
        ("{kind: startup_first}", (4, 1.0, 0.0)),
    ],
)
def test_orders_reach_the_codec_and_read_back(tmp_path, queue, numbers):
    text = PLAIN.replace("batch: {cap: 8}", f"batch: {{cap: 8}}\n        queue: {queue}")
    (scenario,) = load(small.write(tmp_path, text)).variants.values()
    codec = pool_spec(scenario, profile_of(scenario.cluster.pool)).codec
    assert codec is not None
    assert (codec.queue, codec.lead, codec.reserve) == numbers
    (tmp_path / "again.yaml").write_text(yaml.safe_dump(scenario.resolved()))
    (same,) = load(tmp_path / "again.yaml").variants.values()
    assert same.resolved() == scenario.resolved()


def test_a_lead_without_a_reserve_is_never_used(tmp_path):
    text = PLAIN.replace("batch: {cap: 8}", "batch: {cap: 8}\n        queue: {kind: edf, lead: 1s}")
    with pytest.raises(ScenarioErrors, match=r"codec\.queue\.lead: never used: give reserve"):
        load(small.write(tmp_path, text))
