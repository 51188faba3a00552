"""From a scenario file to a run folder: what is written, and what is refused."""

import json
import os
import signal
import subprocess
import sys
import time

import pandas as pd
import pytest
import yaml
from typer.testing import CliRunner

from tests import small
from voicesim.cli import app
from voicesim.metrics.extrapolated import beyond
from voicesim.scenario import load
from voicesim.study import run_study

RUNNER = CliRunner()
METRICS = [
    "offered",
    "refused",
    "abandoned",
    "failed",
    "completed",
    "clean_share",
    "stalled_share",
    "stall_seconds_per_1000_audio_minutes",
    "pace_p99",
    "ttfa_p50_s",
    "ttfa_p95_s",
    "ttfa_p99_s",
    "waiting_at_first_stall",
    "alarm_lead_s",
    "not_measured",
]


def run(*arguments):
    return RUNNER.invoke(app, ["run", *map(str, arguments)])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    base = tmp_path_factory.mktemp("small")
    out = base / "out"
    result = run(small.write(base), "--out", out, "--replications", 3, "--chunks")
    assert result.exit_code == 0, result.output
    assert "cap" in result.output
    return out


def test_summary_has_the_promised_names(folder):
    summary = json.loads((folder / "summary.json").read_text())
    assert list(summary["variants"]) == ["admit_all", "cap"]
    for metrics in summary["variants"].values():
        for name in METRICS:
            assert set(metrics[name]) == {"mean", "low", "high"}
        for stage in ("decode", "codec"):
            assert 0 < metrics["busy_share"][stage]["mean"] <= 1
        assert metrics["busy_share"]["host"]["mean"] is None  # this profile does not know it
        offered = metrics["offered"]
        assert offered["low"] < offered["mean"] < offered["high"]


def test_one_replication_has_no_interval(tmp_path):
    out = tmp_path / "o"
    assert run(small.write(tmp_path), "--out", out, "--quiet").output == f"{out}\n"
    summary = json.loads((tmp_path / "o" / "summary.json").read_text())
    assert summary["variants"]["cap"]["offered"]["low"] is None


def test_tables_agree_with_the_summary(folder):
    summary = json.loads((folder / "summary.json").read_text())
    calls = pd.read_parquet(folder / "sessions")
    counted = calls[calls["arrival_s"] >= 5.0]
    for name, group in counted.groupby("variant", observed=True):
        metrics = summary["variants"][name]
        assert len(group) / 3 == pytest.approx(metrics["offered"]["mean"])
        per_run = group.groupby("replication")["clean"].mean()
        assert per_run.mean() == pytest.approx(metrics["clean_share"]["mean"])
    chunks = pd.read_parquet(folder / "chunks")
    streams = pd.read_parquet(folder / "streams")
    assert len(chunks) == streams["chunks"].sum()
    assert (folder / "peak.png").read_bytes()[:4] == b"\x89PNG"
    assert (folder / "series.parquet").exists()
    resolved = yaml.safe_load((folder / "scenario.yaml").read_text())
    assert resolved["cap"]["policies"]["admission"]["streams"] == 6


def test_nothing_else_is_left_beside_the_folder(folder):
    names = {p.name for p in folder.parent.iterdir()}
    assert names == {"small.yaml", "small-profile.yaml", "out"}


def test_results_do_not_depend_on_workers_or_engine(tmp_path):
    file = load(small.write(tmp_path), sets=["horizon=20s"], replications=2)
    results = [
        run_study(file, workers=1),
        run_study(file, workers=2),
        run_study(file, workers=1, engine="reference"),
    ]
    assert results[0].summary == results[1].summary == results[2].summary
    pd.testing.assert_frame_equal(results[0].series, results[1].series)
    pd.testing.assert_frame_equal(results[0].series, results[2].series)


def test_seeds_differ_and_repeat(tmp_path):
    path = small.write(tmp_path)
    a, b, c = (
        run_study(load(path, sets=["horizon=20s"], seed=s), workers=1).summary for s in (1, 1, 2)
    )
    assert a == b != c


def test_variants_share_their_callers(folder):
    calls = pd.read_parquet(folder / "sessions")
    first, second = (
        calls[calls["variant"] == v][["replication", "session", "arrival_s"]].reset_index(drop=True)
        for v in ("admit_all", "cap")
    )
    pd.testing.assert_frame_equal(first, second)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (("kv_blocks: 2000", "memory: 0.9"), "memory"),  # this profile says nothing of memory
        (("rate: 6/s", "rate: -6/s"), "rate"),
        (("max_num_seqs: 64", "max_num_seqs: 4096"), "max_num_seqs"),  # over the token budget
        (("small-profile.yaml", "smal-profile.yaml"), "small-profile.yaml"),
        (("horizon: 60s", "horizn: 60s"), "horizon"),
        (("{kind: cap, streams: 6}", "{policy: 'nowhere:Nothing'}"), "nowhere:Nothing"),
    ],
)
def test_bad_input_exits_with_2_and_writes_nothing(tmp_path, change, word):
    path = small.write(tmp_path, small.SCENARIO.replace(*change))
    done = subprocess.run(
        [sys.executable, "-m", "voicesim", "run", path, "--out", tmp_path / "out"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert word in done.stderr
    assert "Traceback" not in done.stderr
    assert {p.name for p in tmp_path.iterdir()} == {"small.yaml", "small-profile.yaml"}


def test_a_bad_profile_names_file_and_key(tmp_path):
    path = small.write(tmp_path)
    profile = tmp_path / "small-profile.yaml"
    profile.write_text(small.PROFILE.replace("per_row_s", "per_rwo_s"))
    result = run(path, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert not (tmp_path / "out").exists()


def test_interrupted_keeps_what_is_finished(tmp_path):
    """SIGINT while the second of many runs plays: the first is kept, exit code 130."""
    path = small.write(tmp_path)
    out = tmp_path / "out"
    process = subprocess.Popen(
        [sys.executable, "-m", "voicesim", "run", path, "--out", out, "--workers", "1",
         "--replications", "500", "--set", "horizon=10min"],
        stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stderr is not None
    while "[1/1000]" not in process.stderr.readline():
        assert process.poll() is None
    time.sleep(0.2)
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    summary = json.loads((out / "summary.json").read_text())
    assert summary["complete"] is False
    assert list(summary["variants"]) == ["admit_all"]


def test_help_does_not_wait_for_the_compiler():
    code = (
        "import sys, voicesim.cli; assert not {'numba', 'pandas', 'matplotlib'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("prepare", "word"),
    [
        (lambda p: (p.mkdir(), (p / "note.txt").write_text("mine")), "not a run"),
        (lambda p: p.write_text("mine"), "is a file"),
        (
            lambda p: (p.mkdir(), (p / "summary.json").write_text("{}"), (p / "a").mkdir()),
            "holds a",
        ),
    ],
)
def test_a_folder_that_is_not_a_run_is_left_alone(tmp_path, prepare, word):
    out = tmp_path / "out"
    prepare(out)
    before = sorted(str(p) for p in tmp_path.rglob("*"))
    result = run(small.write(tmp_path), "--out", out)
    assert result.exit_code == 2
    assert word in result.output
    after = sorted(str(p) for p in tmp_path.rglob("*") if "small" not in p.name)
    assert after == before


def test_the_working_folder_is_never_replaced(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run(small.write(tmp_path), "--out", ".")
    assert result.exit_code == 2
    assert "working folder" in result.output


def test_a_folder_that_cannot_be_written_is_refused_before_the_run(tmp_path):
    result = run(small.write(tmp_path), "--out", "/proc/voicesim")
    assert result.exit_code == 2
    assert "cannot be written" in result.output


def test_an_earlier_run_is_replaced_and_that_is_said(tmp_path):
    path, out = small.write(tmp_path), tmp_path / "out"
    sets = ["--set", "horizon=10s"]
    assert "wrote" in run(path, "--out", out, *sets).output
    again = run(path, "--out", out, *sets)
    assert again.exit_code == 0
    assert "replaced the run" in again.output
    assert {p.name for p in tmp_path.iterdir()} == {"small.yaml", "small-profile.yaml", "out"}


def test_check_finds_what_run_would_find(tmp_path):
    """A profile without a codec cost and a missing policy: both, with their lines."""
    text = small.SCENARIO.replace("{kind: cap, streams: 6}", "{policy: 'nowhere:Nothing'}")
    path = small.write(tmp_path, text)
    profile = (tmp_path / "small-profile.yaml").read_text()
    result = RUNNER.invoke(app, ["check", str(path)])
    assert result.exit_code == 2
    policy_line = text.splitlines().index(
        "  cap: {policies.admission: {policy: 'nowhere:Nothing'}}"
    )
    assert f"small.yaml:{policy_line + 1}: policy 'nowhere:Nothing'" in result.output
    start, end = profile.index("codec:"), profile.index("sharing:")
    (tmp_path / "small-profile.yaml").write_text(profile[:start] + profile[end:])
    result = RUNNER.invoke(app, ["check", str(path)])
    assert result.exit_code == 2
    assert "has no codec cost: give codec.cost {floor, per_row, per_frame}" in result.output
    line = next(i for i, row in enumerate(text.splitlines(), 1) if "small-profile.yaml" in row)
    assert f"small.yaml:{line}:" in result.output


def test_a_policy_beside_the_scenario_is_found(tmp_path, monkeypatch):
    (tmp_path / "beside_it.py").write_text(
        "class No:\n    def admit(self, view, g): return False\n"
    )
    text = small.SCENARIO.replace("{kind: cap, streams: 6}", "{policy: 'beside_it:No'}")
    monkeypatch.chdir("/")
    result = run(small.write(tmp_path, text), "--out", tmp_path / "out", "--set", "horizon=10s")
    assert result.exit_code == 0, result.output
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    cap = summary["variants"]["cap"]
    assert cap["refused"]["mean"] == cap["offered"]["mean"]
    study = ["--out", str(tmp_path / "study"), "--max-replications", "8", "--set", "horizon=10s"]
    compared = RUNNER.invoke(app, ["compare", str(tmp_path / "small.yaml"), *study])
    assert compared.exit_code == 0, compared.output


def test_extrapolation_is_said(tmp_path):
    path = small.write(tmp_path)
    profile = tmp_path / "small-profile.yaml"
    measured = "range: {batch: [1, 2], context_tokens: [1, 9000], prefill_tokens: [0, 10]}\n"
    profile.write_text(small.PROFILE + measured)
    assert beyond("contexts of up to {:g} tokens", "small", 0).endswith("measured at (none)")
    result = run(path, "--out", tmp_path / "out", "--set", "horizon=20s")
    assert "prompts of up to 40 tokens are beyond what small was measured at (10)" in " ".join(
        result.output.split()
    )
