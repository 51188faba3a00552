"""The site: every page has its place, every page that is spoken of exists, and what is made from
the schema says what the schema says.  `make docs` builds it, where a warning is an error."""

import importlib.util
import re
from pathlib import Path

import pytest
import yaml

from tests.docs.blocks import ROOT
from voicesim.engine.profile import CodecCost, DecodeCost, Memory, Profile, Range, Sharing
from voicesim.scenario.editor import json_schema

DOCS = ROOT / "docs"
AWAITED: set[str] = set()
"""Pages that the code speaks of and that are still to be written; none but these may be missing."""
MADE = {"tutorials/notebook.md"}


def keys():
    spec = importlib.util.spec_from_file_location("scenario_keys", DOCS / "scenario_keys.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.scenario_keys


def rows(text, anchor):
    """The rows of a section's table, by key."""
    section = text.split(f"{{#{anchor}}}")[1].split("\n## ")[0]
    cells = [line.strip("| ").split(" | ") for line in section.splitlines() if line[:3] == "| `"]
    return {row[0].strip("`"): [cell.strip() for cell in row[1:]] for row in cells}


def test_every_page_is_in_the_nav_once():
    class Loader(yaml.SafeLoader):
        """Of a file that may name Python objects."""

    nav = yaml.load((ROOT / "mkdocs.yml").read_text(), Loader)["nav"]
    found = re.findall(r"[\w/-]+\.md", str(nav))
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")} | MADE
    assert sorted(found) == sorted(pages)


@pytest.mark.parametrize(
    "page", ["README.md", "calibration/README.md", "calibration/kit/README.md"]
)
def test_pages_outside_the_site_link_to_what_exists(page):
    for link in re.findall(r"\]\((?!https?:)([^)#]+)", (ROOT / page).read_text()):
        assert ((ROOT / page).parent / link).exists(), f"{page}: {link}"


def test_pages_that_the_code_speaks_of_exist():
    files = [*ROOT.glob("*.md"), *(f for d in ("voicesim", "benchmarks", "scenarios", "tests",
             "calibration", "docs") for f in (ROOT / d).rglob("*") if f.suffix in
             (".py", ".md", ".yaml", ".ipynb"))]  # fmt: skip
    said = {
        (str(file.relative_to(ROOT)), page)
        for file in files
        for page in re.findall(r"(?<![\w/-])docs/[\w/-]+\.(?:md|ipynb)", file.read_text())
    }
    assert len(said) > 20
    missing = {(file, page) for file, page in said if not (ROOT / page).exists()}
    assert {each for each in missing if each[1] not in AWAITED} == set()


def test_every_key_of_the_scenario_is_on_its_page_with_its_default():
    schema = json_schema()
    text = keys()(schema)
    parts = [schema, *schema["$defs"].values()]
    for part in parts:
        for key in part.get("properties", {}):
            assert f"\n| `{key}` |" in text, f"{part['title']}: {key}"
    file = rows(text, "file")
    assert file["horizon"] == ["quantity, as `40min`", "s", "required",
                               "Time for which sessions arrive."]  # fmt: skip
    assert file["drain"][1:3] == ["s", "10min"]
    assert file["replications"][:3] == ["whole number, from 1 to 10,000", "", "1"]
    assert rows(text, "workload.arrivals-kind-surge")["peak"][:3] == [
        "quantity, as `2.5/s`", "per s", "required"
    ]  # fmt: skip
    assert rows(text, "cluster.gpus.name")["price"][1:3] == [
        "money per h", "the preset's, else unknown"
    ]  # fmt: skip
    assert rows(text, "workload-kind-tts")["think"][:3] == ["number or law", "s", "0"]


def test_every_key_of_a_profile_is_on_its_page():
    text = (DOCS / "reference" / "profiles.md").read_text()
    for part in (Profile, DecodeCost, CodecCost, Sharing, Range, Memory):
        for name, field in part.model_fields.items():
            assert f"`{field.alias or name}`" in text, f"{part.__name__}: {name}"


def test_every_metric_is_on_the_page_of_results_or_of_whole_calls():
    from voicesim.experiment.metrics import METRICS

    pages = (DOCS / "reference" / page for page in ("results.md", "ledger.md"))
    text = "".join(page.read_text() for page in pages)
    names = re.sub(r"busy_share\.decode, \.host, \.codec",
                   "busy_share.decode, busy_share.host, busy_share.codec", text)  # fmt: skip
    names = names.replace(
        "quality_cost.<name>", "quality_cost.mos quality_cost.wer quality_cost.words"
    )
    segments = re.compile(r"(?<=ledger\.)\w+(?=_p95_s)")  # a row of the page stands for all of them
    assert [name for name in METRICS if segments.sub("<segment>", name) not in names] == []


def test_nothing_is_fetched_when_the_site_is_read():
    """Neither by the settings nor by a page: figures and scripts are the site's own."""
    settings = (ROOT / "mkdocs.yml").read_text()
    assert "font: false" in settings and "http" not in settings
    for page in Path(DOCS).rglob("*.md"):
        assert not re.search(r"!\[[^\]]*\]\(http|<(script|img|iframe|link)\b", page.read_text()), (
            page
        )
