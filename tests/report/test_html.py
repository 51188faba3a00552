"""report.html of a run: its numbers are those of summary.json, and nothing in it is fetched."""

import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from tests.report import slow
from tests.report.reading import read
from voicesim.cli import app
from voicesim.report.html.page import Section, document, table
from voicesim.report.html.run import run_page
from voicesim.report.html.tags import Html, embedded, tag
from voicesim.scenario import ScenarioFile, load
from voicesim.study import run_study

RUNNER = CliRunner()
REPLICATIONS = 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    base = tmp_path_factory.mktemp("slow")
    asked = ["run", slow.write(base), "--out", base / "out", "--replications", REPLICATIONS]
    result = RUNNER.invoke(app, [*map(str, asked), "--chunks"])
    assert result.exit_code == 0, result.output
    assert "report.html" in result.output
    return base / "out"


@pytest.fixture(scope="module")
def page(folder):
    return read((folder / "report.html").read_text())


@pytest.fixture(scope="module")
def summary(folder):
    return json.loads((folder / "summary.json").read_text())["variants"]


def half(metric):
    return max(metric["high"] - metric["mean"], metric["mean"] - metric["low"])


def test_the_table_says_what_summary_json_says(page, summary):
    _, head, *rows = page.tables["All variants"]
    assert len(rows) == len(summary) == 2
    for row, (name, metrics) in zip(rows, summary.items(), strict=True):
        cells = dict(zip(head, row, strict=True))
        assert cells["variant"].removesuffix(" (best)") == name
        offered, clean, p95 = metrics["offered"], metrics["clean_share"], metrics["ttfa_p95_s"]
        assert cells["offered"].split(" ±")[0] == f"{offered['mean']:,.0f}"
        assert cells["CLEAN"] == f"{100 * clean['mean']:.1f}% ±{100 * half(clean):.1f}"
        assert cells["p95"] == f"{1000 * p95['mean']:,.0f} ±{1000 * half(p95):,.0f}"
        assert cells["host"] == "n/a"  # the profile does not tell it


def test_the_charts_carry_the_numbers_of_the_summary(page, summary):
    marks = page.chart("clean")["panels"][0]["marks"]
    ranges = [m for m in marks if m["kind"] == "ranges"]
    for i, (mark, metrics) in enumerate(zip(ranges, summary.values(), strict=True)):
        clean = metrics["clean_share"]
        assert mark["variant"] == mark["row"] == i
        found = [mark[k] / 100 for k in ("x", "x0", "x1")]
        assert found == pytest.approx([clean[k] for k in ("mean", "low", "high")], rel=1e-4)
    dots = [m for m in marks if m["kind"] == "dots"]
    for mark, metrics in zip(dots, summary.values(), strict=True):
        assert len(mark["x"]) == REPLICATIONS
        assert np.mean(mark["x"]) == pytest.approx(100 * metrics["clean_share"]["mean"], rel=1e-4)
    busy = [m for m in page.chart("busy")["panels"][0]["marks"] if m["name"] == "codec"]
    for mark, metrics in zip(busy, summary.values(), strict=True):
        assert mark["x"] == pytest.approx(100 * metrics["busy_share"]["codec"]["mean"], rel=1e-4)


def test_the_peak_counts_every_stall_and_call_of_the_series(page, folder):
    series = pd.read_parquet(folder / "series.parquet")
    panels = page.chart("peak")["panels"]
    for i, name in enumerate(("admit_all", "cap")):
        mine = series[series["variant"] == name]
        (stalls,) = [m for m in panels[3]["marks"] if m.get("variant") == i]
        assert sum(stalls["y"]) == pytest.approx(mine["stalls"].sum() / REPLICATIONS, rel=1e-4)
        (live,) = [m for m in panels[1]["marks"] if m.get("variant") == i]
        per_bin = mine.groupby("t_s")["live"].mean()
        assert max(live["y"]) == pytest.approx(per_bin.max(), rel=1e-4)
    assert series["stalls"].sum() > 0


def test_the_worst_call_is_the_one_that_stalled_longest(page, folder):
    """And its curve is made of the chunks that --chunks writes."""
    calls_ = pd.read_parquet(folder / "sessions" / "admit_all-0.parquet")
    calls_ = calls_[(calls_["arrival_s"] >= 5) & calls_["measured"]]
    worst = calls_.sort_values("stall_total_s").iloc[-1]
    found = [c for c in page.data["charts"] if "worst" in c["title"] and c["variant"] == 0]
    (chart,) = found
    assert f"worst of {len(calls_):,} calls" in chart["title"]
    assert f"Call {worst['session']}:" in chart["desc"]
    lasted = sum(s["x1"] - s["x"] for s in chart["stalls"])
    assert lasted == pytest.approx(worst["stall_total_s"], abs=1e-3 * len(chart["stalls"]))
    chunks = pd.read_parquet(folder / "chunks" / "admit_all-0.parquet")
    mine = chunks[chunks["session"] == worst["session"]]
    lanes = {m["name"]: m for m in chart["panels"][1]["marks"]}
    assert len(lanes["codec"]["x"]) == len(lanes["network"]["x"]) == len(mine)
    streams = pd.read_parquet(folder / "streams" / "admit_all-0.parquet")
    start = streams[streams["session"] == worst["session"]]["requested_s"].min()
    arrived = np.sort(mine["arrived_s"] - start)
    assert np.sort(lanes["network"]["x1"]) == pytest.approx(arrived, abs=2e-3)


def test_looking_closely_changes_nothing(tmp_path):
    """A folder's run keeps chunks and watches gauges; a run without a folder does neither."""
    file = load(slow.write(tmp_path))
    with_page = run_study(file, tmp_path / "f", workers=1)
    without = run_study(file, workers=1)
    assert with_page.summary == without.summary
    pd.testing.assert_frame_equal(with_page.series, without.series)
    assert all(o.exhibits for o in with_page.outcomes)
    assert not any(o.exhibits for o in without.outcomes)
    bare = run_page(without)
    assert "No call was kept chunk by chunk" in bare and "more than 1 ms: n/a." in bare


def test_of_an_interrupted_run_what_is_there(tmp_path):
    """The second variant alone: its number, colour and calls are its own; it never stalls."""
    done = run_study(load(slow.write(tmp_path)), tmp_path / "f", workers=1)
    done.outcomes, done.complete = [o for o in done.outcomes if o.variant == "cap"], False
    page = read(run_page(done))
    assert "Interrupted: one run was finished" in page.text
    assert page.data["variants"] == ["cap"] and "admit_all, " not in page.text
    numbered = {m.get("variant", 0) for c in page.data["charts"] for p in c["panels"]
                for m in p["marks"]}  # fmt: skip
    assert numbered == {0}
    assert sorted(c["title"].split(" of ")[0] for c in page.data["charts"] if "variant" in c) == [
        "cap, median", "cap, worst"
    ]  # fmt: skip
    (exhibit_,) = done.outcomes[0].exhibits
    assert f"more than 1 ms: none in {exhibit_.stalled.sum():,} replies" in page.text


def test_the_same_bytes_from_one_worker_and_from_two(folder, tmp_path):
    asked = ["run", slow.write(tmp_path), "--out", tmp_path / "o", "--replications", REPLICATIONS]
    assert RUNNER.invoke(app, [*map(str, asked), "--workers", "1", "--quiet"]).exit_code == 0
    mine = (tmp_path / "o" / "report.html").read_bytes()
    assert mine == (folder / "report.html").read_bytes()


def test_it_says_loudly_where_it_extrapolates(page, summary):
    assert "Extrapolated: part of this lies where nothing was measured" in page.text
    chart = page.chart("step0")
    zones = [m for m in chart["panels"][0]["marks"] if m["kind"] == "zone"]
    assert [(z["name"], z["x"]) for z in zones] == [("measured", 1), ("not measured", 16)]
    assert re.search(r"admit_all: steps of up to \d+ streams, measured up to 16; [\d.]+% of a busy",
                     page.text)  # fmt: skip


# --- nothing from outside, nothing that breaks out ------------------------------------------------


def test_nothing_is_fetched(folder):
    html = (folder / "report.html").read_text()
    page = read(html)
    names = {name for name, _ in page.tags}
    assert not names & {"link", "iframe", "object", "embed", "base", "form", "video", "audio"}
    for name, attributes in page.tags:
        assert not {"srcset", "style", "onclick", "onload"} & set(attributes), (name, attributes)
        if "src" in attributes:
            assert attributes["src"].startswith("data:image/png;base64,")
        if "href" in attributes:
            assert attributes["href"].startswith("#")
    (policy,) = [a["content"] for _, a in page.tags if a.get("http-equiv")]
    assert policy.startswith("default-src 'none'; ") and "unsafe" not in policy
    style = re.search(r"<style>(.*?)</style>", html, re.S)[1]
    assert "url(" not in style and "@import" not in style


HOSTILE = """</script><script>alert(1)</script><img src=x onerror=alert(2)>"'&"""


def test_hostile_names_and_titles_are_text(tmp_path):
    file = load(slow.write(tmp_path, json.dumps(HOSTILE)))
    done = run_study(file, tmp_path / "f", workers=1)
    named = {HOSTILE + name: scenario for name, scenario in file.variants.items()}
    done.file = ScenarioFile(file.path, named)
    done.outcomes = [replace(o, variant=HOSTILE + o.variant) for o in done.outcomes]
    html = run_page(done)
    page = read(html)
    assert [name for name, _ in page.tags].count("script") == 2
    assert not any(name == "img" for name, _ in page.tags)
    assert page.data["variants"] == [HOSTILE + "admit_all", HOSTILE + "cap"]
    assert f"{HOSTILE}admit_all" in page.tables["All variants"][2][0]
    assert "<img" not in html and "<script>alert" not in html


@given(st.text(), st.text())
def test_text_comes_back_as_it_went_in(one, two):
    kept = [t.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "") for t in (one, two)]
    page = read(str(table("c", [kept[0]], [[kept[1]]])))
    assert page.tables["c"] == [[kept[0]], [kept[1]]]
    data = {"x": kept}
    inside = embedded(data)
    assert json.loads(inside) == data and not set("<>&") & set(inside)
    assert dict(read(str(tag("p", title=kept[0]))).tags)["p"]["title"] == kept[0]


def test_a_page_without_charts_or_variants():
    html = document("A & B", "", [Section("answer", "The answer", [tag("p", "yes")])])
    page = read(html)
    assert "A & B" in page.text and page.data == {"charts": [], "variants": []}
    assert not any(name == "fieldset" for name, _ in page.tags)
    assert isinstance(tag("i", Html("<b>")), Html)
