"""``voicesim explore`` from start to Ctrl-C, in a process of its own."""

import os
import signal
import socket
import subprocess
import sys
import urllib.request

from typer.testing import CliRunner

from tests import small
from voicesim.cli import app


def explore(*arguments):
    return CliRunner().invoke(app, ["explore", "--no-browser", *map(str, arguments)])


def test_it_serves_until_ctrl_c(tmp_path):
    """The signal goes to the whole group, as a terminal sends it: its processes hear it too."""
    with subprocess.Popen(
        [sys.executable, "-m", "voicesim", "explore", str(small.write(tmp_path)), "--no-browser"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        start_new_session=True,
    ) as process:  # fmt: skip
        url = process.stdout.readline().strip()
        assert url.startswith("http://127.0.0.1:") and url.endswith("/")
        assert urllib.request.urlopen(url).status == 200
        os.killpg(process.pid, signal.SIGINT)
        assert process.stdout.read() == "Ctrl-C ends it\n"
        said = process.stderr.read().replace("compiling the kernel, once: about 20 s", "")
        assert said.strip() == ""
    assert process.returncode == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["small-profile.yaml", "small.yaml"]


def test_what_is_wrong_is_said_before_anything_is_served(tmp_path):
    path = small.write(tmp_path, small.SCENARIO.replace("horizon: 60s", "horizon: 60 parsecs"))
    found = explore(path)
    assert found.exit_code == 2
    assert found.output.startswith("small.yaml:2: horizon: expected a duration")
    assert "http" not in found.output

    path = small.write(tmp_path)
    for arguments, says in (
        (["--variant", "kap"], "variant 'kap' is not known; did you mean 'cap'?"),
        (["--length", "0"], "--length: must be more than 0"),
        (["--length", "20"], "--length: 20 needs a unit"),
        (["--set", "policies.admision={}"], "did you mean"),
    ):
        found = explore(path, *arguments)
        assert found.exit_code == 2, found.output
        assert says in found.output and "http" not in found.output
    assert explore(path, "--port", "70000").exit_code == 2
    assert explore(tmp_path / "none.yaml").exit_code == 2


def test_a_model_that_cannot_be_simulated_is_refused(tmp_path):
    path = small.write(tmp_path, small.SCENARIO.replace(", kv_blocks: 2000", ""))
    found = explore(path)
    assert found.exit_code == 2
    assert found.output.startswith(f"{path}:") and "says nothing about memory" in found.output


def test_a_port_that_is_taken_is_one_line(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        found = explore(small.write(tmp_path), "--port", port)
    assert found.exit_code == 2
    assert found.output == f"--port {port}: Address already in use\n"


def test_there_is_no_way_to_listen_elsewhere():
    assert "--host" not in explore("--help").output
    assert explore("x.yaml", "--host", "0.0.0.0").exit_code == 2
