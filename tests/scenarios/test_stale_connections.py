"""A connection may end just when it is used again; still nothing is done twice."""

import pytest

from tests.scenarios.conftest import status_of
from tests.support.http_client import HttpClient
from tests.support.scripted_api_server import (
    ScriptedApiServer,
    ScriptedConnection,
    SeenRequest,
    echo,
)


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
async def test_a_harmless_request_on_a_stale_connection_is_sent_once_more(
    api: ScriptedApiServer, client: HttpClient, method: str
) -> None:
    assert (await client.request()).status == 200
    used = api.requests[-1].connection

    async def drop_old(connection: ScriptedConnection, request: SeenRequest) -> None:
        if connection.number == used:
            await connection.cut()
        else:
            await echo(connection, request)

    api.script = drop_old
    answer = await client.request(method, "/version")

    assert answer.status == 200
    assert [one.target for one in api.requests].count("/version") == 2


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_a_request_that_may_have_been_acted_on_is_never_repeated(
    api: ScriptedApiServer, client: HttpClient, method: str
) -> None:
    assert (await client.request()).status == 200
    api.requests.clear()

    async def drop(connection: ScriptedConnection, request: SeenRequest) -> None:
        await connection.read_body(request)
        await connection.cut()

    api.script = drop
    answer = await client.request(method, body=b"" if method == "DELETE" else b"x")

    assert status_of(answer)[0] == 502
    assert answer.values("retry-after") == []
    assert [request.method for request in api.requests] == [method]


async def test_a_get_with_a_body_is_not_repeated(
    api: ScriptedApiServer, client: HttpClient
) -> None:
    assert (await client.request()).status == 200
    api.requests.clear()

    async def drop(connection: ScriptedConnection, request: SeenRequest) -> None:
        await connection.cut()

    api.script = drop

    assert status_of(await client.request("GET", body=b"x"))[0] == 502
    assert len(api.requests) == 1


async def test_a_get_is_repeated_once_and_no_more(
    api: ScriptedApiServer, client: HttpClient
) -> None:
    assert (await client.request()).status == 200
    api.requests.clear()

    async def drop(connection: ScriptedConnection, request: SeenRequest) -> None:
        await connection.cut()

    api.script = drop

    assert status_of(await client.request())[0] == 502
    assert len(api.requests) == 2


@pytest.mark.parametrize("said", [b"H", b"HTTP/1.1 100 Continue\r\n\r\n"])
async def test_a_get_whose_answer_had_begun_is_not_repeated(
    api: ScriptedApiServer, client: HttpClient, said: bytes
) -> None:
    assert (await client.request()).status == 200
    api.requests.clear()

    async def begin_and_drop(connection: ScriptedConnection, request: SeenRequest) -> None:
        await connection.send(said)
        await connection.cut()

    api.script = begin_and_drop

    assert status_of(await client.request())[0] == 502
    assert len(api.requests) == 1


async def test_a_repeated_request_is_the_same_request(
    api: ScriptedApiServer, client: HttpClient
) -> None:
    assert (await client.request()).status == 200
    api.requests.clear()

    async def drop_then_echo(connection: ScriptedConnection, request: SeenRequest) -> None:
        if len(api.requests) == 1:
            await connection.cut()
        else:
            await echo(connection, request)

    api.script = drop_then_echo
    answer = await client.request(headers=[("Audit-ID", "mine")])

    first, second = api.requests
    assert answer.status == 200
    assert first.headers == second.headers
    assert answer.values("audit-id") == ["mine"]
