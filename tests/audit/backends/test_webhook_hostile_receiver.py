"""The audit webhook's receiver as an attacker: it gets events, and nothing else of the proxy."""

import asyncio
import gzip
import ssl
import tracemalloc
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme

from proxy.audit.backends.buffer import BackendMode
from proxy.audit.backends.webhook import BatchConfig, WebhookBackend
from proxy.audit.backends.webhook_config import WebhookConfigLoader
from proxy.kubeclient.kubeconfig import KubeconfigSource
from tests.audit.backends.test_webhook import QUICK, event
from tests.audit.counting import Counts, limits
from tests.support.audit_receiver import AuditReceiver
from tests.support.certificates import Certificates, new_certificates
from tests.support.event_loops import eventually
from tests.support.hostile_server import (
    Attack,
    HostileConnection,
    HostileServer,
    hostile_server,
)
from tests.support.loop_lag import watched_loop

TOKEN = "a-token-of-the-receiver"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
MEGABYTE = 1 << 20
MOST_ANSWER_BYTES = 64 * 1024
# What was sent may still be in the kernel's buffers, and in those of the two event loops.
MOST_SENT_BYTES = MOST_ANSWER_BYTES + 12 * MEGABYTE


@pytest.fixture(scope="module")
def certificates() -> Certificates:
    return new_certificates()


@pytest.fixture
def counts() -> Counts:
    return Counts()


@pytest.fixture
async def hostile(certificates: Certificates) -> AsyncIterator[HostileServer]:
    async with hostile_server(certificates.server_context()) as server:
        yield server


@asynccontextmanager
async def sending(
    port: int, ca_file: Path, counts: Counts, batching: BatchConfig = QUICK
) -> AsyncIterator[WebhookBackend]:
    """Send events to whatever listens on a port."""
    receiver = AuditReceiver(ssl.create_default_context())
    receiver.port = port
    kubeconfig = receiver.write_kubeconfig(ca_file.parent, ca_file, token=TOKEN)
    source = KubeconfigSource(kubeconfig, lambda: datetime.now(UTC))
    backend = WebhookBackend(
        WebhookConfigLoader(source), limits(BackendMode.BATCH, events=100), batching, counts
    )
    await backend.start()
    try:
        yield backend
    finally:
        await backend.close(0.1)


@pytest.fixture
async def backend(
    hostile: HostileServer, certificates: Certificates, tmp_path: Path, counts: Counts
) -> AsyncIterator[WebhookBackend]:
    ca_file = certificates.write_server_ca(tmp_path)
    async with sending(hostile.port, ca_file, counts) as backend:
        yield backend


def once(data: bytes) -> Attack:
    async def attack(connection: HostileConnection) -> None:
        await connection.send(data)
        await connection.hang()

    return attack


def for_ever(data: bytes, *, first: bytes = b"") -> Attack:
    async def attack(connection: HostileConnection) -> None:
        await connection.send(first)
        await connection.send_for_ever(data)

    return attack


def later(attack: Attack) -> Attack:
    """Answer, and attack when the connection waits for its next call."""

    async def answer_and_attack(connection: HostileConnection) -> None:
        await connection.send(OK)
        await asyncio.sleep(0.1)
        await attack(connection)

    return answer_and_attack


def has_left(hostile: HostileServer) -> bool:
    return all(one.writer.transport.is_closing() for one in hostile.connections)


INFORMATIONAL = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
FLOODS = {
    "body": for_ever(
        b"x" * 65536, first=b"HTTP/1.1 500 Oops\r\nContent-Length: 99999999999\r\n\r\n"
    ),
    "chunks": for_ever(
        b"1000\r\n" + b"x" * 4096 + b"\r\n",
        first=b"HTTP/1.1 500 Oops\r\nTransfer-Encoding: chunked\r\n\r\n",
    ),
    "until the end": for_ever(b"x" * 65536, first=b"HTTP/1.0 500 Oops\r\n\r\n"),
    "status line": for_ever(b"x" * 65536, first=b"HTTP/1.1 200 "),
    "header line": for_ever(b"x" * 65536, first=b"HTTP/1.1 200 OK\r\nX: "),
    "header lines": for_ever(b"Set-Cookie: a=b\r\n" * 1000, first=b"HTTP/1.1 200 OK\r\n"),
    "trailers": for_ever(
        b"X: y\r\n" * 1000,
        first=b"HTTP/1.1 500 Oops\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
    ),
    "informational": for_ever(INFORMATIONAL * 1000),
    "garbage": for_ever(b"\0\xff garbage \r\n" * 5000),
}


@pytest.mark.parametrize("attack", FLOODS.values(), ids=FLOODS.keys())
async def test_a_flood_is_cut_off_soon_and_the_event_is_tried_again(
    hostile: HostileServer, backend: WebhookBackend, counts: Counts, attack: Attack
) -> None:
    hostile.attack = attack

    async with watched_loop() as lag:
        backend.buffer.write(event(1))
        await eventually(lambda: len(hostile.requests) >= 2, seconds=15)
        hostile.attack = once(OK)
        await eventually(lambda: counts.stored == 1, seconds=15)

    assert counts.failures["send"] >= 1
    assert counts.lost == {}
    assert hostile.sent_bytes < MOST_SENT_BYTES
    assert lag.worst_seconds < 0.5


async def test_responses_that_no_call_was_made_for_are_neither_kept_nor_believed(
    hostile: HostileServer, backend: WebhookBackend, counts: Counts
) -> None:
    """Kept, they would fill the memory, and tell the next batches to be stored unseen."""
    hostile.attack = later(for_ever(OK * 1000))
    backend.buffer.write(event(1))
    await eventually(lambda: counts.stored == 1)
    await eventually(lambda: has_left(hostile), seconds=15)

    hostile.attack = once(b"HTTP/1.1 503 Later\r\nContent-Length: 0\r\n\r\n")
    backend.buffer.write(event(2))
    await eventually(lambda: counts.failures["send"] >= 1)

    assert counts.stored == 1
    assert hostile.sent_bytes < MOST_SENT_BYTES


async def test_a_response_before_the_call_does_not_answer_it(
    hostile: HostileServer, backend: WebhookBackend, counts: Counts
) -> None:
    hostile.attack = later(once(OK))
    backend.buffer.write(event(1))
    await eventually(lambda: counts.stored == 1)
    await eventually(lambda: hostile.connections[0].sent_bytes == 2 * len(OK))
    await asyncio.sleep(0.05)

    hostile.attack = once(b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n")
    backend.buffer.write(event(2))
    await eventually(lambda: counts.failures["send"] >= 1)

    assert counts.stored == 1


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd"])
async def test_a_compressed_answer_is_not_unpacked(
    hostile: HostileServer, backend: WebhookBackend, counts: Counts, encoding: str
) -> None:
    bomb = gzip.compress(b"\0" * (64 * MEGABYTE))[:60_000]
    head = (
        f"HTTP/1.1 500 No\r\nContent-Encoding: {encoding}\r\nContent-Length: {len(bomb)}\r\n\r\n"
    ).encode()
    hostile.attack = once(head + bomb)

    tracemalloc.start()
    try:
        async with watched_loop() as lag:
            backend.buffer.write(event(1))
            await eventually(lambda: counts.failures["send"] >= 2)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert b"accept-encoding: identity\r\n" in hostile.requests[0].lower()
    assert peak < 8 * MEGABYTE
    assert lag.worst_seconds < 0.5


async def test_one_byte_a_second_ends_at_the_call_s_deadline(
    hostile: HostileServer, backend: WebhookBackend, counts: Counts
) -> None:
    """The deadline is for the whole call, so bytes that come now and then do not move it."""
    backend._session._timeout = type(backend._session._timeout)(total=0.5)

    async def drip(connection: HostileConnection) -> None:
        for byte in OK * 10:
            await connection.send(bytes((byte,)))
            await asyncio.sleep(0.1)

    hostile.attack = drip
    async with asyncio.timeout(5):
        backend.buffer.write(event(1))
        await eventually(lambda: counts.failures["send"] >= 2)

    assert counts.stored == 0


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("scheme", ["https", "http", "file"])
async def test_a_redirect_is_never_followed(
    hostile: HostileServer,
    backend: WebhookBackend,
    certificates: Certificates,
    counts: Counts,
    status: int,
    scheme: str,
) -> None:
    """Not to the API server, not to a metadata address, not to a file."""
    context = certificates.server_context() if scheme == "https" else None
    async with hostile_server(context, once(OK)) as elsewhere:
        place = "/etc/passwd" if scheme == "file" else f"127.0.0.1:{elsewhere.port}/latest"
        hostile.attack = once(
            f"HTTP/1.1 {status} Go\r\nLocation: {scheme}://{place}\r\n"
            f"Content-Length: 0\r\nRefresh: 0; url={scheme}://{place}\r\n\r\n".encode()
        )
        backend.buffer.write(event(1))
        await eventually(lambda: counts.failures["send"] >= 2)

        assert elsewhere.connections == []
        assert counts.stored == 0


@pytest.mark.parametrize(
    "challenge",
    [
        b"401 Unauthorized\r\nWWW-Authenticate: Basic realm=x",
        b"401 Unauthorized\r\nWWW-Authenticate: Negotiate",
        b"403 Forbidden\r\nWWW-Authenticate: Digest realm=x, nonce=y",
        b"407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=x",
        b"426 Upgrade Required\r\nUpgrade: h2c\r\nConnection: Upgrade",
    ],
    ids=["basic", "negotiate", "digest", "proxy", "upgrade"],
)
async def test_a_challenge_changes_nothing_of_what_is_sent(
    hostile: HostileServer, backend: WebhookBackend, counts: Counts, challenge: bytes
) -> None:
    hostile.attack = once(
        b"HTTP/1.1 " + challenge + b"\r\nSet-Cookie: id=1; Path=/\r\nContent-Length: 0\r\n\r\n"
    )

    backend.buffer.write(event(1))
    await eventually(lambda: len(hostile.requests) >= 3)

    assert len(set(hostile.requests)) == 1
    assert b"cookie" not in hostile.requests[0].lower()
    assert hostile.requests[0].count(TOKEN.encode()) == 1


MALFORMED = [
    b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 0x10\r\n\r\n",
    b"HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/3.0 200 OK\r\nContent-Length: 0\r\n\r\n",
    b"ICY 200 OK\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"200\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01",
]


@pytest.mark.parametrize("answer", MALFORMED, ids=range(len(MALFORMED)))
async def test_a_malformed_head_is_no_success(
    hostile: HostileServer, backend: WebhookBackend, counts: Counts, answer: bytes
) -> None:
    async def attack(connection: HostileConnection) -> None:
        await connection.send(answer)
        connection.writer.close()

    hostile.attack = attack
    backend.buffer.write(event(1))
    await eventually(lambda: counts.failures["send"] >= 2)

    assert counts.stored == 0
    assert counts.lost == {}


async def test_what_a_receiver_says_is_not_written_to_the_log(
    hostile: HostileServer,
    backend: WebhookBackend,
    counts: Counts,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It has just been sent a token: repeated in a broken answer, that would be in the log."""
    echoed = f"Bearer {TOKEN} ".encode() * 50
    answers = [
        echoed + b"\r\n\r\n",
        b"HTTP/1.1 2x0 " + echoed + b"\r\n\r\n",
        b"HTTP/1.1 500 " + echoed + b"\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: " + echoed + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + echoed + b"\r\n\r\n",
    ]

    async def attack(connection: HostileConnection) -> None:
        await connection.send(answers.pop() if answers else OK)
        connection.writer.close()

    hostile.attack = attack
    backend.buffer.write(event(1))
    while answers:
        backend.buffer.is_failing = False  # or only the first failure of a row is told
        await asyncio.sleep(0.001)
    await eventually(lambda: counts.stored)

    assert "audit backend failed" in caplog.messages
    told = " ".join(str(record.__dict__) for record in caplog.records)
    assert TOKEN not in told
    assert len(told) < 10_000


@pytest.mark.parametrize(
    "body", [b"\0garbage\xff\xfe\r\n", b"x" * 100_000], ids=["garbage", "more than is read"]
)
async def test_a_success_with_any_body_is_a_success(
    hostile: HostileServer, backend: WebhookBackend, counts: Counts, body: bytes
) -> None:
    """What a receiver makes of its events is its own matter: the status alone counts."""
    hostile.attack = once(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))

    backend.buffer.write(event(1))
    await eventually(lambda: counts.stored == 1)


async def test_a_reset_in_the_middle_of_a_batch_loses_nothing(
    hostile: HostileServer, backend: WebhookBackend, counts: Counts
) -> None:
    resets = [b"", b"HTTP/1.1 2", b"HTTP/1.1 200 OK\r\nContent-Le"]

    async def attack(connection: HostileConnection) -> None:
        if not resets:
            await connection.send(OK)
            return
        await connection.send(resets.pop())
        connection.writer.transport.abort()

    hostile.attack = attack
    for number in range(10):
        backend.buffer.write(event(number))
    await eventually(lambda: counts.stored == 10)

    assert counts.failures["send"] == 3
    bodies = {request.partition(b"\r\n\r\n")[2] for request in hostile.requests}
    assert len(bodies) == 1  # the same batch, each time


def stale_context(certificates: Certificates) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    leaf = certificates.servers.issue_cert(
        "127.0.0.1", not_before=datetime.now(UTC) - timedelta(days=2), not_after=_yesterday()
    )
    leaf.configure_cert(context)
    return context


def _yesterday() -> datetime:
    return datetime.now(UTC) - timedelta(days=1)


def misnamed_context(certificates: Certificates) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificates.servers.issue_cert("127.0.0.2", "localhost").configure_cert(context)
    return context


def self_signed_context(_: Certificates) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    return context


@pytest.mark.parametrize("context", [stale_context, misnamed_context, self_signed_context])
async def test_a_certificate_that_does_not_verify_gets_no_event_and_no_token(
    certificates: Certificates,
    counts: Counts,
    tmp_path: Path,
    context: Callable[[Certificates], ssl.SSLContext],
) -> None:
    ca_file = certificates.write_server_ca(tmp_path)
    async with (
        hostile_server(context(certificates), once(OK)) as hostile,
        sending(hostile.port, ca_file, counts) as backend,
    ):
        backend.buffer.write(event(1))
        await eventually(lambda: counts.failures["send"] >= 2)

        assert hostile.requests == []
    assert counts.lost == {"shutdown": 1}


async def test_an_address_that_was_taken_over_gets_no_event(
    certificates: Certificates, counts: Counts, tmp_path: Path
) -> None:
    """The receiver's certificate is verified again with each connection."""
    ca_file = certificates.write_server_ca(tmp_path)
    async with AsyncExitStack() as stack:
        honest = hostile_server(certificates.server_context(), once(OK))
        port = (await honest.__aenter__()).port
        backend = await stack.enter_async_context(sending(port, ca_file, counts))
        backend.buffer.write(event(1))
        await eventually(lambda: counts.stored == 1)
        await honest.__aexit__(None, None, None)

        stranger = await stack.enter_async_context(
            hostile_server(self_signed_context(certificates), once(OK), port=port)
        )
        backend.buffer.write(event(2))
        await eventually(lambda: counts.failures["send"] >= 2)

        assert stranger.requests == []
    assert (counts.stored, counts.lost) == (1, {"shutdown": 1})


async def test_a_receiver_that_says_bad_request_for_ever_costs_those_events_and_they_are_counted(
    hostile: HostileServer, certificates: Certificates, tmp_path: Path, counts: Counts
) -> None:
    hostile.attack = once(b"HTTP/1.1 400 Bad\r\nContent-Length: 0\r\n\r\n")
    ca_file = certificates.write_server_ca(tmp_path)
    quick = BatchConfig(10, 0.05, 1000, 1000, 0.005)
    async with sending(hostile.port, ca_file, counts, quick) as backend:
        for number in range(10):
            backend.buffer.write(event(number))
        await eventually(lambda: counts.lost["refused"] == 10)

        assert len(backend.buffer) == 0
        assert counts.failures["send"] == 5
