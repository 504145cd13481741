"""What a client sends arrives, what the API server answers comes back, byte for byte."""

import asyncio
import hashlib
import json
import random

import pytest

from tests.scenarios.conftest import Connect
from tests.support.http_client import HttpClient, request_bytes
from tests.support.scripted_api_server import (
    ScriptedApiServer,
    ScriptedConnection,
    SeenRequest,
    echo,
)


def noise(size: int) -> bytes:
    return random.Random(size).randbytes(size)


def chunks_of(body: bytes, size: int) -> bytes:
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(one), one) for one in pieces) + b"0\r\n\r\n"


async def test_requests_share_a_connection_on_both_sides(
    api: ScriptedApiServer, connect: Connect
) -> None:
    async with connect() as client:
        answers = [await client.request(target=f"/api/v1/pods/{number}") for number in range(20)]

    assert [json.loads(answer.body)["target"] for answer in answers] == [
        f"/api/v1/pods/{number}" for number in range(20)
    ]
    assert {json.loads(answer.body)["user"] for answer in answers} == {"alice"}
    assert len({request.connection for request in api.requests}) == 1


async def test_pipelined_requests_are_answered_in_order(
    api: ScriptedApiServer, connect: Connect
) -> None:
    async with connect() as client:
        await client.send(
            b"".join(
                request_bytes("POST", f"/api/v1/n/{number}", body=b"x" * number)
                for number in range(1, 30)
            )
        )
        answers = [json.loads((await client.read_response()).body) for _ in range(1, 30)]

    assert [(answer["target"], answer["bytes"]) for answer in answers] == [
        (f"/api/v1/n/{number}", number) for number in range(1, 30)
    ]


@pytest.mark.parametrize("up", ["length", "chunked"])
@pytest.mark.parametrize("down", ["length", "chunked", "until close"])
async def test_bodies_cross_unchanged_both_ways(
    api: ScriptedApiServer, client: HttpClient, up: str, down: str
) -> None:
    digests: list[str] = []

    async def reflect(connection: ScriptedConnection, request: SeenRequest) -> None:
        received = await connection.read_body(request)
        digests.append(hashlib.sha256(received).hexdigest())
        if down == "length":
            await connection.respond(received)
        elif down == "chunked":
            await connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            await connection.send(chunks_of(received, 70_001))
        else:
            await connection.send(b"HTTP/1.1 200 OK\r\n\r\n" + received)
            connection.close()

    api.script = reflect
    bodies = [noise(size) for size in (0, 1, 65_536, 3_000_001)]
    for body in bodies:
        if up == "length":
            length = [("Content-Length", str(len(body)))]
            await client.send(request_bytes("PUT", headers=length) + body)
        else:
            headers = [("Transfer-Encoding", "chunked")]
            await client.send(request_bytes("PUT", headers=headers) + chunks_of(body, 12_345))
        assert (await client.read_response()).body == body

    assert digests == [hashlib.sha256(body).hexdigest() for body in bodies]


async def test_the_target_is_forwarded_as_it_came(api: ScriptedApiServer, connect: Connect) -> None:
    target = "/api/v1/namespaces/a/pods/%7Ep/../x//y?labelSelector=a%3Db&x=&watch=0"
    async with connect() as client:
        await client.request(target=target)

    assert [request.target for request in api.requests] == [target]


@pytest.mark.parametrize(
    ("method", "status", "headers"),
    [
        ("HEAD", "200 OK", ("Content-Length: 12345", 'ETag: "a"')),
        ("GET", "204 No Content", ()),
        ("GET", "304 Not Modified", ('ETag: "a"', "Content-Length: 12345")),
        ("DELETE", "204 No Content", ("X: y",)),
    ],
)
async def test_an_answer_without_a_body_leaves_the_connection_usable(
    api: ScriptedApiServer, connect: Connect, method: str, status: str, headers: tuple[str, ...]
) -> None:
    async def answer(connection: ScriptedConnection, request: SeenRequest) -> None:
        await connection.send("\r\n".join([f"HTTP/1.1 {status}", *headers, "", ""]).encode())

    api.script = answer
    async with connect() as client:
        answers = [await client.request(method) for _ in range(3)]

    for received in answers:
        assert received.status == int(status[:3])
        assert received.body == b""
        assert [f"{name}: {value}" for name, value in received.headers[:-1]] == list(headers)
    assert len({request.connection for request in api.requests}) == 1


async def test_headers_with_several_values_keep_count_and_order(
    api: ScriptedApiServer, connect: Connect
) -> None:
    sent = [("X-Stream-Protocol-Version", f"v{number}") for number in range(5)]
    returned = ('Warning: 299 - "b"', "Set-Cookie: a", 'Warning: 299 - "a"', "warning: 299 - c")

    async def answer(connection: ScriptedConnection, request: SeenRequest) -> None:
        await connection.respond(headers=returned)

    api.script = answer
    async with connect() as client:
        received = await client.request(headers=sent)

    assert received.values("warning") == ['299 - "b"', '299 - "a"', "299 - c"]
    assert received.values("set-cookie") == ["a"]
    assert api.requests[0].values("x-stream-protocol-version") == ["v0", "v1", "v2", "v3", "v4"]


async def test_each_piece_of_an_answer_comes_at_once(
    api: ScriptedApiServer, connect: Connect
) -> None:
    """A watch: the head before any event, each event before the next one exists."""
    go_on = asyncio.Semaphore(0)

    async def watch(connection: ScriptedConnection, request: SeenRequest) -> None:
        await connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for event in (b"one\n", b"two\n"):
            await go_on.acquire()
            await connection.send(b"4\r\n" + event + b"\r\n")
        await go_on.acquire()
        await connection.send(b"0\r\n\r\n")

    api.script = watch
    async with connect() as client:
        await client.send(request_bytes(target="/api/v1/pods?watch=1"))
        assert (await client.read_head()).status == 200
        for event in (b"one\n", b"two\n"):
            go_on.release()
            assert await client.read_until(b"\n\r\n") == b"4\r\n" + event + b"\r\n"
        go_on.release()
        assert await client.read_until(b"\r\n\r\n") == b"0\r\n\r\n"
        api.script = echo
        assert (await client.request()).status == 200


@pytest.mark.parametrize(
    "interim",
    [
        "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n",
    ],
)
@pytest.mark.parametrize("is_split", [False, True], ids=["together", "apart"])
async def test_interim_heads_stay_here(
    api: ScriptedApiServer, connect: Connect, interim: str, is_split: object
) -> None:
    async def answer(connection: ScriptedConnection, request: SeenRequest) -> None:
        final = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
        for piece in [interim, final] if is_split else [interim + final]:
            await connection.send(piece.encode())

    api.script = answer
    async with connect() as client:
        for _ in range(2):
            received = await client.request()
            assert (received.status, received.body) == (200, b"ok")


async def test_errors_of_the_api_server_pass_unchanged(
    api: ScriptedApiServer, connect: Connect
) -> None:
    headers = ("Retry-After: 7", "X-Kubernetes-PF-FlowSchema-UID: a", "Content-Type: text/plain")

    async def throttle(connection: ScriptedConnection, request: SeenRequest) -> None:
        await connection.respond(b"slow down", status="429 Too Many Requests", headers=headers)

    api.script = throttle
    async with connect() as client:
        received = await client.request()

    assert (received.status, received.body) == (429, b"slow down")
    assert [f"{name}: {value}" for name, value in received.headers[:3]] == list(headers)
