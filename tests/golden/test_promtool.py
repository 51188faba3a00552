"""Prometheus' own promtool on what ``voicesim alarms`` writes.

Skipped where promtool is not installed (Debian: apt-get install prometheus); VOICESIM_PROMTOOL=1
makes its absence a failure.
"""

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import yaml

from tests.report import alarms_peak
from voicesim.experiment.alarms import backtest
from voicesim.metrics.alarms import expression, metric
from voicesim.metrics.prometheus import input_series, openmetrics, rules_file, rules_test
from voicesim.scenario import load, load_rules

CLOCKS = [(1, 1), (5, 5), (5, 2)]


@pytest.fixture(scope="module")
def promtool():
    found = shutil.which("promtool")
    if found is None:
        if os.environ.get("VOICESIM_PROMTOOL") == "1":
            pytest.fail("VOICESIM_PROMTOOL=1, and promtool is not on the PATH")
        pytest.skip("promtool is not installed")
    return lambda *arguments, cwd: subprocess.run(
        [found, *map(str, arguments)], cwd=cwd, capture_output=True, text=True
    )


@pytest.fixture(scope="module", params=CLOCKS, ids=str)
def written(request, tmp_path_factory, promtool):
    """The three files of one run, and what they were made of."""
    folder = tmp_path_factory.mktemp("prom")
    path, rules = alarms_peak.write(folder)
    scrape, evaluate = request.param
    found = backtest(load(path), load_rules(rules), variants=["admit_all"], replications=1,
                     scrape=scrape, evaluate=evaluate, workers=1)  # fmt: skip
    seen, asked = found.seen["admit_all", 0], found.asked
    clock = asked.clock(found.file.variants["admit_all"])
    (folder / "rules.yaml").write_text(rules_file(asked.rules, clock))
    (folder / "rules_test.yaml").write_text(rules_test(seen, asked.rules, clock))
    (folder / "series.om").write_text(openmetrics(seen, clock))
    return folder, seen, asked.rules, clock


def test_the_rules_pass_their_test(written, promtool):
    folder, *_ = written
    checked = promtool("check", "rules", "rules.yaml", cwd=folder)
    assert checked.returncode == 0, checked.stderr
    assert "8 rules found" in checked.stdout
    tested = promtool("test", "rules", "rules_test.yaml", cwd=folder)
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_an_alarm_out_of_place_fails_it(written, promtool):
    folder, *_ = written
    content = yaml.safe_load((folder / "rules_test.yaml").read_text())
    fired = [c for c in content["tests"][0]["alert_rule_test"] if c["exp_alerts"]]
    assert len({c["alertname"] for c in fired}) >= 5
    fired[0]["exp_alerts"] = []
    (folder / "wrong_test.yaml").write_text(yaml.safe_dump(content))
    assert promtool("test", "rules", "wrong_test.yaml", cwd=folder).returncode == 1


def test_values_are_prometheus_to_the_bit(written, promtool):
    """The left side of every rule at up to 40 evaluations, as promtool compares them: exactly."""
    folder, seen, rules, clock = written
    at = clock.evaluations((seen.bins - 1) * seen.bin_s)
    every, checks = clock.evaluate * clock.bin_s, []
    for rule in rules:
        left = expression(rule).rsplit(" ", 2)[0]
        values = metric(seen, rule, clock, at)
        for j in np.linspace(0, len(at) - 1, 40).astype(int):
            value = values[j]
            nothing = np.isnan(value) and "histogram" not in left  # a quantile of nothing is NaN
            samples = [] if nothing else [{"labels": "{}", "value": float(value)}]
            if not np.isnan(value) or nothing:
                time = f"{round(1000 * j * every)}ms"
                checks.append({"expr": left, "eval_time": time, "exp_samples": samples})
    assert sum(bool(c["exp_samples"]) for c in checks) > 200
    test = {
        "interval": f"{round(clock.bin_s * 500)}ms",
        "input_series": input_series(seen, rules, clock),
        "promql_expr_test": checks,
    }
    content = {"evaluation_interval": f"{every:g}s", "tests": [test]}
    (folder / "values_test.yaml").write_text(yaml.safe_dump(content))
    tested = promtool("test", "rules", "values_test.yaml", cwd=folder)
    assert tested.returncode == 0, (tested.stdout + tested.stderr)[:3000]


def test_prometheus_takes_the_series(written, promtool):
    folder, seen, _, clock = written
    made = promtool("tsdb", "create-blocks-from", "openmetrics", "series.om", "db", cwd=folder)
    assert made.returncode == 0, made.stderr
    listed = promtool("tsdb", "list", "db", cwd=folder)
    series = 3 * 2 + 1 + 42 + 2 * 24  # gauges of two engines, a counter, three histograms
    row = listed.stdout.splitlines()[1].split()
    assert str(series) in row
    assert str(series * len(clock.scrapes(seen.bins))) in row


def test_the_checks_insist_on_promtool_where_it_is(tmp_path):
    """.ci/run with a promtool on the PATH, and a make that only says what it was asked."""
    for name, text in (("promtool", ""), ("make", 'echo "$1 $VOICESIM_PROMTOOL"')):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    given = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    run = Path(__file__).parents[2] / ".ci" / "run"
    done = subprocess.run([run], env=given, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["test 1", "lint 1", "docs 1", "release 1"]
