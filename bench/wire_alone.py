"""The proxy's wire code alone: without authentication, authorization, parsing and metrics.

    python -m bench.wire_alone --upstream=https://... --authority=... ...

Both TLS sessions, sockets and event loop are those of the product (`proxy/wire`). Each client has
its own connection to the upstream. Its head is rewritten once and cached for identical requests.
The cost is the lower bound of the proxy's cost.
"""

import argparse
import asyncio
import re
import ssl
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import uvloop
from OpenSSL import SSL

from proxy.wire.tls_client import ClientTLS
from proxy.wire.tls_connection import TLSConnection
from proxy.wire.tls_server import ServerTLS, build_server_context

_IDENTITY = (b"authorization:", b"impersonate-")
_HEAD_END = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Ends:
    """The configuration of both connections."""

    serving: SSL.Context
    trust: ssl.SSLContext
    host: str
    port: int
    identity: list[bytes]

    def rewrite(self, head: bytes) -> bytes:
        """Return a head with the proxy's credential, impersonating the configured user."""
        lines = head.removesuffix(_HEAD_END).split(b"\r\n")
        kept = [line for line in lines if not line.lower().startswith(_IDENTITY)]
        return b"\r\n".join((*kept, *self.identity, b"", b""))


class _End(TLSConnection):
    """One connection: its bytes are forwarded to the other, and both are closed together."""

    __slots__ = ("other",)

    def __init__(self, tls: ClientTLS | ServerTLS) -> None:
        super().__init__(tls)
        self.other: _End | None = None

    def plaintext_received(self, data: bytes) -> None:
        if self.other is not None:
            self.other.write(data)

    def close_notify_received(self) -> None:
        self.leave()

    def connection_truncated(self, _error: Exception) -> None:
        self.leave()

    def connection_lost(self, _error: Exception | None) -> None:
        """Close the other connection, too."""
        self.leave()

    def pause_writing(self) -> None:
        """Pause reading from the other connection."""
        if self.other is not None:
            self.other.read_on(reads=False)

    def resume_writing(self) -> None:
        """Resume reading from the other connection."""
        if self.other is not None:
            self.other.read_on(reads=True)

    def read_on(self, *, reads: bool) -> None:
        """Resume or pause reading."""
        self._set_reading(reads=reads)

    def leave(self) -> None:
        """Close both connections."""
        other, self.other = self.other, None
        self._abort()
        if other is not None:
            other.leave()


class _Upstream(_End):
    __slots__ = ("_waiting", "is_secured")

    def __init__(self, ends: Ends) -> None:
        super().__init__(ClientTLS(ends.trust, server_hostname=ends.host))
        self._waiting: list[bytes] = []
        self.is_secured = False

    def handshake_completed(self) -> None:
        self.is_secured = True
        for data in self._waiting:
            self.write(data)
        self._waiting.clear()

    def send(self, data: bytes) -> None:
        """Send now, or after the handshake."""
        if self.is_secured:
            self.write(data)
        else:
            self._waiting.append(data)


class _Client(_End):
    __slots__ = ("_body_left", "_connecting", "_ends", "_partial", "_rewritten", "_upstream")

    def __init__(self, ends: Ends) -> None:
        super().__init__(ServerTLS(ends.serving))
        self._ends = ends
        self._rewritten: dict[bytes, bytes] = {}
        # A head may arrive in several parts, and a body may follow it.
        self._partial = b""
        self._body_left = 0
        self._upstream = _Upstream(ends)
        self._connecting: object = None

    def handshake_completed(self) -> None:
        ends, upstream = self._ends, self._upstream
        self.other, upstream.other = upstream, self
        self._connecting = asyncio.ensure_future(
            asyncio.get_running_loop().create_connection(upstream.as_protocol, ends.host, ends.port)
        )

    def plaintext_received(self, data: bytes) -> None:
        is_between_requests = not self._partial and not self._body_left
        rewritten = self._rewritten.get(data) if is_between_requests else None
        if rewritten is not None:
            self._upstream.send(rewritten)
            return
        data, self._partial = self._partial + data, b""
        while data:
            data = self._forward_body(data) if self._body_left else self._forward_head(data)

    def _forward_body(self, data: bytes) -> bytes:
        body, rest = data[: self._body_left], data[self._body_left :]
        self._body_left -= len(body)
        self._upstream.send(body)
        return rest

    def _forward_head(self, data: bytes) -> bytes:
        head, end, rest = data.partition(_HEAD_END)
        if not end:
            self._partial = data
            return b""
        rewritten = self._ends.rewrite(head + end)
        length = _LENGTH.search(head)
        if length is not None:
            self._body_left = int(length[1])
        else:
            self._rewritten[head + end] = rewritten
        self._upstream.send(rewritten)
        return rest


async def _serve(ends: Ends) -> None:
    server = await asyncio.get_running_loop().create_server(
        lambda: _Client(ends).as_protocol(), "127.0.0.1", 0, backlog=1024
    )
    await server.serve_forever()


def main() -> None:
    """Serve on any free loopback port until terminated."""
    parser = argparse.ArgumentParser(description=__doc__)
    for option in ("upstream", "acting"):
        parser.add_argument(f"--{option}", required=True)
    for option in ("authority", "certificate", "key", "own-token-file"):
        parser.add_argument(f"--{option}", required=True, type=Path)
    options = parser.parse_args()
    serving = build_server_context(requests_client_certificate=False)
    serving.use_certificate_chain_file(options.certificate)
    serving.use_privatekey_file(options.key)
    address = urlsplit(options.upstream)
    token: bytes = options.own_token_file.read_bytes()
    identity = [b"Authorization: Bearer " + token, f"Impersonate-User: {options.acting}".encode()]
    trust = ssl.create_default_context(cafile=options.authority)
    host, port = address.hostname or "", address.port or 443
    uvloop.run(_serve(Ends(serving, trust, host, port, identity)))


if __name__ == "__main__":
    main()
