"""What the hop does with each request: as little as it can."""

import logging
import os
from collections.abc import Callable, Sequence
from typing import Protocol

from proxy.concurrency.task_set import TaskSet
from proxy.core.audit.annotations import client_audit_id, new_audit_id
from proxy.core.errors import BadRequest, InternalError, StatusError
from proxy.core.forwarding import (
    ForwardingRules,
    HopContext,
    assert_one_identity,
    build_outbound_head,
    normalized_header_name,
)
from proxy.core.http.headers import Header, HeaderList
from proxy.core.http.status import status_response
from proxy.core.http.websocket import offered_protocols
from proxy.core.impersonation.permit import Permit
from proxy.core.requestinfo.request_info import is_resumable_stream, parse_outline
from proxy.telemetry.logs import fields
from proxy.wire.exchange import ClientExchange
from proxy.wire.http1.body import BodyKind

_IMPERSONATION = b"impersonate"


class RequestHeadWriter:
    """Writes the heads of requests to one proxy."""

    def __init__(self, server: str) -> None:
        """`server` is its host and port, as a URL has them."""
        # The application's Host is ours, and means nothing to whatever routes by it further on.
        self._rules = ForwardingRules(host=server.encode())

    def write(self, exchange: ClientExchange, permit: Permit, audit_id: bytes) -> bytes:
        """Return the head of the request to the proxy, or refuse the request.

        The same lines cross as at the proxy itself, but for one: the application's Authorization.
        """
        request = exchange.request
        authorization = request.headers.memoize(client_authorization)
        context = HopContext(
            audit_id=audit_id,
            peer_address=exchange.peer.address.encode(),
            authorization=authorization,
            upgrade=request.upgrade,
            is_chunked=request.framing.kind is BodyKind.CHUNKED,
        )
        first_line = b"%b %b HTTP/1.1" % (request.method, request.target)
        head = build_outbound_head(first_line, request.headers, permit, context, rules=self._rules)
        # On the very bytes: whatever was copied above, nobody but the configured identity is asked
        # for, and nobody's credential but the application's goes along.
        assert_one_identity(head, permit, authorization)
        return head


def client_authorization(headers: HeaderList) -> bytes | None:
    """Return the application's credential, if it brings one; refuse what brings an identity.

    Whom to act as is for whoever deployed the hop to say. A request that says it, too, is not
    served as somebody else than it asks for.
    """
    _refuse_impersonation(headers)
    values = [value for name, value in headers if normalized_header_name(name) == b"authorization"]
    if len(values) > 1:
        raise BadRequest("more than one Authorization header")
    if offered_protocols(headers).tokens:
        raise BadRequest(
            "a token among the WebSocket subprotocols is not passed on here: send it in an "
            "Authorization header"
        )
    return values[0] if values else None


def _refuse_impersonation(headers: Sequence[Header]) -> None:
    for name, _ in headers:
        # As the most careless later hop might read it, and whatever follows the word.
        if normalized_header_name(name).startswith(_IMPERSONATION):
            raise BadRequest(
                "impersonation headers are not accepted here: this hop acts as one identity, which "
                "its configuration names"
            )


log = logging.getLogger(__name__)


class RequestForwarder(Protocol):
    """Carries a request to the proxy."""

    async def forward(
        self,
        exchange: ClientExchange,
        permit: Permit,
        *,
        audit_id: bytes,
        is_long_running: bool,
        refuse: Callable[[StatusError], None],
    ) -> None:
        """Start relaying; the answer flows without us."""
        ...


class ImpersonatingHandler:
    """Passes every request on as one identity."""

    def __init__(self, permit: Permit, forwarder: RequestForwarder, tasks: TaskSet) -> None:
        self._permit = permit
        self._forwarder = forwarder
        self._tasks = tasks

    def handle(self, exchange: ClientExchange) -> None:
        """Pass a request on; at once if a connection is at hand."""
        task = self._tasks.start_eager(self._serve(exchange))
        if task is not None:
            exchange.on_disconnect(task.cancel)

    def reject(self, exchange: ClientExchange, error: StatusError) -> None:
        """Answer a request that could not even be read."""
        self._answer(exchange, new_audit_id(os.urandom(16)), error)

    async def _serve(self, exchange: ClientExchange) -> None:
        audit_id = new_audit_id(os.urandom(16))
        try:
            # One id in the application's log, ours and the proxy's.
            audit_id = exchange.request.headers.memoize(client_audit_id) or audit_id
            await self._pass_on(exchange, audit_id)
        except StatusError as refusal:
            self._answer(exchange, audit_id, refusal)
        except Exception:  # The boundary of this room: a bug of ours is a 500 and a log line.
            log.exception("request failed", extra=fields(audit_id=audit_id.decode()))
            self._answer(exchange, audit_id, InternalError("an internal error occurred"))

    async def _pass_on(self, exchange: ClientExchange, audit_id: bytes) -> None:
        request = exchange.request
        # The proxy behind us authenticates; here every local client is served alike.
        exchange.mark_authenticated(is_anonymous=False)
        # Before the client is told to send its body; the head is written by the same answer.
        request.headers.memoize(client_authorization)
        # What the selectors ask for is for the proxy to read.
        request_info = parse_outline(request.method, request.target).request_info
        is_long_running = request_info.is_long_running
        if is_long_running:
            exchange.mark_long_running()
            if is_resumable_stream(request_info, request.target):
                exchange.mark_stream()
        if request.expects_continue:
            exchange.send_continue()
        await self._forwarder.forward(
            exchange,
            self._permit,
            audit_id=audit_id,
            is_long_running=is_long_running,
            refuse=lambda error: self._answer(exchange, audit_id, error),
        )

    def _answer(self, exchange: ClientExchange, audit_id: bytes, error: StatusError) -> None:
        log.info(
            "request rejected",
            extra=fields(audit_id=audit_id.decode(), code=error.code, reason=error.message),
        )
        if exchange.has_started:
            exchange.abort()
            return
        headers, body = status_response(
            error, exchange.request.headers, exchange.request.target, audit_id=audit_id
        )
        exchange.send_response(error.code, headers, body)
