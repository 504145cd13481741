"""Upgrades that are none: refused, doubtful or repeated. What a tunnel carries: test_tunnels."""

import asyncio
import json

import pytest

from tests.scenarios.conftest import Connect, status_of
from tests.support.http_client import Headers, request_bytes
from tests.support.scripted_api_server import ScriptedApiServer, ScriptedConnection, SeenRequest

EXEC = "/api/v1/namespaces/n/pods/p/exec?command=id"
WEBSOCKET: Headers = [("Connection", "Upgrade"), ("Upgrade", "websocket")]


async def switch(connection: ScriptedConnection, _request: SeenRequest) -> None:
    await connection.send(
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    )


@pytest.mark.parametrize("status", ["200 OK", "302 Found", "400 Bad Request", "500 Oops"])
async def test_a_refused_upgrade_is_an_answer_and_the_end_of_both_connections(
    api: ScriptedApiServer, connect: Connect, status: str
) -> None:
    async def refuse(connection: ScriptedConnection, _request: SeenRequest) -> None:
        await connection.respond(b"no", status=status)

    api.script = refuse
    async with connect() as client:
        await client.send(request_bytes("GET", EXEC, headers=WEBSOCKET))
        answer = await client.read_response()
        await client.send(request_bytes("GET", "/api/v1/secrets"))
        rest = await client.read_to_end()

    assert (answer.status, answer.body) == (int(status[:3]), b"no")
    assert answer.values("connection") == ["close"]
    assert rest == b""
    assert [request.target for request in api.requests] == [EXEC]
    async with asyncio.timeout(5):
        while api.open_forwarding:  # noqa: ASYNC110 - only its connections tell
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    "headers",
    [
        [("Connection", "Upgrade, HTTP2-Settings"), ("Upgrade", "h2c"), ("HTTP2-Settings", "AA")],
        [("Connection", "Upgrade"), ("Upgrade", "h2c")],
        [("HTTP2-Settings", "AAMAAABk")],
    ],
    ids=["whole", "protocol", "settings"],
)
async def test_an_upgrade_to_http2_is_refused(
    api: ScriptedApiServer, connect: Connect, headers: Headers
) -> None:
    async with connect() as client:
        answer = await client.request("GET", EXEC, headers=headers)

    assert status_of(answer) == (400, "BadRequest", 400)
    assert api.requests == []


async def test_an_upgrade_that_names_our_headers_in_connection_removes_none_of_them(
    api: ScriptedApiServer, connect: Connect
) -> None:
    named = "Upgrade, Impersonate-User, Impersonate-Group, Authorization"
    api.script = switch
    async with connect() as client:
        headers: Headers = [("Connection", named), ("Upgrade", "websocket")]
        await client.send(request_bytes("GET", EXEC, headers=headers))
        assert (await client.read_head()).status == 101

    assert api.requests[0].user == "alice"


async def test_an_upgrade_is_never_repeated_on_a_stale_connection(
    api: ScriptedApiServer, connect: Connect
) -> None:
    async def vanish(connection: ScriptedConnection, _request: SeenRequest) -> None:
        await connection.cut()

    async with connect() as client:
        assert json.loads((await client.request()).body)["user"] == "alice"
        api.script = vanish
        answer = await client.request("GET", EXEC, headers=WEBSOCKET)

    assert status_of(answer) == (502, "InternalError", 502)
    assert [request.target for request in api.requests].count(EXEC) == 1
