"""Text in, audio out over a WebSocket: vLLM-Omni's ``/v1/audio/speech/stream``.

Defined in https://github.com/vllm-project/vllm-omni/blob/main/docs/serving/speech_api.md.  To the
server, JSON: ``session.config`` (the fields of /v1/audio/speech, with ``stream_audio``),
``input.text``, ``input.done``, ``session.close``.  From it: ``audio.start`` (format, sample_rate),
binary frames of audio or ``audio.chunk`` (``audio_b64``), ``audio.done``, ``session.done``,
``error``.  One connection per request here; the clock starts when the text is sent, so the
handshake is no part of the time to first audio.
"""

import asyncio
import json
from dataclasses import replace
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from voicesim.live.errors import EndpointError
from voicesim.live.exchange import Exchange
from voicesim.live.http import CONNECT_S, KEPT_HEADERS, message_of, parsed
from voicesim.live.pcm import AudioFormat, Meter
from voicesim.live.speech import decoded
from voicesim.live.work import Job


class _Straight(connect):
    """A connection that follows no redirect."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


class TextToAudio:
    """body: the session's configuration.  timeout: the longest silence (s)."""

    def __init__(
        self,
        url: str,
        body: dict[str, Any],
        assumed: AudioFormat,
        timeout: float,
        key: str | None,
    ):
        self.url, self.body, self.assumed, self.timeout = url, body, assumed, timeout
        self.headers = {"authorization": f"Bearer {key}"} if key else None

    async def ask(self, job: Job, exchange: Exchange) -> None:
        """Speak a text; raises EndpointError."""
        exchange.gather = 0.0
        exchange.send()
        try:
            async with _Straight(
                self.url, additional_headers=self.headers, proxy=None, compression=None,
                max_size=None, open_timeout=CONNECT_S, close_timeout=1.0,
            ) as socket:  # fmt: skip
                if socket.response is not None:
                    found = socket.response.headers
                    exchange.headers = {n: found[n] for n in KEPT_HEADERS if n in found}
                await socket.send(json.dumps({"type": "session.config", **self.body}))
                exchange.send()
                await socket.send(json.dumps({"type": "input.text", "text": job.text}))
                await socket.send(json.dumps({"type": "input.done"}))
                await self._hear(socket, exchange)
        except InvalidStatus as error:
            code = error.response.status_code
            what = "redirects (never followed)" if 300 <= code < 400 else "no WebSocket here"
            raise EndpointError(f"HTTP {code}: {what}") from None
        except ConnectionClosed:
            raise EndpointError("broke off: closed before session.done") from None
        except (WebSocketException, OSError, TimeoutError) as error:
            why = str(error).splitlines()[0] if str(error) else "no answer"
            raise EndpointError(f"cannot connect: {why}") from None
        if not exchange.chunks:
            raise EndpointError("ended without audio")

    async def _hear(self, socket: ClientConnection, exchange: Exchange) -> None:
        meter = Meter(self.assumed)
        while True:
            try:
                async with asyncio.timeout(self.timeout):
                    message = await socket.recv()
            except TimeoutError:
                raise EndpointError(f"nothing came for {self.timeout:g} s") from None
            if isinstance(message, bytes):
                exchange.add(len(message), meter.feed(message, message=True))
                continue
            event = parsed(message)
            kind = event.get("type")
            if kind == "audio.start":
                meter = Meter(_started(event, self.assumed))
            elif kind == "audio.chunk":
                audio = decoded(event.get("audio_b64"))
                exchange.add(len(audio), meter.feed(audio, message=True))
            elif kind == "error":
                raise EndpointError(f"says {message_of(message)}")
            elif kind == "session.done":
                exchange.format = meter.format
                return


def _started(event: dict[str, Any], assumed: AudioFormat) -> AudioFormat:
    form, rate = event.get("format", "pcm"), event.get("sample_rate")
    if form not in ("pcm", "wav"):
        raise EndpointError(f"sends {form}: its seconds cannot be counted; ask for pcm or wav")
    if not isinstance(rate, int) or rate <= 0:
        return assumed
    return replace(assumed, rate=rate, origin="audio.start")
