"""A server on loopback that does what a test says, and remembers when."""

import base64
import json
import socket
import struct
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from websockets.sync.server import serve


@dataclass
class Seen:
    """A request as the server saw it; instants by time.perf_counter."""

    path: str
    body: dict
    headers: dict
    received: float
    sent: list = field(default_factory=list)


@dataclass
class Answer:
    """parts: (seconds to wait, bytes).  cut: close in the middle of the body.  stall: say nothing
    more after the parts, for so long."""

    parts: list
    kind: str = "audio/pcm"
    status: int = 200
    headers: dict = field(default_factory=dict)
    cut: bool = False
    stall: float = 0.0


class Fake:
    """answer: from the number of a request and its body to an Answer."""

    def __init__(self, answer):
        self.answer, self.seen, self.lock = answer, [], threading.Lock()
        self.now = self.most = 0
        self.gets = {}  # by path: JSON, or a URL to redirect to
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, *_):
                pass

            def do_GET(self):
                found = fake.gets.get(self.path)
                content = json.dumps(found).encode()
                self.send_response(307 if isinstance(found, str) else 200 if found else 404)
                if isinstance(found, str):
                    self.send_header("location", found)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def do_POST(self):
                received = time.perf_counter()
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                seen = Seen(self.path, body, dict(self.headers), received)
                with fake.lock:
                    number = len(fake.seen)
                    fake.seen.append(seen)
                    fake.now += 1
                    fake.most = max(fake.most, fake.now)
                try:
                    with suppress(BrokenPipeError, ConnectionResetError):
                        self.send(fake.answer(number, body), seen)
                finally:
                    with fake.lock:
                        fake.now -= 1

            def send(self, answer, seen):
                self.send_response(answer.status)
                self.send_header("content-type", answer.kind)
                self.send_header("transfer-encoding", "chunked")
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                for wait, data in answer.parts:
                    time.sleep(wait)
                    seen.sent.append(time.perf_counter())
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
                if answer.stall:
                    time.sleep(answer.stall)
                if answer.cut:
                    self.wfile.write(b"4000\r\nhalf of it")
                    self.connection.shutdown(socket.SHUT_RDWR)
                    self.close_connection = True
                else:
                    with fake.lock:
                        fake.now -= 1  # the client may send its next when it has read this
                    self.wfile.write(b"0\r\n\r\n")
                    with fake.lock:
                        fake.now += 1

        class Server(ThreadingHTTPServer):
            def handle_error(self, *_):  # a client that hangs up is what many tests are about
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.host = f"127.0.0.1:{self.server.server_port}"

    def url(self, path="/v1/audio/speech"):
        return f"http://{self.host}{path}"

    def __enter__(self):
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


class FakeSocket:
    """handle(connection, seen): plays the server of one WebSocket connection."""

    def __init__(self, handle):
        self.seen = []

        def accept(connection):
            with suppress(Exception):
                handle(connection, self.seen)

        self.server = serve(accept, "127.0.0.1", 0, compression=None)
        self.url = f"ws://127.0.0.1:{self.server.socket.getsockname()[1]}/v1/audio/speech/stream"

    def __enter__(self):
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.thread.join()


# --- what servers send --------------------------------------------------------------------------


def pcm(milliseconds, rate=24_000):
    """Silence: 16-bit mono."""
    return bytes(2 * rate * milliseconds // 1000)


def wav_header(rate=24_000, channels=1, bits=16, tag=1, extra=b""):
    """A streaming WAV's header (sizes unknown), with other chunks before the data."""
    align = channels * bits // 8
    form = struct.pack("<HHIIHH", tag, channels, rate, rate * align, align, bits)
    chunk = b"fmt " + struct.pack("<I", len(form)) + form
    more = b"LIST" + struct.pack("<I", len(extra)) + extra + b"\0" * (len(extra) % 2)
    return b"RIFF\xff\xff\xff\xffWAVE" + chunk + (more if extra else b"") + b"data\xff\xff\xff\xff"


def event(**data):
    """A server-sent event."""
    return f"data: {json.dumps(data)}\n\n".encode()


def audio_events(milliseconds, wait=0.0):
    """speech.audio.delta for each, then speech.audio.done."""
    parts = [
        (wait, event(type="speech.audio.delta", audio=base64.b64encode(pcm(ms)).decode()))
        for ms in milliseconds
    ]
    usage = {"input_tokens": 18, "output_tokens": 77}
    return [*parts, (0.0, event(type="speech.audio.done", usage=usage))]


def token_events(counts, prompt=32, wait=0.0, ids=True, claim=None):
    """Completion events with so many tokens each, a finish, the usage and [DONE]."""
    parts = []
    for n in counts:
        more = {"token_ids": list(range(n))} if ids else {}
        parts.append((wait, event(choices=[{"index": 0, "text": "x" * n, **more}])))
    total = sum(counts) if claim is None else claim
    usage = {"prompt_tokens": prompt, "completion_tokens": total}
    return [*parts, (0.0, event(choices=[], usage=usage)), (0.0, b"data: [DONE]\n\n")]
