"""Parameters come back from data that the form itself made."""

import numpy as np
import pytest

from voicesim.calibrate import calibrate, describe, run_calibrate
from voicesim.calibrate.readers import read_samples
from voicesim.engine.profile import DecodeCost, Profile, Quantity, load_profile

BATCHES = (1, 2, 4, 8, 16, 32, 64)


def make(norm=1, **values) -> Profile:
    parts = {name: Quantity(value=value) for name, value in values.items()}
    return Profile(name="truth", form="fitted", decode=DecodeCost(norm=norm, **parts))


def write_steps(path, truth: Profile, prompts=(16, 64, 256, 1024)) -> None:
    rows = ["stage,batch,context_tokens,prefill_tokens,seconds"]
    for b in BATCHES:
        for context in (50, 200, 800):
            rows.append(f"decode,{b},{context},0,{truth.predict(b, context)!r}")
    for b in (1, 8, 32):
        for p in prompts:
            rows.append(f"prefill,{b},100,{p},{truth.predict(b, 100, p)!r}")
    path.write_text("\n".join(rows) + "\n")


def test_line_is_recovered_exactly(tmp_path):
    values = {
        "memory_s": 7e-3,
        "memory_per_kv_token_s": 4e-8,
        "compute_per_token_s": 6e-5,
        "attention_s": 3e-9,
        "host_per_stream_s": 5e-5,
    }
    write_steps(tmp_path / "s.csv", make(**values))
    profile, _ = calibrate([tmp_path / "s.csv"], "x")
    assert (profile.form, profile.decode.norm) == ("fitted", 1)
    for name, value in values.items():
        assert getattr(profile.decode, name).value == pytest.approx(value, rel=1e-5), name
    assert profile.noise is None
    assert max(abs(h.error) for h in profile.fit.held_out) < 1e-5


@pytest.mark.parametrize("norm", [2, 4, "inf"])
def test_knee_and_norm_are_recovered_where_the_batches_bracket_it(tmp_path, norm):
    values = {
        "memory_s": 6e-3,
        "memory_per_kv_token_s": 2e-8,
        "compute_per_token_s": 4e-4,
        "attention_s": 3e-9,
        "host_s": 1e-3,
        "host_per_stream_s": 3e-5,
    }
    write_steps(tmp_path / "s.csv", make(norm, **values))
    profile, _ = calibrate([tmp_path / "s.csv"], "x")
    assert profile.decode.norm == norm
    for name in ("memory_s", "compute_per_token_s", "host_s", "host_per_stream_s"):
        assert getattr(profile.decode, name).value == pytest.approx(values[name], rel=1e-3), name
    assert not any("knee" in text for text in profile.fit.unidentified)


def test_steeper_prompts_get_their_own_slope(tmp_path):
    truth = make(memory_s=8e-3, compute_per_token_s=5e-5, memory_per_kv_token_s=1e-8)
    steep = {"prefill_per_token_s": Quantity(value=3e-4), "prefill_from_tokens": 64}
    truth = truth.model_copy(update={"decode": truth.decode.model_copy(update=steep)})
    write_steps(tmp_path / "s.csv", truth, prompts=(256, 512, 1024))
    profile, _ = calibrate([tmp_path / "s.csv"], "x")
    assert profile.decode.prefill_from_tokens == 64
    assert profile.decode.prefill_per_token_s.value == pytest.approx(3e-4, rel=1e-4)
    assert profile.decode.compute_per_token_s.value == pytest.approx(5e-5, rel=1e-3)


def test_a_shape_that_no_norm_has_becomes_a_table(tmp_path):
    rows = ["batch,context_tokens,seconds"]
    for b, ms in zip((1, 4, 8, 12, 16, 24, 32, 40), (5, 15, 19, 21, 22, 23, 23.5, 24), strict=True):
        rows.append(f"{b},50,{ms / 1e3}")
    (tmp_path / "s.csv").write_text("\n".join(rows) + "\n")
    profile, _ = calibrate([tmp_path / "s.csv"], "x")
    assert profile.form == "table"
    assert profile.predict(12, 50) == pytest.approx(21e-3)
    assert profile.predict(48, 50) == pytest.approx(24.5e-3)


def test_codec_and_sharing_are_recovered(tmp_path):
    def codec(rows, frames, slow=1.0):
        return slow * (6e-3 + 7e-4 * rows + 5e-5 * frames)

    rows = [
        "stage,batch,context_tokens,frames,seconds",
        "decode,1,50,,0.007",
        "decode,40,50,,0.011",
    ]
    rows += [f"codec,{r},,{f},{codec(r, f)!r}" for r, f in ((1, 24), (2, 48), (4, 40), (8, 192))]
    rows += [f"codec_with_decode,{r},,{f},{codec(r, f, 1.5)!r}" for r, f in ((1, 3), (8, 100))]
    rows.append("decode_with_codec,40,50,,0.0165")
    (tmp_path / "s.csv").write_text("\n".join(rows) + "\n")
    profile, _ = calibrate([tmp_path / "s.csv"], "x")
    assert profile.codec_cost() == pytest.approx([6e-3, 7e-4, 5e-5], rel=1e-5)
    assert profile.sharing.codec_slowdown.value == pytest.approx(1.5, rel=1e-5)
    assert profile.sharing.decode_slowdown.value == pytest.approx(1.5, rel=1e-5)


def test_arrivals_give_back_the_steps(tmp_path):
    """Streams join in a run whose steps are known; tokens reach the client up to 8 ms late."""
    rng = np.random.default_rng(3)
    step = rng.uniform(0.03, 0.05, size=80)
    end = np.cumsum(step)
    first, last = np.array([0, 0, 5, 20, 45]), np.array([60, 79, 79, 50, 70])
    rows = ["run_id,concurrency,stream_id,token_index,t_arrival_s,prompt_tokens"]
    for s, (a, b) in enumerate(zip(first, last, strict=True)):
        late = 0.008 * s / 4
        rows += [f"r,5,{s},{k - a},{end[k] + late:.6f},10" for k in range(a, b + 1)]
    (tmp_path / "t.csv").write_text("\n".join(rows) + "\n")
    samples = read_samples(tmp_path / "t.csv")
    assert samples["seconds"].to_numpy() == pytest.approx(step[1:], abs=2e-6)
    running = [sum(a < k <= b for a, b in zip(first, last, strict=True)) for k in range(1, 80)]
    assert samples["batch"].tolist() == running
    prefill = samples[samples["stage"] == "prefill"]
    assert prefill.index.tolist() == [4, 19, 44]
    assert prefill["prefill_tokens"].tolist() == [10, 10, 10]
    assert samples["context"].iloc[0] == 11


def test_chunked_prompts_fill_the_steps_before_the_first_token(tmp_path):
    rows = ["run_id,stream_id,token_index,t_arrival_s,prompt_tokens,token_budget"]
    rows += [f"r,0,{k},{0.1 * (k + 1):.3f},4,17" for k in range(20)]
    rows += [f"r,1,{k},{0.1 * (k + 11):.3f},40,17" for k in range(8)]
    (tmp_path / "t.csv").write_text("\n".join(rows) + "\n")
    prefill = read_samples(tmp_path / "t.csv").query("prefill_tokens > 0")
    assert prefill["prefill_tokens"].tolist() == [16, 16, 8]
    assert (prefill["pairs"] - prefill["batch"] * prefill["context"]).tolist() == [136, 392, 292]


@pytest.mark.parametrize("rows", [1, 7])
def test_one_batch_cannot_tell_how_the_step_grows_and_says_so(tmp_path, rows):
    text = "batch,context_tokens,seconds\n" + "8,50,0.011\n" * rows
    (tmp_path / "s.csv").write_text(text)
    profile, _ = calibrate([tmp_path / "s.csv"], "x")
    assert profile.predict(64, 50) == pytest.approx(0.011)
    said = "cannot tell how the step grows"
    assert said in profile.notes[0] and "batch 8 only" in profile.fit.unidentified[0]
    second = describe(profile).splitlines()[1]
    assert "WARNING" in second and said in second


def test_two_batches_bring_no_warning(tmp_path):
    (tmp_path / "s.csv").write_text("batch,seconds\n1,0.010\n8,0.011\n")
    profile, _ = calibrate([tmp_path / "s.csv"], "x")
    assert "WARNING" not in describe(profile)


def test_command_writes_profile_and_figure(tmp_path):
    write_steps(tmp_path / "s.csv", make(memory_s=7e-3, compute_per_token_s=6e-5))
    out, png = tmp_path / "out" / "my.model.yaml", tmp_path / "fit.png"
    out.parent.mkdir()
    profile = run_calibrate([tmp_path / "s.csv"], out, None, 0.08, None, png)
    assert load_profile(out) == profile
    assert (profile.name, profile.token_audio_s) == ("my.model", 0.08)
    assert png.read_bytes()[:4] == b"\x89PNG"
    assert [p.name for p in out.parent.iterdir()] == ["my.model.yaml"]
    text = describe(profile)
    assert "memory_s" in text and "held out of the fit" in text and "cannot tell" in text
