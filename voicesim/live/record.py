"""The files of a measurement, written as requests end, under their name when the command ends.

chunks.csv (audio) or tokens.csv (tokens, the arrival trace that ``voicesim calibrate`` and
``voicesim validate`` read), sessions.csv (a row per request) and manifest.json; whoever shows it
adds report.html.  A folder that
holds anything is never replaced.
"""

import csv
import json
from pathlib import Path
from typing import Any, TextIO

from voicesim.live.exchange import Exchange
from voicesim.runfolder import FolderError, RunFolder

CHUNKS = ["run_id", "stream_id", "chunk_index", "t_arrival_s", "t_sent_s", "audio_s", "bytes",
          "prompt_tokens", "concurrency"]  # fmt: skip
TOKENS = ["run_id", "concurrency", "stream_id", "token_index", "t_arrival_s", "prompt_tokens"]
HEARD = ["run_id", "stream_id", "t_send_s", "t_due_s", "n_chunks", "audio_s", "prompt_tokens",
         "characters", "ttfa_s"]  # fmt: skip
READ = ["run_id", "stream_id", "t_send_s", "t_due_s", "n_tokens", "prompt_tokens", "ttft_s"]


class Recorder:
    """Rows of finished requests.  tokens: token streams, else audio.  budget: the engine's tokens
    per step, written beside them where it is known.  Raises FolderError."""

    def __init__(self, target: Path, tokens: bool, budget: int | None = None):
        if target.is_dir() and any(target.iterdir()):
            raise FolderError(f"--out {target}: is there already; a measurement is never replaced")
        self.tokens, self.budget = tokens, budget
        self.rows_name = "tokens.csv" if tokens else "chunks.csv"
        files = ("manifest.json", self.rows_name, "sessions.csv", "report.html")
        self.folder = RunFolder(target, files, ())
        self.streams = 0
        more = [] if budget is None else ["token_budget"]
        self._rows, self._rows_file = self._open(
            self.rows_name, [*TOKENS, *more] if tokens else CHUNKS
        )
        self._sessions, self._sessions_file = self._open("sessions.csv", READ if tokens else HEARD)

    def _open(self, name: str, header: list[str]) -> tuple[Any, TextIO]:
        file = open(self.folder.path / name, "w", newline="", encoding="utf-8")  # noqa: SIM115
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        return writer, file

    def add(self, run: str, exchange: Exchange) -> None:
        """A request that ended well."""
        self.streams += 1
        due = "" if exchange.due is None else _s(exchange.due)
        sent, first, prompt = _s(exchange.sent), _s(exchange.first), exchange.prompt_tokens
        if self.tokens:
            self._add_tokens(run, exchange)
            row = [run, exchange.stream, sent, due, int(exchange.units), prompt, first]
        else:
            for k, c in enumerate(exchange.chunks):
                told = [_s(c.t), sent, _s(c.audio or 0.0), c.bytes, prompt, c.live]
                self._rows.writerow([run, exchange.stream, k, *told])
            row = [run, exchange.stream, sent, due, len(exchange.chunks), _s(exchange.units),
                   prompt, exchange.characters, first]  # fmt: skip
        self._sessions.writerow(row)

    def _add_tokens(self, run: str, exchange: Exchange) -> None:
        index, more = 0, [] if self.budget is None else [self.budget]
        for c in exchange.chunks:
            for _ in range(c.tokens):
                self._rows.writerow(
                    [run, c.live, exchange.stream, index, _s(c.t), exchange.prompt_tokens, *more]
                )
                index += 1

    def publish(self, manifest: dict[str, Any]) -> Path:
        """Close, write the manifest and rename."""
        self._close()
        text = json.dumps(manifest, indent=2, allow_nan=False)
        (self.folder.path / "manifest.json").write_text(text + "\n", encoding="utf-8")
        return self.folder.publish()

    def discard(self) -> None:
        """Leave nothing."""
        self._close()
        self.folder.discard()

    def _close(self) -> None:
        self._rows_file.close()
        self._sessions_file.close()


def _s(seconds: float) -> str:
    return f"{seconds:.6f}"
