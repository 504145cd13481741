"""A caller that takes none of its answers holds its own places, and nobody else's."""

import json

import pytest

from tests.scenarios.conftest import Connect, status_of
from tests.support.event_loops import eventually
from tests.support.http_client import HttpClient, request_bytes
from tests.support.scripted_api_server import (
    ScriptedApiServer,
    ScriptedConnection,
    SeenRequest,
    echo,
)

POD = "/api/v1/namespaces/a/pods/b"
WATCH = "/api/v1/pods?watch=1"
BIG = b"x" * (16 << 20)


@pytest.fixture
def serving_settings() -> dict[str, object]:
    limits = {"readsInFlight": 4, "callerPercent": 50, "callerLongRunning": 1}
    return {"limits": limits}


async def big_for_alice(connection: ScriptedConnection, request: SeenRequest) -> None:
    if request.user != "alice":
        await echo(connection, request)
    else:
        await connection.respond(BIG)


async def ask_and_take_nothing(api: ScriptedApiServer, client: HttpClient, target: str) -> None:
    before = len(api.requests)
    await client.send(request_bytes(target=target))
    await eventually(lambda: len(api.requests) > before)


async def test_who_takes_nothing_is_told_to_come_again_and_others_are_served(
    api: ScriptedApiServer, connect: Connect
) -> None:
    api.script = big_for_alice
    async with connect() as one, connect() as two, connect() as three, connect("bob") as bob:
        for client in (one, two):
            await ask_and_take_nothing(api, client, POD)

        refused = await three.request(target=POD)
        assert status_of(refused) == (429, "TooManyRequests", 429)
        assert refused.values("retry-after") == ["1"]
        assert "from this caller" in json.loads(refused.body)["message"]
        # Acting as somebody else makes nobody another caller.
        elsewhere = await three.request(target=POD, headers=[("Impersonate-User", "carol")])
        assert elsewhere.status == 429
        assert (await bob.request(target=POD)).status == 200
        assert (await three.request("DELETE", POD)).status == 200

        assert len((await one.read_response()).body) == len(BIG)
        assert len((await three.request(target=POD)).body) == len(BIG)


async def test_watches_of_one_caller_may_have_a_limit(
    api: ScriptedApiServer, connect: Connect
) -> None:
    async def watch(connection: ScriptedConnection, request: SeenRequest) -> None:
        await connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        await connection.reader.read()

    api.script = watch
    async with connect() as other:
        async with connect() as one, connect("bob") as bob:
            await one.send(request_bytes(target=WATCH))
            assert (await one.read_head()).status == 200
            assert (await other.request(target=WATCH)).status == 429
            await bob.send(request_bytes(target=WATCH))
            assert (await bob.read_head()).status == 200

        await eventually(lambda: api.open_forwarding == 0)
        await other.send(request_bytes(target=WATCH))
        assert (await other.read_head()).status == 200
