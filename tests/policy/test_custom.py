"""A user's own policy: named in the YAML, made with its options, stopped with its name."""

import os
import subprocess
import sys

import pytest

from tests import small
from voicesim.policy import watchdog
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

class Loops:
    def choose(self, view):
        while view.now > 5:
            pass
        return 0

class Stubborn:
    def admit(self, view, replica):
        while view.now > 5:
            try:
                while True:
                    pass
            except Exception:
                pass
        return True

class Leaves:
    def admit(self, view, replica):
        raise SystemExit(0)

class Undecided:
    def admit(self, view, replica):
        return float("nan")

class Deep:
    def choose(self, view):
        return self.choose(view)

class Writes:
    def choose(self, view):
        view.live[0] = 0
        return 0

class Idle:
    pass

def admit(view, replica):
    return True
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
        ("routing", "Idle", ("mypolicies:Idle", "a class with a method choose")),
        ("admission", "admit", ("mypolicies:admit", "a class with a method admit")),
        ("admission", "Leaves", ("mypolicies:Leaves failed at t = 0.", "SystemExit")),
        ("admission", "Undecided", ("mypolicies:Undecided failed at t = 0.", "NaN")),
        ("routing", "Deep", ("mypolicies:Deep failed at t = 0.", "RecursionError")),
        ("routing", "Writes", ("mypolicies:Writes failed at t = 0.", "read-only")),
        ("routing", "Loops", ("mypolicies:Loops did not answer within 1 s at t = 5.",)),
        ("admission", "Stubborn", ("mypolicies:Stubborn did not answer within 1 s at t = 5.",)),
    ],
)
def test_failures_name_the_policy(scenario, monkeypatch, kind, name, words):
    monkeypatch.setattr(watchdog, "LIMIT", 1)
    with pytest.raises(PolicyError) as error:
        simulate(scenario(**{kind: name}).variants["admit_all"])
    for word in words:
        assert word in str(error.value)
    assert "\n" not in str(error.value)


def test_a_worker_stops_a_policy_that_loops(scenario, tmp_path):
    """In a process of its own: the command ends with one line and writes nothing."""
    scenario(routing="Loops")
    words = ["run", "small.yaml", "--workers", "2", "--out", "loops", "--set",
             "policies.routing={policy: 'mypolicies:Loops'}", "--set", "horizon=20s"]  # fmt: skip
    env = {**os.environ, "VOICESIM_POLICY_LIMIT": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "voicesim", *words], cwd=tmp_path, env=env, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert "mypolicies:Loops did not answer within 1 s at t = 5." in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "loops").exists()


@pytest.mark.parametrize("name", ["os:system", "subprocess:Popen", "builtins:eval"])
def test_only_a_policy_is_called(tmp_path, name):
    """A scenario cannot run a command by naming it as a policy."""
    sets = [f"policies.admission={{policy: '{name}', options: {{args: 'touch made'}}}}"]
    with pytest.raises(PolicyError, match="must be a class with a method admit"):
        simulate(load(small.write(tmp_path), sets=sets).variants["admit_all"])
    assert not (tmp_path / "made").exists()


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
