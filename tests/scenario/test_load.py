"""Good files: the design's sketch, overrides, defaults, and the way back to YAML."""

import copy
import pickle
import subprocess
import sys

import pytest
import yaml
from pydantic import BaseModel

from voicesim.catalogue import GPUS
from voicesim.scenario import Scenario, schema
from voicesim.scenario.editor import json_schema
from voicesim.scenario.presets import SERVEGEN_M_SMALL

from .conftest import PLAIN, SKETCH


def test_the_sketch_of_the_design_loads(read):
    found = read(SKETCH)
    assert list(found.variants) == ["admit_all", "cap", "cap_queue", "slack", "bigger_first_chunk"]
    assert found.baseline == "admit_all"
    base = found.variants["admit_all"]
    assert (base.horizon, base.warmup, base.drain) == (2400, 120, 600)
    assert base.workload.arrivals.peak == 230
    assert base.workload.think.mean() == 4
    assert base.cluster.pool.codec.batch.window == 0.002
    assert base.cluster.gpu.price_per_hour == 2.65
    assert base.alarms[0].above == 1.0
    # base 45 for 40 minutes, 185 more for 10 minutes and two half ramps of 5
    assert base.workload.arrivals.expected(2400) == pytest.approx(45 * 2400 + 185 * 900)
    bigger = found.variants["bigger_first_chunk"]
    assert bigger.cluster.pool.chunks.first == 8
    assert base.cluster.pool.chunks.first == 4
    assert bigger.policies.admission.streams == 40


@pytest.mark.parametrize("text", [SKETCH, PLAIN])
def test_resolved_reads_back_to_the_same(read, text):
    found = read(text)
    written = yaml.safe_load(yaml.safe_dump(found.resolved()))
    for name, scenario in found.variants.items():
        text = yaml.safe_dump(written[name])
        if scenario.policies.admission.kind == "admit_all" and scenario.workload.refused:
            continue  # alone it refuses nobody, so `refused` would be an unused knob
        assert read(text).variants["base"] == scenario


def test_a_long_delay_reads_back_with_its_unit(read):
    """A bare number beyond five seconds would be taken for a slip of milliseconds."""
    sets = ["listener.network.delay=8s", "slo.start_within=4s"]
    base = read(PLAIN, *sets).variants["base"]
    written = base.resolved()
    assert written["listener"]["network"]["delay"] == "8.0s"
    assert written["slo"]["start_within"] == 4.0
    assert read(yaml.safe_dump(written)).variants["base"] == base


def test_scenarios_travel_between_processes(read):
    scenario = read(SKETCH).variants["cap"]
    again = pickle.loads(pickle.dumps(scenario))
    assert again == scenario
    assert again.cluster.pool.engine.profile_path.is_file()
    assert copy.deepcopy(scenario) == scenario


def test_defaults(read):
    s = read(PLAIN).variants["base"]
    assert (s.seed, s.replications, s.drain) == (0, 1, 600)
    assert s.cluster.pool.engine.memory == 0.9
    assert s.cluster.pool.chunks.first == s.cluster.pool.chunks.steady == 1
    assert s.cluster.gpu.memory_bytes == GPUS["l4"].memory_bytes == 24e9
    assert s.policies.admission.kind == "admit_all"
    assert s.policies.routing.kind == "least_streams"
    assert s.workload.utterance.prompt_tokens.mean() == 32


def test_kv_blocks_instead_of_memory(read):
    engine = read(PLAIN, "cluster.pools.tts.engine.kv_blocks=500").variants["base"].cluster.pool
    assert engine.engine.memory is None


def test_set_applies_before_variants(read):
    found = read(
        SKETCH,
        "horizon=10min",
        "policies.admission={kind: cap, streams: 3}",
        "alarms.1.above=9",
        "workload.utterance.audio.lognormal.mean=5s",
        "series.resolution=2s",
        seed=7,
        replications=3,
    )
    assert {s.horizon for s in found.variants.values()} == {600}
    assert found.variants["admit_all"].policies.admission.streams == 3
    assert found.variants["slack"].policies.admission.kind == "slack"
    first = found.variants["admit_all"]
    assert first.alarms[1].above == 9
    assert first.workload.utterance.audio.params["mean"] == 5
    assert first.series.resolution == 2
    assert {(s.seed, s.replications) for s in found.variants.values()} == {(7, 3)}


def test_custom_policies(read):
    s = read(PLAIN, "policies.admission={policy: 'my.mod:Name', options: {x: 1}}").variants["base"]
    assert s.policies.admission.kind == "custom"
    assert s.policies.admission.options == {"x": 1}


def test_diurnal_profile(read):
    day = "workload.arrivals={kind: diurnal, rate: 2/s, profile: servegen_m_small, start_hour: 6}"
    arrivals = read(PLAIN, day).variants["base"].workload.arrivals
    assert sum(arrivals.profile) == pytest.approx(24)
    assert arrivals.expected(86400) == pytest.approx(2 * 86400)
    assert arrivals.rate_at(60) == pytest.approx(2 * SERVEGEN_M_SMALL[6], rel=1e-3)


def test_trace_and_empirical_files(read, tmp_path):
    (tmp_path / "t.csv").write_text("t_s,tokens,session\n0,12,0\n1.5,20,1\n900,3,2\n")
    (tmp_path / "e.csv").write_text("who,audio\na,2\nb,4\n")
    found = read(
        PLAIN,
        "workload={arrivals: {kind: trace, file: t.csv, speed: 1.5},"
        " think: {empirical: {file: e.csv, column: audio}}}",
    ).variants["base"]
    assert list(found.workload.arrivals.columns["tokens"]) == [12, 20, 3]
    assert found.workload.arrivals.expected(600) == 2
    assert found.workload.think.params == {"values": [2, 4]}


def test_closed_and_burst(read):
    closed = read(PLAIN, "workload.arrivals={kind: closed, callers: 8}", "workload.think=1s")
    assert closed.variants["base"].workload.arrivals.expected(600) == 8
    burst = read(PLAIN, "workload.arrivals={kind: burst, size: 50, at: 5min, spread: 10min}")
    assert burst.variants["base"].workload.arrivals.expected(600) == 25


def test_aliases_and_merges(read):
    text = PLAIN.replace("utterance: {audio: 4s}", "utterance: &u {audio: 4s}")
    text += "variants:\n  a: {}\n  b: {workload.utterance: {<<: *u, prompt_tokens: 5}}\n"
    said = read(text).variants["b"].workload.utterance
    assert (said.audio.mean(), said.prompt_tokens.mean()) == (4, 5)


def parts() -> list[type[BaseModel]]:
    """Every mapping a file may hold."""
    todo, seen = [schema.Part], []
    while todo:
        for each in todo.pop().__subclasses__():
            seen.append(each)
            todo.append(each)
    return [each for each in seen if each.__module__.startswith("voicesim.scenario.")]


@pytest.mark.parametrize("part", parts(), ids=lambda part: part.__name__)
def test_every_field_is_documented(part):
    assert part.__doc__
    for name, field in part.model_fields.items():
        assert field.description, name
        if not field.is_required() and name != "kind" and field.annotation is not None:
            text = field.description.lower()
            assert "default" in text, name


def test_json_schema_describes_the_file():
    found = json_schema()
    assert set(found["properties"]) == {"schema", *Scenario.model_fields, "variants"}


def test_command_line(write):
    run = [sys.executable, "-c", "from voicesim.cli import app; app()"]
    good = subprocess.run([*run, "check", write(SKETCH)], capture_output=True, text=True)
    assert good.returncode == 0
    assert good.stdout.startswith("OK ")
    assert "bigger_first_chunk" in good.stdout
    bad = subprocess.run(
        [*run, "check", write(SKETCH), "--set", "horizon=-1s"], capture_output=True, text=True
    )
    assert bad.returncode == 2
    assert "--set horizon=-1s: horizon: a duration cannot be negative" in bad.stderr
    heavy = "import sys, voicesim.cli; print([m for m in ('numba','pandas','matplotlib','pydantic')"
    heavy += " if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", heavy], capture_output=True, text=True)
    assert out.stdout.strip() == "[]"
