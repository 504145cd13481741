"""More than there is room for: told as a Status, and over as soon as there is room."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from proxy.runtime.proxy import run_proxy
from tests.scenarios.conftest import Connect, settings_for, status_of
from tests.support.certificates import Certificates
from tests.support.event_loops import eventually
from tests.support.http_client import Cut, HttpClient, connected, request_bytes
from tests.support.scripted_api_server import (
    ScriptedApiServer,
    ScriptedConnection,
    SeenRequest,
    echo,
)

POD = "/api/v1/namespaces/a/pods/b"


@pytest.fixture
def serving_settings() -> dict[str, object]:
    return {
        "limits": {
            "readsInFlight": 2,
            "writesInFlight": 1,
            "connections": 12,
            "connectionsPerAddress": 10,
            "unauthenticatedBytes": 100_000,
            "unauthenticatedAddressPercent": 100,
        }
    }


class Gate:
    """A script that answers when it is told to."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()

    async def __call__(self, connection: ScriptedConnection, request: SeenRequest) -> None:
        await self.opened.wait()
        await connection.respond(b"at last")


@pytest.fixture
async def gate(api: ScriptedApiServer) -> AsyncIterator[Gate]:
    gate = api.script = Gate()
    yield gate
    gate.opened.set()


async def forwarded(api: ScriptedApiServer, count: int) -> None:
    await eventually(lambda: len(api.requests) == count)


async def test_too_many_reads_are_told_to_come_again_and_writes_are_not(
    api: ScriptedApiServer, connect: Connect, gate: Gate
) -> None:
    async with connect() as one, connect() as two, connect() as three:
        for client in (one, two):
            await client.send(request_bytes(target=POD))
        await forwarded(api, 2)

        refused = await three.request(target=POD)
        await three.send(request_bytes("DELETE", POD))
        await forwarded(api, 3)

        assert status_of(refused) == (429, "TooManyRequests", 429)
        assert refused.values("retry-after") == ["1"]
        assert json.loads(refused.body)["details"] == {"retryAfterSeconds": 1}
        assert refused.values("connection") == []
        gate.opened.set()
        for client in (one, two, three):
            assert (await client.read_response()).body == b"at last"
        assert (await three.request(target=POD)).status == 200


@pytest.mark.parametrize("leave", ["goodbye", "vanish"])
async def test_a_client_that_leaves_makes_room_at_once(
    api: ScriptedApiServer, connect: Connect, gate: Gate, leave: str
) -> None:
    async with connect() as one, connect() as two:
        await one.send(request_bytes("DELETE", POD))
        await forwarded(api, 1)
        assert (await two.request("DELETE", POD)).status == 429

        if leave == "goodbye":
            await one.close()
        else:
            one.vanish()

        # The API server has not answered the first and never will: only its leaving makes room.
        api.script = echo
        async with asyncio.timeout(10):
            while (await two.request("DELETE", POD)).status == 429:  # noqa: ASYNC110 - tells alone
                await asyncio.sleep(0.01)
        assert [request.method for request in api.requests] == ["DELETE", "DELETE"]


async def test_what_may_last_is_not_counted(
    api: ScriptedApiServer, connect: Connect, gate: Gate
) -> None:
    upgrade = [("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1")]
    console = "/apis/example.com/v1/namespaces/a/machines/b/console"
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(connect()) for _ in range(8)]
        for client in clients[:4]:
            await client.send(request_bytes(target="/api/v1/pods?watch=1"))
        for client in clients[4:]:
            await client.send(request_bytes(target=console, headers=upgrade))
        await forwarded(api, 8)

        async with connect() as reader:
            await reader.send(request_bytes(target=POD))
            await forwarded(api, 9)
        gate.opened.set()
        for client in clients:
            assert (await client.read_response()).status == 200


async def test_strangers_take_no_place(
    api: ScriptedApiServer, connect: Connect, client: HttpClient, gate: Gate
) -> None:
    """Who is not known is told so, however full it is, and takes no place from who is."""
    api.review_gate.clear()
    async with AsyncExitStack() as stack:
        for number in range(4):
            stranger = await stack.enter_async_context(connect(None))
            token = [("Authorization", f"Bearer unknown-{number}")]
            await stranger.send(request_bytes(target=POD, headers=token))
        await eventually(lambda: len(api.under_review) == 4)

        await client.send(request_bytes(target=POD))
        await forwarded(api, 1)
        api.review_gate.set()
        gate.opened.set()
        assert (await client.read_response()).status == 200


async def test_who_finds_no_place_is_closed_before_the_handshake(
    proxy: tuple[str, int],
    connect: Connect,
    context_of: Callable[[str | None], ssl.SSLContext],
) -> None:
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(connect()) for _ in range(10)]
        for client in clients:
            assert (await client.request()).status == 200
        with pytest.raises(ConnectionError):
            async with connect():
                pass
        assert (await clients[-1].request()).status == 200
        await clients[0].close()

        async with asyncio.timeout(10):
            while not await can_connect(proxy, context_of("alice")):
                pass


async def can_connect(address: tuple[str, int], context: ssl.SSLContext) -> bool:
    try:
        async with connected(address, context) as client:
            return (await client.request()).status == 200
    except (ConnectionError, Cut):
        return False


async def test_hoarded_heads_are_a_429_status(client: HttpClient) -> None:
    await client.send(b"GET / HTTP/1.1\r\nX: ".ljust(100_001, b"x"))

    answer = await client.read_response()

    assert status_of(answer) == (429, "TooManyRequests", 429)
    assert answer.values("retry-after") == ["1"]
    assert answer.values("connection") == ["close"]


async def test_who_is_turned_away_is_counted_and_told_to_whoever_runs_us(
    api: ScriptedApiServer,
    certificates: Certificates,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = settings_for(api, certificates, tmp_path, serving={"limits": {"connections": 1}})
    context = certificates.client_context("alice")
    async with run_proxy(settings) as proxy, connected(proxy.address, context) as client:
        while (await client.request()).status != 200:  # noqa: ASYNC110 - only its answers tell
            await asyncio.sleep(0.01)
        for _ in range(3):
            assert not await can_connect(proxy.address, context)

        name = "understudy_connections_rejected_total"
        await eventually(lambda: proxy.registry.get_sample_value(name) == 3, seconds=10)

    assert 1 <= caplog.messages.count("client connections rejected") <= 3
