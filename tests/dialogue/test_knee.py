"""scenarios/pipeline_knee.yaml: the same callers, each stage in turn the one nearest its knee."""

from pathlib import Path

import pytest

from voicesim.metrics.dialogue_stages import nearest
from voicesim.scenario import load
from voicesim.study import run_study

FILE = Path(__file__).resolve().parents[2] / "scenarios" / "pipeline_knee.yaml"
SHORT = ["horizon=3min", "warmup=1min", "drain=1min"]


@pytest.fixture(scope="module")
def summary():
    return run_study(load(FILE, SHORT), workers=1).summary


@pytest.mark.parametrize("stage", ["asr", "llm", "tts"])
def test_the_short_stage_is_nearest_its_knee(summary, stage):
    short, plenty = summary[f"{stage}_short"], summary["plenty"]
    assert nearest(short["stages"]) == stage
    assert short["offered"] == plenty["offered"]
    assert short["ttfa_p95_s"]["mean"] > plenty["ttfa_p95_s"]["mean"]
    grown = {
        part: short["ledger"][f"{part}_p95_s"]["mean"] - plenty["ledger"][f"{part}_p95_s"]["mean"]
        for part in ("asr", "llm", "tts")
    }
    assert max(grown, key=lambda part: grown[part]) == stage
