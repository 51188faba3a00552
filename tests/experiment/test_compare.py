"""``voicesim compare`` from file to study folder: what it says, keeps, resumes and refuses."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from tests.experiment import busy
from tests.report.reading import read
from voicesim.cli import app
from voicesim.experiment import ExperimentError, compare
from voicesim.metrics.summary import run_metrics
from voicesim.metrics.tables import sessions, streams
from voicesim.scenario import load
from voicesim.simulation import simulate

RUNNER = CliRunner()
FILES = ("study.json", "differences.parquet", "pairs.parquet", "report.html")


def run(*arguments):
    return RUNNER.invoke(app, ["compare", *map(str, arguments)], env={"COLUMNS": "140"})


def start(*arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "voicesim", "compare", *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def wait_for(process, text):
    while text not in process.stderr.readline():
        assert process.poll() is None


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return busy.write(tmp_path_factory.mktemp("compare"))


@pytest.fixture(scope="module")
def done(path):
    """(folder, what was printed) of a finished comparison."""
    out = path.parent / "done"
    result = run(path, "--out", out, "--workers", 2, "--max-replications", 12)
    assert result.exit_code == 0, result.output
    return out, result.output


def test_the_table_says_it_in_words(done):
    _, text = done
    words = (
        "verdict", "better", "the same", "corr.", "busiest stage", "refused +", "TTFA p95",
        "GPU cost", "8, 12", "97.5 %", "other callers than the baseline's: crowd",
    )  # fmt: skip
    for word in words:
        assert word in text, text


def test_the_page_says_who_is_better_and_has_the_same_table(done):
    study = json.loads((done[0] / "study.json").read_text())
    page = read((done[0] / "report.html").read_text())
    clean = [d for d in study["differences"] if d["metric"] == "clean_share"]
    better = [d for d in clean if d["verdict"] == "better"]
    best = max(better, key=lambda d: d["difference"])
    base, points = study["settings"]["baseline"], 100 * best["difference"]
    assert f"{best['variant']} is better than {base}: CLEAN share +{points:.1f}" in page.text
    others = ", ".join(f"{d['variant']} {d['verdict']}" for d in clean if d is not best)
    assert f"The others: {others}." in page.text
    _, *rows = page.tables["Results"]
    asked = {v: of["clean_share"] for v, of in study["verdicts"].items()}
    assert {row[0]: row[6] for row in rows if row[1] == "CLEAN share"} == asked


def test_study_json_is_what_was_simulated(done, path):
    study = json.loads((done[0] / "study.json").read_text())
    assert study["schema"] == "voicesim-comparison/1"
    assert study["ended"] == "settled" and study["replications"] == 8
    assert study["verdicts"]["twin"]["clean_share"] == "the same"
    file = load(path)

    def clean(variant, replication):
        r = simulate(file.variants[variant], replication)
        return run_metrics(r, sessions(r, s := streams(r)), s)["clean_share"]

    values = {v: np.array([clean(v, r) for r in range(8)]) for v in ("admit_all", "cap")}
    (row,) = [d for d in study["differences"] if (d["variant"], d["metric"]) ==
              ("cap", "clean_share")]  # fmt: skip
    gain = values["cap"] - values["admit_all"]
    assert row["difference"] == pytest.approx(gain.mean())
    assert row["baseline"] == pytest.approx(values["admit_all"].mean())
    assert row["correlation"] == pytest.approx(np.corrcoef(*values.values())[0, 1])
    assert row["low"] < row["difference"] < row["high"]
    bottleneck = study["variants"]["cap"]["bottleneck"]
    assert bottleneck["stage"] == "decode" and 0 < bottleneck["busy_share"] <= 1
    same = {v: of["same_callers"] for v, of in study["variants"].items()}
    assert same == {"admit_all": True, "cap": True, "twin": True, "crowd": False}
    pairs = pd.read_parquet(done[0] / "pairs.parquet")
    mine = pairs[(pairs["variant"] == "cap") & (pairs["metric"] == "clean_share")]
    assert (mine["value"].to_numpy() == values["cap"]).all()


def test_another_baseline_turns_the_signs(done, path):
    file = load(path)
    forth = compare(file, out=done[0].parent / "turn", max_replications=8)
    back = compare(file, "cap", out=done[0].parent / "turn", max_replications=8)
    a, b = forth.differences, back.differences
    there = a[(a["variant"] == "cap") & (a["metric"] == "clean_share")].iloc[0]
    here = b[(b["variant"] == "admit_all") & (b["metric"] == "clean_share")].iloc[0]
    assert there["difference"] == pytest.approx(-here["difference"])
    assert {there["verdict"], here["verdict"]} == {"better", "worse"}
    assert back.verdicts["twin"]["clean_share"] == here["verdict"]
    assert set(back.summary["variant"]) == set(file.variants)


def test_json_on_stdout_is_study_json(done, path):
    result = run(path, "--out", done[0], "--max-replications", 12, "--json", "--quiet")
    assert result.output == (done[0] / "study.json").read_text()


def test_killed_and_started_again_is_the_same_answer(done, path):
    """kill -9 in the middle: finished runs are not played again, and nothing differs."""
    out = path.parent / "killed"
    arguments = (path, "--out", out, "--workers", 1, "--max-replications", 12)
    process = start(*arguments)
    wait_for(process, "[5/32]")
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not (out / "study.json").exists()
    before = {p: p.stat().st_mtime_ns for p in (out / "runs").glob("[!.]*.json")}
    assert len(before) >= 5
    again = start(*arguments)
    _, said = again.communicate()
    assert again.returncode == 0
    assert f"{len(before)} found in the folder" in said
    assert {p: p.stat().st_mtime_ns for p in before} == before
    for name in FILES:
        assert (out / name).read_bytes() == (done[0] / name).read_bytes()


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: text.replace('"clean_share": 0.', '"clean_share": 0.1'),
        lambda text: "[]",
        lambda text: "",
    ],
)
def test_a_damaged_run_is_played_again(path, done, tmp_path, damage):
    out = tmp_path / "out"
    options = {"out": out, "max_replications": 2, "first": 2, "workers": 1}
    compare(path, **options)
    victim = next((out / "runs").glob("cap-1-*.json"))
    whole = victim.read_text()
    victim.write_text(damage(whole))
    study = (out / "study.json").read_bytes()
    assert victim.read_text() != whole
    compare(path, **options)
    assert victim.read_text() == whole
    assert (out / "study.json").read_bytes() == study


def test_another_seed_scenario_or_profile_is_another_run(tmp_path):
    path = busy.write(tmp_path)
    out = tmp_path / "out"
    options = {"out": out, "max_replications": 2, "first": 2, "workers": 1}

    def files():
        return {p.name for p in (out / "runs").iterdir()}

    compare(load(path), **options)
    first = files()
    compare(load(path, sets=["title=Other name"]), **options)
    assert files() == first
    compare(load(path, seed=9), **options)
    assert len(files()) == 2 * len(first)
    profile = tmp_path / "small-profile.yaml"
    profile.write_text(profile.read_text().replace("0.007", "0.0071"))
    compare(load(path), **options)
    assert len(files()) == 3 * len(first)


def test_interrupted_keeps_what_is_finished(path, tmp_path):
    out = tmp_path / "out"
    process = start(path, "--out", out, "--workers", 1, "--first", 30)
    wait_for(process, "[12/")
    os.killpg(process.pid, signal.SIGINT)
    text, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "Traceback" not in said
    study = json.loads((out / "study.json").read_text())
    assert study["ended"] == "interrupted" and study["look"] == 0
    assert {w for of in study["verdicts"].values() for w in of.values()} <= {
        "cannot tell", "the same", "not measured",
    }  # fmt: skip
    assert "no verdicts" in text
    page = (out / "report.html").read_text()
    assert "<b>Nothing is decided: it ended (interrupted) before the first look.</b>" in page
    assert len(list((out / "runs").iterdir())) >= 10


def test_the_budget_ends_it_between_runs(path, tmp_path):
    answer = compare(
        path, precision=1e-12, width=1e-12, metrics=["ttfa_p95_s"], first=2, max_replications=4000,
        budget=2.0, workers=1, out=tmp_path,
    )  # fmt: skip
    assert answer.ended == "budget" and answer.look >= 1
    assert answer.replications in answer.settings.looks.sizes


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--baseline", "admitall"), ("baseline 'admitall'", "did you mean 'admit_all'")),
        (("--metric", "clean_shar"), ("metric 'clean_shar'", "did you mean 'clean_share'")),
        (("--backend", "dusk"), ("backend 'dusk'", "did you mean 'dask'")),
        (("--budget", "soon"), ("--budget", "a duration")),
        (("--budget", "5"), ("--budget: 5 needs a unit: ms, s, min or h",)),
        (("--budget", "0min"), ("--budget: found 0; must be finite and more than 0",)),
        (("--width", "inf"), ("--width: found inf; must be finite and more than 0",)),
        (("--width", "nan"), ("--width: found nan",)),
        (("--width", "0"), ("--width: found 0",)),
        (("--width=-1",), ("--width: found -1",)),
        (("--precision", "inf"), ("--precision: found inf",)),
        (("--first", "9", "--max-replications", "4"), ("--first 9: is more than --max-repl",)),
        (("--set", "horizn=3s"), ("horizn", "horizon")),
        (("--set", "cluster.pools.tts.engine.memory=0.9"), ("memory",)),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(tmp_path, arguments, words):
    path = busy.write(tmp_path)
    process = start(path, "--out", tmp_path / "out", *arguments)
    text, said = process.communicate()
    assert process.returncode == 2
    assert text == "" and len(said.strip().splitlines()) == 1
    for word in words:
        assert word in said
    assert {p.name for p in tmp_path.iterdir()} == {"small.yaml", "small-profile.yaml"}


def test_one_variant_has_nothing_to_be_compared_with(tmp_path):
    text = busy.SCENARIO.partition("variants:")[0].replace(
        "  refused: {retry: {attempts: 1, backoff: 1s}}\n", ""
    )
    path = busy.write(tmp_path)
    path.write_text(text)
    with pytest.raises(ExperimentError, match="only one variant"):
        compare(path)


def test_the_shipped_studies_load():
    studies = Path(__file__).parents[2] / "scenarios" / "studies"
    assert all(len(load(path).variants) > 1 for path in studies.glob("*.yaml"))
