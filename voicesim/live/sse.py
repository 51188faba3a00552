"""Server-sent events out of bytes, cut anywhere.

The rules are those of https://html.spec.whatwg.org/multipage/server-sent-events.html: a blank line
ends an event, ``data:`` lines are joined, ``:`` begins a comment.  Lines end in LF or CR LF; a
lone CR, which no server in question sends, is not a line end here.
"""


class Events:
    """Feed bytes, get the data of each event that they complete."""

    def __init__(self) -> None:
        self._bytes = b""
        self._data: list[str] = []

    def feed(self, data: bytes) -> list[str]:
        """Data of the events that end in these bytes; an event without data is none."""
        *lines, self._bytes = (self._bytes + data).split(b"\n")
        found = []
        for raw in lines:
            line = raw.removesuffix(b"\r").decode("utf-8", "replace")
            if not line:
                if self._data:
                    found.append("\n".join(self._data))
                self._data = []
            elif line.startswith("data:"):
                self._data.append(line[5:].removeprefix(" "))
        return found
