"""What the HTTP protocols share: one client, and plain words for what went wrong.

Redirects are not followed and proxies of the environment are not used, so a request goes to the
named host or nowhere.
"""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from voicesim.live.errors import EndpointError
from voicesim.live.exchange import Exchange

CONNECT_S = 10.0
KEPT_HEADERS = ("server", "via", "content-type", "x-sample-rate", "x-powered-by")
"""Headers that a manifest may hold: none of them carries a key or a cookie."""


def new_client(timeout: float, key: str | None) -> httpx.AsyncClient:
    """timeout: the longest silence (s).  key: sent as a bearer token."""
    headers = {"accept-encoding": "identity"}
    if key:
        headers["authorization"] = f"Bearer {key}"
    return httpx.AsyncClient(
        timeout=httpx.Timeout(timeout, connect=CONNECT_S, pool=None),
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=None),
        follow_redirects=False,
        trust_env=False,
        headers=headers,
    )


@asynccontextmanager
async def post(
    client: httpx.AsyncClient, url: str, body: dict[str, Any], exchange: Exchange
) -> AsyncIterator[httpx.Response]:
    """Send, check the status, and turn every failure into an EndpointError."""
    try:
        exchange.send()
        async with client.stream("POST", url, json=body) as response:
            exchange.headers = {
                name: response.headers[name] for name in KEPT_HEADERS if name in response.headers
            }
            if response.status_code != 200:
                raise EndpointError(await _refusal(response))
            coding = response.headers.get("content-encoding", "identity")
            if coding != "identity":
                raise EndpointError(f"compresses its answer ({coding}) although asked not to")
            yield response
    except httpx.ReadTimeout:
        raise EndpointError(f"nothing came for {client.timeout.read:g} s") from None
    except httpx.ConnectTimeout:
        raise EndpointError(f"no connection after {client.timeout.connect:g} s") from None
    except httpx.ConnectError as error:
        raise EndpointError(f"cannot connect: {_why(error)}") from None
    except (httpx.RemoteProtocolError, httpx.ReadError) as error:
        raise EndpointError(f"broke off: {_why(error)}") from None
    except httpx.HTTPError as error:
        raise EndpointError(f"{type(error).__name__}: {_why(error)}") from None


async def _refusal(response: httpx.Response) -> str:
    status = f"HTTP {response.status_code}"
    if response.is_redirect:
        return f"{status}: redirects to {_host(response)} (never followed)"
    text = b""
    async for part in response.aiter_raw():
        text += part
        if len(text) > 4096:
            break
    return f"{status}: {message_of(text.decode('utf-8', 'replace'))}".rstrip(": ")


def _host(response: httpx.Response) -> str:
    try:
        return response.request.url.join(response.headers["location"]).host
    except (KeyError, httpx.InvalidURL):
        return "nowhere"


def message_of(text: str) -> str:
    """The one line that a refusal says: ``error.message``, ``message`` or ``detail`` of its JSON,
    else its first line."""
    try:
        found: Any = json.loads(text)
    except ValueError:
        found = text
    for _ in range(2):
        if isinstance(found, dict):
            found = next((found[k] for k in ("error", "message", "detail") if found.get(k)), "")
    lines = str(found).strip().splitlines()
    return lines[0][:200] if lines else ""


def _why(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def parsed(data: str) -> dict[str, Any]:
    """A JSON object of an event; raises EndpointError."""
    try:
        found = json.loads(data)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise EndpointError(f"sends an event that is no JSON object: {data[:60]!r}")
    if found.get("error"):
        raise EndpointError(f"says {message_of(data)}")
    return found
