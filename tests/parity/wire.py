"""A client that sends bytes as they are and keeps its connection, for many requests a second."""

import socket
import ssl
from collections.abc import Sequence
from http import HTTPStatus
from urllib.parse import urlsplit

from proxy.sandbox.api_client import APIResponse, client_context
from proxy.sandbox.identities import BearerToken, Credential

Header = tuple[bytes, bytes]

_END = b"\r\n"
ANSWER_SECONDS = 30.0
STREAM_SECONDS = 0.25
"""How long a successful answer may pause before it counts as a stream, which nobody waits for."""
_BODILESS = frozenset({101, 204, 304})
_SUCCESSES = range(200, 300)
_MOST = 65536


class ConnectionLost(Exception):
    """The server hung up before it answered."""


class PageCut(Exception):
    """A page did not come whole."""


class Credentials:
    """How one caller proves who it is, to any server that one authority has certified."""

    def __init__(self, credential: Credential, *, ca_pem: bytes) -> None:
        self.context = client_context(ca_pem, credential)
        self.token = credential.value.encode() if isinstance(credential, BearerToken) else None


class Client:
    """One caller's connection to one server, opened when needed and again when it was closed."""

    def __init__(
        self, url: str, credentials: Credentials, *, pause: float = STREAM_SECONDS
    ) -> None:
        parts = urlsplit(url)
        self._host, self._port = str(parts.hostname), int(parts.port or 0)
        self._authority = parts.netloc.encode()
        self._context = credentials.context
        self._token = credentials.token
        self._stream: ssl.SSLSocket | None = None
        self._received = b""
        self._pause = pause

    def send(
        self, method: bytes, target: bytes, headers: Sequence[Header], body: bytes | None
    ) -> APIResponse:
        """Send one request and read its answer; of a stream only the beginning."""
        message = self._message(method, target, headers, body)
        is_reused = self._stream is not None
        try:
            return self._exchange(message, method)
        except (ConnectionLost, ConnectionError, ssl.SSLError):
            self.close()
            if not is_reused:
                raise
        # A connection that lay idle may have been closed by the server; nothing was asked on it.
        return self._exchange(message, method)

    def fetch(self, target: bytes) -> bytes:
        """Return a whole page. What counts as a stream is none: nothing of it is kept."""
        response = self.send(b"GET", target, (), None)
        if response.status != HTTPStatus.OK or not response.body:
            raise PageCut(f"{target!r}: status {response.status}, {len(response.body)} bytes")
        return response.body

    def close(self) -> None:
        """Hang up."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None
        self._received = b""

    def _message(
        self, method: bytes, target: bytes, headers: Sequence[Header], body: bytes | None
    ) -> bytes:
        lines = [b"%b %b HTTP/1.1" % (method, target), b"Host: " + self._authority]
        if self._token is not None:
            lines.append(b"Authorization: Bearer " + self._token)
        lines += [b"%b: %b" % header for header in headers]
        if body is not None:
            lines.append(b"Content-Length: %d" % len(body))
        return _END.join((*lines, b"", body or b""))

    def _exchange(self, message: bytes, method: bytes) -> APIResponse:
        if self._stream is None:
            plain = socket.create_connection((self._host, self._port), ANSWER_SECONDS)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._stream = self._context.wrap_socket(plain, server_hostname=self._host)
        self._stream.settimeout(ANSWER_SECONDS)
        self._stream.sendall(message)
        status, headers = self._read_head()
        body = b""
        try:
            if method != b"HEAD" and status not in _BODILESS:
                body = self._read_body(status, headers)
            keeps = headers.get(b"connection", b"").lower() != b"close" and status != 101
        except TimeoutError:
            keeps = False
        if not keeps:
            self.close()
        pairs = tuple((name.decode(), text.decode("latin-1")) for name, text in headers.items())
        return APIResponse(status, pairs, body)

    def _read_head(self) -> tuple[int, dict[bytes, bytes]]:
        start, *lines = self._read_until(b"\r\n\r\n").split(_END)
        headers: dict[bytes, bytes] = {}
        for line in lines:
            name, _, value = line.partition(b":")
            key = name.lower()
            # Several lines of a name are one list, which is all that is compared of them.
            headers[key] = headers[key] + b", " + value.strip() if key in headers else value.strip()
        return int(start.split(b" ", 2)[1]), headers

    def _read_body(self, status: int, headers: dict[bytes, bytes]) -> bytes:
        if b"content-length" in headers:
            return self._read_exactly(int(headers[b"content-length"]))
        assert self._stream is not None
        if status in _SUCCESSES:
            self._stream.settimeout(self._pause)
        if headers.get(b"transfer-encoding") == b"chunked":
            return self._read_chunks()
        return self._read_to_the_end()

    def _read_chunks(self) -> bytes:
        chunks = []
        while size := int(self._read_until(_END).split(b";")[0], 16):
            chunks.append(self._read_exactly(size))
            self._read_exactly(len(_END))
        while self._read_until(_END):
            pass  # trailers
        return b"".join(chunks)

    def _read_to_the_end(self) -> bytes:
        try:
            while True:
                self._receive()
        except ConnectionLost:
            return self._take(len(self._received))

    def _read_until(self, mark: bytes) -> bytes:
        while (at := self._received.find(mark)) < 0:
            self._receive()
        return self._take(at + len(mark))[:at]

    def _read_exactly(self, size: int) -> bytes:
        while len(self._received) < size:
            self._receive()
        return self._take(size)

    def _take(self, size: int) -> bytes:
        taken, self._received = self._received[:size], self._received[size:]
        return taken

    def _receive(self) -> None:
        assert self._stream is not None
        content = self._stream.recv(_MOST)
        if not content:
            raise ConnectionLost
        self._received += content
