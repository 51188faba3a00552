"""What the server says of itself: its version and its model."""

from typing import Any

import httpx

from voicesim.live.target import Target

MOST_BYTES = 1 << 16


async def describe(client: httpx.AsyncClient, target: Target) -> dict[str, Any]:
    """version, model (None where it does not say): ``GET /version`` as vLLM answers it, and the
    first of ``GET /v1/models``, both of the same host.  Silence is no error."""
    version = await _get(client, target.beside("/version"))
    models = (await _get(client, target.beside("/v1/models"))).get("data")
    first = models[0] if isinstance(models, list) and models else {}
    return {
        "version": _text(version.get("version")),
        "model": _text(first.get("id") if isinstance(first, dict) else None),
    }


async def _get(client: httpx.AsyncClient, url: str) -> dict[str, Any]:
    try:
        response = await client.get(url, timeout=5.0)
        if response.status_code == 200 and len(response.content) <= MOST_BYTES:
            found = response.json()
            return found if isinstance(found, dict) else {}
    except (httpx.HTTPError, ValueError):
        pass
    return {}


def _text(value: Any) -> str | None:
    return str(value)[:200] if value else None
