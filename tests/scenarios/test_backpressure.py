"""Who is slow is waited for, and the proxy's memory does not grow meanwhile.

The proxy is a process of its own here, so that its memory is nobody else's.
"""

import asyncio
import hashlib
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from tests.scenarios.conftest import settings_document, wait_until_it_admits
from tests.support.certificates import Certificates
from tests.support.event_loops import eventually
from tests.support.http_client import HttpClient, connected, request_bytes
from tests.support.processes import ProxyProcess, resident_bytes, started_proxy
from tests.support.scripted_api_server import ScriptedApiServer, ScriptedConnection, SeenRequest
from tests.support.sizes import sized, soak

PIECE = bytes(range(256)) * 256
PIECES = sized(1600, full=16000)  # of 64 KiB: 100 MiB, or 1 GB
WARM_PIECES = 160
UPLOADS = "/api/v1/namespaces/a/services/b/proxy/uploads"  # an API server's own limit is 3 MiB
# The kernel's socket buffers may hold much; the proxy itself may not.
IN_FLIGHT_BYTES = 80 * 1024 * 1024
GROWTH_BYTES = 2 * 1024 * 1024
WATCHES = 50
LONG_LINES = [("X-Long", "a" * 100_000)] * 3

# The proxy is always on uvloop; its clients need not be tried on both.
pytestmark = [pytest.mark.timeout(120), pytest.mark.asyncio(loop_factories=["uvloop"])]


@pytest.fixture
def process(
    api: ScriptedApiServer, certificates: Certificates, tmp_path: Path
) -> Iterator[ProxyProcess]:
    with started_proxy(settings_document(api, certificates, tmp_path), tmp_path) as process:
        yield process


@pytest.fixture
async def client(
    process: ProxyProcess,
    api: ScriptedApiServer,
    context_of: Callable[[str | None], ssl.SSLContext],
) -> AsyncIterator[HttpClient]:
    """A client of a proxy that has already carried something large, both ways."""
    await until_it_listens(process.address)
    await wait_until_it_admits(process.address, context_of("early"))
    async with connected(process.address, context_of("alice")) as client:
        api.script = Stream(WARM_PIECES).play
        await client.request()
        api.script = Intake(WARM_PIECES).play
        await client.request("PUT", body=PIECE * WARM_PIECES)
        yield client


async def until_it_listens(address: tuple[str, int]) -> None:
    async with asyncio.timeout(30):
        while True:
            try:
                async with connected(address):
                    return
            except ConnectionError:
                await asyncio.sleep(0.01)


class Stream:
    """Sends a large answer, as fast as it is taken."""

    def __init__(self, pieces: int) -> None:
        self.sent = 0
        self._pieces = pieces

    async def play(self, connection: ScriptedConnection, request: SeenRequest) -> None:
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {self._pieces * len(PIECE)}\r\n\r\n"
        await connection.send(head.encode())
        for _ in range(self._pieces):
            await connection.send(PIECE)
            self.sent += len(PIECE)


class Intake:
    """Reads a large body, once it may."""

    def __init__(self, pieces: int) -> None:
        self.may_read = asyncio.Event()
        self.may_read.set()
        self.digest = hashlib.sha256()
        self._pieces = pieces

    async def play(self, connection: ScriptedConnection, request: SeenRequest) -> None:
        await self.may_read.wait()
        for _ in range(self._pieces):
            self.digest.update(await connection.reader.readexactly(len(PIECE)))
        await connection.respond()


class Memory:
    """The most memory the proxy had while it was watched, beyond what it had before."""

    def __init__(self, process: ProxyProcess) -> None:
        self._process = process
        self._before = resident_bytes(process.pid)
        self.growth = 0

    def look(self) -> None:
        self.growth = max(self.growth, resident_bytes(self._process.pid) - self._before)


@asynccontextmanager
async def watched(process: ProxyProcess) -> AsyncIterator[Memory]:
    memory = Memory(process)

    async def watch() -> None:
        while True:
            memory.look()
            await asyncio.sleep(0.02)

    watching = asyncio.ensure_future(watch())
    try:
        yield memory
    finally:
        watching.cancel()
        memory.look()


async def settled(count: Callable[[], int]) -> int:
    """Wait until a count stops growing."""
    before = -1
    while (now := count()) != before:
        before = now
        await asyncio.sleep(0.2)
    return before


def whole_digest() -> bytes:
    digest = hashlib.sha256()
    for _ in range(PIECES):
        digest.update(PIECE)
    return digest.digest()


@soak
async def test_a_huge_answer_waits_for_a_slow_reader_at_flat_memory(
    api: ScriptedApiServer, process: ProxyProcess, client: HttpClient
) -> None:
    stream = Stream(PIECES)
    api.script = stream.play
    digest = hashlib.sha256()
    async with watched(process) as memory:
        await client.send(request_bytes())
        await eventually(lambda: stream.sent)
        waiting = await settled(lambda: stream.sent)
        await client.read_head()
        for _ in range(64):
            digest.update(await client.read_exactly(1024))
            await asyncio.sleep(0.005)
        for _ in range(PIECES - 1):
            digest.update(await client.read_exactly(len(PIECE)))

    print(f"slow reader: {waiting} bytes under way, grown by {memory.growth}")  # noqa: T201 - figures
    assert 0 < waiting < IN_FLIGHT_BYTES
    assert memory.growth < GROWTH_BYTES
    assert digest.digest() == whole_digest()
    assert stream.sent == PIECES * len(PIECE)


@soak
async def test_a_huge_body_waits_for_a_slow_api_server_at_flat_memory(
    api: ScriptedApiServer, process: ProxyProcess, client: HttpClient
) -> None:
    intake = Intake(PIECES)
    intake.may_read.clear()
    api.script = intake.play
    sent = 0

    async def upload() -> None:
        nonlocal sent
        length = str(PIECES * len(PIECE))
        await client.send(request_bytes("PUT", UPLOADS, headers=[("Content-Length", length)]))
        for _ in range(PIECES):
            await client.send(PIECE)
            sent += len(PIECE)

    async with watched(process) as memory, asyncio.TaskGroup() as group:
        group.create_task(upload())
        await eventually(lambda: sent)
        waiting = await settled(lambda: sent)
        intake.may_read.set()
        answer = await client.read_response()

    print(f"slow API server: {waiting} bytes under way, grown by {memory.growth}")  # noqa: T201
    assert 0 < waiting < IN_FLIGHT_BYTES
    assert memory.growth < GROWTH_BYTES
    assert answer.status == 200
    assert intake.digest.digest() == whole_digest()


async def begin_watch(connection: ScriptedConnection, request: SeenRequest) -> None:
    await connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    await connection.reader.read()


async def test_a_watch_that_has_begun_keeps_nothing_of_its_head(
    api: ScriptedApiServer,
    process: ProxyProcess,
    client: HttpClient,
    context_of: Callable[[str | None], ssl.SSLContext],
) -> None:
    api.script = begin_watch
    alice, growth = context_of("alice"), []
    async with AsyncExitStack() as stack:
        for headers in ([], LONG_LINES, [], LONG_LINES):
            before = resident_bytes(process.pid)
            for _ in range(WATCHES):
                watching = await stack.enter_async_context(connected(process.address, alice))
                target = "/api/v1/pods?watch=1"
                await watching.send(request_bytes(target=target, headers=headers))
                assert (await watching.read_head()).status == 200
            growth.append(resident_bytes(process.pid) - before)

    # The first two make room for what comes and goes.
    short, long = growth[2:]
    print(f"grown by {short} with short heads, by {long} with long ones")  # noqa: T201 - figures
    assert long - short < WATCHES * 300_000 // 2
