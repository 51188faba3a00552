"""The Python API says what the commands say: the same folders, tables and errors."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from typer.testing import CliRunner

import voicesim
from tests import small
from voicesim.cli import app

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
        ),
        "alarms": voicesim.alarms(path, "shipped", sets=SETS, replications=2, workers=1),
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


@pytest.mark.parametrize("name", ["run", "compare", "plan", "gate", "ladder"])
def test_load_gives_what_the_function_gave(answers, place, name):
    loaded, answer = voicesim.load(place / name), answers[name]
    assert loaded.found.kind == name
    pd.testing.assert_frame_equal(loaded.table, answer.table, check_dtype=False)
    columns = list(loaded.summary.columns)
    mine = answer.summary[columns] if name != "ladder" else answer.summary
    both = [t.sort_values(columns[:2]).reset_index(drop=True) for t in (loaded.summary, mine)]
    pd.testing.assert_frame_equal(*both, check_dtype=False)
    assert isinstance(loaded.figure(), Figure) and name in str(loaded)


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
    assert "[2/2] cap done" in capsys.readouterr().err
