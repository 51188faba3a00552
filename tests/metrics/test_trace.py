"""The trace of a window against its schema, and what must hold of its spans."""

import itertools
import json
from collections import defaultdict

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from tests import talk
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
        steps += len(own) if tid % trace.TRACKS == trace.STEPS else 0
        assert all(z <= a + 0.002 for (_, z), (a, _) in itertools.pairwise(own))
        for a, z, e in track:
            if e["cat"] == "prefill":
                assert any(x <= a and z <= y for x, y in own)
    assert steps > 500


@pytest.fixture(scope="module")
def talked(tmp_path_factory):
    """Ten seconds of whole calls, with a noise now and then that is taken for an interruption."""
    folder = tmp_path_factory.mktemp("talked")
    how = How(workers=1, trace="0:40..0:50")
    sets = ["horizon=60s", "drain=20s", "workload.barge_in.false=0.05/s"]
    code = run_command(talk.write(folder), folder / "out", sets, None, None, how, True)
    assert code == 0
    return json.loads((folder / "out" / "trace.json").read_text())


def nanoseconds(microseconds):
    """As Perfetto's importer reads a number: cut off."""
    return int(microseconds * 1000)


@pytest.mark.parametrize("name", ["traced", "talked"])
def test_what_a_viewer_would_trip_on(name, request):
    """Rules of the format and of Perfetto's importer, one by one."""
    found = request.getfixturevalue(name)
    Draft202012Validator(SCHEMA).validate(found)
    events = found["traceEvents"]
    # names come before what they name; each track has one number, one process, one name
    first = next(i for i, e in enumerate(events) if e["ph"] != "M")
    assert all(e["ph"] != "M" for e in events[first:])
    names = {
        kind: {e["pid"] if kind == "process_name" else e["tid"]: e["args"]["name"]
               for e in events[:first] if e["name"] == kind}
        for kind in ("process_name", "thread_name")
    }  # fmt: skip
    assert len(names["process_name"]) + len(names["thread_name"]) == first
    assert len(set(names["process_name"].values())) == len(names["process_name"])
    process = {}
    for e in events:
        assert e["pid"] > 0 and e["pid"] in names["process_name"]
        assert e["tid"] in names["thread_name"]
        assert process.setdefault(e["tid"], e["pid"]) == e["pid"]
        assert 0 < e["tid"] < 2**32
    # in order of time, in microseconds from the start of the run
    times = [e["ts"] for e in events[first:]]
    assert times == sorted(times)
    # complete events of a track nest, as whole nanoseconds too
    for track in spans(events).values():
        open_until = []
        for _, _, e in track:
            start, dur = nanoseconds(e["ts"]), nanoseconds(e["dur"])
            while open_until and open_until[-1] <= start:
                open_until.pop()
            assert not open_until or start + dur <= open_until[-1]
            open_until.append(start + dur)
    # async events: one end to each begin, of the same name and track, none before it; those of
    # one id follow each other
    begun = {}
    for e in events:
        if e["ph"] == "b":
            assert (e["cat"], e["id"]) not in begun
            begun[e["cat"], e["id"]] = e
        elif e["ph"] == "e":
            b = begun.pop((e["cat"], e["id"]))
            assert (b["name"], b["pid"], b["tid"]) == (e["name"], e["pid"], e["tid"])
            assert b["ts"] <= e["ts"]
    assert begun == {}
    # counters are numbers; a mark belongs to its track
    assert all(isinstance(x, int | float) for e in events if e["ph"] == "C"
               for x in e["args"].values())  # fmt: skip
    assert {e["s"] for e in events if e["ph"] == "i"} == {"t"}


def test_whole_calls_have_their_turns_and_the_recogniser(talked):
    """Each turn's phases follow each other to the nanosecond; the jobs of a batch are its rows,
    and last as long; a text is final when the turn's phase says so."""
    events = talked["traceEvents"]
    of_turn = defaultdict(list)
    for e in events:
        if e.get("cat") == "turn" and e["ph"] in "be":
            of_turn[e["id"]].append((e["name"], e["ph"], e["ts"]))
    order = ["speaks", "travels", "end of turn", "transcribes", "thinks", "synthesises", "answers"]
    whole = [rows for rows in of_turn.values() if len(rows) == 2 * len(order)]
    assert len(whole) > 10
    for rows in whole:
        assert [name for name, ph, _ in rows if ph == "b"] == order
        ends = [t for _, ph, t in rows if ph == "e"][:-1]
        begins = [t for _, ph, t in rows if ph == "b"][1:]
        assert ends == begins
    batches = {e["ts"]: e for e in events if e["ph"] == "X" and e["cat"] == "recogniser"}
    jobs = [e for e in events if e.get("cat") == "job" and e["ph"] == "b"]
    assert len(jobs) == sum(e["args"]["rows"] for e in batches.values()) > 100
    assert {e["ts"] for e in jobs} == set(batches)
    texts = {e["args"]["answer"]: e["ts"] for e in events if e["name"] == "text is final"}
    ends = {e["id"]: e["ts"] for e in events if e["name"] == "transcribes" and e["ph"] == "e"}
    known = [r for r in texts if f"t{r}" in ends]
    assert len(known) > 10
    assert all(texts[r] == ends[f"t{r}"] for r in known)
    calls = [e for e in events if e.get("cat") == "call" and e["ph"] == "b"]
    assert calls and min(e["ts"] for e in calls) == 40e6
    stops = {e["name"] for e in events if e["name"].startswith("stopped: ")}
    assert stops <= {"stopped: barge in", "stopped: false barge in", "stopped: cut off",
                     "stopped: hung up"}  # fmt: skip


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
