"""Several API servers of one cluster: connecting fails over, a request never does."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from functools import partial

import pytest

from tests.scenarios.conftest import Connect, status_of
from tests.support.certificates import Certificates, new_certificates
from tests.support.event_loops import eventually
from tests.support.http_client import Headers, HttpClient
from tests.support.scripted_api_server import (
    ScriptedApiServer,
    ScriptedConnection,
    SeenRequest,
    scripted_api_server,
)

AS_BOB: Headers = [("Impersonate-User", "bob")]
REST_SECONDS = 0.3


@pytest.fixture(autouse=True)
def short_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.upstream.endpoints.BACKOFF_SECONDS", REST_SECONDS)


@pytest.fixture
async def second(certificates: Certificates) -> AsyncIterator[ScriptedApiServer]:
    async with scripted_api_server(certificates) as server:
        yield server
        assert server.violations == []


@pytest.fixture
async def stranger(certificates: Certificates) -> AsyncIterator[ScriptedApiServer]:
    """Another cluster's server, or somebody who would like our token."""
    async with scripted_api_server(new_certificates()) as server:
        yield server


@pytest.fixture
def upstream_settings(api: ScriptedApiServer, second: ScriptedApiServer) -> Mapping[str, object]:
    return {"endpoints": [url(api), url(second)]}


@pytest.fixture
def impersonation_settings() -> dict[str, str]:
    """Nothing is remembered: every impersonated request needs a review."""
    return {"successTTL": "0s"}


def url(server: ScriptedApiServer) -> str:
    host, port = server.address
    return f"https://{host}:{port}"


async def die(server: ScriptedApiServer) -> None:
    """Be gone at once, with everything that is under way."""
    server.stop_listening()
    for connection in list(server.connections.values()):
        await connection.cut()
    await eventually(lambda: not server.connections)


def users(server: ScriptedApiServer) -> list[str]:
    return [request.user for request in server.requests]


async def test_while_the_first_is_there_the_second_is_not_asked(
    api: ScriptedApiServer, second: ScriptedApiServer, client: HttpClient
) -> None:
    for headers in ([], AS_BOB):
        assert (await client.request("POST", headers=headers, body=b"x")).status == 200

    assert users(api) == ["alice", "bob"]
    assert second.opened == 0


async def test_when_the_first_is_gone_requests_and_reviews_go_to_the_second(
    api: ScriptedApiServer, second: ScriptedApiServer, client: HttpClient
) -> None:
    assert (await client.request(headers=AS_BOB)).status == 200
    reviewed = len(second.reviews)
    await die(api)

    answers = [
        await client.request(method, headers=headers, body=body)
        for headers in ([], AS_BOB)
        for method, body in (("GET", b""), ("POST", b"x"))
    ]

    assert [answer.status for answer in answers] == [200] * 4
    assert users(second) == ["alice", "alice", "bob", "bob"]
    assert len(second.reviews) > reviewed


async def test_the_first_is_used_again_when_it_is_back(
    api: ScriptedApiServer, second: ScriptedApiServer, certificates: Certificates, connect: Connect
) -> None:
    await die(api)
    async with connect() as client:
        assert (await client.request()).status == 200

    async with scripted_api_server(certificates, port=api.address[1]) as back, asyncio.timeout(20):
        while not back.requests:
            async with connect() as client:
                # Leaves a connection that nobody may use again, so that the next is a new one.
                second.script = back.script = close_after
                assert (await client.request()).status == 200
            await asyncio.sleep(REST_SECONDS / 10)

        assert back.violations == []


async def close_after(connection: ScriptedConnection, request: SeenRequest) -> None:
    await connection.respond(headers=("Connection: close",))


@pytest.mark.parametrize("method", ["POST", "DELETE"])
async def test_a_request_that_was_sent_is_never_sent_to_another(
    api: ScriptedApiServer, second: ScriptedApiServer, client: HttpClient, method: str
) -> None:
    async def take_and_die(connection: ScriptedConnection, request: SeenRequest) -> None:
        await connection.read_body(request)
        api.stop_listening()
        await connection.cut()

    body = b"x" if method == "POST" else b""
    assert (await client.request()).status == 200  # so that its connection is used again
    api.requests.clear()
    api.script = take_and_die
    answer = await client.request(method, body=body)

    assert status_of(answer) == (502, "InternalError", 502)
    assert answer.values("retry-after") == []
    assert (len(api.requests), second.requests) == (1, [])
    assert (await client.request(method, body=body)).status == 200
    assert len(second.requests) == 1


async def test_a_harmless_request_on_a_stale_connection_is_repeated_at_the_second(
    api: ScriptedApiServer, second: ScriptedApiServer, client: HttpClient
) -> None:
    assert (await client.request()).status == 200

    async def die_now(connection: ScriptedConnection, request: SeenRequest) -> None:
        api.stop_listening()
        await connection.cut()

    api.script = die_now
    answer = await client.request()

    assert answer.status == 200
    assert (len(api.requests), len(second.requests)) == (2, 1)


async def test_when_all_are_gone_the_client_may_come_again(
    api: ScriptedApiServer, second: ScriptedApiServer, client: HttpClient
) -> None:
    await die(api)
    await die(second)

    answer = await client.request("POST", body=b"x")

    assert status_of(answer) == (503, "ServiceUnavailable", 503)
    assert answer.values("retry-after") == ["1"]
    assert api.requests == second.requests == []


@pytest.mark.timeout(60)
async def test_one_server_of_two_comes_and_goes_under_load(
    api: ScriptedApiServer, second: ScriptedApiServer, connect: Connect
) -> None:
    """What is under way at the one that dies may fail, visibly; everything else must not."""
    stop = asyncio.Event()
    answered: list[int] = []

    async def work(user: str) -> None:
        async with connect(user) as client:
            while not stop.is_set():
                answer = await client.request(headers=AS_BOB if user == "user-0" else [])
                answered.append(answer.status)

    async with asyncio.TaskGroup() as group:
        for number in range(6):
            group.create_task(work(f"user-{number}"))
        await eventually(lambda: len(answered) > 30, seconds=20)
        api.stop_listening()
        for connection in list(api.connections.values()):
            connection.close()
        seen = len(second.requests)
        await eventually(lambda: len(second.requests) > seen + 60, seconds=20)
        stop.set()

    assert set(answered) <= {200, 502, 503}
    assert answered.count(200) >= len(answered) - 6
    assert set(answered[-30:]) == {200}


class TestAStrangerAmongThem:
    @pytest.fixture
    def upstream_settings(
        self, stranger: ScriptedApiServer, api: ScriptedApiServer
    ) -> Mapping[str, object]:
        return {"endpoints": [url(stranger), url(api)]}

    async def test_it_never_gets_a_byte_of_ours(
        self, stranger: ScriptedApiServer, api: ScriptedApiServer, client: HttpClient
    ) -> None:
        for headers in ([], AS_BOB):
            assert (await client.request(headers=headers)).status == 200

        assert users(api) == ["alice", "bob"]
        assert stranger.requests == stranger.reviews == stranger.refused == []


class TestASilentOneAmongThem:
    @pytest.fixture
    async def silent_port(self) -> AsyncIterator[int]:
        """A port that takes connections and says nothing."""
        async with AsyncExitStack() as stack:
            server = await asyncio.start_server(
                partial(self._swallow, stack), "127.0.0.1", 0, start_serving=True
            )
            stack.callback(server.close)
            yield server.sockets[0].getsockname()[1]

    async def _swallow(
        self, stack: AsyncExitStack, _: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        stack.callback(writer.transport.abort)

    @pytest.fixture
    def upstream_settings(self, silent_port: int, api: ScriptedApiServer) -> Mapping[str, object]:
        return {"endpoints": [f"https://127.0.0.1:{silent_port}", url(api)], "connectTimeout": "2s"}

    async def test_it_costs_its_share_of_the_time_and_not_all(
        self, api: ScriptedApiServer, client: HttpClient
    ) -> None:
        for headers in ([], AS_BOB):
            assert (await client.request(headers=headers)).status == 200

        assert users(api) == ["alice", "bob"]
