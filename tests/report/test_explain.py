"""What ``voicesim explain`` says, against the schema, the code and worked examples."""

import json

import pytest
from typer.testing import CliRunner

from tests import small
from tests.scenario.test_degradation import TEXT as WITH_LADDER
from voicesim.calibrate.fields import CLOSED, FIELDS
from voicesim.cli import app
from voicesim.engine.profile import Profile
from voicesim.metrics.glossary import METRICS
from voicesim.metrics.summary import flat
from voicesim.report.explain import everything
from voicesim.scenario import load
from voicesim.scenario.keys import NAME, found, keys_of, scenario_keys
from voicesim.scenario.loader import misplaced
from voicesim.scenario.sources import SOURCES
from voicesim.study import run_study


def explain(*arguments):
    return CliRunner().invoke(app, ["explain", *arguments])


def test_a_knob():
    result = explain("cluster.pools.tts.engine.max_num_seqs", "--json")
    (told,) = json.loads(result.stdout)
    assert result.exit_code == 0
    assert told["path"] == "cluster.pools.NAME.engine.max_num_seqs" and told["default"] == 256
    assert told["allowed"] == "1 to 65,536" and "--max-num-seqs" in told["source"]
    text = explain("cluster.pools.tts.engine.max_num_seqs").stdout
    assert "Streams in the batch at most; default 256." in text
    assert explain("max_num_seqs").stdout == text  # the end of a path will do


def test_a_quantity_says_its_unit():
    (told,) = json.loads(explain("slo.start_within", "--json").stdout)
    assert told["unit"].startswith("s;") and told["default"] == 1.0
    assert told["allowed"] == "more than 0" and told["type"] == "a number, or text with a unit"
    (told,) = json.loads(explain("cluster.gpus.any.memory", "--json").stdout)
    assert told["unit"].startswith("bytes") and told["example"] == "80GB"


def test_kinds_that_say_the_same_are_one_and_others_are_apart():
    (told,) = json.loads(explain("policies.admission.streams", "--json").stdout)
    assert told["kind"] == "cap, cap_queue" and told["required"]
    rates = json.loads(explain("workload.arrivals.rate", "--json").stdout)
    assert [each["kind"] for each in rates] == ["poisson, constant", "diurnal", "gamma"]


@pytest.mark.parametrize(
    ("name", "says"),
    [("clean_share", "every utterance started"), ("clean", "every utterance started"),
     ("ttfa_p95", "95 % are at most this"), ("busy_share.codec", "seconds of batches"),
     ("alarm_fired_s.my_rule", "first fired")],
)  # fmt: skip
def test_a_metric(name, says):
    (told,) = json.loads(explain(name, "--json").stdout)
    assert told["what"] == "metric" and says in told["about"]


def test_a_field_of_a_profile():
    (told,) = json.loads(explain("profile.decode.host_per_stream_s", "--json").stdout)
    assert told["what"] == "profile" and told["unit"] == "s" and "interval" in told["type"]


@pytest.mark.parametrize(
    ("asked", "near"),
    [("cluster.pools.tts.engine.max_num_sequences", "cluster.pools.NAME.engine.max_num_seqs"),
     ("clean_shar", "clean_share"), ("stalle", "stalled_share"),
     ("workload.arivals.rate", "workload.arrivals.rate")],
)  # fmt: skip
def test_a_near_miss_is_led_on(asked, near):
    result = explain(asked)
    assert result.exit_code == 2 and result.stdout == ""
    assert result.stderr.startswith(f"{asked}: no such key") and f"{near!r}" in result.stderr
    assert result.stderr.count("\n") == 1


def test_without_a_key_everything_is_listed():
    listed = explain().stdout
    for each in everything():
        assert each.key.path.rsplit(".", 1)[-1] in listed
    data = json.loads(explain("--json").stdout)
    assert len(data) == len(everything()) and all(each["about"] for each in data)


def test_the_keys_are_those_of_the_reader(tmp_path):
    """Of what a scenario holds when read, every key is explained; and the reader knows every key
    that needs no other kind."""
    scenario = load(small.write(tmp_path)).variants["cap"]
    keys = scenario_keys()

    def paths(data, above=()):
        for name, value in data.items():
            yield (*above, name)
            if isinstance(value, dict) and not {"lognormal", "geometric", "exponential",
                                                "constant"} & set(value):  # fmt: skip
                yield from paths(value, (*above, name))

    for path in paths(scenario.resolved()):
        assert found(".".join(path), keys), path
    held = {".".join(path) for path in paths(scenario.resolved())}
    inside = {name for name in held if isinstance(value_of(scenario.resolved(), name), dict)}
    known = [k.path.replace(NAME, "tts") for k in keys if not k.kind or k.kind == "tts"]
    known = [name for name in known if name.rpartition(".")[0] in inside and name != "variants"]
    assert len(known) > 30 and [k for k in known if misplaced(scenario, k)] == []


def value_of(data, name):
    for step in name.split("."):
        data = data[step]
    return data


HALF = "    policies.shadow: {half: {admission: {kind: cap, streams: 3}}}\n"


def test_the_metrics_are_those_of_a_run(tmp_path):
    text = WITH_LADDER + HALF
    study = run_study(load(small.write(tmp_path, text), ["horizon=20s"]), workers=1)
    names = set(flat(study.summary["cap"])) | set(flat(study.summary["ladder"]))
    names = {name.replace("shadow.half.", "shadow.NAME.") for name in names}
    families = {  # each has one entry, for all of its names
        "alarm_fired_s.": "RULE", "stall_causes.": "CAUSE", "stall_cause_seconds.": "CAUSE",
            "rung_share.": "NAME", "quality_cost.": "NAME",
    }  # fmt: skip
    for start, word in families.items():
        some = {name for name in names if name.startswith(start)}
        assert some
        names = names - some | {start + word}
    turns = {n for n in METRICS if n.startswith("shadow.NAME") and "of a dialogue" not in n}
    assert names - turns == set(METRICS) - turns
    assert {n for n in names if n.startswith("shadow.")} < turns


def test_the_fields_are_those_of_a_profile():
    paths = {key.path for key in keys_of(Profile.model_json_schema())}
    numbers = {p.rsplit(".", 1)[0] for p in paths if p.endswith(".origin")}
    inside = {f"{n}.{x}" for n in numbers for x in ("value", "low", "high", "origin")}
    closed = {p for p in paths if p.startswith(tuple(f"{c}." for c in CLOSED))}
    assert paths - inside - closed == set(FIELDS)


def test_every_source_is_of_a_key():
    paths = [key.path for key in scenario_keys()]
    assert all(any(f".{p}".endswith(f".{end}") for p in paths) for end in SOURCES)
