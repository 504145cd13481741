"""Forwarding of permitted requests to the API server, each with exactly one identity."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol

from proxy.concurrency.deadline_queue import DeadlineQueue
from proxy.concurrency.task_set import TaskSet
from proxy.core.errors import (
    Forbidden,
    InternalError,
    StatusError,
    UpstreamUnavailable,
)
from proxy.core.forwarding import (
    DEFAULT_FORWARDING_RULES,
    HopContext,
    assert_identity_suffix,
    build_identity_suffix,
    build_outbound_template,
)
from proxy.core.impersonation.permit import Permit
from proxy.core.request_cache import OutboundHead
from proxy.upstream.auth_errors import AuthErrorResolver
from proxy.upstream.connection import UpstreamConnection
from proxy.upstream.pool import ConnectionPool
from proxy.upstream.relay import Relay, RelayDependencies
from proxy.wire.exchange import ClientExchange
from proxy.wire.http1.body import BodyKind

_RETRYABLE_METHODS = frozenset((b"GET", b"HEAD", b"OPTIONS"))

HeadWriter = Callable[[ClientExchange, Permit, bytes], bytes]
"""Returns the verified head of a request with this audit ID, ready to be sent."""


HeadDecorator = Callable[[ClientExchange, bytes, bytes, Permit], bytes]
"""Returns a head with more lines, placed before the identity headers."""


class CredentialProvider(Protocol):
    """Provides the forwarder's credential."""

    @property
    def authorization(self) -> bytes | None:
        """Return the Authorization header's value, or None with a client certificate."""
        ...

    @property
    def version(self) -> int:
        """Return a number that increases with every change."""
        ...


class Forwarder:
    """Sends permitted requests to the API server."""

    def __init__(
        self,
        connections: ConnectionPool,
        credential: CredentialProvider,
        auth_errors: AuthErrorResolver,
        *,
        response_timeout_seconds: float,
        tasks: TaskSet,
        write_head: HeadWriter | None = None,
    ) -> None:
        """Without `write_head`, each request is sent with the proxy's own credential."""
        self._connections = connections
        self._write_head: HeadWriter = write_head or self._head
        self._credential = credential
        self._dependencies = RelayDependencies(
            auth_errors, self._retry, DeadlineQueue(response_timeout_seconds)
        )
        # For long-running requests, whose response head may take any time.
        self._long_running_dependencies = RelayDependencies(auth_errors, self._retry, None)
        self._tasks = tasks
        # Replaced when the front proxy's header names change.
        self.rules = DEFAULT_FORWARDING_RULES
        # Adds lines to the outbound heads, if set. Replaced when the configuration changes.
        self.decorate_head: HeadDecorator | None = None

    def forward(
        self,
        exchange: ClientExchange,
        permit: Permit,
        *,
        audit_id: bytes,
        is_long_running: bool,
        reject: Callable[[StatusError], None],
    ) -> Awaitable[None] | None:
        """Send the request now if a connection is idle; else return what sends it when awaited.

        The response is relayed without the pipeline.
        """
        if not exchange.is_open:
            return None
        dependencies = self._long_running_dependencies if is_long_running else self._dependencies
        relay = Relay(exchange, permit, audit_id, reject, dependencies)
        # The head is built first: if that fails, no connection is left in an undefined state.
        relay.version = self._credential.version
        relay.head = self._write_head(exchange, permit, audit_id)
        connection = self._connections.acquire_idle()
        if connection is None:
            return self._connect_and_send(relay)
        relay.start(connection)
        return None

    def _head(self, exchange: ClientExchange, permit: Permit, audit_id: bytes) -> bytes:
        cache, authorization = exchange.request.cache, self._credential.authorization
        cached = None if cache is None else cache.outbound_head
        if (
            cached is None
            or cached.permit is not permit
            or cached.authorization is not authorization
            or cached.rules is not self.rules
        ):
            cached = self._new_head(exchange, permit, authorization)
        before, after = cached.template
        head = b"".join((before, audit_id, after))
        if self.decorate_head is not None:
            head = self.decorate_head(exchange, audit_id, head, permit)
        # The last step, on the exact bytes that are sent. Nothing may change the head after it.
        assert_identity_suffix(cached.identity_suffix, head)
        return head

    def _new_head(
        self, exchange: ClientExchange, permit: Permit, authorization: bytes | None
    ) -> OutboundHead:
        """Build the head without its audit ID; identical requests of this connection reuse it."""
        request, rules = exchange.request, self.rules
        context = HopContext(
            audit_id=b"",
            peer_address=exchange.peer.address.encode(),
            authorization=authorization,
            upgrade=request.upgrade,
            is_chunked=request.framing.kind is BodyKind.CHUNKED,
        )
        first_line = b"%b %b HTTP/1.1" % (request.method, request.target)
        template = build_outbound_template(
            first_line, request.headers, permit, context, rules=rules
        )
        suffix = build_identity_suffix(permit, authorization)
        head = OutboundHead(template, suffix, permit, authorization, rules)
        # Only after an equal request: a watch or a single request must not retain a head.
        if request.cache is not None and request.cache.results is not None:
            request.cache.outbound_head = head
        return head

    async def _connect(self, relay: Relay) -> UpstreamConnection:
        """Return a new connection, and rebuild the head if the credential has changed.

        Head and connection must use the same credential. A head built for a connection with the
        client certificate would be anonymous on a connection without it.
        """
        connection = await self._connections.connect()
        if not connection.is_open:
            raise UpstreamUnavailable("the API server cannot be reached", retry_after_seconds=1)
        version = self._credential.version
        if relay.version != version:
            # The permit was issued under another credential, and so another protected user name.
            if self._dependencies.auth_errors.denials.is_proxy_denial(relay.permit.user.name):
                raise Forbidden("impersonating the proxy's own identity is not allowed")
            relay.head = self._write_head(relay.client, relay.permit, relay.audit_id)
            relay.version = version
        return connection

    def _retry(self, relay: Relay) -> bool:
        """Retry a request whose reused connection was just being closed, if that is safe.

        Safe are only read-only requests without a body; an upgrade may change anything. A request
        is retried only once, because the second attempt uses a new connection.
        """
        request = relay.client.request
        if (
            request.upgrade is not None
            or request.method not in _RETRYABLE_METHODS
            or request.framing.kind is not BodyKind.NONE
        ):
            return False
        retrying = self._tasks.start(self._connect_and_send(relay))
        retrying.add_done_callback(partial(_reject_failed_retry, relay.reject))
        return True

    async def _connect_and_send(self, relay: Relay) -> None:
        """Send a request on a new connection, unless its client has disconnected meanwhile."""
        connection = await self._connect(relay)
        if relay.client.is_open:
            relay.start(connection)
        elif connection.is_open:
            self._connections.release(connection)


def _reject_failed_retry(
    reject: Callable[[StatusError], None], retrying: asyncio.Task[None]
) -> None:
    """Reject a request whose retry failed, whatever the reason.

    There is no Retry-After, because the first attempt may have reached the API server.
    """
    error = None if retrying.cancelled() else retrying.exception()
    if isinstance(error, UpstreamUnavailable):
        reject(UpstreamUnavailable(error.message))
    elif isinstance(error, StatusError):
        reject(error)
    elif error is not None:
        # A bug. The owner of the task logs it.
        reject(InternalError("an internal error occurred"))
