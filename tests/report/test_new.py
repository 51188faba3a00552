"""``voicesim new``: a file that passes ``check`` and runs as it is, or nothing at all."""

import json
import os
import pty
import subprocess
import sys
from itertools import pairwise

import jsonschema
import pytest
from typer.testing import CliRunner

from tests import small
from voicesim.catalogue.profiles import names, shipped_profile
from voicesim.cli import app
from voicesim.engine.profile import load_profile
from voicesim.scenario import load
from voicesim.scenario.editor import FILE, json_schema
from voicesim.scenario.loader import read

VOICES = [n for n in names() if load_profile(shipped_profile(n)).token_audio_s is not None]


def new(*arguments):
    return CliRunner().invoke(app, ["new", *map(str, arguments)])


def test_the_defaults_pass_check_and_run_as_they_are(tmp_path):
    path = tmp_path / "mine.yaml"
    result = new(path, "--yes")
    assert result.exit_code == 0, result.output
    assert result.stdout.endswith(f"next: voicesim run {path}\n")
    runner = CliRunner()
    assert runner.invoke(app, ["check", str(path)]).exit_code == 0
    asked = ["run", path, "--out", tmp_path / "o", "--set", "horizon=130s", "--workers", 1]
    assert runner.invoke(app, list(map(str, asked))).exit_code == 0
    summary = json.loads((tmp_path / "o" / "summary.json").read_text())
    assert list(summary["variants"]) == ["limited", "admit_all"]
    assert summary["variants"]["limited"]["offered"]["mean"] > 0


def test_every_answer_is_in_the_file(tmp_path):
    path = tmp_path / "mine.yaml"
    result = new(
        path, "--profile", "orpheus-3b-h100-vllm", "--gpu", "a100-80gb", "--cards", 3, "--calls",
        "90/min", "--peak", "4/s", "--reply", "2500ms", "--limit", 7, "--start-within", "800ms",
        "--no-stall-over", "50ms",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    file = load(path)
    made = file.variants["limited"]
    pool = made.cluster.pool
    assert pool.engine.profile == "shipped:orpheus-3b-h100-vllm"
    assert (made.cluster.gpu.preset, made.cluster.gpu.count, pool.replicas) == ("a100-80gb", 3, 3)
    assert (made.workload.arrivals.base, made.workload.arrivals.peak) == (1.5, 4.0)
    assert made.workload.utterance.audio.mean() == 2.5
    assert made.policies.admission.streams == 7
    assert (made.slo.start_within, made.slo.no_stall_over, made.listener.audible) == (
        0.8,
        0.05,
        0.05,
    )
    assert file.variants["admit_all"].policies.admission.kind == "admit_all"


@pytest.mark.parametrize("name", VOICES)
def test_every_voice_that_ships_can_be_served(tmp_path, name):
    path = tmp_path / "mine.yaml"
    result = new(path, "--yes", "--profile", name)
    assert result.exit_code == 0, result.output
    assert load(path).variants["limited"].cluster.pool.engine.profile_path == shipped_profile(name)


def test_every_line_is_commented_and_the_schema_holds(tmp_path):
    path = tmp_path / "mine.yaml"
    assert new(path, "--yes").exit_code == 0
    text = path.read_text()
    lines = text.splitlines()
    assert lines[0] == f"# yaml-language-server: $schema=./{FILE}"
    schema = json.loads((tmp_path / FILE).read_text())
    assert schema == json_schema()
    assert not list(jsonschema.Draft202012Validator(schema).iter_errors(read(text, "x").data))
    for above, line in pairwise(lines):
        key = line.strip()
        if key and not key.startswith("#") and not line.startswith("  admit_all:"):
            assert above.lstrip().startswith("#"), line
    assert all(len(line) <= 100 for line in lines)
    comment = lines[lines.index("        max_num_seqs: 256") - 2]
    assert "Streams in the batch at most; default 256. Here: the usual value" in comment


def test_a_profile_file_is_named_from_the_new_file(tmp_path):
    small.write(tmp_path)
    path = tmp_path / "deep" / "er" / "mine.yaml"
    gone = new(path, "--yes")
    assert gone.exit_code == 2 and "does not exist" in gone.stderr
    path.parent.mkdir(parents=True)
    assert new(path, "--yes", "--profile", tmp_path / "small-profile.yaml").exit_code == 0
    assert load(path).variants["limited"].cluster.pool.engine.profile == (
        "../../small-profile.yaml"
    )


def test_without_peak_and_limit(tmp_path):
    path = tmp_path / "mine.yaml"
    result = new(path, "--yes", "--calls", "3/s", "--peak", "3/s", "--limit", "none")
    assert result.exit_code == 0
    made = load(path).variants
    assert list(made) == ["base"] and made["base"].workload.arrivals.kind == "poisson"
    assert made["base"].policies.admission.kind == "admit_all"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--profile", "qwen3-tts-1.7b-h10"), "did you mean 'shipped:qwen3-tts-1.7b-h100'"),
        (("--profile", "llama-3.1-8b-h100-nim-1.8.0"), "its tokens are text"),
        (("--gpu", "h100-smx"), "did you mean 'h100-sxm'"),
        (("--cards", "0"), "--cards 0: expected a whole number of at least 1"),
        (("--calls", "3 a day"), "--calls 3 a day: expected a rate"),
        (("--peak", "0/s"), "--peak 0/s: must be more than 0"),
        (("--reply", "4"), "--reply 4: 4 needs a unit"),
        (("--limit", "many"), "--limit many: expected a whole number"),
        (("--start-within", "0s"), "must be more than 0"),
    ],
)  # fmt: skip
def test_a_wrong_answer_writes_nothing(tmp_path, arguments, says):
    result = new(tmp_path / "mine.yaml", "--yes", *arguments)
    assert result.exit_code == 2 and says in result.stderr
    assert result.stderr.count("\n") == 1 and list(tmp_path.iterdir()) == []


def test_missing_answers_without_a_terminal(tmp_path):
    result = new(tmp_path / "mine.yaml", "--cards", 4)
    assert result.exit_code == 2 and list(tmp_path.iterdir()) == []
    assert "--profile, --gpu, --calls" in result.stderr and "--yes" in result.stderr
    assert "--cards" not in result.stderr


def test_nothing_is_written_over(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("mine")
    assert new(path, "--yes").exit_code == 2 and path.read_text() == "mine"
    assert [p.name for p in tmp_path.iterdir()] == ["mine.yaml"]
    (tmp_path / FILE).write_text("{}")
    result = new(path, "--yes", "--force")
    assert result.exit_code == 2 and "is no schema of voicesim" in result.stderr
    assert path.read_text() == "mine"
    assert new(path, "--yes", "--force", "--no-schema").exit_code == 0
    assert "yaml-language-server" not in path.read_text()
    assert (tmp_path / FILE).read_text() == "{}"


def test_at_a_terminal_it_asks_six_times_and_once_more_after_a_slip(tmp_path):
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "voicesim", "new", str(tmp_path / "mine.yaml")],
        stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    os.close(theirs)
    os.write(ours, b"\nh100-smx 2\nl40s 2\n1/s 1/s\n\nnone\n700ms, 80ms\n")
    _, said = process.communicate(timeout=120)
    os.close(ours)
    assert process.returncode == 0, said
    assert [said.count(f"{n}. ") for n in range(1, 7)] == [1, 2, 1, 1, 1, 1]
    assert "did you mean" in said
    made = load(tmp_path / "mine.yaml").variants["base"]
    assert made.cluster.gpu.preset == "l40s" and made.cluster.gpu.count == 2
    assert (made.slo.start_within, made.slo.no_stall_over) == pytest.approx((0.7, 0.08))


# --- whole calls --------------------------------------------------------------------------------


def test_a_call_by_default_passes_check_and_runs_as_it_is(tmp_path):
    path = tmp_path / "mine.yaml"
    result = new(path, "--kind", "call", "--yes")
    assert result.exit_code == 0, result.output
    runner = CliRunner()
    assert runner.invoke(app, ["check", str(path)]).exit_code == 0
    asked = ["run", path, "--out", tmp_path / "o", "--set", "horizon=250s", "--workers", 1]
    assert runner.invoke(app, list(map(str, asked))).exit_code == 0
    summary = json.loads((tmp_path / "o" / "summary.json").read_text())["variants"]
    assert list(summary) == ["silence", "semantic"]
    assert summary["silence"]["offered"]["mean"] > 0
    made = load(path).variants
    assert made["silence"].pipeline.endpointing.silence == 0.5
    assert made["semantic"].pipeline.endpointing.kind == "semantic"
    # 2 cards x 48 streams x 2 calls a stream are on the line, each of them 83.5 s
    talk = made["silence"].dialogue
    assert talk.arrivals.rate == float(f"{192 / talk.seconds():.2g}")
    assert made["silence"].cluster.gpus["card"].count == 4
    lines = path.read_text().splitlines()
    assert all(len(line) <= 100 or line.startswith("# Calls with") for line in lines)
    for above, line in pairwise(lines):
        key = line.strip()
        if key and not key.startswith("#") and not line.startswith("  semantic:"):
            assert above.lstrip().startswith("#"), line
    assert not list(jsonschema.Draft202012Validator(json_schema()).iter_errors(
        read(path.read_text(), "x").data))  # fmt: skip


def test_every_answer_of_a_call_is_in_the_file(tmp_path):
    path = tmp_path / "mine.yaml"
    result = new(
        path, "--kind", "call", "--profile", "orpheus-3b-h100-vllm", "--llm",
        "llama-3.1-8b-h100-prior", "--gpu", "a100-80gb", "--cards", 3, "--llm-cards", 2,
        "--conversation", "companion", "--calls", "2/s", "--peak", "5/s", "--end-of-turn",
        "semantic", "--start-within", "800ms", "--no-stall-over", "50ms",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    file = load(path)
    assert list(file.variants) == ["semantic", "silence"]
    made = file.variants["semantic"]
    pools = made.cluster.pools
    assert pools["tts"].engine.profile == "shipped:orpheus-3b-h100-vllm"
    assert pools["llm"].engine.profile == "shipped:llama-3.1-8b-h100-prior"
    assert (pools["tts"].replicas, pools["llm"].replicas) == (3, 2)
    # 5 calls/s of so many seconds, 500 of them to a recogniser
    ears = -(-5 * made.dialogue.seconds() // 500)
    assert pools["asr"].replicas == ears > 1
    assert made.cluster.gpus["card"].count == 5 + ears
    assert made.cluster.gpus["card"].preset == "a100-80gb"
    assert (made.workload.arrivals.base, made.workload.arrivals.peak) == (2.0, 5.0)
    assert (made.workload.preset, made.pipeline.endpointing.kind) == ("companion", "semantic")
    assert (made.slo.start_within, made.slo.no_stall_over) == (0.8, 0.05)
    assert made.workload.budget.total == 0.8 and made.listener.audible == 0.05


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--llm", "qwen3-tts-1.7b-h100"), "it speaks (it has token_audio_s)"),
        (("--profile", "llama-3.1-8b-h100-prior"), "its tokens are text"),
        (("--conversation", "servise"), "did you mean 'service'"),
        (("--end-of-turn", "soon"), "--end-of-turn soon: expected a duration"),
        (("--reply", "4s"), "--reply: answers nothing that is asked here (--profile, --llm"),
        (("--kind", "cal"), "--kind 'cal' is not known; did you mean 'call'?"),
    ],
)
def test_a_wrong_answer_about_a_call_writes_nothing(tmp_path, arguments, says):
    result = new(tmp_path / "mine.yaml", "--kind", "call", "--yes", *arguments)
    assert result.exit_code == 2 and says in result.stderr, result.stderr
    assert result.stderr.count("\n") == 1 and list(tmp_path.iterdir()) == []


def test_an_answer_about_calls_is_none_about_utterances(tmp_path):
    result = new(tmp_path / "mine.yaml", "--yes", "--conversation", "task")
    assert result.exit_code == 2 and "--conversation: answers nothing" in result.stderr


def test_a_call_asks_six_times(tmp_path):
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "voicesim", "new", str(tmp_path / "mine.yaml"), "--kind", "call"],
        stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    os.close(theirs)
    os.write(ours, b"\nl40s 3 1\ntask\n1/s 1/s\n700ms\n1.5s 80ms\n")
    _, said = process.communicate(timeout=120)
    os.close(ours)
    assert process.returncode == 0, said
    assert [said.count(f"{n}. ") for n in range(1, 7)] == [1] * 6
    made = load(tmp_path / "mine.yaml").variants["silence"]
    assert made.pipeline.endpointing.silence == pytest.approx(0.7)
    assert made.workload.preset == "task"
