"""The ladder against closed forms, and the cases C11, C12 and C14 of the field."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from math import ceil, floor
from pathlib import Path

import pytest
from typer.testing import CliRunner

from voicesim.cli import app
from voicesim.engine.profile import (
    CodecCost,
    DecodeCost,
    PlayedAs,
    Profile,
    Quantity,
    Range,
    Sharing,
    save_profile,
)
from voicesim.experiment.ladder import Ladder, as_data, climb
from voicesim.experiment.metrics import ExperimentError
from voicesim.experiment.rung import Load, play
from voicesim.report.ladder import read, sentences

FRAME = 0.08
FLAT, SLOPE = 0.020, 0.001  # T(n) = max(20 ms, 1 ms x n): the knee of the step at 20 streams


def profile(flat=FLAT, slope=SLOPE, codec=None, **more) -> Profile:
    return Profile(
        schema="voicesim-profile/1",
        name="line",
        form="table" if "table" in more else "fitted",
        token_audio_s=FRAME,
        decode=DecodeCost(
            norm="inf",
            memory_s=Quantity(value=flat),
            compute_per_token_s=Quantity(value=slope),
            **more,
        ),
        codec=None
        if codec is None
        else CodecCost(
            floor_s=Quantity(value=codec[0]),
            per_row_s=Quantity(value=codec[1]),
            per_frame_s=Quantity(value=codec[2]),
        ),
    )


@pytest.fixture(scope="module")
def line() -> Ladder:
    """Prompts of one token cost no more than a decoding stream: a step's tokens = its streams."""
    return climb(Load(profile(), prompt=1), (1, 4, 16, 32, 64, 128), seeds=3)


# --- closed forms -----------------------------------------------------------------------------


def test_the_ceiling_is_frame_over_step(line):
    """frame / T(n) >= 1.2 while n <= 80 / (1.2 x 1) = 66.7."""
    expected = floor(FRAME / (1.2 * SLOPE))
    assert [line.ceiling(p) for p in (0.5, 0.9, 1.0)] == [expected] * 3
    assert line.ceilings == [expected] * 3
    assert line.share(expected) == 1.0
    assert line.share(expected + 1) == 0.0
    assert not line.censored


@pytest.mark.parametrize("callers", [1, 4, 16, 32, 128])
def test_pace_and_audio_are_those_of_the_step(line, callers):
    step = max(FLAT, SLOPE * callers)
    assert line.mean("pace_p99", callers) == pytest.approx(FRAME / step, rel=1e-6)
    assert line.mean("xrt", callers) == pytest.approx(callers * FRAME / step, rel=0.02)
    assert line.mean("rtf", callers) == pytest.approx(step / FRAME, rel=0.02)
    assert line.mean("in_flight", callers) == pytest.approx(callers, rel=0.02)


def test_naive_is_the_lone_callers_rtf_and_knows_no_batching(line):
    assert line.naive == pytest.approx(FRAME / FLAT, rel=1e-6)


def test_the_knee_is_where_a_doubling_adds_a_tenth(line):
    """Audio per second is n / 20 ms up to n = 20, then flat: 2 n callers get less than 1.1 times
    as much from n = 20 / 1.1 = 18.2 on."""
    assert line.knee == pytest.approx(ceil(FLAT / SLOPE / 1.1), abs=1)


def test_a_limit_that_one_caller_misses_gives_ceiling_zero():
    ladder = climb(Load(profile(flat=0.09), prompt=1), (1, 2), seeds=2)
    assert ladder.ceiling(0.5) == 0
    assert ladder.ceilings == [0, 0]


def test_a_ceiling_beyond_the_ladder_is_looked_for_there():
    assert climb(Load(profile(), prompt=1), (1, 16), seeds=2).ceiling(1.0) == 66
    beyond = climb(Load(profile(slope=1e-5), prompt=1), (1, 2), seeds=1)
    assert beyond.censored


def test_noise_makes_the_ceiling_a_probability():
    """With step noise of 20 % seeds differ: fewer of them pass, the more callers there are."""
    quantiles = [0.6 + 0.008 * i for i in range(101)]
    noisy = profile().model_copy(update={"noise": {"quantiles": quantiles}})
    noisy = Profile.model_validate(noisy.model_dump(by_alias=True, warnings=False))
    ladder = climb(Load(noisy, prompt=1, chunks=(4, 25)), (16, 32, 64, 128), seeds=10)
    assert ladder.ceiling(1.0) <= ladder.ceiling(0.9) <= ladder.ceiling(0.5)
    assert ladder.ceiling(1.0) < ladder.ceiling(0.5)
    assert ladder.share(ladder.around[0]) == 1.0
    assert ladder.share(ladder.around[-1]) == 0.0
    assert ladder.ceiling(0.5) < 66


# --- C2: the first seam -----------------------------------------------------------------------


def test_c2_one_caller_stalls_at_the_first_seam_though_the_pace_is_good():
    """One frame first, then 25, at RTF 0.56: 0.56 x 2.0 - 0.08 = 1.04 s of silence; pace 1.79."""
    slow = profile(flat=0.56 * FRAME)
    cliff = play(Load(slow, chunks=(1, 25)), 1, 0)
    assert cliff["c100"] == pytest.approx(0.0, abs=0.02)
    assert cliff["pace_p99"] > 1.2
    ramp = play(Load(slow, chunks=(4, 4, 8, 16, 25)), 1, 0)
    assert ramp["c100"] == 1.0
    assert ramp["stalled_share"] == 0.0


def test_c3_a_larger_first_chunk_buys_continuity_with_first_audio():
    slow = profile(flat=0.56 * FRAME)
    small, large = (play(Load(slow, chunks=(n, 25)), 1, 0) for n in (1, 20))
    assert large["c100"] > small["c100"]
    assert large["ttfa_p50_s"] > small["ttfa_p50_s"]


# --- C11: where is the knee? ------------------------------------------------------------------


def test_c11_audio_peaks_where_the_field_saw_it():
    """VoxCPM2 on an RTX 4090 (OpenBMB/VoxCPM#374): RTF .103/.131/.176/.284/.605 at 1/8/16/32/64,
    so 9.7/61/91/113/106 audio s/s: a maximum at 32, and more than 64 streams faster than 0.9."""
    rtf = {1: 0.103, 8: 0.131, 16: 0.176, 32: 0.284, 64: 0.605}
    seen = profile(flat=0.0, slope=0.0, table=[(n, r * FRAME) for n, r in rtf.items()])
    ladder = climb(Load(seen, prompt=1), list(rtf), seeds=2)
    assert ladder.peak == 32
    assert 16 <= ladder.knee <= 32
    for n, r in rtf.items():
        assert ladder.mean("xrt", n) == pytest.approx(n / r, rel=0.03)
    assert ladder.mean("rtf", 64) <= 0.9


def test_c11_long_prompts_shift_the_knee_left():
    few, many = (climb(Load(profile(), prompt=p), (1, 64), seeds=2) for p in (1, 400))
    assert many.knee < few.knee - 4
    assert many.mean("xrt", 64) < few.mean("xrt", 64)


# --- C12: a flat first byte hides a slow stream -----------------------------------------------


ORPHEUS = 7 / 83  # s of audio in the 7 tokens of a codec frame; 83 tokens a second


@pytest.fixture(scope="module")
def orpheus():
    """A decoder of 5.6 ms a token at any batch, and a codec that takes one chunk at a time, 9.8 ms
    each; the first chunk waits for 28 tokens.  By number of callers."""
    serial = profile(flat=0.0056, slope=0.0, codec=(0.0098, 0.0, 0.0))
    serial = serial.model_copy(update={"token_audio_s": ORPHEUS / 7})
    load = Load(serial, audio=6.0, prompt=1, chunks=(28, 7), codec_cap=1)
    return {c: play(load, c, 0) for c in (1, 12, 32, 64)}


def test_c12_first_byte_stays_flat_while_the_total_doubles(orpheus):
    """canopyai/Orpheus-TTS#106, A100: 32 to 64 callers, TTFB 602 to 634 ms (1.05), total 15.3 to
    28.1 s (1.83).  First byte: what the decoder sends, before the serial codec."""
    few, many = orpheus[32], orpheus[64]
    assert many["decoded_p50_s"] / few["decoded_p50_s"] == pytest.approx(1.05, abs=0.06)
    assert many["e2e_s"] / few["e2e_s"] > 1.7
    assert few["rtf"] > 3  # yet each stream is several times slower than real time


def test_c12_first_audio_does_tell(orpheus):
    """The first chunk stands in the codec's queue like every other: one turn of all callers."""
    assert orpheus[64]["ttfa_p50_s"] > 1.4 * orpheus[32]["ttfa_p50_s"]


def test_c12_all_are_too_slow_while_the_card_makes_four_times_the_audio(orpheus):
    """On an H100: RTF 0.469 alone and 1.403 at 12, while xRT rises from 2.1 to 8.6."""
    assert orpheus[1]["rtf"] == pytest.approx(0.469, rel=0.05)
    assert orpheus[12]["rtf"] == pytest.approx(1.403, rel=0.05)
    assert orpheus[1]["xrt"] == pytest.approx(2.1, rel=0.05)
    assert orpheus[12]["xrt"] == pytest.approx(8.6, rel=0.05)
    assert orpheus[12]["pace_p99"] < 1


# --- C14: a second stage at batch 1 -----------------------------------------------------------


def test_c14_throughput_stops_at_one_over_the_codecs_time():
    """Whole replies through a codec of 0.5 s that takes one at a time: 2 replies/s, whatever c;
    latency(c) = c / mu.  (sgl-project/sglang-omni#1656: c = 4/8 gave 1.99/2.02 replies/s.)"""
    whole = profile(flat=0.005, slope=0.0, codec=(0.5, 0.0, 0.0))
    load = Load(whole, audio=4.0, prompt=1, chunks=(10_000,), codec_cap=1)
    at = {c: play(load, c, 0) for c in (1, 4, 8, 16)}
    assert at[1]["requests_per_s"] < 1.5
    for c in (8, 16):
        assert at[c]["requests_per_s"] == pytest.approx(2.0, rel=0.02)
        assert at[c]["e2e_s"] == pytest.approx(c / 2.0, rel=0.02)
    assert at[8]["e2e_s"] / at[4]["e2e_s"] > 1.7
    assert at[16]["busy_codec"] == pytest.approx(1.0, abs=0.01)


def test_one_chunk_is_not_measured_and_not_a_pass():
    rung = play(Load(profile(), chunks=(10_000,)), 4, 0)
    assert rung["pace_p99"] is None and rung["c100"] is None and rung["stalled_share"] is None
    with pytest.raises(ExperimentError, match="no reply has two chunks"):
        climb(Load(profile(), chunks=(10_000,)), (1, 2), seeds=1)


# --- seeds, data, command ---------------------------------------------------------------------


def test_the_same_ladder_whatever_the_number_of_processes():
    shared = profile(codec=(0.006, 0.001, 1e-4)).model_copy(
        update={"sharing": Sharing(decode_slowdown=Quantity(value=1.5))}
    )
    one, two = (climb(Load(shared), (1, 8, 32), seeds=3, workers=n) for n in (1, 2))
    assert as_data(one) == as_data(two)
    other = climb(dataclasses.replace(Load(shared), base_seed=1), (1, 8, 32), seeds=3)
    assert as_data(other)["levels"] != as_data(one)["levels"]


def test_a_level_beyond_the_measured_batches_is_told():
    known = Range(batch=(1, 16), context_tokens=(1, 500), prefill_tokens=(0, 100))
    data = as_data(climb(Load(profile().model_copy(update={"range": known})), (8, 32), seeds=1))
    assert [row["extrapolated"] for row in data["levels"]] == [False, True]
    assert data["measured_to"] == 16
    assert data["ceiling_extrapolated"] is True


RUNNER = CliRunner()


@pytest.fixture
def file(tmp_path):
    known = Range(batch=(1, 16), context_tokens=(1, 500), prefill_tokens=(0, 100))
    path = tmp_path / "line.yaml"
    save_profile(profile().model_copy(update={"range": known}), path)
    return path


def test_the_command_writes_flat_numbers_and_a_figure(file, tmp_path):
    out, copy = tmp_path / "out", tmp_path / "numbers" / "ladder.json"
    asked = ["ladder", file, "--levels", "1,8,64", "--seeds", 2, "--out", out, "--json-file", copy]
    result = RUNNER.invoke(app, [*map(str, asked), "--prompt", "1"])
    assert result.exit_code == 0, result.output
    assert "CEILING 66" in result.output
    assert "EXTRAPOLATED" in result.output
    data = json.loads((out / "ladder.json").read_text())
    assert data == json.loads(copy.read_text())
    rows = [data, *data["levels"], *data["around"]]
    for row in rows:
        nested = {k for k, v in row.items() if isinstance(v, dict | list)}
        assert nested <= {"levels", "around"}
    assert [row["concurrency"] for row in data["levels"]] == [1, 8, 64]
    assert (out / "ladder.png").read_bytes().startswith(b"\x89PNG")
    page = (out / "report.html").read_text()
    assert "CEILING 66" in page and "data:image/png;base64," in page


@pytest.mark.parametrize(
    "wrong",
    [
        ["--levels", "1,two"],
        ["--levels", "0,1"],
        ["--levels", "5000"],
        ["--audio", "8 parsecs"],
        ["--audio", "1ms"],
        ["--chunk", ""],
        ["--codec-queue", "lifo"],
        ["--limit", "0"],
    ],
)
def test_wrong_options_are_refused_in_a_line(file, tmp_path, wrong):
    result = RUNNER.invoke(app, ["ladder", str(file), "--out", str(tmp_path / "o"), *wrong])
    assert result.exit_code == 2
    assert len(result.output.strip().splitlines()) == 1
    assert not (tmp_path / "o").exists()


# --- as the profile was measured --------------------------------------------------------------

SHIPPED = Path(__file__).resolve().parents[2] / "calibration" / "profiles"
NOTHING = dict.fromkeys(
    ("audio", "prompt", "chunk", "codec_cap", "codec_queue", "left_context", "token_audio")
)
NOTHING["levels"] = "1"


def test_a_published_profile_is_played_as_it_was_measured():
    """Orpheus on an A100: SNAC one chunk at a time, 28 tokens and then 7, replies of 2.8 s; the
    published RTF of 32 at once is 15.3 / 2.8 = 5.46.  A codec of batches says 3.9 instead."""
    file = SHIPPED / "orpheus-3b-a100-vllm.yaml"
    own, levels = read(file, NOTHING)
    assert (own.audio, own.prompt, own.chunks, own.codec_cap) == (2.8, 1, (28, 7), 1)
    assert set(own.as_measured) > {"audio", "prompt", "chunks", "codec_cap"}
    assert levels == [1]
    assert play(own, 32, 0)["rtf"] == pytest.approx(15.3 / 2.8, rel=0.08)
    other, _ = read(file, {**NOTHING, "codec_cap": 8, "audio": "8s", "chunk": "4,8,16,25"})
    assert (other.audio, other.chunks, other.codec_cap) == (8.0, (4, 8, 16, 25), 8)
    assert set(other.as_measured) == {"prompt", "codec_queue", "codec_window", "left_context"}
    assert play(other, 32, 0)["rtf"] < 4.2


def test_the_window_of_the_codec_is_the_profiles_unless_a_queue_is_asked_for():
    file = SHIPPED / "qwen3-tts-1.7b-h100-vllm-omni-s1.yaml"
    own, _ = read(file, NOTHING)
    assert (own.chunks, own.codec_queue, own.codec_window) == ((14, 25), "window", 1)
    asked, _ = read(file, {**NOTHING, "codec_queue": "edf"})
    assert (asked.codec_queue, asked.codec_window) == ("edf", 0)


def test_without_played_the_usual_is_played(file):
    load, _ = read(file, NOTHING)
    assert load == Load(load.profile)


def test_the_output_says_what_is_the_profiles(tmp_path):
    file = tmp_path / "line.yaml"
    asked = PlayedAs(load="burst", reply_audio_s=2.4, chunks=[5, 10])
    save_profile(profile().model_copy(update={"played": asked}), file)
    command = ["ladder", str(file), "--levels", "1,4", "--seeds", "1", "--out", str(tmp_path / "o")]
    result = RUNNER.invoke(app, [*command, "--prompt", "1"])
    assert result.exit_code == 0, result.output
    said = "figures were measured (a burst load, there): audio 2.4 s, chunks 5,10; options change"
    assert said in " ".join(result.output.split())
    data = json.loads((tmp_path / "o" / "ladder.json").read_text())
    assert (data["as_measured"], data["audio_s"], data["chunks"]) == ("audio,chunks", 2.4, "5,10")


def test_throughput_suggests_more_than_the_ceiling(line):
    """The step makes 80 audio-s/s from 20 streams on; the ceiling of 66 is 17 % below that."""
    most = FRAME / SLOPE
    assert line.naive_throughput == pytest.approx(most, rel=0.02)
    assert as_data(line)["naive_throughput"] == line.naive_throughput
    (said,) = [s.plain for s in sentences(line) if "throughput suggests" in s.plain]
    share = round(100 * (1 - 66 / line.naive_throughput))
    assert said.endswith(f"at {line.peak} callers): the ceiling is {share}% below it")
    assert share in (17, 18)


@pytest.mark.parametrize(
    ("name", "of"),
    [
        ("whisper-large-v3-h200-sglang-sync", "of kind asr (whisper-large-v3)"),
        ("llama-3.1-8b-h100-nim-1.8.0", "of kind llm (llama-3.1-8b)"),
    ],
)
def test_text_has_no_pace_and_the_refusal_says_what_to_do(name, of, tmp_path):
    asked = ["ladder", str(SHIPPED / f"{name}.yaml"), "--quiet", "--out", str(tmp_path / "o")]
    result = RUNNER.invoke(app, asked)
    assert result.exit_code == 2
    assert len(result.output.strip().splitlines()) == 1
    assert f"of a model {of} has no token_audio_s: its tokens are text" in result.output
    assert "--token-audio" in result.output
    spoken, _ = read(Path(asked[1]), {**NOTHING, "token_audio": "250ms"})
    tokens = {"whisper": 20, "llama-3": 200}[name[:7]]
    assert spoken.token_audio == 0.25
    assert spoken.audio == tokens * 0.25
    assert spoken.chunks == Load.chunks


def test_a_file_that_is_no_profile_is_refused(tmp_path):
    bad = tmp_path / "bad.yaml"
    bad.write_text("schema: something-else\n")
    for path in (bad, tmp_path / "absent.yaml"):
        result = RUNNER.invoke(app, ["ladder", str(path), "--out", str(tmp_path / "o")])
        assert result.exit_code == 2
        assert path.name in result.output


def test_a_foreign_folder_is_not_replaced(file, tmp_path):
    """A foreign folder, and a file that cannot be written, are refused; an own one is not."""
    out = tmp_path / "mine"
    out.mkdir()
    (out / "thesis.tex").write_text("x")
    asked = ["ladder", str(file), "--levels", "1,8", "--seeds", "1", "--out", str(out)]
    assert RUNNER.invoke(app, asked).exit_code == 2
    assert (out / "thesis.tex").read_text() == "x"
    asked[-1] = str(tmp_path / "new")
    unwritable = ["--json-file", str(file / "numbers.json")]
    assert RUNNER.invoke(app, [*asked, *unwritable]).exit_code == 2
    assert not (tmp_path / "new").exists()
    assert RUNNER.invoke(app, asked).exit_code == 0
    assert RUNNER.invoke(app, asked).exit_code == 0  # an earlier ladder may be replaced
    assert sorted(p.name for p in tmp_path.iterdir()) == ["line.yaml", "mine", "new"]


def test_an_interrupt_leaves_nothing(file, tmp_path):
    out = tmp_path / "out"
    command = [sys.executable, "-m", "voicesim", "ladder", file, "--seeds", 1000, "--out", out]
    process = subprocess.Popen(
        list(map(str, command)), stderr=subprocess.PIPE, text=True, env=dict(os.environ)
    )
    assert "levels" in process.stderr.readline()
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted" in errors
    assert not out.exists()
