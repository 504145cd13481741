"""Slots: neither silent connections nor clients that read nothing keep others from being served."""

import asyncio
import contextlib
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.conftest import settings_document, wait_until_it_admits
from tests.scenarios.test_backpressure import until_it_listens
from tests.support.certificates import Certificates
from tests.support.http_client import Cut, HttpClient, connected, request_bytes
from tests.support.processes import ProxyProcess, started_proxy
from tests.support.scripted_api_server import ScriptedApiServer, ScriptedConnection, SeenRequest
from tests.support.sizes import IS_SOAKING, sized, soak

ATTACKERS = ("127.0.0.2", "127.0.0.3")
CONNECTIONS_EACH = sized(50, full=5000)
STALLED = sized(12, full=600)
PROGRESS_SECONDS = sized(2, full=60)
# More than the window of a client that does not read; the rest is never sent.
BEGINNING = b"x" * 1_000_000
LENGTH = 16_000_000
# At full size everything is as by default.
SMALL: dict[str, Any] = {
    "connections": 2 * CONNECTIONS_EACH,
    "connectionsPerAddress": CONNECTIONS_EACH,
    "readsInFlight": 8,
    "writesInFlight": 4,
    "responseProgressTimeout": f"{PROGRESS_SECONDS}s",
}

pytestmark = [
    pytest.mark.timeout(sized(90, full=600)),
    pytest.mark.asyncio(loop_factories=["uvloop"]),
]


@pytest.fixture
def process(
    api: ScriptedApiServer, certificates: Certificates, tmp_path: Path
) -> Iterator[ProxyProcess]:
    serving = {} if IS_SOAKING else {"limits": SMALL}
    document = settings_document(api, certificates, tmp_path, serving=serving)
    with started_proxy(document, tmp_path) as process:
        yield process


async def until_ready(process: ProxyProcess, context: ssl.SSLContext) -> None:
    await until_it_listens(process.address)
    await wait_until_it_admits(process.address, context)


async def silent_connections(process: ProxyProcess) -> list[socket.socket]:
    """Take all places by connections that say nothing."""
    sockets = []
    loop = asyncio.get_running_loop()
    for number in range(2 * CONNECTIONS_EACH):
        silent = socket.socket()
        silent.setblocking(False)  # noqa: FBT003 - the library's signature
        silent.bind((ATTACKERS[number % 2], 0))
        sockets.append(silent)
        await loop.sock_connect(silent, process.address)
    return sockets


@soak
async def test_f7_a_caller_is_served_within_a_second_while_silent_connections_take_all_places(
    process: ProxyProcess, context_of: Callable[[str | None], ssl.SSLContext]
) -> None:
    slowest, alice = 0.0, context_of("alice")
    await until_ready(process, alice)
    async with connected(process.address, alice) as kept:
        assert (await kept.request()).status == 200
        for _ in range(2):
            sockets = await silent_connections(process)
            # Until the queue of the listening socket is empty: each accept is work.
            await asyncio.sleep(sized(1, full=5))
            try:
                for source in ("127.0.0.1", *ATTACKERS):
                    started = time.monotonic()
                    async with connected(process.address, alice, source=source) as client:
                        assert (await client.request()).status == 200
                    slowest = max(slowest, time.monotonic() - started)
                    await asyncio.sleep(0.1)
                # Whoever was authenticated has kept its place.
                assert (await kept.request()).status == 200
            finally:
                for silent in sockets:
                    silent.close()

    print(f"{2 * CONNECTIONS_EACH} silent connections: served in {slowest:.3f} s")  # noqa: T201
    assert slowest < 1


async def large(connection: ScriptedConnection, request: SeenRequest) -> None:
    """Begin a large list, or answer what is asked otherwise."""
    if request.target == "/version":
        await connection.respond(b"{}")
        return
    await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % LENGTH + BEGINNING)
    await connection.reader.read()


async def stall(stack: AsyncExitStack, process: ProxyProcess, context: ssl.SSLContext) -> None:
    """Ask for a large list, and read nothing of it."""
    client = await stack.enter_async_context(connected(process.address, context))
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.stop_reading()
    await client.send(request_bytes(target="/api/v1/pods"))


async def status_of_version(client: HttpClient) -> int:
    return (await client.request(target="/version")).status


@soak
async def test_f6_clients_that_read_nothing_give_their_slots_back(
    api: ScriptedApiServer,
    process: ProxyProcess,
    context_of: Callable[[str | None], ssl.SSLContext],
) -> None:
    await until_ready(process, context_of("early"))
    api.script = large
    started = time.monotonic()
    async with AsyncExitStack() as stack:
        for number in range(STALLED):
            user = ("alice", "mallory")[number % 2]
            with contextlib.suppress(ConnectionError, Cut):
                await stall(stack, process, context_of(user))
        carol = await stack.enter_async_context(connected(process.address, context_of("carol")))
        async with asyncio.timeout(PROGRESS_SECONDS):
            while await status_of_version(carol) != 429:  # noqa: ASYNC110 - only answers tell
                await asyncio.sleep(0.05)

        async with asyncio.timeout(3 * PROGRESS_SECONDS + 30):
            while await status_of_version(carol) == 429:  # noqa: ASYNC110 - likewise
                await asyncio.sleep(0.1)

    seconds = time.monotonic() - started
    print(f"{STALLED} stalled requests: a third caller is served after {seconds:.1f} s")  # noqa: T201
    assert seconds >= PROGRESS_SECONDS - 1
