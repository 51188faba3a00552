"""Killed, told to stop, out of disk, out of memory: one clear line, and nothing finished is lost.

Each fault meets a real process of the command.  That sweep, compare and plan go on where a kill
left them is in tests/experiment.
"""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tests import small
from voicesim import schemas
from voicesim.cli import app

LONG = ("--replications", "2000", "--workers", "1")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with a scenario and a finished run of it."""
    folder = tmp_path_factory.mktemp("made")
    path = small.write(folder)
    words = ["run", str(path), "--out", str(folder / "run"), "--workers", "1", "--quiet"]
    words += ["--replications", "5", "--set", "horizon=20s"]  # what gate needs at least
    assert CliRunner().invoke(app, words).exit_code == 0
    return folder


@pytest.fixture
def place(made, tmp_path):
    """A copy of it."""
    return Path(shutil.copytree(made, tmp_path, dirs_exist_ok=True))


def start(place, *words, limits=None):
    """A command's process, in a group of its own; limits: set in it before it begins."""
    return subprocess.Popen(
        [sys.executable, "-m", "voicesim", *words], cwd=place, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=limits,
    )  # fmt: skip


def contents(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def wait_for(process, place, pattern):
    """Until the process has written such a file."""
    while not list(place.glob(pattern)):
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


def test_kill_leaves_the_run_before(place):
    """kill -9 in the middle: the folder holds what it held, whole, and the next run replaces it."""
    before = contents(place / "run")
    process = start(place, "run", "small.yaml", "--out", "run", *LONG)
    wait_for(process, place, ".run-*/streams/*.parquet")
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert contents(place / "run") == before
    words = ["run", str(place / "small.yaml"), "--out", str(place / "run"), "--workers", "1"]
    assert CliRunner().invoke(app, words).exit_code == 0
    assert json.loads((place / "run" / "summary.json").read_text())["complete"]


def test_sigterm_keeps_what_is_finished(place):
    process = start(place, "run", "small.yaml", "--out", "stopped", *LONG)
    wait_for(process, place, ".stopped-*/streams/*-2.parquet")
    process.terminate()
    _, said = process.communicate()
    assert process.returncode == 130, said
    assert "Traceback" not in said
    summary = json.loads((place / "stopped" / "summary.json").read_text())
    assert summary["complete"] is False
    assert summary["variants"]["admit_all"]["offered"]["mean"] > 0
    assert not list(place.glob(".stopped-*"))


def full_disk():
    """No file may grow beyond 8 kB: what a full disk does to a write, with another number."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))


@pytest.mark.parametrize(
    "words",
    [
        ("run", "small.yaml", "--out", "run", "--workers", "1"),
        ("sweep", "small.yaml", "--vary", "cluster.pools.tts.replicas=1,2", "--out", "swept",
         "--workers", "1", "--replications", "1", "--set", "horizon=20s"),
    ],
    ids=lambda words: words[0],
)  # fmt: skip
def test_a_full_disk_is_one_line(place, words):
    """Exit code 2, the file's name, and whatever was there before."""
    before = contents(place / "run")
    process = start(place, *words, limits=full_disk)
    _, said = process.communicate()
    assert process.returncode == 2, said
    assert "Traceback" not in said
    assert "too large" in said
    assert contents(place / "run") == before
    assert not [p for p in place.iterdir() if p.name.startswith(".")]


def little_memory():
    """3 GiB of addresses: the libraries fit, the histograms of a million bins do not."""
    resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))


@pytest.mark.parametrize("workers", ["1", "2"])
def test_out_of_memory_is_one_line(place, workers):
    """A run that does not fit, here or in a worker: exit code 1, and nothing is written."""
    sets = ("--set", "horizon=30min", "--set", "series.resolution=2ms")
    words = ("run", "small.yaml", "--out", "big", "--workers", workers, *sets)
    process = start(place, *words, limits=little_memory)
    _, said = process.communicate()
    assert process.returncode == 1, said
    assert "Traceback" not in said
    assert "not enough memory" in said
    assert not (place / "big").exists()


DAMAGE = {
    "cut": lambda content: content[: len(content) // 2],
    "empty": lambda content: b"",
    "noise": lambda content: np.random.default_rng(0).bytes(len(content)),
}
TABLES = ("summary.json", "replications.parquet", "streams/cap-0.parquet")


@pytest.mark.parametrize("how", DAMAGE)
@pytest.mark.parametrize("name", TABLES)
def test_a_damaged_folder_is_said_in_one_line(place, name, how):
    """By every command that reads a folder, with the file's name where it is needed."""
    path = place / "run" / name
    path.write_bytes(DAMAGE[how](path.read_bytes()))
    needed = [words[0] for words in readers(place) if invoke(words, path.name) == 2]
    assert needed == ([] if name.startswith("streams") else ["gate"]) + (
        ["replay"] if name.startswith("streams") else []
    )


@pytest.mark.parametrize(
    ("schema", "what"),
    [
        ("voicesim-summary/0", "is of no version of voicesim"),
        ("voicesim-summary/1", "is older than what can be read; this voicesim"),
        ("voicesim-summary/1.7", "2: `clean` is now `clean_share`; 3: times are in ms"),
        ("voicesim-summary/4", "was made by a newer voicesim; this voicesim"),
    ],
)
def test_a_folder_of_another_version_is_said_in_one_line(place, monkeypatch, schema, what):
    """By every command that reads one, with what to do; ``runs`` lists it as unreadable."""
    monkeypatch.setitem(schemas.VERSIONS, "summary", (3, 0))
    changed = {2: ("`clean` is now `clean_share`",), 3: ("times are in ms",)}
    monkeypatch.setitem(schemas.MIGRATIONS, "summary", changed)
    path = place / "run" / "summary.json"
    path.write_text(path.read_text().replace("voicesim-summary/1", schema))
    for words in readers(place):
        code, said = outcome(words)
        assert code == (0 if words[0] == "runs" else 2)
        assert f"summary.json: schema: {schema} " in said and what in said


def test_a_folder_of_a_newer_minor_version_is_read_with_a_note(place):
    path = place / "run" / "summary.json"
    path.write_text(path.read_text().replace("voicesim-summary/1", "voicesim-summary/1.3"))
    for words in readers(place):
        code, said = outcome(words)
        assert code == 0
        note = "run/summary.json: voicesim-summary/1.3 is of a newer voicesim; this voicesim"
        assert said.count(note) == 1  # however often the folder is read


def readers(place):
    """Commands that read a finished run."""
    run = str(place / "run")
    scenario, calls = str(place / "small.yaml"), str(place / "calls.csv")
    return (
        ["gate", "--baseline", run, "--candidate", run],
        ["runs", str(place)],
        ["replay", run, "-s", scenario, "--convert", calls],
    )


def invoke(words, named):
    """The exit code of a command that ends without a traceback; a refusal names the file."""
    code, said = outcome(words)
    assert code == 0 or named in said, said
    return code


def outcome(words):
    """The exit code and all that was said, as one line."""
    done = CliRunner().invoke(app, words)
    assert isinstance(done.exception, SystemExit | None), (words, done.exception)
    assert done.exit_code in (0, 2), (words, done.output)
    return done.exit_code, " ".join(done.output.split())
