"""Listening socket: accepts connections, enforces their deadlines, and stops."""

import asyncio
import contextlib
import os
import random
import socket
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from OpenSSL import SSL

from proxy.core.errors import OperatorError
from proxy.serving.client_connection import ClientConnection
from proxy.serving.handlers import CloseAfterResponse, RequestHandler
from proxy.serving.limits.connections import ConnectionLimits, ListenerState
from proxy.serving.limits.response_progress import ResponseProgress
from proxy.serving.limits.unauthenticated_memory import UnauthenticatedMemoryBudget


class ListeningSocket(Protocol):
    """The part of a listening socket that both event loops expose."""

    def fileno(self) -> int:
        """Return the file descriptor."""
        ...


def accept_pending(listening: Iterable[ListeningSocket]) -> list[socket.socket]:
    """Return every established connection that is not accepted yet.

    The kernel resets those when the socket is closed, even if another instance listens on the same
    port. It has already assigned them to this socket. Close the socket immediately afterwards,
    without awaiting in between.
    """
    pending: list[socket.socket] = []
    for listening_socket in listening:
        # On one of the event loops its own socket object cannot accept; a duplicate can.
        with socket.socket(fileno=os.dup(listening_socket.fileno())) as queue:
            queue.settimeout(0)
            pending += _accept_all(queue)
    return pending


def _accept_all(queue: socket.socket) -> list[socket.socket]:
    accepted: list[socket.socket] = []
    while True:
        try:
            connection, _ = queue.accept()
        except OSError:
            return accepted  # None is pending, or no descriptor is left.
        connection.settimeout(0)
        accepted.append(connection)


# Accepting costs about 0.1 ms per connection, so this adds at most 1 ms to an iteration.
_ACCEPTS_PER_ITERATION = 8


async def open_additional_servers(
    server: asyncio.Server, new_connection: Callable[[], asyncio.BaseProtocol], *, backlog: int
) -> list[asyncio.Server]:
    """Return additional servers on the same listening socket; they do not accept yet."""
    loop = asyncio.get_running_loop()
    descriptor = server.sockets[0].fileno()
    return [
        await loop.create_server(
            new_connection,
            sock=socket.socket(fileno=os.dup(descriptor)),
            backlog=backlog,
            start_serving=False,
        )
        for _ in range(_ACCEPTS_PER_ITERATION - 1)
    ]


_BACKLOG = 4096
_STOP_SECONDS = 1.0


class ListenError(OperatorError):
    """The address cannot be listened on."""


class Listener:
    """Accepts client connections and closes those that exceed their deadline."""

    def __init__(
        self,
        *,
        context: SSL.Context,
        handler: RequestHandler,
        limits: ConnectionLimits,
        budget: UnauthenticatedMemoryBudget,
        clock: Callable[[], float],
    ) -> None:
        """`budget` may be shared with other listeners."""
        self._context = context
        self.handler = handler
        self._closing_handler = CloseAfterResponse(handler)
        self._shared = ListenerState.create(limits, budget)
        self._progress = ResponseProgress()
        self.stalled_responses = 0
        """Responses aborted so far because their client read too little."""
        self._clock = clock
        self._connections: set[ClientConnection] = set()
        self._has_no_connections = asyncio.Event()
        self._has_no_connections.set()
        self._server: asyncio.Server | None = None
        self._handles: list[asyncio.Server] = []

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Bind and accept; return the address with the bound port."""
        address = await self.bind(host, port)
        await self.start_accepting()
        return address

    async def bind(self, host: str, port: int, *, reuse_port: bool = True) -> tuple[str, int]:
        """Bind the address and return it with its port; connections are not accepted yet.

        With `shares`, another instance of the same user, such as the successor, can bind it too.
        """
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(
                self._new_connection,
                host,
                port,
                backlog=_BACKLOG,
                reuse_port=reuse_port,
                start_serving=False,
            )
        except OSError as error:
            reason = error.strerror or str(error)
            raise ListenError(f"cannot listen on {host}:{port}: {reason}") from error
        self._handles = await open_additional_servers(
            self._server, self._new_connection, backlog=_BACKLOG
        )
        bound: tuple[str, int] = self._server.sockets[0].getsockname()
        return bound[0], bound[1]

    async def start_accepting(self) -> None:
        """Accept connections on the bound address."""
        if self._server is not None:
            for handle in (self._server, *self._handles):
                await handle.start_serving()

    @property
    def connections(self) -> list[ClientConnection]:
        """Return the open connections."""
        return list(self._connections)

    def close_expired(self) -> None:
        """Close every connection whose deadline has passed; called about once a second.

        A connection above its maximum age closes with its next response. Its client reconnects,
        possibly to an instance that was started since.
        """
        now = self._clock()
        for connection in list(self._connections):
            if connection.deadline is not None and connection.deadline < now:
                connection.expire()
            elif connection.retires_at < now and connection.handler is self.handler:
                connection.handler = self._closing_handler
        seconds = self._shared.limits.response_progress_seconds
        for connection in self._progress.stalled(self._connections, now, timeout_seconds=seconds):
            self.stalled_responses += 1
            connection.abort()

    def set_handler(self, handler: RequestHandler) -> None:
        """Use another handler for requests from now on.

        A connection above its maximum age still closes with its next response.
        """
        previous_closing_handler, self._closing_handler = (
            self._closing_handler,
            CloseAfterResponse(handler),
        )
        self.handler = handler
        for connection in self._connections:
            is_closing = connection.handler is previous_closing_handler
            connection.handler = self._closing_handler if is_closing else handler

    def set_limits(self, limits: ConnectionLimits) -> None:
        """Apply these limits; open connections are not closed for them."""
        self._shared = self._shared.with_limits(limits)
        for connection in self._connections:
            connection.set_limits(limits)

    def set_drain_handler(self, handler: RequestHandler) -> None:
        """Use another handler for every request from now on, on aged connections as well."""
        self.handler = handler
        for connection in self._connections:
            connection.handler = handler

    async def stop_accepting(self) -> None:
        """Accept only connections that are already pending; open ones continue."""
        server, self._server = self._server, None
        if server is None:
            return
        pending = accept_pending(server.sockets)
        for handle in (server, *self._handles):
            handle.close()
        for accepted in pending:
            await asyncio.get_running_loop().connect_accepted_socket(self._new_connection, accepted)

    def close_unreachable(self) -> None:
        """Abort connections whose client does not respond at the TCP level; called periodically."""
        for connection in list(self._connections):
            connection.abort_if_unreachable()

    def set_tls_context(self, context: SSL.Context) -> None:
        """Use this context for new connections; open ones keep theirs."""
        self._context = context

    @property
    def handshake_failures(self) -> Mapping[str, int]:
        """Return the failed handshakes so far, by reason."""
        return self._shared.failures.counts

    @property
    def evictions(self) -> Mapping[str, int]:
        """Return the connections evicted for new ones so far, by reason."""
        return self._shared.connection_limiter.evictions

    @property
    def unauthenticated_connections(self) -> int:
        """Return the number of connections without an authenticated request."""
        return self._shared.connection_limiter.unauthenticated

    def take_rejected_count(self) -> int:
        """Return the connections rejected since the last call, and reset that count."""
        return self._shared.connection_limiter.take_rejected_count()

    async def stop(self) -> None:
        """Stop accepting and close every connection; written data is sent for up to a second."""
        if self._server is not None:
            for handle in (self._server, *self._handles):
                handle.close()
        for connection in list(self._connections):
            connection.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STOP_SECONDS):
                await self._has_no_connections.wait()
        for connection in list(self._connections):
            connection.expire()

    def _new_connection(self) -> asyncio.Protocol:
        connection = ClientConnection(
            context=self._context,
            handler=self.handler,
            shared=self._shared,
            clock=self._clock,
            on_lost=self._remove_connection,
        )
        # Jitter: connections that were opened together must not all reconnect together.
        age_seconds = self._shared.limits.age_seconds * random.uniform(0.8, 1.2)  # noqa: S311 - no secret
        connection.retires_at = self._clock() + age_seconds
        self._connections.add(connection)
        self._has_no_connections.clear()
        return connection.as_protocol()

    def _remove_connection(self, connection: ClientConnection) -> None:
        self._connections.discard(connection)
        if not self._connections:
            self._has_no_connections.set()
