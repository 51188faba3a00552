"""The trace of a window against its schema, and what must hold of its spans."""

import itertools
import json
from collections import defaultdict

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from tests.engine.worlds import random_world
from tests.small import write
from voicesim.engine import trace as of
from voicesim.engine.pool import Pool, record
from voicesim.metrics import trace
from voicesim.report.run import How, run_command
from voicesim.report.trace import window_of
from voicesim.scenario import load

# The subset that we write, after "Trace Event Format" (JSON object form; phases X, i, C, b, e, M):
# https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
_NUMBER = {"type": "number", "minimum": 0}
_EVENT = {
    "type": "object",
    "required": ["name", "ph", "pid", "tid"],
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "cat": {"type": "string"},
        "ph": {"enum": ["X", "i", "C", "b", "e", "M"]},
        "ts": _NUMBER,
        "dur": _NUMBER,
        "pid": {"type": "integer"},
        "tid": {"type": "integer"},
        "s": {"enum": ["g", "p", "t"]},
        "id": {"type": "string"},
        "args": {"type": "object"},
    },
    "additionalProperties": False,
    "allOf": [
        {"if": {"properties": {"ph": {"const": phase}}}, "then": {"required": needs}}
        for phase, needs in (
            ("X", ["ts", "dur", "cat"]), ("i", ["ts", "s"]), ("C", ["ts", "args"]),
            ("b", ["ts", "cat", "id"]), ("e", ["ts", "cat", "id"]), ("M", ["args"]),
        )
    ],
}  # fmt: skip
SCHEMA = {
    "type": "object",
    "required": ["traceEvents"],
    "properties": {
        "traceEvents": {"type": "array", "items": _EVENT},
        "displayTimeUnit": {"enum": ["ms", "ns"]},
        "otherData": {"type": "object"},
    },
}


def spans(events):
    """(start, end, event) of the complete events, by process and track."""
    found = defaultdict(list)
    for e in events:
        if e["ph"] == "X":
            found[e["pid"], e["tid"]].append((e["ts"], e["ts"] + e["dur"], e))
    return found


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    folder = tmp_path_factory.mktemp("traced")
    how = How(workers=1, trace="0:20..40s", trace_of="cap:0")
    code = run_command(write(folder), folder / "out", (), None, None, how, True)
    assert code == 0
    return json.loads((folder / "out" / "trace.json").read_text())


def test_the_file_is_what_the_format_asks_for(traced):
    Draft202012Validator(SCHEMA).validate(traced)
    assert traced["otherData"] == {
        "variant": "cap", "replication": 0, "window": "0:00:20.0..0:00:40.0",
    }  # fmt: skip
    kinds = {e["cat"] for e in traced["traceEvents"] if "cat" in e}
    assert kinds >= {"step", "prefill", "codec", "chunk", "stream"}


def test_steps_follow_each_other_and_prompts_lie_in_them(traced):
    steps = 0
    for (_, tid), track in spans(traced["traceEvents"]).items():
        own = [(a, z) for a, z, e in track if e["cat"] != "prefill"]
        steps += len(own) if tid == trace.STEPS else 0
        assert all(z <= a + 0.002 for (_, z), (a, _) in itertools.pairwise(own))
        for a, z, e in track:
            if e["cat"] == "prefill":
                assert any(x <= a and z <= y for x, y in own)
    assert steps > 500


def test_only_what_meets_the_window_is_there(traced):
    for e in traced["traceEvents"]:
        if e["ph"] == "X":
            assert e["ts"] + e["dur"] >= 20e6 and e["ts"] <= 40e6
    assert min(e["ts"] for e in traced["traceEvents"] if "ts" in e) < 20.1e6


@pytest.mark.parametrize("seed", [1, 5, 9, 13])
def test_steps_add_up_to_the_busy_seconds(seed):
    """Over a whole run: GPU seconds of the steps, stretched or not, are those of the record."""
    spec, tape = random_world(seed, blame=True, trace=(0.0, 1e9), warmup=0.0, horizon=1e6)
    pool = Pool(spec, tape)
    pool.advance(spec.end)
    run = record(pool)
    rows = run.trace_i[:, of.T_KIND] == of.STEP
    engine, gpu = run.trace_i[rows, of.T_ENGINE], run.trace_f[rows, of.T_X]
    busy = np.bincount(engine, weights=gpu, minlength=spec.engines)
    assert busy == pytest.approx(run.busy["decode"])
    chunks = int((run.trace_i[:, of.T_KIND] == of.CHUNK).sum())
    assert chunks == len(run.chunk_i)


@pytest.mark.parametrize(
    ("text", "whose", "said"),
    [
        ("12:00", None, "a window is FROM..TO"),
        ("1:00..0:30", None, "ends before it begins"),
        ("1:00..1:00:00", None, "the run is 0:00:00.0..0:03:00.0 long"),
        ("x..1:00", None, "'x' is neither"),
        ("0:10..0:20", "nobody", "no such variant; there are admit_all, cap"),
        ("0:10..0:20", "cap:7", "cap has the replications 0 to 0"),
    ],
)
def test_a_wrong_window_is_refused(tmp_path, capsys, text, whose, said):
    how = How(workers=1, trace=text, trace_of=whose)
    assert run_command(write(tmp_path), tmp_path / "out", (), None, None, how, True) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_ways_to_say_a_window(tmp_path):
    study = load(write(tmp_path))
    for text, start, end in (("0:10..1:02.5", 10, 62.5), ("10s..1min", 10, 60)):
        window = window_of(text, None, study)
        assert (window.start, window.end) == (start, end)
        assert (window.variant, window.replication) == ("admit_all", 0)
