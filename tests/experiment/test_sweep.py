"""``voicesim sweep``: Erlang B over the cap, the same whatever the workers, resuming, refusals."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pandas as pd
import pytest
from typer.testing import CliRunner

from tests import small
from tests.experiment import loss
from tests.oracles.runs import meets
from tests.oracles.test_erlang import erlang_b
from tests.report.reading import read
from voicesim.cli import app
from voicesim.experiment.backends import Processes
from voicesim.experiment.method import t_interval
from voicesim.experiment.sweep import sweep
from voicesim.report.sweep_figure import figure_of
from voicesim.scenario import load
from voicesim.study import run_study

RUNNER = CliRunner()
FILES = ("sweep.json", "sweep.parquet", "means.parquet", "clean_share.png", "report.html")


def command(path, *more):
    return RUNNER.invoke(app, ["sweep", str(path), *map(str, more)], env={"COLUMNS": "200"})


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A short world under a cap; its profile is beside it."""
    text = small.SCENARIO.replace("horizon: 60s", "horizon: 20s")
    return small.write(tmp_path_factory.mktemp("sweep"), text)


ASKED = (
    "--variant", "cap", "--vary", "pools.tts.replicas=1..3", "--vary",
    "policies.admission.streams=2..6:4", "--metric", "clean_share", "--metric", "busy_share.decode",
    "--replications", 3,
)  # fmt: skip


@pytest.fixture(scope="module")
def done(path):
    """(folder, printed) of a finished sweep with two workers."""
    out = path.parent / "two"
    result = command(path, *ASKED, "--workers", 2, "--out", out)
    assert result.exit_code == 0, result.output
    return out, result.output


def test_erlang_b_over_the_cap(tmp_path):
    """Calls refused by c slots.  A slot is free again before the listener hears the last chunk:
    50 ms of network and 15 ms of codec at most."""
    path = loss.write(tmp_path)
    asked = ["policies.admission.streams=4..12:4"]
    found = sweep(path, asked, variant="cap", replications=6, workers=1).runs
    load = loss.load_of(path)
    for slots, rows in found.groupby("policies.admission.streams"):
        shares = rows["refused"] / rows["offered"]
        assert meets(shares, erlang_b(load - 5.0 * 0.065, int(slots)), erlang_b(load, int(slots)))
        assert not meets(shares, 1.5 * erlang_b(load, int(slots)))


def test_the_tables_are_what_was_simulated(done, path):
    runs, means = (pd.read_parquet(done[0] / f"{name}.parquet") for name in ("sweep", "means"))
    assert len(runs) == 3 * 2 * 3
    keys = ["cluster.pools.tts.replicas", "policies.admission.streams"]
    assert list(runs.columns[:4]) == ["setting", *keys, "replication"]
    file = load(path, replications=3)  # two replicas, and cap has 6 streams
    alone = [o.metrics["clean_share"] for o in run_study(file, workers=1).of("cap")]
    ours = runs[(runs[keys[0]] == 2) & (runs[keys[1]] == 6)]
    assert list(ours["clean_share"]) == alone
    row = means[(means["setting"] == ours["setting"].iloc[0]) & (means["metric"] == "clean_share")]
    want = t_interval(alone)
    got = (row["mean"].item(), row["low"].item(), row["high"].item())
    assert got == pytest.approx((want.mean, want.low, want.high), abs=1e-12)


def test_the_page_names_the_best_and_the_worst_setting(done):
    found = json.loads((done[0] / "sweep.json").read_text())["settings"]
    page = read((done[0] / "report.html").read_text())
    shares = [s["metrics"]["clean_share"]["mean"] for s in found]
    for name, share in (("best", max(shares)), ("worst", min(shares))):
        equal = f" (and {shares.count(share) - 1} more)" if shares.count(share) > 1 else ""
        shown = "100%" if share == 1 else f"{100 * share:.1f}%"
        says = rf"CLEAN share is {name} with tts.replicas=\d, [\w.=]+{re.escape(equal)}: {shown} ±"
        assert re.search(says, page.text), says
    assert len(page.tables["Results"]) == 1 + len(found)


def test_sweep_json(done):
    found = json.loads((done[0] / "sweep.json").read_text())
    assert found["design"] == "grid" and found["replications"] == 3
    assert [s["values"]["cluster.pools.tts.replicas"] for s in found["settings"]] == [
        1, 1, 2, 2, 3, 3
    ]  # fmt: skip
    assert found["other_callers"] == 0
    assert any("count (2) is raised" in note for note in found["notes"])


def test_json_goes_to_standard_output_alone(path, done):
    result = command(path, *ASKED, "--workers", 1, "--out", done[0], "--json")
    assert result.stdout == (done[0] / "sweep.json").read_text()
    assert "18 found in the folder" in result.stderr


def test_the_words_and_figures(done):
    out, text = done
    for word in ("tts.replicas", "CLEAN share", "decode busy", "under the same callers", "±"):
        assert word in text
    for name in ("clean_share.png", "busy_share.decode.png"):
        assert (out / name).read_bytes().startswith(b"\x89PNG")


def test_one_worker_says_the_same_and_nothing_is_repeated(path, done, monkeypatch):
    one = path.parent / "one"
    assert command(path, *ASKED, "--workers", 1, "--out", one).exit_code == 0
    first = {name: (one / name).read_bytes() for name in FILES}
    assert first == {name: (done[0] / name).read_bytes() for name in FILES}

    played = []
    run = Processes.run

    def spy(self, jobs, *more):
        jobs = list(jobs)
        played.extend(jobs)
        return run(self, jobs, *more)

    monkeypatch.setattr(Processes, "run", spy)
    assert command(path, *ASKED, "--workers", 1, "--out", one).exit_code == 0
    assert played == []
    kept = sorted((one / "runs").iterdir())
    assert len(kept) == 18
    for gone in kept[:3]:
        gone.unlink()
    assert command(path, *ASKED, "--workers", 1, "--out", one).exit_code == 0
    assert len(played) == 3
    assert first == {name: (one / name).read_bytes() for name in FILES}


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGKILL])
def test_interrupted_and_started_again(path, done, kind):
    out = path.parent / f"cut{int(kind)}"
    process = subprocess.Popen(
        [sys.executable, "-m", "voicesim", "sweep", str(path), *map(str, ASKED), "--workers", "1",
         "--out", str(out)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while len(list(out.glob("runs/*.json"))) < 3:
        assert process.poll() is None
        time.sleep(0.005)
    os.kill(process.pid, kind)
    _, said = process.communicate()
    if kind == signal.SIGINT:
        assert process.returncode == 130 and "finished runs are kept" in said
    assert not (out / "sweep.json").exists()
    before = {p: p.stat().st_mtime_ns for p in out.glob("runs/*.json")}
    assert command(path, *ASKED, "--workers", 1, "--out", out).exit_code == 0
    assert before == {p: p.stat().st_mtime_ns for p in before}
    assert (out / "sweep.json").read_bytes() == (done[0] / "sweep.json").read_bytes()


def test_a_list_of_settings_and_one_key_drawn(path, tmp_path):
    """Values in plain units; names stay names; another rate means other callers."""
    listed = tmp_path / "settings.csv"
    listed.write_text(
        "workload.arrivals.rate,cluster.pools.tts.codec.queue.kind\n4/s,fifo\n300/min,edf\n"
    )
    found = sweep(path, settings=listed, replications=1, workers=1)
    assert [p.cells["workload.arrivals.rate"] for p in found.played] == [4.0, 5.0]
    assert [p.cells["cluster.pools.tts.codec.queue.kind"] for p in found.played] == ["fifo", "edf"]
    assert found.label("workload.arrivals.rate") == "workload.arrivals.rate (per s)"
    assert found.other_callers == 1
    assert found.means["low"].isna().all()  # one replication
    assert figure_of(found, "clean_share").axes[0].get_label() == "points"

    once = small.SCENARIO.replace("geometric: {mean: 2}", "constant: 1")
    single = small.write(tmp_path, once.replace("  think: {exponential: {mean: 1s}}\n", ""))
    drawn = sweep(single, ["listener.network.delay=10ms..50ms"], 4, replications=2, workers=1)
    axes = figure_of(drawn, "ttfa_p50_s").axes[0]
    x, y = axes.lines[0].get_data()
    assert axes.get_label() == "line" and list(x) == sorted(x)
    assert 0.01 <= min(x) < 0.02 and 0.04 <= max(x) < 0.05
    # one utterance a call: nothing but the delay differs between the same callers
    assert list(y - x) == pytest.approx([y[0] - x[0]] * 4, abs=1e-9)


def test_cells_are_plain_values_where_there_are(path):
    """A constant law is a number; laws, and nothing among numbers, keep their texts."""
    listed = path.parent / "mixed.csv"
    listed.write_text(
        "workload.utterance.prompt_tokens,listener.player.max_queue,workload.patience\n"
        "40,null,{exponential: {mean: 5s}}\n80,2s,9s\n"
    )
    found = sweep(path, settings=listed, replications=1, workers=1)
    cells = [tuple(played.cells.values()) for played in found.played]
    assert cells == [(40.0, "null", "{exponential: {mean: 5s}}"), (80.0, "2s", "9s")]
    assert list(found.runs["workload.utterance.prompt_tokens"]) == [40.0, 80.0]


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--vary", "pools.tts.replcas=1..4"), "did you mean 'replicas'?"),
        (("--vary", "pools.tts.replicas=0..4"), "tts.replicas=0: cluster.pools.tts.replicas: exp"),
        (("--vary", "pools.tts.engine.kv_blocks=1..4"), "kv_blocks=1: engine.kv_blocks: one is"),
        (("--vary", "seed=1..2", "--metric", "claen_share"), "did you mean 'clean_share'?"),
        (("--vary", "seed=1..2", "--variant", "cpa"), "did you mean 'cap'?"),
        (("--vary", "seed=1..2", "--backend", "daks"), "did you mean 'dask'?"),
        (("--lhs", "8"), "nothing is varied"),
    ],
)
def test_what_it_refuses(path, more, says):
    out = path.parent / "refused"
    result = command(path, *more, "--out", out)
    assert result.exit_code == 2
    assert says in result.stderr and result.stderr.strip().count("\n") == 0
    assert not out.exists()


def test_a_bad_cell_is_named(path, tmp_path):
    listed = tmp_path / "settings.csv"
    listed.write_text("seed,pools.tts.replicas\n1,2\n1,many\n")
    result = command(path, "--settings", listed, "--out", tmp_path / "out")
    assert result.exit_code == 2 and not (tmp_path / "out").exists()
    assert result.stderr.startswith(f"{listed}:3: column cluster.pools.tts.replicas: expected a")


def test_a_folder_that_cannot_be_written(path, tmp_path):
    (tmp_path / "file").write_text("")
    result = command(path, "--vary", "seed=1..2", "--out", tmp_path / "file")
    assert result.exit_code == 2 and "is a file" in result.stderr


KINDS = ("clean_share", "offered", "ttfa_p50_s", "pace_p99", "gpu_cost", "alarm_lead_s")
"""A metric of each kind of number; the last is not measured where nobody stalls."""


def test_each_kind_of_metric_can_be_shown(path, tmp_path):
    metrics = [part for name in KINDS for part in ("--metric", name)]
    more = ("--variant", "cap", "--replications", 2, "--workers", 1, "--out", tmp_path)
    result = command(path, "--vary", "policies.admission.streams=8..9", *metrics, *more)
    assert result.exit_code == 0, result.output
    assert {file.stem for file in tmp_path.glob("*.png")} == set(KINDS)
    assert "alarm_lead_s: not measured in 2 of 2 settings" in result.output
    grid = ("--vary", "policies.admission.streams=8..9", "--vary", "seed=1..2")
    result = command(path, *grid, "--metric", "alarm_lead_s", *more)
    assert result.exit_code == 0 and "n/a" in result.output
    assert pd.read_parquet(tmp_path / "sweep.parquet")["alarm_lead_s"].isna().all()
