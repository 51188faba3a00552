"""The tape of a dialogue: laws, closed relations, presets, and draws that settings leave alone."""

import dataclasses
import math

import numpy as np
import pytest

from tests import talk
from voicesim.scenario import load
from voicesim.session.build import dialogue_tape
from voicesim.workload.talk import agent_speech, barge_hazard

CALLERS = ("arrival", "first", "tenant", "think", "speech", "patience", "barge", "false_barge")
"""What no setting of engines, network or policies may change."""
TURNS = ("endpoint", "cut_at", "cut_pause", "cut_endpoint", "cut")
UNITS = ("unit", "unit_end", "unit_tokens", "unit_prompt", "unit_cached")


@pytest.fixture
def tape(tmp_path):
    def drawn(*sets, text=talk.SCENARIO, replication=0):
        return dialogue_tape(load(talk.write(tmp_path, text), sets).variants["base"], replication)

    return drawn


def changed(a, b):
    """The columns of two tapes that differ; answers to half-heard turns (the last rows) aside."""
    rows = a.turns
    found = []
    for field in dataclasses.fields(a):
        x, y = getattr(a, field.name), getattr(b, field.name)
        if isinstance(x, np.ndarray):
            if len(x) == a.answers and len(y) == b.answers:
                x, y = x[:rows], y[:rows]
            if x.tobytes() != y.tobytes():
                found.append(field.name)
    return found


def reply_seconds(tape, step=0.08):
    return np.add.reduceat(tape.unit_tokens, tape.unit[:-1])[: tape.turns] * step


# --- whole tapes ------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", ["service", "task", "companion"])
def test_what_must_hold_of_every_tape(tape, preset):
    t = tape(f"workload.preset={preset}", "horizon=10min")
    assert t.first[-1] == t.turns == len(t.answer)
    assert t.unit[-1] == t.units and (np.diff(t.unit) >= 1).all()
    assert (t.unit_end[t.unit[1:] - 1] == t.reply).all()
    inner = np.setdiff1d(np.arange(1, t.units), t.unit[1:-1])
    assert (np.diff(t.unit_end)[inner - 1] > 0).all()
    assert (t.hit < t.prompt).all() and (t.hit >= 0).all()
    assert min(t.unit_tokens.min(), t.unit_prompt.min(), t.reply.min()) >= 1
    half = np.flatnonzero(t.cut >= 0)
    assert (t.cut[half] == t.turns + np.arange(len(half))).all()
    assert t.answers == t.turns + len(half)
    assert (t.cut_pause[half] > t.cut_endpoint[half]).all()
    assert (t.cut_at[half] < t.speech[half]).all()
    assert np.isinf(t.cut_at[t.cut < 0]).all()
    assert t.clipped == 0


def test_tokens_follow_from_seconds(tape):
    """One sentence of 3 s at 4 tokens a second: 12 tokens of text, ceil(3 / 0.08) = 38 steps."""
    t = tape("workload.reply={sentences: 1, sentence: 3s, tail: {share: 0}}")
    assert set(t.reply) == {12} and set(t.unit_tokens) == {38} and set(t.unit_prompt) == {12}
    same = tape("workload.reply={sentences: 1, sentence_tokens: 12, tail: {share: 0}}")
    assert changed(t, same) == []
    quick = tape(
        "workload.reply={sentences: 1, sentence: 3s, tokens_per_second: 5, tail: {share: 0}}"
    )
    assert set(quick.reply) == {15}
    assert changed(t, quick) == ["reply", "unit_end", "unit_prompt"]


def test_prompts_and_hits_by_hand(tape):
    """Turn n of a call: 1,000 + 60 n tokens and 2 s x 3.5 of speech, of which whole blocks of the
    system prompt and of the past are found."""
    sets = (
        "workload.speech=2s", "workload.turns=3",
        "workload.context={system: 1000, per_turn: 60}",
        "workload.pauses={share: 0}",
    )  # fmt: skip
    t = tape(*sets)
    assert t.prompt[:3].tolist() == [1007, 1067, 1127]
    assert t.hit[:3].tolist() == [992, 1056, 1120]
    forgotten = tape(*sets, "pipeline.caches.history=0")
    assert set(forgotten.hit) == {992}
    assert set(tape(*sets, "cluster.pools.llm.engine.prefix_caching=false").hit) == {0}
    some = tape(*sets, "pipeline.caches.history=0.25")
    later = np.arange(some.turns) % 3 > 0
    assert (some.hit[later] > 992).mean() == pytest.approx(0.25, abs=0.03)


def test_another_model_has_not_the_past_in_its_cache(tape):
    sets = ("workload.turns=4", "workload.pauses={share: 0}")
    t = tape(*sets, "pipeline={cascade: {small: small, large: llm, first_turns: 2}, omni: {}}",
             text=talk.LARGE)  # fmt: skip
    assert t.llm[:4].tolist() == [0, 0, 1, 1]
    system = 1200 // 16 * 16
    assert t.hit[:4].tolist() == [system, 1264, system, 1408]


def test_clipped_replies_lose_their_last_units(tape):
    t = tape(
        "workload.reply={sentences: 3, sentence: 3s, tail: {share: 0}}",
        "cluster.pools.llm.engine.max_tokens=20",
    )
    assert set(t.reply) == {20}
    assert t.clipped == t.turns
    assert set(np.diff(t.unit)) == {2}
    assert t.unit_end[:2].tolist() == [13, 20]
    assert t.unit_tokens[:2].tolist() == [38, 25]  # 3 s, then 8 of 12 tokens of 3 s


def test_omni_answers(tape):
    t = tape("workload.speech=2s", "workload.pauses={share: 0}", text=talk.LARGE)
    chosen = t.omni == 1
    assert chosen.mean() == pytest.approx(0.2, abs=0.02)
    place = np.arange(t.turns) - np.repeat(t.first[:-1], np.diff(t.first))
    assert (t.omni_prompt == 1200 + 70 * place + 25).all()
    assert t.llm.mean() == pytest.approx(0.7, abs=0.03)
    call = np.repeat(np.arange(t.calls), np.diff(t.first))
    assert all(len(set(t.tts[call == k])) == 1 for k in range(20))
    assert np.mean(t.tts[t.first[:-1]]) == pytest.approx(0.75, abs=0.08)


# --- laws -------------------------------------------------------------------------------------


def test_the_means_of_the_service_preset(tape):
    t = tape("horizon=1h", "workload.arrivals.rate=2/s")
    calls = t.calls
    assert t.turns / calls == pytest.approx(8.0, abs=4 * 0.6 * 8 / math.sqrt(calls))
    counts = np.diff(t.first)
    assert counts.std() / counts.mean() == pytest.approx(0.6, abs=0.02)
    assert t.speech.mean() == pytest.approx(1.9 * math.exp(0.75**2 / 2), rel=0.02)
    assert np.median(t.patience) == pytest.approx(12.0, rel=0.02)
    assert np.mean(t.think < 1e-9) < 0.001
    assert t.think.mean() == pytest.approx(0.8 * 0.3657 + 0.2 * 1.5 * math.exp(0.245), rel=0.02)


def test_turns_a_minute_are_those_published(tape):
    """5 to 8 turns a minute, with a second of delay (a price calculator of voice agents)."""
    for preset in ("service", "task", "companion"):
        t = tape(f"workload.preset={preset}", "horizon=30min")
        turn = t.think.mean() + t.speech.mean() + 1.0 + reply_seconds(t).mean()
        assert 4.9 < 60.0 / turn < 8.0, preset


def test_one_call_in_five_has_an_interruption(tape):
    """The share is of calls that are heard to their end; 8 turns, so 2.75 % of turns."""
    t = tape("horizon=1h", "workload.arrivals.rate=2/s")
    cut = t.barge < reply_seconds(t)
    call = np.repeat(np.arange(t.calls), np.diff(t.first))
    share = (np.bincount(call, cut, minlength=t.calls) > 0).mean()
    assert share == pytest.approx(0.2, abs=4 * 0.4 / math.sqrt(t.calls))
    assert cut.mean() == pytest.approx(0.0275, abs=0.003)


def test_a_share_of_alike_calls_is_that_of_a_poisson_process(tmp_path):
    sets = ["workload.turns=8", "workload.reply={sentences: 1, sentence: 4.25s, tail: {share: 0}}"]
    w = load(talk.write(tmp_path), sets).variants["base"].workload
    assert agent_speech(w).call == pytest.approx(34.0)
    assert barge_hazard(w) == pytest.approx(-math.log(0.8) / 34.0)  # 0.0066 a second


def test_backchannels_longer_than_detect_are_taken_for_interruptions(tape):
    sets = ("workload.barge_in={false: 0/s, backchannel: {hazard: 0.1/s, length: {exponential: "
            "{mean: 500ms}}}}",)  # fmt: skip
    heard = tape(*sets, "pipeline.barge_in.detect=0s").false_barge
    fewer = tape(*sets, "pipeline.barge_in.detect=500ms").false_barge
    assert heard.mean() == pytest.approx(10.0, rel=0.05)
    assert fewer / heard == pytest.approx(np.full(len(heard), math.e), rel=1e-3)
    assert np.isinf(
        tape("workload.barge_in={false: 0/s, backchannel: {hazard: 0/s}}").false_barge
    ).all()


def test_long_replies(tape):
    sets = ("workload.reply={sentences: 1, sentence: 3s, tail: {share: 0.1, least: 12s, alpha: 2, "
            "most: 60s}}", "horizon=1h")  # fmt: skip
    t = tape(*sets)
    seconds = reply_seconds(t)
    long = seconds > 11.9
    assert long.mean() == pytest.approx(0.1, abs=0.01)
    assert seconds[long].max() <= 60.0 + 40 * 0.08  # each unit's last step is a whole one
    assert np.mean(seconds[long] > 24.0) == pytest.approx(0.25, abs=0.03)


def test_images_are_clamped_and_cached(tape):
    """10 MB an image: 4096 x 1280 x 2 bytes; 300 places for 600 pictures that come back."""
    images = (
        "{share: 1, count: 3, limit: 2, encode: 100ms, tokens: 1280, "
        "cache: {memory: 3145728000, repeats: 0.8, distinct: 600}}"
    )
    bare = "workload.images={share: 1, count: 3, limit: 2, encode: 100ms, tokens: 1280}"
    none, t, cached = tape(), tape(bare), tape(f"workload.images={images}")
    assert (t.prompt - none.prompt == 2560).all()
    assert t.encode == pytest.approx(np.full(t.answers, 0.2))
    assert cached.encode.mean() == pytest.approx(0.2 * (1 - 0.8 * 0.5), rel=0.05)
    assert changed(none, t) == ["prompt", "encode"]
    assert changed(t, cached) == ["encode"]


def test_tenants_have_their_own_laws(tape):
    t = tape("workload.tenants=[{name: a, share: 0.25, speech: 1s, turns: 2}, "
             "{name: b, share: 0.75, speech: 2s, turns: 5}]")  # fmt: skip
    assert t.tenant.mean() == pytest.approx(0.75, abs=0.08)
    assert np.diff(t.first)[t.tenant == 0].tolist() == [2] * int((t.tenant == 0).sum())
    who = np.repeat(t.tenant, np.diff(t.first))
    assert set(t.speech[who == 0]) == {1.0} and set(t.speech[who == 1]) == {2.0}


# --- common random numbers --------------------------------------------------------------------

SETTINGS = {
    "cluster.pools.tts.replicas=4": (),
    "cluster.pools.tts.codec.chunk.first=8": (),
    "policies.admission={kind: cap, streams: 3}": (),
    "policies.routing={kind: power_of_two}": (),
    "listener={network: {delay: 100ms, jitter: 20ms}, capture: 5ms}": (),
    "pipeline.barge_in={cancel: none, flush: false}": (),
    "pipeline.prefetch=1": (),
    "pipeline.client={connection: new, consume: wait}": (),
    "pipeline.endpointing={kind: fixed, silence: 300ms}": TURNS,
    "pipeline.endpointing={kind: semantic}": TURNS,
    "pipeline.endpointing={kind: dynamic}": TURNS,
    "pipeline.segmenter={unit: phrase}": UNITS,
    "pipeline.segmenter={first: 1s, later: 5s}": UNITS,
    "pipeline.client={stages: serial}": UNITS,
    "pipeline.caches={phrases: 0.5}": ("unit_cached",),
    "pipeline.caches={history: 0.5}": ("hit",),
    "pipeline.barge_in.detect=200ms": ("false_barge",),
}


@pytest.mark.parametrize("override", SETTINGS)
def test_a_setting_changes_only_what_follows_from_it(tape, override):
    base, other = tape(), tape(override)
    allowed = SETTINGS[override]
    more = UNITS if allowed == TURNS else ()  # units of the answers to half-heard turns
    assert set(changed(base, other)) <= {*allowed, *more}
    assert set(changed(base, other)) & set(allowed) or not allowed
    n = base.turns
    units = base.unit[n]
    if allowed == TURNS:
        for name in UNITS[1:]:
            assert getattr(base, name)[:units].tobytes() == getattr(other, name)[:units].tobytes()


@pytest.mark.parametrize(
    ("law", "column"),
    [
        ("workload.think=1s", "think"),
        ("workload.patience=5s", "patience"),
        ("workload.barge_in.hazard=0.1/s", "barge"),
    ],
)
def test_a_law_changes_only_its_own_column(tape, law, column):
    assert changed(tape(), tape(law)) == [column]


def test_more_hazard_means_earlier_interruptions_of_the_same_callers(tape):
    few, many = tape("workload.barge_in.hazard=0.01/s"), tape("workload.barge_in.hazard=0.02/s")
    assert few.barge == pytest.approx(2 * many.barge)


def test_replications_differ_and_repeat(tape):
    a, b = tape(), tape(replication=1)
    assert "speech" in changed(a, b)
    assert changed(b, tape(replication=1)) == []
