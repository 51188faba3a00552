"""OpenAI-compatible ``/v1/completions`` with ``stream: true``: one row per token.

An event may bring several tokens, when the server's front end fell behind its engine.  vLLM says
which (``token_ids``, with ``return_token_ids``); else an event with text counts as one token, and
the usage at the end tells whether that was right.
"""

from typing import Any

import httpx

from voicesim.live.errors import EndpointError
from voicesim.live.exchange import Exchange
from voicesim.live.http import parsed, post
from voicesim.live.sse import Events
from voicesim.live.work import Job


class Completions:
    """body: what every request holds besides its prompt and length."""

    def __init__(self, client: httpx.AsyncClient, url: str, body: dict[str, Any]):
        self.client, self.url, self.body = client, url, body

    async def ask(self, job: Job, exchange: Exchange) -> None:
        """Complete a prompt; raises EndpointError."""
        body: dict[str, Any] = {"prompt": job.prompt, "max_tokens": job.tokens, "stream": True}
        body |= {"stream_options": {"include_usage": True}, **self.body}
        async with post(self.client, self.url, body, exchange) as response:
            kind = response.headers.get("content-type", "")
            if not kind.lower().startswith("text/event-stream"):
                raise EndpointError(f"answers {kind or 'nothing known'}, not an event stream")
            if not await self._events(response, exchange):
                raise EndpointError("broke off: no [DONE]")
        if not exchange.chunks:
            raise EndpointError("ended without a token")
        if exchange.prompt_tokens is None:
            exchange.prompt_tokens = len(job.prompt) if job.prompt else None
        if not exchange.prompt_tokens:
            raise EndpointError("does not say how many prompt tokens there were (usage)")

    async def _events(self, response: httpx.Response, exchange: Exchange) -> bool:
        events, done = Events(), False
        async for data in response.aiter_raw():  # to its end, so that the connection is kept
            for text in events.feed(data):
                if text == "[DONE]":
                    done = True
                    continue
                event = parsed(text)
                choices = event.get("choices") or []
                usage = event.get("usage") or {}
                listed = isinstance(choices, list) and all(isinstance(c, dict) for c in choices)
                if not listed or not isinstance(usage, dict):
                    raise EndpointError(f"sends an event of another form: {text[:60]!r}")
                for choice in choices:
                    tokens = tokens_of(choice)
                    if tokens:
                        exchange.add(len(text), tokens=tokens)
                exchange.prompt_tokens = usage.get("prompt_tokens", exchange.prompt_tokens)
                exchange.said_tokens = usage.get("completion_tokens", exchange.said_tokens)
        return done


def tokens_of(choice: dict[str, Any]) -> int:
    """Tokens of an event's choice: its ids where they are told, else one if there is text."""
    ids = choice.get("token_ids")
    return len(ids) if isinstance(ids, list) else int(bool(choice.get("text")))
