"""Who is slow is waited for, and memory does not grow meanwhile."""

import asyncio
import hashlib
from pathlib import Path

import pytest

from tests.support.event_loops import eventually
from tests.support.http_client import HttpClient, request_bytes
from tests.support.scripted_api_server import ScriptedApiServer, ScriptedConnection, SeenRequest
from tests.support.sizes import sized, soak

PIECE = bytes(range(256)) * 256
PIECES = sized(1600, full=16000)  # of 64 KiB: 100 MiB, or 1 GB
PAGE_BYTES = 4096
# The kernel's socket buffers may hold much; we ourselves may not.
IN_FLIGHT_BYTES = 80 * 1024 * 1024
GROWTH_BYTES = 12 * 1024 * 1024


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES


async def settled(counter: list[int]) -> int:
    """Wait until a count stops growing."""
    before = -1
    while counter[0] != before:
        before = counter[0]
        await asyncio.sleep(0.1)
    return before


@soak
@pytest.mark.timeout(60)
async def test_a_huge_answer_waits_for_a_client_that_does_not_read(
    api: ScriptedApiServer, client: HttpClient
) -> None:
    sent = [0]

    async def stream(connection: ScriptedConnection, request: SeenRequest) -> None:
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {PIECES * len(PIECE)}\r\n\r\n"
        await connection.send(head.encode())
        for _ in range(PIECES):
            await connection.send(PIECE)
            sent[0] += len(PIECE)

    api.script = stream
    before = resident_bytes()
    await client.send(request_bytes())
    await eventually(lambda: sent[0])
    waiting = await settled(sent)
    grown = resident_bytes() - before
    digest = hashlib.sha256()
    await client.read_head()
    for _ in range(PIECES):
        digest.update(await client.read_exactly(len(PIECE)))

    assert 0 < waiting < IN_FLIGHT_BYTES
    assert grown < GROWTH_BYTES
    assert digest.digest() == hashlib.sha256(PIECE * PIECES).digest()
    assert sent[0] == PIECES * len(PIECE)


@soak
@pytest.mark.timeout(60)
async def test_a_huge_body_waits_for_an_api_server_that_does_not_read(
    api: ScriptedApiServer, client: HttpClient
) -> None:
    sent = [0]
    may_read = asyncio.Event()
    digest = hashlib.sha256()

    async def read_late(connection: ScriptedConnection, request: SeenRequest) -> None:
        await may_read.wait()
        for _ in range(PIECES):
            digest.update(await connection.reader.readexactly(len(PIECE)))
        await connection.respond()

    async def upload() -> None:
        length = str(PIECES * len(PIECE))
        await client.send(request_bytes("PUT", headers=[("Content-Length", length)]))
        for _ in range(PIECES):
            await client.send(PIECE)
            sent[0] += len(PIECE)

    api.script = read_late
    before = resident_bytes()
    uploading = asyncio.ensure_future(upload())
    await eventually(lambda: sent[0])
    waiting = await settled(sent)
    grown = resident_bytes() - before
    may_read.set()
    answer = await client.read_response()

    assert 0 < waiting < IN_FLIGHT_BYTES
    assert grown < GROWTH_BYTES
    assert answer.status == 200
    assert digest.digest() == hashlib.sha256(PIECE * PIECES).digest()
    await uploading
