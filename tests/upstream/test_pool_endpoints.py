"""Several API servers, a new certificate, a dead one: which connections are opened and kept."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from proxy.core.errors import UpstreamUnavailable
from tests.support.certificates import Certificates, new_certificates
from tests.support.dead_peers import go_silent
from tests.support.event_loops import eventually
from tests.upstream.test_pool import Connections, Server


@pytest.fixture(scope="module")
def certificates() -> Certificates:
    return new_certificates()


@pytest.fixture
async def servers(certificates: Certificates) -> AsyncIterator[list[Server]]:
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(Server(certificates.server_context())) for _ in range(2)
        ]


@pytest.fixture
async def connections(
    certificates: Certificates, servers: list[Server]
) -> AsyncIterator[Connections]:
    connections = Connections(certificates, *(server.port for server in servers))
    yield connections
    await connections.stop()


async def test_the_first_that_can_be_reached_is_used(
    connections: Connections, servers: list[Server]
) -> None:
    first = await connections.pool.connect()
    servers[0]._server.close()
    second = await connections.pool.connect()

    assert [first.endpoint, second.endpoint] == list(connections.endpoints)
    assert [len(server.accepted) for server in servers] == [1, 1]


async def test_one_that_swallows_connections_leaves_time_for_the_others(
    certificates: Certificates, servers: list[Server]
) -> None:
    async with Server(None) as silent:
        connections = Connections(certificates, silent.port, servers[0].port, seconds=2)

        connection = await connections.pool.connect()
        await connections.pool.connect()

        assert connection.endpoint is connections.endpoints[1]
        assert len(silent.accepted) == 1  # the second did not even try it
        await connections.stop()


async def test_a_server_of_another_cluster_is_not_talked_to(
    certificates: Certificates, servers: list[Server]
) -> None:
    async with Server(new_certificates().server_context()) as stranger:
        connections = Connections(certificates, stranger.port, servers[0].port)

        connection = await connections.pool.connect()

        assert connection.endpoint is connections.endpoints[1]
        await eventually(lambda: stranger.open == 0)
        await connections.stop()


async def test_if_none_can_be_reached_each_was_tried_once(certificates: Certificates) -> None:
    async with Server(None) as first, Server(None) as second:
        connections = Connections(certificates, first.port, second.port, seconds=0.2)

        with pytest.raises(UpstreamUnavailable) as refused:
            await connections.pool.connect()

        assert refused.value.retry_after_seconds == 1
        await eventually(lambda: (len(first.accepted), len(second.accepted)) == (1, 1))
        await connections.stop()


async def test_what_is_idle_at_an_endpoint_that_failed_is_closed(
    connections: Connections, servers: list[Server]
) -> None:
    idle, busy = await connections.pool.connect(), await connections.pool.connect()
    connections.pool.release(idle)
    servers[0]._server.close()

    await connections.pool.connect()

    assert not idle.is_open
    assert busy.is_open
    assert connections.pool.acquire_idle() is None


async def test_a_single_endpoint_that_failed_keeps_what_is_idle_there(
    certificates: Certificates, servers: list[Server]
) -> None:
    connections = Connections(certificates, servers[0].port)
    idle = await connections.pool.connect()
    connections.pool.release(idle)
    servers[0]._server.close()

    with pytest.raises(UpstreamUnavailable):
        await connections.pool.connect()

    assert connections.pool.acquire_idle() is idle
    await connections.stop()


async def test_an_idle_connection_of_an_earlier_certificate_is_never_used(
    connections: Connections, servers: list[Server]
) -> None:
    connections.pool.release(await connections.pool.connect())

    connections.endpoints = connections.new_endpoints()

    assert connections.pool.acquire_idle() is None
    await eventually(lambda: servers[0].open == 0)


async def test_idle_connections_of_an_earlier_certificate_are_closed_in_time(
    connections: Connections, servers: list[Server]
) -> None:
    old = await connections.pool.connect()
    connections.pool.release(old)
    connections.endpoints = connections.new_endpoints()
    young = await connections.pool.connect()
    connections.pool.release(young)

    connections.pool.close_expired()

    assert not old.is_open
    assert connections.pool.acquire_idle() is young


async def test_a_busy_connection_of_an_earlier_certificate_is_not_kept(
    connections: Connections,
) -> None:
    busy = await connections.pool.connect()
    connections.endpoints = connections.new_endpoints()
    connections.pool.close_expired()
    was_open = busy.is_open

    connections.pool.release(busy)

    assert (was_open, busy.is_open) == (True, False)
    assert connections.pool.acquire_idle() is None


async def test_the_hundred_and_fiftieth_connection_is_opened_like_the_first(
    connections: Connections, servers: list[Server]
) -> None:
    opened = await asyncio.gather(*(connections.pool.connect() for _ in range(150)))

    assert all(connection.is_open for connection in opened)
    await eventually(lambda: servers[0].open == 150)


async def test_the_kernel_watches_over_the_other_end(connections: Connections) -> None:
    connection = await connections.pool.connect()

    assert connection._transport is not None
    ours = connection._transport.get_extra_info("socket")
    assert ours.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    assert ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 30


async def test_an_api_server_that_is_gone_without_a_word_is_left(
    connections: Connections, servers: list[Server]
) -> None:
    gone, alive = await connections.pool.connect(), await connections.pool.connect()
    await eventually(lambda: len(servers[0].accepted) == 2)
    go_silent(servers[0].accepted[0].get_extra_info("socket"))
    for connection in (gone, alive):
        connection.write(b"heard by one of them")

    def is_left() -> bool:
        connections.pool.close_unreachable(after_seconds=1)
        return not gone.is_open

    await eventually(is_left, seconds=20)
    assert alive.is_open
