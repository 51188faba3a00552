"""Aggregates by load: what they are taken as, and that a fit finds the profile behind them."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from tests.calibrate.composed import CHUNKS, OMNI, STEPS
from tests.calibrate.test_summaries import GENAI_CSV, HISTORY, K6
from voicesim.calibrate.chunks.apply import learn_all
from voicesim.calibrate.errors import CalibrationError
from voicesim.calibrate.prior import read_prior
from voicesim.calibrate.readers import Measured, read
from voicesim.calibrate.readers.measured import CURVE, table
from voicesim.cli import app
from voicesim.engine.profile import DecodeCost, Profile, Quantity, load_profile
from voicesim.experiment.aggregates import Asked, ladder_of, tell
from voicesim.experiment.reply_length import spread
from voicesim.experiment.rung import Load
from voicesim.experiment.served import serve
from voicesim.report.calibrate import calibrated

LEVELS = (1, 2, 4, 8, 16)
FLAT, SLOPE, OUTSIDE = 0.012, 0.0008, 0.05


def step(batch):
    return FLAT + SLOPE * batch


@pytest.fixture(scope="module")
def truth():
    """A step of 12 ms + 0.8 ms a stream, 50 ms outside."""
    decode = DecodeCost(memory_s=Quantity(value=FLAT), compute_per_token_s=Quantity(value=SLOPE))
    return Profile(
        name="truth",
        form="fitted",
        token_audio_s=0.08,
        decode=decode,
        request_s=Quantity(value=OUTSIDE),
    )


@pytest.fixture(scope="module")
def played(truth):
    """What a closed loop on it prints."""
    load = Load(truth, audio=5.0, sigma=0.3, prompt=1)
    return {c: serve(load, "closed", c) for c in LEVELS}


def omni(c, seen):
    """A result of vllm bench serve --omni."""
    return {
        **{k: v for k, v in OMNI.items() if not k.startswith(("mean_", "median_", "p9"))},
        "request_rate": "inf", "max_concurrency": c, "completed": 400,
        "request_throughput": seen.value("throughput", ""),
        "audio_throughput": seen.value("xrt", ""),
        "mean_audio_ttfp_ms": 1e3 * seen.value("ttfa", "mean"),
        "mean_audio_rtf": seen.value("rtf", "mean"), "p99_audio_rtf": seen.value("rtf", "p99"),
        "mean_audio_duration_s": float(seen.audio.mean()),
        "std_audio_duration_s": float(seen.audio.std()),
    }  # fmt: skip


def continuity(c, seen):
    """A result of the continuity client."""
    return {
        "num_requests_ok": 400, "num_continuity_ok": 400, "concurrency": c, "model": "m",
        "mean_ttfp_ms": 1e3 * seen.value("ttfa", "mean"),
        "mean_audio_rtf": seen.value("rtf", "mean"), "median_audio_rtf": seen.value("rtf", "p50"),
        "mean_audio_duration_s": float(seen.audio.mean()),
    }  # fmt: skip


def serving(c, seen):
    """A result of sglang's bench_serving: tokens."""
    per_s, tokens = seen.value("throughput", ""), float(seen.audio.mean()) / 0.08
    return {
        "backend": "sglang", "dataset_name": "random", "request_rate": float("inf"),
        "max_concurrency": c, "completed": 400, "request_throughput": per_s,
        "output_throughput": per_s * tokens,
        "mean_e2e_latency_ms": 1e3 * seen.value("latency", "mean"),
        "std_e2e_latency_ms": 1e3 * float(seen.latency.std()),
        "mean_ttft_ms": 1e3 * (OUTSIDE + 2 * step(c)),
    }  # fmt: skip


def write(path, played, make):
    files = []
    for c, seen in played.items():
        files.append(path / f"c{c}.json")
        files[-1].write_text(json.dumps(make(c, seen)) + "\n")
    return files


def test_omni_files_by_the_command(tmp_path, played):
    """Five files; the step line and the time outside are found again, the held-out loads too."""
    files, out, png = write(tmp_path, played, omni), tmp_path / "p.yaml", tmp_path / "p.png"
    done = CliRunner().invoke(
        app,
        ["calibrate", *map(str, files), "-o", str(out), "--token-audio", "80ms",
         "--chunk", "4,8,16,25", "--figure", str(png)],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "WARNING: aggregates only: decode and codec cost cannot be told apart" in done.stdout
    assert "loads: 1, 2, 4, 8, 16 requests in flight" in done.stdout
    assert "chunks of 4,8,16,25 tokens (as given)" in done.stdout
    profile = load_profile(out)
    for c in LEVELS:
        assert profile.predict(c, 0) == pytest.approx(step(c), rel=0.03)
    assert profile.request_s.value == pytest.approx(OUTSIDE, rel=0.06)
    assert profile.codec is None and profile.token_audio_s == 0.08
    assert [s.file for s in profile.sources] == [f.name for f in files]
    held = [p for p in profile.fit.points if p.held_out]
    assert {p.load for p in held} == {2, 8}
    assert all(abs(p.error) < 0.03 for p in held if p.metric in ("rtf", "ttfa", "xrt"))
    assert png.read_bytes().startswith(b"\x89PNG")


def test_the_continuity_client_with_a_prior(tmp_path, played):
    files = write(tmp_path, played, continuity)
    found = calibrated(files, None, "k", None, "gpu=H100,model=qwen3-tts-1.7b").profile
    for c in LEVELS:
        assert found.predict(c, 0) == pytest.approx(step(c), rel=0.04)
    assert found.about.model == "qwen3-tts-1.7b" and found.memory is not None
    assert found.decode.memory_per_kv_token_s.origin == "prior"
    assert found.token_audio_s == pytest.approx(0.08)


def test_tokens_of_sglang(tmp_path, played):
    """Text: no audio of a step is asked for, replies are tokens per request."""
    files = write(tmp_path, played, serving)
    ladder, _ = ladder_of([read(f) for f in files], "t", Asked())
    tokens = np.mean([seen.audio.mean() for seen in played.values()]) / 0.08
    assert float(ladder.setting("reply_tokens")) == pytest.approx(tokens, rel=1e-5)
    assert ladder.setting("chunks") == "1,8192" and ladder.token_audio_s is None
    found = calibrated(files, None, "t").profile
    for c in LEVELS:
        assert found.predict(c, 0) == pytest.approx(step(c), rel=0.04)


def test_rates_of_an_open_loop(tmp_path, truth):
    """Poisson arrivals: the line, and a range in streams, rate x latency."""
    load = Load(truth, audio=5.0, sigma=0.3, prompt=1)
    files = []
    for rate in (0.5, 6):
        seen = serve(load, "poisson", rate, least=600)
        files += write(tmp_path, {rate: seen}, omni)
        data = json.loads(files[-1].read_text())
        files[-1].write_text(json.dumps({**data, "request_rate": rate, "max_concurrency": None}))
    found = calibrated(files, None, "r", 0.08).profile
    low, high = found.range.batch
    for batch in (low, high):
        assert found.predict(batch, 0) == pytest.approx(step(batch), rel=0.05)
    seconds = 5.0 / 0.08 * step(high) + OUTSIDE
    assert low == 1 and high == pytest.approx(6 * seconds, rel=0.1)
    assert found.request_s.value == pytest.approx(OUTSIDE, rel=0.1)


def test_one_load_cannot_tell_growth(tmp_path, played):
    files = write(tmp_path, {8: played[8]}, omni)
    out = tmp_path / "p.yaml"
    done = CliRunner().invoke(
        app, ["calibrate", str(files[0]), "-o", str(out), "--token-audio", "80ms"]
    )
    assert done.exit_code == 0, done.output
    assert "one load: how the step grows cannot be told" in done.stdout
    assert "decode was measured at batch 8 only" in done.stdout
    found = load_profile(out)
    assert found.predict(8, 0) == found.predict(64, 0) == pytest.approx(step(8), rel=0.03)
    assert not any(p.held_out for p in found.fit.points)


def curve(rows, file="a"):
    return Measured(file, "a tool", len(rows), curve=table(CURVE, rows))


def row(metric, value, stat="mean", concurrency=4.0, **more):
    return {"run": "r", "metric": metric, "stat": stat, "value": value,
            "concurrency": concurrency, **more}  # fmt: skip


RTF = [row("rtf_per_request", 0.5, concurrency=float(c)) for c in (2, 4)]
SILENT = [row("latency_s", 2.0, concurrency=np.nan)]


def test_settings_and_figures_of_a_curve():
    """Repeats are one figure, medians are p50, percentiles of single tokens are left out."""
    points = [
        row("rtf_per_request", 0.4), row("rtf_per_request", 0.6), row("latency_s", 2.0, "median"),
        row("latency_s", 2.0, "std"), row("itl_s", 0.03, "p99"), row("itl_s", 0.02),
        row("audio_s", 4.0), row("audio_s", 2.0, "std"), row("requests", 40.0, "total"),
        row("continuity", 0.9, "share", threshold_s=0.1, definition="b"),
        row("continuity", 0.8, "share", threshold_s=0.1, definition="a"),
        row("ttfa_s", 0.0), row("throughput_requests", 3.0),
    ]  # fmt: skip
    ladder, notes = ladder_of([curve(points)], "n", Asked(0.08))
    assert {(f.metric, f.stat): f.value for f in ladder.figures} == {
        ("rtf", "mean"): 0.5, ("latency", "p50"): 2.0, ("itl", "mean"): 0.02,
        ("throughput", "mean"): 3.0, ("c100", "mean"): 0.9,
    }  # fmt: skip
    assert ladder.kind == "closed" and ladder.levels == [4] and ladder.requests("", 4) == 40
    assert float(ladder.setting("reply_audio_s")) == pytest.approx(4.0 - 0.04)
    assert float(ladder.setting("reply_sigma")) == pytest.approx(np.sqrt(np.log(1.25)), rel=1e-3)
    assert ladder.setting("chunks") == "4,8,16,25" and ladder.prior is None
    assert "replies of 4 s on average (of the files), spread 0.47 (of the files)" in notes
    assert "chunks of 4,8,16,25 tokens (assumed; --chunk gives yours)" in notes


def test_an_open_loop_and_its_cap():
    """What an open loop makes is what is sent: throughput is no figure of it."""
    names = {"rtf_per_request": 0.5, "throughput_requests": 2.4, "audio_s": 4.0}
    points = [row(name, value, rate_per_s=2.5) for name, value in names.items()]
    ladder, notes = ladder_of([curve(points)], "n", Asked(0.08))
    assert ladder.kind == "poisson" and ladder.levels == [2.5]
    assert [f.metric for f in ladder.figures] == ["rtf"]
    assert "the cap of 4 in flight is not played: requests come at their rate" in notes


def test_loads_by_option_and_reply_by_ratio():
    silent = [*SILENT, row("rtf_per_request", 0.5, concurrency=np.nan)]
    both = [curve(silent, "a"), curve(silent, "a")]  # names may repeat
    ladder, _ = ladder_of(both, "n", Asked(0.08, loads="8,16"))
    assert ladder.levels == [8, 16]
    assert float(ladder.setting("reply_audio_s")) == pytest.approx(4.0 - 0.04)  # 2 s / 0.5
    rate, _ = ladder_of([curve(silent)], "n", Asked(0.08, loads="90/min"))
    assert rate.kind == "poisson" and rate.levels == [1.5]


def test_many_loads_are_thinned():
    points = [row("latency_s", 1.0, concurrency=float(c)) for c in range(1, 101)]
    ladder, notes = ladder_of([curve(points)], "n", Asked(reply="100"))
    wanted = np.geomspace(1, 100, 12)
    assert ladder.levels == sorted({float(np.arange(1, 101)[np.abs(np.log(np.arange(1, 101) / w))
                                    .argmin()]) for w in wanted})  # fmt: skip
    assert ladder.levels[0] == 1 and ladder.levels[-1] == 100
    assert any(note.startswith("of 100 loads these are used: 1, 2, ") for note in notes)


@pytest.mark.parametrize(
    ("stats", "expected"),
    [
        ({"p50": 1.0, "p95": np.exp(1.6449 * 0.4)}, 0.4),
        ({"mean": np.exp(0.08), "p95": np.exp(1.6449 * 0.4)}, 0.4),
        ({"mean": 2.0, "std": 0.0}, 0.0),
        ({"mean": 2.0}, 0.6),
    ],
)
def test_spread_of_lengths(stats, expected):
    rows = pd.DataFrame([row("audio_s", v, s) for s, v in stats.items()]).assign(level=4.0)
    assert spread(rows)[0] == pytest.approx(expected, abs=1e-4)


GIVEN = Asked(0.08, reply="4s")
LATE = [row("latency_s", 1.0)]


@pytest.mark.parametrize(
    ("rows", "asked", "said"),
    [
        (RTF, Asked(), "a, b: its figures are of audio, decoding in frames: give the audio of a"),
        (RTF, Asked(0.08), "a, b: how long a reply is stands nowhere; give its mean, --reply 4s"),
        (LATE, Asked(), "give its mean, --reply 200 (tokens), or for speech"),
        (LATE, Asked(reply="4s"), "--reply: seconds are of speech"),
        (RTF, Asked(0.08, reply="long"), "--reply: "),
        (RTF, Asked(0.08, reply="0s"), "--reply: found '0s'; allowed: 4s of speech, or 200 tokens"),
        (RTF, Asked(0.08, reply="4s", chunk="4,x"), "--chunk: found '4,x'; allowed: tokens such"),
        (RTF, Asked(0.08, reply="4s", loads="8"), "--loads: found 1; files that state no load: 0"),
        ([row("ttfa_s", 1.0)], GIVEN, "a, b: holds no latency, time per token or real-time factor"),
        (SILENT, GIVEN, "a, b: no load is stated; give one"),
        (SILENT, Asked(0.08, reply="4s", loads="8,2.5"), "--loads: found '2.5'; allowed: 8 (in fl"),
    ],
)
def test_what_is_missing_is_asked_for_in_a_line(rows, asked, said):
    with pytest.raises((CalibrationError, ValueError)) as error:
        ladder_of([curve(rows, "a"), curve(rows, "b")], "n", asked)
    assert said in str(error.value) and "\n" not in str(error.value)


def test_two_kinds_of_load_are_refused():
    open_ = [row("latency_s", 1.0, concurrency=np.nan, rate_per_s=2.0)]
    with pytest.raises(ValueError, match="a keeps requests in flight, b sends at a rate: two kind"):
        ladder_of([curve(RTF, "a"), curve(open_, "b")], "n", GIVEN)


def test_options_of_aggregates_are_refused_elsewhere(tmp_path):
    steps = tmp_path / "s.csv"
    steps.write_text(STEPS)
    with pytest.raises(ValueError, match="--reply: is for files that hold aggregates only"):
        calibrated([steps], None, about={"reply": "4s"})
    assert not tell([read(steps)])


@pytest.mark.parametrize(
    ("text", "asked", "levels"),
    [
        (HISTORY, Asked(0.08, reply="4s"), [32]),
        (K6, Asked(0.08, reply="4s"), [2, 4]),
        (GENAI_CSV, Asked(loads="8"), [8]),
    ],
    ids=["Locust", "k6", "GenAI-Perf"],
)
def test_load_tools_make_a_ladder(tmp_path, text, asked, levels):
    (tmp_path / "t").write_text(text)
    found = read(tmp_path / "t")
    assert tell([found])
    ladder, _ = ladder_of([found], "n", asked)
    assert ladder.levels == levels and ladder.figures


def test_chunks_without_a_frame_duration_name_the_option(tmp_path):
    (tmp_path / "c.csv").write_text(CHUNKS)
    with pytest.raises(CalibrationError, match=r"--token-audio 80ms.*--prior model=NAME"):
        learn_all([read(tmp_path / "c.csv")], None)


def test_a_prior_may_lack_a_card():
    ladder, _ = ladder_of([curve(RTF)], "n", Asked(None, read_prior("model=orpheus-3b"), "4s"))
    assert ladder.prior.gpu is None and ladder.token_audio_s == ladder.prior.model.token_audio_s
