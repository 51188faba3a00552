"""From a file of dialogues to its folder, by command and by function."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import voicesim
from tests import talk
from tests.dialogue.test_marginal import SCENARIO, scenario
from voicesim.cli import app
from voicesim.metrics.dialogue_run import SEGMENTS
from voicesim.scenario import load
from voicesim.study import run_study

PRICES = """\
prices:
  currency: USD
  cards:
    - {card: card, tenure: owned, per_hour: 1.2/h, cards: 1, date: 2026-10-01}
    - {card: card, tenure: on_demand, per_hour: 3.6/h, date: 2026-11-01}
  network: {per_minute: 0.006, date: 2026-09-01}
"""


def command(*arguments):
    return CliRunner().invoke(app, [*map(str, arguments)], env={"COLUMNS": "120"})


def test_a_run_with_marginal_milliseconds(tmp_path):
    text = (
        SCENARIO
        + PRICES
        + "replications: 2\nvariants: {base: {}, slow: {listener.capture: 60ms}}\n"
    )
    scenario(tmp_path, text=text)
    found = command(
        "run", tmp_path / "alone.yaml", "-o", tmp_path / "out", "--marginal", "--workers", 1
    )
    assert found.exit_code == 0, found.output
    lines = [" ".join(line.split()) for line in found.output.splitlines()]
    assert any(line.startswith("capture 60") and " -6 ±0" in line for line in lines)
    assert any("prices as of 2026-09-01, 2026-10-01, 2026-11-01" in line for line in lines)
    assert any("10% less the same callers once more" in line for line in lines)
    summary = json.loads((tmp_path / "out/summary.json").read_text())["variants"]
    assert summary["slow"]["marginal"]["capture_change_s"]["mean"] == pytest.approx(-0.006)
    assert summary["base"]["cost"]["gpus"]["mean"] == pytest.approx(4.8 * 300 / 3600)
    turns = pd.read_parquet(tmp_path / "out/turns.parquet")
    ns = np.rint(turns[[f"{name}_s" for name in SEGMENTS]] * 1e9).sum(axis=1)
    assert (ns == np.rint(turns["total_s"] * 1e9)).all()
    assert len(turns) == 2 * 2 * 18
    assert (tmp_path / "out/waterfall.png").stat().st_size > 10_000
    answer = voicesim.run(tmp_path / "alone.yaml", marginal=True, workers=1)
    means = answer.summary.set_index(["variant", "metric"])["mean"]
    assert means["slow", "marginal.capture_change_s"] == pytest.approx(-0.006)
    assert len(answer.figure().axes) == 6


def test_marginal_is_refused_where_there_are_no_segments(tmp_path):
    from tests import small

    found = command("run", small.write(tmp_path), "-o", tmp_path / "out", "--marginal")
    assert found.exit_code == 2
    assert found.stderr.strip() == "--marginal: only a dialogue (workload.kind) has segments"
    assert not (tmp_path / "out").exists()


def test_prices_are_checked_with_their_line(tmp_path):
    scenario(tmp_path, text=SCENARIO)
    (tmp_path / "wrong.yaml").write_text(SCENARIO + PRICES.replace("card: card", "card: cart", 1))
    found = command("check", tmp_path / "wrong.yaml")
    assert found.exit_code == 2
    line = 1 + (SCENARIO + PRICES).splitlines().index("  cards:") + 1
    assert f"wrong.yaml:{line}: prices.cards" in found.stderr
    assert "did you mean 'card'" in found.stderr


def test_nobody_called(tmp_path):
    """A rate at which no call comes within the horizon: nothing offered, nothing measured."""
    sets = ["workload.arrivals.rate=0.0001/s", "horizon=40s"]
    path = talk.write(tmp_path, talk.LARGE)
    found = [
        run_study(load(path, sets), engine=engine, workers=1).summary["base"]
        for engine in ("kernel", "reference")
    ]
    assert found[0] == found[1]
    assert found[0]["offered"]["mean"] == found[0]["spoken_turns"]["mean"] == 0
    assert found[0]["clean_share"]["mean"] is found[0]["ttfa_p95_s"]["mean"] is None
