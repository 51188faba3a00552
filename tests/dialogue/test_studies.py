"""Studies of dialogues by the metrics that only they have."""

import pytest

import voicesim
from tests.dialogue.test_marginal import SCENARIO, scenario
from voicesim.experiment.metrics import bottleneck

VARIANTS = "variants: {base: {}, slow: {listener.capture: 60ms}}\n"


def test_compare(tmp_path):
    scenario(tmp_path, text=SCENARIO + VARIANTS)
    found = voicesim.compare(
        tmp_path / "alone.yaml", metrics=["ledger.capture_p95_s", "clean_turn_share"],
        max_replications=5, workers=1, out=tmp_path / "out",
    )  # fmt: skip
    rows = found.table.set_index(["variant", "metric"])
    assert rows.loc[("slow", "ledger.capture_p95_s"), "difference"] == pytest.approx(0.04)
    assert rows.loc[("slow", "ledger.capture_p95_s"), "verdict"] == "worse"
    assert rows.loc[("slow", "clean_turn_share"), "difference"] == 0.0


def test_sweep(tmp_path):
    scenario(tmp_path)
    found = voicesim.sweep(
        tmp_path / "alone.yaml", ["listener.capture=20ms..60ms:40ms"], workers=1,
        metrics=["ledger.capture_p95_s"], replications=2, out=tmp_path / "out",
    )  # fmt: skip
    means = found.table.groupby("listener.capture")["ledger.capture_p95_s"].mean()
    assert means.tolist() == pytest.approx([0.02, 0.06])


def test_what_cannot_be_played_is_said_at_once(tmp_path):
    scenario(tmp_path)
    text = (SCENARIO + VARIANTS).replace("kv_blocks: 4000}", "memory: 0.5}", 1)
    (tmp_path / "poor.yaml").write_text(text)
    with pytest.raises(voicesim.Error, match="says nothing about memory"):
        voicesim.compare(tmp_path / "poor.yaml", workers=1)


def test_which_stage_a_study_names():
    """Of dialogues the one nearest its knee, whatever is busy; of one pool the busiest part."""
    near = [{"stages": {"asr": {"busy": 0.9, "knee": x}, "llm": {"busy": 0.1, "knee": 0.5}}}
            for x in (0.2, 0.4)]  # fmt: skip
    assert bottleneck(near) == ("llm", 0.5)
    assert bottleneck([{"stages": {"asr": {"knee": 0.7}, "llm": {"knee": None}}}]) == ("asr", 0.7)
    assert bottleneck([{"stages": {}}]) is bottleneck([]) is None
    one = {"busy_share": {"decode": 0.6, "host": 0.1, "codec": 0.8}}
    assert bottleneck([one, {"busy_share": {"decode": 0.8, "host": 0.1, "codec": None}}]) == (
        "codec", 0.8,
    )  # fmt: skip
