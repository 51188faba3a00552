"""What every command that plays runs refuses before it plays: folders, addresses, keys."""

import os
import socket
import sys
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

import voicesim
from tests.experiment import busy
from voicesim.cli import app
from voicesim.experiment.backends import backend
from voicesim.experiment.metrics import ExperimentError
from voicesim.files import unwritable

RUNNER = CliRunner()
COMMANDS = {
    "compare": ["FILE"],
    "plan": ["FILE", "--slo", "clean>=90%", "--vary", "pools.tts.replicas=1..2"],
    "sweep": ["FILE", "--vary", "pools.tts.replicas=1..2"],
    "tornado": ["FILE", "--vary", "pools.tts.replicas=1..2"],
    "alarms": ["FILE"],
    "gate": ["--baseline", "FILE", "--scenario", "FILE"],
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a scenario (small.yaml), its profile and a file that is no folder (taken)."""
    folder = tmp_path_factory.mktemp("place")
    busy.write(folder)
    (folder / "taken").write_text("mine")
    return folder


@pytest.fixture(autouse=True)
def nothing_is_played(monkeypatch):
    def never(*_, **__):
        raise AssertionError("something was played")

    monkeypatch.setattr("voicesim.experiment.backends.Processes.run", never)


def refused(place, command, *more):
    """The one line that a command refuses with; nothing is left behind."""
    before = sorted(p.name for p in place.iterdir())
    words = [w.replace("FILE", str(place / "small.yaml")) for w in COMMANDS[command]]
    result = RUNNER.invoke(app, [command, *words, *map(str, more)], env={"COLUMNS": "200"})
    assert result.exit_code == 2, result.output
    assert result.stdout == "" and sorted(p.name for p in place.iterdir()) == before
    (line,) = result.stderr.splitlines()
    return line


@pytest.mark.parametrize("command", COMMANDS)
def test_a_folder_that_cannot_be_made(place, command):
    taken = place / "taken"
    assert refused(place, command, "--out", taken) == f"--out {taken}: is a file"
    below = taken / "x"
    said = refused(place, command, "--out", below)
    assert said == f"--out {below}: cannot be written: Not a directory"
    assert taken.read_text() == "mine"


def test_python_raises_the_same(place):
    taken = str(place / "taken")
    path = place / "small.yaml"
    for ask in (
        lambda: voicesim.compare(path, out=taken),
        lambda: voicesim.plan(path, ["clean>=90%"], ["pools.tts.replicas=1..2"], out=taken),
        lambda: voicesim.alarms(path, out=taken),
    ):
        with pytest.raises(voicesim.Error, match=f"--out {taken}: is a file"):
            ask()
    with pytest.raises(voicesim.Error, match="--width: found inf"):
        voicesim.compare(path, width=float("inf"))


def test_a_folder_is_tried_and_left_as_it_was(tmp_path):
    assert unwritable(tmp_path / "a" / "b") == "" and list(tmp_path.iterdir()) == []
    assert unwritable(tmp_path) == "" and list(tmp_path.iterdir()) == []
    assert unwritable(tmp_path / ("x" * 300)) == "cannot be written: File name too long"
    if os.geteuid():
        tmp_path.chmod(0o500)
        assert unwritable(tmp_path / "a") == "cannot be written: Permission denied"


@pytest.mark.parametrize("command", COMMANDS)
def test_an_address_is_of_a_cluster(place, command):
    said = refused(place, command, "--address", "host:1")
    assert said == "--address host:1: is of --backend dask or ray, not processes"
    more = ("--backend", "dask", "--workers", 2)
    assert "--workers: the cluster at" in refused(place, command, "--address", "host:1", *more)


def test_run_refuses_an_address_too(place, tmp_path):
    path, out = str(place / "small.yaml"), str(tmp_path / "runs" / "out")
    result = RUNNER.invoke(app, ["run", path, "--address", "host:1", "--out", out])
    assert result.exit_code == 2 and list(tmp_path.iterdir()) == []
    assert result.stderr == "--address host:1: is of --backend dask or ray, not processes\n"


def test_ray_is_not_asked_where_nothing_listens(monkeypatch):
    """A port that was just free: refused by the system; one that listens is handed to Ray."""
    asked = []
    fake = SimpleNamespace(init=lambda **to: asked.append(to["address"]), shutdown=lambda: None)
    monkeypatch.setitem(sys.modules, "ray", fake)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        for address in (f"127.0.0.1:{port}", f"ray://127.0.0.1:{port}", "auto"):
            with backend("ray", address=address):
                assert asked.pop() == address
    words = f"--address 127.0.0.1:{port}: no Ray cluster there: Connection refused"
    with pytest.raises(ExperimentError, match=words), backend("ray", address=f"127.0.0.1:{port}"):
        pass
    assert asked == []


@pytest.mark.parametrize("option", ["--scrape", "--evaluate", "--horizon"])
def test_a_duration_has_a_unit(place, option):
    assert refused(place, "alarms", option, "5") == f"{option}: 5 needs a unit: ms, s, min or h"


@pytest.mark.parametrize("command", ["plan", "sweep", "tornado"])
def test_a_key_of_another_variant_leads_on(place, command):
    """The base admits all; the variant cap has policies.admission.streams."""
    words = COMMANDS[command][:-1]
    asked = [w.replace("FILE", str(place / "small.yaml")) for w in words]
    result = RUNNER.invoke(app, [command, *asked, "policies.admission.cap=8..40"])
    assert result.exit_code == 2
    assert result.stderr == (
        "--vary policies.admission.cap=8..40: policies.admission.cap: unknown key 'cap'; allowed: "
        "kind; in variant cap it is policies.admission.streams: give --variant cap --vary "
        "policies.admission.streams=8..40\n"
    )
    result = RUNNER.invoke(app, [command, *asked, "policies.admission.streams=8..40"])
    assert result.exit_code == 2
    assert "in variant cap it is policies.admission.streams: give --variant cap" in result.stderr
    result = RUNNER.invoke(app, [command, *asked, "policies.admission.knd=8..40"])
    assert "did you mean 'kind'? allowed: kind\n" in result.stderr  # a slip: no more to say
