"""The JSON Schema that editors use: what ships passes, what the loader refuses does not."""

import json
from pathlib import Path

import jsonschema
import pytest
from typer.testing import CliRunner

from voicesim.cli import app
from voicesim.scenario import ScenarioErrors, loads
from voicesim.scenario.editor import json_schema
from voicesim.scenario.loader import read

ROOT = Path(__file__).parents[2]
SHIPPED = sorted((ROOT / "scenarios").rglob("*.yaml"))
PEAK = ROOT / "scenarios" / "holiday_peak.yaml"


@pytest.fixture(scope="module")
def schema():
    found = json_schema()
    jsonschema.Draft202012Validator.check_schema(found)
    return jsonschema.Draft202012Validator(found)


@pytest.mark.parametrize("path", SHIPPED, ids=[str(p.relative_to(ROOT)) for p in SHIPPED])
def test_what_ships_is_valid(schema, path):
    assert [e.message for e in schema.iter_errors(read(path.read_bytes(), path.name).data)] == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("horizon: 40min", "horizon: 40 parsecs"),
        ("horizon: 40min", "horizon: -1"),
        ("horizon: 40min", "horizon: 0"),
        ("horizon: 40min", "horzion: 40min"),
        ("base: 45/s", "base: 45/week"),
        ("base: 45/s, ", ""),
        ("kind: surge", "kind: surges"),
        ("mean: 4.3s, p99: 15s", "mean: 4.3s, p98: 15s"),
        ("audio: {lognormal:", "audio: {lognromal:"),
        ("count: 8", "count: 0"),
        ("preset: h100-sxm", "preset: h100-smx"),
        ("max_num_seqs: 128", "max_num_sequences: 128"),
        ("max_num_seqs: 128", "max_num_seqs: 1.5"),
        ("memory: 0.35", "memory: 35%"),
        ("ramp: [4, 8, 16]", "ramp: [4, eight]"),
        ("on: same_gpu", "on: same_cpu"),
        ("delay: 40ms", "delay: 40 mss"),
        ("metric: waiting", "metric: wating"),
        ("  cap: {policies", "  ../cap: {policies"),
        ("  admit_all: {}", "  admit_all: 3"),
        ("    tts:\n", "    tts: 3\n    other:\n"),
    ],
)
def test_what_is_wrong_is_invalid(schema, old, new):
    """Each is wrong to the loader too, so the two do not differ on it."""
    text = PEAK.read_text()
    assert old in text
    text = text.replace(old, new, 1)
    assert list(schema.iter_errors(read(text, "x.yaml").data))
    with pytest.raises(ScenarioErrors):
        loads(text, PEAK)


@pytest.mark.parametrize("value", ["250ms", "1h30min", "2 d", 0.5, "1e3", "  4s ", "7us"])
def test_a_duration_may_be_written_as_the_loader_reads_it(schema, value):
    text = PEAK.read_text().replace("horizon: 40min\nwarmup: 2min", f"horizon: 9d\nwarmup: {value}")
    assert not list(schema.iter_errors(read(text, "x.yaml").data))


def test_any_name_may_stand_for_a_pool_and_a_card(schema):
    text = PEAK.read_text().replace("    tts:\n", "    my own pool:\n").replace("h100:", "x.y:")
    assert not list(schema.iter_errors(read(text, "x.yaml").data))


def test_every_key_has_words(schema):
    parts = [schema.schema, *schema.schema["$defs"].values()]
    without = [n for part in parts for n, of in part["properties"].items()
               if not of.get("description")]  # fmt: skip
    assert without == []


def test_the_command_prints_it_and_writes_it(tmp_path):
    printed = CliRunner().invoke(app, ["schema"])
    assert json.loads(printed.stdout) == json_schema()
    file = tmp_path / "s.json"
    wrote = CliRunner().invoke(app, ["schema", "--out", str(file)])
    assert wrote.exit_code == 0 and json.loads(file.read_text()) == json_schema()
