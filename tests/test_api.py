"""The Python API says what the commands say: the same folders, tables and errors."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import yaml
from matplotlib.figure import Figure
from typer.testing import CliRunner

import voicesim
from tests import small
from tests.experiment.test_ladder import profile as line
from tests.experiment.test_validate import made
from voicesim.cli import app
from voicesim.engine.profile import save_profile

RUNNER = CliRunner()
SETS = ("horizon=20s", "workload.arrivals.rate=30/s")
PLAN = (["clean>=1%"], ["pools.tts.replicas=1..2"])
STEPS = "batch,context_tokens,seconds\n" + "".join(
    f"{b},100,{0.005 + 0.0002 * b:.6f}\n" for b in (1, 2, 4, 8, 16) for _ in range(3)
)


def command(*arguments):
    return RUNNER.invoke(app, [*map(str, arguments)], env={"COLUMNS": "120"})


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    base = tmp_path_factory.mktemp("api")
    small.write(base)
    (base / "steps.csv").write_text(STEPS)
    trace, sessions = made(1)
    trace.to_csv(base / "trace.csv", index=False)
    sessions.to_csv(base / "sessions.csv", index=False)
    save_profile(line(slope=0.002), base / "line.yaml")
    return base


@pytest.fixture(scope="module")
def answers(place):
    """Every function's answer, its folder beside it where it writes one."""
    path, profile = place / "small.yaml", place / "small-profile.yaml"
    played = voicesim.run(path, sets=SETS, replications=5, workers=1, out=place / "run")
    return {
        "run": played,
        "compare": voicesim.compare(
            path, sets=SETS, max_replications=8, workers=1, out=place / "compare"
        ),
        "plan": voicesim.plan(
            path, *PLAN, sets=SETS, variant="cap", max_replications=8, workers=1,
            out=place / "plan",
        ),
        "gate": voicesim.gate(
            place / "run", candidate=place / "run", variant="admit_all", baseline_variant="cap",
            out=place / "gate",
        ),
        "sweep": voicesim.sweep(
            path, ["pools.tts.replicas=1..2"], sets=SETS, replications=2, workers=1,
            out=place / "sweep",
        ),
        "tornado": voicesim.tornado(
            path, ["pools.tts.engine.max_num_seqs=32..64"], sets=SETS, replications=2, workers=1,
            out=place / "tornado",
        ),
        "alarms": voicesim.alarms(
            path, "shipped", sets=SETS, replications=2, workers=1, out=place / "alarms"
        ),
        "replay": voicesim.replay(
            place / "run", path, run="cap-1", sets=["horizon=20s"], workers=1, out=place / "replay"
        ),
        "validate": voicesim.validate(
            place / "line.yaml", place / "trace.csv", place / "sessions.csv", seeds=2,
            json=place / "checked" / "validation.json",
        ),
        "ladder": voicesim.ladder(profile, (1, 4), seeds=2, out=place / "ladder"),
        "calibrate": voicesim.calibrate(place / "steps.csv", token_audio_s=0.08),
    }  # fmt: skip


def test_every_answer_has_tables_a_figure_and_the_commands_text(answers):
    for name, answer in answers.items():
        assert isinstance(answer.figure(), Figure), name
        assert len(answer.table) and len(answer.summary), name
        html = answer._repr_html_()
        assert html.startswith("<table") and str(answer.summary.columns[0]) in html
        assert len(str(answer)) > 100 and "NaN" not in str(answer), name


def test_run_is_the_command(answers, place):
    result = command("run", place / "small.yaml", "--out", place / "by-command", "--workers", 1,
                     "--replications", 5, *(w for s in SETS for w in ("--set", s)))  # fmt: skip
    printed = result.stdout.strip("\n").rpartition("wrote ")[0].strip("\n")
    assert str(answers["run"]) == "\n".join(line.rstrip() for line in printed.split("\n"))
    for name in ("summary.json", "scenario.yaml", "replications.parquet"):
        mine, theirs = ((place / f / name).read_bytes() for f in ("run", "by-command"))
        assert mine == theirs, name
    summary = json.loads((place / "run" / "summary.json").read_text())["variants"]
    rows = answers["run"].summary.set_index(["variant", "metric"])
    for side in ("mean", "low", "high"):
        assert rows.loc[("cap", "clean_share"), side] == summary["cap"]["clean_share"][side]
    table = answers["run"].table
    mean = table[table["variant"] == "cap"]["clean_share"].mean()
    assert mean == pytest.approx(summary["cap"]["clean_share"]["mean"])


def test_what_is_found_is_what_the_folder_holds(answers, place):
    kinds = {
        "compare": ("study.json", lambda a: a.found.as_dict()),
        "plan": ("plan.json", lambda a: a.found.as_dict()),
        "gate": ("gate.json", lambda a: a.found.as_dict()),
    }
    for name, (file, data) in kinds.items():
        assert json.loads((place / name / file).read_text()) == json.loads(
            json.dumps(data(answers[name]))
        )
    found = answers["plan"].found.answer
    assert found is not None and found.setting.name == "tts.replicas=1"


@pytest.mark.parametrize(
    "name", ["run", "compare", "plan", "gate", "ladder", "sweep", "tornado", "alarms", "replay"]
)
def test_load_gives_what_the_function_gave(answers, place, name):
    loaded, answer = voicesim.load(place / name), answers[name]
    assert loaded.found.kind == ("run" if name == "replay" else name)
    for table in (loaded.table, answer.table):
        if name == "alarms":
            table["leads_s"] = table["leads_s"].map(list)
    pd.testing.assert_frame_equal(loaded.table, answer.table, check_dtype=False)
    columns = list(loaded.summary.columns)
    mine = answer.summary[columns] if name != "ladder" else answer.summary
    both = [t.sort_values(columns[:2]).reset_index(drop=True) for t in (loaded.summary, mine)]
    pd.testing.assert_frame_equal(*both, check_dtype=False)
    assert isinstance(loaded.figure(), Figure) and name in str(loaded)


def test_the_table_of_a_sweep_and_a_tornado_has_a_row_per_replication(place):
    """Two settings; a base and two ends; two replications of each."""
    assert list(voicesim.load(place / "sweep").table["replication"]) == [0, 1] * 2
    assert list(voicesim.load(place / "tornado").table["replication"]) == [0, 1] * 3
    assert len(voicesim.load(place / "tornado").summary) == 2


@pytest.mark.parametrize("name", ["plan", "sweep", "tornado", "alarms"])
def test_a_study_keeps_the_resolved_scenario(place, name):
    resolved = yaml.safe_load((place / name / "scenario.yaml").read_text())
    assert resolved == voicesim.scenario.load(place / "small.yaml", SETS).resolved()


def test_one_text_is_a_list_of_one(answers, place):
    path = place / "small.yaml"
    asked = {"sets": "horizon=10s", "workers": 1}
    found = voicesim.compare(path, metrics="clean_share", max_replications=2, first=2, **asked)
    assert found.found.settings.metrics == ("clean_share",)
    found = voicesim.plan(path, *(x[0] for x in PLAN), variant="cap", max_replications=8, **asked)
    assert [v.key for v in found.found.varied] == ["cluster.pools.tts.replicas"]
    vary = "pools.tts.replicas=1..2"
    found = voicesim.sweep(path, vary, metrics="ttfa_p95_s", replications=1, **asked)
    assert found.found.metrics == ("ttfa_p95_s",) and len(found.found.played) == 2
    found = voicesim.alarms(path, "shipped", variants="cap", replications=1, **asked)
    assert set(found.table["variant"]) == {"cap"}
    found = voicesim.gate(
        place / "run", candidate=place / "run", variant="cap", metrics="clean_share"
    )
    assert list(found.table["metric"]) == ["clean_share"]
    found = voicesim.ladder(place / "small-profile.yaml", "1,4", seeds=1, chunk=4)
    assert list(found.table["concurrency"]) == [1, 4]


def test_assume_is_the_commands_text_or_a_share(place):
    asked = {"sets": "horizon=10s", "replications": 2, "workers": 1}
    path = place / "small.yaml"
    ends = [voicesim.tornado(path, assume=share, **asked).summary for share in ("20%", 0.2)]
    pd.testing.assert_frame_equal(*ends)
    rows = ends[0].set_index(["input", "end"])["value"].astype(float)
    key = next(name for name, _ in rows.index if "memory_s" in name)
    assert [rows[key, end] for end in ("low", "high")] == pytest.approx([0.0056, 0.0084])
    with pytest.raises(voicesim.Error, match=r"--assume 20pc: expected a share such as 20%"):
        voicesim.tornado(place / "small.yaml", assume="20pc", **asked)


def test_replay_is_the_command(answers, place):
    done = command("replay", place / "run", "-s", place / "small.yaml", "--run", "cap-1",
                   "--set", "horizon=20s", "--workers", 1, "--json",
                   "--out", place / "replayed")  # fmt: skip
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) == json.loads((place / "replay/summary.json").read_text())
    for name in ("summary.json", "scenario.yaml", "calls.csv", "replications.parquet"):
        mine, theirs = ((place / f / name).read_bytes() for f in ("replay", "replayed"))
        assert mine == theirs, name
    alone = voicesim.replay(place / "run", place / "small.yaml", run="cap-1", sets="horizon=20s")
    pd.testing.assert_frame_equal(alone.table, answers["replay"].table)
    assert any("run cap-1" in note for note in alone.found.notes)


def test_validate_is_the_command(answers, place):
    """The trace is made by the profile: without noise, what is predicted is what was measured."""
    done = command("validate", place / "line.yaml", place / "trace.csv", "--sessions",
                   place / "sessions.csv", "--seeds", 2,
                   "--json-file", place / "by-command-too" / "theirs.json")  # fmt: skip
    assert done.exit_code == 0, done.output
    data = json.loads((place / "by-command-too" / "theirs.json").read_text())
    assert data == json.loads((place / "checked" / "validation.json").read_text())
    found = answers["validate"]
    table, wrote = done.stdout.rsplit("\nwrote ", 1)
    assert wrote == f"{place / 'by-command-too' / 'theirs.json'}\n"
    assert str(found) == "\n".join(x.rstrip() for x in table.strip("\n").split("\n"))
    rows = found.summary.set_index("metric")
    assert rows.loc["gap_p50_s", "measured"] == data["settings"][0]["gap_p50_s_measured"]
    assert abs(rows.loc["ttft_p95_s", "error"]) < 1e-6
    with pytest.raises(voicesim.Error, match="--seeds: found 0; must be 1 or more"):
        voicesim.validate(place / "line.yaml", place / "trace.csv", seeds=0)


def test_runs_is_the_command(answers, place):
    found = voicesim.runs(place / "run")
    (row,) = json.loads(command("runs", place / "run", "--json").stdout)
    assert list(found.columns) == list(row)
    assert found["headline"][0] == row["headline"] and found["variants"][0] == row["variants"]
    assert found["written"][0].timestamp() == pytest.approx(row["written"], abs=1e-3)
    every = voicesim.runs(place)
    assert set(every["kind"]) >= {"run", "compare", "plan", "sweep", "tornado", "alarms"}
    with pytest.raises(voicesim.Error, match="nowhere: is no folder"):
        voicesim.runs(place / "nowhere")


def test_run_prints_its_summary_as_json(place):
    done = command("run", place / "small.yaml", "--set", "horizon=10s", "--workers", 1, "--json",
                   "--out", place / "as-json")  # fmt: skip
    assert done.exit_code == 0
    assert done.stdout == (place / "as-json" / "summary.json").read_text()


def test_a_figure_of_differences_shows_them(answers):
    axis = next(a for a in answers["gate"].figure().axes if a.get_label() == "clean_share")
    row = answers["gate"].table.query("metric == 'clean_share'").iloc[0]
    drawn = [line.get_xdata() for line in axis.lines]
    assert any(np.allclose(x, [100 * row["low"], 100 * row["high"]]) for x in drawn if len(x) == 2)
    assert any(np.allclose(x, 100 * row["difference"]) for x in drawn if len(x) == 1)
    first = answers["gate"].figure().axes[0]
    assert [t.get_text() for t in first.get_yticklabels()] == ["admit_all"]


def test_a_figure_of_a_plan_shows_limit_and_means(answers):
    (axis,) = answers["plan"].figure().axes
    drawn = [line.get_ydata() for line in axis.lines]
    for row in answers["plan"].table.itertuples():
        assert any(np.allclose(y, 100 * row.mean) for y in drawn if len(y) == 1)
    assert any(list(y) == [1.0, 1.0] for y in drawn)  # clean >= 1 %


def test_calibrate_recovers_the_line(answers):
    rows = answers["calibrate"].summary.set_index("parameter")["value"]
    assert rows["compute_per_token_s"] == pytest.approx(0.0002, rel=1e-3)
    assert answers["calibrate"].found.predict(8, 100) == pytest.approx(0.0066, rel=1e-3)
    assert len(answers["calibrate"].table) == 15


def test_a_profile_is_written_as_the_command_writes_it(place):
    voicesim.calibrate(place / "steps.csv", "mine", output=place / "a.yaml", token_audio_s=0.08)
    command("calibrate", place / "steps.csv", "-o", place / "b.yaml", "--name", "mine",
            "--token-audio", "80ms")  # fmt: skip
    assert (place / "a.yaml").read_bytes() == (place / "b.yaml").read_bytes()


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        (lambda p: voicesim.run(p / "smal.yaml"), ["run", "{p}/smal.yaml"]),
        (lambda p: voicesim.run(p / "small.yaml", sets=["horizn=3s"]),
         ["run", "{p}/small.yaml", "--set", "horizn=3s"]),
        (lambda p: voicesim.run(p / "lacking.yaml"), ["run", "{p}/lacking.yaml"]),
        (lambda p: voicesim.compare(p / "lacking.yaml"), ["compare", "{p}/lacking.yaml"]),
        (lambda p: voicesim.compare(p / "small.yaml", "capp"),
         ["compare", "{p}/small.yaml", "--baseline", "capp"]),
        (lambda p: voicesim.plan(p / "small.yaml", ["clean>=99"], PLAN[1]),
         ["plan", "{p}/small.yaml", "--slo", "clean>=99", "--vary", PLAN[1][0]]),
        (lambda p: voicesim.gate(p / "small.yaml", candidate=p / "nothing"),
         ["gate", "--baseline", "{p}/small.yaml", "--candidate", "{p}/nothing"]),
        (lambda p: voicesim.ladder(p / "small.yaml"), ["ladder", "{p}/small.yaml"]),
        (lambda p: voicesim.replay(p / "steps.csv", p / "small.yaml"),
         ["replay", "{p}/steps.csv", "-s", "{p}/small.yaml"]),
        (lambda p: voicesim.replay(p / "run", p / "small.yaml", scale=2, jitter="1 moon"),
         ["replay", "{p}/run", "-s", "{p}/small.yaml", "--scale", "2", "--jitter", "1 moon"]),
        (lambda p: voicesim.replay(p / "run", p / "small.yaml", seconds_per_token=0),
         ["replay", "{p}/run", "-s", "{p}/small.yaml", "--seconds-per-token", "0"]),
        (lambda p: voicesim.replay(p / "run", p / "small.yaml", after="9h"),
         ["replay", "{p}/run", "-s", "{p}/small.yaml", "--from", "9h"]),
        (lambda p: voicesim.validate(p / "line.yaml", p / "sessions.csv"),
         ["validate", "{p}/line.yaml", "{p}/sessions.csv"]),
        (lambda p: voicesim.calibrate(p / "small.yaml"),
         ["calibrate", "{p}/small.yaml", "-o", "{p}/x.yaml"]),
    ],
)  # fmt: skip
def test_errors_are_the_commands_in_one_exception(place, monkeypatch, call, arguments):
    monkeypatch.chdir(place)
    lacking = small.SCENARIO.replace("kv_blocks: 2000", "memory: 0.9")
    (place / "lacking.yaml").write_text(lacking)
    with pytest.raises(voicesim.Error) as error:
        call(place)
    result = command(*(a.format(p=place) for a in arguments))
    assert result.exit_code == 2
    assert str(error.value) == result.stderr.strip()


def test_an_engine_that_is_not_known_is_an_error(place):
    with pytest.raises(voicesim.Error, match="engine: found 'karnel'"):
        voicesim.run(place / "small.yaml", engine="karnel")


def test_a_loaded_scenario_is_taken_as_it_is(place):
    file = voicesim.scenario.load(place / "small.yaml", SETS, replications=1)
    answer = voicesim.run(file, workers=1)
    assert len(answer.table) == 2
    with pytest.raises(voicesim.Error, match=r"go to voicesim\.scenario\.load"):
        voicesim.run(file, seed=3)


def test_load_refuses_in_a_line(place, tmp_path):
    with pytest.raises(voicesim.Error, match="holds no JSON with a schema of voicesim"):
        voicesim.load(tmp_path)
    with pytest.raises(voicesim.Error, match=r"runn: is no folder; did you mean 'run'\?"):
        voicesim.load(place / "runn")


def test_import_is_lazy_and_calibrate_is_both_package_and_function():
    code = (
        "import sys, voicesim\n"
        "slow = {'numba', 'pandas', 'matplotlib', 'numpy', 'rich'}\n"
        "assert not slow & set(sys.modules), slow & set(sys.modules)\n"
        "assert {'run', 'load', 'calibrate'} <= set(dir(voicesim))\n"
        "from voicesim.calibrate import CalibrationError\n"
        "assert callable(voicesim.calibrate) and callable(voicesim.run)\n"
        "try:\n    voicesim.calibrate('nowhere.csv')\n"
        "except voicesim.Error as error:\n    assert 'nowhere.csv' in str(error)\n"
        "else:\n    raise SystemExit('no error')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_quiet_unless_asked(place, capsys):
    voicesim.run(place / "small.yaml", sets=SETS, workers=1)
    assert capsys.readouterr() == ("", "")
    voicesim.run(place / "small.yaml", sets=SETS, workers=1, progress=True)
    assert "[2/2] cap 0" in capsys.readouterr().err
