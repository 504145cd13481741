"""A client that leaves takes its request with it, wherever that is."""

import asyncio
import contextlib

import pytest

from tests.scenarios.conftest import Connect
from tests.support.event_loops import eventually
from tests.support.http_client import HttpClient, request_bytes
from tests.support.scripted_api_server import (
    ScriptedApiServer,
    ScriptedConnection,
    SeenRequest,
    echo,
)
from tests.support.sizes import sized, soak

WATCH = request_bytes(target="/api/v1/pods?watch=1")


async def leave(client: HttpClient, way: str) -> None:
    if way == "goodbye":
        await client.close()
    else:
        client.vanish()


async def stay_silent(connection: ScriptedConnection, request: SeenRequest) -> None:
    await connection.reader.read()


async def open_a_watch(connection: ScriptedConnection, request: SeenRequest) -> None:
    await connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    await connection.reader.read()


async def stream_for_ever(connection: ScriptedConnection, request: SeenRequest) -> None:
    await connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        await connection.send(b"4\r\nmore\r\n")
        await asyncio.sleep(0)  # draining alone does not give way


@pytest.mark.parametrize("way", ["goodbye", "vanish"])
@pytest.mark.parametrize("script", [stay_silent, open_a_watch, stream_for_ever])
async def test_the_api_server_is_left_within_a_second(
    api: ScriptedApiServer, connect: Connect, script: object, way: str
) -> None:
    api.script = script  # type: ignore[assignment]  # one of the three above
    async with connect() as client:
        await client.send(WATCH)
        await eventually(lambda: api.requests)
        if script is not stay_silent:
            await client.read_head()

        await leave(client, way)

        await eventually(lambda: api.open_forwarding == 0, seconds=1)


@soak
async def test_many_idle_watches_end_with_their_clients(
    api: ScriptedApiServer, connect: Connect
) -> None:
    count = sized(200, full=2000)
    api.script = open_a_watch
    async with contextlib.AsyncExitStack() as stack:
        clients: list[HttpClient] = []
        for _ in range(count):
            client = await stack.enter_async_context(connect())
            await client.send(WATCH)
            await client.read_head()
            clients.append(client)
        assert api.open_forwarding == count

        for client in clients:
            client.vanish()

        # Clients, proxy and API server share one thread here; the limit is the requirement's own.
        await eventually(lambda: api.open_forwarding == 0, seconds=2)


async def test_half_a_body_is_cut_off_upstream_too(
    api: ScriptedApiServer, client: HttpClient
) -> None:
    ends: list[str] = []

    async def read(connection: ScriptedConnection, request: SeenRequest) -> None:
        try:
            await connection.read_body(request)
        except (asyncio.IncompleteReadError, ConnectionError):
            ends.append("cut")
            raise

    api.script = read
    await client.send(request_bytes("PUT", headers=[("Content-Length", "10")]) + b"half")
    await eventually(lambda: api.requests)

    client.vanish()

    await eventually(lambda: ends == ["cut"], seconds=1)


async def test_a_malformed_body_is_a_400_and_cut_off_upstream(
    api: ScriptedApiServer, client: HttpClient
) -> None:
    api.script = stay_silent
    headers = [("Transfer-Encoding", "chunked")]
    await client.send(request_bytes("PUT", headers=headers) + b"5\r\nhello\r\n")
    await eventually(lambda: api.requests)

    await client.send(b"oops\r\n")
    answer = await client.read_response()

    assert answer.status == 400
    assert answer.values("connection") == ["close"]
    await eventually(lambda: api.open_forwarding == 0, seconds=1)


@pytest.mark.parametrize("way", ["goodbye", "vanish"])
async def test_who_leaves_while_it_is_being_authenticated_is_never_forwarded(
    api: ScriptedApiServer, connect: Connect, way: str
) -> None:
    api.tokens["t"] = "bob"
    api.review_gate.clear()
    async with connect(None) as client:
        await client.send(request_bytes("POST", headers=[("Authorization", "Bearer t")]))
        await eventually(lambda: "tokenreviews" in " ".join(api.under_review))

        await leave(client, way)
        for _ in range(10):
            await asyncio.sleep(0.005)
        api.review_gate.set()

    await eventually(lambda: api.reviewed_tokens == ["t"])
    for _ in range(10):
        await asyncio.sleep(0.005)
    assert api.requests == []


@pytest.mark.parametrize("way", ["goodbye", "vanish"])
async def test_who_leaves_while_its_impersonation_is_decided_is_never_forwarded(
    api: ScriptedApiServer, connect: Connect, way: str
) -> None:
    api.review_gate.clear()
    async with connect() as client:
        await client.send(request_bytes("POST", headers=[("Impersonate-User", "bob")]))
        await eventually(lambda: "subjectaccessreviews" in " ".join(api.under_review))

        await leave(client, way)
        for _ in range(10):
            await asyncio.sleep(0.005)
        api.review_gate.set()

    await eventually(lambda: not api.under_review)
    for _ in range(10):
        await asyncio.sleep(0.005)
    assert api.requests == []


async def test_the_others_are_not_disturbed(api: ScriptedApiServer, connect: Connect) -> None:
    async def watch_or_echo(connection: ScriptedConnection, request: SeenRequest) -> None:
        await (open_a_watch if "watch" in request.target else echo)(connection, request)

    api.script = watch_or_echo
    async with connect("bob") as other:
        for _ in range(5):
            async with connect() as client:
                await client.send(WATCH)
                await client.read_head()
            assert (await other.request()).status == 200
    await eventually(lambda: api.open_forwarding <= 1)
