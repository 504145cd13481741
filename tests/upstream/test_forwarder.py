"""Forwarding, where the moment matters: who has left meanwhile, and which connection has."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import pytest

from proxy.concurrency.task_set import TaskSet
from proxy.core.errors import (
    Forbidden,
    InternalError,
    StatusError,
    UpstreamUnavailable,
)
from proxy.core.forwarding import IdentityInvariantError
from proxy.core.impersonation.permit import Permit, permit_self
from proxy.core.userinfo import Caller, UserInfo
from proxy.serving.limits.connections import ConnectionLimits
from proxy.serving.limits.unauthenticated_memory import UnauthenticatedMemoryBudget
from proxy.serving.listener import Listener
from proxy.upstream.auth_errors import CredentialStatus
from proxy.upstream.connection import UpstreamConnection
from proxy.upstream.endpoints import Endpoint, EndpointSet
from proxy.upstream.forwarder import Forwarder
from proxy.upstream.pool import ConnectionPool
from proxy.wire.exchange import ClientExchange
from tests.support.certificates import Certificates, new_certificates
from tests.support.event_loops import eventually
from tests.support.http_client import connected, request_bytes
from tests.support.scripted_api_server import (
    OWN_TOKEN,
    ScriptedApiServer,
    ScriptedConnection,
    SeenRequest,
    scripted_api_server,
)
from tests.upstream.denials import no_denials


class GatedPool(ConnectionPool):
    """A pool that opens connections only when it is let, and may hand out one that has ended."""

    gate: asyncio.Event
    hands_out_ended = False
    fails_with: Exception | None = None

    async def connect(self) -> UpstreamConnection:
        await self.gate.wait()
        if self.fails_with is not None:
            raise self.fails_with
        connection = await super().connect()
        if self.hands_out_ended:
            connection.close()
        return connection


class OwnIdentity:
    """Our own credential, which is always in good standing."""

    version = 1

    def __init__(self, api: ScriptedApiServer, certificates: Certificates) -> None:
        self.denials = no_denials()
        self.authorization: bytes | None = f"Bearer {OWN_TOKEN}".encode()
        self.endpoints = (Endpoint(*api.address, "127.0.0.1", certificates.client_context()),)

    def check(
        self, endpoint: Endpoint, version: int, tell: Callable[[CredentialStatus], None]
    ) -> None:
        tell(CredentialStatus.ACCEPTED)


class Proxy:
    """The two sides of the data path with nothing decided between them: everybody is alice."""

    def __init__(self, api: ScriptedApiServer, certificates: Certificates) -> None:
        clock = asyncio.get_running_loop().time
        self.credential = OwnIdentity(api, certificates)
        self.failures: list[BaseException] = []
        self.tasks = TaskSet(self.failures.append)
        self.pool = GatedPool(
            EndpointSet(self.credential, clock),
            connect_timeout_seconds=5,
            clock=clock,
            tasks=self.tasks,
        )
        self.pool.gate = asyncio.Event()
        self.pool.gate.set()
        self.forwarder = Forwarder(
            self.pool,
            self.credential,
            self.credential,
            response_timeout_seconds=5,
            tasks=self.tasks,
        )
        self.listener = Listener(
            context=certificates.listening_context(),
            handler=self,
            limits=ConnectionLimits(),
            budget=UnauthenticatedMemoryBudget(1_000_000, 100),
            clock=clock,
        )
        self.address = ("", 0)

    def handle(self, exchange: ClientExchange) -> None:
        task = self.tasks.start_eager(self._forward(exchange))
        if task is not None:
            exchange.on_disconnect(task.cancel)

    def reject(self, exchange: ClientExchange, error: StatusError) -> None:
        seconds = error.retry_after_seconds
        headers = [] if seconds is None else [(b"Retry-After", b"%d" % seconds)]
        exchange.send_response(error.code, headers, error.message.encode())

    async def _forward(self, exchange: ClientExchange) -> None:
        try:
            connecting = self.forwarder.forward(
                exchange,
                permit_self(Caller(UserInfo("alice"))),
                audit_id=b"id",
                is_long_running=True,
                reject=lambda error: self.reject(exchange, error),
            )
            if connecting is not None:
                await connecting
        except (Forbidden, UpstreamUnavailable) as refusal:
            self.reject(exchange, refusal)
        except IdentityInvariantError:
            self.reject(exchange, InternalError("nothing was sent"))


@pytest.fixture(scope="module")
def certificates() -> Certificates:
    return new_certificates()


@pytest.fixture
async def api(certificates: Certificates) -> AsyncIterator[ScriptedApiServer]:
    async with scripted_api_server(certificates) as api:
        yield api
        assert api.violations == []


@pytest.fixture
async def proxy(api: ScriptedApiServer, certificates: Certificates) -> AsyncIterator[Proxy]:
    proxy = Proxy(api, certificates)
    async with AsyncExitStack() as stack:
        proxy.address = await proxy.listener.start("127.0.0.1", 0)
        stack.push_async_callback(proxy.tasks.stop)
        stack.callback(proxy.pool.close)
        stack.push_async_callback(proxy.listener.stop)
        yield proxy
    assert all(isinstance(failure, StatusError) for failure in proxy.failures)


async def drop(connection: ScriptedConnection, request: SeenRequest) -> None:
    await connection.cut()


async def test_who_leaves_while_its_request_is_to_be_repeated_is_forgotten(
    api: ScriptedApiServer, proxy: Proxy, certificates: Certificates
) -> None:
    """A watch for nobody would stay for an hour."""
    async with connected(proxy.address, certificates.client_context()) as client:
        assert (await client.request()).status == 200
        api.script = drop
        proxy.pool.gate.clear()
        await client.send(request_bytes(target="/api/v1/pods?watch=1"))
        await eventually(lambda: len(api.requests) == 2 and api.open_forwarding == 0)
    await eventually(lambda: not proxy.listener._connections)

    proxy.pool.gate.set()

    await eventually(lambda: proxy.pool._idle)
    assert len(api.requests) == 2


async def test_who_leaves_while_a_connection_is_opened_for_it_is_forgotten(
    api: ScriptedApiServer, proxy: Proxy, certificates: Certificates
) -> None:
    proxy.pool.gate.clear()
    async with connected(proxy.address, certificates.client_context()) as client:
        await client.send(request_bytes("POST", body=b"x"))
        await eventually(lambda: proxy.tasks._running)
    await eventually(lambda: not proxy.tasks._running)

    proxy.pool.gate.set()

    assert api.requests == []
    assert api.opened == 0


async def test_a_connection_that_ends_before_it_is_used_is_a_503_and_nobody_hangs(
    api: ScriptedApiServer, proxy: Proxy, certificates: Certificates
) -> None:
    proxy.pool.hands_out_ended = True
    async with connected(proxy.address, certificates.client_context()) as client:
        answer = await client.request(target="/api/v1/pods?watch=1")

    assert answer.status == 503
    assert answer.values("retry-after") == ["1"]
    assert api.requests == []


async def test_a_request_that_cannot_be_repeated_is_a_503_without_an_invitation(
    api: ScriptedApiServer, proxy: Proxy, certificates: Certificates
) -> None:
    async with connected(proxy.address, certificates.client_context()) as client:
        assert (await client.request()).status == 200
        api.script = drop
        api.stop_listening()

        answer = await client.request()

    assert answer.status == 503
    assert len(api.requests) == 2
    assert answer.values("retry-after") == []


async def test_a_bug_while_a_request_is_repeated_is_a_500_at_once(
    api: ScriptedApiServer, proxy: Proxy, certificates: Certificates
) -> None:
    """Nobody is left waiting for its own patience to end."""
    async with connected(proxy.address, certificates.client_context()) as client:
        assert (await client.request()).status == 200
        api.script = drop
        proxy.pool.fails_with = ZeroDivisionError("a bug")

        answer = await client.request()

    assert answer.status == 500
    assert b"a bug" not in answer.body
    assert answer.values("retry-after") == []
    assert [type(failure) for failure in proxy.failures] == [ZeroDivisionError]
    proxy.failures.clear()


async def test_a_request_leaves_with_the_credential_that_goes_with_its_connection(
    api: ScriptedApiServer, proxy: Proxy, certificates: Certificates
) -> None:
    """Our identity changed from a certificate to a token while the connection was opened."""
    proxy.credential.authorization = None
    proxy.pool.gate.clear()
    async with connected(proxy.address, certificates.client_context()) as client:
        await client.send(request_bytes())
        await eventually(lambda: proxy.tasks._running)

        proxy.credential.authorization = f"Bearer {OWN_TOKEN}".encode()
        proxy.credential.version += 1
        proxy.pool.gate.set()
        answer = await client.read_response()

    assert answer.status == 200
    assert [request.values("authorization") for request in api.requests] == [
        [f"Bearer {OWN_TOKEN}"]
    ]


async def test_f13_a_request_is_not_sent_as_the_account_that_the_new_credential_is_of(
    api: ScriptedApiServer, proxy: Proxy, certificates: Certificates
) -> None:
    """It was admitted as alice; while the connection was opened, we became alice."""
    proxy.pool.gate.clear()
    async with connected(proxy.address, certificates.client_context()) as client:
        await client.send(request_bytes())
        await eventually(lambda: proxy.tasks._running)

        proxy.credential.denials.add_username("alice")
        proxy.credential.version += 1
        proxy.pool.gate.set()
        answer = await client.read_response()

    assert answer.status == 403
    assert api.requests == []


@pytest.mark.parametrize(
    ("where", "line", "status"),
    [
        (1, b"traceparent: 00-1", 200),
        (1, b"Impersonate-Group: system:masters", 500),
        (1, b"X-Remote-User: mallory", 500),
        (1, b"Authorization: Bearer other", 500),
        (-2, b"traceparent: 00-1", 500),
    ],
)
async def test_who_adds_to_a_head_cannot_add_to_who_is_asking(
    api: ScriptedApiServer,
    proxy: Proxy,
    certificates: Certificates,
    where: int,
    line: bytes,
    status: int,
) -> None:
    """What leaves is checked after it was dressed; in doubt nothing leaves."""

    def dress(_exchange: ClientExchange, _audit_id: bytes, head: bytes, _permit: Permit) -> bytes:
        lines = head.split(b"\r\n")
        lines.insert(where, line)
        return b"\r\n".join(lines)

    proxy.forwarder.decorate_head = dress
    async with connected(proxy.address, certificates.client_context()) as client:
        answer = await client.request()

    assert answer.status == status
    assert len(api.requests) == (status == 200)
