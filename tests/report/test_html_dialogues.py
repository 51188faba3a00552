"""report.html of a run of dialogues."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from tests import small
from tests.dialogue.test_marginal import SCENARIO
from tests.report.reading import read
from voicesim.cli import app

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
