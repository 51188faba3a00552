"""Profiles: what a file may hold, and the step cost that comes out of it."""

import pickle
from pathlib import Path

import numpy as np
import pytest
import yaml

from voicesim.engine import cost
from voicesim.engine.profile import (
    CodecCost,
    DecodeCost,
    Noise,
    Profile,
    ProfileError,
    Quantity,
    dump_profile,
    load_profile,
    save_profile,
)


def q(value: float) -> Quantity:
    return Quantity(value=value, origin="measured")


def fitted(**decode) -> Profile:
    values = {
        "memory_s": q(5e-3),
        "memory_per_kv_token_s": q(1e-7),
        "compute_per_token_s": q(2e-4),
        "attention_s": q(1e-8),
        "host_s": q(1e-3),
        "host_per_stream_s": q(1e-4),
    }
    return Profile(name="t", form="fitted", decode=DecodeCost(**{**values, **decode}))


def table_profile(points) -> Profile:
    return Profile(name="t", form="table", decode=DecodeCost(table=points))


def test_round_trip(tmp_path):
    profile = fitted(norm="inf", capture_sizes=[1, 2, 4])
    save_profile(profile, tmp_path / "p.yaml")
    assert load_profile(tmp_path / "p.yaml") == profile


@pytest.mark.parametrize(
    ("change", "key", "allowed"),
    [
        (lambda d: d["decode"].update(memory={}), "decode.memory", "did you mean 'memory_s'"),
        (lambda d: d["decode"].update(norm=3), "decode.norm", "1, 2, 4, 8, inf"),
        (lambda d: d.update(schema="voicesim-profile/9"), "schema", "voicesim-profile/1"),
        (lambda d: d["decode"]["memory_s"].update(value=".nan"), "decode.memory_s.value", "number"),
        (lambda d: d.update(form="table"), "", "form: table"),
        (lambda d: d.update(played={"load": "open"}), "played.load", "closed, burst, poisson"),
        (lambda d: d.update(played={"load": "burst", "chunks": [0]}), "played", "from 1 on"),
        (lambda d: d.pop("name"), "name", "needed: text"),
        (lambda d: d.update(nam=d.pop("name")), "nam", "did you mean 'name'"),
        (lambda d: d.update(form="fited"), "form", "did you mean 'fitted'"),
        (lambda d: d.update(token_audio_s=0), "token_audio_s", "a finite number above 0 or null"),
        (lambda d: d.update(decode=3), "decode", "a mapping with the keys norm, memory_s"),
        (lambda d: d["decode"].update(memory_s={}), "decode.memory_s.value", "needed: a finite"),
        (lambda d: d["decode"].update(capture_sizes=[1.5]), "decode.capture_sizes.0", "whole"),
        (lambda d: d["decode"].update(table=[[1, "x"]]), "decode.table.0.1", "finite number"),
        (lambda d: d["decode"].update(table=[[1, 2, 3]]), "decode.table.0", "list of 2 numbers"),
        (lambda d: d.update(noise={"quantiles": [1]}), "noise.quantiles", "with 101 entries"),
        (lambda d: d.pop("schema"), "schema", "begins with `schema: voicesim-profile/1`"),
    ],
)
def test_bad_file_names_file_key_and_what_is_allowed(tmp_path, change, key, allowed):
    data = yaml.safe_load(dump_profile(fitted()))
    change(data)
    path = tmp_path / "bad.yaml"
    path.write_text(yaml.safe_dump(data))
    with pytest.raises(ProfileError) as error:
        load_profile(path)
    assert error.value.file == str(path)
    assert error.value.key == key
    assert allowed in error.value.allowed
    assert_plain(error.value)


def assert_plain(error: ProfileError) -> None:
    """One line in plain words that survives the way back from a worker."""
    text = str(error)
    assert "\n" not in text
    for jargon in ("Field required", "Input should", "Value error", "Traceback", "<stream end>"):
        assert jargon not in text
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), vars(again)) == (text, vars(error))


BEGINS = "a profile begins with `schema: voicesim-profile/1`"
SCENARIO = Path(__file__).resolve().parents[2] / "scenarios" / "holiday_peak.yaml"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (bytes(range(256)), f"p.yaml: is not text (a binary or packed file?); {BEGINS}"),
        (b"\x1f\x8b\x08\x00", "p.yaml: is not text"),
        (b"schema: x\nname: \x00\n", "p.yaml:2: holds characters that are not text"),
        (b"", f"p.yaml: is empty; {BEGINS}"),
        (b"# nothing\n", f"p.yaml: is empty; {BEGINS}"),
        (b"batch,seconds\n1,0.01\n", f"p.yaml: holds plain text; {BEGINS}"),
        (b"- 1\n- 2\n", f"p.yaml: holds a list; {BEGINS}"),
        (SCENARIO.read_bytes(), "p.yaml: looks like a scenario (its keys: title, "),
        (SCENARIO.read_bytes(), BEGINS),
        (b"a: 1\n", f"p.yaml: is no profile (its keys: a); {BEGINS}"),
        (b"a: 1\nb: {value: 2, low\n", "p.yaml:2: ends in the middle of a value"),
        (b'a: 1\nb: "two\n', "p.yaml:2: ends in the middle of a value"),
        (b"a: 1\n\tb: 2\nc: 3\n", "p.yaml:2: is not valid YAML: found character"),
        (b"a: 1\nb: c: d\n", "p.yaml:2: is not valid YAML: mapping values"),
        (b"a: 1\n---\nb: 2\n", "expected a single document"),
        (b"a: 2024-13-45\n", "is not valid YAML: month"),
        (b"[" * 3000, "is not valid YAML"),
    ],
)
def test_a_wrong_file_is_named_in_plain_words(tmp_path, content, said):
    path = tmp_path / "p.yaml"
    path.write_bytes(content)
    with pytest.raises(ProfileError) as error:
        load_profile(path)
    assert said in str(error.value)
    assert_plain(error.value)


def test_a_profile_cut_anywhere_is_loaded_or_refused_plainly(tmp_path):
    text, path = dump_profile(fitted()), tmp_path / "p.yaml"
    refused = 0
    for end in range(0, len(text), 7):
        path.write_text(text[:end])
        try:
            load_profile(path)
        except ProfileError as error:
            assert_plain(error)
            refused += 1
    assert refused > 40


def test_missing_file_is_a_profile_error(tmp_path):
    with pytest.raises(ProfileError, match=r"none\.yaml"):
        load_profile(tmp_path / "none.yaml")


def test_a_folder_is_a_profile_error(tmp_path):
    with pytest.raises(ProfileError, match="is a folder, not a file; a profile begins") as error:
        load_profile(tmp_path)
    assert_plain(error.value)


def test_prediction_is_the_kernels_arithmetic():
    profile = fitted(norm=4)
    step = profile.step_cost(64)
    gpu = cost.gpu_seconds(step.params, step.compute_s[40], 8 * 100 + 32, 8 * 100 + 32 * 33 / 2)
    expected = cost.step_seconds(step.params, gpu, cost.host_seconds(step.params, 9, 0))
    assert profile.predict(8, 100, 32) == expected


def test_overlapped_takes_the_longer_of_gpu_and_host():
    step = fitted(sync_s=q(3e-4)).step_cost(8, scheduling="overlapped")
    assert cost.step_seconds(step.params, 2e-3, 5e-3) == 5e-3 + 3e-4
    with pytest.raises(ValueError, match="overlapped"):
        fitted().step_cost(8, scheduling="async")


def test_staircase_is_baked_in_and_ends_above_the_largest_size():
    step = fitted().step_cost(20, capture_sizes=[8, 16])
    plain = fitted().step_cost(20).compute_s
    assert step.compute_s.dtype == np.float64
    assert np.all(step.compute_s[1:9] == plain[8])
    assert np.all(step.compute_s[9:17] == plain[16])
    assert np.all(step.compute_s[17:] == plain[17:])
    own = fitted(capture_sizes=[8]).step_cost(8, capture_sizes=[])
    assert own.compute_s[3] == plain[3]


def test_table_meets_its_points_never_falls_and_goes_on_with_the_last_slope():
    points = [(1, 7e-3), (8, 7e-3), (32, 9e-3), (64, 15e-3)]
    profile = table_profile(points)
    step = profile.step_cost(128)
    assert [step.compute_s[t] for t, _ in points] == pytest.approx([s for _, s in points])
    assert np.all(np.diff(step.compute_s) >= 0)
    assert step.compute_s[128] == pytest.approx(15e-3 + 64 * 6e-3 / 32)
    assert step.params[cost.MEMORY] == 0 and step.params[cost.NORM] == 1


def test_table_must_not_fall():
    with pytest.raises(ValueError, match="never fall"):
        table_profile([(1, 7e-3), (2, 6e-3)])


def test_second_slope_begins_where_prompts_begin():
    profile = fitted(prefill_per_token_s=q(1e-3), prefill_from_tokens=10)
    compute = profile.step_cost(30).compute_s
    assert np.diff(compute)[:10] == pytest.approx(2e-4)
    assert np.diff(compute)[10:] == pytest.approx(1e-3)


def test_noise_table_is_sorted_and_has_mean_one():
    noise = Noise(quantiles=list(np.linspace(0.5, 1.5, 101) ** 2))
    table = fitted().model_copy(update={"noise": noise}).noise_table(1000)
    assert table.shape == (1000,) and np.all(np.diff(table) >= 0)
    assert table.mean() == pytest.approx(1.0, abs=1e-12)
    assert np.all(fitted().noise_table(16) == 1.0)


def test_codec_cost_and_override():
    codec = CodecCost(floor_s=q(5e-3), per_row_s=q(1e-3), per_frame_s=q(1e-4))
    profile = fitted().model_copy(update={"codec": codec})
    assert profile.codec_cost().tolist() == [5e-3, 1e-3, 1e-4]
    assert profile.codec_cost({"floor_s": 0.0}).tolist() == [0.0, 1e-3, 1e-4]
    with pytest.raises(ValueError, match="per_frame_s"):
        profile.codec_cost({"per_frames_s": 1.0})
    with pytest.raises(ValueError, match="no codec cost"):
        fitted().codec_cost()
