"""``voicesim plan``: its error rate on a known model, Erlang B, resuming, and what it refuses."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from scipy.stats import binom
from typer.testing import CliRunner

from tests.experiment import loss
from tests.oracles.test_erlang import erlang_b
from voicesim.cli import app
from voicesim.experiment import plan as plans
from voicesim.experiment import plan_search as search
from voicesim.experiment.backends import Processes
from voicesim.experiment.plan_search import Limit, Sample

RUNNER = CliRunner()
SEEDS = 400
ERROR = 0.05
LIMIT = Limit("good", True, 0.9)


def command(path, *more):
    return RUNNER.invoke(app, ["plan", str(path), *map(str, more)], env={"COLUMNS": "200"})


# --- the search alone -------------------------------------------------------------------------


def bernoulli(seed, shares, calls):
    """Replications of ``calls`` calls; common random numbers: setting i is good where u < p_i."""
    u = np.random.default_rng(seed).random((40, calls))
    rule = search.rule_of(1 - ERROR, search.depth(len(shares)), 40)
    nodes = {}

    def meets(i):
        good = (u < shares[i]).mean(axis=1)
        nodes[i] = search.judge(
            [LIMIT], lambda n: {"good": Sample(list(good[:n]), [calls] * n)}, rule
        )
        return nodes[i].verdict == search.MEETS

    return search.bisect(0, len(shares) - 1, meets), nodes


@pytest.mark.parametrize("calls", [5, 400])
@pytest.mark.parametrize("step", [0.002, 0.03])
def test_the_search_is_wrong_as_seldom_as_it_says(calls, step):
    """Setting 9 is the first of 16 at 0.9 or more; the neighbours are ``step`` apart, so that
    some seeds cannot tell (a dearer answer, which says so)."""
    truth = 9
    shares = [min(0.9 + step * (i - truth + 0.5), 0.9999) for i in range(16)]
    short = wrong = 0
    for seed in range(SEEDS):
        answer, nodes = bernoulli(seed, shares, calls)
        undecided = any(n.verdict == search.UNDECIDED for n in nodes.values())
        short += answer is not None and answer < truth
        wrong += answer != truth and not undecided
        assert len(nodes) <= search.depth(16)
    most = binom.ppf(0.999, SEEDS, ERROR)
    assert short <= most and wrong <= most
    if calls == 400 and step == 0.03:
        right = sum(bernoulli(seed, shares, calls)[0] == truth for seed in range(SEEDS))
        assert right >= 0.95 * SEEDS


def test_success_needs_replications():
    """All good tells little when it is few: the sign test's number, and the binomial bound."""
    rule = search.rule_of(0.95, 5, 40)
    assert 2.0**-rule.least <= rule.level < 2.0 ** -(rule.least - 2)
    assert rule.level * 5 * len(rule.looks) == pytest.approx(0.05)
    sure = search.judge([LIMIT], lambda n: {"good": Sample([1.0] * n, [400] * n)}, rule)
    assert (sure.verdict, sure.replications) == (search.MEETS, rule.least)
    few = search.judge([LIMIT], lambda n: {"good": Sample([1.0] * n, [1] * n)}, rule)
    assert few.verdict == search.UNDECIDED  # 40 calls of 40: p could still be below 0.9
    blind = search.judge([LIMIT], lambda n: {"good": Sample([None] * n)}, rule)
    assert blind.verdict == search.UNDECIDED
    with pytest.raises(ValueError, match="at least"):
        search.rule_of(0.95, 5, 6)


def test_bisection_and_scan_are_exhaustive():
    for n in range(1, 20):
        for k in range(n + 1):
            asked = []
            found = search.bisect(0, n - 1, lambda i, k=k, a=asked: a.append(i) or i >= k)
            assert found == (k if k < n else None)
            assert len(asked) <= search.depth(n)
    needs = [9, 4, 4, 2, 7]
    assert search.scan(5, 9, lambda r, i: i >= needs[r]) == (3, 2)
    assert search.scan(1, 9, lambda r, i: i >= needs[r]) is None


# --- the command ------------------------------------------------------------------------------


ASKED = ("--variant", "cap", "--slo", "refused<=1%", "--vary", "policies.admission.streams=6..37")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return loss.write(tmp_path_factory.mktemp("plan"))


@pytest.fixture(scope="module")
def done(path):
    """(folder, printed) of a finished plan with two workers."""
    out = path.parent / "two"
    result = command(path, *ASKED, "--workers", 2, "--out", out)
    assert result.exit_code == 0, result.output
    return out, result.output


def test_it_is_the_answer_of_erlang(path, done):
    found = json.loads((done[0] / "plan.json").read_text())
    slots = found["answer"]["setting"]["policies.admission.streams"]
    load = loss.load_of(path)
    assert erlang_b(load, slots) <= 0.01 < erlang_b(load, slots - 1)
    assert found["undecided"] == []
    assert found["first_to_break"]["setting"]["policies.admission.streams"] == slots - 1


def test_the_words(done):
    text = done[1]
    for word in ("meets every SLO with 95 %", "headroom", "just beyond it", "next best", "runs",
                 "no success on fewer"):  # fmt: skip
        assert word in text


def test_one_worker_says_the_same_and_nothing_is_repeated(path, done, monkeypatch):
    one = path.parent / "one"
    assert command(path, *ASKED, "--workers", 1, "--out", one).exit_code == 0
    first = (one / "plan.json").read_bytes()
    assert first == (done[0] / "plan.json").read_bytes()

    played = []
    run = Processes.run

    def spy(self, jobs, *more):
        jobs = list(jobs)
        played.extend(jobs)
        return run(self, jobs, *more)

    monkeypatch.setattr(Processes, "run", spy)
    assert command(path, *ASKED, "--workers", 1, "--out", one).exit_code == 0
    assert played == [] and (one / "plan.json").read_bytes() == first
    kept = sorted((one / "runs").iterdir())
    for gone in kept[:3]:
        gone.unlink()
    assert command(path, *ASKED, "--workers", 1, "--out", one).exit_code == 0
    assert len(played) == 3 and (one / "plan.json").read_bytes() == first
    assert (one / "report.html").read_bytes() == (done[0] / "report.html").read_bytes()


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGKILL])
def test_interrupted_and_started_again(path, done, kind):
    out = path.parent / f"cut{int(kind)}"
    process = subprocess.Popen(
        [sys.executable, "-m", "voicesim", "plan", str(path), *ASKED, "--workers", "1", "--out",
         str(out)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while len(list(out.glob("runs/*.json"))) < 3:
        assert process.poll() is None
        time.sleep(0.01)
    os.kill(process.pid, kind)
    _, said = process.communicate()
    if kind == signal.SIGINT:
        assert process.returncode == 130 and "finished runs are kept" in said
    before = {p: p.stat().st_mtime_ns for p in out.glob("runs/*.json")}
    assert command(path, *ASKED, "--workers", 1, "--out", out).exit_code == 0
    assert before == {p: p.stat().st_mtime_ns for p in before}
    assert (out / "plan.json").read_bytes() == (done[0] / "plan.json").read_bytes()


def test_two_dimensions_and_raised_cards(path):
    """Replicas by bisection, streams per replica scanned; the file has a single card."""
    out = path.parent / "grid"
    result = command(
        path, "--variant", "cap", "--slo", "refused<=2%", "--vary",
        "policies.admission.streams=4..12:4", "--vary", "pools.tts.replicas=1..4",
        "--out", out, "--workers", 2, "--json", "--quiet",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    best = found["answer"]["setting"]
    # about 7.5 busy slots: 2 x 8 and 2 x 12 do, 2 x 4 and 1 x 12 do not; the first of equals wins
    assert best == {"cluster.pools.tts.replicas": 2, "policies.admission.streams": 8}
    others = [tuple(j["setting"].values()) for j in found["next_best"]]
    assert others[0] == (2, 12) and len(others) == 3  # as many cards, then three
    assert all(cards == 3 for cards, _ in others[1:])
    assert any("searched: cluster.pools.tts.replicas" in n for n in found["notes"])
    assert any("count (1) is raised" in n for n in found["notes"])


def test_none_meets(path):
    result = command(
        path, "--variant", "cap", "--slo", "refused<=1%", "--vary",
        "policies.admission.streams=2..4", "--out", path.parent / "none", "--workers", 1,
    )  # fmt: skip
    assert result.exit_code == 1
    assert "no setting was shown to meet" in result.output


@pytest.mark.parametrize(
    ("slo", "vary", "says"),
    [
        ("claen>=99%", "pools.tts.replicas=1..4", "did you mean 'clean'?"),
        ("clean<=99%", "pools.tts.replicas=1..4", "limited by >="),
        ("clean>=99", "pools.tts.replicas=1..4", "between 0 and 100 %"),
        ("clean=99%", "pools.tts.replicas=1..4", "expected such as"),
        ("ttfa_p95<=400", "pools.tts.replicas=1..4", "needs a unit"),
        ("pace_p99>=fast", "pools.tts.replicas=1..4", "a number such as"),
        ("clean>=99%", "pools.tts.replcas=1..4", "did you mean 'replicas'?"),
        ("clean>=99%", "pools.tts.replicas=4", "expected KEY=LOW..HIGH"),
        ("clean>=99%", "pools.tts.replicas=0..4", "--vary"),
        ("clean>=99%", "policies.admission.streams=1..4", "streams"),
    ],
)
def test_what_it_refuses(path, slo, vary, says):
    out = path.parent / "refused"
    result = command(path, "--slo", slo, "--vary", vary, "--out", out)
    assert result.exit_code == 2
    assert says in result.stderr and result.stderr.strip().count("\n") == 0
    assert not out.exists()


@pytest.mark.parametrize(
    "more", [("--variant", "cpa"), ("--confidence", "1.5"), ("--max-replications", "5")]
)
def test_what_else_it_refuses(path, more):
    result = command(path, "--slo", "clean>=99%", "--vary", "pools.tts.replicas=1..4", *more)
    assert result.exit_code == 2 and result.stderr.strip().count("\n") == 0


def test_units():
    assert plans.limit_of("ttfa_p95 <= 400ms") == Limit("ttfa_p95_s", False, 0.4)
    assert plans.limit_of("clean>=99%") == Limit("clean_share", True, 0.99)
    assert plans.limit_of("pace_p99>=1.2x") == Limit("pace_p99", True, 1.2)
    assert plans.limit_of("refused<=0.01") == Limit("refused", False, 0.01)
