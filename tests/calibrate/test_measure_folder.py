"""The folder that ``voicesim measure`` leaves, given as it is."""

import json

import pytest
from typer.testing import CliRunner

from tests.calibrate.composed import CHUNKS, STEPS, TRACE
from voicesim.calibrate.errors import CalibrationError
from voicesim.calibrate.readers import read
from voicesim.cli import app


def folder(tmp_path, schema="voicesim-measure/1", complete=True, **tables):
    path = tmp_path / "measured"
    path.mkdir()
    (path / "manifest.json").write_text(json.dumps({"schema": schema, "complete": complete}))
    for name, text in tables.items():
        (path / f"{name}.csv").write_text(text)
    return path


def test_chunks(tmp_path):
    path = folder(tmp_path, chunks=CHUNKS, sessions="run_id,stream_id\n")
    found = read(path)
    assert found.file == "measured/chunks.csv" and found.format == "chunk CSV of voicesim measure"
    assert found.chunks["t_s"].tolist() == [0.625, 1.0, 0.875]
    assert found.chunks.equals(read(path / "chunks.csv").chunks) and found.cannot == []


def test_tokens_of_a_measurement_that_broke_off(tmp_path):
    path = folder(tmp_path, complete=False, tokens=TRACE)
    found = read(path)
    assert found.samples["seconds"].tolist() == pytest.approx([0.03, 0.03])
    assert found.cannot[-1] == "all that was asked: it broke off"


def test_the_command_takes_the_folder(tmp_path):
    path, out = folder(tmp_path, tokens=TRACE), tmp_path / "p.yaml"
    done = CliRunner().invoke(app, ["calibrate", str(path), "-o", str(out)])
    assert done.exit_code == 0, done.output
    assert "measured/tokens.csv: arrival trace (CSV) of voicesim measure, 3 rows" in done.stdout
    assert "file: measured/tokens.csv" in out.read_text()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"schema": "other/1", "chunks": CHUNKS}, "manifest.json:1: schema: found 'other/1'"),
        ({"chunks": CHUNKS, "tokens": TRACE}, "holds chunks.csv and tokens.csv; give the one"),
        ({"chunks": STEPS}, "chunks.csv:1: "),
        ({"steps": STEPS}, "measured: is no folder that is recognised"),
    ],
)
def test_refused(tmp_path, changes, said):
    with pytest.raises(CalibrationError) as error:
        read(folder(tmp_path, **changes))
    assert said in str(error.value)
