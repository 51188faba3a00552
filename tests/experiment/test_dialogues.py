"""Studies of whole calls: what each command makes of a scenario of dialogues."""

import json

import pytest
from typer.testing import CliRunner

from tests import talk
from voicesim.cli import app

SHORT = talk.SCENARIO.replace("horizon: 5min", "horizon: 40s").replace("warmup: 30s", "warmup: 5s")
TWO = SHORT + "variants: {a: {}, b: {pipeline.client.consume: wait}}\n"


@pytest.fixture
def asked(tmp_path, monkeypatch):
    def run(*words, text=TWO):
        talk.write(tmp_path, text)
        monkeypatch.chdir(tmp_path)
        result = CliRunner().invoke(app, [words[0], "talk.yaml", *words[1:], "--workers", "1"])
        return result.exit_code, result.output

    return run


def test_compare(asked, tmp_path):
    code, said = asked("compare", "--first", "3", "--max-replications", "3", "--out", "o")
    assert code == 0, said
    study = json.loads((tmp_path / "o" / "study.json").read_text())
    assert set(study["variants"]) == {"a", "b"}


def test_sweep(asked):
    code, said = asked("sweep", "--vary", "pools.tts.replicas=1,2", "--replications", "2")
    assert code == 0, said
    assert "replicas" in said


def test_tornado_moves_keys_of_the_scenario(asked):
    words = ("--vary", "workload.arrivals.rate=0.5/s..1/s", "--replications", "2")
    code, said = asked("tornado", *words)
    assert code == 0, said
    code, said = asked("tornado", "--assume", "20%")
    assert code == 2 and "--assume: each stage of a dialogue has a profile of its own" in said


def test_alarms_are_refused(asked):
    code, said = asked("alarms", "--rules", "shipped")
    assert code == 2 and "talk.yaml: workload.kind: alarms watch the engines of one pool" in said


@pytest.mark.parametrize("command", ["compare", "sweep", "tornado", "plan"])
def test_a_stage_that_cannot_run_is_one_line(asked, command):
    more = {
        "compare": (),
        "sweep": ("--vary", "pools.tts.replicas=1,2"),
        "tornado": ("--vary", "workload.arrivals.rate=0.5/s..1/s"),
        "plan": ("--slo", "clean>=50%", "--vary", "pools.tts.replicas=1..2"),
    }[command]
    code, said = asked(command, *more, text=TWO.replace(", kv_blocks: 20000", ""))
    assert code == 2, said
    assert "says nothing about memory" in said.replace("\n", " ") and "Traceback" not in said
