"""While we find out whose a 401 is, it waits: upstream, and not in our memory."""

import asyncio
import hashlib

import pytest

from tests.scenarios.conftest import Connect, status_of
from tests.scenarios.test_backpressure import settled
from tests.support.event_loops import eventually
from tests.support.http_client import HttpClient, request_bytes
from tests.support.processes import resident_bytes
from tests.support.scripted_api_server import (
    ScriptedApiServer,
    ScriptedConnection,
    SeenRequest,
    echo,
)
from tests.support.sizes import sized, soak

PIECE = bytes(range(256)) * 256
PIECES = sized(800, full=8000)  # of 64 KiB: 50 MiB, or 500 MB
# What the kernel's socket buffers may hold; we ourselves hold one read of a socket.
IN_FLIGHT_BYTES = 40 * 1024 * 1024
GROWTH_BYTES = 12 * 1024 * 1024


async def test_a_refusal_that_breaks_off_while_it_is_held_is_a_502(
    api: ScriptedApiServer, client: HttpClient
) -> None:
    async def cut(connection: ScriptedConnection, request: SeenRequest) -> None:
        await connection.send(
            b"HTTP/1.1 401 Unauthorized\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"
        )

    api.script = cut
    api.review_gate.clear()
    answer = await client.request()
    api.review_gate.set()

    assert status_of(answer) == (502, "InternalError", 502)


async def test_who_leaves_while_its_refusal_is_held_is_forgotten(
    api: ScriptedApiServer, connect: Connect
) -> None:
    async def stream(connection: ScriptedConnection, request: SeenRequest) -> None:
        await connection.send(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 9\r\n\r\nhalf")
        await connection.reader.read()

    before = api.probes
    api.script = stream
    api.review_gate.clear()
    async with connect() as client:
        await client.send(request_bytes())
        await eventually(lambda: api.probes > before)

    await eventually(lambda: api.open_forwarding == 0)
    api.review_gate.set()
    api.script = echo
    async with connect() as client:
        assert (await client.request()).status == 200


@soak
@pytest.mark.timeout(60)
async def test_a_huge_refusal_waits_upstream_until_we_know_whose_it_is(
    api: ScriptedApiServer, client: HttpClient
) -> None:
    sent = [0]

    async def stream(connection: ScriptedConnection, request: SeenRequest) -> None:
        length = f"Content-Length: {PIECES * len(PIECE)}"
        await connection.send(f"HTTP/1.1 401 Unauthorized\r\n{length}\r\n\r\n".encode())
        for _ in range(PIECES):
            await connection.send(PIECE)
            sent[0] += len(PIECE)

    api.script = stream
    api.review_gate.clear()
    before = resident_bytes()
    await client.send(request_bytes())
    await eventually(lambda: sent[0])
    waiting = await settled(lambda: sent[0])
    grown = resident_bytes() - before
    api.review_gate.set()
    digest = hashlib.sha256()
    head = await client.read_head()
    for _ in range(PIECES):
        digest.update(await client.read_exactly(len(PIECE)))

    assert head.status == 401
    assert 0 < waiting < IN_FLIGHT_BYTES
    assert grown < GROWTH_BYTES
    assert digest.digest() == hashlib.sha256(PIECE * PIECES).digest()


async def test_a_body_goes_on_while_its_early_refusal_is_held(
    api: ScriptedApiServer, client: HttpClient
) -> None:
    async def refuse_early(connection: ScriptedConnection, request: SeenRequest) -> None:
        await connection.reader.readexactly(4)
        await connection.send(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 8\r\n\r\nno, ")
        await connection.reader.readexactly(4)
        received.set()
        await connection.send(b"not")
        await connection.send(b"!")

    received = asyncio.Event()
    before = api.probes
    api.script = refuse_early
    api.review_gate.clear()
    await client.send(request_bytes("PUT", headers=[("Content-Length", "8")]) + b"half")
    await eventually(lambda: api.probes > before)
    await client.send(b"rest")
    async with asyncio.timeout(5):
        await received.wait()
    api.review_gate.set()

    answer = await client.read_response()

    assert (answer.status, answer.body) == (401, b"no, not!")
