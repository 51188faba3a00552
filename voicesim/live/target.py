"""Where to: a URL, which protocol it speaks, and whether it may be spoken to at all."""

import ipaddress
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

from voicesim.live.errors import LiveError

SPEECH, COMPLETIONS, WEBSOCKET = "speech", "completions", "websocket"
PROTOCOLS = (SPEECH, COMPLETIONS, WEBSOCKET)
SCHEMES = {"http", "https", "ws", "wss"}


@dataclass(frozen=True)
class Target:
    """url: as it is asked for.  protocol: one of PROTOCOLS."""

    url: str
    protocol: str

    @property
    def shown(self) -> str:
        """The URL as a file may hold it: a query may carry a key, so it is left out."""
        parts = urlsplit(self.url)
        return urlunsplit((parts.scheme, parts.netloc, parts.path, "", ""))

    def beside(self, path: str) -> str:
        """Another path of the same server, over HTTP."""
        parts = urlsplit(self.url)
        scheme = {"ws": "http", "wss": "https"}.get(parts.scheme, parts.scheme)
        return urlunsplit((scheme, parts.netloc, path, "", ""))


def read_target(url: str, protocol: str | None = None, host_ok: str | None = None) -> Target:
    """The target of a URL; raises LiveError.

    A host that is not this machine must be named once more (host_ok), so that no load goes to
    somebody else's server by a slip.  Nothing is looked up in DNS: the name must be loopback's own.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise LiveError(f"URL: found {url!r}: {error}") from None
    if parts.scheme not in SCHEMES or not host:
        raise LiveError(f"URL: found {url!r}; allowed: http, https, ws or wss://HOST[:PORT]/PATH")
    if parts.username is not None or parts.password is not None:
        raise LiveError("URL: holds a user or password; put a key into the environment instead")
    if not is_loopback(host) and (host_ok or "").lower() != host.lower():
        raise LiveError(
            f"URL: {host} is not this machine; if you may load it, add --host-ok {host}"
        )
    return Target(url, _protocol(url, parts.scheme, parts.path, protocol))


def is_loopback(host: str) -> bool:
    """localhost, 127.0.0.0/8 or ::1."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _protocol(url: str, scheme: str, path: str, asked: str | None) -> str:
    if asked is not None and asked not in PROTOCOLS:
        raise LiveError(f"--protocol: found {asked!r}; allowed: {', '.join(PROTOCOLS)}")
    socket = scheme in ("ws", "wss")
    if asked is not None and (asked == WEBSOCKET) != socket:
        raise LiveError(f"--protocol {asked}: does not go with {scheme}://")
    if asked is not None:
        return asked
    if socket:
        return WEBSOCKET
    for ending, protocol in (("/audio/speech", SPEECH), ("/completions", COMPLETIONS)):
        if path.rstrip("/").endswith(ending) and not path.rstrip("/").endswith("/chat/completions"):
            return protocol
    raise LiveError(
        f"URL: its path {path or '/'} is neither .../audio/speech nor .../completions; "
        "give --protocol"
    )
