"""Bodies are opaque: the same bytes by SHA-256 on both sides, whatever they are said to be."""

import asyncio
import gzip
import hashlib
import random
import zlib
from collections.abc import AsyncIterator

import pytest

from tests.scenarios.conftest import Connect
from tests.support.http_client import HttpClient, request_bytes
from tests.support.scripted_api_server import ScriptedApiServer, ScriptedConnection, SeenRequest
from tests.support.sizes import sized, soak

TEXT = b'{"kind":"List","items":[]}' * 400
LARGE_BYTES = sized(20_000_000, full=300_000_000)
PIECE = random.Random(1).randbytes(1_000_000)
# The envelope of Kubernetes' protobuf, then bytes of any value.
PROTOBUF = b"k8s\x00" + bytes(range(256)) * 30

BODIES = [
    pytest.param("gzip", gzip.compress(TEXT), id="gzip"),
    pytest.param("gzip", gzip.compress(b"one") + gzip.compress(b"two"), id="gzip of two members"),
    pytest.param("deflate", zlib.compress(TEXT), id="deflate"),
    pytest.param("br", PIECE[:5000], id="brotli, or so it says"),
    pytest.param("gzip", b"not gzip at all", id="gzip that is none"),
    pytest.param("x-unheard-of, gzip", gzip.compress(TEXT), id="an unknown coding"),
    pytest.param(None, PROTOBUF, id="protobuf"),
    pytest.param(None, b"", id="nothing"),
    pytest.param("gzip", b"", id="nothing, as gzip"),
]


def chunked(body: bytes, size: int) -> bytes:
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(one), one) for one in pieces) + b"0\r\n\r\n"


@pytest.mark.parametrize("is_chunked", [False, True], ids=["length", "chunked"])
@pytest.mark.parametrize(("coding", "body"), BODIES)
async def test_an_encoded_body_crosses_as_it_is(
    api: ScriptedApiServer, client: HttpClient, coding: str | None, body: bytes, is_chunked: object
) -> None:
    received: list[bytes] = []
    named = [("Content-Encoding", coding)] if coding else []
    framed = ("Transfer-Encoding", "chunked") if is_chunked else ("Content-Length", str(len(body)))
    wire = chunked(body, 700) if is_chunked else body

    async def reflect(connection: ScriptedConnection, request: SeenRequest) -> None:
        received.append(await connection.read_body(request))
        lines = [f"{name}: {value}" for name, value in (*named, framed)]
        await connection.send("\r\n".join(["HTTP/1.1 200 OK", *lines, "", ""]).encode() + wire)

    api.script = reflect
    await client.send(request_bytes("PUT", headers=[*named, framed]) + wire)
    answer = await client.read_response()

    assert received == [body]
    assert answer.body == body
    assert api.requests[0].values("content-encoding") == [value for _, value in named]
    assert answer.values("content-encoding") == [value for _, value in named]
    assert answer.values(framed[0]) == [framed[1]]


async def test_each_member_of_a_gzipped_stream_comes_at_once(
    api: ScriptedApiServer, client: HttpClient
) -> None:
    """A compressed watch-list: one gzip member a flush."""
    members = [gzip.compress(f"event {number}\n".encode()) for number in range(20)]
    go_on = asyncio.Semaphore(0)

    async def stream(connection: ScriptedConnection, request: SeenRequest) -> None:
        await connection.send(
            b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        for member in members:
            await go_on.acquire()
            await connection.send(b"%x\r\n%b\r\n" % (len(member), member))
        await connection.send(b"0\r\n\r\n")

    api.script = stream
    await client.send(request_bytes(target="/api/v1/pods?watch=1&sendInitialEvents=true"))
    assert (await client.read_head()).values("content-encoding") == ["gzip"]
    for member in members:
        go_on.release()
        size = int(await client.read_until(b"\r\n"), 16)
        assert await client.read_exactly(size) == member
        await client.read_until(b"\r\n")


ACCEPTING = [
    pytest.param([], id="nothing"),
    pytest.param([("Accept-Encoding", "gzip")], id="gzip"),
    pytest.param([("accept-encoding", "identity;q=0, br ,gzip;q=1.0")], id="odd spelling"),
    pytest.param([("Accept-Encoding", "gzip"), ("Accept-Encoding", "br")], id="two lines"),
    pytest.param([("Accept-Encoding", "")], id="an empty line"),
    pytest.param([("Accept", "application/cbor"), ("User-Agent", "k/1")], id="other headers"),
]


@pytest.mark.parametrize("headers", ACCEPTING)
async def test_what_a_client_accepts_arrives_as_it_wrote_it(
    api: ScriptedApiServer, client: HttpClient, headers: list[tuple[str, str]]
) -> None:
    await client.request("POST", headers=headers, body=b"x")

    usual = {"accept", "accept-encoding", "accept-language", "user-agent", "content-type", "date"}
    assert [line for line in api.requests[0].headers if line[0].lower() in usual] == headers


async def test_nothing_is_added_to_an_answer(api: ScriptedApiServer, client: HttpClient) -> None:
    async def answer_barely(connection: ScriptedConnection, request: SeenRequest) -> None:
        await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    api.script = answer_barely
    answer = await client.request()

    assert [name for name, _ in answer.headers] == ["Content-Length", "Audit-Id"]


async def test_ranges_and_conditions_pass_untouched(
    api: ScriptedApiServer, client: HttpClient
) -> None:
    asked = [
        ("Range", "bytes=1-3,7-"),
        ("If-Range", '"a"'),
        ("If-None-Match", 'W/"b", "c"'),
        ("If-Modified-Since", "Mon, 16 Nov 2026 08:00:00 GMT"),
    ]
    told = ("Content-Range: bytes 1-3/9", 'ETag: W/"b"', "Accept-Ranges: bytes")

    async def answer_partly(connection: ScriptedConnection, request: SeenRequest) -> None:
        await connection.respond(b"bcd", status="206 Partial Content", headers=told)

    api.script = answer_partly
    answer = await client.request(headers=asked)

    assert [line for line in api.requests[0].headers if line in asked] == asked
    assert (answer.status, answer.body) == (206, b"bcd")
    assert [f"{name}: {value}" for name, value in answer.headers[:3]] == list(told)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_no_redirect_is_followed(
    api: ScriptedApiServer, connect: Connect, status: int
) -> None:
    async def redirect(connection: ScriptedConnection, request: SeenRequest) -> None:
        host, port = api.address
        await connection.read_body(request)
        await connection.respond(
            b"", status=f"{status} Go", headers=(f"Location: https://{host}:{port}/stolen",)
        )

    api.script = redirect
    async with connect() as client:
        answers = [await client.request("POST", body=b"x"), await client.request("GET", "/openapi")]

    assert [answer.status for answer in answers] == [status, status]
    assert all(answer.values("location")[0].endswith("/stolen") for answer in answers)
    assert [request.target for request in api.requests] == ["/api/v1/pods", "/openapi"]


async def test_the_trailers_of_an_answer_stay_here(
    api: ScriptedApiServer, client: HttpClient
) -> None:
    async def answer(connection: ScriptedConnection, request: SeenRequest) -> None:
        await connection.send(
            b"HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"5;e=1\r\nhello\r\n0\r\nX-Sum: 1\r\nSet-Cookie: a\r\n\r\n"
        )

    api.script = answer
    for _ in range(2):
        await client.send(request_bytes(headers=[("TE", "trailers")]))
        head = await client.read_head()

        assert head.values("trailer") == []
        assert await client.read_until(b"0\r\n\r\n") == b"5\r\nhello\r\n0\r\n\r\n"
    assert len({request.connection for request in api.requests}) == 1


async def pieces_of_a_large_body() -> AsyncIterator[bytes]:
    for _ in range(LARGE_BYTES // len(PIECE)):
        yield PIECE
        await asyncio.sleep(0)


def large_digest() -> str:
    digest = hashlib.sha256()
    for _ in range(LARGE_BYTES // len(PIECE)):
        digest.update(PIECE)
    return digest.hexdigest()


@soak
@pytest.mark.timeout(120)
@pytest.mark.parametrize("is_chunked", [False, True], ids=["length", "chunked"])
async def test_a_large_body_is_the_same_on_both_sides(
    api: ScriptedApiServer, client: HttpClient, is_chunked: object
) -> None:
    framed = (
        ("Transfer-Encoding", "chunked") if is_chunked else ("Content-Length", str(LARGE_BYTES))
    )
    digests: list[str] = []

    async def reflect(connection: ScriptedConnection, request: SeenRequest) -> None:
        digest = hashlib.sha256()
        async for piece in read_pieces(connection, chunked=bool(is_chunked)):
            digest.update(piece)
        digests.append(digest.hexdigest())
        await connection.send(f"HTTP/1.1 200 OK\r\n{framed[0]}: {framed[1]}\r\n\r\n".encode())
        async for piece in pieces_of_a_large_body():
            await connection.send(frame(piece) if is_chunked else piece)
        await connection.send(b"0\r\n\r\n" if is_chunked else b"")

    api.script = reflect
    await client.send(request_bytes("PUT", headers=[framed]))
    async for piece in pieces_of_a_large_body():
        await client.send(frame(piece) if is_chunked else piece)
    await client.send(b"0\r\n\r\n" if is_chunked else b"")
    answer = await client.read_response()

    assert digests == [large_digest()]
    assert hashlib.sha256(answer.body).hexdigest() == digests[0]


def frame(piece: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(piece), piece)


async def read_pieces(connection: ScriptedConnection, *, chunked: bool) -> AsyncIterator[bytes]:
    if not chunked:
        for _ in range(LARGE_BYTES // len(PIECE)):
            yield await connection.reader.readexactly(len(PIECE))
        return
    while size := int(await connection.reader.readuntil(b"\r\n"), 16):
        yield await connection.reader.readexactly(size)
        await connection.reader.readexactly(2)
    await connection.reader.readexactly(2)
