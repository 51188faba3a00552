"""A user's own policy: named in the YAML, made with its options, stopped with its name."""

import sys

import pytest

from tests import small
from voicesim.policy.python import PolicyError
from voicesim.scenario import load
from voicesim.simulation import python_policies, simulate
from voicesim.study import run_study

MODULE = """\
class OneInN:
    def __init__(self, n):
        self.n, self.count = n, 0

    def admit(self, view, replica):
        self.count += 1
        return self.count % self.n == 0

class Emptiest:
    def choose(self, view):
        assert view.request().audio_s > 0
        return int(view.running.argmin())

class Late:
    def admit(self, view, replica):
        if view.now > 10:
            raise ValueError("no more")
        return True

class Nonsense:
    def choose(self, view):
        return 7
"""


@pytest.fixture
def scenario(tmp_path, monkeypatch):
    (tmp_path / "mypolicies.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "mypolicies", raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])

    def make(**policies):
        sets = [f"policies.{k}={{policy: 'mypolicies:{v}'}}" for k, v in policies.items()]
        file = load(small.write(tmp_path), sets=["horizon=20s", *sets])
        return file

    return make


def test_a_users_policies_decide_in_kernel_and_reference(scenario):
    file = scenario(routing="Emptiest")
    kernel = run_study(file, workers=1)
    assert kernel.summary == run_study(file, workers=1, engine="reference").summary
    assert kernel.summary["admit_all"]["completed"]["mean"] > 50


def test_options_reach_the_policy(tmp_path, scenario):
    scenario(routing="Emptiest")
    sets = ["policies.admission={policy: 'mypolicies:OneInN', options: {n: 2}}", "horizon=30s"]
    run = simulate(load(small.write(tmp_path), sets=sets).variants["admit_all"])
    ints = run.record.utterance_i
    attempts = ints[ints[:, 1] != 0][:, 6]
    assert attempts.sum() > 20  # every other request was refused and came again


@pytest.mark.parametrize(
    ("kind", "name", "words"),
    [
        ("admission", "Late", ("mypolicies:Late", "no more", "t = 10.")),
        ("routing", "Nonsense", ("mypolicies:Nonsense", "replica 7")),
        ("routing", "Missing", ("mypolicies:Missing",)),
    ],
)
def test_failures_name_the_policy(scenario, kind, name, words):
    with pytest.raises(PolicyError) as error:
        simulate(scenario(**{kind: name}).variants["admit_all"])
    for word in words:
        assert word in str(error.value)


@pytest.mark.parametrize(
    "policies",
    [
        ("cap", "streams: 6", "least_streams"),
        ("cap_queue", "streams: 6, deadline: 400ms", "round_robin"),
        ("slack", "lead: 100ms", "power_of_two"),
        ("admit_all", "", "power_of_two"),
    ],
)
def test_built_in_policies_are_the_same_in_python_and_compiled(tmp_path, monkeypatch, policies):
    admission, knobs, routing = policies
    sets = [
        "horizon=20s", "workload.arrivals.rate=12/s",
        f"policies.admission={{kind: {admission}, {knobs}}}",
        f"policies.routing={{kind: {routing}}}",
    ]  # fmt: skip
    text = small.SCENARIO[: small.SCENARIO.index("variants:")]
    if admission == "admit_all":
        text = text.replace("  refused: {retry: {attempts: 1, backoff: 1s}}\n", "")
    scenario = load(small.write(tmp_path, text), sets=sets).variants["base"]
    compiled = simulate(scenario).record
    monkeypatch.setattr(
        "voicesim.simulation.python_policies",
        lambda s, spec: python_policies(s, spec, always=True),
    )
    asked = simulate(scenario).record
    assert (compiled.utterance_f == asked.utterance_f).all()
    assert (compiled.utterance_i == asked.utterance_i).all()
