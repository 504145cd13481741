"""However a client spells its wish for a tunnel, it is one wish, and asked for anew upstream."""

import pytest

from tests.support.http_client import Headers, HttpClient, request_bytes
from tests.support.scripted_api_server import ScriptedApiServer, switch_protocols


@pytest.mark.parametrize(
    ("connection", "protocol"),
    [
        (["Upgrade"], "websocket"),
        (["keep-alive, Upgrade"], "websocket"),
        (["keep-alive", "upgrade"], "WebSocket"),
        (["", "UPGRADE"], "spdy/3.1"),
        (["Upgrade, Upgrade"], "SPDY/3.1"),
        ([" upgrade\t,"], "SPDY/3.1"),
    ],
)
async def test_a_whole_wish_opens_a_tunnel(
    api: ScriptedApiServer, client: HttpClient, connection: list[str], protocol: str
) -> None:
    api.script = switch_protocols
    headers: Headers = [("Connection", line) for line in connection]

    await client.send(request_bytes(headers=[*headers, ("Upgrade", protocol)]))

    assert (await client.read_head()).status == 101
    assert api.requests[0].values("connection") == ["Upgrade"]
    assert api.requests[0].values("upgrade") == [protocol]


@pytest.mark.parametrize(
    "headers",
    [
        [("Connection", "xupgradex"), ("Upgrade", "websocket")],
        [("Connection", "not-upgrade"), ("Upgrade", "SPDY/3.1")],
        [("Connection", "upgrade;q=1"), ("Upgrade", "websocket")],
        [("Connection", "upgrade"), ("Upgrade", "websocket, SPDY/3.1")],
        [("Connection", "upgrade"), ("Upgrade", "websocket"), ("Upgrade", "SPDY/3.1")],
        [("Connection", "upgrade"), ("Upgrade", "SPDY/3")],
    ],
)
async def test_anything_else_is_a_plain_request(
    api: ScriptedApiServer, client: HttpClient, headers: Headers
) -> None:
    assert (await client.request(headers=headers)).status == 200
    assert (await client.request()).status == 200
    assert [request.values("upgrade") for request in api.requests] == [[], []]
