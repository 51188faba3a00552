"""The ``explore`` command: read, warm up, serve until Ctrl-C."""

import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from voicesim import terminal
from voicesim.engine.kernel.jit import is_compiled
from voicesim.engine.profile import ProfileError
from voicesim.engine.spec import NoProgressError
from voicesim.experiment.metrics import ExperimentError, chosen
from voicesim.explore.explorer import Explorer
from voicesim.explore.page import page_of
from voicesim.explore.player import Player
from voicesim.explore.server import Server
from voicesim.explore.source import Source
from voicesim.policy.python import PolicyError
from voicesim.scenario import ScenarioErrors
from voicesim.simulation import ModelError

MODEL = (ModelError, ProfileError, PolicyError, NoProgressError)


def explore_command(
    path: Path,
    variant: str | None,
    sets: Sequence[str],
    seed: int | None,
    length: float | None,
    port: int,
    browser: bool,
) -> int:
    """Serve the page; returns the exit code: 0 after Ctrl-C, 2 bad input, 130 interrupted before
    the page was there."""
    terminal.heed_signals()
    try:
        source = Source(path, sets, seed)
        first = chosen(variant or source.file.baseline, list(source.variants), "variant")
        explorer = Explorer(source, length)
        with Player(explorer.warm()) as player:
            try:
                server = _server(port, explorer, first, player)
            except OSError as problem:
                raise ExperimentError(f"--port {port}: {problem.strerror}") from None
            if not is_compiled():
                print("compiling the kernel, once: about 20 s", file=sys.stderr)
            player.ready()
            explorer.rehearse(player)
            _serve(server, browser)
    except (ScenarioErrors, ExperimentError) as problem:
        print(problem, file=sys.stderr)
        return 2
    except MODEL as problem:
        text = str(problem)
        print(text if text.startswith(str(path)) else f"{path}: {text}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def _server(port: int, explorer: Explorer, first: str, player: Player) -> Server:
    def page(nonce: str) -> str:
        return page_of(explorer.state(first), nonce)

    def answer(asked: Any) -> dict[str, Any]:
        return explorer.answer(asked, player)

    return Server(port, page, answer, MODEL)


def _serve(server: Server, browser: bool) -> None:
    print(f"{server.url}\nCtrl-C ends it", flush=True)
    if browser:
        webbrowser.open(server.url)
    try:
        server.serve_forever(poll_interval=0.2)
    except KeyboardInterrupt:
        print("", file=sys.stderr)
    finally:
        server.server_close()
