"""Connections to the API server: opened in time or not at all, kept while idle, never leaked."""

import asyncio
import ssl
from collections.abc import AsyncIterator

import pytest

from proxy.concurrency.task_set import TaskSet
from proxy.core.errors import UpstreamUnavailable
from proxy.upstream.endpoints import Endpoint, EndpointSet
from proxy.upstream.pool import IDLE_SECONDS, ConnectionPool
from tests.support.certificates import Certificates, new_certificates
from tests.support.clock import FakeClock
from tests.support.event_loops import eventually


@pytest.fixture(scope="module")
def certificates() -> Certificates:
    return new_certificates()


class Server:
    """Accepts connections and counts them; speaks TLS only if it has a context."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self.context = context
        self.port = 0
        self.accepted: list[asyncio.StreamWriter] = []
        self.open = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted.append(writer)
        self.open += 1
        try:
            while await reader.read(65536):
                pass
        except (ConnectionError, ssl.SSLError):
            pass  # It is gone, which is all we want to know.
        finally:
            self.open -= 1
            writer.close()

    async def __aenter__(self) -> "Server":
        self._server = await asyncio.start_server(
            self.serve, "127.0.0.1", self.port, ssl=self.context
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for writer in self.accepted:
            writer.transport.abort()
        await eventually(lambda: self.open == 0)


class Connections:
    """A pool and its clock."""

    def __init__(self, certificates: Certificates, *ports: int, seconds: float = 5.0) -> None:
        self.clock = FakeClock()
        self.tasks = TaskSet(lambda _: None)
        self.certificates, self.ports = certificates, ports
        self.endpoints = self.new_endpoints()
        self.pool = ConnectionPool(
            EndpointSet(self, self.clock),
            connect_timeout_seconds=seconds,
            clock=self.clock,
            tasks=self.tasks,
        )

    def new_endpoints(self) -> tuple[Endpoint, ...]:
        """The endpoints with a new certificate of ours: the same places, other TLS settings."""
        context = self.certificates.client_context()
        return tuple(Endpoint("127.0.0.1", port, "127.0.0.1", context) for port in self.ports)

    async def stop(self) -> None:
        self.pool.close()
        await self.tasks.stop()


@pytest.fixture
async def server(certificates: Certificates) -> AsyncIterator[Server]:
    async with Server(certificates.server_context()) as server:
        yield server


@pytest.fixture
async def silent_server() -> AsyncIterator[Server]:
    """A server that accepts and then says nothing at all."""
    async with Server(None) as server:
        yield server


@pytest.fixture
async def connections(certificates: Certificates, server: Server) -> AsyncIterator[Connections]:
    connections = Connections(certificates, server.port)
    yield connections
    await connections.stop()


async def test_a_new_connection_is_ready_for_use(connections: Connections) -> None:
    connection = await connections.pool.connect()

    assert connection.is_open
    assert not connection.is_reused
    assert connections.pool.acquire_idle() is None


async def test_a_connection_put_back_is_taken_again_newest_first(connections: Connections) -> None:
    first, second = await connections.pool.connect(), await connections.pool.connect()
    connections.pool.release(first)
    connections.pool.release(second)

    assert connections.pool.acquire_idle() is second
    assert connections.pool.acquire_idle() is first
    assert connections.pool.acquire_idle() is None
    assert first.is_reused


async def test_an_idle_connection_the_server_has_closed_is_not_used(
    connections: Connections, server: Server
) -> None:
    connections.pool.release(await connections.pool.connect())
    await eventually(lambda: server.accepted)

    server.accepted[0].close()
    await eventually(lambda: server.open == 0)

    assert connections.pool.acquire_idle() is None


async def test_a_connection_that_is_being_closed_is_not_used(connections: Connections) -> None:
    first, second = await connections.pool.connect(), await connections.pool.connect()
    connections.pool.release(first)

    first.close()
    second.close()
    connections.pool.release(second)

    assert connections.pool.acquire_idle() is None


async def test_bytes_nobody_asked_for_end_an_idle_connection(
    connections: Connections, server: Server
) -> None:
    connection = await connections.pool.connect()
    connections.pool.release(connection)
    await eventually(lambda: server.accepted)

    server.accepted[0].write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    await eventually(lambda: not connection.is_open)

    assert connections.pool.acquire_idle() is None
    await eventually(lambda: server.open == 0)


async def test_a_connection_idle_for_too_long_is_closed(
    connections: Connections, server: Server
) -> None:
    old, young = await connections.pool.connect(), await connections.pool.connect()
    connections.pool.release(old)
    connections.clock.advance(IDLE_SECONDS / 2)
    connections.pool.release(young)
    connections.clock.advance(IDLE_SECONDS / 2 + 1)

    connections.pool.close_expired()

    await eventually(lambda: server.open == 1)
    assert connections.pool.acquire_idle() is young
    assert connections.pool.acquire_idle() is None


async def test_closing_closes_busy_connections_too(
    connections: Connections, server: Server
) -> None:
    await connections.pool.connect()
    connections.pool.release(await connections.pool.connect())
    await eventually(lambda: server.open == 2)

    connections.pool.close()

    await eventually(lambda: server.open == 0)


async def test_nobody_there_is_unavailable(certificates: Certificates, server: Server) -> None:
    connections = Connections(certificates, 1)

    with pytest.raises(UpstreamUnavailable) as refused:
        await connections.pool.connect()

    assert refused.value.code == 503
    assert refused.value.retry_after_seconds == 1  # nothing was sent: the client may come again


async def test_a_server_we_do_not_trust_is_unavailable(server: Server) -> None:
    connections = Connections(new_certificates(), server.port)

    with pytest.raises(UpstreamUnavailable):
        await connections.pool.connect()

    await eventually(lambda: server.open == 0)


async def test_a_handshake_that_takes_too_long_is_given_up_and_closed(
    certificates: Certificates, silent_server: Server
) -> None:
    connections = Connections(certificates, silent_server.port, seconds=0.05)

    with pytest.raises(UpstreamUnavailable):
        await connections.pool.connect()

    await eventually(lambda: silent_server.accepted and silent_server.open == 0)


async def test_a_server_that_hangs_up_during_the_handshake_is_unavailable(
    certificates: Certificates, silent_server: Server
) -> None:
    connections = Connections(certificates, silent_server.port)
    connecting = asyncio.ensure_future(connections.pool.connect())
    await eventually(lambda: silent_server.accepted)

    silent_server.accepted[0].transport.abort()

    with pytest.raises(UpstreamUnavailable):
        await connecting


async def test_a_connection_whose_client_has_left_meanwhile_is_kept_for_the_next(
    connections: Connections, server: Server
) -> None:
    connecting = asyncio.ensure_future(connections.pool.connect())
    await asyncio.sleep(0)

    connecting.cancel()
    await asyncio.wait([connecting])

    assert connecting.cancelled()
    await eventually(lambda: server.open == 1)
    await eventually(lambda: connections.pool.acquire_idle() is not None)


async def test_stopping_leaves_no_half_open_connection(
    certificates: Certificates, silent_server: Server
) -> None:
    connections = Connections(certificates, silent_server.port)
    connecting = asyncio.ensure_future(connections.pool.connect())
    await eventually(lambda: silent_server.open == 1)

    await connections.stop()

    await asyncio.wait([connecting])
    assert connecting.cancelled()
    await eventually(lambda: silent_server.open == 0)
