"""Several API servers of which the first is hostile.

One that shows a certificate of the cluster's CA is believed: its `allowed: true` is a yes. What it
must not do is more than that: use up memory or time, or move a credential elsewhere.
"""

import asyncio
import gzip
import json
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime, timedelta

import pytest

from tests.scenarios.conftest import Connect, status_of
from tests.scenarios.test_failover import short_rest, url, users
from tests.support.certificates import Certificates
from tests.support.event_loops import eventually
from tests.support.hostile_server import HostileConnection, HostileServer, hostile_server
from tests.support.http_client import Headers, HttpClient
from tests.support.loop_lag import watched_loop
from tests.support.scripted_api_server import (
    OWN_TOKEN,
    Script,
    ScriptedApiServer,
    ScriptedConnection,
    SeenRequest,
    scripted_api_server,
)

__all__ = ["short_rest"]

AS_BOB: Headers = [("Impersonate-User", "bob")]
JSON = "Content-Type: application/json"
YES = json.dumps({"kind": "SubjectAccessReview", "status": {"allowed": True}}).encode()
MEGABYTE = 1 << 20
# Of a review's answer 2 MiB are read. What was sent may be in the buffers of kernel and loops.
MOST_SENT_BYTES = 16 * MEGABYTE


@pytest.fixture
async def second(certificates: Certificates) -> AsyncIterator[ScriptedApiServer]:
    async with scripted_api_server(certificates) as server:
        yield server
        assert server.violations == []


@pytest.fixture
def upstream_settings(api: ScriptedApiServer, second: ScriptedApiServer) -> Mapping[str, object]:
    return {"endpoints": [url(api), url(second)], "connectTimeout": "2s"}


@pytest.fixture
def impersonation_settings() -> dict[str, object]:
    """Nothing is remembered: every impersonated request needs a review."""
    return {"successTTL": "0s", "reviews": {"timeout": "2s"}}


class Sender:
    """A script that sends bytes of its own in answer to reviews, and counts them."""

    def __init__(self, first: bytes, again: bytes = b"") -> None:
        self._first = first
        self._again = again
        self.sent_bytes = 0

    async def __call__(self, connection: ScriptedConnection, request: SeenRequest) -> None:
        await connection.send(self._first)
        self.sent_bytes = len(self._first)
        while self._again:
            await connection.send(self._again)
            self.sent_bytes += len(self._again)
            await asyncio.sleep(0)


def answer(body: bytes, *lines: str, status: str = "201 Created") -> bytes:
    head = "\r\n".join([f"HTTP/1.1 {status}", JSON, f"Content-Length: {len(body)}", *lines])
    return head.encode() + b"\r\n\r\n" + body


HEAD = b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\n"
PADDED = b'{"status":{"allowed":true},"x":"'
ATTACKS: dict[str, Callable[[], Sender]] = {
    "endless body": lambda: Sender(
        HEAD + b"Content-Length: 99999999999\r\n\r\n" + PADDED, b"x" * 65536
    ),
    "endless chunks": lambda: Sender(
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1000\r\n" + b" " * 4096 + b"\r\n"
    ),
    "until the end": lambda: Sender(b"HTTP/1.0 201 Created\r\n\r\n" + PADDED, b"x" * 65536),
    "endless head": lambda: Sender(HEAD, b"X-A: b\r\n" * 1000),
    "informational": lambda: Sender(b"", b"HTTP/1.1 103 Early Hints\r\n\r\n" * 1000),
    "too large a yes": lambda: Sender(answer(PADDED + b"x" * (3 * MEGABYTE) + b'"}')),
    "compressed": lambda: Sender(answer(gzip.compress(YES), "Content-Encoding: gzip")),
    "bomb": lambda: Sender(
        answer(gzip.compress(b" " * (64 * MEGABYTE) + YES), "Content-Encoding: gzip")
    ),
    "garbage": lambda: Sender(b"\0\xff\r\n\r\n"),
    "no JSON": lambda: Sender(answer(b"allowed")),
    "deep JSON": lambda: Sender(answer(b"[" * 100_000)),
    "a number of digits": lambda: Sender(answer(b'{"status":{"allowed":%b}}' % (b"1" * 100_000))),
    "a text": lambda: Sender(answer(YES.replace(b"true", b'"true"'))),
    "other status": lambda: Sender(answer(YES, status="202 Accepted")),
    "not modified": lambda: Sender(answer(b"", status="304 Not Modified")),
    "switch": lambda: Sender(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n" + YES
    ),
}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS.keys())
async def test_what_is_no_plain_answer_to_a_review_refuses_the_request_at_bounded_cost(
    api: ScriptedApiServer, client: HttpClient, attack: Callable[[], Sender]
) -> None:
    api.review_script = sender = attack()

    async with watched_loop() as lag:
        refused = await client.request(headers=AS_BOB)

    assert refused.status in (403, 503)
    assert api.requests == []
    assert sender.sent_bytes < MOST_SENT_BYTES
    assert lag.worst_seconds < 0.5
    api.review_script = None
    assert (await client.request(headers=AS_BOB)).status == 200


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "307 Temporary", "308 Permanent"])
async def test_a_review_is_not_redirected(
    api: ScriptedApiServer, client: HttpClient, certificates: Certificates, status: str
) -> None:
    async def yes(connection: HostileConnection) -> None:
        await connection.send(answer(YES))

    async with hostile_server(certificates.server_context(), yes) as elsewhere:
        location = f"Location: https://127.0.0.1:{elsewhere.port}/"
        api.review_script = Sender(answer(b"", location, status=status))

        assert status_of(await client.request(headers=AS_BOB))[0] == 503
        assert elsewhere.connections == []


async def test_a_response_before_its_review_does_not_answer_it(
    api: ScriptedApiServer, second: ScriptedApiServer, client: HttpClient
) -> None:
    api.access_status = {"allowed": False}
    assert (await client.request(headers=AS_BOB)).status == 403
    reviewing = {one.connection for one in api.reviews} & api.connections.keys()
    assert reviewing

    for number in reviewing:
        await api.connections[number].send(answer(YES))
    await asyncio.sleep(0.1)

    assert (await client.request(headers=AS_BOB)).status == 403
    assert api.requests == second.requests == []


@pytest.mark.parametrize("partial", [b"", b"HTTP/1.1 201 Cr", answer(YES)[:-5]])
async def test_a_review_that_is_cut_off_is_no_yes(
    api: ScriptedApiServer, second: ScriptedApiServer, client: HttpClient, partial: bytes
) -> None:
    """Asked again at the second if no response has begun: a review changes nothing."""
    second.access_status = {"allowed": False}

    async def cut(connection: ScriptedConnection, request: SeenRequest) -> None:
        await connection.send(partial)
        await connection.cut()

    api.review_script = cut

    assert (await client.request(headers=AS_BOB)).status in (403, 503)
    assert api.requests == second.requests == []


async def test_an_endpoint_that_never_answers_reviews_delays_nobody_else(
    api: ScriptedApiServer, connect: Connect
) -> None:
    """Reviews end at their timeout; who acts as itself needs none."""

    async def hang(connection: ScriptedConnection, request: SeenRequest) -> None:
        await connection.reader.read()

    api.review_script = hang
    async with connect() as one, connect("dora") as two:
        waiting = asyncio.ensure_future(one.request(headers=AS_BOB))
        await eventually(lambda: api.reviews)
        async with asyncio.timeout(1):
            for _ in range(20):
                assert (await two.request()).status == 200
        async with asyncio.timeout(5):
            assert status_of(await waiting)[0] == 503


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize(
    "partial",
    [b"", b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Le", b"garbage\r\n\r\n"],
    ids=["nothing", "informational", "half a head", "garbage"],
)
async def test_a_write_that_may_have_been_done_is_not_done_again_elsewhere(
    api: ScriptedApiServer,
    second: ScriptedApiServer,
    client: HttpClient,
    method: str,
    partial: bytes,
) -> None:
    assert (await client.request()).status == 200  # so that its connection is used again
    api.requests.clear()

    async def take_and_cut(connection: ScriptedConnection, request: SeenRequest) -> None:
        await connection.read_body(request)
        await connection.send(partial)
        await connection.cut()

    api.script = take_and_cut
    refused = await client.request(method, body=b"x")

    assert status_of(refused)[0] == 502
    assert refused.values("retry-after") == []
    assert (len(api.requests), second.requests) == (1, [])


def stale_context(certificates: Certificates) -> ssl.SSLContext:
    now = datetime.now(UTC)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificates.servers.issue_cert(
        "127.0.0.1", not_before=now - timedelta(days=2), not_after=now - timedelta(days=1)
    ).configure_cert(context)
    return context


def misnamed_context(certificates: Certificates) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificates.servers.issue_cert("127.0.0.2", "localhost").configure_cert(context)
    return context


def client_context(certificates: Certificates) -> ssl.SSLContext:
    """A user of the cluster, who shows its own certificate as a server's."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificates.clients.issue_cert("127.0.0.1").configure_cert(context)
    return context


@pytest.mark.parametrize("context_by", [stale_context, misnamed_context, client_context])
class TestACertificateThatDoesNotVerify:
    @pytest.fixture
    async def hostile(
        self, certificates: Certificates, context_by: Callable[[Certificates], ssl.SSLContext]
    ) -> AsyncIterator[HostileServer]:
        async with hostile_server(context_by(certificates)) as server:
            yield server

    @pytest.fixture
    def upstream_settings(
        self, hostile: HostileServer, api: ScriptedApiServer
    ) -> Mapping[str, object]:
        return {"endpoints": [f"https://127.0.0.1:{hostile.port}", url(api)]}

    async def test_it_is_sent_no_byte_of_a_request_and_others_serve(
        self, hostile: HostileServer, api: ScriptedApiServer, client: HttpClient
    ) -> None:
        for headers in ([], AS_BOB):
            assert (await client.request("POST", headers=headers, body=b"x")).status == 200

        assert users(api) == ["alice", "bob"]
        assert hostile.requests == []


async def test_an_answer_to_a_forwarded_request_is_bytes_for_its_client(
    api: ScriptedApiServer, second: ScriptedApiServer, client: HttpClient
) -> None:
    """A redirect of a forwarded request is the client's to follow, with its own credential."""

    async def elsewhere(connection: ScriptedConnection, request: SeenRequest) -> None:
        location = f"Location: {url(second)}/steal"
        await connection.respond(b"", status="307 Temporary Redirect", headers=(location,))

    api.script = elsewhere
    told = await client.request("POST", body=b"x")

    assert (told.status, second.requests) == (307, [])
    assert OWN_TOKEN not in str(told)


async def test_by_definition_an_endpoint_of_the_cluster_s_ca_is_believed(
    api: ScriptedApiServer, client: HttpClient
) -> None:
    """The limit L13 of the threat model: who has such a certificate decides."""
    script: Script = Sender(answer(YES))
    api.review_script = script

    assert (await client.request(headers=AS_BOB)).status == 200
    assert users(api) == ["bob"]
