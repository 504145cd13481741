"""Forwarding: an admitted request leaves here, with exactly one identity, or not at all."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from proxy.core.admission import Admission
from proxy.core.errors import Refusal, UpstreamUnavailable
from proxy.core.forwarding_headers import Hop, assert_one_identity, outbound_headers
from proxy.upstream.connection import UpstreamConnection
from proxy.upstream.relay import Relay
from proxy.wire.body import BodyKind
from proxy.wire.exchange import ClientExchange
from proxy.wire.head import encode_head
from proxy.wire.tasks import Tasks

_REPEATABLE = frozenset((b"GET", b"HEAD", b"OPTIONS"))


class Connections(Protocol):
    """Where connections to the API server come from."""

    def take_idle(self) -> UpstreamConnection | None:
        """Return a connection at once, if one is idle."""
        ...

    async def connect(self) -> UpstreamConnection:
        """Open a new one."""
        ...

    def put_back(self, connection: UpstreamConnection) -> None:
        """Keep a connection that was not needed after all."""
        ...


class OwnCredential(Protocol):
    """Who we are at the API server."""

    @property
    def authorization(self) -> bytes | None:
        """Return the header's value, or None when a certificate speaks for us."""
        ...


@dataclass(frozen=True, slots=True)
class _Dispatch:
    """An admitted request on its way: whose it is, and what becomes of it if it fails."""

    client: ClientExchange
    head: bytes
    audit_id: bytes
    warning: str | None
    is_long_running: bool
    refuse: Callable[[Refusal], None]


class Forwarder:
    """Sends admitted requests to the API server."""

    def __init__(
        self,
        connections: Connections,
        credential: OwnCredential,
        *,
        response_timeout_seconds: float,
        tasks: Tasks,
    ) -> None:
        self._connections = connections
        self._credential = credential
        self._response_timeout_seconds = response_timeout_seconds
        self._tasks = tasks

    async def forward(
        self,
        exchange: ClientExchange,
        admission: Admission,
        *,
        audit_id: bytes,
        is_long_running: bool,
        refuse: Callable[[Refusal], None],
    ) -> None:
        """Start the exchange; the answer then flows without us."""
        # The head comes first: if it cannot be made, no connection is left in an odd state.
        head = self._head(exchange, admission, audit_id)
        dispatch = _Dispatch(exchange, head, audit_id, admission.warning, is_long_running, refuse)
        connection = self._connections.take_idle() or await self._connections.connect()
        self._send(dispatch, connection)

    def _head(self, exchange: ClientExchange, admission: Admission, audit_id: bytes) -> bytes:
        request = exchange.request
        hop = Hop(
            audit_id=audit_id,
            peer_address=exchange.peer.address.encode(),
            authorization=self._credential.authorization,
            upgrade=request.upgrade,
            is_chunked=request.framing.kind is BodyKind.CHUNKED,
        )
        headers = outbound_headers(request.headers, admission, hop)
        assert_one_identity(headers, admission)
        return encode_head(b"%b %b HTTP/1.1" % (request.method, request.target), headers)

    def _send(self, dispatch: _Dispatch, connection: UpstreamConnection) -> None:
        if not dispatch.client.is_open:
            self._connections.put_back(connection)
            return
        if not connection.is_open:
            raise UpstreamUnavailable("the API server cannot be reached")
        relay = Relay(
            dispatch.client,
            connection,
            audit_id=dispatch.audit_id,
            warning=dispatch.warning,
            refuse=dispatch.refuse,
            retry=self._retry(dispatch, connection),
        )
        if not dispatch.is_long_running:
            timer = asyncio.get_running_loop().call_later(
                self._response_timeout_seconds, relay.deadline_passed
            )
            relay.cancel_deadline_by(timer.cancel)
        relay.run(dispatch.head)

    def _retry(
        self, dispatch: _Dispatch, connection: UpstreamConnection
    ) -> Callable[[], object] | None:
        """Return how to repeat a request that met a connection which was just being closed.

        Only a request that changes nothing and has no body (an upgrade may change anything),
        only on a reused connection, and only once: the second try is on a new one.
        """
        request = dispatch.client.request
        if (
            connection.is_reused
            and request.upgrade is None
            and request.method in _REPEATABLE
            and request.framing.kind is BodyKind.NONE
        ):
            return lambda: self._tasks.keep(self._forward_again(dispatch))
        return None

    async def _forward_again(self, dispatch: _Dispatch) -> None:
        try:
            self._send(dispatch, await self._connections.connect())
        except Refusal as refusal:
            dispatch.refuse(refusal)
