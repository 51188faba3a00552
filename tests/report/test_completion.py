"""Completion as bash asks for it: words and position in the environment, a line per offer."""

import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from tests import small
from voicesim.cli import app

SHOW = "--show-completion"
CODE = "from voicesim.cli import app; app(prog_name='voicesim')"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    base = tmp_path_factory.mktemp("tab")
    small.write(base)
    (base / "notes.yaml").write_text("a: 1\n")
    (base / "deep").mkdir()
    (base / "runs" / "done").mkdir(parents=True)
    (base / "runs" / "done" / "summary.json").write_text("{}")
    (base / "runs" / "empty").mkdir()
    return base


def asking(line):
    words = line.split(" ")
    return {"_VOICESIM_COMPLETE": "complete_bash", "COMP_WORDS": line,
            "COMP_CWORD": str(len(words) - 1)}  # fmt: skip


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("voicesim expla", ["explain"]),
        ("voicesim run ", ["deep/", "runs/", "small.yaml"]),
        ("voicesim check sm", ["small.yaml"]),
        ("voicesim check ./sm", ["./small.yaml"]),
        ("voicesim ladder small", ["small-profile.yaml"]),
        ("voicesim ladder qwen3-tts-1.7b-h200", ["qwen3-tts-1.7b-h200-sglang"]),
        ("voicesim compare small.yaml --baseline ", ["admit_all", "cap"]),
        ("voicesim plan small.yaml --variant c", ["cap"]),
        ("voicesim run small.yaml --set cluster.pools.tts.re", ["cluster.pools.tts.replicas=2"]),
        ("voicesim sweep small.yaml --vary cluster.pools.tts.engine.max_num_s",
         ["cluster.pools.tts.engine.max_num_seqs=64..128"]),
        ("voicesim sweep small.yaml --metric clean_s", ["clean_share"]),
        ("voicesim runs ", ["runs/done"]),
        ("voicesim runs runs/d", ["runs/done"]),
        ("voicesim run small.yaml --backend d", ["dask"]),
        ("voicesim run small.yaml --engine ", ["kernel", "reference"]),
        ("voicesim new x.yaml --gpu l40", ["l40s", "l40"]),
        ("voicesim explain slo.", ["slo.start_within", "slo.no_stall_over"]),
        ("voicesim explain profile.sharing.d", ["profile.sharing.decode_slowdown"]),
        ("voicesim compare gone.yaml --baseline ", []),
        ("voicesim compare notes.yaml --baseline ", []),
        ("voicesim compare --baseline ", []),
    ],
)  # fmt: skip
def test_tab(place, monkeypatch, line, wanted):
    monkeypatch.chdir(place)
    result = CliRunner().invoke(app, [], env=asking(line), prog_name="voicesim")
    assert result.stderr == "" and sorted(result.stdout.split()) == sorted(wanted)


def test_tab_of_the_program(place):
    """The same through a process of its own, as a shell has it."""
    env = {**os.environ, **asking("voicesim compare small.yaml --baseline ")}
    done = subprocess.run([sys.executable, "-c", CODE], cwd=place, env=env, capture_output=True,
                          text=True)  # fmt: skip
    assert done.stderr == "" and done.stdout.splitlines() == ["admit_all", "cap"]


def test_the_script_for_bash_is_shown(place):
    env = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    done = subprocess.run([sys.executable, "-c", CODE, SHOW, "bash"], env=env,
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "_VOICESIM_COMPLETE=complete_bash" in done.stdout
    syntax = subprocess.run(["bash", "-n"], input=done.stdout, capture_output=True, text=True)
    assert syntax.returncode == 0, syntax.stderr
