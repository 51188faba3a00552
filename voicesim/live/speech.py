"""OpenAI-compatible ``/v1/audio/speech``: PCM or WAV as raw bytes, or as server-sent events.

Raw: the body is the audio.  SSE: ``speech.audio.delta`` events carry base64 audio, and
``speech.audio.done`` ends them (https://platform.openai.com/docs/api-reference/audio/speech-audio-
delta-event; vLLM-Omni adds ``speech.audio.error``:
https://github.com/vllm-project/vllm-omni/blob/main/docs/serving/speech_api.md).  Which of them
comes is read from the response's content type.
"""

import base64
import binascii
from typing import Any

import httpx

from voicesim.live.errors import EndpointError
from voicesim.live.exchange import Exchange
from voicesim.live.http import message_of, parsed, post
from voicesim.live.pcm import AudioFormat, Meter, check_audio, format_of
from voicesim.live.sse import Events
from voicesim.live.work import Job


class Speech:
    """body: what every request holds besides its text."""

    def __init__(
        self, client: httpx.AsyncClient, url: str, body: dict[str, Any], assumed: AudioFormat
    ):
        self.client, self.url, self.body, self.assumed = client, url, body, assumed

    async def ask(self, job: Job, exchange: Exchange) -> None:
        """Speak a text; raises EndpointError."""
        body = {"input": job.text, **self.body}
        async with post(self.client, self.url, body, exchange) as response:
            kind = response.headers.get("content-type", "")
            if kind.lower().startswith("text/event-stream"):
                meter = Meter(self.assumed)
                await self._events(response, exchange, meter)
            else:
                check_audio(kind)
                said = format_of(kind, response.headers.get("x-sample-rate"), self.assumed)
                meter = Meter(said)
                async for data in response.aiter_raw():
                    exchange.add(len(data), meter.feed(data))
            exchange.format = meter.format
        if not exchange.chunks:
            raise EndpointError("ended without audio")

    async def _events(self, response: httpx.Response, exchange: Exchange, meter: Meter) -> None:
        events, exchange.gather, done = Events(), 0.0, False
        async for data in response.aiter_raw():  # to its end, so that the connection is kept
            for text in events.feed(data):
                if text == "[DONE]":
                    continue
                event = parsed(text)
                kind = event.get("type")
                if kind == "speech.audio.delta":
                    audio = decoded(event.get("audio"))
                    exchange.add(len(audio), meter.feed(audio, message=True))
                elif kind == "speech.audio.done":
                    usage = event.get("usage") or {}
                    if not isinstance(usage, dict):
                        raise EndpointError(f"sends an event of another form: {text[:60]!r}")
                    exchange.prompt_tokens = usage.get("input_tokens")
                    exchange.said_tokens = usage.get("output_tokens")
                    done = True
                elif kind == "speech.audio.error":
                    raise EndpointError(f"says {message_of(text)}")
        if not done:
            raise EndpointError("broke off: no speech.audio.done")


def decoded(audio: Any) -> bytes:
    """Bytes of base64; raises EndpointError."""
    try:
        return base64.b64decode(audio, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise EndpointError("sends audio that is not base64") from None
