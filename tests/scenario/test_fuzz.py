"""Scenarios and profiles, mutated: everything wrong is listed, or they are played.

40 of each here, 2,000 by `make fuzz`.  What still loads and asks for little is also played, for a
second of simulated time.
"""

import zlib
from pathlib import Path

import numpy as np
import pytest

from tests import small, talk
from tests.mutants import mutant, survived
from tests.trust import examples
from voicesim.engine.profile import ProfileError, load_profile
from voicesim.engine.spec import NoProgressError
from voicesim.policy.python import PolicyError
from voicesim.scenario import ScenarioErrors, load
from voicesim.session.play import simulate_dialogue
from voicesim.simulation import ModelError, playable, problems, simulate
from voicesim.workload.arrivals import expected_sessions

HOME = Path(__file__).resolve().parents[2]
SHIPPED = sorted((HOME / "scenarios").rglob("*.yaml"))
PROFILES = sorted((HOME / "calibration" / "profiles").glob("*.yaml"))


def cases(name: str, contents: list[bytes]):
    """Mutants of the files in turn; a failure says which."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    for i in range(examples(40)):
        yield mutant(contents[i % len(contents)], rng)


@pytest.mark.parametrize("name", ["small", "talk", "shipped"])
def test_a_broken_scenario_is_refused_or_loaded(tmp_path, name):
    small.write(tmp_path)
    talk.write(tmp_path)
    contents = [path.read_bytes() for path in SHIPPED]
    if name != "shipped":
        contents = [{"small": small.SCENARIO, "talk": talk.LARGE}[name].encode()]
    path = tmp_path / "case.yaml"

    def attempt(content: bytes) -> str:
        path.write_bytes(content)
        return _load(path, play=name != "shipped")

    survived(f"scenario ({name})", cases(name, contents), attempt)


def _load(path: Path, play: bool) -> str:
    """Load it as ``check`` does, and play it if it is small enough; what came of it."""
    try:
        file = load(path)
        if problems(file):
            return "refused"
    except ScenarioErrors as errors:
        assert errors.problems
        assert all("\n" not in str(problem) for problem in errors.problems)
        return "refused"
    if not play:
        return "loaded"
    sets = ["horizon=1s", "warmup=0s", "drain=5s"]
    try:
        scenario = next(iter(load(path, sets=sets).variants.values()))
        playable(scenario)
    except (ScenarioErrors, ModelError, ProfileError, PolicyError):
        return "loaded"
    if _asks_for_much(scenario):
        return "loaded"
    try:
        if scenario.dialogue:
            simulate_dialogue(scenario)
        else:
            for pool in scenario.apart():
                simulate(pool)
    except NoProgressError as error:
        assert "no progress" in str(error)
    return "played"


def _asks_for_much(scenario) -> bool:
    arrivals = scenario.workload.arrivals
    pools = scenario.cluster.pools.values()
    return (
        arrivals.kind in ("trace", "burst", "closed")
        or expected_sessions(arrivals, 1.0) > 200
        or any(getattr(pool, "replicas", 1) > 50 for pool in pools)
    )


def test_a_broken_profile_is_refused_or_loaded(tmp_path):
    path = tmp_path / "case.yaml"

    def attempt(content: bytes) -> str:
        path.write_bytes(content)
        try:
            load_profile(path).step_cost(512)
        except ProfileError as error:
            assert "\n" not in str(error), str(error)
            return "refused"
        return "loaded"

    survived("profile", cases("profile", [path.read_bytes() for path in PROFILES]), attempt)
