"""Connections to the API server: kept while idle, opened when none is, and never rationed.

Every watch and every tunnel holds one, so a bound would make somebody wait without a word. What
bounds them is the number of our clients' connections.
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import Protocol

from proxy.concurrency.task_set import TaskSet
from proxy.core.errors import UpstreamUnavailable
from proxy.upstream.connection import UpstreamConnection
from proxy.upstream.endpoints import Endpoint, EndpointSet
from proxy.wire.http1.response_parser import ResponseHeadCache
from proxy.wire.tcp import UNREACHABLE_SECONDS

# The API server closes idle connections after 90 s; ours end well before, so that a request
# seldom meets a connection that is just being closed.
IDLE_SECONDS = 45.0
_RETRY_AFTER_SECONDS = 1


class PoolCounter(Protocol):
    """Learns what became of connecting."""

    def upstream_connected(self) -> None:
        """Count a connection that was opened."""
        ...

    def upstream_not_connected(self, reason: str) -> None:
        """Count one that could not be: timeout, tls or refused."""
        ...


class ConnectionPool:
    """Idle connections, newest first, so that a quiet time lets the others grow old."""

    def __init__(
        self,
        endpoints: EndpointSet,
        *,
        connect_timeout_seconds: float,
        clock: Callable[[], float],
        tasks: TaskSet,
        counter: PoolCounter | None = None,
    ) -> None:
        self._endpoints = endpoints
        # An endpoint that is not among them is of an earlier certificate of ours, or an earlier CA.
        self._known = endpoints.known
        self._connect_timeout_seconds = connect_timeout_seconds
        self._clock = clock
        self._tasks = tasks
        self._idle: list[UpstreamConnection] = []
        self._all: set[UpstreamConnection] = set()
        self._counter = counter
        self._heads = ResponseHeadCache()
        self._is_retired = False

    @property
    def idle(self) -> int:
        """How many connections wait for a request."""
        return len(self._idle)

    @property
    def busy(self) -> int:
        """How many connections carry one, or are being opened."""
        return len(self._all) - len(self._idle)

    @property
    def is_empty(self) -> bool:
        """Tell whether no connection is open."""
        return not self._all

    def acquire_idle(self) -> UpstreamConnection | None:
        """Return a connection that is ready for a request, if there is one.

        One that presents an earlier certificate of ours, or trusts an earlier CA, is not.
        """
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_open:
                continue
            if connection.endpoint in self._known.endpoints:
                return connection
            connection.close()
        return None

    async def connect(self) -> UpstreamConnection:
        """Open a new connection, to the first endpoint that lets us."""
        # A task of its own, because a timeout needs one and the caller may not be in any.
        connecting = self._tasks.start(self._connect())
        try:
            return await asyncio.shield(connecting)
        except asyncio.CancelledError:
            # Whoever wanted it has left, perhaps in the very moment it was ready.
            connecting.add_done_callback(self._keep_unwanted)
            raise

    def release(self, connection: UpstreamConnection) -> None:
        """Keep an open connection that has nothing left to do, or close it if its time is over."""
        if self._is_retired or connection.endpoint not in self._known.endpoints:
            connection.close()
            return
        connection.is_reused = True
        connection.idle_since = self._clock()
        self._idle.append(connection)

    def close_old(self) -> None:
        """Close what has been idle for too long or is outdated; called now and then."""
        oldest_allowed = self._clock() - IDLE_SECONDS
        self._close_idle(
            lambda one: one.idle_since < oldest_allowed or one.endpoint not in self._known.endpoints
        )

    def close_unreachable(self, *, after_seconds: float = UNREACHABLE_SECONDS) -> None:
        """Break off what is under way with an API server that is gone; called now and then."""
        for connection in list(self._all):
            connection.cut_off_if_unreachable(after_seconds)

    def retire(self) -> None:
        """Keep nothing for later: what is idle is closed, and what is busy with its exchange."""
        self._is_retired = True
        self._close_idle(lambda _one: True)

    def close(self) -> None:
        """Close every connection, busy ones too."""
        for connection in list(self._all):
            connection.abandon()

    async def _connect(self) -> UpstreamConnection:
        candidates = self._endpoints.in_order()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._connect_timeout_seconds
        failure: Exception | None = None
        for position, endpoint in enumerate(candidates):
            # An equal share of what is left, so that one that swallows connections leaves time
            # for the others.
            share = (deadline - loop.time()) / (len(candidates) - position)
            try:
                async with asyncio.timeout(share):
                    connection = await self._open(endpoint)
            except (OSError, TimeoutError) as error:  # TLS errors are OSErrors
                failure = error
                self._failed(endpoint, error)
            else:
                self._endpoints.reached(endpoint)
                if self._counter is not None:
                    self._counter.upstream_connected()
                return connection
        # Nothing of the request was sent to anybody, so the client may safely send it again.
        raise UpstreamUnavailable(
            "the API server cannot be reached", retry_after_seconds=_RETRY_AFTER_SECONDS
        ) from failure

    async def _open(self, endpoint: Endpoint) -> UpstreamConnection:
        connection = UpstreamConnection(
            endpoint, heads=self._heads, on_idle=self.release, on_lost=self._forget
        )
        is_ready = False
        try:
            await asyncio.get_running_loop().create_connection(
                connection.as_protocol, endpoint.host, endpoint.port
            )
            self._all.add(connection)
            await connection.ready
            is_ready = True
        finally:
            if not is_ready:
                connection.abandon()
        return connection

    def _failed(self, endpoint: Endpoint, error: Exception) -> None:
        self._endpoints.failed(endpoint, error)
        if self._counter is not None:
            self._counter.upstream_not_connected(_reason(error))
        if len(self._endpoints.all) > 1:
            # Who takes no new connections may be going away: what is idle there would be the
            # next to fail, and there is somebody else to ask.
            self._close_idle(lambda one: one.endpoint.address == endpoint.address)

    def _close_idle(self, is_over: Callable[[UpstreamConnection], bool]) -> None:
        for connection in [one for one in self._idle if is_over(one)]:
            self._idle.remove(connection)
            connection.close()

    def _keep_unwanted(self, connecting: asyncio.Task[UpstreamConnection]) -> None:
        if not connecting.cancelled() and connecting.exception() is None:
            connection = connecting.result()
            if connection.is_open:
                self.release(connection)

    def _forget(self, connection: UpstreamConnection) -> None:
        self._all.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "timeout"
    return "tls" if isinstance(error, ssl.SSLError) else "refused"
