"""Work that is not done twice: phrases, past turns, a small model for small talk, pictures.

Must show: the hit rate of phrases takes decode steps off the TTS engine in proportion, that of past
turns prefill off the language model, that of pictures (4096 x 1280 x 2 bytes, 10 MB each) seconds
off the encoder; pictures are encoded on the language model's card and hold up everyone on it
(https://github.com/vllm-project/vllm/issues/46815 has the encoder's cache full at the second
session); what exceeds a prompt's limit is dropped before it queues.
"""

import numpy as np
import pytest

from tests import talk
from tests.cases.calls import calls, delay, play, pool, stages
from voicesim.scenario import load
from voicesim.scenario.dialogue import ImageCache
from voicesim.session import record as rec
from voicesim.session.build import dialogue_tape

RATES = [0.0, 0.25, 0.5, 0.75, 1.0]


@pytest.fixture
def drawn(tmp_path):
    def tape(*sets, text=talk.SCENARIO):
        return dialogue_tape(load(talk.write(tmp_path, text), sets).variants["base"])

    return tape


def within(found: float, share: float, n: int) -> bool:
    """Four standard deviations of a binomial share."""
    return abs(found - share) <= 4 * np.sqrt(share * (1 - share) / n) + 1e-12


# --- phrases -------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", RATES)
def test_cached_phrases_take_no_steps(rate):
    rng = np.random.default_rng(7)
    cached = (rng.random(200) < rate).astype(np.int64)
    steps = rng.integers(5, 40, 200)
    replies = [[(4, int(a)), (4, int(b))] for a, b in steps.reshape(-1, 2)]
    tape = calls(replies, arrival=5.0 * np.arange(100), unit_cached=cached)
    run = play(stages(0.01, pool(0.02, chunk=5)), tape)
    assert run.pools[1].counters["stream_steps"] == steps[cached == 0].sum()
    # a cached beginning is there with its text, another after five steps or the unit's end
    first = cached[::2] == 1
    assert delay(run)[first] == pytest.approx(np.full(first.sum(), 0.04), abs=1e-9)
    assert delay(run)[~first] == pytest.approx(np.full((~first).sum(), 0.14), abs=1e-9)


def test_the_hit_rate_is_a_share_of_units_and_a_higher_one_only_adds(drawn):
    last = None
    for rate in RATES:
        tape = drawn(f"pipeline.caches.phrases={rate}")
        hits = tape.unit_cached == 1
        assert within(hits.mean(), rate, tape.units)
        saved = tape.unit_tokens[hits].sum() / tape.unit_tokens.sum()
        assert saved == pytest.approx(rate, abs=0.03)
        assert last is None or (hits >= last).all()
        last = hits


# --- past turns ----------------------------------------------------------------------------------


@pytest.mark.parametrize("hit", [0, 500, 900, 999])
def test_tokens_in_the_prefix_cache_are_not_computed(hit):
    """1 ms a token of prefill: the first sound comes so much sooner."""
    tape = calls([[(1, 5)]], prompt=np.array([1000]), hit=np.array([hit]))
    llm = pool(0.0, per_token=0.001, budget=2048)
    run = play(stages(0.0, pool(0.02, chunk=5), llm=(llm,)), tape)
    assert run.pools[0].counters["prefill_tokens"] == 1000 - hit
    assert delay(run) == pytest.approx([0.001 * (1000 - hit) + 0.1], abs=1e-9)


def test_prefill_falls_in_proportion_to_the_hit_rate(drawn):
    def left(rate):
        tape = drawn(f"pipeline.caches.history={rate}", "workload.turns=8")
        return float((tape.prompt - tape.hit).sum()), tape.turns

    none, all_found = left(0.0)[0], left(1.0)[0]
    assert none > 2 * all_found
    for rate in RATES:
        prefill, n = left(rate)
        assert (none - prefill) / (none - all_found) == pytest.approx(rate, abs=4 * 0.6 / n**0.5)


# --- two language models -------------------------------------------------------------------------


def test_a_cascade_by_phase(drawn):
    """The first two turns of a call go to the small model; at the third the large one has none of
    the call's past in its cache, only the system prompt."""
    tape = drawn(
        "pipeline.cascade={small: small, large: llm, first_turns: 2}", "workload.turns=5",
        text=talk.LARGE,
    )  # fmt: skip
    place = np.arange(tape.turns) - np.repeat(tape.first[:-1], np.diff(tape.first))
    llm = tape.llm[tape.answer]
    assert set(llm[place < 2]) == {0} and set(llm[place >= 2]) == {1}
    hit = tape.hit[tape.answer]
    assert (hit[place == 2] == 1200).all()  # of the service preset, whole blocks
    assert (hit[place == 3] == (1200 + 3 * 70) // 16 * 16).all()


def test_each_phase_has_its_models_speed():
    """One call of four turns: 6 tokens at 10 ms, then at 40 ms."""
    n = 4
    tape = calls(
        [[(6, 5)]] * n, arrival=[0.0], first=np.array([0, n]), tenant=np.zeros(1, np.int64),
        llm=np.array([0, 0, 1, 1]),
    )  # fmt: skip
    run = play(stages(0.0, pool(0.02, chunk=5), llm=(pool(0.01), pool(0.04))), tape)
    assert delay(run) == pytest.approx([0.16, 0.16, 0.34, 0.34], abs=1e-9)
    assert [p.counters["stream_steps"] for p in run.pools[:2]] == [12, 12]


# --- pictures ------------------------------------------------------------------------------------


@pytest.mark.parametrize("burst", [0, 1, 3])
def test_a_burst_of_pictures_lengthens_the_step_of_everyone_on_the_card(burst):
    """Somebody is in the middle of a reply of a hundred tokens when others show pictures, each
    0.5 s to encode: his step takes that much longer.  On another card nobody notices."""
    n = 2 + burst
    encode, llm = np.zeros(n), np.zeros(n, np.int64)
    encode[2:], llm[1] = 0.5, 1
    arrival = np.array([0.0, 0.0, *[0.505] * burst])
    tape = calls([[(100, 5)]] * 2 + [[(100, 5)]] * burst, arrival, encode=encode, llm=llm)
    run = play(stages(0.0, pool(0.02, chunk=5), llm=(pool(0.01), pool(0.01))), tape)
    late = delay(run)
    assert late[:2] == pytest.approx([1.1 + 0.5 * burst, 1.1], abs=1e-9)
    assert late[2:] == pytest.approx(np.full(burst, 0.005 + 1.1 + 0.5 * burst), abs=1e-9)


IMAGES = "workload.images={{share: 1, count: 4, limit: {limit}, encode: 0.1s{cache}}}"


@pytest.mark.parametrize("limit", [1, 2, 4, 9])
def test_a_prompt_is_clamped_before_it_queues(drawn, limit):
    """Neither its tokens nor its encoding reach the engine."""
    tape = drawn(IMAGES.format(limit=limit, cache=""))
    plain = drawn()
    shown = min(4, limit)
    assert (tape.prompt - plain.prompt == 1280 * shown).all()
    assert tape.encode == pytest.approx(np.full(tape.answers, 0.1 * shown))


def test_a_picture_takes_ten_megabytes():
    """4096 x 1280 x 2 = 10,485,760 bytes: 1 GB holds 95, not 96."""
    cache = ImageCache(memory=1e9, repeats=1.0, distinct=95)
    assert cache.hit_rate(1280) == 1.0
    assert ImageCache(memory=1e9, repeats=1.0, distinct=96).hit_rate(1280) == 95 / 96
    assert ImageCache(memory=10_485_759, repeats=1.0, distinct=1).hit_rate(1280) == 0.0
    assert ImageCache(memory=1e9, hidden=8192, repeats=0.6, distinct=94).hit_rate(1280) == 0.3


@pytest.mark.parametrize("rate", RATES)
def test_the_hit_rate_shrinks_the_encoders_seconds_in_proportion(drawn, rate):
    """The cache holds all; the tokens of a picture stay in the prompt."""
    cache = f", cache: {{memory: 1TB, repeats: {rate}, distinct: 100}}"
    tape = drawn(IMAGES.format(limit=4, cache=cache))
    shown = 4 * tape.answers
    assert within(tape.encode.sum() / (0.1 * shown), 1 - rate, shown)
    assert np.array_equal(tape.prompt, drawn(IMAGES.format(limit=4, cache="")).prompt)


@pytest.mark.parametrize("hits", [0, 5, 10])
def test_what_is_not_encoded_is_time_of_the_card(hits):
    encode = np.full(10, 0.5)
    encode[:hits] = 0.0
    tape = calls([[(5, 5)]] * 10, 20.0 * np.arange(10), encode=encode)
    run = play(stages(0.01, pool(0.02)), tape)
    busy = run.pools[0].busy["decode"].sum()
    assert busy == pytest.approx(10 * 5 * 0.01 + 0.5 * (10 - hits), abs=1e-9)
    assert (run.answer_i[:, rec.A_OUTCOME] == rec.PLAYED).all()
