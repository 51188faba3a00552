"""voicesim replay: what becomes of recorded requests, and the run's own tables played again."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from tests import small
from tests.calibrate.test_request_traces import FILES
from tests.test_fleet import FLEET, SHARES
from voicesim.calibrate.errors import CalibrationError
from voicesim.cli import app
from voicesim.experiment.replay import SECONDS_PER_TOKEN, calls_csv, recorded_calls
from voicesim.scenario import load

CAP = "policies: {admission: {kind: cap, streams: 60}}\n"
ONE = small.SCENARIO[: small.SCENARIO.index("variants:")] + CAP
"""Its 6 calls a second are all let in under this cap."""


def command(*words):
    return CliRunner().invoke(app, list(map(str, words)))


def said(result):
    """The output as one line; what the terminal broke is put together."""
    return " ".join(result.output.split())


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A folder with a scenario, its run (two replications), and a replay of the second."""
    folder = tmp_path_factory.mktemp("replay")
    path = small.write(folder, ONE)
    done = command("run", path, "--out", folder / "run", "--replications", 2, "--workers", 1)
    assert done.exit_code == 0, done.output
    done = command("replay", folder / "run", "-s", path, "--run", "base-1", "--out",
                   folder / "again", "--replications", 2, "--workers", 1)  # fmt: skip
    assert done.exit_code == 0, done.output
    return folder


def table(folder, name, run):
    found = pd.read_parquet(folder / name / f"{run}.parquet")
    keys = [key for key in ("session", "utterance") if key in found]
    return found.sort_values(keys, ignore_index=True)


def test_a_run_played_again_is_the_same_to_the_bit(recorded):
    """Under the same seed and replication patience, jitter and step noise are drawn alike, and
    everything else was recorded; no call was refused or given up, so nothing was left unsaid."""
    for name in ("sessions", "streams"):
        first = table(recorded / "run", name, "base-1")
        second = table(recorded / "again", name, "base-1")
        assert len(first) > 300
        pd.testing.assert_frame_equal(first, second, check_exact=True)


def test_of_another_replication_only_what_was_recorded_is_the_same(recorded):
    second = table(recorded / "again", "streams", "base-0")
    first = table(recorded / "run", "streams", "base-1")
    for column in ("session", "utterance", "audio_s", "prompt_tokens", "think_s"):
        np.testing.assert_array_equal(second[column], first[column])
    assert not second["started_s"].equals(first["started_s"])


def test_the_result_says_what_was_assumed(recorded):
    summary = json.loads((recorded / "again" / "summary.json").read_text())
    assert any("run base-1" in text for text in summary["assumptions"])
    assert (recorded / "again" / "calls.csv").is_file()
    assert "file: calls.csv" in (recorded / "again" / "scenario.yaml").read_text()


def test_the_calls_of_a_replay_are_arrivals_of_any_scenario(recorded):
    text = (recorded / "small.yaml").read_text()
    idle = ("{geometric", "audio:", "think:", "prompt", "utterance:")
    lines = [line for line in text.splitlines() if not any(word in line for word in idle)]
    text = "\n".join(lines).replace("{kind: poisson, rate: 6/s}", "{kind: trace, file: calls.csv}")
    (recorded / "calls.csv").write_bytes((recorded / "again" / "calls.csv").read_bytes())
    (recorded / "own.yaml").write_text(text)
    done = command("run", recorded / "own.yaml", "--out", recorded / "own", "--replications", 2,
                   "--workers", 1)  # fmt: skip
    assert done.exit_code == 0, done.output
    pd.testing.assert_frame_equal(
        table(recorded / "own", "streams", "base-1"), table(recorded / "run", "streams", "base-1")
    )


def test_refusals_leave_calls_unfinished(tmp_path):
    """What a refused caller would have said later was never recorded: the one stated loss."""
    text = ONE.replace("streams: 60", "streams: 3")
    path = small.write(tmp_path, text)
    assert command("run", path, "--out", tmp_path / "run", "--workers", 1).exit_code == 0
    streams = table(tmp_path / "run", "streams", "base-0")
    assert (streams["outcome"] == "refused").any()
    calls = recorded_calls([tmp_path / "run"]).table
    assert len(calls) == len(streams)
    first = calls.groupby("session")["t_s"].first()
    sessions = table(tmp_path / "run", "sessions", "base-0")
    np.testing.assert_array_equal(np.sort(first), sessions["arrival_s"])


def test_a_shared_prefix_is_not_added_twice(tmp_path):
    text = ONE.replace("prompt_tokens: 40", "prompt_tokens: 40\n    shared_prefix: 160")
    path = small.write(tmp_path, text.replace("kv_blocks: 2000", "kv_blocks: 8000"))
    assert command("run", path, "--out", tmp_path / "run", "--workers", 1).exit_code == 0
    assert (table(tmp_path / "run", "streams", "base-0")["prompt_tokens"] == 200).all()
    assert (recorded_calls([tmp_path / "run"]).table["prompt_tokens"] == 40).all()


FIVE = """\
{"session_id": "a", "timestamp": 1000, "input_length": 10, "output_length": 10}
{"session_id": "a", "delay": 2500, "input_length": 11, "output_length": 20}
{"session_id": "b", "timestamp": 2000, "input_length": 20, "output_length": 30}
{"session_id": "c", "timestamp": 4000, "input_length": 30, "output_length": 2}
{"session_id": "c", "timestamp": 7000, "input_length": 31, "output_length": 4}
{"session_id": "d", "timestamp": 6000, "input_length": 40, "output_length": 50}
{"session_id": "e", "timestamp": 8000, "input_length": 50, "output_length": 16}
{"session_id": "c", "timestamp": 7500, "input_length": 32, "output_length": 4}
"""


def trace(tmp_path, text=FIVE, name="trace"):
    path = tmp_path / name
    path.write_text(text)
    return path


def test_five_sessions_become_calls(tmp_path):
    calls = recorded_calls([trace(tmp_path)], seconds_per_token=0.25)
    assert calls.sessions == 5
    found = calls.table
    assert found["session"].tolist() == [0, 0, 1, 2, 2, 2, 3, 4]
    assert found["t_s"].tolist() == [1, 1, 2, 4, 7, 7.5, 6, 8]
    assert found["audio_s"].tolist() == [2.5, 5, 7.5, 0.5, 1, 1, 12.5, 4]
    # a: the delay; c: 7 - 4 - 0.5, then 7.5 - 7 - 1 is before the end
    assert found["think_s"].tolist() == [2.5, 0, 0, 2.5, 0, 0, 0, 0]
    notes = "\n".join(calls.notes)
    assert "0.25 s a token" in notes
    assert "1 requests came before the reply before was over: pause 0" in notes


def test_words_become_seconds():
    assert pytest.approx(0.32 / 1.3) == SECONDS_PER_TOKEN


def test_times_survive_the_file_to_the_bit(tmp_path):
    calls = recorded_calls([trace(tmp_path)])
    text = trace(tmp_path, calls_csv(calls).decode(), "calls.csv")
    pd.testing.assert_frame_equal(
        pd.read_csv(text, na_values=["unknown"]), calls.table, check_dtype=False, check_exact=True
    )


@pytest.mark.parametrize(("text", "expected"), FILES.values(), ids=FILES)
def test_every_request_trace_can_be_played(tmp_path, text, expected):
    """Its calls load as a scenario's arrivals, and there are as many as it has sessions."""
    small.write(tmp_path, ONE)
    calls = recorded_calls([trace(tmp_path, text)])
    done = command("replay", tmp_path / "trace", "-s", tmp_path / "small.yaml", "--out",
                   tmp_path / "out", "--workers", 1, "--engine", "reference")  # fmt: skip
    assert done.exit_code == 0, done.output
    sessions = table(tmp_path / "out", "sessions", "base-0")
    before = calls.table["t_s"][~calls.table.get("session", calls.table.index.to_series())
                               .duplicated()]  # fmt: skip
    assert sessions["arrival_s"].tolist() == sorted(before[before < 60])


def test_speed_scale_and_window(tmp_path):
    small.write(tmp_path, ONE)
    words = ["replay", trace(tmp_path), "-s", tmp_path / "small.yaml", "--workers", 1, "--engine",
             "reference", "--out", tmp_path / "out"]  # fmt: skip
    done = command(*words, "--speed", 2, "--from", "2s", "--until", "8s")
    assert done.exit_code == 0, done.output
    found = table(tmp_path / "out", "sessions", "base-0")
    assert found["arrival_s"].tolist() == [0, 1, 2]
    assert "3 of them in the window" in said(done)
    assert "calls start 2 times as fast" in said(done)
    done = command(*words, "--scale", 3, "--jitter", "2s")
    assert len(table(tmp_path / "out", "sessions", "base-0")) == 15
    assert "3 calls for each recorded one" in said(done)


def test_what_the_horizon_cuts_is_said(tmp_path):
    small.write(tmp_path, ONE)
    done = command("replay", trace(tmp_path), "-s", tmp_path / "small.yaml", "--out",
                   tmp_path / "out", "--set", "horizon=6s", "--set", "warmup=0", "--workers", 1,
                   "--engine", "reference")  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "the horizon (6 s) is shorter than the trace (8 s): 2 of 5 calls are cut" in said(done)
    assert len(table(tmp_path / "out", "sessions", "base-0")) == 3


def test_dated_traces_keep_their_distance(tmp_path):
    head = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
    one = trace(tmp_path, head + "2024-05-10 00:01:00+00:00,5,6\n", "one")
    two = trace(tmp_path, head + "2024-05-10 00:00:15.5+00:00,7,8\n", "two")
    calls = recorded_calls([one, two])
    assert calls.table["t_s"].tolist() == [0, 44.5]
    assert calls.table["prompt_tokens"].tolist() == [7, 5]
    vidur = trace(tmp_path, "arrived_at,num_prefill_tokens,num_decode_tokens\n3,1,2\n", "vidur")
    mixed = recorded_calls([one, vidur])
    assert mixed.table["t_s"].tolist() == [0, 3]
    assert "not all traces are dated: they begin together" in mixed.notes


REFUSED = {
    "window": (["--from", "9s"], FIVE, "no call starts from 9 s; those of the trace start up to 8"),
    "window back": (["--from", "9s", "--until", "3s"], FIVE, "until: must be more than after (9s)"),
    "horizon": (["--set", "horizon=1s", "--set", "warmup=0"], FIVE, "the first is at 1 s; give"),
    "idle jitter": (["--jitter", "3s"], FIVE, "jitter: never used: scale is 1"),
    "idle law": (["--set", "workload.think=3s"], FIVE, "think: never used: the trace gives think"),
    "speed": (["--speed", "0"], FIVE, "speed: must be more than 0"),
    "duration": (["--from", "soon"], FIVE, "--from: expected a duration such as"),
    "unit": (["--until", "5"], FIVE, "--until: 5 needs a unit"),
    "address": (["--address", "x:1"], FIVE, "--address x:1: is of --backend dask or ray"),
    "no requests": ([], "batch,seconds\n1,0.01\n", "step CSV: holds no requests"),
    "nothing": ([], "hello\n", "is no file that is recognised"),
    "back": ([], FIVE.replace("7500", "6500"), "trace:8: timestamp: goes back in time"),
}


@pytest.mark.parametrize(("words", "text", "message"), REFUSED.values(), ids=REFUSED)
def test_refusals(tmp_path, words, text, message):
    small.write(tmp_path, ONE)
    out = tmp_path / "out"
    done = command(
        "replay", trace(tmp_path, text), "-s", tmp_path / "small.yaml", "--out", out, *words
    )
    assert done.exit_code == 2, done.output
    assert message in said(done)
    assert "Traceback" not in done.output
    assert not out.exists()
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "small-profile.yaml",
        "small.yaml",
        "trace",
    ]


def test_of_several_runs_one_is_played(tmp_path):
    def run(value, start):
        times = {"timestamp": start, "response_timestamps": [start + 10**9]}
        return {"experiment": {"mode": "concurrency", "value": value}, "requests": [times] * value}

    path = trace(tmp_path, json.dumps({"experiments": [run(2, 10**18), run(3, 2 * 10**18)]}))
    calls = recorded_calls([path])
    assert calls.sessions == 2
    assert "trace: run concurrency 2 of concurrency 2, concurrency 3 is played" in calls.notes
    assert recorded_calls([path], run="concurrency 3").sessions == 3
    with pytest.raises(CalibrationError, match="holds no run 'x'; it holds: concurrency 2, conc"):
        recorded_calls([path], run="x")
    one = trace(tmp_path, json.dumps({"experiments": [run(2, 10**18)]}), "one")
    assert recorded_calls([one], run="concurrency 2").sessions == 2
    with pytest.raises(CalibrationError, match=r"one: holds no run 'x'; it holds: concurrency 2$"):
        recorded_calls([one], run="x")
    # a name that one of the traces holds says nothing of a trace with a single run
    assert recorded_calls([path, one], run="concurrency 3").sessions == 5


def test_converting_into_a_folder_is_refused_by_its_name(tmp_path):
    done = command("replay", trace(tmp_path, FIVE), "--convert", tmp_path)
    assert done.exit_code == 2
    assert said(done).strip() == f"--convert {tmp_path}: is a folder"
    done = command("replay", trace(tmp_path, FIVE), "--convert", tmp_path / "trace" / "x.csv")
    assert done.exit_code == 2 and "x.csv: cannot be written: " in said(done)


def test_failed_requests_only(tmp_path):
    head = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    with pytest.raises(CalibrationError, match="holds no usable request: none has a reply"):
        recorded_calls([trace(tmp_path, head + "5,GPT-4,472,0,472,API log\n")])


def test_a_variant_must_play_the_trace(tmp_path):
    other = "variants:\n  a: {}\n  b: {workload.arrivals: {kind: poisson, rate: 1/s}}\n"
    small.write(tmp_path, ONE + other)
    done = command(
        "replay", trace(tmp_path), "-s", tmp_path / "small.yaml", "--out", tmp_path / "o"
    )
    assert done.exit_code == 2
    assert "variants.b" in done.output
    assert not (tmp_path / "o").exists()


def test_convert_writes_calls_and_stops(tmp_path):
    target = tmp_path / "calls.csv"
    done = command("replay", trace(tmp_path), "--convert", target)
    assert done.exit_code == 0, done.output
    assert pd.read_csv(target)["session"].nunique() == 5
    assert command("replay", trace(tmp_path)).exit_code == 2


def test_an_older_run_folder_has_no_pauses(recorded, tmp_path):
    for name in ("sessions", "streams"):
        (tmp_path / name).mkdir()
        found = pd.read_parquet(recorded / "run" / name / "base-0.parquet")
        found.drop(columns="think_s", errors="ignore").to_parquet(
            tmp_path / name / "base-0.parquet"
        )
    old = recorded_calls([tmp_path]).table
    new = recorded_calls([recorded / "run"], run="base-0").table
    pd.testing.assert_frame_equal(old.drop(columns="think_s"), new.drop(columns="think_s"))
    goes_on = (new["session"].shift(-1) == new["session"]).to_numpy()
    # from the next request and the end of the audio; network jitter may end it later
    np.testing.assert_allclose(old["think_s"][goes_on], new["think_s"][goes_on], atol=0.3)


def test_the_calls_of_a_replay_are_replayed(recorded, tmp_path):
    """The file that a replay writes, played and converted: the same calls to the bit."""
    calls = recorded / "again" / "calls.csv"
    done = command("replay", calls, "-s", recorded / "small.yaml", "--out", tmp_path / "run",
                   "--replications", 2, "--workers", 1)  # fmt: skip
    assert done.exit_code == 0, done.output
    for name in ("sessions", "streams"):
        first = table(recorded / "again", name, "base-1")
        pd.testing.assert_frame_equal(first, table(tmp_path / "run", name, "base-1"))
    assert command("replay", calls, "--convert", tmp_path / "out.csv").exit_code == 0
    old, new = (pd.read_csv(path) for path in (calls, tmp_path / "out.csv"))
    first = old["session"] != old["session"].shift()
    assert (old["t_s"][first] == new["t_s"][first]).all()  # of later rows it is not used
    pd.testing.assert_frame_equal(old.drop(columns="t_s"), new.drop(columns="t_s"))


def test_calls_with_gaps_and_a_session_without_number(tmp_path):
    text = (
        "t_s,session,audio_s,think_s\n1,1234567,2,unknown\n9,1234567,unknown,0.5\n"
        "9,1234567,3,0\n3,1234568,4,0\n5,unknown,1,0\n6,unknown,1,0\n"
    )
    found = recorded_calls([trace(tmp_path, text)]).table
    assert list(found["session"]) == [0, 0, 0, 1, 2, 3]
    assert list(found["t_s"]) == [1, 1, 1, 3, 5, 6]
    np.testing.assert_array_equal(found["audio_s"], [2, np.nan, 3, 4, 1, 1])
    np.testing.assert_array_equal(found["think_s"], [np.nan, 0.5, 0, 0, 0, 0])
    with pytest.raises(CalibrationError, match=r"^trace:3: audio_s: found '-2'; must be a finite"):
        recorded_calls([trace(tmp_path, "t_s,audio_s\n1,1\n2,-2\n")])
    with pytest.raises(CalibrationError, match="tokens are decode steps"):
        recorded_calls([trace(tmp_path, "t_s,tokens\n1,5\n")])


def test_the_pools_of_a_run_are_replayed_together(tmp_path):
    """Each pool has tables of its own; the callers are those of the whole, in order of arrival,
    and go back to their pools, where they meet what they met."""
    path = small.write(tmp_path, FLEET)
    done = command("run", path, "--out", tmp_path / "run", "--replications", 2, "--workers", 1,
                   "--set", "horizon=30s")  # fmt: skip
    assert done.exit_code == 0, done.output
    assert len(list((tmp_path / "run" / "streams").iterdir())) == 2 * 2 * 3
    done = command("replay", tmp_path / "run", "-s", path, "--run", "admit_all-1", "--out",
                   tmp_path / "again", "--replications", 2, "--workers", 1, "--set",
                   "horizon=30s")  # fmt: skip
    assert done.exit_code == 0, done.output
    calls = recorded_calls([tmp_path / "run"], run="admit_all-1").table
    starts = calls.groupby("session")["t_s"].first()
    assert starts.is_monotonic_increasing and starts.nunique() == len(starts)
    callers = 0
    for pool in SHARES:
        name = f"admit_all-1-{pool}"
        first, second = (table(tmp_path / f, "streams", name) for f in ("run", "again"))
        pd.testing.assert_frame_equal(first, second, check_exact=True)
        callers += first["session"].nunique()
    assert callers == len(starts)
    with pytest.raises(CalibrationError, match="it holds: admit_all-0, admit_all-1, cap-0, cap-1"):
        recorded_calls([tmp_path / "run"], run="admit_all-0-west")


def test_the_example(tmp_path):
    """Both of its commands, of which the comment says what they have in common."""
    folder = Path(__file__).parents[2] / "scenarios"
    calls = recorded_calls([folder / "replay_trace_composed.jsonl"])
    law = load(folder / "replay_trace.yaml").variants["cap"].workload
    each = calls.table.groupby("session").size()
    assert law.arrivals.rate * 600 / 12 == pytest.approx(calls.sessions, rel=0.05)
    assert law.utterances_per_session.mean() == pytest.approx(each.mean(), rel=0.05)
    assert law.utterance.audio.mean() == pytest.approx(calls.table["audio_s"].mean(), rel=0.05)
    prompt = calls.table["prompt_tokens"].mean()
    assert law.utterance.prompt_tokens.mean() == pytest.approx(prompt, rel=0.05)
    goes_on = calls.table["session"].duplicated(keep="last")
    assert law.think.mean() == pytest.approx(calls.table["think_s"][goes_on].mean(), rel=0.05)
