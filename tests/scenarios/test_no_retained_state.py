"""Between two requests the proxy keeps nothing of either, and between two ends it adds nothing."""

import asyncio

import pytest

from tests.scenarios.conftest import Connect
from tests.support.http_client import HttpClient, request_bytes
from tests.support.scripted_api_server import ScriptedApiServer, ScriptedConnection, SeenRequest


async def test_a_cookie_of_one_user_never_reaches_another(
    api: ScriptedApiServer, connect: Connect
) -> None:
    async def set_cookie(connection: ScriptedConnection, _request: SeenRequest) -> None:
        await connection.respond(headers=("Set-Cookie: session=alice; Path=/",))

    api.script = set_cookie
    async with connect("alice") as alice, connect("bob") as bob:
        answers = [await alice.request(), await bob.request(), await alice.request()]

    assert [answer.values("set-cookie") for answer in answers] == [["session=alice; Path=/"]] * 3
    assert [request.values("cookie") for request in api.requests] == [[], [], []]
    assert len({request.connection for request in api.requests}) == 1


@pytest.mark.parametrize("host", ["127.0.0.1", "api.example.com:6443", "[::1]:8443"])
async def test_the_host_is_the_client_s(
    api: ScriptedApiServer, client: HttpClient, host: str
) -> None:
    await client.send(f"GET /version HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    await client.read_response()

    assert [request.values("host") for request in api.requests] == [[host]]


@pytest.fixture
def upstream_settings() -> dict[str, str]:
    return {"responseTimeout": "300ms"}


@pytest.mark.parametrize("protocol", ["websocket", "SPDY/3.1"])
async def test_a_tunnel_may_be_silent_for_longer_than_an_answer(
    api: ScriptedApiServer, client: HttpClient, protocol: str
) -> None:
    """Also where the path does not tell that it is one: a console of somebody's own server."""

    async def switch(connection: ScriptedConnection, request: SeenRequest) -> None:
        await connection.send(
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n"
            b"Upgrade: %b\r\n\r\n" % protocol.encode()
        )
        await asyncio.sleep(0.7)  # twice the time that an ordinary answer has
        await connection.send(await connection.reader.readexactly(5))

    api.script = switch
    console = "/apis/vm.example.com/v1/namespaces/a/virtualmachines/b/console"
    wish = [("Connection", "Upgrade"), ("Upgrade", protocol)]
    await client.send(request_bytes("GET", console, headers=wish))
    assert (await client.read_head()).status == 101
    await client.send(b"hello")

    assert await client.read_exactly(5) == b"hello"
