"""Request handling of the sidecar: rejects impersonation headers, adds its own, forwards."""

import logging
import os
from collections.abc import Sequence

from proxy.concurrency.task_set import TaskSet
from proxy.core.audit.annotations import client_audit_id, new_audit_ids
from proxy.core.errors import BadRequest, InternalError, StatusError
from proxy.core.forwarding import (
    ForwardingRules,
    HopContext,
    assert_one_identity,
    build_outbound_head,
    normalize_header_name,
)
from proxy.core.http.headers import Header, HeaderList
from proxy.core.http.status import status_response
from proxy.core.http.websocket import parse_offered_protocols
from proxy.core.impersonation.permit import Permit
from proxy.core.requestinfo.request_info import is_resumable_stream, parse_partial_request_info
from proxy.telemetry.logs import fields
from proxy.upstream.forwarder import Forwarder
from proxy.wire.exchange import ClientExchange
from proxy.wire.http1.body import BodyKind

_IMPERSONATION = b"impersonate"


class RequestHeadWriter:
    """Builds the request heads that are sent to the proxy."""

    def __init__(self, server: str) -> None:
        """`server` is the proxy's host and port, as written in a URL."""
        # The application's Host names the sidecar, so later hops could not route by it.
        self._rules = ForwardingRules(host=server.encode())

    def write(self, exchange: ClientExchange, permit: Permit, audit_id: bytes) -> bytes:
        """Return the request head to send to the proxy; raise StatusError to reject the request.

        The same headers are forwarded as by the proxy itself, plus the application's Authorization.
        """
        request = exchange.request
        authorization = client_authorization(request.headers)
        context = HopContext(
            audit_id=audit_id,
            peer_address=exchange.peer.address.encode(),
            authorization=authorization,
            upgrade=request.upgrade,
            is_chunked=request.framing.kind is BodyKind.CHUNKED,
        )
        first_line = b"%b %b HTTP/1.1" % (request.method, request.target)
        head = build_outbound_head(first_line, request.headers, permit, context, rules=self._rules)
        # Checked on the final bytes: whatever was copied above, they name only the configured user,
        # and contain no credential but the application's.
        assert_one_identity(head, permit, authorization)
        return head


def client_authorization(headers: HeaderList) -> bytes | None:
    """Return the application's Authorization value, if any; reject impersonation headers.

    The impersonated user is chosen by the operator of the sidecar. A request that names a user
    itself is rejected, because it would be served as another user than it names.
    """
    _reject_impersonation(headers)
    values = [value for name, value in headers if normalize_header_name(name) == b"authorization"]
    if len(values) > 1:
        raise BadRequest("more than one Authorization header")
    if parse_offered_protocols(headers).tokens:
        raise BadRequest(
            "a token among the WebSocket subprotocols is not forwarded: send it in an "
            "Authorization header"
        )
    return values[0] if values else None


def _reject_impersonation(headers: Sequence[Header]) -> None:
    for name, _ in headers:
        # Normalized as the most lenient later hop might read the name, and matched by prefix.
        if normalize_header_name(name).startswith(_IMPERSONATION):
            raise BadRequest(
                "impersonation headers are not accepted here: this sidecar impersonates the user "
                "that its configuration names"
            )


log = logging.getLogger(__name__)


class ImpersonatingHandler:
    """Forwards every request as one impersonated user."""

    def __init__(self, permit: Permit, forwarder: Forwarder, tasks: TaskSet) -> None:
        self._permit = permit
        self._forwarder = forwarder
        self._tasks = tasks

    def handle(self, exchange: ClientExchange) -> None:
        """Forward a request, at once if a connection is available."""
        task = self._tasks.start_eager(self._serve(exchange))
        if task is not None:
            exchange.on_disconnect(task.cancel)

    def reject(self, exchange: ClientExchange, error: StatusError) -> None:
        """Respond to a request that could not be parsed."""
        self._respond(exchange, new_audit_ids(os.urandom(16))[0], error)

    async def _serve(self, exchange: ClientExchange) -> None:
        audit_id = new_audit_ids(os.urandom(16))[0]
        try:
            # The logs of the application, the sidecar and the proxy share one audit ID.
            audit_id = client_audit_id(exchange.request.headers) or audit_id
            await self._forward(exchange, audit_id)
        except StatusError as error:
            self._respond(exchange, audit_id, error)
        except Exception:  # The outermost handler: a bug becomes a 500 and a log line.
            log.exception("request failed", extra=fields(audit_id=audit_id.decode()))
            self._respond(exchange, audit_id, InternalError("an internal error occurred"))

    async def _forward(self, exchange: ClientExchange, audit_id: bytes) -> None:
        request = exchange.request
        # The proxy authenticates the caller; the sidecar treats all local clients alike.
        exchange.mark_authenticated(is_anonymous=False)
        # Rejects the request before 100 Continue is sent.
        client_authorization(request.headers)
        # The proxy parses the selectors.
        request_info = parse_partial_request_info(request.method, request.target).request_info
        is_long_running = request_info.is_long_running
        if is_long_running:
            exchange.mark_long_running()
            if is_resumable_stream(request_info, request.target):
                exchange.mark_stream()
        if request.expects_continue:
            exchange.send_continue()
        connecting = self._forwarder.forward(
            exchange,
            self._permit,
            audit_id=audit_id,
            is_long_running=is_long_running,
            reject=lambda error: self._respond(exchange, audit_id, error),
        )
        if connecting is not None:
            await connecting

    def _respond(self, exchange: ClientExchange, audit_id: bytes, error: StatusError) -> None:
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
