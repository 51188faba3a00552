"""benchmarks/peers.py: one line for each peer that is missing or fails, and always our own rows."""

import json
import subprocess
import sys

import pytest

from tests.peers import BENCHMARKS, load

OLD_KEYS = {"tokens_per_core_second", "voice_tokens_per_core_second", "live_streams",
            "voice_live_streams"}  # fmt: skip
DYNAMOS = {"dynamo_tokens_per_core_second", "dynamo_ratio", "voice_dynamo_ratio",
           "dynamo_live_streams"}  # fmt: skip


@pytest.fixture
def peers(monkeypatch):
    """The script as a module, everything in this process, nothing installed but voicesim."""
    made = load("peers", BENCHMARKS / "peers.py")
    monkeypatch.setattr(made, "apart", lambda call, *arguments: call(*arguments))
    monkeypatch.setattr(made, "installed", lambda name: "9.9" if name == "voicesim" else None)
    return made


def asked(peers, monkeypatch, tmp_path):
    monkeypatch.setattr(
        sys, "argv", ["peers.py", "--requests", "300", "--json", str(tmp_path / "x.json")]
    )
    peers.main()
    return json.loads((tmp_path / "x.json").read_text())


def test_without_any_peer(peers, monkeypatch, tmp_path, capsys):
    figures = asked(peers, monkeypatch, tmp_path)
    text = capsys.readouterr().out
    skipped = [line for line in text.splitlines() if line.startswith("skipped:")]
    assert [line.split()[1] for line in skipped] == ["Dynamo", "vllm-sr-sim", "AIConfigurator",
                                                     "BLIS"]  # fmt: skip
    assert set(figures) >= OLD_KEYS
    assert not set(figures) & DYNAMOS
    assert figures["voicesim_version"] == "9.9"
    assert figures["blis_itl_s"] == pytest.approx(figures["blis_voicesim_itl_s"], rel=0.01)
    assert any(line.startswith("| voicesim ") for line in text.splitlines())


def test_a_peer_that_answers_and_one_that_fails(peers, monkeypatch, tmp_path, capsys):
    def answer(work):
        return {"cpu_s": 3.0, "cpu_median_s": 4.0, "peak_mb": 9.0, "live_streams": 7.0}

    def fail(work):
        raise TypeError("no such argument\nand more")

    there = [
        peers.Peer("dynamo", "Dynamo replay", "ai-dynamo-runtime", answer),
        peers.Peer("sr_sim", "vllm-sr-sim", "vllm-sr-sim", fail),
    ]
    monkeypatch.setattr(peers, "PEERS", tuple(there))
    known = {"voicesim": "9.9", "ai-dynamo-runtime": "1.6.1", "vllm-sr-sim": "0.1"}
    monkeypatch.setattr(peers, "installed", known.get)
    figures = asked(peers, monkeypatch, tmp_path)
    text = capsys.readouterr().out
    assert "skipped: vllm-sr-sim 0.1 failed: TypeError: no such argument\n" in text
    assert set(figures) >= OLD_KEYS | DYNAMOS
    assert figures["dynamo_ratio"] == pytest.approx(3.0 / figures["voicesim_cpu_s"])
    assert figures["dynamo_version"] == "1.6.1"


def test_the_script_as_it_is_called():
    """Processes of their own, whatever is installed here."""
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / "peers.py"), "--requests", "200"],
        capture_output=True, text=True, cwd=BENCHMARKS.parent,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "| voicesim, voice" in done.stdout


def test_a_table_is_markdown():
    from peering.table import Column, ms, table

    lines = table(
        [{"a": "x", "b": 0.0125}, {"a": "longer"}], [Column("a", "a"), Column("b", "b", ms)]
    )
    assert lines == [
        "| a      |    b |",
        "| ------ | ---: |",
        "| x      | 12.5 |",
        "| longer |    - |",
    ]
