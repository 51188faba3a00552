"""The page of a study says what its command prints, in the same words."""

import json

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tests.report.reading import read
from voicesim.report.html.heard import heard
from voicesim.report.html.study import study_page, write_study

PNG = b"\x89PNG"
DATA = {"schema": "voicesim-plan/1", "voicesim": "0.1.0", "scenario": "x.yaml", "variant": "cap",
        "settings": {"seed": 7, "horizon": 120.0, "looks": [5]}}  # fmt: skip


def show(console: Console) -> None:
    """A command's answer, with all that one prints."""
    console.print()
    console.print(Text("A <title>", "bold"))
    console.print(Text("under the same callers", "dim"))
    table = Table()
    table.add_column("variant")
    table.add_column("CLEAN\nshare", justify="right")
    table.add_row("cap", Text("71.9% ±0.5", "bold green"))
    table.add_row("", "[1/2]")
    console.print(table)
    console.print(Text("  it holds & stands"))
    console.print(Text("warning: too short", "yellow"))
    console.print("[bold]said[/bold] so")


def test_what_is_printed_is_what_stands_there():
    said = heard(show)
    assert said.title == "A <title>"
    assert said.cautions == ["too short"] and said.method == ["under the same callers"]
    page = read("".join(said.body))
    assert page.tables["Results"] == [["variant", "CLEAN\nshare"], ["cap", "71.9% ±0.5"],
                                      ["cap", "[1/2]"]]  # fmt: skip
    assert "it holds & stands" in page.text and "said so" in page.text


def test_a_study_page():
    html = study_page(DATA, ["It holds", "by far."], show, {"a <figure>": PNG}, "horizon: 2min\n")
    page = read(html)
    assert "<b>It holds.</b>" in html and "by far." in page.text
    (image,) = [a for name, a in page.tags if name == "img"]
    assert image == {"src": "data:image/png;base64,iVBORw==", "alt": "a <figure>"}
    assert "A <title>" in page.text and "<title>A &lt;title&gt;</title>" in html
    for fact in ("x.yaml", "cap", "voicesim-plan/1", "2 min", "horizon: 2min"):
        assert fact in page.text
    assert 'class="callout"' in html
    assert study_page(DATA, ["It holds"], show, {}) == study_page(DATA, ["It holds"], show, {})


def test_extrapolation_is_loud():
    html = study_page(DATA, ["x"], lambda c: c.print(Text("(!) EXTRAPOLATED: far", "bold red")), {})
    assert 'class="callout loud"' in html


def test_it_is_written_whole_beside_the_rest(tmp_path):
    (tmp_path / "scenario.yaml").write_text(json.dumps({"seed": "<&>"}))
    write_study(tmp_path, DATA, ["It holds"], show, {})
    assert sorted(p.name for p in tmp_path.iterdir()) == ["report.html", "scenario.yaml"]
    assert '"<&>"' in read((tmp_path / "report.html").read_text()).text
