"""Forwarding: an admitted request leaves here, with exactly one identity, or not at all."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol

from proxy.concurrency.deadline_queue import DeadlineQueue
from proxy.concurrency.task_set import TaskSet
from proxy.core.errors import (
    Forbidden,
    InternalError,
    StatusError,
    UpstreamUnavailable,
)
from proxy.core.forwarding import (
    NO_RULES,
    ForwardingRules,
    HopContext,
    OutboundHeadTemplate,
    assert_identity_suffix,
    build_outbound_template,
    identity_suffix,
)
from proxy.core.impersonation.permit import Permit
from proxy.upstream.auth_errors import AuthErrorResolver
from proxy.upstream.connection import UpstreamConnection
from proxy.upstream.relay import Relay, RelayDependencies
from proxy.wire.exchange import ClientExchange
from proxy.wire.http1.body import BodyKind

_REPEATABLE = frozenset((b"GET", b"HEAD", b"OPTIONS"))

HeadWriter = Callable[[ClientExchange, Permit, bytes], bytes]
"""Returns the head of a request under an audit id, checked: the next step is to send it."""


HeadDecorator = Callable[[ClientExchange, bytes, bytes, Permit], bytes]
"""Returns a head with more lines, which come before those that say who is asking."""


class Connections(Protocol):
    """Where connections to the API server come from."""

    def acquire_idle(self) -> UpstreamConnection | None:
        """Return a connection at once, if one is idle."""
        ...

    async def connect(self) -> UpstreamConnection:
        """Open a new one."""
        ...

    def release(self, connection: UpstreamConnection) -> None:
        """Keep a connection that was not needed after all."""
        ...


class CredentialProvider(Protocol):
    """Who we are at the API server."""

    @property
    def authorization(self) -> bytes | None:
        """Return the header's value, or None when a certificate speaks for us."""
        ...

    @property
    def version(self) -> int:
        """Return a number that grows with every change."""
        ...


class _KnownHead(NamedTuple):
    """The head of a request, and what it was made of besides the client's."""

    parts: OutboundHeadTemplate
    ending: bytes
    permit: Permit
    authorization: bytes | None
    rules: ForwardingRules


class Forwarder:
    """Sends admitted requests to the API server."""

    def __init__(
        self,
        connections: Connections,
        credential: CredentialProvider,
        auth_errors: AuthErrorResolver,
        *,
        response_timeout_seconds: float,
        tasks: TaskSet,
        write_head: HeadWriter | None = None,
    ) -> None:
        """Without a `write_head` our own credential goes with every request."""
        self._connections = connections
        self._write_head: HeadWriter = write_head or self._head
        self._credential = credential
        self._dependencies = RelayDependencies(
            auth_errors, self._retry, DeadlineQueue(response_timeout_seconds)
        )
        # For what may last, and so may its answer's head.
        self._patient_desk = RelayDependencies(auth_errors, self._retry, None)
        self._tasks = tasks
        # Replaced when other headers are a front proxy's.
        self.rules = NO_RULES
        # Who adds lines to the heads that we write, if anybody; replaced when that changes.
        self.decorate_head: HeadDecorator | None = None

    async def forward(
        self,
        exchange: ClientExchange,
        permit: Permit,
        *,
        audit_id: bytes,
        is_long_running: bool,
        refuse: Callable[[StatusError], None],
    ) -> None:
        """Start the exchange; the answer then flows without us."""
        # The head comes first: if it cannot be made, no connection is left in an odd state.
        version = self._credential.version
        head = self._write_head(exchange, permit, audit_id)
        dependencies = self._patient_desk if is_long_running else self._dependencies
        relay = Relay(exchange, permit, audit_id, refuse, dependencies)
        relay.head, relay.version = head, version
        connection = self._connections.acquire_idle() or await self._connect(relay)
        self._send(relay, connection)

    def forward_at_once(
        self,
        exchange: ClientExchange,
        permit: Permit,
        *,
        audit_id: bytes,
        refuse: Callable[[StatusError], None],
    ) -> bool:
        """Start the exchange of a request that takes not long, if a connection is idle."""
        version = self._credential.version
        head = self._write_head(exchange, permit, audit_id)
        connection = self._connections.acquire_idle()
        if connection is None:
            return False
        relay = Relay(exchange, permit, audit_id, refuse, self._dependencies)
        relay.head, relay.version = head, version
        relay.start(connection)
        return True

    def _head(self, exchange: ClientExchange, permit: Permit, audit_id: bytes) -> bytes:
        notes, authorization = exchange.request.notes, self._credential.authorization
        known = notes.get(self) if notes else None
        if not (
            isinstance(known, _KnownHead)
            and known.permit is permit
            and known.authorization is authorization
            and known.rules is self.rules
        ):
            known = self._new_head(exchange, permit, authorization)
        before, after = known.parts
        head = b"".join((before, audit_id, after))
        if self.decorate_head is not None:
            head = self.decorate_head(exchange, audit_id, head, permit)
        # The last of all, on the very bytes that leave: nobody comes after it.
        assert_identity_suffix(known.ending, head)
        return head

    def _new_head(
        self, exchange: ClientExchange, permit: Permit, authorization: bytes | None
    ) -> _KnownHead:
        """Make the head, but for its audit id; equal requests of this connection find it again."""
        request, rules = exchange.request, self.rules
        context = HopContext(
            audit_id=b"",
            peer_address=exchange.peer.address.encode(),
            authorization=authorization,
            upgrade=request.upgrade,
            is_chunked=request.framing.kind is BodyKind.CHUNKED,
        )
        first_line = b"%b %b HTTP/1.1" % (request.method, request.target)
        parts = build_outbound_template(first_line, request.headers, permit, context, rules=rules)
        ending = identity_suffix(permit, authorization)
        made = _KnownHead(parts, ending, permit, authorization, rules)
        # Only where a walk was noted: a watch, or who asks once, is not to keep a head for nothing.
        if request.notes:
            request.notes[self] = made
        return made

    async def _connect(self, relay: Relay) -> UpstreamConnection:
        """Return a new connection, and give the request the credential that goes with it.

        The two are one: a head made for a connection that shows our certificate would reach the
        API server as nobody's on one that does not.
        """
        connection = await self._connections.connect()
        if not connection.is_open:
            raise UpstreamUnavailable("the API server cannot be reached", retry_after_seconds=1)
        version = self._credential.version
        if relay.version != version:
            # It was admitted when the credential, and so the guarded name, was another one.
            if self._dependencies.auth_errors.denials.is_proxy_denial(relay.permit.user.name):
                raise Forbidden("impersonating the proxy's own identity is not allowed")
            relay.head = self._write_head(relay.client, relay.permit, relay.audit_id)
            relay.version = version
        return connection

    def _send(self, relay: Relay, connection: UpstreamConnection) -> None:
        """Send a request, unless its client has left meanwhile."""
        if relay.client.is_open:
            relay.start(connection)
        elif connection.is_open:
            self._connections.release(connection)

    def _retry(self, relay: Relay) -> bool:
        """Repeat a request that met a connection which was just being closed, if that is safe.

        Only a request that changes nothing and has no body (an upgrade may change anything). It
        is repeated only once: the second try is on a new connection.
        """
        request = relay.client.request
        if (
            request.upgrade is not None
            or request.method not in _REPEATABLE
            or request.framing.kind is not BodyKind.NONE
        ):
            return False
        repeating = self._tasks.start(self._forward_again(relay))
        repeating.add_done_callback(partial(_tell_failure, relay.reject))
        return True

    async def _forward_again(self, relay: Relay) -> None:
        self._send(relay, await self._connect(relay))


def _tell_failure(refuse: Callable[[StatusError], None], repeating: asyncio.Task[None]) -> None:
    """Answer at once when a request could not be repeated, whatever the reason.

    There is no Retry-After: the first try may have reached the API server.
    """
    error = None if repeating.cancelled() else repeating.exception()
    if isinstance(error, UpstreamUnavailable):
        refuse(UpstreamUnavailable(error.message))
    elif isinstance(error, StatusError):
        refuse(error)
    elif error is not None:
        # A bug of ours. It is logged by the owner of the task.
        refuse(InternalError("an internal error occurred"))
