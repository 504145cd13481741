"""A blocking client that sees how an answer is framed and how it ended.

It follows nothing, repairs nothing and drops nothing: interim answers, trailers and bytes after
the end of an answer are kept apart.
"""

import re
import socket
import ssl
from dataclasses import dataclass
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

_SECONDS = 20.0
_PIECE = 65536
_STATUS_LINE = re.compile(rb"HTTP/1\.[01] ([0-9]{3}) ")
_BODILESS = frozenset((101, 204, 304))
_FIRST_FINAL = 200
_SWITCHING = 101

Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Seen:
    """One answer. A status of 0 says that the connection ended without one."""

    status: int
    headers: Headers = ()
    body: bytes = b""
    is_complete: bool = False
    interim: tuple[int, ...] = ()
    trailers: bytes = b""

    def values(self, name: str) -> list[str]:
        """Return every value of a header, in order."""
        return [value for key, value in self.headers if key.lower() == name.lower()]


class _Ended(Exception):
    """The other side has ended the connection."""


class RawClient:
    """One TLS connection."""

    def __init__(self, url: str, context: ssl.SSLContext, *, token: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        plain = socket.create_connection((parts.hostname, parts.port or 443), _SECONDS)
        self._stream = context.wrap_socket(plain, server_hostname=parts.hostname)
        self._authority = parts.netloc
        self._token = token
        self._buffer = bytearray()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stream.close()

    def send(
        self, method: str, target: str, *, headers: Headers = (), body: bytes | None = None
    ) -> None:
        """Send one request; a server that has left is noticed when its answer is read."""
        lines = [
            f"{method} {target} HTTP/1.1",
            f"Host: {self._authority}",
            f"Authorization: Bearer {self._token}",
            *(f"{name}: {value}" for name, value in headers),
        ]
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        try:
            self._stream.sendall("\r\n".join([*lines, "", ""]).encode() + (body or b""))
        except OSError:
            return

    def read(self, method: str = "GET") -> Seen:
        """Read the next answer, as much of it as comes."""
        interim: list[int] = []
        try:
            while True:
                status, headers = self._read_head()
                if status >= _FIRST_FINAL or status == _SWITCHING:
                    break
                interim.append(status)
        except _Ended:
            return Seen(0, interim=tuple(interim))
        body = bytearray()
        trailers, is_complete = b"", True
        try:
            if method != "HEAD" and status not in _BODILESS:
                trailers = self._read_body({key.lower(): value for key, value in headers}, body)
        except _Ended:
            is_complete = False
        return Seen(status, headers, bytes(body), is_complete, tuple(interim), trailers)

    def rest(self) -> bytes:
        """Return what came beyond the answers that were read, once the other side has ended."""
        try:
            while True:
                self._fill()
        except _Ended:
            return bytes(self._buffer)

    def _read_head(self) -> tuple[int, Headers]:
        head = self._read_until(b"\r\n\r\n")
        match = _STATUS_LINE.match(head)
        assert match is not None, head[:200]
        lines = head.decode("latin-1").split("\r\n")[1:-2]
        pairs = (line.partition(":") for line in lines)
        return int(match[1]), tuple((name, value.strip()) for name, _, value in pairs)

    def _read_body(self, headers: dict[str, str], body: bytearray) -> bytes:
        if headers.get("transfer-encoding") == "chunked":
            while size := int(self._read_until(b"\r\n"), 16):
                self._read_exactly(size, body)
                assert self._read_until(b"\r\n") == b"\r\n"
            return self._read_trailers()
        if "content-length" in headers:
            self._read_exactly(int(headers["content-length"]), body)
        else:
            body += self.rest()
            self._buffer.clear()
        return b""

    def _read_trailers(self) -> bytes:
        trailers = b""
        while (line := self._read_until(b"\r\n")) != b"\r\n":
            trailers += line
        return trailers

    def _read_exactly(self, count: int, body: bytearray) -> None:
        while count:
            if not self._buffer:
                self._fill()
            piece = self._buffer[:count]
            del self._buffer[: len(piece)]
            body += piece
            count -= len(piece)

    def _read_until(self, end: bytes) -> bytes:
        searched = 0
        while (found := self._buffer.find(end, searched)) < 0:
            searched = max(0, len(self._buffer) - len(end) + 1)
            self._fill()
        piece = bytes(self._buffer[: found + len(end)])
        del self._buffer[: found + len(end)]
        return piece

    def _fill(self) -> None:
        try:
            data = self._stream.recv(_PIECE)
        except (ConnectionError, ssl.SSLError):
            data = b""
        if not data:
            raise _Ended
        self._buffer += data
