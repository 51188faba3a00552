"""Pipecat's log (loguru text): latencies of its services, and who speaks when.

    2026-11-29 09:15:02.411 | DEBUG | ... | [QwenTTSService#3] TTFB (qwen3-tts): 0.214s at 41.882s

Older lines read ``QwenTTSService#3 TTFB: 0.377``.  Bot and user started and stopped speaking give
audible spans.  Seconds.  Lines that say none of this are skipped.
Source: https://github.com/pipecat-ai/pipecat
"""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from voicesim.calibrate.errors import CalibrationError
from voicesim.calibrate.readers.measured import DIALOGUE, REQUESTS, Measured, table
from voicesim.calibrate.readers.record import NAN
from voicesim.calibrate.readers.source import Head, text_lines

NAME = "Pipecat log (loguru text)"
TTFB = re.compile(r"\[?(\w+)(?:#\d+)?\]? TTFB(?: \([^)]*\))?: (\S+)")
SPEAKING = re.compile(r"\b(Bot|User) (started|stopped) speaking\b")
STAMP = re.compile(r"(\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}(?:\.\d+)?)\s*\|")
Row = dict[str, Any]


def sniff(head: Head) -> bool:
    """A stamped line of one of the kinds."""
    lines = (line for line in head.text.splitlines() if STAMP.match(line))
    return any(TTFB.search(line) or SPEAKING.search(line) for line in lines)


def read(path: Path) -> Measured:
    """One request per span of the bot's speech, and the measures of the talk.

    A request begins the synthesiser's TTFB before that was logged.  barge_in: did the user begin
    while the bot spoke?  gap_s: user stopped to bot started.  ttfb_s: each one logged;
    first_sound_s: request to bot started, which a log that ends amid a reply tells too.
    """
    call = _Call(path.name)
    for line, text in text_lines(path):
        stamp = STAMP.match(text)
        if stamp and (found := SPEAKING.search(text)):
            call.speaks(found[1], found[2], _seconds(stamp[1], path.name, line), line)
        elif stamp and (found := TTFB.search(text)) and "TTS" in found[1]:
            at = _seconds(stamp[1], path.name, line)
            call.first_byte(at, _value(found[2], path, line), line)
    rows, talk = call.rows, call.talk
    if not rows and not talk:
        raise CalibrationError(path.name, None, "says nothing of who speaks when")
    begin = rows[0].pop("at") if rows else NAN
    for i, row in enumerate(rows):
        at = row.pop("at", begin)
        row |= {"run": path.name, "request": i, "session": path.name, "arrival_s": at - begin}
    cannot = ["step times", "chunks: only first bytes and spans of speech"]
    if "Bot" in call.since:
        cannot.append("the last reply: the log ends while the bot speaks, so its length is unknown")
    return Measured(
        path.name,
        NAME,
        len(rows) + len(talk),
        tells=["replies, barge-in, turn gaps and the share of talk of one conversation"],
        cannot=cannot,
        epoch_s=begin,
        requests=table(REQUESTS, rows),
        dialogue=table(DIALOGUE, [*talk, *call.share()]),
    )


class _Call:
    """Who speaks, line by line."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.rows: list[Row] = []
        self.talk: list[Row] = []
        self.since: dict[str, float] = {}  # who speaks now -> since when
        self.asked = self.user_ended = NAN
        self.barged = False
        self.begin = self.end = NAN

    def first_byte(self, at: float, ttfb: float, line: int) -> None:
        """The synthesiser's first byte; the first of a reply counts."""
        self._say("ttfb_s", ttfb, line)
        if self.asked != self.asked:
            self.asked = at - ttfb

    def speaks(self, who: str, what: str, at: float, line: int) -> None:
        """Somebody started or stopped."""
        if at < self.end:
            raise CalibrationError(self.file, line, "goes back in time; the log is not one call's")
        self.begin = at if self.begin != self.begin else self.begin
        self.end = at
        if what == "started":
            self.since.setdefault(who, at)
            if who == "Bot" and self.asked <= at:  # not NaN: a request is known
                self._say("first_sound_s", at - self.asked, line)
            if who == "User":
                self.barged |= "Bot" in self.since
            elif self.user_ended == self.user_ended:
                self._say("gap_s", at - self.user_ended, line)
                self.user_ended = NAN
        elif who in self.since:
            start = self.since.pop(who)
            if who == "User":
                self.user_ended = at
                self._say("user_turn_s", at - start, line)
            else:
                self._bot_stopped(start, at, line)

    def _bot_stopped(self, start: float, at: float, line: int) -> None:
        self._say("bot_turn_s", at - start, line)
        self._say("barge_in", float(self.barged), line)
        asked = start if self.asked != self.asked else min(self.asked, start)
        row = {"at": asked, "ttfa_s": start - asked, "audio_s": at - start, "line": line}
        self.rows.append({**row, "latency_s": at - asked, "cancelled": self.barged})
        self.asked = NAN
        self.barged = False

    def _say(self, measure: str, value: float, line: int) -> None:
        self.talk.append({"measure": measure, "value": value, "line": line})

    def share(self) -> list[Row]:
        """The bot's share of the time between the first and the last change of speakers."""
        whole = self.end - self.begin
        if not whole > 0:
            return []
        spoken = sum(row["audio_s"] for row in self.rows)
        return [{"measure": "talk_share", "value": spoken / whole, "line": NAN}]


def _seconds(stamp: str, file: str, line: int) -> float:
    """Unix seconds; the log's clock is taken as UTC."""
    try:
        return datetime.fromisoformat(stamp).replace(tzinfo=UTC).timestamp()
    except ValueError as error:
        raise CalibrationError(file, line, f"found {stamp!r}; must be a time") from error


def _value(text: str, path: Path, line: int) -> float:
    try:
        value = float(text.removesuffix("s"))
    except ValueError:
        value = -1.0
    if not 0 <= value < 3600:
        raise CalibrationError(path.name, line, f"TTFB: found {text!r}; must be seconds >= 0")
    return value
