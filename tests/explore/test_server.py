"""Who may ask, and what is refused: raw requests against a server of one page and one answer."""

import http.client
import json
import re
import socket
import threading

import pytest

from voicesim.explore.explorer import Wrong
from voicesim.explore.server import MOST_BODY, Server
from voicesim.explore.worker import Superseded

ASKED = []


class Boom(Exception):
    """A failure of the model that is known."""


def answer(asked):
    ASKED.append(asked)
    for word, problem in (("wrong", Wrong), ("old", Superseded), ("boom", Boom), ("bug", KeyError)):
        if asked == word:
            raise problem(f"{word} it is\nsecond line" if problem is not Wrong else "wrong it is")
    return {"echo": asked}


@pytest.fixture(scope="module")
def server():
    server = Server(0, lambda nonce: f"<p>{nonce}</p>", answer, (Boom,))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def raw(server, text):
    """Send bytes as they are; status and everything that came back."""
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=20) as line:
        line.sendall(text if isinstance(text, bytes) else text.encode())
        line.shutdown(socket.SHUT_WR)
        found = b"".join(iter(lambda: line.recv(65536), b""))
    return int(found.split(b" ", 2)[1]), found


def request(server, method="GET", path=None, headers=None, body=None):
    """(status, headers, body) by http.client, with the right Host unless ``headers`` has one."""
    line = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    line.request(method, f"/{server.token}/" if path is None else path, body, headers or {})
    reply = line.getresponse()
    return reply.status, dict(reply.getheaders()), reply.read()


def play(server, question, **headers):
    given = {"Content-Type": "application/json", **headers}
    return request(server, "POST", f"/{server.token}/play", given, json.dumps(question))


def test_the_page_and_an_answer(server):
    status, headers, body = request(server)
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    nonce = re.fullmatch(rb"<p>([\w-]{16,})</p>", body)[1].decode()
    policy = headers["Content-Security-Policy"]
    assert f"script-src 'nonce-{nonce}'" in policy and "default-src 'none'" in policy
    assert "http" not in policy and "unsafe" not in policy and "*" not in policy
    status, headers, body = play(server, {"a": 1})
    assert (status, json.loads(body)) == (200, {"echo": {"a": 1}})


@pytest.mark.parametrize("right", [True, False])
def test_every_reply_is_shut(server, right):
    path = None if right else "/nothing/"
    for method, question in (("GET", None), ("POST", "{}"), ("PUT", "{}"), ("OPTIONS", None)):
        _, headers, _ = request(server, method, path, {"Origin": server.url[:-1]}, question)
        assert headers["Cache-Control"] == "no-store"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        assert not [name for name in headers if name.lower().startswith("access-control")]


def test_the_nonce_and_the_token_are_new_each_time(server):
    assert request(server)[2] != request(server)[2]
    other = Server(0, str, answer)
    assert other.token != server.token and len(other.token) >= 40
    other.server_close()


@pytest.mark.parametrize(
    "path",
    ["/", "", "/play", "/wrong/", "/{half}/", "/{token}x/", "/x/../{token}/",
     "/%74oken/", "/play?token={token}", "/favicon.ico", "/ünknown/"],
)  # fmt: skip
def test_without_the_token_nothing(server, path):
    path = path.format(token=server.token, half=server.token[:-1])
    before = len(ASKED)
    for method in ("GET", "POST"):
        host = f"Host: 127.0.0.1:{server.server_port}\r\nContent-Length: 2\r\n"
        text = (
            f"{method} {path or '/'} HTTP/1.1\r\n{host}Content-Type: application/json\r\n\r\n{{}}"
        )
        status, found = raw(server, text.encode("latin-1", "replace"))
        assert status == 403
        assert server.token.encode() not in found
    assert len(ASKED) == before


@pytest.mark.parametrize(
    "path",
    ["/{token}/../../etc/passwd", "/{token}/..%2f..%2fetc%2fpasswd", "/{token}/page.js",
     "/{token}//etc/passwd", "/{token}/scenario.yaml", "/{token}/play/", "/{token}/?x=1",
     "/{token}/play?x", "/{token}/\x00", "/{token}/....//....//etc/passwd"],
)  # fmt: skip
def test_with_the_token_nothing_but_the_page(server, path):
    path = path.format(token=server.token)
    status, found = raw(
        server, f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{server.server_port}\r\n\r\n"
    )
    assert status in (400, 404)
    assert b"root:" not in found
    status, found = raw(server, f"GET {path} HTTP/1.1\r\nHost: evil.example\r\n\r\n")
    assert status in (400, 403)


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "localhost.evil:{port}",
     "0.0.0.0:{port}", "[::1]:{port}", "127.0.0.1:{port}.evil.example", "", None],
)  # fmt: skip
def test_another_host_is_refused(server, host):
    """A name that an attacker lets point to 127.0.0.1 arrives as the Host."""
    before = len(ASKED)
    line = "" if host is None else f"Host: {host.format(port=server.server_port)}\r\n"
    for ask in (f"GET /{server.token}/", f"POST /{server.token}/play"):
        body = "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
        assert raw(server, f"{ask} HTTP/1.1\r\n{line}{body}")[0] == 403
    assert len(ASKED) == before


def test_two_hosts_are_refused_and_localhost_is_not(server):
    port = server.server_port
    two = f"Host: 127.0.0.1:{port}\r\nHost: evil.example\r\n\r\n"
    assert raw(server, f"GET /{server.token}/ HTTP/1.1\r\n{two}")[0] == 403
    assert request(server, headers={"Host": f"localhost:{port}"})[0] == 200
    full = f"GET http://evil.example/{server.token}/ HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n"
    assert raw(server, full)[0] == 403


def test_another_origin_is_refused(server):
    port = server.server_port
    for origin in ("http://evil.example", "null", "https://127.0.0.1", f"http://localhost:{port}",
                   f"http://127.0.0.1:{port + 1}", ""):  # fmt: skip
        before = len(ASKED)
        assert play(server, "x", Origin=origin)[0] == 403
        assert len(ASKED) == before
    assert play(server, "x", Origin=f"http://127.0.0.1:{port}")[0] == 200


def test_a_question_is_small_json_with_a_length(server):
    path = f"/{server.token}/play"
    kind = {"Content-Type": "application/json"}

    def status(headers, body=b"{}"):
        return request(server, "POST", path, headers, body)[0]

    before = len(ASKED)
    assert status({"Content-Type": "text/plain"}) == 415
    assert status({"Content-Type": "application/x-www-form-urlencoded"}) == 415
    assert status(kind, b"{") == 400
    assert status(kind, b"NaN") == 400
    assert status(kind, b"\xff\xfe") == 400
    assert status(kind, b"[" * 16_000) == 400
    assert len(ASKED) == before
    assert status(kind, b'"' + b"x" * (MOST_BODY - 2) + b'"') == 200
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{server.server_port}\r\n"
    head += "Content-Type: application/json\r\n"
    # refused by its length alone: nothing of the body is sent
    assert raw(server, head + f"Content-Length: {MOST_BODY + 1}\r\n\r\n")[0] == 413
    assert raw(server, head + "Content-Length: 99999999999999999999\r\n\r\n")[0] == 413
    for length in ("-1", "+2", "0x10", "two", "²"):
        text = head.encode() + f"Content-Length: {length}\r\n\r\n{{}}".encode("latin-1")
        assert raw(server, text)[0] == 400
    assert raw(server, head + "\r\n{}")[0] == 411
    assert raw(server, head + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n")[0] == 411
    two = "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}"
    assert raw(server, head + two)[0] == 411


def test_failures_are_one_line_of_json(server):
    for question, status, text in (
        ("wrong", 400, "wrong it is"),
        ("old", 409, "superseded by a newer setting"),
        ("boom", 422, "boom it is"),
        ("bug", 500, "KeyError: 'bug it is\\nsecond line'"),
    ):
        found, _, body = play(server, question)
        assert (found, json.loads(body)) == (status, {"error": text})


def test_other_methods_do_nothing(server):
    for method in ("PUT", "DELETE", "HEAD", "OPTIONS", "TRACE", "CONNECT", "BREW"):
        assert request(server, method)[0] == 501
    assert request(server, "POST")[0] == 404
    assert request(server, "GET", f"/{server.token}/play")[0] == 404


def test_it_listens_on_loopback_and_nowhere_else(server):
    assert server.server_address[0] == "127.0.0.1"
    assert server.socket.getsockname() == ("127.0.0.1", server.server_port)
    outside = {each[4][0] for each in socket.getaddrinfo(socket.gethostname(), None)}
    for address in outside - {"127.0.0.1", "::1"}:
        if address.startswith("127."):
            continue
        with pytest.raises(OSError):
            socket.create_connection((address, server.server_port), timeout=5)
