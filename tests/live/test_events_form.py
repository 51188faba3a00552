"""Events of another form than the API's end a request with a reason, not a traceback."""

import asyncio

import pytest

from voicesim.live.completions import Completions
from voicesim.live.errors import EndpointError
from voicesim.live.exchange import Clock, Exchange


class Stream:
    """A response of one event."""

    def __init__(self, text):
        self.text = text

    async def aiter_raw(self):
        yield f"data: {self.text}\n\n".encode()


@pytest.mark.parametrize(
    "text", ['{"choices": ["a"]}', '{"choices": 3}', '{"choices": [], "usage": "many"}']
)
def test_a_completion_of_another_form(text):
    protocol = object.__new__(Completions)
    exchange = Exchange(0, Clock())
    with pytest.raises(EndpointError, match="another form"):
        asyncio.run(protocol._events(Stream(text), exchange))
