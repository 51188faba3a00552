"""The pages that are made of the program are up to date."""

import importlib.util
from pathlib import Path

PAGES = Path(__file__).parents[2] / "benchmarks" / "pages.py"


def test_the_pages_are_what_the_program_says():
    spec = importlib.util.spec_from_file_location("pages", PAGES)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    stale = [p.name for p, text in made.pages().items() if p.read_text(encoding="utf-8") != text]
    assert stale == [], f"{stale}: run python benchmarks/pages.py"
