"""``voicesim gate`` from files to exit code: sides, pairing, quality, JUnit, what is refused."""

import json
import os
import signal
import subprocess
import sys
from xml.etree import ElementTree as Xml

import pandas as pd
import pytest
from scipy import stats
from typer.testing import CliRunner

from tests.experiment import busy
from voicesim.cli import app

RUNNER = CliRunner()
SIX = ["--replications", "6"]


def run(*arguments):
    return RUNNER.invoke(app, [*map(str, arguments)], env={"COLUMNS": "160"})


def gate(*arguments):
    alone = () if "--candidate" in arguments else ("--workers", 1)
    return run("gate", *arguments, *alone)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A scenario and a finished run of it: variants admit_all, cap, twin, crowd."""
    base = tmp_path_factory.mktemp("gate")
    path = busy.write(base)
    done = run("run", path, "--out", base / "old", "--workers", 1, "--quiet", *SIX)
    assert done.exit_code == 0, done.output
    return base


@pytest.fixture(scope="module")
def failed(place):
    """A candidate without the cap against the baseline with it."""
    out, junit = place / "failed", place / "reports" / "gate.xml"
    result = gate("--baseline", place / "old", "--scenario", place / "small.yaml", "--variant",
                  "admit_all", "--baseline-variant", "cap", "--out", out, "--junit",
                  junit)  # fmt: skip
    assert result.exit_code == 1, result.output
    return out, junit, result.output


def test_a_real_worsening_fails_with_numbers(failed, place):
    out, _, text = failed
    found = json.loads((out / "gate.json").read_text())
    assert "<b>FAIL: " in (out / "report.html").read_text()
    assert found["schema"] == "voicesim-gate/1" and not found["passed"] and found["paired"]
    (row,) = [r for r in found["metrics"] if r["metric"] == "clean_share"]
    table = pd.read_parquet(place / "old" / "replications.parquet")
    table = table.pivot(index="replication", columns="variant", values="clean_share")
    test = stats.ttest_rel(table["admit_all"], table["cap"])
    assert row["p"] == pytest.approx(test.pvalue)
    low, high = test.confidence_interval()
    assert (row["low"], row["high"]) == pytest.approx((low, high))
    assert row["verdict"] == "worse" and row["difference"] < 0
    assert "FAIL: " in text and "CLEAN share worse: " in text and "Holm" in text


def test_the_same_scenario_passes_and_is_the_same_to_the_bit(place):
    result = gate("--baseline", place / "old", "--scenario", place / "small.yaml", "--json",
                  "--quiet", "--variant", "cap", "--out", place / "same")  # fmt: skip
    assert result.exit_code == 0
    found = json.loads(result.output)
    assert {row["verdict"] for row in found["metrics"]} == {"the same"}
    # what was played now may be the baseline of the next gate
    again = gate("--baseline", place / "same", "--candidate", place / "old", "--variant", "twin",
                 "--baseline-variant", "cap", "--out", place / "next")  # fmt: skip
    assert again.exit_code in (0, 1) and "cap: 6 replications" in again.output


def test_other_callers_are_independent_samples(place):
    result = gate("--baseline", place / "old", "--scenario", place / "small.yaml", "--seed", 6,
                  "--metric", "clean", "--json", "--out", place / "seed6")  # fmt: skip
    found = json.loads(result.stdout)
    assert result.exit_code == 0 and not found["paired"]
    assert "the same seed would pair them" in found["notes"][0]
    assert [row["how"] for row in found["metrics"]] == ["Welch"]


def test_a_margin_lets_a_worsening_pass(place, failed):
    old = place / "old"
    asked = ["--baseline", old, "--candidate", old, "--variant", "admit_all", "--metric", "clean",
             "--baseline-variant", "cap", "--out", place / "margin"]  # fmt: skip
    assert gate(*asked).exit_code == 1
    assert gate(*asked, "--margin", "clean=99%").exit_code == 0


def test_two_scenarios_are_both_played(place):
    path = place / "small.yaml"
    result = gate("--baseline", path, "--scenario", path, "--variant", "twin", "--metric",
                  "stalled", "--baseline-variant", "admit_all", "--replications", 5, "--json",
                  "--out", place / "two")  # fmt: skip
    found = json.loads(result.stdout)
    assert result.exit_code == 0 and found["metrics"][0]["verdict"] == "the same"
    assert found["baseline"]["replications"] == found["candidate"]["replications"] == 5


# --- quality ----------------------------------------------------------------------------------

GRADES = """\
old-voice:
  wer: {value: 3.0%, low: 2.8%, high: 3.2%}
  mos: {samples: [4.2, 4.5, 3.9, 4.4, 4.1, 4.6]}
new-voice:
  wer: {value: 3.6%, low: 3.3%, high: 3.9%}
  mos: {samples: [4.3, 4.4, 4.0, 4.4, 4.2, 4.5]}
"""


def graded(place, text, *more):
    path = place / "grades.yaml"
    path.write_text(text)
    return gate("--baseline", place / "old", "--candidate", place / "old", "--metric", "clean",
                "--out", place / "graded", "--quality", path, "--baseline-model", "old-voice",
                "--model", "new-voice", *more)  # fmt: skip


def test_wer_and_mos_of_model_versions_are_judged(place):
    """+0.6 points with standard errors of .2/1.96 and .3/1.96: z = 3.26."""
    result = graded(place, GRADES, "--json")
    assert result.exit_code == 1
    rows = {r["metric"]: r for r in json.loads(result.stdout)["metrics"]}
    z = 0.006 / ((0.002**2 + 0.003**2) ** 0.5 / stats.norm.ppf(0.975))
    assert rows["wer"]["p"] == pytest.approx(2 * stats.norm.sf(z))
    assert rows["wer"]["verdict"] == "worse" and rows["wer"]["how"] == "given"
    samples = [4.2, 4.5, 3.9, 4.4, 4.1, 4.6], [4.3, 4.4, 4.0, 4.4, 4.2, 4.5]
    assert rows["mos"]["p"] == pytest.approx(stats.ttest_ind(*samples, equal_var=False).pvalue)
    assert rows["mos"]["verdict"] == "cannot tell"
    assert graded(place, GRADES, "--margin", "wer=0.5%").exit_code == 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("3.6%, low: 3.3%", "3.6%, low: 3.7%"), "grades.yaml:5: new-voice.wer: low <= value"),
        (("4.3, 4.4,", "4.3, 44,"), "grades.yaml:6: new-voice.mos: expected a number from 1 to 5"),
        (("mos: {samples: [4.2,", "msos: {samples: [4.2,"), "did you mean 'mos'?"),
        (("new-voice", "newvoice"), "no model version 'new-voice' (the candidate's)"),
        (("{value: 3.0%, low: 2.8%, high: 3.2%}", "3%"), "expected {value, low, high}"),
        ((", 4.4, 4.1, 4.6]}", "]}"), "3 samples; at least 5"),
        (("  mos: {samples: [4.2, 4.5, 3.9, 4.4, 4.1, 4.6]}\n", ""), "old-voice: lacks mos"),
    ],
)
def test_bad_grades_are_refused_in_a_line(place, change, words):
    result = graded(place, GRADES.replace(*change))
    assert result.exit_code == 2 and words in result.output
    assert len(result.output.strip().splitlines()) == 1


# --- JUnit ------------------------------------------------------------------------------------


def test_junit_has_the_structure_that_build_servers_read(failed):
    """The rules of Ant's schema (attributes that are required, order of elements, counts) and of
    Jenkins', which allows ``skipped`` beside them."""
    root = Xml.fromstring(failed[1].read_bytes())
    assert root.tag == "testsuites"
    (suite,) = root
    needed = {"name", "package", "id", "timestamp", "hostname", "tests", "failures", "errors",
              "time"}  # fmt: skip
    assert suite.tag == "testsuite" and needed <= set(suite.attrib)
    assert pd.Timestamp(suite.attrib["timestamp"]).tz is None  # ISO 8601 without a zone
    tags = [child.tag for child in suite]
    cases = suite.findall("testcase")
    assert tags == ["properties", *["testcase"] * len(cases), "system-out", "system-err"]
    assert all({"name", "value"} == set(p.attrib) for p in suite.find("properties"))
    for case in cases:
        assert {"name", "classname", "time"} == set(case.attrib)
        assert [child.tag for child in case] in ([], ["failure"], ["skipped"])
    failures = suite.findall("testcase/failure")
    assert all({"type", "message"} == set(f.attrib) and f.text for f in failures)
    for name, count in (("tests", cases), ("failures", failures),
                        ("skipped", suite.findall("testcase/skipped"))):  # fmt: skip
        assert int(suite.attrib[name]) == len(count)
    assert root.attrib["failures"] == suite.attrib["failures"] and suite.attrib["errors"] == "0"


def test_junit_says_what_gate_json_says(failed):
    rows = json.loads((failed[0] / "gate.json").read_text())["metrics"]
    suite = Xml.fromstring(failed[1].read_bytes())[0]
    names = [case.attrib["name"] for case in suite.findall("testcase")]
    assert names == [row["metric"] for row in rows]
    wrong = [c.attrib["name"] for c in suite.findall("testcase") if c.find("failure") is not None]
    assert wrong == [row["metric"] for row in rows if row["failed"]] and "clean_share" in wrong
    clean = next(row for row in rows if row["metric"] == "clean_share")
    message = suite.find("testcase[@name='clean_share']/failure").attrib["message"]
    assert f"{100 * clean['baseline']:.1f}%" in message
    assert f"{100 * clean['candidate']:.1f}%" in message


# --- refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "give either a scenario to play or the folder"),
        (["--scenario", "{path}", "--replications", 4], "4 replications; at least 5 are needed"),
        (["--scenario", "{path}", "--set", "horizon=30s"], "horizon is 20.0 of the baseline"),
        (["--scenario", "{path}", "--variant", "capp"], "did you mean 'cap'?"),
        (["--scenario", "{path}", "--margin", "clen=1%"], "did you mean 'clean'?"),
        (["--scenario", "{path}", "--margin", "ttfa_p99=20"], "20 needs a unit"),
        (["--scenario", "{path}", "--margin", "ttfa_p50=20ms"], "that metric is not judged"),
        (["--scenario", "{path}", "--margin", "pace_p99=-1"], "a margin is 0 or more"),
        (["--scenario", "{path}", "--metric", "offered"], "metric 'offered' is not known"),
        (["--scenario", "{path}", "--metric", "cost_per_1000_clean_calls", "--backend", "x"],
         "backend 'x' is not known"),
        (["--candidate", "{old}", "--seed", 1], "--seed is of a scenario that is played"),
        (["--candidate", "{old}", "--replications", 9], "--replications is of a scenario"),
        (["--candidate", "{old}", "--set", "seed=2"], "--set is of a scenario"),
        (["--candidate", "{old}", "--workers", 2], "--workers is of a scenario"),
        (["--candidate", "{old}", "--backend", "dask"], "--backend is of a scenario"),
        (["--scenario", "{old}", "--set", "seed=2"], "--set is of a scenario"),
        (["--scenario", "{path}", "--model", "x"], "--model x: is looked up in --quality FILE"),
        (["--candidate", "{old}", "--baseline-model", "x"], "--baseline-model x: is looked up in"),
        (["--candidate", "{old}x"], "oldx: is no folder; did you mean 'old'?"),
    ],
)  # fmt: skip
def test_bad_input_exits_with_2_and_writes_nothing(place, tmp_path, arguments, words):
    names = {"path": place / "small.yaml", "old": place / "old"}
    filled = [str(a).format(**names) for a in arguments]
    result = gate("--baseline", place / "old", *filled, "--out", tmp_path / "out", "--junit",
                  tmp_path / "gate.xml")  # fmt: skip
    assert result.exit_code == 2, result.output
    assert words in result.output and "Traceback" not in result.output
    assert list(tmp_path.iterdir()) == []


def test_one_replication_is_refused_with_how_many_are_needed(place, tmp_path):
    few = ["--out", tmp_path / "one", "--quiet", "--workers", 1]
    assert run("run", place / "small.yaml", *few).exit_code == 0
    result = gate("--baseline", tmp_path / "one", "--candidate", tmp_path / "one", "--out",
                  tmp_path / "out")  # fmt: skip
    assert result.exit_code == 2
    assert "1 replication; at least 5 are needed to tell a worsening from chance" in result.output


def test_interrupted_keeps_what_is_finished(place, tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "voicesim", "gate", "--baseline", place / "small.yaml",
         "--scenario", place / "small.yaml", "--replications", "500", "--workers", "1", "--out",
         tmp_path / "out"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    while not list(tmp_path.glob("out/runs/*.json")):
        assert process.poll() is None
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in errors
    assert "the same command goes on from here" in errors
    assert not (tmp_path / "out" / "gate.json").exists()


def test_a_candidate_in_which_nobody_is_heard_fails(place, tmp_path):
    """TTFA that no replication of the candidate measured fails; of the baseline, it is skipped."""
    broken = tmp_path / "broken"
    broken.mkdir()
    for name in ("summary.json", "scenario.yaml"):
        (broken / name).write_bytes((place / "old" / name).read_bytes())
    table = pd.read_parquet(place / "old" / "replications.parquet")
    table["ttfa_p99_s"] = float("nan")
    table.to_parquet(broken / "replications.parquet")
    junit = tmp_path / "gate.xml"
    result = gate("--baseline", place / "old", "--candidate", broken, "--metric", "ttfa_p99",
                  "--metric", "clean", "--junit", junit, "--out", tmp_path / "out")  # fmt: skip
    assert result.exit_code == 1
    assert "FAIL: TTFA p99 no longer measured: " in result.output
    back = gate("--baseline", broken, "--candidate", place / "old", "--metric", "ttfa_p99",
                "--metric", "clean", "--junit", junit, "--out", tmp_path / "out")  # fmt: skip
    assert back.exit_code == 0
    suite = Xml.fromstring(junit.read_bytes())[0]
    assert suite.attrib["skipped"] == "1"
    assert suite.find("testcase[@name='ttfa_p99_s']/skipped") is not None


@pytest.mark.parametrize(("kind", "what"), [("plan", "a plan"), ("alarms", "an alarms")])
def test_a_folder_of_another_kind_is_named(place, tmp_path, kind, what):
    (tmp_path / "done").mkdir()
    (tmp_path / "done" / f"{kind}.json").write_text(json.dumps({"schema": f"voicesim-{kind}/1"}))
    result = gate("--baseline", tmp_path / "done", "--scenario", place / "small.yaml", "--out",
                  tmp_path / "out")  # fmt: skip
    assert result.exit_code == 2 and not (tmp_path / "out").exists()
    said = f"{tmp_path / 'done'}: is {what} folder; allowed: run, compare, gate"
    assert result.output.splitlines() == [said]
