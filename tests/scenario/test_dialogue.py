"""Scenarios of whole calls: presets, tenants, what is written back, and what is refused."""

from pathlib import Path

import pytest
import yaml

from tests import small, talk
from voicesim.scenario import ScenarioErrors, load, loads
from voicesim.scenario.dialogue import Talk, preset
from voicesim.scenario.presets import CONVERSATIONS
from voicesim.simulation import problems

SHIPPED = sorted(
    file
    for file in (Path(__file__).parents[2] / "scenarios").glob("*.yaml")
    if "kind: dialogue" in file.read_text()
)


@pytest.fixture
def read(tmp_path):
    def scenario(*sets, text=talk.SCENARIO):
        return load(talk.write(tmp_path, text), sets).variants["base"]

    return scenario


@pytest.fixture
def refused(tmp_path):
    def lines(*sets, text=talk.SCENARIO):
        with pytest.raises(ScenarioErrors) as caught:
            load(talk.write(tmp_path, text), sets)
        return [str(problem) for problem in caught.value.problems]

    return lines


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.stem)
def test_shipped_scenarios_can_be_simulated_and_read_back(file):
    found = load(file)
    assert problems(found) == []
    for scenario in found.variants.values():
        text = yaml.safe_dump(scenario.resolved(), sort_keys=False)
        again = loads(text, file).variants["base"]
        assert again.resolved() == scenario.resolved()
        assert loads(yaml.safe_dump(scenario.written()), file).variants["base"] == scenario


def test_there_are_six_of_them():
    assert len(SHIPPED) >= 6


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_a_preset_leaves_nothing_out(name):
    talk_ = preset(name)
    for field in Talk.model_fields:
        if field != "images":
            assert getattr(talk_, field) is not None
    reply, rules = talk_.reply, talk_.barge_in
    assert None not in (reply.sentences, reply.tokens_per_second, reply.tail)
    assert (reply.sentence is None) != (reply.sentence_tokens is None)
    assert (rules.hazard is None) != (rules.share is None)


def test_what_is_given_stands_over_the_preset_key_by_key(read):
    w = read("workload.reply.tokens_per_second=5", "workload.barge_in.hazard=0.01/s").workload
    service = preset("service")
    assert w.reply.tokens_per_second == 5
    assert w.reply.sentence == service.reply.sentence
    assert (w.barge_in.hazard, w.barge_in.share) == (0.01, None)
    assert w.barge_in.backchannel == service.barge_in.backchannel
    assert w.turns == service.turns
    assert read("workload.preset=task").workload.turns.mean() == 18


def test_a_tenant_stands_over_the_workload_or_over_a_preset_of_its_own(read):
    w = read(
        "workload.context.system=500",
        "workload.tenants=[{name: a, share: 0.4, turns: 3}, "
        "{name: b, share: 0.6, preset: companion, budget: {total: 500ms, asr: {within: 50ms, "
        "owner: speech}}}]",
    ).workload
    a, b = w.talks()
    assert (a.turns.mean(), a.context.system) == (3, 500)
    assert (b.turns.mean(), b.context.system) == (38, 800)
    assert w.budgets()[0] is None
    assert w.budgets()[1].segments["asr"].owner == "speech"


def test_tts_may_be_left_out_and_a_dialogue_may_not(tmp_path, refused):
    plain = small.SCENARIO.replace("  kind: tts\n", "")
    assert load(small.write(tmp_path, plain)).variants["cap"].workload.kind == "tts"
    (line,) = refused("workload.kind=dialog")
    assert "unknown kind 'dialog'; did you mean 'dialogue'? allowed: tts, dialogue" in line
    (line,) = refused("cluster.pools.tts.role=voice")
    assert "unknown role 'voice'; allowed: tts, llm, omni, asr" in line
    assert "workload: expected a mapping (key: value); found 3" in refused("workload=3")[0]


WRONG = [
    ("workload.arrivals={kind: closed, callers: 3}", "workload.arrivals.kind: a dialogue has"),
    ("workload.reply={sentence: 2s, sentence_tokens: 8}", "reply.sentence_tokens: give "),
    ("workload.barge_in={hazard: 1/s, share: 0.2}", "workload.barge_in.share: give hazard or"),
    ("workload.turns={poisson: {mean: 0.5}}", "workload.turns.poisson.mean: must be at least 1"),
    (
        "workload.turns={negative_binomial: {mean: 8, cv: 0.3}}",
        "turns.negative_binomial.cv: must be more than 0.331",
    ),
    ("workload.think={geometric: {mean: 3}}", "think.geometric: unknown distribution"),
    ("workload.think={mixture: [{share: 0.5, law: 1s}]}", "think.mixture: the shares must add"),
    ("workload.think={mixture: [{law: 1s}]}", "mixture.0: expected {share, law}; found {law}"),
    ("workload.think={mixture: [{share: 1, law: 1q}]}", "mixture.0.law: expected a duration"),
    ("workload.reply.tail.most=3s", "workload.reply.tail.most: is less than least (12s)"),
    ("workload.images={share: 0, encode: 1s}", "workload.images.share: is 0"),
    ("workload.preset=sevice", "workload.preset: unknown name 'sevice'; did you mean 'service'"),
    (
        "workload.budget={total: 1s, asr: {within: 600ms}, llm: {within: 500ms}}",
        "workload.budget.total: the segments' parts add up to 1.1s",
    ),
    ("workload.tenants=[{name: a, share: 0.5}]", "workload.tenants: the shares must add up to 1"),
    (
        "workload.tenants=[{name: a.b, share: 1}]",
        "workload.tenants.0.name: expected a name without a dot; found 'a.b'",
    ),
    (
        "workload.barge_in={share: 1}",
        "workload.barge_in.share: is 1: only callers who interrupt at the first sound",
    ),
    (
        "workload.tenants=[{name: a, share: 0.5}, {name: a, share: 0.5}]",
        "workload.tenants.1.name: an earlier tenant",
    ),
    ("policies.admission={kind: slack}", "policies.admission: slack is for utterances"),
    ("policies.routing={policy: a:B}", "policies.routing: a dialogue routes"),
    ("alarms=[{metric: waiting, over: 10s, above: 5}]", "alarms: alarms watch"),
    ("cluster.pools.llm.chunk={first: 1, steady: 1}", "cluster.pools.llm.chunk: never used"),
    ("cluster.pools.llm.share=0.5", "cluster.pools.llm.share: never used"),
    ("cluster.pools.tts.share=0.5", "cluster.pools.tts.share: never used"),
    ("cluster.pools.tts.role=omni", "cluster.pools: a dialogue needs a pool of role tts"),
    ("cluster.pools.asr.asr.workers=9", "cluster.pools.asr.replicas: 1 replicas of 9 workers"),
    ("cluster.pools.asr.asr={kind: slots, slots: 4}", "pools.asr.asr.step: missing"),
    ("pipeline.omni={share: 0.1}", "pipeline.omni: there is no pool of role omni"),
    ("pipeline.cascade={small: llm, large: llm, small_share: 1}", "cascade.large: is the small"),
    ("pipeline.cascade={small: ll, large: llm, small_share: 1}", "did you mean 'llm'"),
    (
        "pipeline.endpointing={kind: dynamic, min: 1s, max: 500ms}",
        "pipeline.endpointing.max: is less than min (1s)",
    ),
    ("pipeline.endpointing={kind: semantic, false_cut_offs: [[1s]]}", "expected a share or a list"),
    ("pipeline.segmenter={unit: reply, first: 1s}", "pipeline.segmenter.first: never used"),
    ("pipeline.segmenter.phrase=1s", "pipeline.segmenter.phrase: never used"),
    ("pipeline.client.round_trips=3", "pipeline.client.round_trips: never used"),
    (
        "pipeline={client: {stages: serial}, segmenter: {unit: phrase}}",
        "pipeline.segmenter: never used",
    ),
    ("cluster.pools.tts.engine.pacing={lead: 2s}", "engine.pacing: not in a dialogue"),
    ("cluster.pools.tts.codec.queue={kind: pressing}", "queue.kind: pressing: not in a dialogue"),
    ("cluster.pools.tts.codec.queue={kind: edf, reserve: 1s}", "queue.reserve: not in a dialogue"),
    ("pipeline.client.reed_chunk=1s", "did you mean 'read_chunk'"),
    (
        "pipeline.omni={speech_tokens_per_second: -1}",
        "pipeline.omni.speech_tokens_per_second: must be more than 0; found -1",
    ),
    ("prices={cards: [{card: x, tenure: owned, per_hour: 1, date: 2026-11-01}]}", "prices.cards.0"),
]  # fmt: skip


@pytest.mark.parametrize(("override", "start"), WRONG)
def test_what_is_refused(refused, override, start):
    assert any(start in line for line in refused(override)), refused(override)


def test_refusals_name_the_line(refused):
    text = talk.SCENARIO.replace("rate: 1/s}", "rate: 1/s}\n  patience: 0s")
    at = next(i for i, row in enumerate(text.splitlines(), 1) if "patience" in row)
    assert refused(text=text) == [
        f"talk.yaml:{at}: workload.patience: must be more than 0; found '0s'"
    ]


def test_only_a_dialogue_has_a_pipeline_and_roles(tmp_path):
    for extra, key in (
        ("pipeline: {prefetch: 1}\n", "pipeline"),
        ("prices: {}\n", "prices"),
    ):
        with pytest.raises(ScenarioErrors) as caught:
            load(small.write(tmp_path, small.SCENARIO + extra))
        assert f"{key}: never used: only a dialogue" in str(caught.value)
    for sets in ("listener.capture=10ms", "cluster.pools.tts.role=llm"):
        with pytest.raises(ScenarioErrors) as caught:
            load(small.write(tmp_path), [sets])
        assert "never used: only a dialogue" in str(caught.value)


def test_a_profile_without_memory_or_audio_is_refused_with_its_line(tmp_path):
    path = talk.write(tmp_path, talk.SCENARIO.replace(", kv_blocks: 20000", ""))
    (line,) = problems(load(path))
    assert "says nothing about memory" in line and "talk.yaml:15" in line
    path = talk.write(tmp_path)
    profile = tmp_path / "small-profile.yaml"
    profile.write_text(profile.read_text().replace("token_audio_s: 0.08\n", ""))
    (line,) = problems(load(path))
    assert "lacks token_audio_s" in line and "talk.yaml:15" in line
