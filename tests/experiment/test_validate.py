"""A replayed run against the run: zero error where the model made it, and the one real run."""

import gzip
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from tests.experiment.test_ladder import profile
from tests.report.reading import read as read_page
from voicesim.calibrate import CalibrationError
from voicesim.cli import app
from voicesim.engine.profile import Quantity, load_profile, save_profile
from voicesim.experiment.traces import MeasuredRun, read_runs
from voicesim.experiment.validate import METRICS, compared, numbers, replay, stalled, validate
from voicesim.listener.definitions import underruns

ROOT = Path(__file__).parents[2]
CPU = ROOT / "calibration" / "profiles" / "vllm-cpu-22m.yaml"
MEASURED = ROOT / "calibration" / "measured" / "vllm_cpu"
RUNNER = CliRunner()


def made(seed: int, name: str = "made", streams: int = 40) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A trace and its sessions, made by a profile: 20 ms flat, 2 ms a stream beyond 10."""
    rng = np.random.default_rng(seed)
    sent = np.round(np.cumsum(rng.exponential(0.2, streams)), 4)
    tokens, prompt = rng.integers(5, 120, streams), rng.integers(1, 30, streams)
    blank = [np.zeros(n) for n in tokens]
    run = MeasuredRun(name, sent, blank, prompt.astype(np.int64), 2048, True)
    arrivals, _ = replay(profile(slope=0.002), run)
    trace = pd.DataFrame(
        {
            "run_id": name,
            "stream_id": np.repeat(np.arange(streams), tokens),
            "token_index": np.concatenate([np.arange(n) for n in tokens]),
            "t_arrival_s": np.concatenate(arrivals),
            "prompt_tokens": np.repeat(prompt, tokens),
        }
    )
    sessions = pd.DataFrame(
        {"run_id": name, "stream_id": np.arange(streams), "t_send_s": sent, "n_tokens": tokens,
         "prompt_tokens": prompt}
    )  # fmt: skip
    return trace, sessions


@pytest.fixture
def files(tmp_path):
    trace, sessions = made(1)
    trace.sample(frac=1, random_state=0).to_csv(tmp_path / "trace.csv.gz", index=False)
    sessions.to_csv(tmp_path / "sessions.csv", index=False)
    save_profile(profile(slope=0.002), tmp_path / "line.yaml")
    return tmp_path


# --- right values -----------------------------------------------------------------------------


def test_the_profile_that_made_a_trace_predicts_it_exactly(files):
    line = load_profile(files / "line.yaml")
    runs = read_runs(files / "trace.csv.gz", files / "sessions.csv", line)
    (setting,) = validate(line, runs, seeds=2)
    for name in METRICS:
        found = compared(setting, name)
        assert found["measured"] is not None
        assert found["predicted"] == pytest.approx(found["measured"], rel=1e-6, abs=1e-9), name


def test_a_slower_card_is_told(files):
    slow = profile(flat=0.026, slope=0.0026)
    runs = read_runs(files / "trace.csv.gz", files / "sessions.csv", slow)
    (setting,) = validate(slow, runs, seeds=1)
    assert compared(setting, "gap_p50_s")["error"] == pytest.approx(0.3, abs=0.1)
    assert compared(setting, "pace_p50")["error"] < -0.15


def test_without_send_times_the_first_step_stands_in_for_them(files):
    """Most gaps are right to a few per cent; TTFT is not compared."""
    line = load_profile(files / "line.yaml")
    (run,) = read_runs(files / "trace.csv.gz", None, line)
    assert not run.send_known
    (setting,) = validate(line, [run], seeds=1)
    assert compared(setting, "ttft_p50_s")["measured"] is None
    assert compared(setting, "gap_p50_s")["error"] == pytest.approx(0.0, abs=0.03)
    assert compared(setting, "tokens_per_s")["error"] == pytest.approx(0.0, abs=0.03)


def test_callers_who_start_together_are_sent_together():
    """Eight prompts of 100 tokens in one step: the step of 800 tokens, not of 100."""
    trace = [np.array([1.0, 1.02]) for _ in range(8)]
    from voicesim.experiment.traces import guessed_send_times

    send = guessed_send_times(trace, np.full(8, 100), profile())
    assert send == pytest.approx(np.full(8, 1.0 - 0.8))


def test_the_shipped_run_is_within_ten_percent_on_the_median_pace():
    """Measured: median gap 52.5 ms, 49 sessions, nobody stalls.  No profile was fitted to it."""
    cpu = load_profile(CPU)
    runs = read_runs(MEASURED / "poisson1.csv.gz", MEASURED / "poisson1_sessions.csv", cpu)
    (setting,) = validate(cpu, runs, seeds=5)
    gap, pace = compared(setting, "gap_p50_s"), compared(setting, "pace_p50")
    assert gap["measured"] == pytest.approx(0.0525, abs=0.0005)
    assert 0.055 < gap["predicted_low"] <= gap["predicted_high"] < 0.059
    assert abs(pace["error"]) < 0.10
    stall = compared(setting, "stall_total_s")
    assert stall["measured"] == stall["predicted"] == 0.0
    given = pd.read_csv(MEASURED / "poisson1_sessions.csv")
    ttft = compared(setting, "ttft_p50_s")["measured"]
    assert ttft == pytest.approx(np.quantile(given["ttft_s"], 0.5, method="inverted_cdf"), abs=1e-4)


def test_repeats_of_a_setting_are_gathered():
    cpu = load_profile(CPU)
    settings = validate(cpu, read_runs(MEASURED / "short.csv.gz", None, cpu), seeds=1)
    assert sorted(len(s.runs) for s in settings) == [2] * 11 + [3]
    for setting in settings:
        assert compared(setting, "gap_p50_s")["spread"] is not None
    eight = next(s for s in settings if s.name.startswith("vllm-B8-"))
    assert eight.name == "vllm-B8-P32-p1 (+1)"
    assert eight.most_running == 8


def test_stalls_are_those_of_a_pausing_player():
    rng = np.random.default_rng(0)
    for _ in range(200):
        t = np.cumsum(rng.exponential(0.09, 30))
        total = underruns(t.tolist(), [0.08] * 30).d_total
        assert stalled(t, 0.08, 1) == pytest.approx(total, abs=1e-4)
    assert stalled(np.array([0.0, 0.3, 0.6, 0.9]), 0.1, 4) == 0.0
    assert stalled(np.array([0.0, 0.3, 0.6, 0.9]), 0.1, 1) == pytest.approx(0.6)


def test_what_cannot_be_measured_is_none():
    found = numbers([np.array([1.0])], np.array([0.5]), True, 0.08, 4)
    assert found["ttft_p50_s"] == pytest.approx(0.5)
    for name in ("gap_p50_s", "pace_p50", "stalled_share", "tokens_per_s"):
        assert found[name] is None
    found = numbers([np.array([1.0, 1.1])], np.array([0.5]), False, None, 4)
    assert found["gap_p50_s"] == pytest.approx(0.1)
    assert found["pace_p50"] is None and found["ttft_p50_s"] is None


# --- the command, and broken files ------------------------------------------------------------


def command(folder, *more, sessions="sessions.csv", trace="trace.csv.gz"):
    given = ["--sessions", folder / sessions] if sessions else []
    asked = ["validate", folder / "line.yaml", folder / trace, *given, *more]
    return RUNNER.invoke(app, list(map(str, asked)))


def test_it_does_not_write_over_what_it_reads(files):
    before = (files / "line.yaml").read_bytes()
    result = command(files, "--json-file", files / "line.yaml")
    assert result.exit_code == 2 and "is read too" in result.stderr
    assert (files / "line.yaml").read_bytes() == before


def test_the_command_prints_and_writes(files):
    result = command(files, "--json-file", files / "o" / "v.json", "--seeds", 2)
    assert result.exit_code == 0, result.output
    assert "token gap p50" in result.output and "+0.0%" in result.output
    (row,) = json.loads((files / "o" / "v.json").read_text())["settings"]
    assert row["streams"] == 40
    assert row["gap_p50_s_error"] == pytest.approx(0.0, abs=1e-6)
    assert not any(isinstance(v, dict | list) for v in row.values())
    assert "send times are not known" in command(files, sessions=None).output


def test_a_folder_with_a_page(files):
    """What the page says is what the JSON beside it has; wrong input leaves no folder."""
    out = files / "v"
    result = command(files, "--out", out, "--seeds", 2)
    assert result.exit_code == 0, result.output
    assert result.output.endswith("(validate.json, validate.png, report.html)\n")
    assert sorted(p.name for p in out.iterdir()) == [
        "report.html", "validate.json", "validate.png",
    ]  # fmt: skip
    data = json.loads((out / "validate.json").read_text())
    (row,) = data["settings"]
    page = read_page((out / "report.html").read_text())
    assert "line predicts token gap p50 (ITL) as measured, to a tenth of a percent" in page.text
    table = {cells[0]: cells for cells in page.tables["Results"][1:]}
    assert f"{1000 * row['gap_p50_s_measured']:.1f} ms" in table["token gap p50 (ITL)"]
    assert [a["alt"] for name, a in page.tags if name == "img"] == [
        "How far each predicted metric is from the measured one"
    ]
    wrong = command(files, "--out", files / "w", "--chunk", "4,8")
    assert wrong.exit_code == 2 and not (files / "w").exists()


def test_each_of_a_few_settings_gets_every_metric_and_its_spread(files):
    """Two repeats of one setting, the second 10 % slower, and one run of another."""
    trace, sessions = made(1)
    slow, late = trace.assign(run_id="slow"), sessions.assign(run_id="slow")
    slow["t_arrival_s"] *= 1.1
    other, sent = made(5, "other", 10)
    pd.concat([trace, slow, other]).to_csv(files / "t.csv", index=False)
    pd.concat([sessions, late, sent]).to_csv(files / "s.csv", index=False)
    said = command(files, "--json-file", files / "v.json", sessions="s.csv", trace="t.csv").output
    assert "made (+1)" in said and "spread of" in said
    for name in ("token gap p50 (ITL)", "token gap p90 (ITL)", "token gap p99 (ITL)", "TTFT p50",
                 "TTFT p95", "streams that stall", "stalls, all streams"):  # fmt: skip
        assert sum(line.strip().startswith(name) for line in said.splitlines()) == 2, name
    rows = json.loads((files / "v.json").read_text())["settings"]
    spread = {row["setting"]: row["gap_p50_s_spread"] for row in rows}
    # 1 and 1.1: standard deviation 0.0707, mean 1.05
    assert spread == {"made (+1)": pytest.approx(0.0673, abs=1e-4), "other": None}


def broken(files, change, name="trace.csv"):
    """A copy of the trace or sessions with its lines changed."""
    text = gzip.decompress((files / "trace.csv.gz").read_bytes()).decode()
    if name == "sessions.csv":
        text = (files / name).read_text()
    lines = text.splitlines()
    change(lines)
    (files / name).write_text("\n".join(lines) + "\n")


def replaced(line, old, new):
    def change(lines):
        assert old in lines[line - 1]
        lines[line - 1] = lines[line - 1].replace(old, new, 1)

    return change


@pytest.mark.parametrize(
    ("change", "where", "what"),
    [
        (replaced(1, "token_index", "token"), ":1:", "'token_index' is missing"),
        (lambda lines: lines.append("made,1"), ":", "row has 2 of 5 fields"),
        (lambda lines: lines.append(lines[9]), ":", "repeated or missing"),
        (lambda lines: lines.append("made,99,0,-1,3"), ":", "is negative"),
        (lambda lines: lines.append("made,99,0,soon,3"), ":", "'soon' is not a number"),
        (lambda lines: lines.append("made,99,0,1.5,3"), ":", "has no send time in sessions.csv"),
        (lambda lines: lines.__delitem__(slice(1, None)), ":1:", "header but no rows"),
    ],
)
def test_broken_traces_are_refused_with_their_line(files, change, where, what):
    broken(files, change)
    result = command(files, trace="trace.csv")
    assert result.exit_code == 2
    assert f"trace.csv{where}" in result.output
    assert what in result.output
    assert len(result.output.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (replaced(1, "t_send_s", "sent"), "sessions.csv:1: column 't_send_s' is missing"),
        (lambda lines: lines.append(lines[3]), "sessions.csv:42: stream_id: is there twice"),
        (lambda lines: lines.append("made,77,1,5,3"), "sessions.csv:42: stream_id: has no tokens"),
        (lambda lines: lines.append("made,x,1,5,3"), "sessions.csv:42: stream_id: 'x' is not"),
    ],
)
def test_broken_sessions_are_refused_with_their_line(files, change, what):
    broken(files, change, "sessions.csv")
    result = command(files)
    assert result.exit_code == 2
    assert what in result.output


def test_sessions_that_contradict_the_trace_are_refused(files):
    table = pd.read_csv(files / "sessions.csv")
    for column, value, what in (
        ("n_tokens", 3, "sessions.csv:7: n_tokens"),
        ("t_send_s", 1e6, "sessions.csv:7: t_send_s: after its first token"),
    ):
        wrong = table.copy()
        wrong.loc[5, column] = value
        wrong.to_csv(files / "wrong.csv", index=False)
        result = command(files, sessions="wrong.csv")
        assert result.exit_code == 2
        assert what.replace("sessions", "wrong") in result.output


def test_files_that_are_not_there(files):
    with pytest.raises(CalibrationError, match="cannot be read"):
        read_runs(files / "absent.csv", None, profile())
    assert command(files, trace="absent.csv").exit_code == 2
    (files / "line.yaml").unlink()
    assert command(files).exit_code == 2


def test_the_budget_of_a_step_is_read_from_the_run(files):
    trace, _ = made(2, "made-chunk256", 3)
    trace.to_csv(files / "c.csv", index=False)
    assert read_runs(files / "c.csv", None, profile())[0].budget == 256
    trace.assign(run_id="x", token_budget=512).to_csv(files / "c.csv", index=False)
    assert read_runs(files / "c.csv", None, profile())[0].budget == 512


def test_a_profile_without_token_audio_compares_times_only(files):
    bare = profile(slope=0.002).model_copy(update={"token_audio_s": None})
    bare.decode.host_s = Quantity(value=0.0)
    runs = read_runs(files / "trace.csv.gz", files / "sessions.csv", bare)
    (setting,) = validate(bare, runs, seeds=1)
    assert compared(setting, "pace_p50")["measured"] is None
    assert compared(setting, "gap_p50_s")["error"] == pytest.approx(0.0, abs=1e-6)
