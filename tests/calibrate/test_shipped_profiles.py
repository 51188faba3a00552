"""The shipped profiles are what the documented commands make of the shipped measurements."""

import os
import platform
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from steploop import replay
from typer.testing import CliRunner

from voicesim.calibrate.levels import decode_levels, level_rows
from voicesim.calibrate.readers import read_samples
from voicesim.cli import app
from voicesim.engine.profile import Profile, Quantity, load_profile
from voicesim.experiment.accuracy import dropped, page, rows
from voicesim.experiment.published import read_ladder

HERE = Path(__file__).resolve().parents[2] / "calibration"
CPU = HERE / "measured" / "vllm_cpu"


SHIPPED = {"cpu": "vllm-cpu-22m.yaml", "h100": "qwen3-tts-1.7b-h100.yaml"}


PRIORS = ("llama-3.1-8b-h100-prior.yaml", "llama-3.1-8b-l4-prior.yaml")


def documented() -> dict[str, list[str]]:
    """The commands of calibration/README.md, by the file that each writes."""
    lines = (HERE / "README.md").read_text().splitlines()
    found = [shlex.split(line) for line in lines if line.startswith("    voicesim calibrate ")]
    return {Path(words[words.index("-o") + 1]).name: words[1:] for words in found}


def run_documented(file: str, place: Path) -> tuple[Profile, pd.DataFrame, Path]:
    """Run a documented command, word for word, in a folder that holds the measurements only."""
    words = documented()[file]
    (place / "calibration" / "profiles").mkdir(parents=True)
    (place / "calibration" / "measured").symlink_to(HERE / "measured")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, result.output
        measured = [read_samples(word) for word in words if ".csv" in word]
    out = place / "calibration" / "profiles" / file
    return load_profile(out), pd.concat(measured, ignore_index=True), out


@pytest.fixture(scope="module")
def cpu_run(tmp_path_factory):
    return run_documented(SHIPPED["cpu"], tmp_path_factory.mktemp("cpu"))


@pytest.fixture(scope="module")
def h100_run(tmp_path_factory):
    return run_documented(SHIPPED["h100"], tmp_path_factory.mktemp("h100"))


@pytest.fixture
def cpu(cpu_run):
    return cpu_run[:2]


@pytest.fixture
def h100(h100_run):
    return h100_run[:2]


LADDERS = sorted(path.stem for path in (HERE / "measured" / "ladders").iterdir())


def test_each_shipped_profile_has_its_documented_command():
    """Its own, or as the profile of the published ladder of its name."""
    files = {path.name for path in (HERE / "profiles").iterdir()}
    assert set(documented()) == {*SHIPPED.values(), *PRIORS}
    assert files == set(documented()) | {f"{name}.yaml" for name in LADDERS}
    assert "    python benchmarks/accuracy.py --profiles\n" in (HERE / "README.md").read_text()


@pytest.mark.parametrize("name", LADDERS)
def test_a_ladders_profile_carries_the_figures_of_its_file(name):
    """Every figure is there once as fitted, and once as held out if the rule holds its load out:
    a profile of older figures is found without fitting it again."""
    of = read_ladder(HERE / "measured" / "ladders" / f"{name}.csv")
    profile = load_profile(HERE / "profiles" / f"{name}.yaml")
    seen, unseen = [], []
    for p in profile.fit.points:
        (unseen if p.held_out else seen).append((p.run or "", p.load, p.metric, p.stat, p.measured))
        assert p.error == pytest.approx(p.predicted / p.measured - 1, abs=2e-4)
    figures = [(f.run, f.level, f.metric, f.stat, f.value) for f in of.figures]
    assert seen == figures
    assert unseen == [f for f in figures if f[1] in of.held_out]
    assert bool(unseen) == (len(of.levels) >= 4)
    assert profile.played == of.played
    assert profile.name == name and profile.sources[0].rows == len(figures)


@pytest.mark.parametrize("name", ["higgs-v3-4b-h100-sglang", "fish-s2-pro-h20-sglang-pr3323"])
def test_a_ladders_command_gives_the_shipped_file_byte_for_byte(name, tmp_path):
    """Two quick ones here; ``python benchmarks/accuracy.py`` compares all of them."""
    measured = HERE / "measured" / "ladders" / f"{name}.csv"
    made = tmp_path / f"{name}.yaml"
    result = CliRunner().invoke(app, ["calibrate", str(measured), "-o", str(made)])
    assert result.exit_code == 0, result.output
    assert made.read_bytes() == (HERE / "profiles" / f"{name}.yaml").read_bytes()
    assert "held out" in result.output


def test_the_page_says_what_the_profiles_say():
    """docs/concepts/accuracy.md is what the shipped profiles give, word for word."""
    found = []
    for name in LADDERS:
        of = read_ladder(HERE / "measured" / "ladders" / f"{name}.csv")
        found += rows(of, load_profile(HERE / "profiles" / f"{name}.yaml"))
    text = page(found, dropped(HERE / "measured" / "ladders_not_taken.csv"))
    assert text == (HERE.parent / "docs" / "concepts" / "accuracy.md").read_text()
    assert "not explained" not in text


@pytest.mark.parametrize("file", PRIORS)
def test_a_priors_command_gives_the_shipped_file_and_says_what_it_is(file, tmp_path):
    made = tmp_path / file
    words = documented()[file]
    result = CliRunner().invoke(app, [*words[: words.index("-o")], "-o", str(made)])
    assert result.exit_code == 0, result.output
    assert made.read_bytes() == (HERE / "profiles" / file).read_bytes()
    profile = load_profile(made)
    assert profile.form == "roofline" and "nothing here was measured" in profile.notes[0]
    assert profile.decode.memory_s.origin == "prior"


@pytest.mark.parametrize("name", ["cpu", "h100"])
def test_documented_command_gives_the_shipped_file_byte_for_byte(name, request):
    """Elsewhere the last bits of a number differ; the numbers are compared below all the same."""
    _, _, out = request.getfixturevalue(f"{name}_run")
    made, shipped = out.read_bytes(), (HERE / "profiles" / SHIPPED[name]).read_bytes()
    if made != shipped and not same_arithmetic():
        pytest.skip("another processor's linear algebra: last bits differ")
    assert made == shipped


def same_arithmetic() -> bool:
    """Whether linear algebra takes the same paths as where the profiles were fitted: x86-64 with
    AVX2, where AVX-512 is not to be had or OpenBLAS is told to leave it alone."""
    simd = np.show_config(mode="dicts")["SIMD Extensions"]
    known = {*simd.get("baseline", []), *simd.get("found", [])}
    if platform.machine() not in ("x86_64", "AMD64") or not {"AVX2", "X86_V3"} & known:
        return False
    wider = any(name.startswith("AVX512") or name == "X86_V4" for name in known)
    return not wider or os.environ.get("OPENBLAS_CORETYPE") == "Haswell"


def numbers(profile: Profile) -> dict[str, float]:
    parts = [profile.decode, profile.codec, profile.sharing, profile.memory]
    found = {}
    for part in parts:
        for name in type(part).model_fields if part is not None else ():
            value = getattr(part, name)
            if isinstance(value, Quantity):
                found[name] = value.value
    return found


@pytest.mark.parametrize("name", ["cpu", "h100"])
def test_refitting_reproduces_the_shipped_profile(name, request):
    profile, _ = request.getfixturevalue(name)
    shipped = load_profile(HERE / "profiles" / SHIPPED[name])
    assert profile.name == shipped.name
    assert numbers(profile) == pytest.approx(numbers(shipped), rel=1e-6, abs=1e-15)
    assert (profile.form, profile.decode.norm) == (shipped.form, shipped.decode.norm)
    assert profile.notes == shipped.notes
    if profile.noise:
        assert profile.noise.quantiles == pytest.approx(shipped.noise.quantiles, rel=1e-5)


def test_cpu_measured_points_lie_within_the_noise(cpu):
    """A level's median step is inside the 5-95 % band of one run's steps around the prediction."""
    profile, samples = cpu
    low, high = profile.noise.quantiles[5], profile.noise.quantiles[95]
    for batch in decode_levels(samples):
        rows = level_rows(samples, batch)
        predicted = np.median([profile.predict(batch, c) for c in rows["context"]])
        assert low < rows["seconds"].median() / predicted < high, batch


def test_cpu_data_cannot_place_the_knee_and_say_so(cpu):
    profile, _ = cpu
    assert any(text.startswith("knee") for text in profile.fit.unidentified)
    assert np.mean([abs(h.error) for h in profile.fit.held_out]) < 0.10


def test_cpu_prefill_costs_about_a_millisecond_per_token(cpu):
    """Read off the joins by hand: 1.03 ms per token of a 1024-token prompt."""
    profile, _ = cpu
    per_token = (profile.predict(8, 100, 1024) - profile.predict(8, 100)) / 1024
    assert per_token == pytest.approx(1.03e-3, rel=0.05)


def test_cpu_profile_predicts_the_held_out_poisson_run(cpu):
    """Median gap between tokens over 49 sessions that no fit has seen, within 10 %."""
    profile, _ = cpu
    tokens = pd.read_csv(CPU / "poisson1.csv.gz").sort_values(["stream_id", "token_index"])
    measured = tokens.groupby("stream_id")["t_arrival_s"].diff().median()
    sessions = pd.read_csv(CPU / "poisson1_sessions.csv")
    send, n = sessions["t_send_s"].to_numpy(), sessions["n_tokens"].to_numpy()
    predicted = [np.median(replay(profile, send, n, 32, seed)[0]) for seed in (None, 1, 2, 3)]
    assert np.array(predicted) / measured - 1 == pytest.approx(0, abs=0.10)


def test_h100_meets_its_anchors(h100):
    """Decode exactly, codec within 7 %; prompts are outside what the form can tell."""
    profile, _ = h100
    for anchor in profile.fit.anchors:
        limit = 0.23 if "prefill" in anchor.level else (0.07 if "codec," in anchor.level else 0.05)
        limit = 1e-6 if anchor.level.startswith("decode, ") else limit
        assert abs(anchor.error) < limit + 1e-3, anchor
    assert profile.sharing.decode_slowdown.value == pytest.approx(1.67, abs=0.01)
    assert profile.token_audio_s == 0.08
    assert profile.memory.kv_bytes_per_token.value == 114688
    assert profile.predict(128, 49) == pytest.approx(20.2e-3, rel=0.01)
    assert any("above batch 48" in note for note in profile.notes)
