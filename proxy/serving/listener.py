"""The listening socket: accepts clients, watches their deadlines, and stops."""

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
    """What either event loop shows of a socket it listens on."""

    def fileno(self) -> int:
        """Return the descriptor."""
        ...


def accept_pending(listening: Iterable[ListeningSocket]) -> list[socket.socket]:
    """Return every connection that is complete and not yet accepted.

    The kernel resets those when the socket is closed, although another instance may listen on the
    same port: it has chosen ours for them. Close right after this, without a wait in between.
    """
    waiting: list[socket.socket] = []
    for one in listening:
        # The loop's own object cannot accept, on one of the loops; a second descriptor can.
        with socket.socket(fileno=os.dup(one.fileno())) as queue:
            queue.settimeout(0)
            waiting += _accepted(queue)
    return waiting


def _accepted(queue: socket.socket) -> list[socket.socket]:
    accepted: list[socket.socket] = []
    while True:
        try:
            connection, _ = queue.accept()
        except OSError:
            return accepted  # Nobody waits any more, or there is no descriptor left for them.
        connection.settimeout(0)
        accepted.append(connection)


# Accepting costs about 0.1 ms a connection, so this adds at most a millisecond to a turn.
_ACCEPTED_PER_TURN = 8


async def handles_beside(
    server: asyncio.Server, new_connection: Callable[[], asyncio.BaseProtocol], *, backlog: int
) -> list[asyncio.Server]:
    """Return more handles of a server's listening socket; they do not accept yet."""
    loop = asyncio.get_running_loop()
    descriptor = server.sockets[0].fileno()
    return [
        await loop.create_server(
            new_connection,
            sock=socket.socket(fileno=os.dup(descriptor)),
            backlog=backlog,
            start_serving=False,
        )
        for _ in range(_ACCEPTED_PER_TURN - 1)
    ]


_BACKLOG = 4096
_STOP_SECONDS = 1.0


class ListenError(OperatorError):
    """The address cannot be listened on."""


class Listener:
    """Accepts client connections and closes those that take too long to say what they want."""

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
        self._last_request = CloseAfterResponse(handler)
        self._shared = ListenerState.of(limits, budget)
        self._progress = ResponseProgress()
        self.stalled_responses = 0
        """How many responses were cut off so far because their client took too little of them."""
        self._clock = clock
        self._connections: set[ClientConnection] = set()
        self._nobody_is_there = asyncio.Event()
        self._nobody_is_there.set()
        self._server: asyncio.Server | None = None
        self._handles: list[asyncio.Server] = []

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen, and return the address with the port that was taken."""
        address = await self.bind(host, port)
        await self.accept()
        return address

    async def bind(self, host: str, port: int, *, shares: bool = True) -> tuple[str, int]:
        """Take the address and return it with its port; clients are not sent here yet.

        An address that is shared may be another instance's, too, of the same user: its successor's.
        """
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(
                self._new_connection,
                host,
                port,
                backlog=_BACKLOG,
                reuse_port=shares,
                start_serving=False,
            )
        except OSError as error:
            reason = error.strerror or str(error)
            raise ListenError(f"cannot listen on {host}:{port}: {reason}") from error
        self._handles = await handles_beside(self._server, self._new_connection, backlog=_BACKLOG)
        bound: tuple[str, int] = self._server.sockets[0].getsockname()
        return bound[0], bound[1]

    async def accept(self) -> None:
        """Let clients in, at the address that was taken."""
        if self._server is not None:
            for handle in (self._server, *self._handles):
                await handle.start_serving()

    @property
    def connections(self) -> list[ClientConnection]:
        """Return the connections that are open now."""
        return list(self._connections)

    def close_expired(self) -> None:
        """Close every connection whose deadline has passed; called about once a second.

        One that has grown old ends with its next answer: its client comes again, perhaps to an
        instance that was started since.
        """
        now = self._clock()
        for connection in list(self._connections):
            if connection.deadline is not None and connection.deadline < now:
                connection.expire()
            elif connection.retires_at < now and connection.handler is self.handler:
                connection.handler = self._last_request
        seconds = self._shared.limits.response_progress_seconds
        for connection in self._progress.stalled(self._connections, now, timeout_seconds=seconds):
            self.stalled_responses += 1
            connection.cut_off()

    def set_handler(self, handler: RequestHandler) -> None:
        """Let another handler have the requests that come from now on, in the same way.

        A connection that has grown old still ends with its next answer.
        """
        retiring, self._last_request = self._last_request, CloseAfterResponse(handler)
        self.handler = handler
        for connection in self._connections:
            is_retiring = connection.handler is retiring
            connection.handler = self._last_request if is_retiring else handler

    def set_limits(self, limits: ConnectionLimits) -> None:
        """Hold clients to these limits; nobody who is here has to leave for that."""
        self._shared = self._shared.current_limits(limits)
        for connection in self._connections:
            connection.set_limits(limits)

    def set_drain_handler(self, handler: RequestHandler) -> None:
        """Let another handler have every request from now on."""
        self.handler = handler
        for connection in self._connections:
            connection.handler = handler

    async def stop_accepting(self) -> None:
        """Accept nobody but those who already wait; every connection goes on."""
        server, self._server = self._server, None
        if server is None:
            return
        waiting = accept_pending(server.sockets)
        for handle in (server, *self._handles):
            handle.close()
        for accepted in waiting:
            await asyncio.get_running_loop().connect_accepted_socket(self._new_connection, accepted)

    def close_unreachable(self) -> None:
        """Let go of clients that answer nothing on the level of TCP; called now and then."""
        for connection in list(self._connections):
            connection.abort_if_unreachable()

    def set_tls_context(self, context: SSL.Context) -> None:
        """Meet new clients by this context; whoever is here stays."""
        self._context = context

    @property
    def handshake_failures(self) -> Mapping[str, int]:
        """Return how many handshakes failed so far, by reason."""
        return self._shared.failures.counts

    @property
    def evictions(self) -> Mapping[str, int]:
        """Return how many connections were closed for a newcomer so far, by reason."""
        return self._shared.door.evictions

    @property
    def unauthenticated(self) -> int:
        """Return how many connections have had no authenticated request."""
        return self._shared.door.unauthenticated

    def take_rejected_count(self) -> int:
        """Return how many clients found no place since the last time of asking."""
        return self._shared.door.take_rejected_count()

    async def stop(self) -> None:
        """Accept no more and close every connection; what was written is sent, for a moment."""
        if self._server is not None:
            for handle in (self._server, *self._handles):
                handle.close()
        for connection in list(self._connections):
            connection.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STOP_SECONDS):
                await self._nobody_is_there.wait()
        for connection in list(self._connections):
            connection.expire()

    def _new_connection(self) -> asyncio.Protocol:
        connection = ClientConnection(
            context=self._context,
            handler=self.handler,
            shared=self._shared,
            clock=self._clock,
            on_lost=self._forget,
        )
        # Not all at the same time: those of a storm of connections would come again as a storm.
        age_seconds = self._shared.limits.age_seconds * random.uniform(0.8, 1.2)  # noqa: S311 - no secret
        connection.retires_at = self._clock() + age_seconds
        self._connections.add(connection)
        self._nobody_is_there.clear()
        return connection.as_protocol()

    def _forget(self, connection: ClientConnection) -> None:
        self._connections.discard(connection)
        if not self._connections:
            self._nobody_is_there.set()
