"""The catalogue agrees with itself, with public configurations, and with the rooflines made of it.

Qwen3-TTS-1.7B: 28 layers, 8 KV heads of 128 (its config.json): 2 x 28 x 8 x 128 x 2 bytes =
114,688 per token.  Step of 80 ms: 1920 samples of 24 kHz.
"""

import csv
from importlib.resources import files
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from voicesim.calibrate.prior import read_prior, roofline
from voicesim.catalogue import GPUS, MODELS, WITH_MEMORY, find_gpu, find_model
from voicesim.cli import app
from voicesim.engine.profile import load_profile
from voicesim.scenario.editor import json_schema


def invoke(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_every_row_says_how_sure_it_is_and_where_from():
    for item in (*GPUS.values(), *MODELS.values()):
        assert item.confidence, item.name
        assert (
            item.source.startswith("https://") or "memory" in item.confidence or item.name == "cpu"
        )
        assert item.name == item.name.lower()


def test_samples_and_steps_give_the_same_audio():
    """Samples per step over the sample rate is one over steps per second."""
    rows = csv.DictReader(
        files("voicesim.catalogue").joinpath("models.csv").read_text().splitlines()
    )
    both = [r for r in rows if r["samples_per_step"]]
    assert len(both) >= 6
    for r in both:
        audio = float(r["samples_per_step"]) / float(r["sample_rate_hz"])
        assert MODELS[r["name"]].token_audio_s == pytest.approx(audio), r["name"]


def test_known_figures():
    qwen, h100 = MODELS["qwen3-tts-1.7b"], GPUS["h100-sxm"]
    assert (qwen.kv_bytes_per_token, qwen.weights_bytes) == (114_688, 3_400_000_000)
    assert qwen.token_audio_s == 0.08
    assert MODELS["cosyvoice2-0.5b"].kv_bytes_per_token == 12_288
    assert MODELS["orpheus-3b"].token_audio_s == pytest.approx(2048 / 24_000 / 7)
    assert (h100.memory_bytes, h100.bytes_per_s, h100.bf16) == (80 * 10**9, 3.35e12, 989e12)
    for name in ("a100-80gb", "a100-40gb", "rtx-3090", "t4"):
        assert GPUS[name].fp8 is None  # cards before Ada and Hopper
    for gpu in GPUS.values():
        assert gpu.fp8 is None or gpu.fp8 == pytest.approx(2 * gpu.bf16, rel=0.03)


def test_one_source_for_scenarios_and_calibration():
    text = str(json_schema())
    assert all(f"'{name}'" in text for name in (*GPUS, *WITH_MEMORY))


def test_names_are_found_in_any_case_and_missed_in_one_line():
    assert find_gpu("H100") is GPUS["h100-sxm"]
    assert find_gpu("RTX 4090") is GPUS["rtx-4090"]
    assert find_model("Qwen3-TTS-1.7B") is MODELS["qwen3-tts-1.7b"]
    with pytest.raises(ValueError, match="did you mean 'h100-sxm'") as error:
        find_gpu("h100-sx")
    assert "\n" not in str(error.value)


def test_roofline_by_hand(tmp_path):
    """1.7e9 parameters of 2 bytes on 3.35 TB/s and 989 TFLOPS."""
    out = tmp_path / "p.yaml"
    result = invoke("calibrate", "--prior", "gpu=H100,model=qwen3-tts-1.7b", "-o", out)
    assert result.exit_code == 0, result.output
    assert "WARNING: nothing here was measured" in result.output
    profile = load_profile(out)
    decode = profile.decode
    assert profile.form == "roofline" and profile.range is None
    assert decode.memory_s.value == pytest.approx(3.4e9 / (0.8 * 3.35e12))
    assert decode.memory_per_kv_token_s.value == pytest.approx(114_688 / (0.8 * 3.35e12))
    assert decode.compute_per_token_s.value == pytest.approx(2 * 1.7e9 / (0.5 * 989e12))
    assert decode.compute_per_token_s.low == pytest.approx(2 * 1.7e9 / (0.6 * 989e12))
    origins = {getattr(decode, n).origin for n in ("memory_s", "compute_per_token_s")}
    assert origins == {"prior"}
    assert profile.predict(1, 0) == decode.memory_s.value  # bound by memory
    assert profile.predict(1000, 0) == pytest.approx(1000 * decode.compute_per_token_s.value)
    assert profile.memory.weight_bytes.origin == "prior"


def test_of_a_mixture_of_experts_a_token_is_priced_by_its_active_parameters(tmp_path):
    """30e9 parameters of 2 bytes in memory, 3e9 of them active: 10 times less compute a token."""
    out = tmp_path / "p.yaml"
    result = invoke("calibrate", "--prior", "gpu=H100,model=qwen3-omni-30b-a3b", "-o", out)
    assert result.exit_code == 0, result.output
    decode = load_profile(out).decode
    assert decode.compute_per_token_s.value == pytest.approx(2 * 3e9 / (0.5 * 989e12))
    assert decode.memory_s.value == pytest.approx(60e9 / (0.8 * 3.35e12))
    assert find_model("qwen3-omni-30b-a3b").weights_bytes == 60e9
    assert "compute counts the 3 of 30 billion parameters that are active" in result.output
    assert "30B (3B active)" in invoke("profiles").output
    dense = find_model("orpheus-3b")
    assert dense.active_parameters == dense.parameters
    assert len(read_prior("model=orpheus-3b").notes) == 1


def test_a_roofline_for_every_pair_or_a_reason():
    for gpu in GPUS.values():
        for model in MODELS.values():
            prior = read_prior(f"model={model.name},gpu={gpu.name}")
            if gpu.bytes_per_s and model.parameters:
                assert roofline(prior, "x").predict(1, 10) > 0
            else:
                with pytest.raises(ValueError, match=r"not published|no bandwidth"):
                    roofline(prior, "x")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "nothing to read"),
        (("--prior", "gpu=H100"), "model=NAME is missing"),
        (("--prior", "gpu=H10,model=orpheus-3b"), "--prior: gpu: found 'H10'; did you mean"),
        (("--prior", "model=orpheus-3b"), "gpu=NAME is missing"),
        (("--prior", "gpu=H100,model=orpheus-3b,tp=2"), "allowed: gpu=NAME,model=NAME"),
        (("--prior", "gpu=cpu,model=orpheus-3b"), "'cpu' has no bandwidth"),
        (("--prior", "gpu=l4,model=moss-tts-v1.5"), "'moss-tts-v1.5' is not published"),
    ],
)
def test_bad_priors_are_one_line_and_write_nothing(tmp_path, words, said):
    result = invoke("calibrate", *words, "-o", tmp_path / "p.yaml")
    assert result.exit_code == 2
    assert said in result.output and result.output.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_what_one_batch_cannot_tell_stays_at_the_prior(tmp_path):
    """Steps at batch 8 only: the growth with the batch is the data sheets', and marked so."""
    steps = tmp_path / "steps.csv"
    steps.write_text("batch,seconds,context_tokens\n" + "8,0.010,100\n" * 5)
    out = tmp_path / "p.yaml"
    prior = "gpu=h100-sxm,model=qwen3-tts-1.7b"
    result = invoke("calibrate", steps, "--prior", prior, "-o", out)
    assert result.exit_code == 0, result.output
    assert "what a stream adds is the data sheets', a prior" in result.output
    decode = load_profile(out).decode
    assert decode.compute_per_token_s.origin == "prior"
    assert decode.compute_per_token_s.value == pytest.approx(2 * 1.7e9 / (0.5 * 989e12))
    assert decode.memory_s.origin == "fitted"
    assert load_profile(out).predict(8, 100) == pytest.approx(0.010)


def test_profiles_lists_what_ships():
    result = invoke("profiles")
    assert result.exit_code == 0
    for name in ("qwen3-tts-1.7b-h100", "voxcpm2-rtx4090-nanovllm", "h200-sxm", "orpheus-3b"):
        assert name in result.output


def test_every_shipped_profile_says_what_it_is_of():
    from voicesim.report.profiles import folder

    files = list(folder().glob("*.yaml"))
    assert len(files) > 20
    for file in files:
        about = yaml.safe_load(file.read_text())["about"]
        assert about["model"] in MODELS, file
        assert about["gpu"] is None or about["gpu"] in GPUS, file


def test_a_profile_that_ships_is_named_from_anywhere(tmp_path, monkeypatch):
    """As shipped:NAME in a scenario; by its bare name on the command line, where no file is."""
    from voicesim.catalogue.profiles import folder, profile_file, shipped_profile

    name = "qwen3-tts-1.7b-h100"
    monkeypatch.chdir(tmp_path)
    assert shipped_profile(f"shipped:{name}") == shipped_profile(name) == folder() / f"{name}.yaml"
    assert profile_file(Path(name)) == folder() / f"{name}.yaml"
    Path(name).write_text("mine")
    assert profile_file(Path(name)) == Path(name)
    with pytest.raises(KeyError, match=r"did you mean 'shipped:qwen3-tts-1\.7b-h100'"):
        shipped_profile("qwen3-tts-1.7b-h10")
