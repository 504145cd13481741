"""A small synchronous WebSocket client (RFC 6455) for virtual machine consoles.

    with WebSocket(url, context=client_context(ca_pem, alice), protocol="plain") as console:
        console.send("hello")
        console.receive()

It supports messages of a single frame, which is sufficient for an echo. Anything else is an error.
"""

import base64
import os
import socket
import ssl
import struct
from collections.abc import Sequence
from http.client import HTTPResponse
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from proxy.sandbox.errors import SandboxError

TIMEOUT_SECONDS = 30.0
SWITCHING_PROTOCOLS = 101
FINAL, MASKED = 0x80, 0x80
TEXT, BINARY = 0x1, 0x2
TWO_MORE_BYTES, EIGHT_MORE_BYTES = 126, 127


class UpgradeRejected(Exception):
    """The server rejected the upgrade."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(f"the upgrade returned {status}: {body.decode(errors='replace')}")
        self.status = status
        self.body = body


class WebSocket:
    """One upgraded connection. Entering it raises UpgradeRejected if the server rejects it.

    Afterwards `protocol` is the subprotocol that the server selected.
    """

    def __init__(
        self,
        url: str,
        *,
        context: ssl.SSLContext,
        protocol: str,
        headers: Sequence[tuple[str, str]] = (),
    ) -> None:
        self._target = urlsplit(url)
        self._context = context
        self._headers = [("Sec-WebSocket-Protocol", protocol), *headers]
        self.protocol: str | None = None
        self._stream: ssl.SSLSocket | None = None
        # A reference is kept: an unreferenced response closes its buffer.
        self._response: HTTPResponse | None = None

    def __enter__(self) -> Self:
        host, port = self._target.hostname, self._target.port
        if host is None or port is None:
            raise SandboxError(f"not a URL with a host and a port: {self._target.geturl()}")
        plain = socket.create_connection((host, port), TIMEOUT_SECONDS)
        try:
            self._stream = self._context.wrap_socket(plain, server_hostname=host)
            self._upgrade(self._stream)
        except BaseException:
            plain.close()
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection without a close frame."""
        for resource in (self._response, self._stream):
            if resource is not None:
                resource.close()

    def send(self, message: str | bytes) -> None:
        """Send a text or binary message."""
        assert self._stream is not None
        kind, content = (TEXT, message.encode()) if isinstance(message, str) else (BINARY, message)
        mask = os.urandom(4)
        masked = bytes(byte ^ mask[index % 4] for index, byte in enumerate(content))
        self._stream.sendall(_frame_head(kind, len(content)) + mask + masked)

    def receive(self) -> str | bytes:
        """Return the next message; raise SandboxError if there is none or it is not one frame."""
        first, length = struct.unpack("!BB", self._read(2))
        if length == TWO_MORE_BYTES:
            (length,) = struct.unpack("!H", self._read(2))
        elif length == EIGHT_MORE_BYTES:
            (length,) = struct.unpack("!Q", self._read(8))
        content = self._read(length)
        if first == FINAL | TEXT:
            return content.decode()
        if first == FINAL | BINARY:
            return content
        raise SandboxError(f"unexpected WebSocket frame {first:#x} {content!r}")

    def _upgrade(self, stream: ssl.SSLSocket) -> None:
        """Request the upgrade; data after the response stays in the response's buffer."""
        target = self._target
        lines = [
            f"GET {target.path}{'?' + target.query if target.query else ''} HTTP/1.1",
            f"Host: {target.netloc}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}",
            *(f"{name}: {value}" for name, value in self._headers),
        ]
        stream.sendall("\r\n".join([*lines, "", ""]).encode())
        response = self._response = HTTPResponse(stream)
        response.begin()
        if response.status != SWITCHING_PROTOCOLS:
            raise UpgradeRejected(response.status, response.read())
        self.protocol = response.getheader("Sec-WebSocket-Protocol")

    def _read(self, count: int) -> bytes:
        assert self._response is not None
        # Not the response's own `read`: it returns nothing, because a 101 has no body.
        content = self._response.fp.read(count)
        if len(content) < count:
            raise SandboxError("the WebSocket was closed")
        return content


def _frame_head(kind: int, length: int) -> bytes:
    if length < TWO_MORE_BYTES:
        return struct.pack("!BB", FINAL | kind, MASKED | length)
    if length < 1 << 16:
        return struct.pack("!BBH", FINAL | kind, MASKED | TWO_MORE_BYTES, length)
    return struct.pack("!BBQ", FINAL | kind, MASKED | EIGHT_MORE_BYTES, length)
