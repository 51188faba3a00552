"""Every reader on thousands of broken files: an error with the file's name, or a measurement.

A file is a valid one of a reader's, mutated (tests/mutants.py).  40 of each, 2,000 by `make fuzz`.
"""

import gzip
import itertools
import json
import zlib
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tests import small
from tests.calibrate.composed import CHUNKS, FORMS
from tests.calibrate.test_dialogues import LIVEKIT, PIPECAT
from tests.calibrate.test_request_traces import FILES
from tests.calibrate.test_summaries import AIPERF, CURVES, K6, PERF_ANALYZER, RESPONSES
from tests.mutants import mutant, survived
from tests.trust import examples
from voicesim.calibrate import CalibrationError
from voicesim.calibrate.readers import FORMATS, form_of, read
from voicesim.cli import app

LAWS = {"input_tokens": "{100: 0.25, 40: 0.75}", "output_tokens": "{7: 1.0}"}
CALLS = (
    "t_s,session,audio_s,prompt_tokens,think_s\n0.5,0,2.5,40,1\n3,0,1.25,20,unknown\n4,1,3,9,0\n"
)
MANIFEST = '{"schema": "voicesim-measure/1", "complete": true}'

# reader -> files of a measurement, the first of which (or whose folder) is read
VALID: dict[str, list[dict[str, str]]] = {
    name: [{form.file: form.text}] for name, form in FORMS.items()
}
VALID |= {
    "azure": [{"t": text} for name, (text, _) in FILES.items() if name.startswith("azure")],
    "burstgpt": [{"t": text} for name, (text, _) in FILES.items() if name.startswith("burst")],
    "vidur": [{"t": FILES["vidur"][0]}],
    "mooncake": [{"t": text} for name, (text, _) in FILES.items() if name.startswith("moon")],
    "tracev2": [{"t": FILES["tracev2"][0]}],
    "servegen": [{"chunk-7-trace.csv": "0,2.0,3.0,Gamma,0.111,4.5\n600,1,1.5,Weibull,0.7,0.2\n",
                  "chunk-7-dataset.json": json.dumps({"0": LAWS, "600": LAWS})}],
    "aiperf": [{"t": AIPERF}],
    "perf_summary": [{"t": CURVES[n][0]} for n in CURVES if n.startswith(("GenAI", "AIPerf"))],
    "perf_analyzer": [{"t": PERF_ANALYZER}],
    "guidellm": [{"t": text} for n, (text, _) in CURVES.items() if n.startswith("GuideLLM")],
    "llmperf": [{"t": CURVES["LLMPerf flat"][0]}, {"t": json.dumps(RESPONSES)}],
    "k6": [{"t": K6}],
    "locust": [{"t": text} for n, (text, _) in CURVES.items() if n.startswith("Locust")],
    "livekit": [{"t": LIVEKIT}],
    "pipecat": [{"t": PIPECAT}],
    "calls_csv": [{"t": CALLS}],
    "measure_folder": [{"m/manifest.json": MANIFEST, "m/chunks.csv": CHUNKS}],
}  # fmt: skip


def test_every_reader_is_here():
    assert set(VALID) | {"run_folder"} == {f.__name__.rsplit(".", 1)[1] for f in FORMATS}


def written(folder: Path, files: dict[str, bytes]) -> Path:
    """The files there; returns what is to be read: the folder they share, or the first."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder / next(iter(files)).split("/")[0]


def broken(files: dict[str, bytes], rng: np.random.Generator) -> dict[str, bytes]:
    """One of the files mutated; now and then packed, and the packing hurt."""
    name = list(files)[int(rng.integers(len(files)))]
    content = mutant(files[name], rng)
    if rng.random() < 0.05:
        content = gzip.compress(content)
        content = mutant(content, rng) if rng.random() < 0.5 else content
    return {**files, name: content}


def attempt(folder: Path, files: dict[str, bytes]) -> str:
    """Read it as ``calibrate`` does; what came of it."""
    path = written(folder, files)
    try:
        read(path)
    except CalibrationError as error:
        assert error.exit_code == 2
        assert "\n" not in str(error), str(error)
        return "refused"
    return "read"


@pytest.mark.parametrize("name", VALID)
def test_a_broken_file_is_refused_or_read(tmp_path, name):
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    valid = [{k: v.encode() for k, v in files.items()} for files in VALID[name]]
    for files in valid:  # the fuzz begins at what is right
        assert form_of(written(tmp_path, files)).__name__.endswith(name)
    cases = (broken(valid[i % len(valid)], rng) for i in range(examples(40)))
    survived(name, cases, lambda files: attempt(tmp_path, files))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run's folder."""
    place = tmp_path_factory.mktemp("fuzz")
    path = small.write(place)
    words = [
        "run",
        str(path),
        "--out",
        str(place / "run"),
        "--workers",
        "1",
        "--set",
        "horizon=20s",
    ]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    return place / "run"


def test_a_broken_run_folder_is_refused_or_read(tmp_path, folder):
    names = [
        "streams/admit_all-0.parquet",
        "sessions/admit_all-0.parquet",
        "summary.json",
        "scenario.yaml",
    ]
    files = {f"run/{name}": (folder / name).read_bytes() for name in names}
    assert attempt(tmp_path, files) == "read"
    rng = np.random.default_rng(0)
    cases = (broken(files, rng) for _ in range(examples(40)))
    survived("run_folder", cases, lambda case: attempt(tmp_path, case))


@pytest.mark.parametrize("name", ["steps", "arrival_trace", "chunk_csv", "vllm_bench", "azure"])
def test_the_command_leaves_a_whole_profile_or_none(tmp_path, name):
    """Exit code 0 and a profile, or 2, a line and no file."""
    rng = np.random.default_rng(zlib.crc32(name.encode()) + 1)
    valid = [{k: v.encode() for k, v in files.items()} for files in VALID[name]]
    places = (tmp_path / str(i) for i in itertools.count())

    def calibrate(files: dict[str, bytes]) -> str:
        place = next(places)
        out = place / "out.yaml"
        words = ["calibrate", str(written(place, files)), "-o", str(out), "--token-audio", "80ms"]
        done = CliRunner().invoke(app, words)
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        assert done.exit_code in (0, 2), done.output
        assert out.exists() == (done.exit_code == 0), done.output
        assert not list(place.glob(".*"))
        return "read" if out.exists() else "refused"

    cases = (broken(valid[i % len(valid)], rng) for i in range(examples(4)))
    survived(f"calibrate {name}", cases, calibrate)
