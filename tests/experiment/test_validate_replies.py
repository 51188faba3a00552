"""Chunks and requests replayed: no error where the model made them, and every format once."""

import gzip
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from tests.calibrate import composed
from tests.calibrate.chunkworld import play, truth, write_csv
from tests.experiment.test_ladder import profile
from voicesim.calibrate import CalibrationError
from voicesim.calibrate.readers.measured import CHUNKS, REQUESTS, Measured, table
from voicesim.cli import app
from voicesim.engine.profile import Profile, ProfileError, Quantity, save_profile
from voicesim.experiment.assumed import Given, replica_of, token_audio_of
from voicesim.experiment.metrics import ExperimentError
from voicesim.experiment.reenact import METRICS, paused, reply_numbers, validate_replies
from voicesim.experiment.replies import replies_of, with_audio
from voicesim.experiment.rung import Load
from voicesim.experiment.validate import compared
from voicesim.listener.definitions import underruns

RUNNER = CliRunner()
SCHEDULE = (4, 8, 16, 25)
OUTSIDE = 0.015  # s
NOTHING = Given()


def with_outside(card: Profile) -> Profile:
    return card.model_copy(update={"request_s": Quantity(value=OUTSIDE)})


def slower(card: Profile, by: float) -> Profile:
    """The same card, every cost of it times ``by``."""

    def times(part):
        q = {n: v for n in type(part).model_fields if isinstance(v := getattr(part, n), Quantity)}
        return part.model_copy(update={n: Quantity(value=v.value * by) for n, v in q.items()})

    assert card.codec is not None
    update = {"decode": times(card.decode), "codec": times(card.codec)}
    if card.request_s is not None:
        update["request_s"] = Quantity(value=card.request_s.value * by)
    return card.model_copy(update=update)


def measured(chunks: pd.DataFrame, requests: pd.DataFrame | None = None) -> Measured:
    kept = [name for name in CHUNKS if name in chunks]
    return Measured("made", "made", len(chunks), requests=requests,
                    chunks=table(CHUNKS, chunks[kept]))  # fmt: skip


def errors(found: Measured, card: Profile, given: Given = NOTHING, seeds: int = 1, buffer: int = 4):
    """Of each setting by name: what ``compared`` says of every metric."""
    runs, _ = replies_of(found, lambda: token_audio_of(card, found.file), 60, given)
    replica = replica_of(found, card, runs[0].spoken, given)
    settings = validate_replies(replica, runs, seeds, buffer)
    return {s.name: {name: compared(s, name) for name in METRICS} for s in settings}


@pytest.fixture(scope="module")
def world() -> pd.DataFrame:
    """100 replies that came at random and 60 of a closed loop, by the card of chunkworld."""
    load = Load(truth(), audio=6.0, chunks=SCHEDULE)
    parts = [
        play(load, "open", rate=1.2, replies=100, delay=OUTSIDE),
        play(load, "closed-8", callers=8, replies=60, delay=OUTSIDE),
    ]
    return pd.concat(parts, ignore_index=True)


# --- right values -----------------------------------------------------------------------------


def test_the_card_that_made_the_chunks_predicts_them(world):
    """Schedule, batch cap and lengths are read off the file; only rounding is left.

    Stalls of players that gather nothing, so that there are some.
    """
    found = errors(measured(world), with_outside(truth()), seeds=1, buffer=1)
    assert set(found) == {"open", "closed-8"}
    for each in found.values():
        for name, value in each.items():
            if name.startswith("ttft"):
                assert value["measured"] is None
                continue
            assert value["predicted"] == pytest.approx(value["measured"], rel=1e-6, abs=1e-6), name


def test_a_card_20_percent_slower_is_told(world):
    """Steps and codec 1.2 times as long: so are gaps and RTF, and a little more, since slower
    replies overlap more (1.2 requests/s, half a second each).  The slowest 1 % are seven chunks,
    whose company changes."""
    found = errors(measured(world[world["run"] == "open"]), slower(with_outside(truth()), 1.2))
    each = found["open"]
    for name in ("gap_p50_s", "gap_p99_s", "rtf", "latency_p50_s", "ttfa_p50_s"):
        assert 0.19 < each[name]["error"] < 0.24, name
    assert -0.20 < each["pace_p50"]["error"] < -0.16
    assert -0.20 < each["pace_p99"]["error"] < -0.14


def test_clocks_of_their_own_are_replayed_in_a_closed_loop(world):
    """No send times, eight in flight, nothing outside: the loop that was."""
    load = Load(truth(), audio=6.0, chunks=SCHEDULE)
    rows = play(load, "c8_r1", callers=8, replies=60)
    rows = rows.sort_values("request", key=lambda s: s.astype(int), kind="stable")
    own = rows.assign(t_s=rows["t_s"] - rows["sent_s"], sent_s=0.0, concurrency=8.0)
    for each in (own, own.assign(concurrency=np.nan)):
        given = Given(codec_cap=8, callers=None if each is own else 8)
        (found,) = errors(measured(each), truth(), given).values()
        for name in ("ttfa_p50_s", "ttfa_p95_s", "gap_p50_s", "gap_p99_s", "rtf", "pace_p99"):
            assert found[name]["error"] == pytest.approx(0.0, abs=1e-6), name
    with pytest.raises(CalibrationError, match=r"clock of its own.*--concurrency N"):
        errors(measured(own.drop(columns="concurrency")), truth())
    with pytest.raises(ExperimentError, match="--concurrency: has no use here"):
        errors(measured(own), truth(), Given(callers=7))


def test_requests_with_arrivals_put_own_clocks_on_one(world):
    rows = world[world["run"] == "open"]
    sent = rows.groupby("request", sort=False)["sent_s"].first()
    requests = table(REQUESTS, {"run": "open", "request": sent.index, "arrival_s": sent.to_numpy(),
                                "latency_s": 1.0})  # fmt: skip
    own = rows.assign(t_s=rows["t_s"] - rows["sent_s"], sent_s=0.0)
    found = errors(measured(own, requests), with_outside(truth()))["open"]
    assert found["ttfa_p95_s"]["error"] == pytest.approx(0.0, abs=1e-6)


def test_without_send_times_first_chunks_come_when_they_came(world):
    rows = world[world["run"] == "open"].drop(columns="sent_s")
    found = errors(measured(rows), with_outside(truth()))["open"]
    assert found["gap_p50_s"]["error"] == pytest.approx(0.0, abs=0.01)
    assert found["gap_p99_s"]["error"] == pytest.approx(0.0, abs=0.03)
    for name in ("ttfa_p50_s", "latency_p50_s", "rtf"):
        assert found[name]["measured"] is None and found[name]["predicted"] is None


def test_a_lone_reply_by_hand():
    """20 ms a step, a prompt of one token: 4 tokens after 80 ms, 8 more after 160 ms."""
    rows = pd.DataFrame({"run": "a", "request": "x", "chunk": [0, 1], "t_s": [1.2, 1.4],
                         "audio_s": [0.32, 0.64], "sent_s": 1.0, "prompt_tokens": 1})  # fmt: skip
    found = errors(measured(rows), profile())["a"]
    expected = {
        "ttfa_p50_s": (0.2, 0.08), "gap_p50_s": (0.2, 0.16), "pace_p50": (3.2, 4.0),
        "latency_p95_s": (0.4, 0.24), "rtf": (0.4 / 0.96, 0.25), "stalled_share": (0.0, 0.0),
    }  # fmt: skip
    for name, (was, said) in expected.items():
        assert found[name]["measured"] == pytest.approx(was), name
        assert found[name]["predicted"] == pytest.approx(said), name


def test_replies_of_one_chunk_each_come_whole():
    """5 and 20 tokens far apart, 20 ms a step: first audio is the whole reply's."""
    rows = pd.DataFrame({"run": "a", "request": ["x", "y"], "chunk": 0, "t_s": [1.2, 10.4],
                         "audio_s": [0.4, 1.6], "sent_s": [1.0, 10.0]})  # fmt: skip
    rows["prompt_tokens"] = 1
    found = errors(measured(rows), profile())["a"]
    assert found["ttfa_p50_s"]["predicted"] == pytest.approx(0.1)
    assert found["ttfa_p95_s"]["predicted"] == pytest.approx(0.4)
    assert found["latency_p95_s"]["error"] == pytest.approx(0.0)
    assert found["gap_p50_s"]["measured"] is found["stalled_share"]["measured"] is None


def test_requests_in_text_tokens_by_hand():
    """Ten tokens alone at 20 ms a step: the first after 20 ms, the last after 200 ms."""
    rows = table(REQUESTS, [{"run": "a", "request": "x", "arrival_s": 3.0, "tokens": 10,
                             "prompt_tokens": 1, "ttft_s": 0.03, "latency_s": 0.25}])  # fmt: skip
    file = Measured("f", "f", 1, requests=rows)
    bare = profile().model_copy(update={"token_audio_s": None})
    found = errors(file, bare)["a"]
    assert found["ttft_p50_s"]["predicted"] == pytest.approx(0.02)
    assert found["latency_p50_s"]["predicted"] == pytest.approx(0.2)
    assert found["latency_p50_s"]["error"] == pytest.approx(-0.2)
    assert found["rtf"]["measured"] is None and found["gap_p50_s"]["predicted"] is None
    with pytest.raises(ExperimentError, match="--chunk: has no use here: replies are tokens"):
        errors(file, bare, Given(chunks=(4,)))


def test_numbers_of_a_reply_by_hand():
    rows = pd.DataFrame({"run": "a", "request": "x", "chunk": [0, 1, 2], "t_s": [1.0, 1.2, 2.0],
                         "audio_s": [0.32, 0.32, 0.64], "sent_s": 0.5})  # fmt: skip
    (run,), _ = replies_of(measured(rows), lambda: 0.08, 60, Given())
    found = reply_numbers(run, 0.32)
    assert found["ttfa_p50_s"] == pytest.approx(0.5)
    assert found["gap_p50_s"] == pytest.approx(0.2) and found["gap_p99_s"] == pytest.approx(0.8)
    assert found["pace_p50"] == pytest.approx(1.6) and found["pace_p99"] == pytest.approx(0.8)
    assert found["rtf"] == pytest.approx(1.5 / 1.28)
    assert found["stalled_share"] == 1.0 and found["stall_total_s"] == pytest.approx(0.36)
    assert reply_numbers(run, 0.33)["stall_total_s"] == pytest.approx(0.16)  # begins at 1.2
    assert run.tokens.tolist() == [16] and run.prompt.tolist() == [60]


def test_pauses_are_those_of_a_pausing_player():
    rng = np.random.default_rng(0)
    for _ in range(200):
        t, audio = np.cumsum(rng.exponential(0.3, 12)), rng.choice([0.16, 0.32, 0.64], 12)
        total = underruns(t.tolist(), audio.tolist()).d_total
        assert paused(t, audio, 0.0) == pytest.approx(total, abs=1e-4)
    assert paused(np.array([0.0, 9.0]), np.array([0.1, 0.1]), 5.0) == 0.0


def test_repeats_are_gathered_by_name(world):
    """The second 10 % slower: 1 and 1.1 have a standard deviation of 0.0707 and a mean of 1.05."""
    rows = world[world["run"] == "open"]
    late = rows.assign(run="open-r2", t_s=rows["t_s"] * 1.1, sent_s=rows["sent_s"] * 1.1)
    found = errors(measured(pd.concat([rows.assign(run="open-r1"), late])), truth())
    assert list(found) == ["open-r1 (+1)"]
    assert found["open-r1 (+1)"]["rtf"]["spread"] == pytest.approx(0.0673, abs=1e-4)


# --- the command, every format ----------------------------------------------------------------


def command(folder, file, *more, card=None):
    save_profile(card or profile(codec=(1e-3, 1e-4, 1e-5)), folder / "card.yaml")
    out = folder / "out.json"
    asked = ["validate", folder / "card.yaml", file, "--json-file", out, "--seeds", 1, *more]
    result = RUNNER.invoke(app, list(map(str, asked)))
    return result, json.loads(out.read_text()) if result.exit_code == 0 else None


def words(result) -> str:
    """What was printed, on one line."""
    return " ".join(result.output.split())


def written(folder, name):
    """The composed file of a format."""
    form = composed.FORMS[name]
    path = folder / form.file
    path.write_text(form.text)
    return path


def test_a_chunk_csv(tmp_path, world):
    write_csv(world, tmp_path / "c.csv")
    card = with_outside(truth())
    result, data = command(tmp_path, tmp_path / "c.csv", card=card)
    assert result.exit_code == 0, result.output
    for row in data["settings"]:
        assert row["rtf_error"] == pytest.approx(0.0, abs=1e-4)
        assert not any(isinstance(v, dict | list) for v in row.values())
    said = words(result)
    assert "gap between chunks p99" in said and "TTFT" not in said
    assert "open replay: every request is sent when it was sent" in said
    assert "closed-8 (8); a slower prediction piles up" in said
    assert "chunks of 4, 8, 16, 25 tokens: read off the file" in said
    assert "batches of up to 8 rows (the largest seen)" in said
    assert "the profile's request_s, 15 ms" in said
    assert data["assumed"] == [a for a in data["assumed"] if a in said] != []


def test_many_settings_get_a_row_each(tmp_path):
    rows = composed.CHUNKS.splitlines()
    more = [row.replace("r,", f"run{i},", 1) for i in range(13) for row in rows[1:]]
    (tmp_path / "c.csv").write_text("\n".join([rows[0], *more]) + "\n")
    result, data = command(tmp_path, tmp_path / "c.csv")
    assert result.exit_code == 0, result.output
    assert len(data["settings"]) == 13
    lines = [line for line in result.output.splitlines() if line.strip().startswith("run")]
    assert len(lines) == 13 and "TTFA p50, ms" in result.output
    assert "latency p95" not in result.output


def test_a_gzipped_small_chunk_csv_with_a_given_schedule(tmp_path):
    (tmp_path / "c.csv.gz").write_bytes(gzip.compress(composed.CHUNKS.encode()))
    result, data = command(
        tmp_path, tmp_path / "c.csv.gz", "--chunk", "4,8", "--codec-cap", 3, "--codec-window",
        "2ms", "--left-context", 5, "--prompt", 7,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    (row,) = data["settings"]
    assert row["ttfa_p50_s_measured"] == pytest.approx(0.125)
    assert row["gap_p50_s_measured"] == pytest.approx(0.375)
    said = words(result)
    assert "chunks of 4, 8 tokens: given" in said and "prompt tokens: 7 given" in said
    assert "up to 3 rows (given), gather window 2 ms (given), left context 5 frames" in said


def test_a_tts_bench_run(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    written(folder, "nari_bench")
    result, data = command(tmp_path, folder)  # no events.jsonl: requests alone
    (row,) = data["settings"]
    assert row["streams"] == 2
    assert row["ttfa_p50_s_measured"] == pytest.approx(0.125)
    assert row["latency_p50_s_measured"] == pytest.approx(2.0)
    assert row["rtf_measured"] == pytest.approx(0.5)
    assert row["gap_p50_s_measured"] is row["gap_p50_s_predicted"] is None
    assert "assumed, the file has no chunks (--chunk)" in words(result)
    events = [
        composed.nari_chunk(name, at + t, audio)
        for name, at in (("m-1", 8.0), ("m-2", 9.0))
        for t, audio in ((0.125, 0.32), (0.325, 0.64), (0.725, 0.64), (1.2, 0.08))
    ]
    (folder / "events.jsonl").write_text(composed.lines(*events))
    result, data = command(tmp_path, folder)
    (row,) = data["settings"]
    assert row["gap_p50_s_measured"] == pytest.approx(0.4)
    assert row["ttfa_p95_s_measured"] == pytest.approx(0.125)
    assert "chunks of 4, 8 tokens: read off the file" in words(result)


def test_sglang_omni_results(tmp_path):
    folder = tmp_path / "sweep"
    for point in ("c2_r1", "c2_r2"):
        (folder / point).mkdir(parents=True)
        text = composed.FORMS["sglang_omni"].text
        (folder / point / "o.jsonl").write_text(text)
    result, data = command(tmp_path, folder)
    (row,) = data["settings"]
    assert (row["runs"], row["streams"]) == (2, 2)
    assert row["ttfa_p50_s_measured"] == pytest.approx(0.5)
    assert row["ttfa_p50_s_spread"] == 0.0
    assert "closed replay, 2 in flight" in words(result)
    path = written(tmp_path, "sglang_omni")
    result, _ = command(tmp_path, path)
    assert result.exit_code == 2 and "--concurrency N" in result.output
    result, data = command(tmp_path, path, "--concurrency", 1)
    # alone: 8 tokens of 20 ms, the codec's batch of 8 frames, and a prompt of 156 tokens
    expected = 7 * 0.02 + 0.156 + (1e-3 + 1e-4 + 8e-5)
    assert data["settings"][0]["ttfa_p50_s_predicted"] == pytest.approx(expected)
    assert data["settings"][0]["most_running"] == 1


def test_tts_serving_records(tmp_path):
    """Chunks of 0.32, 0.33 and 0.4 s: a schedule in frames of 80 ms must be given."""
    path = written(tmp_path, "tts_serving")
    result, data = command(tmp_path, path, "--chunk", "4")
    (row,) = data["settings"]
    assert row["streams"] == 1 and row["send_times_known"]
    assert row["gap_p50_s_measured"] == pytest.approx(0.25)
    assert "1 warm-up requests are left out" in words(result)


def test_vllm_bench_detailed_goes_token_by_token(tmp_path):
    path = tmp_path / "v.json"
    path.write_text(composed.lines({**composed.VLLM, **composed.DETAIL}))
    result, data = command(tmp_path, path, card=profile(flat=0.010, slope=0.0))
    (row,) = data["settings"]
    assert row["send_times_known"] and row["streams"] == 2
    assert row["ttft_p50_s_measured"] == pytest.approx(0.08)
    assert row["gap_p50_s_measured"] == pytest.approx(0.010)
    assert row["gap_p50_s_predicted"] == pytest.approx(0.010)
    assert "token gap p50 (ITL)" in result.output
    result, _ = command(tmp_path, path, "--chunk", "4")
    assert result.exit_code == 2 and "--chunk: has no use here: v.json" in result.output


def test_chunks_without_audio_fall_back_to_their_requests(tmp_path):
    responses = pd.DataFrame({"run": "a", "request": "x", "chunk": [0, 1], "t_s": [1.0, 1.1]})
    file = Measured("f", "f", 2, chunks=table(CHUNKS, responses.assign(sent_s=0.9)))
    assert with_audio(file).chunks is None
    with pytest.raises(CalibrationError, match="f: holds no timed replies"):
        replies_of(with_audio(file), lambda: 0.08, 60, NOTHING)
    timed = table(REQUESTS, [{"run": "a", "request": "x", "arrival_s": 0.9, "latency_s": 0.2}])
    with pytest.raises(CalibrationError, match="requests have no length"):
        replies_of(replace(with_audio(file), requests=timed), lambda: 0.08, 60, NOTHING)


# --- refusals ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["steps", "continuity_client", "sglang_serving", "prometheus"])
def test_files_without_timings_are_told_what_would_do(tmp_path, name):
    result, _ = command(tmp_path, written(tmp_path, name))
    assert result.exit_code == 2
    assert len(result.output.strip().splitlines()) == 1
    assert "no timed replies to replay; what would do: chunks or tokens" in result.output


def test_what_else_is_refused(tmp_path, world):
    chunks = tmp_path / "c.csv"
    write_csv(world[world["run"] == "open"], chunks)
    bare = truth().model_copy(update={"token_audio_s": None})
    wrong = truth().model_copy(update={"token_audio_s": 0.05})
    trace = written(tmp_path, "arrival_trace")
    for said, *asked, card in (
        ("truth: token_audio_s: is missing; c.csv has seconds of audio", chunks, bare),
        ("no whole number of the profile's tokens (50 ms each)", chunks, wrong),
        ("--codec-cap: has no use here: the profile has no codec", chunks, "--codec-cap", 2,
         truth(codec=None)),
        ("--prompt: has no use here: the file has the prompts", chunks, "--prompt", 2, truth()),
        ("--concurrency: has no use here: the requests", chunks, "--concurrency", 2, truth()),
        ("--sessions: goes with a trace of tokens", chunks, "--sessions", trace, truth()),
        ("--chunk: found '4,x'", chunks, "--chunk", "4,x", truth()),
        ("--codec-window: ", chunks, "--codec-window", "soon", truth()),
        ("--left-context: has no use here: t.csv is a trace of tokens", trace, "--left-context", 2,
         truth()),
    ):  # fmt: skip
        result, _ = command(tmp_path, *asked, card=card)
        assert result.exit_code == 2, said
        assert said in result.output
        assert len(result.output.strip().splitlines()) == 1
    assert not (tmp_path / "out.json").exists()
    with pytest.raises(ProfileError):
        errors(measured(world), bare)


def test_an_option_changes_the_replay(world):
    """A codec of one row at a time queues where eight did not; 25 frames of context cost more."""
    rows = measured(world[world["run"] == "closed-8"])
    card = with_outside(truth((0.02, 5e-4, 3e-4)))
    usual = errors(rows, card)["closed-8"]["gap_p50_s"]["predicted"]
    assert errors(rows, card, Given(codec_cap=1))["closed-8"]["gap_p50_s"]["predicted"] > usual
    more = replace(Given(), left_context=25)
    assert errors(rows, card, more)["closed-8"]["gap_p50_s"]["predicted"] > usual
    late = errors(rows, card, Given(gather=0.02))["closed-8"]["ttfa_p50_s"]["predicted"]
    assert late > errors(rows, card)["closed-8"]["ttfa_p50_s"]["predicted"]
