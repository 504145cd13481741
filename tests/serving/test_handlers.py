"""Handlers used while draining: which requests they serve, and what becomes of the connection."""

import pytest

from proxy.core.errors import BadRequest, StatusError
from proxy.core.http.headers import NO_HEADERS
from proxy.core.http.status import status_body
from proxy.serving.exchange import ServerExchange
from proxy.serving.exchange_transport import ConnectionReuse
from proxy.serving.handlers import CloseAfterResponse, RejectWhileDraining, RequestHandler
from proxy.wire.exchange import ClientExchange, Peer
from proxy.wire.http1.body import NO_BODY
from proxy.wire.http1.message import RequestHead

GET = RequestHead(b"GET", b"/livez", 1, NO_HEADERS, NO_BODY, keep_alive=True)
ERROR = BadRequest("the request is malformed")


class Transport:
    """A connection that records what is written, and how the exchange ended."""

    is_write_blocked = False

    def __init__(self) -> None:
        self.written = b""
        self.endings: list[ConnectionReuse] = []

    def write(self, data: bytes) -> None:
        self.written += data

    def exchange_ended(self, ending: ConnectionReuse) -> None:
        self.endings.append(ending)

    def deliver_body(self) -> None: ...
    def pause_body(self) -> None: ...
    def resume_body(self) -> None: ...
    def release_idle_memory(self) -> None: ...
    def caller_authenticated(self, *, is_anonymous: bool) -> None: ...
    def open_tunnel(self) -> None: ...


class Handler:
    """Responds 200 to each request, and records the rejected ones."""

    def __init__(self) -> None:
        self.handled: list[ClientExchange] = []
        self.rejected: list[StatusError] = []

    def handle(self, exchange: ClientExchange) -> None:
        self.handled.append(exchange)
        exchange.send_response(200, [], b"ok")

    def reject(self, exchange: ClientExchange, error: StatusError) -> None:
        self.rejected.append(error)
        exchange.send_response(error.code, [], status_body(error))


@pytest.fixture
def handler() -> Handler:
    return Handler()


@pytest.fixture
def transport() -> Transport:
    return Transport()


@pytest.fixture
def exchange(transport: Transport) -> ServerExchange:
    return ServerExchange(transport, GET, Peer("127.0.0.1"))


def test_connection_stays_open_without_a_draining_handler(
    handler: Handler, transport: Transport, exchange: ServerExchange
) -> None:
    handler.handle(exchange)

    assert transport.endings == [ConnectionReuse.REUSABLE]
    assert b"connection: close" not in transport.written.lower()


def test_connection_is_closed_after_a_request_was_served(
    handler: Handler, transport: Transport, exchange: ServerExchange
) -> None:
    CloseAfterResponse(handler).handle(exchange)

    assert handler.handled == [exchange]
    assert transport.written.startswith(b"HTTP/1.1 200 ")
    assert b"connection: close" in transport.written.lower()
    assert transport.endings == [ConnectionReuse.CLOSE]


def test_request_while_draining_is_rejected_with_429_and_never_served(
    handler: Handler, transport: Transport, exchange: ServerExchange
) -> None:
    RejectWhileDraining(handler).handle(exchange)

    assert handler.handled == []
    (error,) = handler.rejected
    assert (error.code, error.retry_after_seconds) == (429, 1)
    assert error.message == "the proxy is shutting down, please try again later"
    assert transport.written.startswith(b"HTTP/1.1 429 ")
    assert b"connection: close" in transport.written.lower()
    assert transport.endings == [ConnectionReuse.CLOSE]


@pytest.mark.parametrize("draining", [CloseAfterResponse, RejectWhileDraining])
def test_malformed_request_is_rejected_with_its_own_error_while_draining(
    draining: type[CloseAfterResponse],
    handler: Handler,
    transport: Transport,
    exchange: ServerExchange,
) -> None:
    wrapped: RequestHandler = draining(handler)

    wrapped.reject(exchange, ERROR)

    assert handler.rejected == [ERROR]
    assert handler.handled == []
    assert transport.written.startswith(b"HTTP/1.1 400 ")
