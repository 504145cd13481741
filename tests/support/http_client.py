"""A client that sees bytes: what it sends is sent as written, how an answer ended is known.

TLS runs over memory, because only so a test can tell a stream that ended with a goodbye from one
that was cut. Nothing here uses the proxy's own code.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import cast

Headers = list[tuple[str, str]]


class Cut(Exception):
    """The stream ended before the answer did; `received` is what came of it."""

    def __init__(self, received: bytes) -> None:
        super().__init__(f"cut after {len(received)} bytes")
        self.received = received


@dataclass(frozen=True, slots=True)
class Response:
    """One whole answer."""

    status: int
    headers: Headers
    body: bytes

    def values(self, name: str) -> list[str]:
        """Return every value of a header, in order."""
        return [value for key, value in self.headers if key.lower() == name.lower()]


class HttpClient:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls: ssl.SSLObject | None = None
        self._buffer = b""
        self.has_ended = False
        self.ended_with_goodbye = False

    async def shake_hands(
        self, context: ssl.SSLContext, session: ssl.SSLSession | None = None
    ) -> None:
        """Speak TLS from here on; ConnectionError when the server will not."""
        tls = context.wrap_bio(
            self._incoming, self._outgoing, server_hostname="127.0.0.1", session=session
        )
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                await self._flush()
                await self._receive()
                if self.has_ended:
                    raise ConnectionError("the server ended the handshake") from None
        await self._flush()
        self._tls = tls

    @property
    def tls(self) -> ssl.SSLObject:
        """The TLS session."""
        assert self._tls is not None
        return self._tls

    @property
    def socket(self) -> socket.socket:
        """What is below TLS; it only looks like a socket, but has its options."""
        found: socket.socket = self._writer.get_extra_info("socket")
        return found

    async def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.tls.write(data)
        await self._flush()

    async def request(
        self,
        method: str = "GET",
        target: str = "/api/v1/pods",
        *,
        headers: Headers | None = None,
        body: bytes = b"",
    ) -> Response:
        """Send a request with a plain body and read its answer."""
        await self.send(request_bytes(method, target, headers=headers, body=body))
        return await self.read_response(method)

    async def read_response(self, method: str = "GET") -> Response:
        """Read the next answer whole; an interim one, too, is an answer."""
        head = await self.read_head()
        if method == "HEAD" or head.status < 200 or head.status in {204, 304}:
            return head
        if head.values("transfer-encoding") == ["chunked"]:
            body = await self._read_chunks()
        elif lengths := head.values("content-length"):
            body = await self.read_exactly(int(lengths[0]))
        else:
            body = await self.read_to_end()
        return Response(head.status, head.headers, body)

    async def read_head(self) -> Response:
        """Read the next head, interim ones too; the body is left to read."""
        head = await self.read_until(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")[:-2]
        version, status, _ = first.split(" ", 2)
        assert version == "HTTP/1.1"
        headers = [(name, value) for name, _, value in (line.partition(": ") for line in lines)]
        return Response(int(status), headers, b"")

    async def read_until(self, end: bytes) -> bytes:
        """Read up to and including `end`."""
        while end not in self._buffer:
            await self._fill()
        piece, _, self._buffer = self._buffer.partition(end)
        return piece + end

    async def read_exactly(self, count: int) -> bytes:
        """Read that many bytes."""
        pieces = [self._buffer]
        size = len(self._buffer)
        self._buffer = b""
        while size < count:
            try:
                await self._fill()
            except Cut as cut:
                raise Cut(b"".join(pieces)) from cut
            pieces.append(self._buffer)
            size += len(self._buffer)
            self._buffer = b""
        whole = b"".join(pieces)
        self._buffer = whole[count:]
        return whole[:count]

    async def read_to_end(self) -> bytes:
        """Read until the server says goodbye."""
        pieces = [self._buffer]
        self._buffer = b""
        while not self.has_ended:
            await self._receive()
            pieces.append(self._decrypt())
        received = b"".join(pieces)
        if not self.ended_with_goodbye:
            raise Cut(received)
        return received

    async def say_goodbye(self) -> None:
        """End our side of TLS, and nothing else."""
        with contextlib.suppress(ssl.SSLError):  # the server's own goodbye is not waited for
            self.tls.unwrap()
        await self._flush()

    async def close(self) -> None:
        """Say goodbye and close."""
        await self.say_goodbye()
        self._writer.close()

    def stop_reading(self) -> None:
        """Take nothing more from the socket."""
        # Both loops' transports read, too, though the type of a writer's does not say so.
        cast("asyncio.Transport", self._writer.transport).pause_reading()

    def vanish(self) -> None:
        """Be gone without a word."""
        self._writer.transport.abort()

    async def _read_chunks(self) -> bytes:
        pieces = []
        try:
            while size := int(await self.read_until(b"\r\n"), 16):
                pieces.append(await self.read_exactly(size))
                assert await self.read_exactly(2) == b"\r\n"
            assert await self.read_until(b"\r\n") == b"\r\n"
        except Cut as cut:
            raise Cut(b"".join(pieces) + cut.received) from cut
        return b"".join(pieces)

    async def _fill(self) -> None:
        before = len(self._buffer)
        while len(self._buffer) == before:
            if self.has_ended:
                raise Cut(self._buffer)
            await self._receive()
            self._buffer += self._decrypt()

    def _decrypt(self) -> bytes:
        pieces = []
        try:
            while piece := self.tls.read(65536):
                pieces.append(piece)
            self.has_ended = self.ended_with_goodbye = True
        except ssl.SSLZeroReturnError:
            self.has_ended = self.ended_with_goodbye = True
        except ssl.SSLWantReadError:
            pass
        return b"".join(pieces)

    async def _receive(self) -> None:
        try:
            data = await self._reader.read(65536)
        except ConnectionError:
            data = b""
        self.has_ended = self.has_ended or not data
        self._incoming.write(data)

    async def _flush(self) -> None:
        self._writer.write(self._outgoing.read())
        await self._writer.drain()


@contextlib.asynccontextmanager
async def connected(
    address: tuple[str, int],
    context: ssl.SSLContext | None = None,
    *,
    source: str | None = None,
) -> AsyncIterator[HttpClient]:
    """Connect, and speak TLS if a context is given; gone afterwards.

    `source` is the address to come from, if any other than everybody's.
    """
    local = None if source is None else (source, 0)
    client = HttpClient(*await asyncio.open_connection(*address, local_addr=local))
    try:
        if context is not None:
            await client.shake_hands(context)
        yield client
    finally:
        client.vanish()


def request_bytes(
    method: str = "GET",
    target: str = "/api/v1/pods",
    *,
    headers: Headers | None = None,
    body: bytes = b"",
) -> bytes:
    """Return a request as it goes on the wire; a body is given its length."""
    lines = [f"{method} {target} HTTP/1.1", "Host: 127.0.0.1"]
    lines += [f"{name}: {value}" for name, value in headers or []]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body
