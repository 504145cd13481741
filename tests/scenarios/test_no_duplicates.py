"""Faults at every moment of an exchange: nothing that may have been done is ever done twice."""

import asyncio
from collections import Counter
from itertools import product

import pytest

from tests.scenarios.conftest import Connect
from tests.support.http_client import Cut
from tests.support.scripted_api_server import (
    Script,
    ScriptedApiServer,
    ScriptedConnection,
    SeenRequest,
    echo,
)

WRITES = ("POST", "PUT", "PATCH", "DELETE")


async def cut_after_the_head(connection: ScriptedConnection, _request: SeenRequest) -> None:
    await connection.cut()


async def cut_after_the_body(connection: ScriptedConnection, request: SeenRequest) -> None:
    await connection.read_body(request)
    await connection.cut()


async def goodbye_after_the_body(connection: ScriptedConnection, request: SeenRequest) -> None:
    await connection.read_body(request)
    connection.close()


async def cut_in_the_answer_s_head(connection: ScriptedConnection, request: SeenRequest) -> None:
    await connection.read_body(request)
    await connection.send(b"HTTP/1.1 200 OK\r\nContent-")
    await connection.cut()


async def cut_in_the_answer_s_body(connection: ScriptedConnection, request: SeenRequest) -> None:
    await connection.read_body(request)
    await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
    await connection.cut()


async def nonsense(connection: ScriptedConnection, request: SeenRequest) -> None:
    await connection.read_body(request)
    await connection.send(b"SMTP 220 hello\r\n\r\n")


BEFORE_ANY_ANSWER: list[Script] = [cut_after_the_head, cut_after_the_body, goodbye_after_the_body]
FAULTS: list[Script] = [
    *BEFORE_ANY_ANSWER,
    cut_in_the_answer_s_head,
    cut_in_the_answer_s_body,
    nonsense,
]


async def send_once(connect: Connect, method: str, target: str, body: bytes) -> str:
    """Send one request and tell what the client made of it."""
    async with connect() as client:
        try:
            answer = await client.request(method, target, body=body)
        except Cut:
            return "cut"
        assert answer.values("retry-after") == []
        return str(answer.status)


@pytest.mark.parametrize("is_reused", [False, True], ids=["new", "reused"])
async def test_a_write_is_seen_once_whatever_happens(
    api: ScriptedApiServer, connect: Connect, *, is_reused: bool
) -> None:
    outcomes = {}
    for number, (method, fault, body) in enumerate(product(WRITES, FAULTS, (b"", b"x" * 10))):
        if is_reused:
            api.script = echo
            assert await send_once(connect, "GET", "/api", b"") == "200"
        api.script = fault
        target = f"/api/v1/namespaces/a/configmaps/{number}"
        outcomes[target] = await send_once(connect, method, target, body)

    seen = Counter(request.target for request in api.requests if request.target in outcomes)
    assert seen == Counter(outcomes.keys())
    assert set(outcomes.values()) == {"502", "cut"}


async def test_a_read_is_repeated_once_and_only_before_any_answer(
    api: ScriptedApiServer, connect: Connect
) -> None:
    expected = {}
    for number, (fault, is_reused) in enumerate(product(FAULTS, (False, True))):
        if is_reused:
            api.script = echo
            assert await send_once(connect, "GET", "/api", b"") == "200"
        else:
            await forget_connections(api)
        api.script = fault
        target = f"/api/v1/namespaces/a/configmaps/{number}"
        await send_once(connect, "GET", target, b"")
        expected[target] = 2 if is_reused and fault in BEFORE_ANY_ANSWER else 1

    seen = Counter(request.target for request in api.requests if request.target in expected)
    assert seen == expected


async def forget_connections(api: ScriptedApiServer) -> None:
    """Let the proxy have no connection to use again."""
    for number in list(api.forwarding & api.connections.keys()):
        api.connections[number].close()
    async with asyncio.timeout(10):
        while api.open_forwarding:  # noqa: ASYNC110 - only its connections tell
            await asyncio.sleep(0.01)
