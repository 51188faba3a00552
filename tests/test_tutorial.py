"""The tutorial runs from top to bottom, finds its numbers, and is committed as it ran."""

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

import voicesim

PATH = Path(__file__).parents[1] / "docs" / "tutorial.ipynb"
SCENARIO = PATH.parents[1] / "scenarios" / "tutorial.yaml"


@pytest.fixture(scope="module")
def executed():
    """The notebook run in a kernel of its own; a cell that fails raises."""
    book = nbformat.read(PATH, as_version=4)
    for cell in book.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    client = NotebookClient(book, timeout=None, resources={"metadata": {"path": str(PATH.parent)}})
    return client.execute()


def outputs(book):
    return [o for cell in book.cells if cell.cell_type == "code" for o in cell.outputs]


def plain(book):
    return "\n".join(o.get("text", o.get("data", {}).get("text/plain", "")) for o in outputs(book))


def test_no_cell_fails_and_every_cell_but_the_first_shows_something(executed):
    cells = [cell for cell in executed.cells if cell.cell_type == "code"]
    assert all(o.output_type != "error" for o in outputs(executed))
    assert all(cell.outputs for cell in cells[1:])
    assert sum("image/png" in o.get("data", {}) for o in outputs(executed)) == 4


def test_the_headline_numbers_are_there_and_true(executed):
    text = plain(executed)
    played = voicesim.run(SCENARIO, replications=5, workers=1).table
    for title, variant in (("everybody let in", "admit_all"), ("cap", "cap")):
        share = played[played["variant"] == variant]["clean_share"].mean()
        assert re.search(rf"CLEAN, {title} +{share:.1%}", text)
    found = re.search(
        r"gained by the cap +([+-][\d.]+)% \(([+-][\d.]+)% \.\. ([+-][\d.]+)%\)", text
    )
    gain, low, high = map(float, found.groups())
    assert low < gain < high
    assert int(re.search(r"replicas for 95 % CLEAN +(\d+)", text)[1]) in (1, 2, 3, 4)
    assert "meets every SLO with 95 % confidence" in text
    assert float(re.search(r"decode step, each stream +([\d.]+) ms", text)[1]) > 0
    assert int(re.search(r"ceiling of one replica +(\d+)", text)[1]) > 1


def test_it_is_committed_with_outputs_and_without_places_or_times():
    book = nbformat.read(PATH, as_version=4)
    nbformat.validate(book)
    assert "CLEAN, cap" in plain(book) and "\x1b" not in plain(book)
    assert not re.search(r"/(home|tmp|root|Users|work)/", PATH.read_text())
    assert all("execution" not in cell.metadata for cell in book.cells)
    counts = [cell.execution_count for cell in book.cells if cell.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1))
