"""What every command does at a terminal and in a pipe: stdout, stderr, exit codes, Ctrl-C."""

import io
import json
import os
import signal
import subprocess
import sys
import time

import pytest
from rich.console import Console
from typer.testing import CliRunner

import voicesim
from tests import small
from voicesim import terminal
from voicesim.cli import app
from voicesim.experiment import backends
from voicesim.experiment.backends import Processes
from voicesim.progress import LINES, Progress, clock, left_s
from voicesim.report.manual import ONE, STOPPED
from voicesim.report.studies import attempt, said

SHORT = ("--set", "horizon=20s")
COMMANDS = {
    "run": ("FILE", *SHORT, "--workers", "1", "--out", "OUT"),
    "compare": ("FILE", *SHORT, "--workers", "1", "--max-replications", "4", "--first", "2",
                "--out", "OUT"),
    "sweep": ("FILE", *SHORT, "--vary", "pools.tts.replicas=1..2", "--replications", "2",
              "--workers", "1", "--out", "OUT"),
    "tornado": ("FILE", *SHORT, "--vary", "workload.arrivals.rate=5/s..7/s", "--replications", "2",
                "--workers", "1", "--out", "OUT"),
    "plan": ("FILE", *SHORT, "--slo", "clean>=0%", "--vary", "pools.tts.replicas=1..2",
             "--max-replications", "7", "--workers", "1", "--out", "OUT"),
    "alarms": ("FILE", "--replications", "2", "--workers", "1", "--out", "OUT"),
    "gate": ("--baseline", "FILE", "--scenario", "FILE", "--replications", "5", "--workers", "1",
             "--out", "OUT"),
    "ladder": ("PROFILE", "--levels", "1,2", "--seeds", "1", "--audio", "2s", "--out", "OUT"),
    "check": ("FILE",),
    "runs": ("FOLDER",),
    "profiles": (),
    "explain": ("slo",),
}  # fmt: skip
FILES = {"run": "summary", "compare": "study", "sweep": "sweep", "tornado": "tornado",
         "plan": "plan", "alarms": "alarms", "gate": "gate", "ladder": "ladder"}  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("terminal")
    small.write(folder)
    return folder


def words(command, place, out):
    names = {"FILE": place / "small.yaml", "PROFILE": place / "small-profile.yaml",
             "FOLDER": place, "OUT": out}  # fmt: skip
    return [command, *(str(names.get(w, w)) for w in COMMANDS[command])]


def invoke(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


@pytest.mark.parametrize("command", COMMANDS)
def test_json_is_all_there_is_on_stdout_and_quiet_says_where(command, place, tmp_path):
    """--json: the JSON of the folder, number for number; --quiet: one line at most."""
    asked = words(command, place, tmp_path / "out")
    result = invoke(*asked, "--json")
    assert result.exit_code in (0, 1), result.output
    found = json.loads(result.stdout)
    if command in FILES:
        kept = tmp_path / "out" / f"{FILES[command]}.json"
        assert found == json.loads(kept.read_text())
    again = invoke(*asked, "--quiet")
    assert again.exit_code == result.exit_code and again.stderr == ""
    folder = {"profiles": str(voicesim.catalogue.profiles.folder())}.get(command)
    wanted = str(tmp_path / "out") if command in FILES else folder
    assert again.stdout.splitlines() == ([] if wanted is None else [wanted])


def test_replay_and_validate_and_calibrate_print_json(place, tmp_path):
    invoke(
        "run", place / "small.yaml", *SHORT, "--workers", "1", "--out", tmp_path / "r", "--quiet"
    )
    asked = ("replay", tmp_path / "r", "--scenario", place / "small.yaml", "--run", "cap-0",
             *SHORT, "--workers", "1")  # fmt: skip
    result = invoke(*asked, "--out", tmp_path / "o", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == json.loads((tmp_path / "o" / "summary.json").read_text())
    result = invoke(*asked, "--convert", tmp_path / "calls.csv", "--json")
    assert json.loads(result.stdout)["file"] == str(tmp_path / "calls.csv")
    prior = ("--prior", "gpu=h100-sxm,model=qwen3-tts-1.7b")
    result = invoke("calibrate", *prior, "-o", tmp_path / "p.yaml", "--json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told["file"] == str(tmp_path / "p.yaml")
    assert told["parameters"]["memory_s"]["origin"] == "prior"
    assert invoke("calibrate", *prior, "-o", tmp_path / "q.yaml", "-q").exit_code == 2  # no such
    done = invoke("calibrate", *prior, "-o", tmp_path / "q.yaml", "--quiet")
    assert (done.stdout, done.stderr) == (f"{tmp_path / 'q.yaml'}\n", "")


def test_a_pipe_gets_no_colour_and_no_progress(place, tmp_path):
    out = tmp_path / "out"
    env = {**os.environ, "NO_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "voicesim", *words("run", place, out)], capture_output=True,
        text=True, env=env,
    )  # fmt: skip
    assert done.returncode == 0 and "\x1b" not in done.stdout + done.stderr
    assert "[2/2]" in done.stderr and "events/s" in done.stderr
    assert "[2/2]" not in done.stdout and "CLEAN" in done.stdout


@pytest.mark.parametrize(
    "command", sorted({*COMMANDS, "replay", "validate", "calibrate", "measure", "new"})
)
def test_wrong_input_is_one_line_and_two(command, place, tmp_path):
    """2 of every command, for a file or an address that is not there."""
    gone = tmp_path / "gone"
    asked = {
        "runs": (gone,), "profiles": ("--such",), "explain": ("no.such.key",),
        "validate": (place / "small-profile.yaml", gone), "calibrate": (gone, "-o", gone),
        "measure": ("ftp://x/y", "--levels", "1"), "new": (gone / "x.yaml", "--yes"),
        "gate": ("--baseline", gone, "--scenario", gone), "ladder": (gone,),
        "replay": (gone, "--scenario", gone), "plan": (gone, *COMMANDS["plan"][3:7]),
    }.get(command, (gone,))  # fmt: skip
    result = invoke(command, *asked)
    assert result.exit_code == 2, result.output
    assert result.stdout == "" and "Traceback" not in result.stderr
    if command != "profiles":  # the parser of options says it in a box
        assert len(result.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_codes_that_say_no(place, tmp_path):
    never = ("--slo", "ttfa_p99<=1ms", "--vary", "pools.tts.replicas=1..2", *SHORT)
    asked = ("plan", place / "small.yaml", *never, "--max-replications", "7", "--workers", "1",
             "--out", tmp_path / "p")  # fmt: skip
    assert invoke(*asked).exit_code == 1
    worse = ("--set", "pools.tts.replicas=1", "--set", "workload.arrivals.rate=20/s")
    asked = ("gate", "--baseline", place / "small.yaml", "--scenario", place / "small.yaml",
             "--replications", "5", "--workers", "1", "--out", tmp_path / "g")  # fmt: skip
    assert invoke(*asked, "--set", "cluster.pools.tts.replicas=1", *worse[2:]).exit_code == 1
    assert set(ONE) >= {"plan", "gate", "measure"} and set(ONE) | set(STOPPED) <= set(names())


def names():
    return {c.name or c.callback.__name__ for c in app.registered_commands}


def test_the_help_says_the_codes():
    told = " ".join(invoke("--help").output.split())
    for each in ("0 done", "1 the answer is no", "2 the input is wrong", "130 interrupted"):
        assert each in told


# --- Ctrl-C -----------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["tornado", "alarms"])
def test_ctrl_c_keeps_what_is_finished_and_says_where(command, place, tmp_path):
    """To all processes of the command, as a terminal sends it, with two workers."""
    out = tmp_path / "out"
    many = {"FILE": place / "small.yaml", "OUT": out}
    asked = {
        "tornado": ("--vary", "workload.arrivals.rate=5/s..7/s", "--replications", "400"),
        "alarms": ("--replications", "400"),
    }[command]  # fmt: skip
    process = subprocess.Popen(
        list(map(str, [sys.executable, "-m", "voicesim", command, many["FILE"], *asked, "--workers",
                       2, "--set", "horizon=10min", "--out", out])),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    while len(list(out.glob("runs/*.json"))) < 2:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    told, errors = process.communicate()
    assert process.returncode == 130 and told == ""
    assert "Traceback" not in errors, errors
    last = errors.splitlines()[-1]
    assert last.startswith("interrupted: ") and last.endswith(
        f" finished runs are kept in {out}/; the same command goes on from here"
    )
    kept = int(last.split()[1])
    assert 2 <= kept <= len(list((out / "runs").glob("[!.]*.json")))


def test_a_lost_ctrl_c_is_not_taken_for_workers_that_died(monkeypatch):
    """Python drops a KeyboardInterrupt that is raised in a finaliser.  The workers die of theirs,
    and the pool must end, not start others."""
    starts = []

    def died(pool, calls):
        starts.append(1)
        monkeypatch.setattr(terminal, "_stopped", True)  # the handler ran; its exception was lost
        raise backends.TerminatedWorkerError("killed")

    monkeypatch.setattr(backends, "started", died)
    job = type("Job", (), {"id": ("a", 0)})
    with pytest.raises(KeyboardInterrupt):
        list(Processes(2).run([job]))
    assert len(starts) == 1


def test_errors_of_the_system_are_one_line():
    assert said(FileNotFoundError(2, "No such file or directory", "x/y")) == (
        "x/y: No such file or directory"
    )
    assert said(OSError(28, "No space left on device"), "runs/x") == (
        "runs/x: No space left on device"
    )

    def full():
        raise OSError(28, "No space left on device", "runs/x/a.parquet")

    assert attempt(full) == 2


def test_the_functions_translate_them_too(place, monkeypatch, tmp_path):
    def full(*_, **__):
        raise OSError(28, "No space left on device", "somewhere")

    monkeypatch.setattr("voicesim.experiment.sweep.Sweep.write", full)
    with pytest.raises(voicesim.Error, match=r"^somewhere: No space left on device$"):
        voicesim.sweep(place / "small.yaml", "pools.tts.replicas=1..2", sets="horizon=10s",
                       replications=1, workers=1, out=tmp_path / "o")  # fmt: skip


# --- the progress -----------------------------------------------------------------------------


def log(steps, **how):
    """The lines of a progress that is no terminal."""
    text = io.StringIO()
    with Progress(console=Console(file=text, width=200), **how) as bar:
        for step in steps:
            bar.show(*step)
    return text.getvalue().splitlines(), bar


def test_time_left_and_how_it_is_said():
    assert left_s(30.0, 3, 6) == 60.0  # 10 s a run
    assert left_s(30.0, 1, 6) is None  # one run tells too little
    assert [clock(s) for s in (0, 89.4, 91, 3599, 7500)] == [
        "0 s", "89 s", "2 min", "1 h 00 min", "2 h 05 min",
    ]  # fmt: skip


def test_a_log_is_short_and_has_first_and_last():
    lines, bar = log([("run", i, 1000, 0, 5) for i in range(1, 1001)])
    assert len(lines) <= LINES + 1 and bar.runs == 1000
    assert lines[0].startswith("[1/1000] run") and lines[-1].startswith("[1000/1000] run")
    assert "left" not in lines[-1]


def test_what_was_found_counts_neither_for_the_rate_nor_for_the_time_left():
    steps = [("a", i, 8, i, 0) for i in range(1, 5)] + [("a", 5, 8, 4, 10)]
    lines, _ = log(steps)
    assert "left" not in lines[4] and "4 found in the folder" in lines[4]
    assert "events/s" in lines[4] and "events/s" not in lines[3]


def test_quiet_shows_nothing():
    assert log([("a", 1, 2, 0, 5), ("a", 2, 2, 0, 5)], quiet=True)[0] == []


def test_a_bar_on_a_terminal_shows_rate_and_time():
    text = io.StringIO()
    console = Console(file=text, width=160, force_terminal=True)
    with Progress(console=console) as bar:
        for i in range(1, 4):
            bar.show("cap 1", i, 6, 0, 2_000_000)
        bar._bar.refresh()
        assert bar.tail().endswith(" left")
    shown = text.getvalue()
    assert "cap 1" in shown and "3/6" in shown and "M events/s" in shown and " left" in shown
