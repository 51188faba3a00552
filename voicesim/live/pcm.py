"""Seconds of audio in bytes: raw PCM, or WAV whose header says what follows."""

import struct
from dataclasses import dataclass
from email.message import Message

from voicesim.live.errors import EndpointError

LINEAR = {1, 3, 6, 7, 0xFFFE}
"""WAV format tags with a fixed number of bytes per sample (PCM, float, A-law, mu-law, extensible;
https://www.rfc-editor.org/rfc/rfc2361)."""
LONGEST_HEADER = 1 << 16


@dataclass(frozen=True)
class AudioFormat:
    """rate: samples per second.  width: bytes per sample.  origin: who said so."""

    rate: int = 24_000
    width: int = 2
    channels: int = 1
    origin: str = "assumed"

    @property
    def bytes_per_s(self) -> int:
        return self.rate * self.width * self.channels


class Meter:
    """Counts the audio of one stream; whole frames only, a split one waits for its other half."""

    def __init__(self, assumed: AudioFormat):
        self.format = assumed
        self._head = b""
        self._in_header = True
        self._rest = 0

    def feed(self, data: bytes, message: bool = False) -> float:
        """Seconds that these bytes add.  message: they are a whole message, which may begin with
        a WAV header of its own.  Raises EndpointError for a WAV that is not PCM."""
        if message and data[:4] == b"RIFF":
            self._head, self._in_header, self._rest = b"", True, 0
        if self._in_header:
            data = self._after_header(data)
        frame = self.format.width * self.format.channels
        frames, self._rest = divmod(self._rest + len(data), frame)
        return frames / self.format.rate

    def _after_header(self, data: bytes) -> bytes:
        self._head += data
        head = self._head
        if len(head) < 4 and b"RIFF".startswith(head):
            return b""
        if head[:4] != b"RIFF":
            self._in_header, self._head = False, b""
            return head
        begin = self._parse(head)
        if begin is None:
            if len(head) > LONGEST_HEADER:
                raise EndpointError("sends a WAV without a data chunk")
            return b""
        self._in_header, self._head = False, b""
        return head[begin:]

    def _parse(self, head: bytes) -> int | None:
        """Where the samples begin; None while the header is not complete."""
        at, known = 12, False
        while len(head) >= at + 8:
            name, size = head[at : at + 4], struct.unpack_from("<I", head, at + 4)[0]
            if name == b"data":
                if not known:
                    raise EndpointError("sends a WAV without a fmt chunk")
                return at + 8
            if name == b"fmt ":
                if size < 16:
                    raise EndpointError("sends a WAV with a short fmt chunk")
                if len(head) < at + 24:
                    return None
                self.format, known = _wav_format(head, at + 8), True
            at += 8 + size + size % 2
        return None


def _wav_format(head: bytes, at: int) -> AudioFormat:
    tag, channels, rate, _, align, _ = struct.unpack_from("<HHIIHH", head, at)
    if tag not in LINEAR or not channels or not rate or not align or align % channels:
        raise EndpointError(f"sends a WAV that is not PCM (format tag {tag})")
    return AudioFormat(rate, align // channels, channels, "WAV header")


def format_of(content_type: str, sample_rate: str | None, assumed: AudioFormat) -> AudioFormat:
    """What the response's headers say of raw PCM: ``audio/pcm;rate=24000``, ``audio/L16;rate=...;
    channels=...`` (RFC 2586, RFC 3190), ``X-Sample-Rate``; else what was assumed."""
    header = Message()
    header["content-type"] = content_type or "application/octet-stream"
    rate = header.get_param("rate") or sample_rate
    channels = header.get_param("channels")
    if not rate and not channels:
        return assumed
    try:
        found = AudioFormat(
            int(str(rate or assumed.rate)), assumed.width, int(str(channels or assumed.channels)),
            "response headers",
        )  # fmt: skip
    except ValueError:
        return assumed
    return found if found.rate > 0 and found.channels > 0 else assumed


def check_audio(content_type: str) -> None:
    """Raises EndpointError unless the bytes may be PCM or WAV."""
    kind = content_type.split(";")[0].strip().lower()
    if kind in ("", "application/octet-stream", "binary/octet-stream"):
        return
    if not kind.startswith("audio/"):
        raise EndpointError(f"answers {kind}, not audio")
    if any(name in kind for name in ("mpeg", "mp3", "ogg", "opus", "flac", "aac", "webm", "mp4")):
        raise EndpointError(f"answers {kind}: its seconds cannot be counted; ask for pcm or wav")
