"""The command against a server on loopback whose every byte is known.

Times are compared with the server's own clock (the same machine, the same monotonic clock): nothing
arrives before it was sent.  No test says how soon.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from types import SimpleNamespace

import pandas as pd
import pytest
from typer.testing import CliRunner

from tests.experiment.test_ladder import profile
from tests.live.fake import (
    Answer,
    Fake,
    FakeSocket,
    audio_events,
    event,
    pcm,
    token_events,
    wav_header,
)
from tests.report.reading import read as read_page
from voicesim.calibrate.readers import read as read_measured
from voicesim.calibrate.readers import read_samples
from voicesim.cli import app
from voicesim.engine.profile import save_profile
from voicesim.experiment.traces import SESSION_COLUMNS, read_sessions, read_trace
from voicesim.report import words
from voicesim.report.measure_page import verdict

CHUNKS = ["run_id", "stream_id", "chunk_index", "t_arrival_s", "t_sent_s", "audio_s", "bytes",
          "prompt_tokens", "concurrency"]  # fmt: skip


@pytest.fixture
def out(tmp_path):
    return tmp_path / "m"


def measure(url, out, *more, rate=True):
    """Two requests at once, then whatever else is asked."""
    load = ["--rate", "40/s", "--duration", "100ms"] if rate else []
    asked = ["measure", url, *load, "--warmup", "1", "--out", out, *more]
    return CliRunner().invoke(app, list(map(str, asked)))


def read(out):
    manifest = json.loads((out / "manifest.json").read_text())
    return manifest, pd.read_csv(out / "sessions.csv")


def sent_before_heard(out, server, warmup=1):
    """Every chunk after the server sent it, every request before the server had it."""
    manifest, _ = read(out)
    rows = pd.read_csv(out / "chunks.csv")
    (run,) = manifest["runs"]
    one = rows[rows["run_id"] == run["run_id"]].sort_values(["stream_id", "chunk_index"])
    # one request at a time: the server's order is ours
    for (_, stream), seen in zip(one.groupby("stream_id"), server.seen[warmup:], strict=True):
        assert run["start_s"] + stream["t_sent_s"].iloc[0] <= seen.received + 1e-6
        for heard, said in zip(stream["t_arrival_s"], seen.sent, strict=True):
            assert run["start_s"] + heard >= said - 1e-6


# --- speech -------------------------------------------------------------------------------------


def test_raw_pcm_chunk_by_chunk(out):
    """Chunks of 40, 80 and 120 ms, one request at a time: counts, bytes and seconds are exact."""
    sizes = (40, 80, 120)
    with Fake(lambda n, body: Answer([(0.005, pcm(ms)) for ms in sizes])) as server:
        more = ("--levels", 1, "--precision", 10, "--gather", "0s", "--voice", "anna")
        result = measure(server.url(), out, *more, rate=False)
        assert result.exit_code == 0, result.output
        rows = pd.read_csv(out / "chunks.csv")
        assert list(rows.columns) == CHUNKS
        streams = rows["stream_id"].nunique()
        assert streams == len(server.seen) - 1 == 13  # 12 counted, the first of the place not
        assert rows["chunk_index"].tolist() == [0, 1, 2] * streams
        assert rows["bytes"].tolist() == [1920, 3840, 5760] * streams
        assert rows["audio_s"].tolist() == [0.04, 0.08, 0.12] * streams
        assert set(rows["concurrency"]) == {1}
        assert rows.groupby("stream_id")["t_arrival_s"].is_monotonic_increasing.all()
        sent_before_heard(out, server)
        assert read_measured(out / "chunks.csv").rows == len(rows)
        manifest, sessions = read(out)
        assert sessions["audio_s"].tolist() == [0.24] * streams
        first = rows[rows["chunk_index"] == 0]
        assert (first["t_arrival_s"] - first["t_sent_s"]).tolist() == pytest.approx(
            sessions["ttfa_s"].tolist(), abs=2e-6
        )
        body = server.seen[-1].body
        assert body["response_format"] == "pcm" and body["stream_format"] == "audio"
        assert body["voice"] == "anna" and body["input"]
        assert sessions["characters"].iloc[-1] == len(body["input"])
        (run,) = manifest["runs"]
        assert (run["finished"], run["failed"], run["stopped_by"]) == (13, 0, "steady")
        assert manifest["complete"] and manifest["url"] == server.url()
        assert manifest["audio"]["sample_rate"] == 24_000
        assert "closed-1" in result.output and "steady" in result.output


def test_a_write_that_takes_several_reads_is_one_chunk(out):
    """Half a megabyte takes several reads.  However they fall, no byte is lost."""
    with Fake(lambda n, body: Answer([(0.0, pcm(10_000))])) as server:
        assert measure(server.url(), out, "--gather", "1h").exit_code == 0
    rows = pd.read_csv(out / "chunks.csv")
    assert set(rows["bytes"]) == {480_000} and set(rows["audio_s"]) == {10.0}


def test_wav_and_headers_say_the_format(out, tmp_path):
    wav = [(0.0, wav_header(48_000)), (0.01, pcm(100, 48_000))]
    with Fake(lambda n, body: Answer(wav, "audio/wav")) as server:
        assert measure(server.url(), out, "--format", "wav", "--gather", "0s").exit_code == 0
    rows = pd.read_csv(out / "chunks.csv")
    assert set(rows["audio_s"]) == {0.1} and set(rows["bytes"]) == {44 + 9600}
    assert read(out)[0]["audio"] == {
        "sample_rate": 48_000, "sample_width_bytes": 2, "channels": 1, "said_by": "WAV header",
    }  # fmt: skip
    said = {"x-sample-rate": "12000"}
    with Fake(lambda n, body: Answer([(0.0, pcm(100))], headers=said)) as server:
        more = ("--sample-rate", 16_000, "--warmup", 0)
        assert measure(server.url(), tmp_path / "h", *more).exit_code == 0
    assert read(tmp_path / "h")[0]["audio"]["sample_rate"] == 12_000
    assert set(pd.read_csv(tmp_path / "h" / "chunks.csv")["audio_s"]) == {0.2}


def test_speech_events(out):
    with Fake(lambda n, body: Answer(audio_events((80, 160, 20)), "text/event-stream")) as server:
        assert measure(server.url(), out, "--stream-format", "sse").exit_code == 0
        assert server.seen[0].body["stream_format"] == "sse"
    rows = pd.read_csv(out / "chunks.csv")
    assert rows["audio_s"].tolist() == [0.08, 0.16, 0.02] * rows["stream_id"].nunique()
    assert set(rows["prompt_tokens"]) == {18}
    seen = read_measured(out / "chunks.csv")  # the reader's own name and columns
    assert seen.format == "chunk CSV" and seen.rows == len(rows)
    assert seen.chunks["audio_s"].sum() == pytest.approx(rows["audio_s"].sum())
    assert seen.requests["request"].nunique() == rows["stream_id"].nunique()


def test_a_level_keeps_its_places_full_and_no_more(out):
    answer = Answer([(0.01, pcm(40)), (0.01, pcm(40))])
    with Fake(lambda n, body: answer) as server:
        more = ("--levels", "3,2", "--precision", 10)
        assert measure(server.url(), out, *more, rate=False).exit_code == 0
        assert server.most == 3
    manifest, sessions = read(out)
    assert [run["run_id"] for run in manifest["runs"]] == ["closed-3", "closed-2"]
    assert [run["finished"] for run in manifest["runs"]] == sessions.groupby(
        "run_id", sort=False
    ).size().tolist()
    assert pd.read_csv(out / "chunks.csv")["concurrency"].max() == 3


def test_chunks_are_what_validate_replays(out, tmp_path):
    """What came is measured as the table says, and replayed at its send times."""
    save_profile(profile(), tmp_path / "card.yaml")
    answer = Answer(audio_events((320, 640, 640), 0.01), "text/event-stream")
    with Fake(lambda n, body: answer) as server:
        more = ("--stream-format", "sse", "--repeats", 2)
        assert measure(server.url(), out, *more).exit_code == 0
    numbers = ("--json-file", tmp_path / "v.json")
    asked = ["validate", tmp_path / "card.yaml", out / "chunks.csv", *numbers]
    result = CliRunner().invoke(app, list(map(str, asked)))
    assert result.exit_code == 0, result.output
    (row,) = json.loads((tmp_path / "v.json").read_text())["settings"]
    rows = pd.read_csv(out / "chunks.csv")
    first = rows[rows["chunk_index"] == 0]
    worst = (first["t_arrival_s"] - first["t_sent_s"]).groupby(first["run_id"]).max()
    assert first.groupby("run_id").size().max() < 20  # so that 95 % is the largest
    assert row["runs"] == 2 and row["send_times_known"]
    assert row["ttfa_p95_s_measured_low"] == pytest.approx(worst.min())
    assert row["ttfa_p95_s_measured_high"] == pytest.approx(worst.max())
    assert row["gap_p50_s_predicted"] >= 8 * 0.02 - 1e-6  # eight steps of 20 ms at least
    assert row["ttfa_p50_s_predicted"] >= 4 * 0.02 - 1e-6


# --- tokens -------------------------------------------------------------------------------------


def test_token_streams_are_what_validate_reads(out):
    """Events of 1, 2 and 1 tokens.  The second brings two rows at one instant."""

    def answer(number, body):
        counts = [1, 2, *[1] * (body["max_tokens"] - 3)]
        return Answer(token_events(counts, len(body["prompt"]), 0.002), "text/event-stream")

    with Fake(answer) as server:
        server.gets = {
            "/version": {"version": "9.9"}, "/v1/models": {"data": [{"id": "tiny"}]},
        }  # fmt: skip
        more = ("--tokens", "5..9", "--prompt-tokens", "3..6", "--repeats", 2, "--token-budget", 64)
        result = measure(server.url("/v1/completions"), out, *more, "--extra", '{"top_k": 1}')
        assert result.exit_code == 0, result.output
        asked = [seen.body for seen in server.seen]
        assert all(b["model"] == "tiny" and b["top_k"] == 1 and b["stream"] for b in asked)
    rows = read_trace(out / "tokens.csv")
    sessions = read_sessions(out / "sessions.csv", rows, out / "tokens.csv")
    assert set(SESSION_COLUMNS) - set(sessions.reset_index().columns) == set()
    assert set(rows["token_budget"]) == {64}
    first, again = (sessions.loc[f"poisson-40-r{n}"] for n in (1, 2))
    assert first["n_tokens"].tolist() == again["n_tokens"].tolist()
    assert first["t_due_s"].tolist() == again["t_due_s"].tolist()
    assert (sessions["t_send_s"] >= sessions["t_due_s"]).all()
    assert sorted(sessions["n_tokens"]) == sorted(b["max_tokens"] for b in asked[1:])
    assert sorted(sessions["prompt_tokens"]) == sorted(len(b["prompt"]) for b in asked[1:])
    times = rows.set_index("token_index")["t_arrival_s"]
    assert (times[1].to_numpy() == times[2].to_numpy()).all()
    assert (times[3].to_numpy() > times[2].to_numpy()).all()
    manifest, _ = read(out)
    gaps = rows.groupby(["run_id", "stream_id"])["t_arrival_s"].diff().dropna()
    for run, name in zip(manifest["runs"], ("poisson-40-r1", "poisson-40-r2"), strict=True):
        own = gaps[rows["run_id"] == name]
        assert run["bunched_share"] == pytest.approx((own < 0.1 * own.mean()).mean(), abs=0.05)
        assert run["bunched_share"] > 0.1  # one of each five to nine tokens, by the events
    assert "came together with the one before" in result.output.replace("\n", " ")
    assert manifest["server"]["version"] == "9.9" and manifest["model"] == "tiny"


def test_a_ladder_of_tokens_is_what_calibrate_reads(out):
    """One caller: every step has one stream; 13 replies of 4 tokens have 3 gaps each at most."""
    events = token_events([1] * 4, wait=0.01)
    with Fake(lambda n, body: Answer(events, "text/event-stream")) as server:
        more = ("--levels", 1, "--precision", 10, "--tokens", 4)
        assert measure(server.url("/v1/completions"), out, *more, rate=False).exit_code == 0
    samples = read_samples(out / "tokens.csv")
    assert set(samples["batch"]) == {1.0}
    assert 0 < len(samples) <= 13 * 4
    assert len(pd.read_csv(out / "tokens.csv")) == 13 * 4


def test_tokens_that_are_not_what_the_usage_says(out):
    events = token_events([1, 1, 1], ids=False, claim=4)
    with Fake(lambda n, body: Answer(events, "text/event-stream")) as server:
        result = measure(server.url("/v1/completions"), out)
    assert result.exit_code == 0
    assert "another number of tokens than their usage says" in result.output
    (run,) = read(out)[0]["runs"]
    assert run["token_counts_that_differ_from_usage"] == run["finished"] > 0


# --- WebSocket ----------------------------------------------------------------------------------


def speak(connection, seen):
    """vLLM-Omni's messages: 16 kHz PCM, 100 and 50 ms."""
    asked = [json.loads(connection.recv()) for _ in range(3)]
    seen.append(asked)
    start = {"type": "audio.start", "format": "pcm", "sample_rate": 16_000}
    connection.send(json.dumps(start))
    connection.send(pcm(100, 16_000))
    connection.send(pcm(50, 16_000))
    connection.send(json.dumps({"type": "audio.done", "total_bytes": 4800, "error": False}))
    connection.send(json.dumps({"type": "session.done", "total_sentences": 1}))


def test_text_in_audio_out_over_a_websocket(out):
    with FakeSocket(speak) as server:
        result = measure(server.url, out, "--voice", "anna")
        assert result.exit_code == 0, result.output
        config, text, done = server.seen[0]
    assert config == {
        "type": "session.config", "response_format": "pcm", "voice": "anna", "stream_audio": True,
    }  # fmt: skip
    assert text["type"] == "input.text" and text["text"] and done == {"type": "input.done"}
    rows = pd.read_csv(out / "chunks.csv")
    assert rows["audio_s"].tolist() == [0.1, 0.05] * rows["stream_id"].nunique()
    assert rows["bytes"].tolist() == [3200, 1600] * rows["stream_id"].nunique()
    assert (rows["t_arrival_s"] > rows["t_sent_s"]).all()
    assert read(out)[0]["audio"]["said_by"] == "audio.start"


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ({"type": "error", "message": "no such voice"}, "says no such voice"),
        ({"type": "audio.start", "format": "mp3"}, "sends mp3"),
        ({"type": "session.done"}, "ended without audio"),
        ([], "no JSON object"),
        (None, "closed before session.done"),
    ],
)
def test_a_websocket_that_fails(out, message, said):
    def handle(connection, seen):
        connection.recv()
        if message is not None:
            connection.send(json.dumps(message))
            connection.recv(), connection.recv(), connection.recv()

    with FakeSocket(handle) as server:
        failed(measure(server.url, out), out, said)


# --- endpoints that fail ------------------------------------------------------------------------


def failed(result, out, said):
    """Exit 1, one line that says why, nothing written."""
    assert result.exit_code == 1, result.output
    assert said in result.output
    assert len(result.output.strip().splitlines()) == 1
    assert not out.exists() and not list(out.parent.iterdir())


def json_of(**data):
    return [(0.0, json.dumps(data).encode())]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Answer(json_of(error={"message": "no model x"}), "application/json", 404),
         "HTTP 404: no model x"),
        (Answer([(0.0, b"down")], "text/plain", 503), "HTTP 503: down"),
        (Answer([(0.0, pcm(80))], cut=True), "broke off"),
        (Answer(json_of(ok=True), "application/json"), "answers application/json, not audio"),
        (Answer([(0.0, b"ID3")], "audio/mpeg"), "ask for pcm or wav"),
        (Answer([]), "ended without audio"),
        (Answer([(0.0, pcm(80))], stall=1.0), "nothing came for 0.2 s"),
        (Answer([(0.0, pcm(80))], headers={"content-encoding": "gzip"}), "compresses"),
        (Answer(audio_events([80])[:1], "text/event-stream"), "no speech.audio.done"),
        (Answer([(0.0, event(type="speech.audio.error", error={"message": "out of memory"}))],
                "text/event-stream"), "says out of memory"),
        (Answer([(0.0, event(type="speech.audio.delta", audio="!"))], "text/event-stream"),
         "not base64"),
    ],
)  # fmt: skip
def test_an_endpoint_that_fails_at_once(out, answer, said):
    with Fake(lambda n, body: answer) as server:
        more = ("--timeout", "200ms") if answer.stall else ()
        failed(measure(server.url(), out, *more), out, said)
        assert len(server.seen) == 1


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Answer([(0.0, b"hello")], "text/plain"), "not an event stream"),
        (Answer(token_events([1])[:-1], "text/event-stream"), "no [DONE]"),
        (Answer([(0.0, b"data: nothing\n\n")], "text/event-stream"), "no JSON object"),
        (Answer([(0.0, event(error={"message": "too long"}))], "text/event-stream"), "too long"),
        (Answer(token_events([]), "text/event-stream"), "without a token"),
    ],
)
def test_completions_that_fail_at_once(out, answer, said):
    with Fake(lambda n, body: answer) as server:
        failed(measure(server.url("/v1/completions"), out), out, said)


def test_nobody_listens(out):
    with Fake(None) as server:
        url = server.url()
    failed(measure(url, out), out, "cannot connect")


def test_a_redirect_is_not_followed(out):
    good = Answer([(0.0, pcm(80))])
    with Fake(lambda n, body: good) as other:
        away = Answer([], status=307, headers={"location": other.url()})
        with Fake(lambda n, body: away) as server:
            failed(measure(server.url(), out), out, "HTTP 307: redirects to 127.0.0.1")
        assert other.seen == []


def test_a_websocket_is_not_redirected_either(out):
    with FakeSocket(speak) as other, Fake(None) as server:
        server.gets = {"/speech": other.url}
        url = f"ws://{server.host}/speech"
        failed(measure(url, out), out, "HTTP 307: redirects (never followed)")
        assert other.seen == []
        failed(measure(f"ws://{server.host}/none", out), out, "HTTP 404: no WebSocket here")


def test_one_request_that_fails_is_left_out_and_told(out):
    def answer(number, body):
        return Answer([(0.0, pcm(80))], cut=number == 3)

    with Fake(answer) as server:
        more = ("--levels", 1, "--precision", 10)
        result = measure(server.url(), out, *more, rate=False)
    assert result.exit_code == 0
    assert "1 requests failed and are left out: broke off" in result.output
    manifest, sessions = read(out)
    assert sessions["stream_id"].tolist() == [0, 1, *range(3, 14)]
    (run,) = manifest["runs"]
    assert run["failed"] == 1 and sum(run["errors"].values()) == 1


def test_an_endpoint_that_fails_later_keeps_what_was_finished(out):
    def answer(number, body):
        return Answer([(0.0, pcm(80))], status=200 if number < 6 else 500)

    with Fake(answer) as server:
        result = measure(server.url(), out, "--levels", "1,2", rate=False)
        assert len(server.seen) == 6 + 5  # five failures in a row are enough
    assert result.exit_code == 1
    assert "HTTP 500" in result.output and "5 finished requests are kept" in result.output
    manifest, sessions = read(out)
    assert len(sessions) == 5 and not manifest["complete"] and "500" in manifest["failed"]


def test_too_many_in_flight_end_a_poisson_run(out):
    free = threading.Event()
    last = threading.Barrier(4, threading.Timer(0.5, free.set).start)

    def answer(number, body):
        if number:  # the first is no part of a run
            last.wait(60)  # however slow the machine is, four are in flight before one is answered
            free.wait(60)
        return Answer([(0.0, pcm(80))])

    with Fake(answer) as server:
        more = ("--rate", "200/s", "--duration", "10s", "--max-in-flight", 4)
        assert measure(server.url(), out, *more, rate=False).exit_code == 0
        assert server.most == 4
    (run,) = read(out)[0]["runs"]
    assert run["stopped_by"] == "4 requests in flight" and run["finished"] == 4


# --- what is asked for --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "give --levels"),
        (["--levels", "1", "--rate", "1/s"], "one of them"),
        (["--levels", "1,0"], "--levels: found '1,0'"),
        (["--levels", "2,2"], "each once"),
        (["--levels", "1", "--duration", "5s"], "--duration: has no use with --levels"),
        (["--rate", "1/s", "--precision", "0.1"], "--precision: has no use with --rate"),
        (["--rate", "0/s"], "more than 0"),
        (["--rate", "fast"], "--rate: expected"),
        (["--levels", "1", "--tokens", "5"], "--tokens: is for completions, not speech"),
        (["--levels", "1", "--format", "mp3"], "allowed: pcm, wav"),
        (["--levels", "1", "--stream-format", "x"], "allowed: audio, sse"),
        (["--levels", "1", "--timeout", "0s"], "--timeout: found"),
        (["--levels", "1", "--texts", "absent.txt"], "--texts absent.txt: cannot be read"),
        (["--levels", "1", "--extra", "{"], "--extra: is not JSON"),
        (["--levels", "1", "--extra", "[]"], "--extra: is no JSON object"),
        (["--levels", "1", "--extra", '{"api_key": "x"}'], "VOICESIM_API_KEY"),
        (["--levels", "1", "--api-key-env", "ABSENT_KEY"], "the environment has no ABSENT_KEY"),
    ],
)
def test_what_cannot_be_asked_is_refused_before_anything_is_sent(out, options, said):
    with Fake(None) as server:
        result = measure(server.url(), out, *options, rate=False)
        assert server.seen == []
    assert result.exit_code == 2
    assert said in result.output
    assert len(result.output.strip().splitlines()) == 1
    assert not list(out.parent.iterdir())


def test_a_foreign_host_must_be_named(out):
    result = measure("http://tts.example.com/v1/audio/speech", out)
    assert result.exit_code == 2 and "add --host-ok tts.example.com" in result.output


def test_without_its_packages_the_command_says_what_to_install(out):
    code = (
        "import sys; sys.modules['httpx'] = None; from voicesim.report.measure import *; "
        f"at, to = 'http://localhost/v1/completions', {str(out)!r}; "
        "sys.exit(measure_command(at, {}, to, False, False))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.strip() == "measure needs httpx: pip install 'voicesim[live]'"


def test_a_measurement_is_never_replaced(out):
    out.mkdir()
    (out / "manifest.json").write_text("mine")
    with Fake(None) as server:
        result = measure(server.url(), out)
        assert server.seen == []
    assert result.exit_code == 2 and "is there already" in result.output
    assert (out / "manifest.json").read_text() == "mine" and len(list(out.parent.iterdir())) == 1


def test_the_key_goes_to_the_server_and_into_no_file(out, monkeypatch):
    monkeypatch.setenv("MY_KEY", "sesame-4711")
    with Fake(lambda n, body: Answer([(0.0, pcm(80))], headers={"set-cookie": "c=1"})) as server:
        url = server.url() + "?token=abc-99"
        assert measure(url, out, "--api-key-env", "MY_KEY").exit_code == 0
        assert {s.headers["authorization"] for s in server.seen} == {"Bearer sesame-4711"}
    written = "".join(path.read_text() for path in out.iterdir())
    assert not any(word in written for word in ("sesame", "abc-99", "c=1"))


def test_an_interrupt_keeps_what_is_finished(out):
    """The fourth request after the warm-up says that three are recorded: then Ctrl-C."""
    fourth, free = threading.Event(), threading.Event()

    def answer(number, body):
        if number == 4:
            fourth.set()
            free.wait(60)
        return Answer([(0.0, pcm(80))])

    with Fake(answer) as server:
        command = [sys.executable, "-m", "voicesim", "measure", server.url(), "--levels", "1",
                   "--warmup", "1", "--out", str(out)]  # fmt: skip
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ)
        try:
            assert fourth.wait(60)
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=60)
        finally:
            free.set()
            process.kill()
    assert process.returncode == 130
    assert said.strip() == "interrupted: 3 finished requests are kept"
    manifest, sessions = read(out)
    assert sessions["stream_id"].tolist() == [0, 1, 2]
    assert not manifest["complete"]
    assert [run["stopped_by"] for run in manifest["runs"]] == ["interrupted"]
    assert [path.name for path in out.parent.iterdir()] == ["m"]


def test_the_page_of_a_measurement(out):
    """Chunks of 100 ms: what the page says is what sessions.csv and the table have."""
    with Fake(lambda n, body: Answer([(0.0, pcm(100)), (0.02, pcm(100))])) as server:
        more = ("--levels", "1,2", "--precision", 10, "--gather", "0s")
        result = measure(server.url(), out, *more, rate=False)
        assert result.exit_code == 0, result.output
        assert "report.html, manifest.json" in result.output
    manifest, sessions = read(out)
    page = read_page((out / "report.html").read_text())
    firsts = sessions.loc[sessions["run_id"] == "closed-2", "ttfa_s"]
    half = sorted(firsts)[(len(firsts) + 1) // 2 - 1]
    assert "With 2 requests in flight half of the requests have their first sound within " in (
        page.text
    )
    # the file has whole microseconds, the page what was measured
    assert any(words.duration(half + off) in page.text for off in (-5e-7, 0.0, 5e-7))
    sent = sum(run["sent"] for run in manifest["runs"])
    assert f"{sent:,} requests were sent; the client itself" in page.text
    rows = page.tables["Results"]
    assert [row[0] for row in rows[1:]] == ["closed-1", "closed-2"]
    assert server.url() in page.text and "voicesim-measure/1" in page.text
    assert len([name for name, _ in page.tags if name == "img"]) == 1


def test_what_a_measurement_says_of_pace():
    """The highest load whose slowest chunks still outrun their playing, and the one above it."""

    def runs(*paces):
        return [
            SimpleNamespace(places=n, rate=None, firsts=[0.2, 0.3, 0.4], paces=[pace] * 3,
                            lag_p99=0.001)
            for n, pace in zip((1, 4, 16), paces, strict=True)
        ]  # fmt: skip

    told = {"runs": [{"sent": 4, "failed": 1}, {"sent": 8, "failed": 0}]}
    first, keeps, sent = verdict(runs(3.0, 1.5, 0.8), False, told)
    half = "half of the requests have their first sound within 300 ms"
    assert first == f"With 16 requests in flight {half}"
    assert keeps == (
        "Up to 4 requests in flight no buffer drains; with 16 requests in flight the slowest 1 % "
        "of chunks come at 0.80x the speed of speech"
    )
    assert sent.startswith("12 requests were sent, 1 failed; the client itself was at most 1 ms")
    assert verdict(runs(3.0, 2.0, 1.2), False, told)[1].startswith(
        "Up to 16 requests in flight, the highest load measured, the slowest 1 % of chunks come at"
    )
    assert verdict(runs(0.9, 0.8, 0.7), False, told)[1].startswith(
        "Already with one request in flight the slowest 1 % of chunks come at 0.90x"
    )
