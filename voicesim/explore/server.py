"""The page on a loopback port: who may ask, and what is refused.

Only this machine's browser with the token in its address gets an answer.  A page elsewhere that
resolves its name to 127.0.0.1 fails at the Host, one that posts across origins at the Origin, and
neither knows the token.  Nothing is read from disk for a request, whatever its path.
"""

import hmac
import json
import secrets
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any

from voicesim.explore.explorer import Wrong
from voicesim.explore.worker import Superseded

LOOPBACK = "127.0.0.1"
MOST_BODY = 16_384
"""Bytes of a question at most; one with fifty sliders has 4,000."""
PATIENCE = 30.0
"""Seconds a connection may stay silent before it is closed."""
HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
POLICY = (
    "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; "
    "img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Content-Security-Policy: the page's own script and style, questions to this server, no more."""


class Refused(Exception):
    """A request that gets no answer.  status: of HTTP; text: one line."""

    def __init__(self, status: int, text: str):
        self.status, self.text = status, text
        super().__init__(status, text)


class Server(ThreadingHTTPServer):
    """page: makes the page of a nonce.  answer: of a question, plain data; raises Wrong, Superseded
    and whatever the model raises (``known``: shown as its text).  port 0: any free one."""

    daemon_threads = True

    def __init__(
        self,
        port: int,
        page: Callable[[str], str],
        answer: Callable[[Any], dict[str, Any]],
        known: tuple[type[Exception], ...] = (),
    ):
        super().__init__((LOOPBACK, port), _Handler)
        self.page, self.answer, self.known = page, answer, known
        self.token = secrets.token_urlsafe(32)
        names = (LOOPBACK, "localhost")
        self.hosts = frozenset(f"{name}:{self.server_port}" for name in names)

    def server_bind(self) -> None:
        """Without the question to a name server that HTTPServer asks."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = LOOPBACK, self.server_address[1]

    @property
    def url(self) -> str:
        """Where the page is, token and all."""
        return f"http://{LOOPBACK}:{self.server_port}/{self.token}/"

    def handle_error(self, *_: Any) -> None:
        """A browser that went away is nobody's error."""


class _Handler(BaseHTTPRequestHandler):
    server: Server
    timeout = PATIENCE
    server_version, sys_version = "voicesim", ""

    def do_GET(self) -> None:
        self._reply(self._page)

    def do_POST(self) -> None:
        self._reply(self._play)

    def _page(self) -> tuple[str, bytes, str]:
        self._asked_for("")
        nonce = secrets.token_urlsafe(16)
        return "text/html; charset=utf-8", self.server.page(nonce).encode(), nonce

    def _play(self) -> tuple[str, bytes, str]:
        self._asked_for("play")
        try:
            found = self.server.answer(self._question())
        except Wrong as problem:
            raise Refused(400, str(problem)) from None
        except Superseded:
            raise Refused(409, "superseded by a newer setting") from None
        except self.server.known as problem:
            raise Refused(422, str(problem).splitlines()[0]) from None
        return "application/json", json.dumps(found, allow_nan=False).encode(), ""

    def _reply(self, make: Callable[[], tuple[str, bytes, str]]) -> None:
        try:
            kind, body, nonce = make()
        except Refused as refused:
            self.send_error(refused.status, explain=refused.text)
            return
        except Exception as problem:
            self.send_error(500, explain=f"{type(problem).__name__}: {problem}".splitlines()[0])
            return
        self._send(200, kind, body, nonce)

    # --- who may ask --------------------------------------------------------------------------

    def _asked_for(self, name: str) -> None:
        """Let through a request of this machine's own page for one of the two things there are."""
        hosts = self.headers.get_all("Host", [])
        if len(hosts) != 1 or hosts[0].lower() not in self.server.hosts:
            raise Refused(403, "the page is at 127.0.0.1 only")
        origins = self.headers.get_all("Origin", [])
        if any(origin.lower() != f"http://{hosts[0].lower()}" for origin in origins):
            raise Refused(403, "not from another page")
        first, _, rest = self.path.removeprefix("/").partition("/")
        if not hmac.compare_digest(first.encode(), self.server.token.encode()):
            raise Refused(403, "the address printed by voicesim explore has the token")
        if rest != name:
            raise Refused(404, "there is nothing here")

    def _question(self) -> Any:
        """The body as JSON, read only if it is small."""
        if self.headers.get_content_type() != "application/json":
            raise Refused(415, "expected application/json")
        lengths = self.headers.get_all("Content-Length", [])
        if "Transfer-Encoding" in self.headers or len(lengths) != 1:
            raise Refused(411, "expected one Content-Length")
        if not (lengths[0].isascii() and lengths[0].isdigit()):
            raise Refused(400, "Content-Length: expected a whole number")
        if len(lengths[0]) > 9 or int(lengths[0]) > MOST_BODY:
            raise Refused(413, f"a question has at most {MOST_BODY} bytes")
        try:
            return json.loads(self.rfile.read(int(lengths[0])), parse_constant=_no_number)
        except (ValueError, RecursionError):
            raise Refused(400, "the question is not JSON") from None

    # --- answers ------------------------------------------------------------------------------

    def _send(self, status: int, kind: str, body: bytes, nonce: str = "") -> None:
        self.send_response(status)
        for name, text in HEADERS.items():
            self.send_header(name, text)
        self.send_header("Content-Security-Policy", POLICY.format(nonce=nonce or "none"))
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """One line of JSON, also for what http.server itself refuses."""
        self.close_connection = True
        text = explain or message or "refused"
        self._send(int(code), "application/json", json.dumps({"error": text}).encode())

    def log_message(self, *_: Any) -> None:
        """Nothing: a log would hold the token."""


def _no_number(name: str) -> Any:
    raise ValueError(name)
