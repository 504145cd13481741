"""Bodies that wait to be asked for, and answers that do not wait for bodies."""

import asyncio
import json

import pytest

from tests.scenarios.conftest import Connect
from tests.support.event_loops import eventually
from tests.support.http_client import HttpClient, request_bytes
from tests.support.scripted_api_server import ScriptedApiServer, ScriptedConnection, SeenRequest

EXPECTING = [("Expect", "100-continue"), ("Content-Length", "5")]


async def test_who_expects_it_is_told_to_continue_after_it_was_admitted(
    api: ScriptedApiServer, connect: Connect
) -> None:
    async with connect() as client:
        await client.send(request_bytes("PUT", headers=EXPECTING))
        assert (await client.read_head()).status == 100
        await client.send(b"hello")
        received = await client.read_response()

    assert json.loads(received.body)["bytes"] == 5
    assert api.requests[0].values("expect") == []


@pytest.mark.parametrize(
    ("user", "headers", "status"),
    [
        pytest.param(None, [], 401, id="nobody"),
        pytest.param(
            "alice", [("Impersonate-Group", "system:masters")], 400, id="half an identity"
        ),
        pytest.param(
            "alice",
            [("Impersonate-User", "bob"), ("Impersonate-Group", "system:masters")],
            403,
            id="a protected group",
        ),
    ],
)
async def test_who_is_refused_is_not_told_to_continue(
    api: ScriptedApiServer,
    connect: Connect,
    user: str | None,
    headers: list[tuple[str, str]],
    status: int,
) -> None:
    async with connect(user) as client:
        await client.send(request_bytes("PUT", headers=[*headers, *EXPECTING]))
        received = await client.read_response()

        assert received.status == status
        assert received.values("connection") == ["close"]
        assert await client.read_to_end() == b""
    assert api.requests == []


async def test_another_expectation_is_a_417(api: ScriptedApiServer, connect: Connect) -> None:
    async with connect() as client:
        received = await client.request("PUT", headers=[("Expect", "200-ok")], body=b"hello")

    assert received.status == 417
    assert api.requests == []


@pytest.mark.parametrize("closes", [False, True], ids=["kept open", "closed"])
async def test_an_answer_before_the_body_is_read_reaches_the_client(
    api: ScriptedApiServer, connect: Connect, closes: object
) -> None:
    async def refuse_early(connection: ScriptedConnection, request: SeenRequest) -> None:
        await connection.reader.readexactly(1000)
        await connection.respond(b"too large", status="413 Payload Too Large")
        if closes:
            connection.close()
        else:
            await connection.reader.read()

    api.script = refuse_early
    async with connect() as client:
        head = request_bytes("PUT", headers=[("Content-Length", "5000000")])
        sending = asyncio.ensure_future(send_slowly(client, head, 5_000_000))
        received = await client.read_response()
        sending.cancel()

        assert (received.status, received.body) == (413, b"too large")
        assert received.values("connection") == ["close"]
    # Half a body was sent on it, so it can never carry another request.
    await eventually(lambda: api.open_forwarding == 0)


async def test_an_answer_that_a_reset_follows_reaches_the_client(
    api: ScriptedApiServer, connect: Connect
) -> None:
    """The rest of the body is never read: our writes meet the reset before we read the answer."""

    async def refuse_and_reset(connection: ScriptedConnection, request: SeenRequest) -> None:
        await connection.reader.readexactly(1000)
        await connection.respond(b"too large", status="413 Payload Too Large")
        connection.close()

    api.script = refuse_and_reset
    for _ in range(10):
        async with connect() as client:
            head = request_bytes("PUT", headers=[("Content-Length", "5000000")])
            sending = asyncio.ensure_future(send_fast(client, head, 5_000_000))
            received = await client.read_response()
            sending.cancel()

        assert (received.status, received.body) == (413, b"too large")
    assert len(api.requests) == 10


async def send_fast(client: HttpClient, head: bytes, size: int) -> None:
    await client.send(head)
    for _ in range(size // 10_000):
        await client.send(b"x" * 10_000)


async def send_slowly(client: HttpClient, head: bytes, size: int) -> None:
    await client.send(head)
    for _ in range(size // 10_000):
        await client.send(b"x" * 10_000)
        await asyncio.sleep(0.001)


async def test_an_answer_may_flow_while_the_body_still_does(
    api: ScriptedApiServer, connect: Connect
) -> None:
    async def echo_pieces(connection: ScriptedConnection, request: SeenRequest) -> None:
        await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n")
        for _ in range(10):
            await connection.send(await connection.reader.readexactly(1))

    api.script = echo_pieces
    async with connect() as client:
        await client.send(request_bytes("PUT", headers=[("Content-Length", "10")]))
        assert (await client.read_head()).status == 200
        for byte in b"0123456789":
            await client.send(bytes([byte]))
            assert await client.read_exactly(1) == bytes([byte])
