"""Every refusal of ours is a Status, also of what cannot be read as a request at all."""

import asyncio
import shutil
import subprocess

import pytest

from tests.scenarios.conftest import Connect, status_of
from tests.support.certificates import Certificates
from tests.support.http_client import HttpClient, connected
from tests.support.scripted_api_server import ScriptedApiServer

HOST = b"Host: a\r\n"
MANY_HEADERS = b"".join(b"X-%d: y\r\n" % number for number in range(4097))


def head(line: bytes, headers: bytes = HOST) -> bytes:
    return line + b"\r\n" + headers + b"\r\n"


UNREADABLE = {
    "no request line": (b"nonsense\r\n\r\n", 400, "BadRequest"),
    "an empty head": (b"\r\n\r\n", 400, "BadRequest"),
    "HTTP/2 without being asked": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, "BadRequest"),
    "HTTP/0.9": (b"GET /\r\n\r\n", 400, "BadRequest"),
    "an unknown method": (head(b"TRACE / HTTP/1.1"), 400, "BadRequest"),
    "CONNECT": (head(b"CONNECT a:443 HTTP/1.1"), 400, "BadRequest"),
    "no Host": (head(b"GET / HTTP/1.1", b"X: y\r\n"), 400, "BadRequest"),
    "two Hosts": (head(b"GET / HTTP/1.1", HOST * 2), 400, "BadRequest"),
    "a folded header": (head(b"GET / HTTP/1.1", HOST + b"X: a\r\n b\r\n"), 400, "BadRequest"),
    "a blank before the colon": (
        head(b"GET / HTTP/1.1", HOST + b"Impersonate-User : a\r\n"),
        400,
        "BadRequest",
    ),
    "length and chunks": (
        head(b"POST / HTTP/1.1", HOST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"),
        400,
        "BadRequest",
    ),
    "another coding": (
        head(b"POST / HTTP/1.1", HOST + b"Transfer-Encoding: gzip, chunked\r\n"),
        400,
        "BadRequest",
    ),
    "another expectation": (
        head(b"POST / HTTP/1.1", HOST + b"Expect: miracles\r\nContent-Length: 5\r\n"),
        417,
        "ExpectationFailed",
    ),
    "an upgrade to HTTP/2": (
        head(b"GET / HTTP/1.1", HOST + b"Connection: Upgrade\r\nUpgrade: h2c\r\n"),
        400,
        "BadRequest",
    ),
    "too large a header": (
        head(b"GET / HTTP/1.1", HOST + b"X: " + b"x" * 2_000_000 + b"\r\n"),
        431,
        "RequestHeaderFieldsTooLarge",
    ),
    "a head without an end": (
        b"GET / HTTP/1.1\r\nX: " + b"x" * 2_000_000,
        431,
        "RequestHeaderFieldsTooLarge",
    ),
    "too many headers": (
        head(b"GET / HTTP/1.1", HOST + MANY_HEADERS),
        431,
        "RequestHeaderFieldsTooLarge",
    ),
}


@pytest.mark.parametrize("user", ["alice", None], ids=["known", "unknown"])
@pytest.mark.parametrize(
    ("request_head", "code", "reason"), UNREADABLE.values(), ids=UNREADABLE.keys()
)
async def test_what_cannot_be_read_is_refused_with_a_status(
    api: ScriptedApiServer,
    connect: Connect,
    user: str | None,
    request_head: bytes,
    code: int,
    reason: str,
) -> None:
    async with connect(user) as client:
        await client.send(request_head)

        answer = await client.read_response()

        assert status_of(answer) == (code, reason, code)
        assert answer.values("connection") == ["close"]
        assert answer.values("cache-control") == ["no-cache, private"]
        assert await client.read_to_end() == b""
    assert api.requests == []


READABLE = {
    "unknown caller": (None, "/api/v1/pods", [], 401, "Unauthorized"),
    "absolute form": ("alice", "http://a/api", [], 400, "BadRequest"),
    "a timeout without a unit": ("alice", "/api/v1/pods?timeout=5", [], 400, "BadRequest"),
    "the same of an unknown": (None, "/api/v1/pods?timeout=5", [], 400, "BadRequest"),
    "groups without a user": (
        "alice",
        "/api/v1/pods",
        [("Impersonate-Group", "a")],
        400,
        "BadRequest",
    ),
    "a protected group": (
        "alice",
        "/api/v1/pods",
        [("Impersonate-User", "bob"), ("Impersonate-Group", "system:masters")],
        403,
        "Forbidden",
    ),
}


@pytest.mark.parametrize(
    ("user", "target", "headers", "code", "reason"), READABLE.values(), ids=READABLE.keys()
)
async def test_what_is_read_and_refused_is_a_status_and_the_connection_goes_on(
    connect: Connect,
    user: str | None,
    target: str,
    headers: list[tuple[str, str]],
    code: int,
    reason: str,
) -> None:
    async with connect(user) as client:
        answers = [await client.request(target=target, headers=headers) for _ in range(2)]

    for answer in answers:
        assert status_of(answer) == (code, reason, code)
        assert answer.values("connection") == []


@pytest.mark.parametrize(
    "headers",
    [
        [("Authorization", "Bearer " + "x" * 60_000)],
        [("Impersonate-User", "bob"), *[("Impersonate-Group", f"g{n}") for n in range(500)]],
        [("X-Filler", "x" * 100_000)] * 10,
    ],
    ids=["a large token", "500 groups", "a megabyte"],
)
async def test_a_large_head_within_the_limit_is_served(
    api: ScriptedApiServer, client: HttpClient, headers: list[tuple[str, str]]
) -> None:
    assert (await client.request(headers=headers)).status == 200


# --- what is spoken is negotiated --------------------------------------------------------------


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [(["h2", "http/1.1"], "http/1.1"), (["http/1.1"], "http/1.1"), (["h2"], None), (None, None)],
    ids=["both", "HTTP/1.1", "HTTP/2 alone", "nothing"],
)
async def test_only_http_1_1_is_chosen(
    proxy: tuple[str, int],
    certificates: Certificates,
    offered: list[str] | None,
    chosen: str | None,
) -> None:
    context = certificates.client_context("alice")
    if offered is not None:
        context.set_alpn_protocols(offered)

    async with connected(proxy, context) as client:
        assert client.tls.selected_alpn_protocol() == chosen
        assert (await client.request()).status == 200


@pytest.mark.skipif(shutil.which("openssl") is None, reason="the openssl program is not here")
async def test_openssl_sees_no_http_2(proxy: tuple[str, int]) -> None:
    host, port = proxy
    process = await asyncio.create_subprocess_exec(
        *("openssl", "s_client", "-alpn", "h2", "-connect", f"{host}:{port}"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )

    output, _ = await process.communicate()

    assert b"No ALPN negotiated" in output
