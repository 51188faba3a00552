"""LiveKit Agents' metrics, dumped as JSON lines: one object per event, told apart by ``type``.

Seconds; timestamp is Unix time at the end of what is measured (the monitor reports when the last
frame is there).  Joined by speech_id: a reply is one or more tts_metrics.  cancelled: the caller
barged in.  Lines of other types are skipped; of the stock log lines, which round and leave out the
ids, nothing can be joined, so they are not taken.
Source: https://github.com/livekit/agents (metrics/base.py, tts/tts.py)
"""

from collections import defaultdict
from pathlib import Path
from typing import Any

from voicesim.calibrate.errors import CalibrationError
from voicesim.calibrate.readers.measured import DIALOGUE, REQUESTS, Measured, table
from voicesim.calibrate.readers.record import NAN, Record
from voicesim.calibrate.readers.source import Head, json_lines

NAME = "LiveKit Agents metrics (JSON lines)"
TYPES = (
    "tts_metrics", "llm_metrics", "stt_metrics", "eou_metrics", "interruption_metrics",
    "vad_metrics", "realtime_model_metrics",
)  # fmt: skip
Row = dict[str, Any]


def sniff(head: Head) -> bool:
    """JSON lines of which one is of a known type."""
    return head.text.lstrip().startswith("{") and any(f'"{name}"' in head.text for name in TYPES)


def read(path: Path) -> Measured:
    """Requests to the synthesiser, and the measures of the talk.

    bot_turn_s: audio of a reply; gap_s: end of the caller's speech to the first sound (endpointing,
    LLM and TTS first outputs added); barge_in: 0 or 1 per reply; talk_share: audio over the time
    from the first request to the end of the last.
    """
    heard = _Heard()
    for line, data in json_lines(path):
        heard.take(Record(data, path.name, line))
    if not heard.requests and not heard.talk:
        raise CalibrationError(path.name, None, "holds no tts_metrics and nothing of the talk")
    rows = sorted(heard.requests, key=lambda row: float(row["at"]))
    begin = rows[0]["at"] if rows else 0.0
    for i, row in enumerate(rows):
        at = row.pop("at")
        row |= {"run": path.name, "request": i, "session": path.name, "arrival_s": at - begin}
    return Measured(
        path.name,
        NAME,
        len(rows) + len(heard.talk),
        tells=["replies, barge-in, turn gaps and the share of talk of one conversation"],
        cannot=["step times", "chunks: only the first byte and the end of each request"],
        epoch_s=begin if rows else NAN,
        requests=table(REQUESTS, rows),
        dialogue=table(DIALOGUE, [*heard.talk, *heard.turns(rows)]),
    )


class _Heard:
    """What the lines of a file add up to."""

    def __init__(self) -> None:
        self.requests: list[Row] = []
        self.talk: list[Row] = []
        self.delay: dict[str, float] = {}  # speech_id -> seconds from the caller's last word
        self.first: dict[str, float] = {}  # speech_id -> first token of the LLM
        self.replies: dict[str, list[Row]] = defaultdict(list)

    def take(self, record: Record) -> None:
        match record.data.get("type"):
            case "tts_metrics":
                self._reply(record)
            case "llm_metrics":
                ttft = record.number("ttft", low=-1.0)
                if ttft >= 0:
                    self.first.setdefault(record.text_of("speech_id", default=""), ttft)
            case "eou_metrics":
                delay = record.number("end_of_utterance_delay")
                self.delay[record.text_of("speech_id", default="")] = delay
                self._say("endpointing_s", delay, record)
            case "stt_metrics":
                if not record.flag("streamed", default=True):
                    self._say("user_turn_s", record.number("audio_duration"), record)
            case "interruption_metrics":
                for name in ("num_interruptions", "num_backchannels"):
                    self._say(name.removeprefix("num_"), record.number(name, default=0.0), record)

    def _say(self, measure: str, value: float, record: Record) -> None:
        self.talk.append({"measure": measure, "value": value, "line": record.line})

    def _reply(self, record: Record) -> None:
        duration, audio = record.number("duration"), record.number("audio_duration")
        ttfb = record.number("ttfb", low=-1.0)
        row = {
            "at": record.number("timestamp") - duration,
            "ttfa_s": ttfb if ttfb >= 0 else NAN,
            "latency_s": duration,
            "audio_s": audio,
            "ok": audio > 0,
            "cancelled": record.flag("cancelled", default=False),
            "line": record.line,
        }
        self.requests.append(row)
        speech = record.text_of("speech_id", default="") or f"line {record.line}"
        self.replies[speech].append(row)

    def turns(self, rows: list[Row]) -> list[Row]:
        """The measures of each reply, and the share of talk."""
        found: list[Row] = []
        for speech, parts in self.replies.items():
            first = min(parts, key=lambda row: float(row["arrival_s"]))
            line = first["line"]
            spoken = sum(row["audio_s"] for row in parts)
            barged = float(any(row["cancelled"] for row in parts))
            found.append({"measure": "bot_turn_s", "value": spoken, "line": line})
            found.append({"measure": "barge_in", "value": barged, "line": line})
            if speech in self.delay and first["ttfa_s"] == first["ttfa_s"]:
                gap = self.delay[speech] + self.first.get(speech, 0.0) + first["ttfa_s"]
                found.append({"measure": "gap_s", "value": gap, "line": line})
        if rows:
            ends = [r["arrival_s"] + (0.0 if r["ttfa_s"] != r["ttfa_s"] else r["ttfa_s"])
                    + r["audio_s"] for r in rows]  # fmt: skip
            spoken = sum(row["audio_s"] for row in rows)
            if max(ends) > 0:
                share = spoken / max(ends)
                found.append({"measure": "talk_share", "value": share, "line": NAN})
        return found
