"""Dead peers: found, and told from slow ones."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import cast

import pytest

from proxy.wire.tcp import enable_tcp_keepalive, is_unreachable
from tests.support.dead_peers import go_silent
from tests.support.event_loops import eventually


@contextlib.asynccontextmanager
async def pair() -> AsyncIterator[tuple[asyncio.Transport, socket.socket]]:
    """Our end of a connection as a transport, and the peer's as a bare socket."""
    accepted: asyncio.Future[asyncio.Transport] = asyncio.get_running_loop().create_future()

    class Accepting(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            accepted.set_result(cast("asyncio.Transport", transport))  # uvloop's is no subclass

    loop = asyncio.get_running_loop()
    server = await loop.create_server(Accepting, "127.0.0.1", 0)
    peer = socket.socket()
    peer.settimeout(0)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    try:
        await loop.sock_connect(peer, server.sockets[0].getsockname())
        transport = await accepted
        yield transport, peer
        transport.abort()
    finally:
        peer.close()
        server.close()


async def test_the_kernel_probes_an_idle_connection() -> None:
    async with pair() as (transport, _):
        enable_tcp_keepalive(transport)

        ours = transport.get_extra_info("socket")
        assert ours.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        assert [ours.getsockopt(socket.IPPROTO_TCP, option) for option in options] == [30, 10, 3]


async def test_no_byte_waits_for_another() -> None:
    """The event loop sees to it; if one ever does not, small answers get slow."""
    async with pair() as (transport, _):
        ours = transport.get_extra_info("socket")

        assert ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1


async def test_a_peer_that_is_gone_with_bytes_on_the_way_is_found() -> None:
    async with pair() as (transport, peer):
        transport.write(b"heard")
        await eventually(lambda: peer.recv(5, socket.MSG_PEEK) == b"heard")
        assert not is_unreachable(transport, after_seconds=0)

        go_silent(peer)
        transport.write(b"unheard")

        await eventually(lambda: is_unreachable(transport, after_seconds=1), seconds=20)
        assert not is_unreachable(transport)


@pytest.mark.parametrize("writes", [b"", b"x" * 30_000_000], ids=["idle", "reads nothing"])
async def test_a_peer_that_is_only_slow_is_left_in_peace(writes: bytes) -> None:
    async with pair() as (transport, _peer):
        enable_tcp_keepalive(transport)
        transport.write(writes)

        for _ in range(10):
            await asyncio.sleep(0.1)
            assert not is_unreachable(transport, after_seconds=0.3)


async def test_a_closed_connection_is_nobodys_trouble() -> None:
    async with pair() as (transport, _):
        transport.close()

        assert not is_unreachable(transport, after_seconds=0)
