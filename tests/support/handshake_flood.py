"""A flood of TLS handshakes against one port, in a process of its own.

Run as a program: `python -m tests.support.handshake_flood KIND PORT ADDRESS LANES`. It goes on
until it is killed, and writes how many connections it has opened to its output, a number a line.
"""

import asyncio
import socket
import ssl
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress

Address = tuple[str, int]


class Flood:
    """Opens connections to one port, and counts them."""

    def __init__(self, target: Address, source: str) -> None:
        self.target = target
        self.source = source
        self.opened = 0
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.context.check_hostname = False
        self.context.verify_mode = ssl.CERT_NONE
        self.hello = client_hello(self.context)

    async def connect(self) -> socket.socket | None:
        """Open a TCP connection, or none if there is no place for it."""
        connection = socket.socket()
        connection.settimeout(0)
        try:
            connection.bind((self.source, 0))
            await asyncio.get_running_loop().sock_connect(connection, self.target)
        except OSError:
            connection.close()
            return None
        self.opened += 1
        return connection

    async def send(self, data: bytes) -> None:
        """Open a connection, send bytes, wait for an answer, and leave."""
        connection = await self.connect()
        if connection is None:
            await asyncio.sleep(0.01)
            return
        loop = asyncio.get_running_loop()
        with connection, suppress(OSError, TimeoutError):
            await loop.sock_sendall(connection, data)
            async with asyncio.timeout(5):
                await loop.sock_recv(connection, 65536)

    async def hello_only(self) -> None:
        """Have the server sign, and leave: the cheapest way to make it work."""
        await self.send(self.hello)

    async def garbage(self) -> None:
        await self.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")

    async def half_open(self) -> None:
        """Send half of a hello and stay."""
        connection = await self.connect()
        if connection is None:
            await asyncio.sleep(0.01)
            return
        with connection:
            await asyncio.get_running_loop().sock_sendall(connection, self.hello[:100])
            await asyncio.sleep(3)

    async def byte_by_byte(self) -> None:
        connection = await self.connect()
        if connection is None:
            await asyncio.sleep(0.01)
            return
        with connection:
            for byte in self.hello:
                try:
                    await asyncio.get_running_loop().sock_sendall(connection, bytes((byte,)))
                except OSError:
                    return
                await asyncio.sleep(0.002)

    async def completed(self) -> None:
        """Shake hands to the end, and leave."""
        try:
            async with asyncio.timeout(5):
                _, writer = await asyncio.open_connection(
                    *self.target, ssl=self.context, local_addr=(self.source, 0)
                )
        except (OSError, TimeoutError):
            await asyncio.sleep(0.01)
            return
        self.opened += 1
        writer.transport.abort()


def client_hello(context: ssl.SSLContext) -> bytes:
    """Return the first message of a handshake."""
    outgoing = ssl.MemoryBIO()
    session = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with suppress(ssl.SSLWantReadError):
        session.do_handshake()
    return outgoing.read()


async def flood(kind: str, target: Address, source: str, lanes: int) -> None:
    """Attack without end."""
    attacker = Flood(target, source)
    attack: Callable[[], Awaitable[None]] = getattr(attacker, kind)

    async def repeat() -> None:
        while True:
            await attack()

    async with asyncio.TaskGroup() as group:
        for _ in range(lanes):
            group.create_task(repeat())
        while True:
            await asyncio.sleep(0.2)
            print(attacker.opened, flush=True)  # noqa: T201 - a program's output


if __name__ == "__main__":
    asyncio.run(flood(sys.argv[1], ("127.0.0.1", int(sys.argv[2])), sys.argv[3], int(sys.argv[4])))
