"""report.html of a run of dialogues."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from tests import small, talk
from tests.dialogue.test_marginal import SCENARIO
from tests.report.chromium import browser, url
from tests.report.reading import read
from voicesim.cli import app
from voicesim.report import words

RUNNER = CliRunner()


@pytest.fixture(scope="module")
def talks(tmp_path_factory):
    """Calls of three turns at a pace that the LLM cannot keep, twice."""
    base = tmp_path_factory.mktemp("talks")
    text = SCENARIO.replace("rate: 0.02/s", "rate: 0.5/s").replace("300s", "100s")
    (base / "small-profile.yaml").write_text(small.PROFILE)
    (base / "talk.yaml").write_text(text)
    asked = ["run", base / "talk.yaml", "--out", base / "out", "--replications", 2, "--quiet"]
    result = RUNNER.invoke(app, list(map(str, asked)))
    assert result.exit_code == 0, result.output
    return base / "out"


def test_a_run_of_dialogues(talks):
    page = read((talks / "report.html").read_text())
    of = json.loads((talks / "summary.json").read_text())["variants"]["base"]
    _, head, row = page.tables["All variants"]
    assert row[head.index("offered")].startswith(f"{of['offered']['mean']:,.0f}")
    _, head, *rows = page.tables["Where the time went: base"]
    cells = {row[0]: dict(zip(head[:5], row, strict=False)) for row in rows}
    for part in ("llm", "tts", "total"):
        p95 = 1000 * of["ledger"][f"{part}_p95_s"]["mean"]
        assert cells[part]["p95"].split(" ±")[0] == f"{p95:,.0f}"
    marks = page.chart("ledger0")["panels"][0]["marks"]
    total = 1000 * of["ledger"]["total_median_turn_s"]["mean"]
    assert marks[-1]["x1"] == [pytest.approx(total, rel=1e-3)]
    busy = {m["name"]: m["x"] for m in page.chart("busy")["panels"][0]["marks"]}
    stages = {s: 100 * m["busy"]["mean"] for s, m in of["stages"].items()}
    assert busy == {s: pytest.approx(x, rel=1e-4) for s, x in stages.items()}
    assert "speech keeps up" not in page.chart("step0")["desc"]  # an LLM does not speak
    assert [c["title"].split(":")[0] for c in page.data["charts"] if "step" in c["id"]] == [
        "Step time of llm", "Step time of tts"
    ]  # fmt: skip
    assert "llm: profile small does not say in what range it was measured" in page.text


def test_curves_of_dialogues_count_every_turn(talks):
    turns = pd.read_parquet(talks / "turns.parquet")
    page = read((talks / "report.html").read_text())
    (line,) = [m for m in page.chart("heard")["panels"][0]["marks"] if m["kind"] == "line"]
    spoken = turns[turns["spoken_s"].notna()]
    over = [(rows["waited_s"] > 1.0).mean() for _, rows in spoken.groupby("replication")]
    at = min(range(len(line["x"])), key=lambda i: abs(line["x"][i] - 1.0))
    assert line["y"][at] == pytest.approx(100 * np.mean(over), rel=1e-3)


@pytest.fixture(scope="module")
def broken(tmp_path_factory):
    """Calls whose language model takes 0.5 s for a word, so that speech outruns it."""
    base = tmp_path_factory.mktemp("broken")
    path = talk.write(base, talk.SCENARIO.replace("horizon: 5min", "horizon: 90s"))
    (base / "small-llm.yaml").write_text(talk.LLM.replace("value: 0.006", "value: 0.5"))
    asked = ["run", path, "--out", base / "out", "--set", "workload.arrivals.rate=0.5/s", "--quiet"]
    result = RUNNER.invoke(app, list(map(str, asked)))
    assert result.exit_code == 0, result.output
    return base / "out"


def test_what_two_callers_heard(broken):
    """The worst and the median call of the first replication, every stall with its cause."""
    page = read((broken / "report.html").read_text())
    calls = pd.read_parquet(broken / "sessions" / "base-0.parquet")
    turns = pd.read_parquet(broken / "turns.parquet")
    measured = calls[calls["measured"] & (calls["arrival_s"] >= 30.0)]
    worst, median = (c for c in page.data["charts"] if c["id"].startswith("call"))
    assert worst["title"] == f"base, worst of {len(measured):,} calls."
    assert median["title"] == f"base, median of {len(measured):,} calls."
    number = int(worst["desc"].split(":")[0].removeprefix("Call "))
    row = measured.set_index("session").loc[number]
    assert row["stall_total_s"] == pytest.approx(measured["stall_total_s"].max())
    drawn = sum(s["x1"] - s["x"] for s in worst["stalls"])
    assert drawn == pytest.approx(row["stall_total_s"], rel=1e-3) and drawn > 0.5
    logged = pd.read_parquet(broken / "stalls")
    mine = logged[(logged["replication"] == 0) & (logged["session"] == number)]
    told = [s["label"] for s in worst["stalls"] if ": cause " in s["label"]]
    assert len(told) == len(mine) > 0
    for text, (_, stall) in zip(told, mine.sort_values("began_s").iterrows(), strict=True):
        assert f"cause {stall['cause']}: {stall['detail']} (step by step: --trace " in text
        assert text.startswith(f"Silence of {words.duration(stall['length_s'])} in the answer to ")
    lanes = {m["name"]: m for m in worst["panels"][1]["marks"]}
    mine = turns[(turns["replication"] == 0) & (turns["call"] == number)]
    spoken = mine[mine["spoken_s"].notna()]
    assert len(lanes["end of turn"]["x"]) == len(spoken) + spoken["reasked"].sum()
    assert len(lanes["network, client"]["x"]) >= spoken["chunks"].sum()
    assert "turn 1: noticed " in lanes["end of turn"]["label"][0]


def test_in_a_browser(broken):
    """It is drawn, nothing complains, and a silence tells its cause."""
    with browser() as page:
        page.get(url(broken / "report.html"))
        assert page.get_log("browser") == []
        chart = next(c for c in read((broken / "report.html").read_text()).data["charts"]
                     if c.get("stalls"))  # fmt: skip
        at = f".chart[data-chart={chart['id']}] "
        assert page.find_elements("css selector", at + ".area, " + at + ".span")
        longest = max(chart["stalls"], key=lambda each: each["x1"] - each["x"])
        rect = page.find_element("css selector", f"rect[data-stall={longest['id']}]")
        page.execute_script("arguments[0].dispatchEvent(new Event('click'))", rect)
        cause = page.find_element("css selector", f"#{chart['id']}-cause").text
        assert cause == longest["label"] and ": cause " in cause
        assert page.execute_script("return document.documentElement.scrollWidth <= innerWidth")
