"""The pages that are made of the program are up to date."""

import importlib.util
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def load(name):
    """A module of benchmarks/."""
    spec = importlib.util.spec_from_file_location(name, BENCHMARKS / f"{name}.py")
    made = importlib.util.module_from_spec(spec)
    sys.modules[name] = made  # a dataclass looks itself up
    spec.loader.exec_module(made)
    return made


@pytest.mark.parametrize(
    ("name", "text", "lacks"),
    [
        ("test_c01_x.py", '"""C1: a title.\n\nhttps://a.b/c: seen.\n"""', "Must show"),
        ("test_c01_x.py", '"""C1: a title.\n\nSeen.\n\nMust show: this."""', "public source"),
        ("test_c01_x.py", '"""C2: a title.\n\nhttps://a.b/c.\n\nMust show: this."""', "with C1"),
        ("test_other.py", '"""A title."""', "Must show"),
    ],
)
def test_a_case_has_its_number_its_source_and_what_it_must_show(tmp_path, name, text, lacks):
    made = load("cases")
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=lacks):
        made.read(tmp_path / name)


def test_the_pages_are_what_the_program_says():
    made = load("pages")
    stale = [p.name for p, text in made.pages().items() if p.read_text(encoding="utf-8") != text]
    assert stale == [], f"{stale}: run python benchmarks/pages.py"
