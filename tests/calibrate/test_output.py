"""A result that could not be written is refused before the fit, on one line, and leaves nothing."""

import os

import pytest
from typer.testing import CliRunner

from voicesim.calibrate import CalibrationError, output, run
from voicesim.cli import app

STEPS = "batch,seconds\n1,0.010\n8,0.011\n"


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with a measurement, in which no fit may begin."""

    def never(*_):
        raise AssertionError("the fit began")

    monkeypatch.setattr(run, "calibrate", never)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "steps.csv").write_text(STEPS)
    (tmp_path / "folder").mkdir()
    return tmp_path


def refused(*words: str) -> str:
    """What the command says; it must be one line and exit 2."""
    result = CliRunner().invoke(app, ["calibrate", "steps.csv", *words])
    assert result.exit_code == 2, result.output
    assert result.output.count("\n") == 1
    return result.output


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("folder", "folder: is a folder"),
        ("none/x.yaml", "the folder 'none' does not exist"),
        ("steps.csv/x.yaml", "'steps.csv' is a file, not a folder"),
        ("steps.csv", "steps.csv: is both read and written"),
        ("folder/../steps.csv", "is both read and written"),
        (os.devnull, "is a device"),
    ],
)
@pytest.mark.parametrize("figure", [False, True])
def test_refused_before_the_fit(place, target, said, figure):
    before = sorted(place.rglob("*"))
    words = ("-o", "x.yaml", "--figure", target) if figure else ("-o", target)
    assert said in refused(*words)
    assert sorted(place.rglob("*")) == before
    assert (place / "steps.csv").read_text() == STEPS


def test_profile_and_figure_need_two_names(place):
    assert "also the profile" in refused("-o", "x", "--figure", "folder/../x")
    assert "also the profile" in refused("-o", "x", "--report", "x")
    assert "is both read and written" in refused("-o", "x", "--report", "steps.csv")


@pytest.mark.skipif(getattr(os, "geteuid", lambda: 0)() == 0, reason="root may write anywhere")
def test_read_only_folder(place):
    (place / "folder").chmod(0o500)
    assert "folder/x.yaml: cannot be written: Permission denied" in refused("-o", "folder/x.yaml")


def test_a_folder_that_takes_no_file(place, monkeypatch):
    def deny(**_):
        raise PermissionError(13, "Permission denied", "somewhere")

    monkeypatch.setattr(output.tempfile, "mkstemp", deny)
    assert "folder/x.yaml: cannot be written: Permission denied" in refused("-o", "folder/x.yaml")


def test_a_disk_that_fills_leaves_the_old_file(tmp_path, monkeypatch):
    target = tmp_path / "x.yaml"
    target.write_text("old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(output.os, "replace", full)
    with pytest.raises(CalibrationError, match=r"x\.yaml: cannot be written: No space left"):
        output.write_atomically(target, b"new")
    assert [p.name for p in tmp_path.iterdir()] == ["x.yaml"]
    assert target.read_text() == "old"
