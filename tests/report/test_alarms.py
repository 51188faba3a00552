"""``voicesim alarms``: what a small peak says of its rules, what is kept, what is refused."""

import json
import math

import matplotlib.image
import numpy as np
import pandas as pd
import pytest
import yaml
from typer.testing import CliRunner

from tests import small
from tests.report import alarms_peak
from voicesim.cli import app
from voicesim.experiment import alarms as study
from voicesim.metrics.alarms import watch
from voicesim.scenario import load, load_rules

RUNNER = CliRunner()


def command(path, *more):
    arguments = ["alarms", str(path), "--workers", "1", *map(str, more)]
    return RUNNER.invoke(app, arguments, env={"COLUMNS": "120"})


@pytest.fixture(scope="module")
def peak(tmp_path_factory):
    folder = tmp_path_factory.mktemp("peak")
    path, rules = alarms_peak.write(folder)
    out = folder / "out"
    more = ("--rules", rules, "--scrape", "1s", "--horizon", "1min", "--out", out)
    result = command(path, *more, "--replications", "6")
    assert result.exit_code == 0, result.output
    return path, rules, out, result


def test_the_gap_warns_and_the_waiting_gauge_does_not(peak):
    _, _, out, result = peak
    found = json.loads((out / "alarms.json").read_text())
    loaded = found["variants"]["admit_all"]
    assert loaded["waiting_at_first_stall"] == [0] * 6
    rules = {rule["rule"]: rule for rule in loaded["rules"]}
    assert rules["Gap"]["verdict"] == "warns"
    assert rules["Gap"]["first_stall"]["warned"] == 6
    assert all(lead >= 0 for lead in rules["Gap"]["leads_s"])
    assert rules["Waiting"]["first_stall"] == {"warned": 0, "early": 0, "late": 6, "missed": 0}
    assert rules["Waiting"]["lead_s"] < -15
    assert loaded["rules"][0]["rule"] == "Gap"  # the best first
    assert rules["Gap"]["hours"] == pytest.approx(6 * 175 / 3600)
    assert found["variants"]["cap"]["waiting_at_first_stall"] == []
    text = " ".join(result.output.split())
    said = "the waiting gauge reads 0 at the first audible stall in 6 of 6 runs"
    assert f"admit_all: {said}" in text
    lead = rules["Gap"]["lead_s"]
    assert f"Gap (p99 chunk gap > 0.75x the chunk's audio) warns {lead:.2g} s before" in text
    assert "cap: no audible stall in 6 runs" in text


def test_the_folder(peak):
    _, _, out, _ = peak
    names = {"alarms.json", "alarms.parquet", "alarms.png", "rules.yaml", "rules_test.yaml",
             "scenario.yaml", "series.om", "runs", "report.html"}  # fmt: skip
    assert {p.name for p in out.iterdir()} == names
    assert len(list((out / "runs").iterdir())) == 12
    assert matplotlib.image.imread(out / "alarms.png").std() > 0.05
    variants = json.loads((out / "alarms.json").read_text())["variants"]
    rows = [(v, row) for v, of in variants.items() for row in of["rules"]]
    table = pd.read_parquet(out / "alarms.parquet")
    for cells, (variant, row) in zip(table.to_dict("records"), rows, strict=True):
        assert (cells["variant"], cells["rule"]) == (variant, row["rule"])
        assert [cells[f"episodes.{o}"] for o in row["episodes"]] == [*row["episodes"].values()]
        known = [math.nan if x is None else x for x in row["leads_s"]]
        np.testing.assert_array_equal(cells["leads_s"], known)
        low, high = row["lead_range_s"] or (None, None)
        assert math.isnan(cells["lead_low_s"]) if low is None else cells["lead_low_s"] == low
        assert math.isnan(cells["lead_high_s"]) if high is None else cells["lead_high_s"] == high
    rules = yaml.safe_load((out / "rules.yaml").read_text())["groups"][0]
    assert rules["interval"] == "1s"
    assert [rule["alert"] for rule in rules["rules"]][:2] == ["Gap", "Waiting"]
    assert "exports this" in rules["rules"][0]["annotations"]["description"]
    assert rules["rules"][2]["for"] == "5s"
    test = yaml.safe_load((out / "rules_test.yaml").read_text())["tests"][0]
    fires = {c["alertname"] for c in test["alert_rule_test"] if c["exp_alerts"]}
    assert {"Gap", "Waiting", "Busy", "Idle"} <= fires
    lines = (out / "series.om").read_text().splitlines()
    assert lines[-1] == "# EOF"
    assert "# TYPE vllm:num_preemptions counter" in lines
    gaps = [x for x in lines if x.startswith('voicesim:chunk_gap_ratio_bucket{le="+Inf"}')]
    assert gaps[0].endswith(" 1767225601.000")


def test_runs_are_kept_whatever_the_rules(peak, monkeypatch):
    path, _, out, _ = peak
    played = []
    monkeypatch.setattr(study, "play", lambda job: played.append(job) or pytest.fail())
    result = command(path, "--rules", "shipped", "--replications", "6", "--out", out, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["settings"]["scrape_s"] == 5
    assert played == []


def test_a_broken_off_study_goes_on(peak, tmp_path, monkeypatch):
    """Interrupted after one run: exit 130; the same command plays the others; the same answer."""
    path, rules, out, _ = peak
    more = ("--rules", rules, "--variant", "cap", "--replications", "2", "--out", tmp_path / "o")
    played = []

    def play(job):
        if len(played) == 1:
            raise KeyboardInterrupt
        played.append(job.id)
        return original(job)

    original = study.play
    monkeypatch.setattr(study, "play", play)
    broken = command(path, *more)
    assert broken.exit_code == 130
    assert "1 finished runs are kept" in broken.stderr
    assert [p.name for p in (tmp_path / "o").iterdir()] == ["runs"]
    monkeypatch.setattr(study, "play", original)
    assert command(path, *more, "--quiet").output == f"{tmp_path / 'o'}\n"
    for name in {p.name for p in (tmp_path / "o" / "runs").iterdir()}:
        kept = (out / "runs" / name).read_text()  # the peak's own first runs, to the byte
        assert (tmp_path / "o" / "runs" / name).read_text() == kept


def test_the_scenarios_own_rules(tmp_path):
    path = small.write(tmp_path)
    result = command(path, "--replications", "1", "--out", tmp_path / "o", "--variant", "cap",
                     "--set", "horizon=20s")  # fmt: skip
    assert result.exit_code == 0
    found = json.loads((tmp_path / "o" / "alarms.json").read_text())
    assert [rule["name"] for rule in found["rules"]] == ["chunk_gap_p99_over_10s_above_1"]
    assert found["settings"]["rules"] == "small.yaml"
    assert list(found["variants"]) == ["cap"]


@pytest.mark.parametrize(
    ("more", "start"),
    [
        (["--scrape", "15s"], "small.yaml: chunk_gap_p99_over_10s_above_1: over: 10s does not hold "
         "the two samples that rate() needs every 15s; 30s at least (--scrape)"),
        (["--scrape", "1.5s"], "--scrape: 1.5s is no multiple of series.resolution (1s)"),
        (["--evaluate", "-1s"], "--evaluate: a duration cannot be negative"),
        (["--horizon", "0"], "--horizon: must be more than 0"),
        (["--variant", "capp"], "variant 'capp' is not known; did you mean 'cap'?"),
        (["--backend", "dusk"], "backend 'dusk' is not known; did you mean 'dask'?"),
        (["--rules", "none.yaml"], "none.yaml: cannot be read"),
        (["--set", "series.resolution=3ms", "--set", "drain=1s", "--scrape", "3ms"],
         "series.resolution: 0.003s is no even number of milliseconds"),
        (["--set", "alarms=[{metric: wating, above: 1}]"],
         "--set alarms=[{metric: wating, above: 1}]: alarms.0.metric: unknown name 'wating'; "
         "did you mean 'waiting'?"),
    ],
)  # fmt: skip
def test_what_is_refused(tmp_path, more, start):
    path = small.write(tmp_path)
    result = command(path, "--out", tmp_path / "o", *more)
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith(start), result.stderr
    assert "Traceback" not in result.output
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("{metric: waiting}", "above: give exactly one of above and below; found neither"),
        (
            "{metric: waiting, above: 1, below: 2}",
            "above: give exactly one of above and below; fou",
        ),
        ("{metric: ttfa_p95, above: 1s}", "over: missing; ttfa_p95 is taken over a window"),
        ("{metric: waiting, above: 1, for: -5s}", "for: a duration cannot be negative"),
        ("{metric: waiting, above: 1, fro: 5s}", "fro: unknown key; did you mean 'for'?"),
        ("{metric: kv_cache, above: 90}", "above: must lie between 0 and 1"),
        ("{metric: preemptions, over: 10s, above: 1s}", "above: expected a rate such as"),
        ("{metric: ttfa_p95, over: 10s, above: 1/s}", "above: expected a duration such as"),
        ("{metric: waiting, above: 1x_chunk}", "above: x_chunk is for chunk_gap_p99 only"),
        ("{metric: waiting, above: 1, name: a b}", "name: expected letters, digits and _"),
    ],
)
def test_rules_that_are_refused(tmp_path, rule, message):
    path, rules = small.write(tmp_path), tmp_path / "r.yaml"
    rules.write_text(f"alarms:\n  - {rule}\n")
    result = command(path, "--rules", rules, "--out", tmp_path / "o")
    assert result.exit_code == 2
    assert result.stderr.startswith(f"r.yaml:2: alarms.0.{message}"), result.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("alarms: []\n", "r.yaml:1: alarms: "),
        ("rules: []\n", "r.yaml:1: rules: unknown key"),
        ("alarms:\n  - {metric: waiting, above: 1}\n  - {metric: waiting, above: 1}\n",
         "r.yaml: alarms.1: an earlier rule is named 'waiting_above_1' too"),
        ("alarms:\n  - {metric: waiting, above: 1, over: 500ms}\n",
         "r.yaml: alarms.0.over: 0.5s does not hold one sample every 1s; 1s at least (series.res"),
    ],
)  # fmt: skip
def test_lists_that_are_refused(tmp_path, text, message):
    path, rules = small.write(tmp_path), tmp_path / "r.yaml"
    rules.write_text(text)
    result = command(path, "--rules", rules, "--out", tmp_path / "o")
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_prebuffer_hides_the_first_packet(tmp_path):
    alarm = "alarms=[{metric: ttfp_p95, over: 10s, above: 1s}]"
    path = small.write(tmp_path)
    result = command(path, "--set", alarm, "--set", "listener.player.prebuffer=200ms")
    assert result.exit_code == 2
    assert "alarms.0.metric: with listener.player.prebuffer the first packet is" in result.stderr


def test_variants_with_rules_of_their_own(tmp_path):
    text = small.SCENARIO + "  deaf: {alarms: [{metric: waiting, above: 1}]}\n"
    path = small.write(tmp_path, text)
    result = command(path)
    assert result.exit_code == 2
    assert "the variants have different ones" in result.stderr
    more = ("--variant", "deaf", "--replications", "1", "--out", tmp_path / "o", "--quiet")
    assert command(path, *more).exit_code == 0


@pytest.mark.parametrize("pools", [1, 2])
def test_run_and_alarms_evaluate_alike(tmp_path, pools):
    """``alarm_fired_s`` of a run is the first spell of the back-test at one scrape a bin."""
    path, _ = alarms_peak.write(tmp_path)
    if pools == 2:
        path.write_text(alarms_peak.in_two_pools())
    rule = "alarms=[{metric: chunk_gap_p99, over: 10s, above: 0.75x_chunk, for: 2s, name: G}]"
    ran = RUNNER.invoke(app, ["run", str(path), "--set", rule, "--replications", "1",
                              "--workers", "1", "--out", str(tmp_path / "run")])  # fmt: skip
    assert ran.exit_code == 0, ran.output
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())["variants"]["admit_all"]
    file = load(path, sets=[rule])
    asked = study.backtest(file, file.variants["admit_all"].alarms, variants=["admit_all"],
                           replications=1, scrape=0, workers=1)  # fmt: skip
    clock = asked.asked.clock(file.variants["admit_all"])
    seen = asked.seen["admit_all", 0]
    assert seen.running.shape[1] == 2
    assert (seen.kv.max(axis=0) > 0).all()
    spells = watch(seen, asked.asked.rules[0], clock).spells(seen.warmup)
    assert summary["alarm_fired_s"]["chunk_gap_p99: G"]["mean"] == spells[0, 0]
    lead = asked.findings[0].leads[0]
    assert summary["alarm_lead_s"]["mean"] == pytest.approx(lead)


def test_the_shipped_rules_are_read():
    rules = load_rules(study.SHIPPED)
    assert {"chunk_gap_p99", "waiting", "kv_cache", "running", "preemptions"} < {
        rule.metric for rule in rules
    }
