"""No name of a scenario, a profile or a result goes or changes its place within a major version.

names.txt holds those that the last release had.  ``python -m tests.golden.test_names`` writes it
anew: for a release, which may add names (the minor version rises), or with a new major version and
its entry in ``voicesim.schemas.MIGRATIONS``.
"""

from pathlib import Path

from voicesim import schemas
from voicesim.engine.profile import Profile
from voicesim.metrics.dialogue_glossary import DIALOGUES
from voicesim.metrics.glossary import METRICS
from voicesim.scenario.keys import keys_of, scenario_keys

FILE = Path(__file__).with_name("names.txt")


def names():
    """KIND/MAJOR and the name, with the kind of mapping that it stands in."""
    found = {
        "scenario": [f"{k.path} {k.kind}".strip() for k in scenario_keys()],
        "profile": [k.path for k in keys_of(Profile.model_json_schema())],
        "summary": [*METRICS, *DIALOGUES],
    }
    return {
        f"{kind}/{schemas.VERSIONS[kind][0]} {name}" for kind, of in found.items() for name in of
    }


def gone(kept, now):
    """What was kept under a major that is still written, and is not there now."""
    majors = {name.split()[0] for name in now}
    return sorted(name for name in set(kept) - set(now) if name.split()[0] in majors)


def test_nothing_goes_within_a_major_version():
    assert gone(FILE.read_text(encoding="utf-8").splitlines(), names()) == []


def test_the_search_finds_what_goes():
    kept = ["scenario/1 a", "scenario/1 b", "summary/1 x"]
    assert gone(kept, {"scenario/1 a", "scenario/1 c", "summary/1 x"}) == ["scenario/1 b"]
    assert gone(kept, {"scenario/2 a", "scenario/2 c", "summary/1 x"}) == []


if __name__ == "__main__":
    FILE.write_text("\n".join(sorted(names())) + "\n", encoding="utf-8")
