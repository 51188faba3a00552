"""A known card is recovered from the chunks that its clients saw."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from chunkworld import FRAME, play, truth, write_csv
from typer.testing import CliRunner

from voicesim.calibrate import CalibrationError, calibrate
from voicesim.calibrate.chunks import learn, snippet, statement
from voicesim.calibrate.chunks.demand import demand_of
from voicesim.calibrate.chunks.load import decoding_at, mean_between
from voicesim.calibrate.chunks.schedule import find_cadence, frames_of
from voicesim.cli import app
from voicesim.engine.profile import load_profile
from voicesim.experiment.ladder import climb
from voicesim.experiment.rung import Load
from voicesim.scenario.loader import load

TRUTH = truth(memory_per_kv_token_s=2e-8)
SCHEDULE = (4, 8, 16, 25)
LEVELS = (1, 2, 4, 8, 16, 32)


def world(levels=LEVELS, schedule=SCHEDULE, rate=None, card=TRUTH, **listener) -> pd.DataFrame:
    """Closed loops at some levels and, with a rate, a run of Poisson arrivals."""
    machine = Load(card, chunks=schedule)
    parts = [play(machine, f"c{c}", callers=c, replies=max(60, 8 * c), **listener) for c in levels]
    if rate is not None:
        parts.append(play(machine, "poisson", rate=rate, replies=300, **listener))
    return pd.concat(parts, ignore_index=True)


@pytest.fixture(scope="module")
def chunks():
    return world(rate=3.0, delay=0.02, gather=0.003)


@pytest.fixture(scope="module")
def learned(chunks):
    return learn(chunks, FRAME, "chunks.csv")


@pytest.fixture(scope="module")
def calibrated(chunks, tmp_path_factory):
    """Through the file and the command: (output, profile)."""
    place = tmp_path_factory.mktemp("chunks")
    write_csv(chunks, place / "chunks.csv")
    words = ["calibrate", str(place / "chunks.csv"), "-o", str(place / "p.yaml")]
    result = CliRunner().invoke(app, [*words, "--token-audio", "80ms"])
    assert result.exit_code == 0, result.output
    return result.output, load_profile(place / "p.yaml")


def inside(quantity, value: float, slack: float) -> bool:
    """In the number's own interval, give or take ``slack`` of the value."""
    return quantity.low * (1 - slack) <= value <= quantity.high * (1 + slack)


def test_schedule_is_found_exactly(learned):
    assert learned.cadence.sizes == SCHEDULE
    assert learned.cadence.follow == 1.0
    assert learned.cadence.low > 0.99


def test_schedule_is_the_most_usual_one_and_says_how_many_keep_to_it():
    sizes = [[4, 8, 25, 25, 3]] * 3 + [[4, 8, 8, 25, 25]]
    rows = [("r", str(i), k, n * FRAME) for i, each in enumerate(sizes) for k, n in enumerate(each)]
    table = pd.DataFrame(rows, columns=["run", "request", "chunk", "audio_s"])
    table["frames"] = frames_of(table, FRAME, "x")
    found = find_cadence(table)
    assert (found.sizes, found.follow) == ((4, 8, 25), 0.75)
    assert found.low < 0.75 < found.high


def test_a_wrong_frame_duration_is_refused(chunks):
    with pytest.raises(CalibrationError, match=r"hold 2 s, which is 16.67 frames of 120 ms"):
        learn(chunks, 0.12, "chunks.csv")


def test_codec_batches_and_window_are_recovered(learned):
    """Without jitter a batch is known to the clock: only the streams' own numbers are left."""
    codec = learned.codec
    for name, value in (("floor_s", 6e-3), ("per_row_s", 5e-4), ("per_frame_s", 3e-4)):
        assert getattr(codec, name).value == pytest.approx(value, rel=1e-4), name
    assert learned.batches.window.value == pytest.approx(3e-3, rel=1e-3)
    assert len(learned.batches.rows) == 8  # the cap of the card's batches


def test_rows_of_a_batch_are_those_of_the_codec(chunks, learned):
    true = chunks["rows"].value_counts(normalize=True).sort_index().to_numpy()
    assert learned.batches.rows == pytest.approx(true, abs=0.005)


def test_prompts_and_delay_are_recovered(learned):
    assert inside(learned.prefill, 1.2e-4 + 2e-8, slack=0.005)
    assert learned.delay.value == pytest.approx(0.02, rel=0.02)
    assert learned.jitter.value < 1e-4


def test_steps_are_recovered(calibrated):
    """Within 2 %: gaps are exact sums of steps, and what is uncertain is which of them a prompt
    or a leaving stream fell into, a step or two in the 25 of a chunk, without a preferred side."""
    _, profile = calibrated
    for batch in LEVELS:
        for context in (100, 300):
            true = TRUTH.predict(batch, context)
            assert profile.predict(batch, context) == pytest.approx(true, rel=0.02)
            more = TRUTH.predict(batch, context, 300) - true
            longer = profile.predict(batch, context, 300) - profile.predict(batch, context)
            assert longer == pytest.approx(more, rel=0.03)
    assert profile.noise is None
    assert any("step noise" in text for text in profile.fit.unidentified)


def test_ladder_of_the_recovered_profile_has_the_same_ceiling(calibrated):
    """Ceilings of a seed hang on single chunks, so one caller of about 40 is within them."""
    _, profile = calibrated
    true, found = (climb(Load(p), (16, 32, 64), seeds=2) for p in (TRUTH, profile))
    assert np.array(found.ceilings) == pytest.approx(np.array(true.ceilings), abs=1)


def test_statement_and_snippet_can_be_copied_into_a_scenario(calibrated, tmp_path):
    output, _ = calibrated
    assert "chunk schedule (frames): 4, 8, 16, 25" in output
    text = output[output.index("# cluster.pools.NAME") :]
    assert "chunk: {first: 4, ramp: [8, 16], steady: 25}" in text
    assert "batch: {cap: 8, window: 3ms}" in text
    assert "kind: poisson, rate: " in text
    lines = text.splitlines()
    chunk, batch = (next(x for x in lines if x.startswith(f"  {k}:")) for k in ("chunk", "batch"))
    network, arrivals = (next(x for x in lines if f"  {k}:" in x) for k in ("network", "arrivals"))
    (tmp_path / "s.yaml").write_text(
        "horizon: 60s\nworkload:\n  kind: tts\n"
        f"{arrivals}\n  utterance: {{audio: 3s, prompt_tokens: 40}}\n"
        "cluster:\n  gpus: {card: {preset: h100-sxm}}\n  pools:\n    tts:\n      on: card\n"
        "      engine: {kind: vllm_v1, profile: p.yaml, kv_blocks: 2000}\n"
        f"      codec:\n      {chunk}\n      {batch}\nlistener:\n{network}\n"
    )
    (tmp_path / "p.yaml").write_text("x: 1\n")
    scenario = load(tmp_path / "s.yaml").variants["base"]
    assert scenario.cluster.pool.chunks.ramp == [8, 16]
    assert scenario.listener.network.delay == pytest.approx(0.02, rel=0.03)


def test_with_jitter_the_network_and_the_frames_are_told_but_not_the_floor():
    """Jitter of a batch's own length hides the batches; the ramp of a lone caller remains."""
    found = learn(world((1, 4), delay=0.02, jitter=0.004), FRAME, "x")
    assert found.batches is None or found.batches.cost is None
    assert inside(found.codec.per_frame_s, 3e-4, slack=0.0)
    assert found.codec.floor_s.origin == "assumed"
    assert any(text.startswith("codec floor_s") for text in found.cannot)
    assert inside(found.jitter, 0.004, slack=0.0)
    # The codec's floor and row cannot be told from the network.
    assert inside(found.delay, 0.02 + 6.5e-3, slack=0.03)


def test_one_chunk_size_and_one_caller_leave_the_codec_unknown():
    found = learn(world((1,), schedule=(10,)), FRAME, "x")
    assert found.codec is None
    assert any(text.startswith("codec: every chunk has one size") for text in found.cannot)
    assert "codec floor" not in statement(found)


def test_one_level_leaves_growth_unknown(tmp_path):
    write_csv(world((8,)), tmp_path / "c.csv")
    profile, samples = calibrate([tmp_path / "c.csv"], "x", FRAME)
    assert samples["batch"].nunique() == 1
    assert profile.decode.compute_per_token_s.origin == "assumed"
    assert any("growth with the batch" in text for text in profile.fit.unidentified)


def test_levels_in_files_of_their_own_are_learned_together(chunks, tmp_path):
    files = []
    for run in ("c1", "c4", "c16"):
        files.append(tmp_path / f"{run}.csv")
        write_csv(chunks[chunks["run"] == run], files[-1])
    profile, _ = calibrate(files, "x", FRAME)
    assert profile.range.batch[0] == 1
    assert profile.range.batch[1] > 12
    assert [s.file for s in profile.sources] == ["c1.csv", "c4.csv", "c16.csv"]
    assert profile.predict(4, 200) == pytest.approx(TRUTH.predict(4, 200), rel=0.02)


def test_without_send_times_there_is_no_delay_and_it_says_so(chunks, tmp_path):
    write_csv(chunks[chunks["run"].isin(["c1", "c8"])], tmp_path / "c.csv", "t_sent_s")
    profile, _ = calibrate([tmp_path / "c.csv"], "x", FRAME)
    assert any("network delay: no request has its time" in t for t in profile.fit.unidentified)
    assert profile.predict(1, 200) == pytest.approx(TRUTH.predict(1, 200), rel=0.02)


def test_streams_on_clocks_of_their_own_need_their_concurrency(chunks):
    """As a benchmark that writes each request's own timeline: level by level."""
    own = chunks[chunks["run"].isin(["c1", "c8"])].copy()
    own["t_s"] -= own["sent_s"]
    own["sent_s"] = 0.0
    found = learn(own.assign(concurrency=np.nan), FRAME, "x")
    assert found.steps is None
    assert any("side by side" in text for text in found.cannot)
    found = learn(own.assign(concurrency=own["run"].str[1:].astype(float)), FRAME, "x")
    assert sorted(found.steps["batch"].unique()) == [1, 8]
    assert not found.demands


def test_a_sample_of_the_streams_is_scaled_to_the_concurrency_that_it_states(chunks):
    """Every second stream of a run with 8 in flight still decodes in a batch of about 8."""
    eight = chunks[chunks["run"] == "c8"]
    some = eight[eight["request"].astype(int) % 2 == 0].assign(concurrency=8.0)
    whole, half = learn(eight, FRAME, "x").steps, learn(some, FRAME, "x").steps
    assert half["tokens"].mean() == pytest.approx(whole["tokens"].mean(), rel=0.1)


def test_a_file_without_frame_duration_asks_for_it(chunks, tmp_path):
    write_csv(chunks[chunks["run"] == "c1"], tmp_path / "c.csv")
    with pytest.raises(CalibrationError, match="--token-audio 80ms"):
        calibrate([tmp_path / "c.csv"], "x")


def test_a_saturated_codec_is_not_taken_for_decoding():
    """24 callers on a codec of 1.5 ms a frame: what the gaps show is the codec's pace."""
    slow = truth(codec=(6e-3, 5e-4, 1.5e-3))
    found = learn(world((1, 24), card=slow), FRAME, "x")
    assert any(text.startswith("steps of c24: the codec is busy") for text in found.cannot)
    assert found.steps["batch"].max() == 1


def test_a_card_without_codec_gives_its_steps_exactly():
    """A lone caller and no codec: a gap is n steps, and nothing else."""
    bare = truth(codec=None)
    found = learn(world((1,), card=bare), FRAME, "x")
    assert found.steps["seconds"].to_numpy() == pytest.approx(7.12e-3, rel=1e-9)
    assert found.codec.per_frame_s.value == pytest.approx(0.0, abs=1e-9)


def test_mean_between_and_decoding_at_by_hand():
    """Two streams, 0 to 4 and 2 to 3: over 1 to 3 there are (2 + 1) / 2 of them."""
    begin, end = np.array([0.0, 2.0]), np.array([4.0, 3.0])
    assert mean_between(begin, end, np.array([1.0]), np.array([3.0])) == pytest.approx([1.5])
    assert decoding_at(begin, end, np.array([1.0, 2.5, 3.5, 5.0])).tolist() == [1, 2, 1, 0]


def test_demand_tells_closed_open_even_and_bunched():
    rng = np.random.default_rng(1)
    work = rng.lognormal(0, 0.5, 400)
    sent, end = np.zeros(400), np.zeros(400)
    free = np.zeros(5)
    for i in range(400):
        k = int(free.argmin())
        sent[i], end[i] = free[k], free[k] + work[i]
        free[k] = end[i]
    closed = demand_of("r", sent, end)
    assert (closed.kind, closed.callers) == ("closed", 5)
    times = np.cumsum(rng.exponential(0.2, 2000))
    poisson = demand_of("r", times, times + rng.lognormal(0, 0.5, 2000))
    assert poisson.kind == "open"
    assert poisson.rate.low < 5.0 < poisson.rate.high
    assert poisson.dispersion.low < 1.0 < poisson.dispersion.high
    even = demand_of("r", np.arange(400) * 0.2, np.arange(400) * 0.2 + 1.0)
    assert even.kind == "open"
    assert even.dispersion.high < 0.1
    hours = np.repeat(rng.gamma(0.5, 2.0, 100), 20) * 5  # rates that hold for 20 windows
    bunched = np.sort(np.concatenate([t + rng.random(n) for t, n in enumerate(rng.poisson(hours))]))
    assert demand_of("r", bunched, bunched + 1.0).dispersion.low > 2


def test_snippet_leaves_out_what_is_not_known(learned):
    bare = replace(learned, batches=None, overhead=None, jitter=None, demands=[])
    assert snippet(bare).splitlines()[1:] == [
        "codec:",
        "  chunk: {first: 4, ramp: [8, 16], steady: 25}",
    ]
