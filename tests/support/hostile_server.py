"""A TLS server that reads whole requests and then answers with bytes of a test's choosing."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

GONE = (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError, TimeoutError)


@dataclass(slots=True)
class HostileConnection:
    """One connection of the client under test."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    sent_bytes: int = 0

    async def send(self, data: bytes) -> None:
        """Send bytes; what the peer does not read is not sent, up to the kernel's buffers."""
        self.writer.write(data)
        await self.writer.drain()
        self.sent_bytes += len(data)

    async def send_for_ever(self, data: bytes, *, seconds: float = 20.0) -> None:
        """Send the same bytes until the peer has left; TimeoutError if it never does."""
        async with asyncio.timeout(seconds):
            while True:
                await self.send(data)
                await asyncio.sleep(0)

    async def hang(self) -> None:
        """Say nothing until the peer leaves."""
        while await self.reader.read(65536):
            pass


Attack = Callable[[HostileConnection], Awaitable[None]]


@dataclass(slots=True)
class HostileServer:
    """The attack, and what was seen of the client."""

    port: int = 0
    attack: Attack = HostileConnection.hang
    requests: list[bytes] = field(default_factory=list)
    """Head and body of each request, as they came."""
    connections: list[HostileConnection] = field(default_factory=list)

    @property
    def sent_bytes(self) -> int:
        """How many bytes were sent over the connection that took most."""
        return max((one.sent_bytes for one in self.connections), default=0)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read requests, and answer each with the attack."""
        connection = HostileConnection(reader, writer)
        self.connections.append(connection)
        with suppress(*GONE):
            while True:
                self.requests.append(await _read_request(reader))
                await self.attack(connection)
        writer.transport.abort()


async def _read_request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    if b"transfer-encoding: chunked" in lines:
        return head + await reader.readuntil(b"0\r\n\r\n")
    lengths = [line for line in lines if line.startswith(b"content-length:")]
    length = int(lengths[0].partition(b":")[2]) if lengths else 0
    return head + await reader.readexactly(length)


@asynccontextmanager
async def hostile_server(
    context: ssl.SSLContext | None, attack: Attack = HostileConnection.hang, *, port: int = 0
) -> AsyncIterator[HostileServer]:
    """Run a server; its attack can be changed at any time."""
    hostile = HostileServer(attack=attack)
    server = await asyncio.start_server(
        hostile.serve, "127.0.0.1", port, ssl=context, limit=64 * 1024 * 1024
    )
    hostile.port = server.sockets[0].getsockname()[1]
    try:
        yield hostile
    finally:
        server.close()
        for connection in hostile.connections:
            connection.writer.transport.abort()
        await asyncio.sleep(0)
