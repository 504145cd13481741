"""Upgrades: opened only as asked for, opaque both ways, and the end of their connections."""

import asyncio

import pytest

from tests.scenarios.conftest import Connect, status_of
from tests.support.event_loops import eventually
from tests.support.http_client import Cut, HttpClient, request_bytes
from tests.support.scripted_api_server import ScriptedApiServer, ScriptedConnection, SeenRequest

EXEC = "/api/v1/namespaces/a/pods/b/exec?command=ls"


def upgrade(protocol: str, method: str = "POST") -> bytes:
    headers = [("Connection", "Upgrade"), ("Upgrade", protocol), ("Content-Length", "0")]
    return request_bytes(method, EXEC, headers=headers)


def switching(protocol: str) -> bytes:
    return (
        f"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n"
        "X-Stream-Protocol-Version: v4\r\n\r\n"
    ).encode()


async def switch_and_echo(connection: ScriptedConnection, request: SeenRequest) -> None:
    """Open the tunnel with a word in the same breath, then return what comes."""
    await connection.send(switching(request.values("upgrade")[0]) + b"hello ")
    while data := await connection.reader.read(65536):
        await connection.send(data)
    connection.close()


@pytest.mark.parametrize("protocol", ["SPDY/3.1", "websocket", "WebSocket"])
async def test_a_tunnel_carries_bytes_both_ways(
    api: ScriptedApiServer, client: HttpClient, protocol: str
) -> None:
    api.script = switch_and_echo
    everything = bytes(range(256)) * 5000
    await client.send(upgrade(protocol))
    head = await client.read_head()
    assert await client.read_exactly(6) == b"hello "

    sending = asyncio.ensure_future(client.send(everything))

    assert await client.read_exactly(len(everything)) == everything
    await sending
    assert head.status == 101
    assert head.values("upgrade") == [protocol]
    assert head.values("connection") == ["Upgrade"]
    assert head.values("x-stream-protocol-version") == ["v4"]
    assert api.requests[0].values("upgrade") == [protocol]
    assert api.requests[0].user == "alice"


async def test_a_tunnel_ends_when_the_client_says_goodbye(
    api: ScriptedApiServer, connect: Connect
) -> None:
    api.script = switch_and_echo
    async with connect() as client:
        await client.send(upgrade("SPDY/3.1"))
        await client.read_head()

        await client.close()

        await eventually(lambda: api.open_forwarding == 0, seconds=1)


async def test_what_was_sent_before_the_goodbye_still_arrives(
    api: ScriptedApiServer, client: HttpClient
) -> None:
    received: list[bytes] = []

    async def take_all(connection: ScriptedConnection, request: SeenRequest) -> None:
        await connection.send(switching("SPDY/3.1"))
        received.append(await connection.reader.read())

    api.script = take_all
    await client.send(upgrade("SPDY/3.1"))
    await client.read_head()
    await client.send(b"x" * 1_000_000)
    await client.close()

    await eventually(lambda: received)
    assert len(received[0]) == 1_000_000


async def test_a_tunnel_ends_when_the_api_server_says_goodbye(
    api: ScriptedApiServer, client: HttpClient
) -> None:
    async def say_and_leave(connection: ScriptedConnection, request: SeenRequest) -> None:
        await connection.send(switching("SPDY/3.1") + b"x" * 1_000_000)
        connection.close()

    api.script = say_and_leave
    await client.send(upgrade("SPDY/3.1"))
    await client.read_head()

    assert await client.read_to_end() == b"x" * 1_000_000


async def test_a_cut_tunnel_is_cut_at_the_client_too(
    api: ScriptedApiServer, client: HttpClient
) -> None:
    async def cut(connection: ScriptedConnection, request: SeenRequest) -> None:
        await connection.send(switching("SPDY/3.1") + b"half")
        await connection.cut()

    api.script = cut
    await client.send(upgrade("SPDY/3.1"))
    await client.read_head()

    with pytest.raises(Cut):
        await client.read_to_end()


async def test_what_follows_an_upgrade_too_early_is_read_as_nothing(
    api: ScriptedApiServer, client: HttpClient
) -> None:
    api.script = switch_and_echo

    await client.send(upgrade("SPDY/3.1") + request_bytes("DELETE", "/api/v1/nodes/n"))

    with pytest.raises(Cut):
        await client.read_exactly(1_000_000)
    await eventually(lambda: api.open_forwarding == 0)
    assert [request.method for request in api.requests] == ["POST"]


@pytest.mark.parametrize("status", ["200 OK", "302 Found", "400 Bad Request", "403 Forbidden"])
async def test_after_an_upgrade_that_failed_nothing_more_is_served(
    api: ScriptedApiServer, client: HttpClient, status: str
) -> None:
    async def answer(connection: ScriptedConnection, request: SeenRequest) -> None:
        await connection.respond(b"no", status=status)

    api.script = answer
    await client.send(upgrade("SPDY/3.1") + request_bytes("DELETE", "/api/v1/nodes/n"))
    received = await client.read_response()

    assert (received.status, received.body) == (int(status[:3]), b"no")
    assert received.values("connection") == ["close"]
    assert await client.read_to_end() == b""
    await eventually(lambda: api.open_forwarding == 0)
    assert len(api.requests) == 1


async def test_a_refused_upgrade_reaches_nobody_and_ends_the_connection(
    api: ScriptedApiServer, connect: Connect
) -> None:
    async with connect(None) as client:
        await client.send(upgrade("websocket", "GET") + request_bytes("DELETE"))
        received = await client.read_response()

        assert status_of(received)[0] == 401
        assert received.values("connection") == ["close"]
        assert await client.read_to_end() == b""
    assert api.requests == []


@pytest.mark.parametrize("offered", ["websocket", "h2c", ""])
async def test_another_protocol_than_the_one_asked_for_is_a_502(
    api: ScriptedApiServer, client: HttpClient, offered: str
) -> None:
    async def switch(connection: ScriptedConnection, request: SeenRequest) -> None:
        await connection.send(switching(offered))
        await connection.reader.read()

    api.script = switch
    await client.send(upgrade("SPDY/3.1"))

    assert status_of(await client.read_response())[0] == 502
    await eventually(lambda: api.open_forwarding == 0)


@pytest.mark.parametrize(
    "headers",
    [
        [("Connection", "Upgrade")],
        [("Upgrade", "websocket")],
        [("Connection", "xupgradex"), ("Upgrade", "websocket")],
        [("Connection", "Upgrade"), ("Upgrade", "IRC/6.9")],
    ],
)
async def test_half_a_wish_is_a_plain_request(
    api: ScriptedApiServer, client: HttpClient, headers: list[tuple[str, str]]
) -> None:
    answer = await client.request(headers=headers)

    assert answer.status == 200
    assert api.requests[0].values("upgrade") == []
    assert api.requests[0].values("connection") == []
