"""When the API server fails, the client sees that it did."""

import ssl
from collections.abc import Callable

import pytest
from aiohttp import ClientPayloadError, ClientSession

from tests.scenarios.conftest import status_of
from tests.support.event_loops import eventually
from tests.support.http_client import Cut, HttpClient
from tests.support.scripted_api_server import (
    ScriptedApiServer,
    ScriptedConnection,
    SeenRequest,
    echo,
)

HEAD_AND_HALF = {
    "length": b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello",
    "chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\nhello",
    "chunk boundary": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    "last chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
    "until close": b"HTTP/1.1 200 OK\r\n\r\nhello",
}


@pytest.mark.parametrize("half", HEAD_AND_HALF.values(), ids=HEAD_AND_HALF.keys())
async def test_an_answer_that_is_cut_never_looks_complete(
    api: ScriptedApiServer, client: HttpClient, half: bytes
) -> None:
    async def cut(connection: ScriptedConnection, request: SeenRequest) -> None:
        await connection.send(half)
        await connection.cut()

    api.script = cut
    with pytest.raises(Cut) as seen:
        await client.request()

    assert seen.value.received == b"hello"
    assert not client.ended_with_goodbye
    assert len(api.requests) == 1


@pytest.mark.parametrize("half", HEAD_AND_HALF.values(), ids=HEAD_AND_HALF.keys())
async def test_a_stock_client_too_sees_that_an_answer_was_cut(
    api: ScriptedApiServer,
    proxy: tuple[str, int],
    context_of: Callable[[str | None], ssl.SSLContext],
    half: bytes,
) -> None:
    async def cut(connection: ScriptedConnection, request: SeenRequest) -> None:
        await connection.send(half)
        await connection.cut()

    api.script = cut
    url = f"https://{proxy[0]}:{proxy[1]}/api/v1/pods"
    async with ClientSession() as session, session.get(url, ssl=context_of("alice")) as answer:
        assert answer.status == 200
        with pytest.raises(ClientPayloadError):
            await answer.read()


@pytest.mark.parametrize("kind", ["length", "chunk", "chunk boundary", "last chunk"])
async def test_a_polite_goodbye_does_not_complete_half_an_answer(
    api: ScriptedApiServer, client: HttpClient, kind: str
) -> None:
    async def leave(connection: ScriptedConnection, request: SeenRequest) -> None:
        await connection.send(HEAD_AND_HALF[kind])
        connection.close()

    api.script = leave
    with pytest.raises(Cut):
        await client.request()


async def test_a_broken_chunk_cuts_the_answer(api: ScriptedApiServer, client: HttpClient) -> None:
    async def garble(connection: ScriptedConnection, request: SeenRequest) -> None:
        await connection.send(HEAD_AND_HALF["chunk boundary"] + b"oops\r\n")
        await connection.reader.read()

    api.script = garble
    with pytest.raises(Cut):
        await client.request()

    await eventually(lambda: api.open_forwarding == 0)


@pytest.mark.parametrize("way", ["cut", "goodbye", "half a head", "after an interim head"])
async def test_no_answer_at_all_is_a_502(
    api: ScriptedApiServer, client: HttpClient, way: str
) -> None:
    async def fail(connection: ScriptedConnection, request: SeenRequest) -> None:
        if way == "half a head":
            await connection.send(b"HTTP/1.1 200 OK\r\nContent-Le")
        elif way == "after an interim head":
            await connection.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        if way == "goodbye":
            connection.close()
        else:
            await connection.cut()

    api.script = fail
    answer = await client.request("POST", body=b"x")

    assert status_of(answer) == (502, "InternalError", 502)
    assert answer.values("retry-after") == []
    assert len(api.requests) == 1
    api.script = echo
    assert (await client.request()).status == 200


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(b"hello\r\n\r\n", id="not HTTP"),
        pytest.param(b"HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n", id="HTTP/2.0"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n", id="two lengths"
        ),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            id="length and coding",
        ),
        pytest.param(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", id="gzip"),
        pytest.param(b"HTTP/1.1 200 OK\r\nX: a\nY: b\r\n\r\n", id="bare line feed"),
        pytest.param(
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
            id="switching protocols unasked",
        ),
        pytest.param(b"X: y\r\n" * 200_000, id="an endless head"),
    ],
)
async def test_an_answer_that_is_not_http_is_a_502(
    api: ScriptedApiServer, client: HttpClient, head: bytes
) -> None:
    async def answer(connection: ScriptedConnection, request: SeenRequest) -> None:
        await connection.send(head)
        await connection.reader.read()

    api.script = answer
    assert status_of(await client.request("POST", body=b"x")) == (502, "InternalError", 502)
    await eventually(lambda: api.open_forwarding == 0)


async def test_bytes_after_an_answer_reach_nobody(
    api: ScriptedApiServer, client: HttpClient
) -> None:
    async def say_more(connection: ScriptedConnection, request: SeenRequest) -> None:
        await connection.respond(b"mine")
        await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nothers")

    api.script = say_more
    answers = [(await client.request()).body for _ in range(5)]

    assert answers == [b"mine"] * 5
    assert len({request.connection for request in api.requests}) == 5


async def test_bytes_together_with_an_answer_reach_nobody(
    api: ScriptedApiServer, client: HttpClient
) -> None:
    async def say_more(connection: ScriptedConnection, request: SeenRequest) -> None:
        await connection.send(
            b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nmineHTTP/1.1 200 OK\r\n"
        )

    api.script = say_more
    answers = [(await client.request()).body for _ in range(3)]

    assert answers == [b"mine"] * 3
    assert len({request.connection for request in api.requests}) == 3


async def test_a_connection_the_api_server_will_close_is_not_used_again(
    api: ScriptedApiServer, client: HttpClient
) -> None:
    async def close(connection: ScriptedConnection, request: SeenRequest) -> None:
        await connection.read_body(request)
        await connection.respond(headers=("Connection: close",))

    api.script = close
    for _ in range(3):
        assert (await client.request("POST", body=b"x")).status == 200

    assert len({request.connection for request in api.requests}) == 3
