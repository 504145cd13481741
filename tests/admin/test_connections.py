"""Connections of the admin port: a new one gets in, and none stays without asking."""

import asyncio
import contextlib
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry

from proxy.admin.connections import AdminConnections, AdminLimits
from proxy.admin.health import HealthHandler
from proxy.admin.metrics_endpoint import MetricsHandler
from proxy.admin.server import AdminServer
from proxy.sandbox.processes import LOOPBACK, ReservedPort
from tests.admin.listening import AdminMetrics
from tests.support.certificates import Certificates, new_certificates
from tests.support.clock import FakeClock
from tests.support.event_loops import eventually

LIMITS = AdminLimits(connections=4, head_seconds=10, idle_seconds=90)
HEAD = b"GET /livez HTTP/1.1\r\nHost: a\r\n"
WHOLE = HEAD + b"\r\n"
METRICS = b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"
OTHER_ADDRESS = "127.0.0.2"
BIG_BYTES = 32 * 1024 * 1024


class HeldPage(MetricsHandler):
    """A page that is served when it is told to, and larger than the kernel's buffers."""

    def __init__(self) -> None:
        super().__init__(CollectorRegistry(), clock=time.monotonic)
        self.opened = asyncio.Event()
        self.asked = 0

    async def handle(self, request: web.BaseRequest) -> web.Response:
        self.asked += 1
        await self.opened.wait()
        return web.Response(body=bytes(BIG_BYTES))

    async def was_asked(self, times: int) -> None:
        """Wait until the page was asked for so often."""
        await eventually(lambda: self.asked == times)


@dataclass
class Port:
    """A port with few places, and its clock."""

    number: int = 0
    clock: FakeClock = field(default_factory=FakeClock)
    metrics: AdminMetrics = field(default_factory=AdminMetrics)
    page: HeldPage = field(default_factory=HeldPage)

    def __post_init__(self) -> None:
        self.connections = AdminConnections(LIMITS, self.metrics.counter, clock=self.clock)
        self.server = AdminServer(
            self.page, {"livez": HealthHandler("livez", [])}, self.connections
        )

    def pass_time(self, seconds: float) -> None:
        """Let time pass, and the connections be looked at."""
        self.clock.advance(seconds)
        self.connections.close_late()


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await asyncio.sleep(0)

    async def response(self) -> bytes:
        """Return the head of the next response with its body of two bytes."""
        async with asyncio.timeout(5):
            return await self.reader.readuntil(b"ok")

    async def is_closed(self) -> bool:
        """Tell whether the server has ended the connection, soon."""
        try:
            async with asyncio.timeout(2):
                return await self.reader.read(1) == b""
        except TimeoutError:
            return False
        except ConnectionError:
            return True

    async def is_open(self) -> bool:
        """Tell whether the server still answers."""
        await self.send(WHOLE)
        return (await self.response()).startswith(b"HTTP/1.1 200 ")


Connect = Callable[..., Awaitable[Client]]


@pytest.fixture(scope="module")
def certificates() -> Certificates:
    return new_certificates()


@contextlib.asynccontextmanager
async def listening(tls: ssl.SSLContext | None = None) -> AsyncIterator[Port]:
    with ReservedPort() as reserved:
        port = Port(reserved.number)
        await port.server.start(LOOPBACK, reserved.number, tls=tls)
        yield port
        port.page.opened.set()
        await port.server.stop()


@pytest.fixture
async def port() -> AsyncIterator[Port]:
    async with listening() as port:
        yield port


@pytest.fixture
async def connect(port: Port) -> AsyncIterator[Connect]:
    clients: list[Client] = []

    async def open_one(address: str = LOOPBACK) -> Client:
        reader, writer = await asyncio.open_connection(
            LOOPBACK, port.number, local_addr=(address, 0)
        )
        clients.append(client := Client(reader, writer))
        # Accepted one by one, so that "oldest" means the same here and there.
        places = min(len(clients), LIMITS.connections)
        await eventually(lambda: len(port.connections) >= places)
        return client

    yield open_one
    for client in clients:
        client.writer.close()
        with contextlib.suppress(ConnectionError):
            await client.writer.wait_closed()


async def test_a_new_connection_gets_in_and_the_oldest_without_a_request_goes(
    port: Port, connect: Connect
) -> None:
    busy = await connect()
    await busy.send(METRICS)
    await port.page.was_asked(1)
    oldest, *others = [await connect() for _ in range(3)]
    await oldest.send(HEAD)  # half a request is none

    probe = await connect()

    assert await probe.is_open()
    assert await oldest.is_closed()
    assert [await one.is_open() for one in others] == [True, True]
    port.page.opened.set()
    assert (await busy.reader.readline()).startswith(b"HTTP/1.1 200 ")
    assert port.metrics.closed == {"full": 1}


async def test_who_holds_fewer_connections_keeps_them(port: Port, connect: Connect) -> None:
    probe = await connect(OTHER_ADDRESS)
    for _ in range(20):
        await connect()

    assert await probe.is_open()
    assert len(port.connections) == LIMITS.connections


async def test_a_new_connection_gets_in_although_every_other_has_a_request(
    port: Port, connect: Connect
) -> None:
    holders = [await connect() for _ in range(4)]
    for number, holder in enumerate(holders, 1):
        await holder.send(METRICS)
        await port.page.was_asked(number)

    probe = await connect(OTHER_ADDRESS)

    assert await probe.is_open()
    assert await holders[0].is_closed()


@pytest.mark.parametrize("sent", [b"", HEAD], ids=["silent", "half a request"])
async def test_who_does_not_ask_is_closed_in_time(
    port: Port, connect: Connect, sent: bytes
) -> None:
    client, quick = await connect(), await connect()
    await client.send(sent)
    assert await quick.is_open()

    port.pass_time(LIMITS.head_seconds + 1)

    assert await client.is_closed()
    assert await quick.is_open()
    assert port.metrics.closed == {"timeout": 1}


async def test_a_connection_in_use_is_closed_when_it_is_idle_for_long(
    port: Port, connect: Connect
) -> None:
    client = await connect()
    assert await client.is_open()
    port.pass_time(LIMITS.idle_seconds - 1)
    assert await client.is_open()
    await client.send(HEAD)  # half a request does not count

    port.pass_time(LIMITS.idle_seconds + 1)

    assert await client.is_closed()


async def test_who_reads_no_response_is_closed_in_time(port: Port, connect: Connect) -> None:
    port.page.opened.set()
    client = await connect()
    await client.send(METRICS)
    await port.page.was_asked(1)
    client.writer.transport.pause_reading()  # type: ignore[attr-defined]  # it can be read from

    port.pass_time(31)

    assert len(port.connections) == 0
    assert port.metrics.closed == {"timeout": 1}


@pytest.mark.parametrize(
    "sent",
    [
        HEAD + b"X: " + bytes(b"a" * 4000).join([b"\r\nY: "] * 20),
        b"POST /livez HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n" + bytes(100_000),
        WHOLE * 3000,
    ],
    ids=["a head", "a body", "requests ahead"],
)
async def test_who_sends_too_much_is_closed(port: Port, connect: Connect, sent: bytes) -> None:
    client = await connect()
    await client.send(sent)

    with contextlib.suppress(ConnectionError):
        async with asyncio.timeout(5):
            while await client.reader.read(65536):
                pass

    await eventually(lambda: len(port.connections) == 0)


async def test_a_body_is_not_waited_for(port: Port, connect: Connect) -> None:
    client = await connect()
    await client.send(b"POST /livez HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n")

    async with asyncio.timeout(2):
        received = await client.reader.read()

    assert received.startswith(b"HTTP/1.1 405 ")


class TestWithTLS:
    @pytest.fixture
    async def port(self, certificates: Certificates) -> AsyncIterator[Port]:
        async with listening(certificates.server_context()) as port:
            yield port

    @pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01\x02\x00"], ids=["silent", "half a hello"])
    async def test_a_handshake_that_does_not_end_is_closed_in_time(
        self, port: Port, connect: Connect, sent: bytes
    ) -> None:
        client = await connect()
        await client.send(sent)
        await asyncio.sleep(0.05)

        port.pass_time(LIMITS.head_seconds + 1)

        assert await client.is_closed()
        assert port.metrics.closed == {"timeout": 1}

    async def test_a_handshake_under_way_makes_room(
        self, port: Port, connect: Connect, certificates: Certificates
    ) -> None:
        oldest, *_ = [await connect() for _ in range(4)]
        await asyncio.sleep(0.05)

        async with asyncio.timeout(5):
            reader, writer = await asyncio.open_connection(
                LOOPBACK,
                port.number,
                ssl=certificates.client_context(None),
                server_hostname=LOOPBACK,
                local_addr=(OTHER_ADDRESS, 0),
            )
        probe = Client(reader, writer)

        assert await probe.is_open()
        assert await oldest.is_closed()
        assert len(port.connections) == LIMITS.connections
        writer.close()
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            await writer.wait_closed()

    async def test_what_is_no_tls_is_closed_and_gives_its_place_back(
        self, port: Port, connect: Connect
    ) -> None:
        client = await connect()
        await client.send(WHOLE)

        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(5):
                await client.reader.read()
        await eventually(lambda: len(port.connections) == 0)
