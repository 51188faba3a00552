"""What to measure, read from the command line: every option is used or refused."""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from voicesim.live.errors import LiveError
from voicesim.live.pcm import AudioFormat
from voicesim.live.target import COMPLETIONS, SPEECH, WEBSOCKET, Target, read_target
from voicesim.live.work import FIRST_ID, TEXTS, Work
from voicesim.scenario import units

AUDIO = (SPEECH, WEBSOCKET)
ONLY_FOR = {
    "voice": AUDIO, "format": AUDIO, "texts": AUDIO, "sample_rate": AUDIO, "sample_width": AUDIO,
    "channels": AUDIO, "stream_format": (SPEECH,), "gather": (SPEECH,),
    "prompt_tokens": (COMPLETIONS,), "tokens": (COMPLETIONS,), "vocabulary": (COMPLETIONS,),
    "token_budget": (COMPLETIONS,), "token_audio": (COMPLETIONS,),
}  # fmt: skip
LADDER_ONLY, POISSON_ONLY = ("level_time", "precision"), ("duration", "repeats", "max_in_flight")
SECRETS = ("api_key", "apikey", "authorization", "password", "secret")
KEY_VARIABLE = "VOICESIM_API_KEY"


@dataclass(frozen=True)
class Plan:
    """levels: a ladder, or rate (1/s): Poisson runs.  seconds: of a level at most, of a Poisson run
    exactly.  gather: reads closer than this (s) are one chunk.  most: requests in flight that end a
    Poisson run.  body: fields of every request.  token_audio: seconds of audio of a token."""

    target: Target
    levels: tuple[int, ...] = ()
    rate: float | None = None
    seconds: float = 60.0
    repeats: int = 1
    precision: float = 0.05
    warmup: int = 2
    timeout: float = 30.0
    gather: float = 0.002
    most: int = 512
    work: Work = field(default_factory=Work)
    model: str | None = None
    body: Mapping[str, Any] = field(default_factory=dict)
    audio: AudioFormat = field(default_factory=AudioFormat)
    token_audio: float | None = None
    token_budget: int | None = None
    key: str | None = None

    @property
    def tokens(self) -> bool:
        """Token streams, not audio."""
        return self.target.protocol == COMPLETIONS


def read_plan(url: str, options: Mapping[str, Any]) -> Plan:
    """options: as typed, None where not given.  Raises LiveError."""
    given = {name: value for name, value in options.items() if value is not None}
    target = read_target(url, given.get("protocol"), given.get("host_ok"))
    _refuse_unused(given, target.protocol)
    ladder = "levels" in given
    seconds = given.get("level_time" if ladder else "duration", "60s")
    return Plan(
        target=target,
        levels=_levels(given["levels"]) if ladder else (),
        rate=None if ladder else _positive("rate", given["rate"], units.rate),
        seconds=_positive("level_time" if ladder else "duration", seconds, units.stated_duration),
        repeats=given.get("repeats", 1),
        precision=given.get("precision", 0.05),
        warmup=given.get("warmup", 2),
        timeout=_positive("timeout", given.get("timeout", "30s"), units.stated_duration),
        gather=_read("gather", given.get("gather", "2ms"), units.stated_duration),
        most=given.get("max_in_flight", 512),
        work=_work(given),
        model=given.get("model"),
        body=_body(given, target.protocol),
        audio=_audio(given),
        token_audio=_positive("token_audio", given["token_audio"], units.stated_duration)
        if "token_audio" in given
        else None,
        token_budget=given.get("token_budget"),
        key=_key(given.get("api_key_env")),
    )


def option(name: str) -> str:
    """--api-key-env"""
    return "--" + name.replace("_", "-")


def _refuse_unused(given: Mapping[str, Any], protocol: str) -> None:
    if ("levels" in given) == ("rate" in given):
        raise LiveError("give --levels 1,2,4 (a ladder) or --rate 1/s (Poisson), one of them")
    for name, protocols in ONLY_FOR.items():
        if name in given and protocol not in protocols:
            raise LiveError(f"{option(name)}: is for {' and '.join(protocols)}, not {protocol}")
    useless, mode = (POISSON_ONLY, "--levels") if "levels" in given else (LADDER_ONLY, "--rate")
    for name in useless:
        if name in given:
            raise LiveError(f"{option(name)}: has no use with {mode}")


def _read(name: str, value: Any, read: Callable[[Any], float]) -> float:
    try:
        return read(value)
    except ValueError as error:
        raise LiveError(f"{option(name)}: {error}") from None


def _positive(name: str, value: Any, read: Callable[[Any], float]) -> float:
    found = _read(name, value, read)
    if found <= 0:
        raise LiveError(f"{option(name)}: found {value!r}; allowed: more than 0")
    return found


def _levels(text: str) -> tuple[int, ...]:
    try:
        found = tuple(int(part) for part in text.split(","))
    except ValueError:
        found = ()
    if not found or min(found) < 1 or len(set(found)) < len(found):
        raise LiveError(f"--levels: found {text!r}; allowed: whole numbers from 1 on, each once")
    return found


def _span(name: str, text: str) -> tuple[int, int]:
    """32 or 50..400, least and most."""
    low, dots, high = text.partition("..")
    try:
        found = int(low), int(high if dots else low)
    except ValueError:
        found = (0, 0)
    if not 1 <= found[0] <= found[1]:
        raise LiveError(f"{option(name)}: found {text!r}; allowed: 32 or 50..400")
    return found


def _work(given: Mapping[str, Any]) -> Work:
    vocabulary = given.get("vocabulary", 1000)
    if vocabulary <= FIRST_ID:
        raise LiveError(f"--vocabulary: found {vocabulary}; allowed: more than {FIRST_ID}")
    return Work(
        seed=given.get("seed", 1),
        texts=_texts(given["texts"]) if "texts" in given else TEXTS,
        prompt_tokens=_span("prompt_tokens", given.get("prompt_tokens", "32")),
        tokens=_span("tokens", given.get("tokens", "50..400")),
        vocabulary=vocabulary,
    )


def _texts(path: Path) -> tuple[str, ...]:
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise LiveError(f"--texts {path}: cannot be read: {error}") from None
    found = tuple(line.strip() for line in lines if line.strip())
    if not found:
        raise LiveError(f"--texts {path}: holds no text; allowed: one utterance a line")
    return found


def _audio(given: Mapping[str, Any]) -> AudioFormat:
    told = {"sample_rate", "sample_width", "channels"} & set(given)
    return AudioFormat(
        given.get("sample_rate", 24_000), given.get("sample_width", 2), given.get("channels", 1),
        "options" if told else "assumed",
    )  # fmt: skip


def _body(given: Mapping[str, Any], protocol: str) -> dict[str, Any]:
    """Fields of every request besides its text or prompt; --extra comes last and wins."""
    form, stream = given.get("format", "pcm"), given.get("stream_format", "audio")
    if form not in ("pcm", "wav"):
        raise LiveError(f"--format: found {form!r}; allowed: pcm, wav (seconds must be countable)")
    if stream not in ("audio", "sse"):
        raise LiveError(f"--stream-format: found {stream!r}; allowed: audio, sse")
    body: dict[str, Any] = {}
    if protocol != COMPLETIONS:
        body["response_format"] = form
        body |= {"voice": given["voice"]} if "voice" in given else {}
        body |= {"stream_audio": True} if protocol == WEBSOCKET else {"stream_format": stream}
    return body | _extra(given.get("extra"))


def _extra(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    try:
        found = json.loads(text)
    except ValueError as error:
        raise LiveError(f"--extra: is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise LiveError('--extra: is no JSON object; such as \'{"language": "English"}\'')
    for name in found:
        if any(secret in str(name).lower() for secret in SECRETS):
            raise LiveError(f"--extra: {name}: keys go into the variable {KEY_VARIABLE}")
    return found


def _key(variable: str | None) -> str | None:
    if variable is not None and not os.environ.get(variable):
        raise LiveError(f"--api-key-env: the environment has no {variable}")
    return os.environ.get(variable or KEY_VARIABLE)
