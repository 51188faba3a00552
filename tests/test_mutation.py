"""What the figures of benchmarks/mutation.py rest on: the model interpreted, and that a change is
noticed by a test that fails and by nothing else."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.report.test_pages import load

HOME = Path(__file__).parents[1]
TEST = "tests/listener/test_player.py::test_a_rebuffer_threshold_lengthens_the_stall"


def test_the_interpreted_model_is_the_reference_to_the_last_bit():
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.interpreted",
         "tests/engine/test_equality.py", "-k", "kv_pressure"],
        cwd=HOME, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("old", "new", "outcome"),
    [
        ("", "", "survives"),
        ("stall = t - since", "stall = t + since", "fails"),
        ("lost = held - max_queue", "lost = held + max_queue", "survives"),  # not in this test
        ("stall = 0.0\n", "stall = 0.0\n    while True: pass\n", "hangs"),
        ("stall = 0.0\n", "stall = 0.0\n    import os; os.abort()\n", ""),
        ("def deliver(", "def delivered(", "fails"),
    ],
)
def test_what_comes_of_a_change(tmp_path, old, new, outcome):
    path = HOME / "voicesim" / "listener" / "player.py"
    source = path.read_text(encoding="utf-8").replace(old, new, 1)
    said = tmp_path / "said.json"
    code = (
        "import json, sys; from pathlib import Path; from tests import watched; "
        "watched.SLACK = 2.0; path, source, test, said = sys.argv[1:]; "
        "watched.play('voicesim.listener.player', path, source, [test], {}, "
        "lambda what: Path(said).write_text(json.dumps(what)))"
    )
    subprocess.run([sys.executable, "-c", code, str(path), source, TEST, str(said)], cwd=HOME)
    assert (json.loads(said.read_text())[0] if said.exists() else "") == outcome
    assert path.read_text(encoding="utf-8") != source or old == new  # the file stays as it was


def test_places_and_what_may_be_put_there(tmp_path):
    pytest.importorskip("cosmic_ray", reason="not locked: it needs a package without a wheel")
    mutation = load("mutation")
    file = tmp_path / "rule.py"
    file.write_text('def rule(a: int | None, b: "x" = 1) -> int | None:\n    return a + 2\n')
    found = {(s.start, s.end) for s in mutation.places(file, "rule.py")}
    assert found == {((1, 33), (1, 34)), ((2, 13), (2, 14)), ((2, 15), (2, 16))}


def test_a_longer_draw_begins_with_the_shorter():
    mutation = load("mutation")
    every = [mutation.Site("f", (n, 0), (n, 1), (("a", n), ("b", n))) for n in range(50)]
    few, more = mutation.drawn(every, 10, 3), mutation.drawn(every, 30, 3)
    assert more[:10] == few
    assert len(set(more)) == 30
    assert {c[0] for _, c in more} == {"a", "b"}
    assert mutation.drawn(every, 10, 4) != few
